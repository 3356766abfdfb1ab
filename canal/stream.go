package canal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

var (
	// errHistory says that the log is not the one whose positions are known: everything is loaded anew.
	errHistory = errors.New("the source's log is not the one that was followed before")
	// errAnonymous is a transaction without a GTID.
	errAnonymous = errors.New("the log has transactions without GTIDs: set gtid_mode=ON")
)

// gate is held while a transaction of the stream is open. Whoever takes it stands between two transactions.
type gate chan struct{}

func (g gate) take(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) release() { <-g }

// GTID flags of MariaDB that go-mysql has no names for.
const mariadbPreparedXA = 0x40

// mostFiles bounds the log files that are remembered.
const mostFiles = 100

// mostNames bounds the stream's cache of names that it has looked up.
const mostNames = 20_000

// stream handles the events of one connection.
type stream struct {
	f   *Follower
	ctx context.Context
	// file and pos are the place after the event at hand.
	file string
	pos  uint64
	// positionless is set for a source that leaves places out of events within transactions.
	positionless bool
	// closed is set while the last event of the file was one that ends it in order; flushes when the source loses nothing
	// in a crash.
	closed, flushes bool
	// came is set by the first event, found when the source has come to the place that it was asked for.
	came, found atomic.Bool

	open bool // a transaction is; the gate is held
	tx   transaction

	// names caches look-ups of tables; nil for a table that is not followed. It holds for names.version of the registry.
	names        map[string]*table
	namesVersion uint64
	scratch      []byte
}

// HandleEvent takes one event; an error ends the connection. It implements eventHandler.
func (s *stream) HandleEvent(ev *replication.BinlogEvent) error {
	now := s.f.age()
	s.f.heard.Store(now)
	s.came.Store(true)
	s.move(ev)
	if h, ok := ev.Event.(*replication.HeartbeatEvent); ok {
		s.heartbeat(h)
		return nil
	}
	s.f.lastEvent.Store(now)
	if ev.Header.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 {
		s.closed = ev.Header.EventType == replication.ROTATE_EVENT || ev.Header.EventType == replication.STOP_EVENT
	}
	if !s.found.Load() && (s.open || ev.Header.EventType == replication.MARIADB_GTID_LIST_EVENT &&
		ev.Header.Flags&replication.LOG_EVENT_ARTIFICIAL_F != 0) {
		s.found.Store(true)
	}
	switch e := ev.Event.(type) {
	case *replication.RotateEvent:
		return s.rotate(ev.Header, e)
	case *replication.FormatDescriptionEvent:
		return s.describe(ev.Header)
	case *replication.GTIDEvent:
		if ev.Header.EventType == replication.ANONYMOUS_GTID_EVENT {
			return errAnonymous
		}
		return s.beginMySQL(ev.Header, e)
	case *replication.GtidTaggedLogEvent:
		return s.beginMySQL(ev.Header, &e.GTIDEvent)
	case *replication.MariadbGTIDEvent:
		if err := s.begin(gtid{maria: e.GTID}, time.Unix(int64(ev.Header.Timestamp), 0)); err != nil {
			return err
		}
		s.tx.group = !e.IsStandalone()
		s.tx.prepared = e.Flags&mariadbPreparedXA != 0
		return nil
	case *replication.TransactionPayloadEvent:
		return nil // what is in it follows
	}
	return s.content(ev)
}

// move follows the place in the log.
func (s *stream) move(ev *replication.BinlogEvent) {
	h := ev.Header
	switch {
	case h.LogPos == 0:
		// The description that opens a stream in the middle of a file is not at that place of the file.
		opening := h.EventType == replication.FORMAT_DESCRIPTION_EVENT && s.pos > logFileHead
		if s.positionless && h.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 && !opening {
			s.pos += uint64(h.EventSize)
		}
	case h.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 && uint32(s.pos)+h.EventSize == h.LogPos:
		// The header has 32 bits; a file that a huge transaction ends can be larger.
		s.pos += uint64(h.EventSize)
	case h.EventType == replication.HEARTBEAT_EVENT:
		// Not of an event in the file, but a place in it: what is far behind is beyond 4 GiB.
		at := s.pos&^math.MaxUint32 | uint64(h.LogPos)
		if at < s.pos && s.pos-at > math.MaxInt32 {
			at += 1 << 32
		}
		s.pos = at
	default:
		s.pos = uint64(h.LogPos)
	}
}

