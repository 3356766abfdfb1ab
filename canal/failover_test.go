package canal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// pair is a primary and its replica, each behind a proxy, and a follower that has both for its candidates.
type pair struct {
	*rig
	primary, replica testmysql.Server
	// proxies and conns are those of the primary and of the replica.
	proxies [2]*proxy
	conns   [2]*sqltext.Conn
	led     []string // the addresses that Config.Led was called with, from Run's goroutine
}

func newPair(t *testing.T, flavor string) *pair {
	options := []string{"--log-slave-updates=ON"}
	if flavor == testmysql.MariaDB {
		options = append(options, "--gtid-strict-mode=OFF") // a replica that is written to goes on
	}
	p := &pair{primary: testmysql.Private(t, flavor, options...), replica: testmysql.Private(t, flavor, options...)}
	testmysql.Replicate(t, p.replica, p.primary)
	p.rig = newRig(t, p.primary, deepRecursion(p.primary), tableW, fillW(500))
	testmysql.CatchUp(t, p.replica, p.primary)
	p.conns = [2]*sqltext.Conn{p.conn, dial(t, p.replica)}
	if err := p.conns[1].Exec(t.Context(), "USE "+p.schema); err != nil {
		t.Fatal(err)
	}
	p.proxies = [2]*proxy{newProxy(t, address(t, p.primary)), newProxy(t, address(t, p.replica))}
	p.proxies[1].down.Store(true)
	p.start(func(cfg *Config) {
		p.proxies[0].through(cfg)
		cfg.Fallbacks = []*sqltext.Config{p.proxies[1].of(cfg.Source)}
		cfg.Patience = 100 * time.Millisecond
		cfg.Led = func(source *sqltext.Config) { p.led = append(p.led, source.Address) }
	}, func(f *Follower) {
		f.candidates.catchUp, f.candidates.longest = 2*time.Second, 200*time.Millisecond
		f.watchEvery = 200 * time.Millisecond
	})
	p.same("w")
	return p
}

// turn takes one server away and leaves the other: 0 for the primary. It does not wait.
func (p *pair) turn(to int) {
	p.proxies[to].down.Store(false)
	p.proxies[1-to].down.Store(true)
	p.proxies[1-to].cut()
	p.conn = p.conns[to]
}

// at waits until a server is followed and all that it has is here, and checks how often the table was loaded so far.
func (p *pair) at(server, loads int) {
	p.t.Helper()
	want := p.proxies[server].listener.Addr().String()
	p.eventually(want+" is followed", func() bool {
		st := p.f.Status()
		return st.Connected && st.Address == want
	})
	p.same("w")
	if n := p.sink.loadsOf(p.schema + ".w"); n != loads {
		p.t.Errorf("%d loads in place of %d: %v", n, loads, p.sink.events)
	}
}

func (p *pair) live() {
	p.t.Helper()
	if state, reason := p.sink.state(p.schema + ".w"); state != "live" {
		p.t.Errorf("the table is %s: %s", state, reason)
	}
}

// What two candidates make possible, one after the other with the same two servers.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, flavor)
			p.purged(1)
			p.unset(2)
			p.turn(0)
			p.at(0, 2)

			// The replica is behind, and then it is not.
			behind := p.f.Status().Reconnects[ReasonBehind]
			p.replica.StopReplica()
			p.exec("DELETE FROM w WHERE id < 100")
			p.same("w")
			p.turn(1)
			p.eventually("the replica is found to be behind", func() bool { return p.f.Status().Reconnects[ReasonBehind] > behind })
			p.live()
			if got := p.f.Status().Address; got != p.proxies[0].listener.Addr().String() {
				t.Errorf("%s is followed before it has caught up", got)
			}
			p.replica.StartReplica()
			p.at(1, 2)

			// The replica is ahead of what was seen of the primary.
			p.turn(0)
			p.at(0, 2)
			p.proxies[0].down.Store(true)
			p.proxies[0].cut()
			p.exec("INSERT INTO w VALUES (1, 2, 'last')")
			testmysql.CatchUp(t, p.replica, p.primary)
			p.turn(1)
			p.at(1, 2)
			// A load now reads from the replica.
			p.exec("UPDATE w SET v = v + 7 WHERE id = 300")
			p.f.reload(p.f.tables.find(schema.Name{Schema: p.schema, Table: "w"}), "test")
			p.at(1, 3)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := p.f.WaitApplied(ctx, p.executed()); err != nil {
				t.Error(err)
			}

			behind = p.f.Status().Reconnects[ReasonBehind]
			// That write is not on the primary and does not come there.
			p.turn(0)
			p.eventually("the primary lacks something", func() bool { return p.f.Status().Reconnects[ReasonBehind] > behind })
			p.live()
			p.at(0, 4)

			// On the replica it stands before what the primary writes now. Brought after that it would do harm that no
			// before-image shows, and so would its absence.
			p.exec("UPDATE w SET v = v + 1000 WHERE id = 300")
			p.exec("UPDATE w SET v = v - 1000 WHERE id = 300")
			p.same("w")
			testmysql.CatchUp(t, p.replica, p.primary)
			p.turn(1)
			p.at(1, 5)
			p.noGap()

			// Led was called at each turn, in order.
			p.stop()
			a, b := p.proxies[0].listener.Addr().String(), p.proxies[1].listener.Addr().String()
			if got, want := fmt.Sprint(p.led), fmt.Sprint([]string{a, b, a, b, a, b, a, b, a, b}); got != want {
				t.Errorf("led to %s, want %s", got, want)
			}
			if st := p.f.Status(); st.Failovers != 9 || len(st.Candidates) != 2 {
				t.Errorf("status %+v", st)
			}
		})
	}
}

