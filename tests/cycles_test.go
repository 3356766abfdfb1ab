package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestCycles makes faults at random moments under writers: the stream is cut at a random byte, everything is cut, the
// stream is held up, the daemon or the server is killed. After each the cache comes to equal the database. The short
// form makes a few; "make torture-long" sets BINLOGCACHE_TORTURE_CYCLES.
func TestCycles(t *testing.T) {
	t.Parallel()
	cycles, err := strconv.Atoi(os.Getenv("BINLOGCACHE_TORTURE_CYCLES"))
	if err != nil {
		cycles = 12
	}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			// Now one that loses nothing in a crash, now one that does: decided by chance.
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			flush := rng.IntN(2)
			s := testmysql.Private(t, flavor, fmt.Sprintf("--innodb-flush-log-at-trx-commit=%d", flush))
			db := s.DB(t)
			mustExec(t, db, "CREATE DATABASE k")
			fillTable(t, db, "k.w", 2000)
			source := testmysql.NewProxy(t, s)
			d := start(t, source.DSN, "k.*").waitReady()
			count := map[string]int{}
			begin := time.Now()
			for i := range cycles {
				w := startWriters(t, db, "k.w", 2)
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				fault := "stream cut"
				switch n := rng.IntN(100); {
				case i == cycles/3 || n < 2: // at least one of each in the short form too
					fault = "server killed"
					s.Kill()
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
					s.Start()
				case i == cycles/2 || n < 10:
					fault = "daemon killed"
					d.kill()
					d = start(t, source.DSN, "k.*")
					d.waitReady()
				case n < 25:
					fault = "all cut"
					source.Reset.Store(rng.IntN(2) == 0)
					source.Cut()
				case n < 40:
					fault = "pause"
					source.PauseFor.Store(rng.Int64N(int64(200 * time.Millisecond)))
					source.PauseAfter.Store(rng.Int64N(20_000))
				default:
					source.Reset.Store(rng.IntN(2) == 0)
					source.CutAfter.Store(rng.Int64N(20_000))
				}
				count[fault]++
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				w.stop()
				source.CutAfter.Store(-1)
				source.PauseAfter.Store(-1)
				eventually(t, "following after: "+fault, func() error {
					if st := d.status(); !st.Source.Connected {
						return fmt.Errorf("%+v", st.Source)
					}
					return nil
				})
				d.waitReady()
				mustEqual(t, s, d, "k", "w")
				if (i+1)%50 == 0 {
					fmt.Printf("%s: %d of %d cycles in %v: %v\n", flavor, i+1, cycles, time.Since(begin).Round(time.Second), count)
				}
			}
			t.Logf("flush at commit: %d; %d cycles in %v: %v", flush, cycles, time.Since(begin).Round(time.Second), count)
		})
	}
}

// kill ends the daemon without any warning to it.
func (d *daemon) kill() {
	d.t.Helper()
	d.stopped = true
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	<-d.exited
}