// logFileHead is the size of what a log file begins with, before its first event.
const logFileHead = 4

func (s *stream) here() coordinate { return coordinate{s.file, s.pos} }

// between records that everything before this place is applied, unless a transaction is open.
func (s *stream) between() {
	if !s.open && s.file != "" {
		s.f.pos.advance(s.here())
	}
}

// heartbeat says that there is nothing more for now, or that transactions up to this place were passed over because they
// are in the applied set.
func (s *stream) heartbeat(h *replication.HeartbeatEvent) {
	if h.Filename != s.file {
		return
	}
	s.found.Store(true)
	s.between()
}

func (s *stream) rotate(h *replication.EventHeader, e *replication.RotateEvent) error {
	if h.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 {
		s.abandon("the log file ended within a transaction")
	} else if next := string(e.NextLogName); s.file != "" && s.file != next && !s.closed && !s.flushes {
		s.abandon("the server crashed within a transaction")
		s.single(crashReason)
	}
	s.file, s.pos = string(e.NextLogName), e.Position
	return nil
}

// describe takes the description that each log file begins with. Its time is that of the file's making.
func (s *stream) describe(h *replication.EventHeader) error {
	s.abandon("the server restarted within a transaction")
	if h.Timestamp != 0 {
		if made, known := s.f.made[s.file]; known && made != h.Timestamp {
			return fmt.Errorf("%w: its file %s has been made anew", errHistory, s.file)
		}
		if len(s.f.made) >= mostFiles {
			clear(s.f.made)
		}
		s.f.made[s.file] = h.Timestamp
		s.f.pos.describe(s.file, h.Timestamp)
	}
	s.between()
	return nil
}

func (s *stream) beginMySQL(h *replication.EventHeader, e *replication.GTIDEvent) error {
	id, err := mysqlGTID(e)
	if err != nil {
		return err
	}
	at := time.Unix(int64(h.Timestamp), 0)
	if e.ImmediateCommitTimestamp != 0 {
		at = time.UnixMicro(int64(e.ImmediateCommitTimestamp))
	}
	return s.begin(id, at)
}

func (s *stream) begin(id gtid, at time.Time) error {
	s.abandon("a transaction had no end")
	if err := s.f.gate.take(s.ctx); err != nil {
		return err
	}
	s.open = true
	s.tx.begin(id, at)
	s.tx.skip = s.f.pos.contains(id)
	return nil
}

// content handles what stands inside transactions, and everything that may stand anywhere.
func (s *stream) content(ev *replication.BinlogEvent) error {
	switch e := ev.Event.(type) {
	case *replication.QueryEvent:
		return s.query(e)
	case *replication.XIDEvent:
		s.end()
		return nil
	case *replication.TableMapEvent:
		s.tableMap(e)
		return nil
	case *replication.RowsEvent:
		if !s.open {
			s.single("the log has rows outside of a transaction")
		} else if !s.tx.skip {
			s.tx.rows(ev.Header, e, s.f.cfg.MaxTransactionBytes)
		}
		return nil
	case *replication.ExecuteLoadQueryEvent:
		s.uncertain("the log has LOAD DATA as a statement")
		return nil
	}
	switch t := ev.Header.EventType; t {
	case replication.XA_PREPARE_LOG_EVENT:
		g, ok := ev.Event.(*replication.GenericEvent)
		if !ok {
			return fmt.Errorf("XA_PREPARE event of type %T", ev.Event)
		}
		return s.prepare(g.Data)
	case replication.INCIDENT_EVENT:
		s.uncertain("the log has an incident: events may be missing")
		s.end()
	case replication.PREVIOUS_GTIDS_EVENT, replication.MARIADB_GTID_LIST_EVENT, replication.MARIADB_BINLOG_CHECKPOINT_EVENT,
		replication.STOP_EVENT, replication.HEARTBEAT_LOG_EVENT_V2, replication.MARIADB_START_ENCRYPTION_EVENT:
		s.between()
	case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT, replication.ROWS_QUERY_EVENT,
		replication.MARIADB_ANNOTATE_ROWS_EVENT, replication.IGNORABLE_EVENT, replication.BEGIN_LOAD_QUERY_EVENT,
		replication.APPEND_BLOCK_EVENT, replication.DELETE_FILE_EVENT, replication.TRANSACTION_CONTEXT_EVENT,
		replication.VIEW_CHANGE_EVENT, replication.SLAVE_EVENT:
		// Only together with a later event do they mean anything.
	default:
		if ev.Header.Flags&replication.LOG_EVENT_IGNORABLE_F == 0 {
			s.uncertain(fmt.Sprintf("the log has an event of the unknown type %d", t))
		}
	}
	return nil
}

