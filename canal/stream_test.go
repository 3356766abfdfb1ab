package canal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// handler is a stream without a server, with one table that takes changes.
type handler struct {
	*stream
	t    *testing.T
	sink *memSink
	tb   *table
	gno  int64
}

func newHandler(t *testing.T) *handler {
	t.Helper()
	patterns, err := schema.ParsePatterns("s.t")
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{t: t, sink: newMemSink()}
	f, err := New(Config{Source: &sqltext.Config{}, Tables: patterns, Sink: h.sink})
	if err != nil {
		t.Fatal(err)
	}
	f.pos.reset(mustSet(t, uuidA+":1"), nil, coordinate{}, coordinate{})
	h.gno = 1
	h.stream = &stream{f: f, ctx: t.Context()}
	h.tb = f.tables.find(schema.Name{Schema: "s", Table: "t"})
	h.event(replication.ROTATE_EVENT, &replication.RotateEvent{NextLogName: []byte("b.000001"), Position: 4}, replication.LOG_EVENT_ARTIFICIAL_F)
	h.live()
	return h
}

// live makes the table take changes.
func (h *handler) live() {
	def := &schema.Table{
		Schema: "s", Name: "t", Columns: []schema.Column{{Name: "id", Kind: schema.KindInt, Bytes: 4}},
		Indexes: []schema.Index{{Name: "PRIMARY", Parts: []schema.Part{{}}}},
	}
	target, err := h.sink.Load("s", "t", def)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := target.Live(); err != nil {
		h.t.Fatal(err)
	}
	h.tb.phase, h.tb.liveSince = phaseLive, time.Now()
	h.tb.feed.Store(&feed{target: target, def: def})
}

func (h *handler) event(kind replication.EventType, e replication.Event, flags uint16) error {
	return h.HandleEvent(&replication.BinlogEvent{
		Header: &replication.EventHeader{EventType: kind, EventSize: 100, LogPos: uint32(h.pos) + 100, Timestamp: 1, Flags: flags},
		Event:  e,
	})
}

func (h *handler) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// begin opens the next transaction.
func (h *handler) begin() {
	h.t.Helper()
	h.gno++
	g := myGTID(h.t, h.gno, "")
	h.must(h.event(replication.GTID_EVENT, &replication.GTIDEvent{SID: g.sid[:], GNO: g.gno}, 0))
}

func (h *handler) query(sql string) {
	h.t.Helper()
	h.must(h.event(replication.QUERY_EVENT, &replication.QueryEvent{Query: []byte(sql), Schema: []byte("s"), StatusVars: plainStatus}, 0))
}

func (h *handler) generic(kind replication.EventType, flags uint16) {
	h.t.Helper()
	h.must(h.event(kind, &replication.GenericEvent{}, flags))
}

func (h *handler) xid() {
	h.t.Helper()
	h.must(h.event(replication.XID_EVENT, &replication.XIDEvent{}, 0))
}

// expect checks the table's state and the number of transactions applied.
func (h *handler) expect(state string, seq uint64) {
	h.t.Helper()
	if got, reason := h.sink.state("s.t"); got != state {
		h.t.Errorf("table is %s (%s), wanted %s", got, reason, state)
	}
	if got := h.f.pos.mark().seq; got != seq {
		h.t.Errorf("%d transactions applied, wanted %d", got, seq)
	}
	if state == "suspended" && !h.tb.wanted {
		h.t.Error("no load was asked for")
	}
}

