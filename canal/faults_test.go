package canal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// proxy is a TCP relay to a server, which tests cut, stop and close.
type proxy struct {
	listener net.Listener
	target   atomic.Value // of string: where new connections lead
	wg       sync.WaitGroup
	down     atomic.Bool   // new connections are closed at once
	stalled  atomic.Bool   // nothing is passed on
	budget   atomic.Int64  // bytes from the server until the next cut; 0: none planned
	cuts     atomic.Uint64 // that were made by budget

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, conns: map[net.Conn]struct{}{}}
	p.target.Store(target)
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if p.down.Load() {
				c.Close()
				continue
			}
			s, err := net.Dial("tcp", p.target.Load().(string))
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns[c], p.conns[s] = struct{}{}, struct{}{}
			p.mu.Unlock()
			p.wg.Go(func() { p.relay(s, c, false) })
			p.wg.Go(func() { p.relay(c, s, true) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.down.Store(true)
		p.stalled.Store(false)
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) relay(to, from net.Conn, counted bool) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	buffer := make([]byte, 8192)
	for {
		n, err := from.Read(buffer)
		for p.stalled.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if counted && n > 0 && p.budget.Load() > 0 && p.budget.Add(-int64(n)) <= 0 {
			p.cuts.Add(1)
			_, _ = to.Write(buffer[:n/2])
			p.cut()
			return
		}
		if n > 0 {
			if _, werr := to.Write(buffer[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// through leads a configuration's connections over the proxy.
func (p *proxy) through(cfg *Config) {
	cfg.Source = p.of(cfg.Source)
}

// of is a server's configuration with the proxy's address.
func (p *proxy) of(source *sqltext.Config) *sqltext.Config {
	own := *source
	own.Address = p.listener.Addr().String()
	return &own
}

func address(t *testing.T, s testmysql.Server) string {
	t.Helper()
	cfg, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Address
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			r.fail("not within 60 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// noGap fails when the stream did not fit what was there.
func (r *rig) noGap() {
	r.t.Helper()
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, e := range r.sink.events {
		if strings.Contains(e, "gap:") {
			r.t.Error(e)
		}
	}
}

// Connections are cut again and again, in the middle of snapshots and of the stream, while others write.
func TestCutConnections(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(3000))
		p := newProxy(t, address(t, s))
		r.start(func(cfg *Config) {
			cfg.ChunkRows = 50
			p.through(cfg)
		}, func(f *Follower) {
			f.mostRows = 50
			f.hooks = map[hookPoint]func(schema.Name){hookChunkRead: func(schema.Name) { time.Sleep(time.Millisecond) }}
		})
		r.settleLive("w")
		stop := make(chan struct{})
		wg := r.writers(2, 3300, stop)
		for round := range 12 {
			if round%4 == 3 {
				r.f.reload(r.f.tables.find(tableName(r, "w")), "again")
			}
			cuts := p.cuts.Load()
			p.budget.Store(20_000 + rand.Int64N(300_000))
			r.eventually("a cut", func() bool { return p.cuts.Load() > cuts })
		}
		r.settleLive("w")
		close(stop)
		wg.Wait()
		r.same("w")
		r.noGap()
		st := r.f.Status()
		if st.Reconnects[ReasonNetwork] == 0 || st.Loads < 2 {
			t.Errorf("%d reconnects, %d loads", st.Reconnects[ReasonNetwork], st.Loads)
		}
		for reason, n := range st.Reconnects {
			if reason != ReasonNetwork {
				t.Errorf("%d reconnects: %s", n, reason)
			}
		}
		t.Logf("reconnects: %v", st.Reconnects)
	})
}

// A snapshot goes on after the piece that it has come to when its connection is lost.
func TestSnapshotGoesOn(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(2000), "CREATE TABLE e (k ENUM('a', 'b', 'c') PRIMARY KEY, v INT)",
			"INSERT INTO e VALUES ('a', 1), ('c', 2)")
		p := newProxy(t, address(t, s))
		pieces := atomic.Int64{}
		r.start(func(cfg *Config) {
			cfg.ChunkRows = 10
			p.through(cfg)
		}, func(f *Follower) {
			f.mostRows = 10
			f.hooks = map[hookPoint]func(schema.Name){hookChunkRead: func(schema.Name) {
				if pieces.Add(1)%50 == 0 {
					p.cut()
				}
			}}
		})
		r.same("w", "e")
		if n := r.sink.loadsOf(r.schema + ".w"); n != 1 {
			t.Errorf("%d loads", n)
		}
		if n := pieces.Load(); n < 200 || n > 230 {
			t.Errorf("%d pieces", n)
		}
	})
}

// A connection that shows nothing at all is given up.
func TestSilentStream(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)")
		p := newProxy(t, address(t, s))
		r.start(func(cfg *Config) {
			cfg.Heartbeat = 100 * time.Millisecond
			p.through(cfg)
		}, nil)
		r.same("a")
		p.stalled.Store(true)
		r.exec("INSERT INTO a VALUES (1, 1)")
		r.eventually("silence is noticed", func() bool { return r.f.Status().Reconnects[ReasonSilent] > 0 })
		if st := r.f.Status(); st.Connected || st.HeartbeatAge < 100*time.Millisecond || st.Behind < 100*time.Millisecond {
			t.Errorf("status %+v", st)
		}
		p.stalled.Store(false)
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

// The source is not there at the start, then comes.
func TestUnreachableAtStart(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1)")
		p := newProxy(t, address(t, s))
		p.down.Store(true)
		r.start(p.through, nil)
		r.eventually("tries", func() bool { return r.f.Status().Reconnects[ReasonNetwork] > 2 })
		if st := r.f.Status(); st.Connected || st.Trouble == "" {
			t.Errorf("status %+v", st)
		}
		p.down.Store(false)
		r.same("a")
	})
}