// uncertain is an event after which any table may be another.
func (s *stream) uncertain(reason string) {
	if s.open {
		s.tx.touchAll(reason)
	} else {
		s.single(reason)
	}
}

// single suspends all tables for something that stands outside of transactions.
func (s *stream) single(reason string) {
	for _, t := range s.f.tables.all() {
		s.f.reload(t, reason)
	}
}

func (s *stream) tableMap(tm *replication.TableMapEvent) {
	if !s.open || s.tx.skip {
		return
	}
	s.tx.group = true
	s.tx.watched = s.tx.watched || s.f.cfg.Watched != nil && string(tm.Schema) == s.f.cfg.WatchSchema
	b := s.tx.bind(tm.TableID)
	t := s.find(tm.Schema, tm.Table)
	if t == nil {
		return
	}
	to := t.feed.Load()
	if to == nil && !s.tx.prepared {
		return
	}
	b.tc = s.tx.of(t, to)
	switch {
	case b.tc.lost != "":
	case !to.same(b.tc.feed):
		b.tc.lost = "a prepared transaction is older than the table's content"
	default:
		if to.decoder == nil || !to.decoder.Matches(tm) {
			decoder, err := rowcodec.NewDecoder(to.def, tm)
			if err != nil {
				b.tc.lost = err.Error()
				return
			}
			to.decoder = decoder
		}
		b.decoder = to.decoder
	}
}

// images implements eventHandler.
func (s *stream) images(tableID uint64) wanted {
	if !s.open || s.tx.skip || s.tx.over {
		return wanted{}
	}
	b := s.tx.binding(tableID)
	if b == nil || b.tc == nil || b.tc.lost != "" {
		return wanted{}
	}
	w := wanted{decoder: b.decoder, limit: int(s.f.cfg.MaxTransactionBytes)}
	if b.tc.feed != nil {
		w.most = mostRow(b.tc.feed.target)
	}
	return w
}

// outgrown implements eventHandler.
func (s *stream) outgrown() { s.tx.drop() }

// find returns the followed table of that name, or nil. A table that the patterns match is followed from its first row
// on, if nothing else has told of it.
func (s *stream) find(schemaName, tableName []byte) *table {
	if v := s.f.tables.changes.Load(); s.names == nil || v != s.namesVersion || len(s.names) > mostNames {
		s.names, s.namesVersion = map[string]*table{}, v
	}
	s.scratch = append(append(append(s.scratch[:0], schemaName...), 0), tableName...)
	if t, known := s.names[string(s.scratch)]; known {
		return t
	}
	name := schema.Name{Schema: string(schemaName), Table: string(tableName)}
	t := s.f.tables.find(name)
	if t == nil && s.f.cfg.Tables.Match(name.Schema, name.Table) {
		s.f.discover(name)
		t = s.f.tables.find(name)
		s.namesVersion = s.f.tables.changes.Load()
	}
	s.names[string(s.scratch)] = t
	return t
}

