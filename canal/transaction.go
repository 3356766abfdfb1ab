package canal

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// changeOverhead is what a change costs in memory beside its rows.
const changeOverhead = 48

// transaction collects what one transaction in the log does, until its end says that it holds. It belongs to the stream's
// goroutine.
type transaction struct {
	id gtid
	// committed is the source's time of the commit.
	committed time.Time
	// skip is set where the transaction has been applied before.
	skip bool
	// group is set where an event of its own ends the transaction: it is not a single statement.
	group bool
	// prepared is set for XA transactions, whose end in the log is only their preparation.
	prepared bool

	arena  *rowcodec.Arena
	bytes  int64
	tables []*tableChanges
	bound  []binding
	// over is set when the changes have outgrown the limit and are not kept.
	over       bool
	savepoints []savepoint

	// everything is the reason why any table may have been changed, or nothing; touched are single tables with theirs.
	everything string
	touched    map[*table]string
	// kept are tables whose rows and columns are what they were, while other parts of their definitions may have changed:
	// true where the indexes may have. What is touched too counts as touched.
	kept map[*table]bool
	// changed are the tables whose definitions may have changed; all of a schema where there is no table, all where there is
	// no schema.
	changed []schema.Name
	// watched is set by rows of Config.WatchSchema.
	watched bool
	// created and granted tell that more tables may be there or be seen afterwards.
	created, granted bool
}

// tableChanges are the changes of one table in one transaction.
type tableChanges struct {
	t *table
	// feed is where the table's changes went when the first came; nil only in prepared transactions.
	feed    *feed
	changes []rowcodec.Change
	// lost is the reason why the changes are not known in full, or nothing.
	lost string
}

// binding is what a table map of the present statement stands for.
type binding struct {
	id      uint64
	tc      *tableChanges // nil: not followed
	decoder *rowcodec.Decoder
}

// savepoint remembers how much there was of each table.
type savepoint struct {
	name  string
	marks []int
}

func (x *transaction) begin(id gtid, at time.Time) {
	arena := x.arena
	if arena == nil {
		arena = new(rowcodec.Arena)
	}
	arena.Reset()
	for _, tc := range x.tables {
		tc.clear()
	}
	*x = transaction{id: id, committed: at, arena: arena, tables: x.tables[:0], bound: x.bound[:0], savepoints: x.savepoints[:0]}
}

// mostChanges is how much room for changes a table's record keeps from one transaction to the next.
const mostChanges = 16_384

// clear lets go of the rows; the record is used again.
func (tc *tableChanges) clear() {
	clear(tc.changes)
	tc.changes = tc.changes[:0]
	if cap(tc.changes) > mostChanges {
		tc.changes = nil
	}
	*tc = tableChanges{changes: tc.changes}
}

// touch says that a table may have been changed in a way that its rows' events do not show.
func (x *transaction) touch(t *table, reason string) {
	if x.touched == nil {
		x.touched = map[*table]string{}
	}
	if x.touched[t] == "" {
		x.touched[t] = reason
	}
}

// keep notes a table of transaction.kept.
func (x *transaction) keep(t *table, indexes bool) {
	if x.kept == nil {
		x.kept = map[*table]bool{}
	}
	x.kept[t] = x.kept[t] || indexes
}

func (x *transaction) touchAll(reason string) {
	if x.everything == "" {
		x.everything = reason
	}
}

// of gives the changes of one table, adding them when they are the first.
func (x *transaction) of(t *table, to *feed) *tableChanges {
	for _, tc := range x.tables {
		if tc.t == t {
			return tc
		}
	}
	n := len(x.tables)
	if n < cap(x.tables) && x.tables[:n+1][n] != nil {
		x.tables = x.tables[:n+1] // cleared by begin
	} else {
		x.tables = append(x.tables, new(tableChanges))
	}
	tc := x.tables[n]
	tc.t, tc.feed = t, to
	return tc
}

// bind returns the binding of a table id, adding it when it is new.
func (x *transaction) bind(id uint64) *binding {
	if b := x.binding(id); b != nil {
		*b = binding{id: id}
		return b
	}
	x.bound = append(x.bound, binding{id: id})
	return &x.bound[len(x.bound)-1]
}

func (x *transaction) binding(id uint64) *binding {
	for i := len(x.bound) - 1; i >= 0; i-- {
		if x.bound[i].id == id {
			return &x.bound[i]
		}
	}
	return nil
}

// errOver ends the decoding of an event that does not fit any more.
var errOver = errors.New("transaction is too large")

// rows takes the changes of one row event; left is how many more bytes may be kept.
func (x *transaction) rows(h *replication.EventHeader, e *replication.RowsEvent, left int64) {
	b := x.binding(e.TableID)
	if b == nil || b.tc == nil || b.tc.lost != "" {
		return
	}
	tc := b.tc
	if x.over {
		tc.lost = tooLarge
		return
	}
	size, n := x.arena.Size(), len(tc.changes)
	err := b.decoder.DecodeEvent(h, e, x.arena, func(c rowcodec.Change) error {
		tc.changes = append(tc.changes, c)
		if int64(x.arena.Size()-size)+int64(len(tc.changes)-n)*changeOverhead > left-x.bytes {
			return errOver
		}
		return nil
	})
	x.bytes += int64(x.arena.Size()-size) + int64(len(tc.changes)-n)*changeOverhead
	switch {
	case errors.Is(err, errOver):
		x.drop()
	case err != nil:
		tc.lost = err.Error()
		tc.changes = nil
	}
}

const tooLarge = "a transaction was larger than what is kept of one"

