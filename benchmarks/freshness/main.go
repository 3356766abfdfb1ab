// Command freshness measures how soon a committed write can be read through a
// cache that follows the binlog.
//
// It updates one row over the MySQL protocol with a fresh stamp, then asks the
// cache for that row again and again until the answer contains the stamp. Two
// times are reported for each probe: from the moment the UPDATE was sent, and
// from the moment its OK arrived (0 when the first read already had it).
//
//	freshness -my 127.0.0.1:3306 -cache 127.0.0.1:11211 -proto mc \
//	  -sql "UPDATE user SET uname='%s' WHERE id=7" -ask "get user:7" -n 500
//
// -ask is the request without its line end; with -proto hs, -open is sent
// first and its answer line is skipped; write tabs as \t.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/benchmarks/mywire"
)

var (
	my    = flag.String("my", "127.0.0.1:3306", "database: host:port or unix:/path")
	user  = flag.String("user", "b", "database user with an empty password")
	db    = flag.String("db", "bench", "schema")
	cache = flag.String("cache", "127.0.0.1:11211", "cache: host:port")
	proto = flag.String("proto", "mc", "mc | hs")
	open  = flag.String("open", "", `hs: open_index line, e.g. "P\t1\tbench\tuser\tPRIMARY\tid,uname"`)
	ask   = flag.String("ask", "get 1", `read request, e.g. "get user:7" or "1\t=\t1\t7"`)
	sql   = flag.String("sql", "UPDATE user SET uname='%s' WHERE id=1", "statement; %s is the stamp")
	n     = flag.Int("n", 500, "probes")
	gap   = flag.Duration("gap", 10*time.Millisecond, "pause between probes")
	limit = flag.Duration("limit", 5*time.Second, "a probe that takes longer counts as lost")
	pause = flag.Duration("pause", 20*time.Microsecond, "pause between reads (0: none)")
	name  = flag.String("name", "", "label copied to the output")
)

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "freshness:", err)
		os.Exit(1)
	}
}

func read(r *bufio.Reader) (string, error) {
	if *proto == "hs" {
		return r.ReadString('\n')
	}
	var b strings.Builder
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		b.WriteString(l)
		if strings.HasPrefix(l, "END") || strings.HasPrefix(l, "EN\r") || strings.Contains(l, "ERROR") {
			return b.String(), nil
		}
	}
}

func main() {
	flag.Parse()
	mc, err := mywire.Dial(*my)
	die(err)
	mr := bufio.NewReader(mc)
	die(mywire.Login(mc, mr, *user, *db))
	cc, err := net.Dial("tcp", *cache)
	die(err)
	cr := bufio.NewReader(cc)
	tab := strings.NewReplacer(`\t`, "\t")
	end := "\r\n"
	if *proto == "hs" {
		end = "\n"
		fmt.Fprint(cc, tab.Replace(*open), end)
		l, err := read(cr)
		die(err)
		if !strings.HasPrefix(l, "0") {
			die(fmt.Errorf("open_index: %q", l))
		}
	}
	req := []byte(tab.Replace(*ask) + end)
	var sent, acked, ack []float64
	lost, reads := 0, 0
	for i := 0; i < *n; i++ {
		stamp := "s" + strconv.FormatInt(time.Now().UnixNano(), 36)
		t0 := time.Now()
		die(mywire.Exec(mc, mr, fmt.Sprintf(*sql, stamp)))
		t1 := time.Now()
		for first := true; ; first = false {
			_, err := cc.Write(req)
			die(err)
			l, err := read(cr)
			die(err)
			reads++
			t2 := time.Now()
			if strings.Contains(l, stamp) {
				sent = append(sent, float64(t2.Sub(t0).Microseconds()))
				a := float64(t2.Sub(t1).Microseconds())
				if first {
					a = 0
				}
				acked = append(acked, a)
				ack = append(ack, float64(t1.Sub(t0).Microseconds()))
				break
			}
			if t2.Sub(t1) > *limit {
				lost++
				break
			}
			if *pause > 0 {
				time.Sleep(*pause)
			}
		}
		time.Sleep(*gap)
	}
	q := func(v []float64, p float64) float64 {
		if len(v) == 0 {
			return -1
		}
		sort.Float64s(v)
		return v[int(p*float64(len(v)-1))]
	}
	b, _ := json.Marshal(map[string]any{
		"name": *name, "probes": len(sent), "lost": lost, "reads": reads,
		"write_p50_us": q(ack, .5), "write_p99_us": q(ack, .99),
		"sent_to_seen_p50_us": q(sent, .5), "sent_to_seen_p99_us": q(sent, .99),
		"ack_to_seen_p50_us": q(acked, .5), "ack_to_seen_p99_us": q(acked, .99), "ack_to_seen_max_us": q(acked, 1),
	})
	fmt.Println(string(b))
}