func (s *stream) query(e *replication.QueryEvent) error {
	st := classify(e.Query, e.StatusVars)
	if !s.open {
		// Every transaction of a server with GTIDs begins with one.
		if st.effect > effectGrants {
			s.single("the log has a statement outside of a transaction: " + st.verb)
			s.f.cfg.Sink.SchemaChanged("", "")
		}
		return nil
	}
	x := &s.tx
	if x.skip {
		switch st.effect {
		case effectBegin, effectXAStart:
			x.group = true
		case effectCommit, effectRollback:
			s.end()
		default:
			if !x.group {
				s.end()
			}
		}
		return nil
	}
	switch st.effect {
	case effectBegin:
		x.group = true
		return nil
	case effectXAStart:
		x.group, x.prepared = true, true
		return nil
	case effectXAEnd:
		return nil
	case effectCommit:
		s.end()
		return nil
	case effectRollback:
		x.rollback()
		s.end()
		return nil
	case effectSavepoint:
		x.savepoint(st.name)
	case effectRollbackTo:
		x.rollbackTo(st.name)
	case effectXACommit:
		if !s.f.prepared.take(st.name, x) {
			x.touchAll("an XA transaction was committed that had been prepared before the log was followed")
		}
		s.noteXA()
	case effectXARollback:
		s.f.prepared.forget(st.name)
	default:
		s.f.statement(x, &st, string(e.Schema))
	}
	if !x.group {
		s.end()
	}
	return nil
}

// noteXA keeps loads that are under way from relying on the visibility of the XA transaction at hand.
func (s *stream) noteXA() {
	if s.tx.id.maria.SequenceNumber == 0 {
		return // MySQL orders them like other commits
	}
	seq, _ := s.f.pos.next()
	if s.tx.everything != "" {
		for _, t := range s.f.tables.all() {
			t.noteXA(seq)
		}
		return
	}
	for _, tc := range s.tx.tables {
		tc.t.noteXA(seq)
	}
	for t := range s.tx.touched {
		t.noteXA(seq)
	}
}

// prepare ends a transaction with XA PREPARE.
func (s *stream) prepare(data []byte) error {
	name, onePhase, err := parseXID(data)
	if err != nil {
		return err
	}
	if !s.open || s.tx.skip || onePhase {
		s.end()
		return nil
	}
	x := &s.tx
	s.f.prepared.hold(name, x, s.f.cfg.MaxTransactionBytes)
	x.everything, x.touched = "", nil // they count at the commit
	s.end()
	return nil
}

// end applies the open transaction and moves the position after it.
func (s *stream) end() {
	if !s.open {
		return
	}
	x := &s.tx
	if x.skip {
		s.close()
		s.f.pos.advance(s.here())
		return
	}
	_, version := s.f.pos.next()
	reload := s.f.apply(x, version)
	list := s.wantList(x) // before the position tells that this transaction is applied
	s.f.pos.commit(x.id, s.here(), x.committed)
	s.f.counts.transactions.Add(1)
	watched := x.watched
	s.close()
	if watched {
		s.f.cfg.Watched()
	}
	s.f.requestLoad(reload...)
	if list {
		s.f.beginList()
	}
}

// wantList counts a search for tables as wanted where more may be there, or be seen, after the transaction.
func (s *stream) wantList(x *transaction) bool {
	if x.granted {
		s.f.recheckAbsent.Store(true)
	}
	list := x.created && s.f.wildcards || x.granted
	if list {
		s.f.wantList()
	}
	return list
}

// close leaves the transaction.
func (s *stream) close() {
	if s.open {
		s.open = false
		s.f.gate.release()
	}
}

// abandon drops a transaction whose end never came. The server that wrote it did not commit it; where that can't be
// told, loading its tables again is right in any case.
func (s *stream) abandon(why string) {
	if !s.open {
		return
	}
	x := &s.tx
	s.f.log.Warn("transaction dropped", "reason", why, "place", s.here().String())
	if x.everything != "" {
		s.single(why)
	} else {
		for _, tc := range x.tables {
			s.f.reload(tc.t, why)
		}
		for t := range x.kept {
			x.touch(t, why)
		}
		for t := range x.touched {
			s.f.suspendChanged(t, why)
			s.f.requestLoad(t)
		}
	}
	for _, name := range x.changed {
		s.f.cfg.Sink.SchemaChanged(name.Schema, name.Table)
	}
	list := s.wantList(x)
	s.close()
	if list {
		s.f.beginList()
	}
}
