package canal

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// hotSink gives a hotTarget for every table.
type hotSink struct {
	*memSink
	mu sync.Mutex
	// applied has the version of the last Apply to each table.
	applied map[string]uint64
}

type hotTarget struct {
	*memTarget
	s *hotSink
}

func (hotTarget) Hot() {}

func (h hotTarget) Apply(_ []rowcodec.Change, version uint64) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.applied[h.t.name] = version
	return nil
}

func (h hotTarget) Install([]rowcodec.Row, uint64, uint64) error {
	h.memTarget.s.mu.Lock()
	defer h.memTarget.s.mu.Unlock()
	h.memTarget.s.breach("%s: Install into a HotTarget", h.t.name)
	return nil
}

func (s *hotSink) Load(schemaName, table string, def *schema.Table) (Target, error) {
	t, err := s.memSink.Load(schemaName, table, def)
	if err != nil {
		return nil, err
	}
	return hotTarget{t.(*memTarget), s}, nil
}

func (s *hotSink) lastApplied(name string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied[name]
}

// hotRig follows the table t of a schema as a hot one.
type hotRig struct {
	*rig
	hot    *hotSink
	server string
}

func newHotRig(t *testing.T, s testmysql.Server, hooks map[hookPoint]func(schema.Name)) *hotRig {
	t.Helper()
	r := &hotRig{rig: newRig(t, s, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")}
	r.hot = &hotSink{memSink: r.sink, applied: map[string]uint64{}}
	r.start(func(cfg *Config) { cfg.Sink, cfg.Tables = r.hot, nil }, func(f *Follower) { f.hooks = hooks })
	if !r.f.FollowHot(r.schema, "t") || r.f.FollowHot(r.schema, "t") {
		t.Fatal("FollowHot")
	}
	r.waitHot()
	var err error
	if r.server, err = Identify(t.Context(), r.conn); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *hotRig) waitHot() {
	r.t.Helper()
	eventually(r.t, "the table is hot", func() bool {
		state, _ := r.sink.state(r.schema + ".t")
		return state == "live"
	})
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !check(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not yet: " + what)
		}
	}
}

// begin begins a read, which may have to wait for what is visible.
func (r *hotRig) begin() (reading Reading) {
	r.t.Helper()
	eventually(r.t, "a read can begin", func() (ok bool) {
		reading, ok = r.f.BeginRead(r.schema, "t")
		return ok
	})
	return reading
}

// end ends a read and returns its verdict when that comes.
func (r *hotRig) end(reading Reading, server string) chan bool {
	verdict := make(chan bool, 2)
	r.f.EndRead(reading, server, func(applied bool) { verdict <- applied })
	return verdict
}

func (r *hotRig) want(verdict chan bool, want bool) {
	r.t.Helper()
	select {
	case got := <-verdict:
		if got != want {
			r.t.Errorf("the verdict is %v", got)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatal("no verdict")
	}
}

// A read is settled when everything has been applied that it may have seen, and not before.
func TestReadWaitsForTheStream(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		ends := make(chan struct{}, 100)
		r := newHotRig(t, s, map[hookPoint]func(schema.Name){hookReadsEnd: func(schema.Name) { ends <- struct{}{} }})
		other := r.session()
		r.want(r.end(r.begin(), r.server), true)
		<-ends
		reading := r.begin()
		if err := r.f.gate.take(t.Context()); err != nil { // the stream stands still
			t.Fatal(err)
		}
		before := r.f.pos.mark().version
		if err := other.Exec(t.Context(), "UPDATE t SET v=9 WHERE id=1"); err != nil {
			t.Fatal(err)
		}
		r.exec("SELECT * FROM t") // what the read may have seen
		verdict := r.end(reading, r.server)
		<-ends
		select {
		case v := <-verdict:
			t.Errorf("%v before the change was applied", v)
		case <-time.After(50 * time.Millisecond):
		}
		if reading.Version > before {
			t.Errorf("the read sees up to %d, applied is %d", reading.Version, before)
		}
		r.f.gate.release()
		r.want(verdict, true)
		if r.hot.lastApplied(r.schema+".t") <= before {
			t.Error("settled before the change was applied")
		}
		// The next reads see the change for certain, and know so.
		eventually(t, "a version that has the change", func() bool { return r.begin().Version > before })
	})
}

// What came from another server, in another era or beyond the queue's bound is not kept; every verdict comes, once.
func TestReadsDropped(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	hold := make(chan struct{})
	held := make(chan struct{}, 100)
	var holding atomic.Bool
	r := newHotRig(t, s, map[hookPoint]func(schema.Name){hookReadsEnd: func(schema.Name) {
		if holding.Load() {
			held <- struct{}{}
			<-hold
		}
	}})
	r.want(r.end(r.begin(), "another server"), false)
	reading := r.begin()
	r.f.era.Add(1)
	r.want(r.end(reading, r.server), false)
	eventually(t, "what is visible is asked anew", func() bool {
		again, ok := r.f.BeginRead(r.schema, "t")
		return ok && again.era != reading.era
	})

	// The era changes while the end of the log is being read.
	reading = r.begin()
	holding.Store(true)
	verdict := r.end(reading, r.server)
	<-held
	r.f.era.Add(1)
	var verdicts []chan bool
	for range mostReads {
		verdicts = append(verdicts, r.end(reading, r.server))
	}
	r.want(r.end(reading, r.server), false) // at once
	holding.Store(false)
	close(hold)
	r.want(verdict, false)
	for _, v := range verdicts {
		r.want(v, false)
	}
	// Reads that wait when the follower ends are answered.
	if err := r.f.gate.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	reading = r.begin()
	r.exec("UPDATE t SET v=v+1")
	verdict = r.end(reading, r.server)
	r.f.gate.release()
	r.stop()
	<-verdict // by the stream, or by the end
	r.want(r.end(reading, r.server), false)
	if len(verdict) > 0 {
		t.Error("a second verdict")
	}
}