func TestOddEvents(t *testing.T) {
	for _, c := range []struct {
		name  string
		run   func(h *handler)
		state string
		seq   uint64
	}{
		{"harmless statement", func(h *handler) { h.begin(); h.query("GRANT SELECT ON s.t TO x") }, "live", 1},
		{"statement that names the table", func(h *handler) { h.begin(); h.query("ALTER TABLE t ADD x INT") }, "suspended", 1},
		{"statement on another schema", func(h *handler) { h.begin(); h.query("DROP DATABASE other") }, "live", 1},
		{"drop of the schema", func(h *handler) { h.begin(); h.query("DROP DATABASE S") }, "suspended", 1},
		{"a table of that name is made elsewhere", func(h *handler) { h.begin(); h.query("CREATE TABLE x.t (a INT)") }, "live", 1},
		{"the table is made although it is there", func(h *handler) { h.begin(); h.query("CREATE TABLE t (a INT)") }, "suspended", 1},
		{"the table is made if it is not there", func(h *handler) { h.begin(); h.query("CREATE TABLE IF NOT EXISTS t (a INT)") }, "live", 1},
		{"changes as text", func(h *handler) {
			h.begin()
			h.query("BEGIN")
			h.query("DELETE FROM elsewhere.x")
			if state, _ := h.sink.state("s.t"); state != "live" {
				h.t.Error("suspended before the end")
			}
			h.xid()
		}, "suspended", 1},
		{"an unknown event", func(h *handler) { h.begin(); h.query("BEGIN"); h.generic(200, 0); h.xid() }, "suspended", 1},
		{"an unknown event that may be ignored", func(h *handler) {
			h.begin()
			h.query("BEGIN")
			h.generic(200, replication.LOG_EVENT_IGNORABLE_F)
			h.xid()
		}, "live", 1},
		{"an unknown event between transactions", func(h *handler) { h.generic(200, 0) }, "suspended", 0},
		{"an incident", func(h *handler) { h.begin(); h.generic(replication.INCIDENT_EVENT, 0) }, "suspended", 1},
		{"an incident between transactions", func(h *handler) { h.generic(replication.INCIDENT_EVENT, 0) }, "suspended", 0},
		{"LOAD DATA as a statement", func(h *handler) {
			h.begin()
			h.query("BEGIN")
			h.must(h.event(replication.EXECUTE_LOAD_QUERY_EVENT, &replication.ExecuteLoadQueryEvent{}, 0))
			h.xid()
		}, "suspended", 1},
		{"values for a statement to come", func(h *handler) {
			h.begin()
			h.query("BEGIN")
			h.generic(replication.RAND_EVENT, 0)
			h.generic(replication.USER_VAR_EVENT, 0)
			h.must(h.event(replication.INTVAR_EVENT, &replication.IntVarEvent{}, 0))
			h.query("COMMIT")
		}, "live", 1},
		{"a transaction that goes back", func(h *handler) { h.begin(); h.query("BEGIN"); h.query("ROLLBACK") }, "live", 1},
		{"a transaction that has been applied", func(h *handler) {
			h.gno = 0
			h.begin()
			h.query("BEGIN")
			h.query("DELETE FROM t")
			h.xid()
			h.gno = 0
			h.begin()
			h.query("DROP TABLE t")
		}, "live", 0},
		{"a transaction without an end", func(h *handler) {
			h.begin()
			h.query("BEGIN")
			h.query("DELETE FROM t")
			h.must(h.event(replication.ROTATE_EVENT, &replication.RotateEvent{NextLogName: []byte("b.000002"), Position: 4}, 0))
		}, "suspended", 0},
		{"a transaction without an end, on other tables", func(h *handler) { h.begin(); h.query("BEGIN"); h.begin(); h.query("BEGIN"); h.xid() }, "live", 1},
		{"a statement outside of transactions", func(h *handler) { h.query("ALTER TABLE x ADD y INT") }, "suspended", 0},
		{"COMMIT of an unknown XA transaction", func(h *handler) { h.begin(); h.query("XA COMMIT X'61',X'',1") }, "suspended", 1},
		{"ROLLBACK of an unknown XA transaction", func(h *handler) { h.begin(); h.query("XA ROLLBACK X'61',X'',1") }, "live", 1},
		{"an XA transaction on other tables", func(h *handler) {
			h.begin()
			h.query("XA START X'61',X'',1")
			h.query("XA END X'61',X'',1")
			h.must(h.event(replication.XA_PREPARE_LOG_EVENT, &replication.GenericEvent{Data: []byte("\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00a")}, 0))
			h.begin()
			h.query("XA COMMIT X'61',X'',1")
		}, "live", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHandler(t)
			c.run(h)
			h.expect(c.state, c.seq)
			if h.open || len(h.f.gate) != 0 {
				t.Error("a transaction is still open")
			}
		})
	}
}

