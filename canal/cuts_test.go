package canal

import (
	"context"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// cycles is how many faults a test makes: few usually, as many as BINLOGCACHE_TORTURE_CYCLES says in "make
// torture-long".
func cycles(t *testing.T, few int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("BINLOGCACHE_TORTURE_CYCLES"))
	if err != nil {
		return few
	}
	return n
}

// The stream is cut, reset or held up after each byte of a transaction of three events, and after each byte of what a
// stream begins with. In the short form after some of them, spread over all.
func TestEveryByte(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) { // nobody else's bytes
		source := testmysql.NewProxy(t, s)
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO a VALUES (1, 1000), (2, 1000), (3, 0)")
		// What is started from here on carries the label.
		pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("follower", t.Name())))
		defer pprof.SetGoroutineLabels(context.Background())
		// Money moves between two rows: no reader may see the sum change.
		r.sink.onApply = func(m *memTable) {
			sum := 0
			for _, row := range m.rows {
				v, _ := rowcodec.Row(row.row).Value(1)
				n, err := strconv.Atoi(string(v))
				if err != nil {
					t.Error(err)
				}
				sum += n
			}
			if sum != 2000 {
				r.sink.breach("the sum is %d", sum)
			}
		}
		r.start(func(cfg *Config) {
			cfg.Source = parsed(t, source.DSN)
			cfg.ServerID = 1<<31 + uint32(os.Getpid())
		}, func(f *Follower) { f.candidates.longest = time.Millisecond })
		r.same("a")
		move := func() {
			r.exec("BEGIN")
			r.exec("UPDATE a SET v = v - 1 WHERE id = 1")
			r.exec("UPDATE a SET v = v + 1 WHERE id = 2")
			r.exec("UPDATE a SET v = 0 - v WHERE id = 3")
			r.exec("COMMIT")
		}
		// The size of a transaction and of the beginning of a stream, in which heartbeats may be counted too.
		before := source.Streamed.Load()
		move()
		r.same("a")
		size := source.Streamed.Load() - before
		before = source.Streamed.Load()
		source.CutStreams()
		r.eventually("another stream", func() bool { return source.Streams.Load() > 1 && r.f.Status().Connected })
		move()
		r.same("a")
		opening := source.Streamed.Load() - before

		n := int64(cycles(t, 40))
		begin := time.Now()
		for i := range n {
			at := i % opening
			if n < opening {
				at = i * opening / n
			}
			switch source.Reset.Store(i%2 == 1); {
			case i%10 == 9:
				source.PauseFor.Store(int64(5 * time.Millisecond))
				source.PauseAfter.Store(at % size)
				move()
			case at < size:
				source.CutAfter.Store(at)
				move()
				r.eventually("the cut", func() bool { return source.CutAfter.Load() < 0 })
			default:
				source.CutAfter.Store(at)
				source.CutStreams()
				move()
				r.eventually("the cut", func() bool { return source.CutAfter.Load() < 0 })
			}
			r.same("a")
			if i%100 == 99 {
				t.Logf("%d cycles, %v each", i+1, (time.Since(begin) / time.Duration(i+1)).Round(time.Microsecond))
			}
		}
		r.noGap()
		if n := r.sink.loadsOf(r.schema + ".a"); n != 1 {
			t.Errorf("%d loads: %v", n, r.f.Status().Reconnects)
		}
		t.Logf("%d cycles over %d bytes, of which %d are a transaction; %d cuts; reconnects %v", n, opening, size, source.Cuts.Load(), r.f.Status().Reconnects)
		if labelled(t, t.Name()) < 3 {
			t.Error("the follower's goroutines are not counted")
		}
		r.stop()
		r.eventually("no goroutine is left", func() bool { return labelled(t, t.Name()) <= 1 })
	})
}

// labelled counts the goroutines with a label, the caller's included: tests run side by side.
func labelled(t *testing.T, label string) (n int) {
	t.Helper()
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	for group := range strings.SplitSeq(text.String(), "\n\n") {
		if !strings.Contains(group, strconv.Quote(label)) {
			continue
		}
		for line := range strings.SplitSeq(group, "\n") {
			if count, _, ok := strings.Cut(line, " @ "); ok {
				if c, err := strconv.Atoi(count); err == nil {
					n += c
				}
			}
		}
	}
	return n
}

// What follows is proved at once, in spite of clocks and of streams that are late.
func TestProofs(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		source := testmysql.NewProxy(t, s)
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO a VALUES (1, 0)")
		r.start(func(cfg *Config) {
			cfg.Source = parsed(t, source.DSN)
			cfg.ProveEvery = func() time.Duration { return 10 * time.Millisecond }
		}, nil)
		r.same("a")
		young := func() bool {
			b := r.f.Status().Behind
			return b > 0 && b < 100*time.Millisecond
		}
		r.eventually("a proof", young)
		// The server can be asked, but the stream is late.
		source.Stalled.Store(true)
		r.exec("UPDATE a SET v = 1")
		time.Sleep(300 * time.Millisecond)
		if b := r.f.Status().Behind; b < 280*time.Millisecond {
			t.Errorf("behind by %v though nothing has come for 300ms", b)
		}
		source.Stalled.Store(false)
		r.eventually("a proof after the stall", young)
		r.compare("a")
		// It moves on while the log grows all the time and there is never a heartbeat.
		proofs, last := 0, time.Duration(0)
		r.eventually("proofs beside writes", func() bool {
			r.exec("UPDATE a SET v = v + 1")
			b := r.f.Status().Behind
			if b < last {
				proofs++ // it grows with time, and only a proof makes it less
			}
			last = b
			return proofs == 20
		})
	})
}

// parsed is a configuration of a DSN.
func parsed(t *testing.T, dsn string) *sqltext.Config {
	t.Helper()
	cfg, err := sqltext.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