// A connection that is cut at any point of the check is an error of the check and no problem of the source.
func TestCheckOverCutConnections(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY)")
		source, err := sqltext.ParseDSN(s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Source: source}
		p := newProxy(t, address(t, s))
		p.through(&cfg)
		patterns, err := schema.ParsePatterns(r.schema + ".a")
		if err != nil {
			t.Fatal(err)
		}
		failed, within := 0, 0
		for budget := int64(50); budget < 4000; budget += 100 {
			p.budget.Store(budget)
			problems, err := Check(t.Context(), cfg.Source, patterns)
			if len(problems) > 0 {
				t.Errorf("cut after %d bytes: %v", budget, problems)
			}
			if err != nil {
				failed++
				if strings.Contains(err.Error(), "log cannot be read") {
					within++
				}
			}
		}
		if failed < 10 || within == 0 {
			t.Errorf("%d checks failed, %d of them because of the log", failed, within)
		}
	})
}

// Run must end at once, whatever the source does.
func TestStopWithDeadSource(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	patterns, err := schema.ParsePatterns("a.b")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Config{Source: &sqltext.Config{Network: "tcp", Address: l.Addr().String()}, Tables: patterns, Sink: newMemSink()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	waited := make(chan error, 1)
	go func() { waited <- f.WaitApplied(context.Background(), "0-1-1") }()
	if err := f.Run(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if err := <-waited; err != ErrStopped {
		t.Errorf("WaitApplied: %v", err)
	}
}

func TestStopDuringSnapshot(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(5000), "CREATE TABLE e (k ENUM('a', 'b') PRIMARY KEY)", "INSERT INTO e VALUES ('a')")
		reached := make(chan struct{}, 1000)
		r.start(func(cfg *Config) { cfg.ChunkRows = 10 }, func(f *Follower) {
			f.mostRows = 10
			f.hooks = map[hookPoint]func(schema.Name){hookChunkRead: func(schema.Name) {
				reached <- struct{}{}
				time.Sleep(2 * time.Millisecond)
			}}
		})
		<-reached
		<-reached
		r.stop()
	})
}