// fullTarget has no room for changes.
type fullTarget struct{ Target }

func (fullTarget) Apply([]rowcodec.Change, uint64) error {
	return fmt.Errorf("%w: no memory", ErrRefused)
}

// A live table that outgrows what the Sink can keep is refused at once, and tried again ever more rarely.
func TestRefusedByApply(t *testing.T) {
	h := newHandler(t)
	outgrow := func() {
		now := h.tb.feed.Load()
		now.target = fullTarget{now.target}
		h.f.apply(&transaction{tables: []*tableChanges{{t: h.tb, feed: now, changes: make([]rowcodec.Change, 1)}}}, 1)
	}
	until := func(low, high time.Duration) {
		t.Helper()
		state, reason := h.sink.state("s.t")
		if wait := time.Until(h.tb.due); state != "refused" || !strings.Contains(reason, "no memory") ||
			!h.tb.wanted || h.tb.phase != phaseRefused || h.tb.feed.Load() != nil || wait > high || wait < low-time.Second {
			t.Errorf("%s (%s), tried again in %v", state, reason, wait)
		}
	}
	for _, pause := range []time.Duration{1, 2, 4, 6, 6} {
		pause *= recheckSink
		h.live()
		outgrow()
		until(pause/2, min(pause*3/2, recheckLongest))
	}
	// A table that has no content has none to suspend.
	due := h.tb.due
	h.f.reload(h.tb, "a reason")
	until(0, recheckLongest)
	if !h.tb.due.Equal(due) {
		t.Error("the time of the next try has moved")
	}
	h.begin()
	h.query("TRUNCATE TABLE t")
	h.expect("suspended", 1)
	if wait := time.Until(h.tb.due); wait > time.Second {
		t.Errorf("after a change of the table it is tried again in %v", wait)
	}
	// A load under way ends with the refusal.
	h.live()
	ended := error(nil)
	h.tb.attempt = &attempt{cancel: func(err error) { ended = err }}
	outgrow()
	until(recheckSink/2, recheckSink*3/2)
	if h.tb.attempt != nil || !errors.Is(ended, errSuperseded) {
		t.Errorf("the load has ended with %v", ended)
	}
	// One that was live for long is tried again as after the first time.
	h.tb.sinkWait = recheckLongest
	h.live()
	h.tb.liveSince = time.Now().Add(-2 * recheckLongest)
	outgrow()
	until(recheckSink/2, recheckSink*3/2)
}

// What a transaction without an end may have changed is told all the same.
func TestAbandonedDefinitions(t *testing.T) {
	for sql, changed := range map[string]string{
		"ALTER TABLE t ADD x INT":  "s.t",
		"CREATE TABLE o.u LIKE t":  "o.u",
		"GRANT SELECT ON s.t TO x": "",
	} {
		h := newHandler(t)
		h.f.wildcards = true
		h.begin()
		h.query("BEGIN")
		h.query(sql)
		h.must(h.event(replication.ROTATE_EVENT, &replication.RotateEvent{NextLogName: []byte("b.000002"), Position: 4}, 0))
		if got := strings.Join(h.sink.changed, " "); got != changed {
			t.Errorf("%s: changed: %q", sql, got)
		}
		if !h.f.relist.Load() || h.f.listsWanted.Load() != 1 {
			t.Errorf("%s: tables are not looked for", sql)
		}
		if granted := changed == ""; h.f.recheckAbsent.Load() != granted {
			t.Errorf("%s: absent tables are looked for: %v", sql, !granted)
		}
	}
}

func TestNoteXA(t *testing.T) {
	h := newHandler(t)
	h.tx.id.maria.SequenceNumber = 5
	h.tx.touch(h.tb, "a reason")
	h.noteXA()
	if len(h.tb.xa) != 1 {
		t.Errorf("noted: %v", h.tb.xa)
	}
}

