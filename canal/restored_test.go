package canal

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// copyFolder keeps the files of a server that is down.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v %s", from, err, out)
	}
}

// The server comes back as it was at an earlier time: without the last transactions, as after a crash that lost them; then
// with more than before, the same GTIDs standing for other ones; and then without a log file that was not read yet.
func TestRestoredServer(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		p := testmysql.NewProxy(t, s)
		data := filepath.Join(s.Dir, "data")
		backup := filepath.Join(t.TempDir(), "backup")
		r.start(func(cfg *Config) { cfg.Source = parsed(t, p.DSN) }, func(f *Follower) { f.candidates.longest = 200 * time.Millisecond })
		r.same("w")
		away := func(change func()) {
			t.Helper()
			p.Down.Store(true)
			p.Cut()
			change()
			p.Down.Store(false)
		}
		loads := 1
		reloaded := func(what string) {
			t.Helper()
			r.eventually("the table is loaded anew: "+what, func() bool { return r.sink.loadsOf(r.schema+".w") > loads })
			r.same("w")
			loads = r.sink.loadsOf(r.schema + ".w")
		}

		away(func() {
			s.Stop()
			copyFolder(t, data, backup)
			s.Start()
			r.reconnect()
		})
		for range 5 {
			r.exec("UPDATE w SET v = v + 1")
		}
		r.same("w")
		if n := r.sink.loadsOf(r.schema + ".w"); n != loads {
			t.Errorf("%d loads after an orderly restart", n)
		}
		for _, more := range []int{0, 50} {
			r.exec("UPDATE w SET v = v + 1")
			r.same("w")
			away(func() {
				s.Kill()
				time.Sleep(time.Second) // the time of a log file's making has no more than seconds
				if err := os.RemoveAll(data); err != nil {
					t.Fatal(err)
				}
				copyFolder(t, backup, data)
				s.Start()
				r.reconnect()
				for range more {
					r.exec("UPDATE w SET v = v + 100")
				}
			})
			reloaded("restored")
		}

		// A file of the log is gone, the newest of those that were read; what comes next is in another.
		away(func() {
			r.exec("UPDATE w SET v = 8")
			r.exec("FLUSH BINARY LOGS")
			time.Sleep(50 * time.Millisecond)
			file := ""
			if err := r.conn.Query(t.Context(), "SHOW BINARY LOGS", func(v [][]byte) error {
				file = string(v[0])
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			names, err := filepath.Glob(filepath.Join(data, "binlog.[0-9]*"))
			if err != nil || len(names) < 2 {
				t.Fatalf("log files %q, %v", names, err)
			}
			for _, name := range names {
				if filepath.Base(name) < file {
					if err := os.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			index, err := filepath.Glob(filepath.Join(data, "binlog.index"))
			if err != nil || len(index) != 1 {
				t.Fatalf("index %q, %v", index, err)
			}
			if err := os.WriteFile(index[0], []byte("./"+file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.Start()
			r.reconnect()
		})
		r.exec("UPDATE w SET v = 9")
		reloaded("log file gone")
		r.noGap()
	}, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
}

// A server that does not flush at each commit is killed: its log has transactions that its tables have lost.
func TestLossyCrash(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 0, '')")
		r.start(nil, func(f *Follower) { f.candidates.longest = 200 * time.Millisecond })
		r.same("w")
		// In order: nothing is lost, nothing is loaded.
		s.Stop()
		s.Start()
		r.reconnect()
		r.exec("UPDATE w SET v = 1")
		r.same("w")
		if n := r.sink.loadsOf(r.schema + ".w"); n != 1 {
			t.Errorf("%d loads after an orderly restart", n)
		}
		lost := false
		for kill := range 2 {
			time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond) // the log is flushed each second
			for range 50 {
				r.exec("UPDATE w SET v = v + 1")
			}
			want := 1 + 50
			s.Kill()
			s.Start()
			r.reconnect()
			if err := r.conn.Query(t.Context(), "SELECT v FROM w", func(v [][]byte) error {
				lost = lost || string(v[0]) != strconv.Itoa(want)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r.eventually("the table is loaded anew", func() bool { return r.sink.loadsOf(r.schema+".w") > 1+kill })
			r.same("w")
			r.exec("UPDATE w SET v = 1")
			r.same("w")
		}
		t.Logf("the server has lost transactions: %v", lost)
		r.noGap()
	}, "--innodb-flush-log-at-trx-commit=0")
}

// The log is reset while nobody looks, and gets as many transactions as it had, under the same numbers, but in fewer files:
// the file that was read last is not there.
func TestResetIntoFewerFiles(t *testing.T) {
	t.Parallel()
	for flavor, reset := range map[string]string{testmysql.MariaDB: "RESET MASTER", testmysql.MySQL: "RESET BINARY LOGS AND GTIDS"} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor, "--innodb-flush-log-at-trx-commit=1")
			r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')", "CREATE TABLE other (id INT PRIMARY KEY)")
			for range 3 {
				r.exec("FLUSH BINARY LOGS")
			}
			p := testmysql.NewProxy(t, s)
			r.start(func(cfg *Config) { cfg.Source = parsed(t, p.DSN) }, func(f *Follower) { f.candidates.longest = 200 * time.Millisecond })
			r.same("w")
			loads := r.sink.loadsOf(r.schema + ".w")
			p.Down.Store(true)
			p.Cut()
			r.exec("UPDATE w SET v = 7")
			r.exec(reset)
			for i := range 40 {
				r.exec("INSERT INTO other VALUES (" + strconv.Itoa(i) + ")")
			}
			p.Down.Store(false)
			r.eventually("the table is loaded anew", func() bool { return r.sink.loadsOf(r.schema+".w") > loads })
			r.same("w", "other")
			r.noGap()
		})
	}
}