// The server is killed while it is written to; live tables stay what they are and go on.
func TestKilledServer(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(1000))
		r.start(nil, nil)
		r.settleLive("w")
		for range 2 {
			stop := make(chan struct{})
			wg := r.writers(2, 1000, stop)
			time.Sleep(300 * time.Millisecond)
			s.Kill()
			close(stop)
			wg.Wait()
			if state, _ := r.sink.state(r.schema + ".w"); state != "live" {
				t.Errorf("table is %s while the server is down", state)
			}
			s.Start()
			r.reconnect()
			r.exec("UPDATE w SET v = v + 1 WHERE id < 100")
			r.same("w")
		}
		r.noGap()
		if n := r.sink.loadsOf(r.schema + ".w"); n != 1 {
			t.Logf("%d loads: the server had lost transactions", n)
		}
	})
}

// reconnect replaces the test's own connection.
func (r *rig) reconnect() {
	r.t.Helper()
	r.conn = dial(r.t, r.server)
	r.exec("USE " + r.schema)
}

// The log is reset while it is followed: nothing that was known of it holds any more.
func TestResetLog(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		r.start(nil, func(f *Follower) { f.watchEvery = 200 * time.Millisecond })
		r.same("w")
		reset := "RESET MASTER"
		if s.Flavor == testmysql.MySQL {
			reset = "RESET BINARY LOGS AND GTIDS"
		}
		for i := range 2 {
			r.exec("SET sql_log_bin = 0")
			r.exec("UPDATE w SET v = v + 1")
			r.exec("SET sql_log_bin = 1")
			loads := r.f.Status().Loads
			// Files that were made within one second can't be told apart.
			time.Sleep(1100 * time.Millisecond)
			r.exec(reset)
			if i == 1 {
				// As many transactions as before.
				for range 10 {
					r.exec("INSERT INTO w VALUES (5, 5, '')")
					r.exec("DELETE FROM w WHERE id = 5")
				}
			}
			r.eventually("the table is loaded anew", func() bool { return r.f.Status().Loads > loads })
			r.exec("INSERT INTO w VALUES (7, 7, 'after')")
			r.same("w")
			r.exec("DELETE FROM w WHERE id = 7")
			r.same("w")
		}
	})
}

// The source's address leads to another server, which knows nothing of what was applied; the old connections end, or go
// on to the old server.
func TestReplacedServer(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{true, false} {
		t.Run(fmt.Sprintf("cut=%v", cut), func(t *testing.T) {
			t.Parallel()
			flavors(t, func(t *testing.T, s testmysql.Server) {
				r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, 'here')")
				other := testmysql.Private(t, s.Flavor)
				c := dial(t, other)
				for _, sql := range []string{
					"CREATE DATABASE " + r.schema, "USE " + r.schema, strings.TrimSuffix(tableW, ")") + ", x INT)",
					"INSERT INTO w (id, v, pad) VALUES (1, 1, 'there')",
				} {
					if err := c.Exec(t.Context(), sql); err != nil {
						t.Fatal(err)
					}
				}
				p := newProxy(t, address(t, s))
				r.start(p.through, func(f *Follower) { f.watchEvery = 50 * time.Millisecond })
				r.same("w")
				p.target.Store(address(t, other))
				if cut {
					p.cut()
				}
				r.eventually("the other server's table is loaded", func() bool { return r.f.Status().Loads > 1 })
				here := r.conn
				r.conn = c
				r.exec("UPDATE w SET v = 2")
				r.same("w")
				r.conn = here
				if got := r.f.Status().Reconnects; len(got) != 1 || !cut && got[ReasonReplaced] != 1 {
					t.Errorf("reconnects %v", got)
				}
			})
		})
	}
}