// purged: log files that were not read yet are gone on one server and not on the other; then on both. The primary is
// followed before and the replica afterwards.
func (p *pair) purged(loads int) {
	purge := func(server int) {
		p.conn = p.conns[server]
		p.exec("FLUSH BINARY LOGS")
		logs := func() (last string, files int) {
			if err := p.conn.Query(p.t.Context(), "SHOW BINARY LOGS", func(v [][]byte) error {
				last, files = string(v[0]), files+1
				return nil
			}); err != nil {
				p.t.Fatal(err)
			}
			return last, files
		}
		last, _ := logs()
		// The server keeps files while it still has the old connection.
		p.eventually("files are purged", func() bool {
			p.exec("PURGE BINARY LOGS TO '" + last + "'")
			_, files := logs()
			return files == 1
		})
	}
	away := func() {
		for _, proxy := range p.proxies {
			proxy.down.Store(true)
			proxy.cut()
		}
		p.conn = p.conns[0]
		p.exec("UPDATE w SET v = v + 1")
		testmysql.CatchUp(p.t, p.replica, p.primary)
	}
	behind := p.f.Status().Reconnects[ReasonBehind]
	away()
	purge(1)
	p.proxies[1].down.Store(false)
	p.eventually("the replica is found to lack log files", func() bool { return p.f.Status().Reconnects[ReasonBehind] > behind })
	p.live()
	p.turn(0)
	p.at(0, loads)

	away()
	purge(1)
	p.replica.StopReplica() // it holds files of the primary
	purge(0)
	p.turn(1)
	p.at(1, loads+1)
	p.replica.StartReplica()
	p.turn(0)
	p.at(0, loads+1)
}

// unset: a replica with other settings does not take over until they are mended.
func (p *pair) unset(loads int) {
	p.turn(1)
	p.exec("SET GLOBAL binlog_row_image = 'MINIMAL'")
	p.eventually("the replica is refused", func() bool { return p.f.Status().Reconnects[ReasonSettings] > 0 })
	p.live()
	p.exec("SET GLOBAL binlog_row_image = 'FULL'")
	p.at(1, loads)
}

// Candidates that can't take over: not reachable, of the other flavor; and one server twice.
func TestCandidatesRefused(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE kept (id INT PRIMARY KEY, v INT)", "INSERT INTO kept VALUES (1, 1)")
		other := testmysql.Shared(t, map[string]string{testmysql.MySQL: testmysql.MariaDB, testmysql.MariaDB: testmysql.MySQL}[s.Flavor])
		first, last, wrong := newProxy(t, address(t, s)), newProxy(t, address(t, s)), newProxy(t, address(t, other))
		r.start(func(cfg *Config) {
			source := cfg.Source
			first.through(cfg)
			dead := *source
			dead.Address = "127.0.0.1:1"
			cfg.Fallbacks = []*sqltext.Config{&dead, wrong.of(source), last.of(source)}
			cfg.Patience = 50 * time.Millisecond
		}, nil)
		r.same("kept")
		first.down.Store(true)
		first.cut()
		r.eventually("the last one is followed", func() bool { return r.f.Status().Address == last.listener.Addr().String() })
		r.exec("UPDATE kept SET v = 2")
		r.same("kept")
		if n := r.sink.loadsOf(r.schema + ".kept"); n != 1 {
			t.Errorf("%d loads: %v", n, r.sink.events)
		}
		st := r.f.Status()
		if st.Reconnects[ReasonUnfit] != 1 || st.Reconnects[ReasonNetwork] < 2 || st.Failovers != 1 {
			t.Errorf("status %+v", st)
		}
		r.noGap()
	})
}

// When people must mend every candidate the start fails, and says so of each.
func TestNoCandidateFit(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	source, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	a, b := *source, *source
	a.User, b.Password = "nobody", "wrong"
	patterns, err := schema.ParsePatterns("a.b")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Config{Source: &a, Fallbacks: []*sqltext.Config{&b}, Patience: time.Millisecond, Tables: patterns, Sink: newMemSink()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = f.Run(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("Run: %v", err)
	}
	want := []string{source.Address + ": the source refuses the login", source.Address + ": the source refuses the login"}
	for i, line := range strings.Split(err.Error(), "\n") {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d: %s", i, line)
		}
	}
}