// drop forgets all changes and remembers which tables they were of.
func (x *transaction) drop() {
	x.over = true
	for _, tc := range x.tables {
		if len(tc.changes) > 0 {
			tc.lost = tooLarge
		}
		tc.changes = nil
	}
	x.arena.Reset()
	x.bytes = 0
}

func (x *transaction) savepoint(name string) {
	marks := make([]int, len(x.tables))
	for i, tc := range x.tables {
		marks[i] = len(tc.changes)
	}
	// A second savepoint of that name replaces the first.
	x.savepoints = slices.DeleteFunc(x.savepoints, func(s savepoint) bool { return s.name == name })
	x.savepoints = append(x.savepoints, savepoint{name, marks})
}

// alike reports that a server may take two names of savepoints for one although they are spelt differently: it compares
// them character by character, without accents.
func alike(a, b string) bool {
	x, y := []rune(a), []rune(b)
	if a == b || len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] && x[i] < utf8.RuneSelf && y[i] < utf8.RuneSelf {
			return false
		}
	}
	return true
}

// rollbackTo takes back what came after the savepoint. What was lost stays lost.
func (x *transaction) rollbackTo(name string) {
	i, unsure := -1, false
	for j, s := range x.savepoints {
		if s.name == name {
			i = j
		}
		unsure = unsure || alike(s.name, name)
		for _, other := range x.savepoints[:j] {
			unsure = unsure || alike(s.name, other.name)
		}
	}
	if i < 0 || unsure {
		for _, tc := range x.tables {
			tc.lost = "a transaction went back to a savepoint that is not in the log"
		}
		return
	}
	marks := x.savepoints[i].marks
	for j, tc := range x.tables {
		keep := 0
		if j < len(marks) {
			keep = marks[j]
		}
		if keep < len(tc.changes) {
			tc.changes = tc.changes[:keep]
		}
	}
	x.savepoints = x.savepoints[:i+1]
}

// rollback takes all changes of rows back.
func (x *transaction) rollback() {
	for _, tc := range x.tables {
		tc.changes, tc.lost = nil, ""
	}
}

// statement takes a statement that the log has as text.
func (f *Follower) statement(x *transaction, st *statement, schemaName string) {
	reason := "the log has a statement as text: " + st.verb
	if st.ddl {
		reason = "its definition may have changed: " + st.verb
		x.created = x.created || st.effect != effectKeeps
	}
	switch st.effect {
	case effectGrants:
		x.granted = true
	case effectAll:
		x.touchAll(reason)
		if st.ddl {
			x.change(schema.Name{})
		}
		return
	case effectSchema:
		for _, t := range f.tables.all() {
			if sameName(t.name.Schema, st.name) || st.foreign && !isASCII(t.name.Schema) {
				x.touch(t, reason)
			}
		}
		x.change(schema.Name{Schema: st.name})
	case effectKeeps:
		for _, t := range f.tables.all() {
			if st.touches(t.name, schemaName) {
				x.keep(t, st.indexes)
			}
		}
	case effectTables, effectCreate:
		for _, t := range f.tables.all() {
			if !st.touches(t.name, schemaName) {
				continue
			}
			// What is there already stays as it is. But when the very table is made, what was there is gone, unseen.
			if st.effect == effectTables || t.feed.Load() == nil || st.makes(t.name, schemaName) {
				x.touch(t, reason)
			}
		}
	}
	switch {
	case !st.ddl:
	case st.named:
		for _, t := range st.targets {
			if t.schema == "" {
				t.schema = schemaName
			}
			if t.schema == "" {
				t.table = ""
			}
			x.change(schema.Name{Schema: t.schema, Table: t.table})
		}
	default:
		if schemaName != "" {
			x.change(schema.Name{Schema: schemaName})
		}
		for _, q := range st.qualifiers {
			x.change(schema.Name{Schema: q})
		}
	}
}

// change notes what may have another definition.
func (x *transaction) change(name schema.Name) {
	if !slices.Contains(x.changed, name) {
		x.changed = append(x.changed, name)
	}
}

// apply gives a finished transaction to the Sink: changes of rows first, then what has to be loaded anew. It returns the
// tables to load. The position does not move here.
func (f *Follower) apply(x *transaction, version uint64) (reload []*table) {
	for _, tc := range x.tables {
		if x.everything != "" || x.touched[tc.t] != "" {
			continue
		}
		now := tc.t.feed.Load()
		switch {
		case now == nil:
			// Nobody takes the changes any more; the load to come will see them in the table.
		case tc.lost != "":
			x.touch(tc.t, tc.lost)
		case !now.same(tc.feed):
			x.touch(tc.t, "a prepared transaction is older than the table's content")
		case len(tc.changes) > 0:
			err := now.target.Apply(tc.changes, version)
			f.counts.changes.Add(uint64(len(tc.changes)))
			switch {
			case err == nil || !now.same(tc.t.feed.Load()):
			case errors.Is(err, ErrRefused):
				f.refuse(tc.t, err.Error())
			default:
				x.touch(tc.t, fmt.Sprintf("its changes do not fit: %v", err))
			}
		}
	}
	if x.everything != "" {
		suspend := f.suspend
		if slices.Contains(x.changed, schema.Name{}) {
			suspend = f.suspendChanged
		}
		for _, t := range f.tables.all() {
			suspend(t, x.everything)
			reload = append(reload, t)
		}
	} else {
		for t, indexes := range x.kept {
			if x.touched[t] == "" && !f.keep(t, indexes) {
				x.touch(t, "its definition may have changed")
			}
		}
		for t, reason := range x.touched {
			f.suspendChanged(t, reason)
			reload = append(reload, t)
		}
	}
	for _, name := range x.changed {
		f.cfg.Sink.SchemaChanged(name.Schema, name.Table)
	}
	return reload
}