// Statements that change the definition end what reads may build on, until the table is loaded anew.
func TestReadAgainstDefinition(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		var stop atomic.Bool
		at, on := make(chan struct{}), make(chan struct{})
		r := newHotRig(t, s, map[hookPoint]func(schema.Name){hookDefined: func(schema.Name) {
			if stop.Load() {
				at <- struct{}{}
				<-on
			}
		}})
		reading := r.begin()
		stop.Store(true)
		r.exec("ALTER TABLE t ADD COLUMN x INT")
		<-at // the load after the statement
		if _, ok := r.f.BeginRead(r.schema, "t"); ok {
			t.Error("a read can begin while the table is loaded")
		}
		loaded := r.f.pos.mark().version
		stop.Store(false)
		on <- struct{}{}
		r.waitHot()
		if again := r.begin(); again.Version < loaded || again.Version <= reading.Version {
			t.Errorf("a read of the new content sees up to %d; it was loaded at %d", again.Version, loaded)
		}
		// DROP takes the table out; it can be followed again.
		r.exec("DROP TABLE t")
		eventually(t, "the table is removed", func() bool {
			state, _ := r.sink.state(r.schema + ".t")
			return state == "none" && r.f.tables.find(schema.Name{Schema: r.schema, Table: "t"}) == nil
		})
		r.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		if !r.f.FollowHot(r.schema, "t") {
			t.Error("the table is still followed")
		}
		r.waitHot()
		// So does Forget.
		r.f.Forget(r.schema, "t")
		if state, _ := r.sink.state(r.schema + ".t"); state != "none" {
			t.Errorf("the table is %s", state)
		}
		if _, ok := r.f.BeginRead(r.schema, "t"); ok {
			t.Error("a read of a forgotten table can begin")
		}
		r.f.Forget(r.schema, "t")
	})
}

// The connection of the stream is lost while a read waits: the verdict comes after the stream has gone on.
func TestReadAgainstReconnect(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		server := testmysql.Private(t, s.Flavor) // its replication threads are ours
		ends := make(chan struct{}, 100)
		r := newHotRig(t, server, map[hookPoint]func(schema.Name){hookReadsEnd: func(schema.Name) { ends <- struct{}{} }})
		reading := r.begin()
		if err := r.f.gate.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := r.f.pos.mark().version
		r.exec("UPDATE t SET v=9 WHERE id=1")
		verdict := r.end(reading, r.server)
		<-ends
		r.killStreams()
		r.f.gate.release()
		if <-verdict && r.hot.lastApplied(r.schema+".t") <= before {
			t.Error("settled before the change was applied")
		}
		eventually(t, "the change", func() bool { return r.hot.lastApplied(r.schema+".t") > before })
		eventually(t, "the new connection", func() bool {
			st := r.f.Status()
			return st.Connected && len(st.Reconnects) > 0
		})
		r.want(r.end(r.begin(), r.server), true)
	})
}

// An XA transaction on MariaDB may be invisible for a while although its end is in the log: reads do not count on it.
func TestReadAgainstXA(t *testing.T) {
	r := newHotRig(t, testmysql.Shared(t, testmysql.MariaDB), nil)
	r.begin()
	for _, sql := range []string{"XA START 'x'", "UPDATE t SET v=5 WHERE id=1", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"} {
		r.exec(strings.ReplaceAll(sql, "'x'", "'"+r.schema+"'"))
	}
	eventually(t, "the change", func() bool { return r.hot.lastApplied(r.schema+".t") > 0 })
	xa := r.hot.lastApplied(r.schema + ".t")
	r.want(r.end(r.begin(), r.server), true)
	r.exec("UPDATE t SET v=6 WHERE id=2")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.f.WaitApplied(ctx, r.executed()); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	r.want(r.end(r.begin(), r.server), true) // what is visible has been asked after the XA transaction
	if reading := r.begin(); reading.Version >= xa && time.Since(begun) < xaDelay/2 {
		t.Errorf("a read counts on the XA transaction %d: %d", xa, reading.Version)
	}
	for time.Since(begun) < xaDelay {
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, "the XA transaction counts as visible", func() bool { return r.begin().Version >= xa })
}

// killStreams ends the connections over which the server, which must be the test's own, sends its log.
func (r *rig) killStreams() {
	r.t.Helper()
	var ids []string
	err := r.conn.Query(r.t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'", func(v [][]byte) error {
		ids = append(ids, string(v[0]))
		return nil
	})
	if err != nil || len(ids) == 0 {
		r.t.Fatalf("no stream to kill, %v", err)
	}
	for _, id := range ids {
		r.exec("KILL " + id)
	}
}