// Log files are purged before they were read.
func TestPurgedLog(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		p := newProxy(t, address(t, s))
		r.start(p.through, nil)
		r.same("w")
		p.down.Store(true)
		p.cut()
		r.exec("INSERT INTO w VALUES (2, 2, '')")
		r.exec("FLUSH BINARY LOGS")
		r.exec("INSERT INTO w VALUES (3, 3, '')")
		r.exec("FLUSH BINARY LOGS")
		last := ""
		if err := r.conn.Query(t.Context(), "SHOW BINARY LOGS", func(v [][]byte) error {
			last = string(v[0])
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		// The server keeps files while it still has the old connection.
		r.eventually("files are purged", func() bool {
			r.exec("PURGE BINARY LOGS TO '" + last + "'")
			files := 0
			if err := r.conn.Query(t.Context(), "SHOW BINARY LOGS", func([][]byte) error {
				files++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return files == 1
		})
		p.down.Store(false)
		r.eventually("the table is loaded anew", func() bool { return r.sink.loadsOf(r.schema+".w") > 1 })
		r.same("w")
	})
}

// Settings that do not allow to follow stop the answers and not the follower.
func TestSettingsChangeOnRestart(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		r.start(nil, nil)
		r.same("w")
		s.Stop()
		s.Start("--binlog-row-image=MINIMAL")
		r.eventually("tables are suspended", func() bool {
			state, reason := r.sink.state(r.schema + ".w")
			return state == "suspended" && strings.Contains(reason, "binlog_row_image")
		})
		if st := r.f.Status(); st.Connected || !strings.Contains(st.Trouble, "binlog_row_image") {
			t.Errorf("status %+v", st)
		}
		r.reconnect()
		r.exec("UPDATE w SET v = 2")
		s.Stop()
		s.Start("--binlog-row-image=FULL")
		r.reconnect()
		r.same("w")
	})
}

// A server that becomes a replica which does not log what it replicates can't be followed any more.
func TestUnloggedReplica(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		r.start(nil, func(f *Follower) { f.watchEvery = 50 * time.Millisecond })
		r.same("w")
		if s.Flavor == testmysql.MariaDB {
			r.exec("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1")
			r.exec("START SLAVE SQL_THREAD")
		} else {
			r.exec("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1")
			r.exec("START REPLICA SQL_THREAD")
		}
		r.eventually("tables are suspended", func() bool {
			state, reason := r.sink.state(r.schema + ".w")
			return state == "suspended" && strings.Contains(reason, "does not log what it replicates")
		})
		r.eventually("a new connection meets the same", func() bool { return r.f.Status().Reconnects[ReasonSettings] > 1 })
		problems, err := Check(t.Context(), r.f.cfg.Source, r.f.cfg.Tables)
		if err != nil || len(problems) != 1 || problems[0].Code != unloggedProblem.Code {
			t.Errorf("problems %v, error %v", problems, err)
		}
		if s.Flavor == testmysql.MariaDB {
			r.exec("STOP SLAVE")
		} else {
			r.exec("STOP REPLICA")
		}
		r.same("w")
	}, "--log-slave-updates=OFF")
}

// An account with nothing but the three privileges is enough.
func TestLeastPrivilege(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(100), "CREATE TABLE hidden (id INT PRIMARY KEY)")
		user := fmt.Sprintf("'least%d'@'127.0.0.1'", rand.Uint32())
		r.exec("CREATE USER " + user + " IDENTIFIED BY 'pass'")
		defer r.exec("DROP USER " + user)
		r.exec("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO " + user)
		r.exec("GRANT SELECT ON " + r.schema + ".w TO " + user)
		account := func(cfg *Config) {
			source := *cfg.Source
			source.User, source.Password = strings.Split(user, "'")[1], "pass"
			cfg.Source = &source
			cfg.Tables, _ = schema.ParsePatterns(r.schema + ".w," + r.schema + ".hidden")
		}
		r.start(account, nil)
		r.settleLive("w")
		r.exec("UPDATE w SET v = v + 1")
		r.exec("ALTER TABLE w ADD COLUMN x INT DEFAULT 7")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := r.f.WaitApplied(ctx, r.executed()); err != nil {
			t.Fatal(err)
		}
		r.settleLive("w")
		r.compare("w")
		// A privilege that is given later is noticed.
		r.exec("GRANT SELECT ON " + r.schema + ".hidden TO " + user)
		r.settleLive("hidden")
		r.stop()
	})
}