func TestStreamErrors(t *testing.T) {
	h := newHandler(t)
	if err := h.event(replication.ANONYMOUS_GTID_EVENT, &replication.GTIDEvent{SID: make([]byte, 16)}, 0); !errors.Is(err, errAnonymous) {
		t.Errorf("anonymous transaction: %v", err)
	}
	describe := func(made uint32) error {
		return h.HandleEvent(&replication.BinlogEvent{
			Header: &replication.EventHeader{EventType: replication.FORMAT_DESCRIPTION_EVENT, Timestamp: made, LogPos: 120, EventSize: 116},
			Event:  &replication.FormatDescriptionEvent{},
		})
	}
	h.must(describe(7))
	h.must(describe(7))
	if err := describe(8); !errors.Is(err, errHistory) {
		t.Errorf("file made anew: %v", err)
	}
	for _, c := range []struct {
		err    error
		reason Reason
		anew   bool
	}{
		{&mysql.MyError{Code: 1236, Message: "Could not find first log file name"}, ReasonGone, true},
		{&mysql.MyError{Code: 1236, Message: "A slave with the same server_uuid/server_id as this slave has connected"}, ReasonServerID, false},
		{&mysql.MyError{Code: 4052, Message: "A slave with the same server_uuid/server_id is already connected"}, ReasonServerID, false},
		{&mysql.MyError{Code: 1045, Message: "Access denied"}, ReasonAccess, false},
		{&mysql.MyError{Code: 1053, Message: "shutdown"}, ReasonServer, false},
		{mysql.ErrBadConn, ReasonNetwork, false},
		{errHistory, ReasonReplaced, true},
		{errAnonymous, ReasonSettings, false},
		{sqltext.ErrSilent, ReasonSilent, false},
		{errStalled, ReasonStalled, false},
		{errors.New("checksum"), ReasonUnreadable, false},
	} {
		var end *failure
		if !errors.As(streamFailure(t.Context(), c.err), &end) || end.reason != c.reason || end.anew != c.anew {
			t.Errorf("%v: %+v", c.err, end)
		}
	}
}

// Places beyond 4 GiB have only their low 32 bits in the log.
func TestLargeLogFile(t *testing.T) {
	h := newHandler(t)
	h.pos = 1<<32 - 150
	h.begin()
	h.query("BEGIN")
	h.xid()
	if at := h.f.pos.mark().at; at != (coordinate{"b.000001", 1<<32 + 150}) {
		t.Errorf("at %v", at)
	}
	for _, c := range []struct {
		low  uint32
		want uint64
	}{{150, 1<<32 + 150}, {350, 1<<32 + 350}, {1<<32 - 1, 1<<33 - 1}, {7, 1<<33 + 7}} {
		h.must(h.HandleEvent(&replication.BinlogEvent{
			Header: &replication.EventHeader{EventType: replication.HEARTBEAT_EVENT, LogPos: c.low, EventSize: 40},
			Event:  &replication.HeartbeatEvent{Filename: "b.000001"},
		}))
		if at := h.f.pos.mark().at; at != (coordinate{"b.000001", c.want}) {
			t.Errorf("heartbeat at %d: %v", c.low, at)
		}
	}
}

// Savepoints take back what came after them, also of tables that came in later.
func TestSavepoints(t *testing.T) {
	a, b := &table{}, &table{}
	var x transaction
	x.begin(gtid{}, time.Time{})
	to := &feed{}
	add := func(t *table, n int) {
		tc := x.of(t, to)
		for range n {
			tc.changes = append(tc.changes, rowcodec.Change{})
		}
	}
	count := func() [2]int { return [2]int{len(x.of(a, to).changes), len(x.of(b, to).changes)} }
	add(a, 2)
	x.savepoint("one")
	add(a, 1)
	add(b, 1)
	x.savepoint("two")
	add(b, 3)
	x.rollbackTo("two")
	if n := count(); n != [2]int{3, 1} {
		t.Errorf("after two: %v", n)
	}
	x.rollbackTo("one")
	if n := count(); n != [2]int{2, 0} {
		t.Errorf("after one: %v", n)
	}
	add(b, 1)
	x.savepoint("one") // the same name again
	add(b, 1)
	x.rollbackTo("one")
	if n := count(); n != [2]int{2, 1} {
		t.Errorf("after the second one: %v", n)
	}
	x.rollbackTo("two")
	for _, tc := range x.tables {
		if tc.lost == "" {
			t.Error("an unknown savepoint was passed over")
		}
	}
}
