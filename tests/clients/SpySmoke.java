// spymemcached smoke test: text, then binary. java -cp spymemcached.jar SpySmoke.java
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;

public class SpySmoke {
    static void check(boolean ok, String what) {
        if (!ok) {
            System.err.println("FAILED: " + what);
            System.exit(1);
        }
    }

    static void smoke(MemcachedClient c, String p) throws Exception {
        check(!c.getVersions().isEmpty(), "version");
        check(c.set(p + "a", 60, "one").get() && "one".equals(c.get(p + "a")) && c.get(p + "absent") == null, "set and get");
        check(c.set(p + "i", 0, 42).get() && Integer.valueOf(42).equals(c.get(p + "i")), "an integer keeps its type (flags)");
        check(!c.add(p + "a", 0, "x").get() && c.add(p + "b", 0, "x").get() && c.replace(p + "a", 0, "two").get() && !c.replace(p + "absent", 0, "x").get(), "add and replace");
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            keys.add(p + "m" + i);
            c.set(p + "m" + i, 0, "value " + i);
        }
        check(c.waitForQueues(10, TimeUnit.SECONDS), "queues");
        Map<String, Object> many = c.getBulk(keys);
        check(many.size() == 300 && "value 77".equals(many.get(p + "m77")), "getBulk: " + many.size());
        CASValue<Object> v = c.gets(p + "a");
        check(c.cas(p + "a", v.getCas(), "three") == CASResponse.OK && c.cas(p + "a", v.getCas(), "four") == CASResponse.EXISTS, "cas");
        check(c.append(p + "a", "!").get() && c.prepend(p + "a", ">").get() && ">three!".equals(c.get(p + "a")), "append and prepend");
        check(c.incr(p + "n", 5, 10) == 10 && c.incr(p + "n", 5) == 15 && c.decr(p + "n", 50) == 0, "incr and decr");
        check(c.touch(p + "a", 100).get(), "touch");
        check(c.delete(p + "a").get() && c.get(p + "a") == null && !c.delete(p + "a").get(), "delete");
        check(c.getStats().values().iterator().next().containsKey("curr_items"), "stats");
        check(c.flush().get(), "flush");
    }

    static void rows(MemcachedClient c, String p) throws Exception {
        check(c.set(p + "set", 0, "hello").get() && "hello".equals(c.get(p + "set")) && !c.add(p + "set", 0, "x").get(), "set and add");
        check(c.add(p + "add", 0, "a1").get() && c.set(p + "n", 0, "10").get() && c.incr(p + "n", 5) == 15, "add and incr");
        check(c.set(p + "gone", 0, "x").get() && c.delete(p + "gone").get() && c.get(p + "gone") == null, "delete");
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((t, e) -> { e.printStackTrace(); System.exit(1); }); // its threads would go on
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.Logger.getLogger("").setLevel(java.util.logging.Level.SEVERE);
        List<InetSocketAddress> at = AddrUtil.getAddresses(System.getenv("MC_HOST") + ":" + System.getenv("MC_PORT"));
        for (String kind : new String[] {"t", "b"}) {
            MemcachedClient c = new MemcachedClient(kind.equals("t") ? new DefaultConnectionFactory() : new BinaryConnectionFactory(), at);
            String rows = System.getenv("MC_ROWS");
            if (rows == null) {
                smoke(c, "spy" + kind + ":");
            } else {
                rows(c, rows + kind);
            }
            c.shutdown(5, TimeUnit.SECONDS);
        }
        System.out.println("OK spymemcached");
        System.exit(0);
    }
}
