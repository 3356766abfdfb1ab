package cache

import (
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// HotRead is one read of the row of a key from the database, for all who ask for that key until it ends.
//
// Its life: BeginRead gives it to the first who asks, who has the SELECT made and calls Finish; all who were given it then
// take Answer. When Finish asks for it, Publish follows as soon as it is known whether everything that the SELECT may have
// seen has been applied.
type HotRead struct {
	gen  *HotGeneration
	key  string
	done chan struct{}

	// Written by Finish.
	row     rowcodec.Row // nil: there is none
	err     error
	changed bool
	// seen is the version up to which the SELECT has seen everything.
	seen uint64
}

// HotStart is what BeginRead has found.
type HotStart uint8

const (
	// HotPlain: this is no search for the row of a key of a hot table, or not one that memory understands. The database is
	// asked as for any table.
	HotPlain HotStart = iota
	// HotChanged: the table has another definition than the search. Resolve the names again.
	HotChanged
	// HotFound: the row is in memory by now, and was emitted.
	HotFound
	// HotLead: the caller has to have the SELECT made.
	HotLead
	// HotShared: somebody else's SELECT is under way.
	HotShared
)

// BeginRead begins the read of a row that Search has not found. emit is called for HotFound; read is nil but for HotLead
// and HotShared.
func (t *Table) BeginRead(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (read *HotRead, start HotStart) {
	if t.State() != StateHot {
		return nil, HotPlain
	}
	t.mu.Lock()
	defer t.unlock()
	g := t.hot
	if g == nil || t.State() != StateHot || !g.wholeKey(s) {
		return nil, HotPlain
	}
	if s.Def != g.def {
		return nil, HotChanged
	}
	key, err := g.enc.AppendValues(g.prefix(g.before[:0]), s.Values)
	if err != nil {
		return nil, HotPlain
	}
	g.before = key
	t.asked.Add(1)
	counts := g.rows.counts
	// The look and the note that a read begins are one step: a row that is put after it is not older than the read's end.
	if row, version, ok := g.rows.get(key); ok {
		counts.hits.Add(1)
		emit(row, version)
		return nil, HotFound
	}
	if r := g.running[string(key)]; r != nil {
		counts.shared.Add(1)
		return r, HotShared
	}
	r := &HotRead{gen: g, key: string(key), done: make(chan struct{})}
	g.running[r.key] = r
	counts.reads.Add(1)
	return r, HotLead
}

// Asked counts the searches of a hot table by whole keys since the table was added, by those who look whether anybody
// asks for it.
func (t *Table) Asked() uint64 { return t.asked.Load() }

// Finish ends the read with what the SELECT gave: a row, which is the read's from then on, or nil for none, or an error. seen is a version
// up to which the SELECT has certainly seen everything, known is false where there is no such version. publish is true
// when Publish has to follow.
func (r *HotRead) Finish(row rowcodec.Row, err error, seen uint64, known bool) (publish bool) {
	g := r.gen
	t := g.table
	t.mu.Lock()
	defer t.unlock()
	defer close(r.done)
	r.row, r.err, r.seen = row, err, seen
	if g.ended {
		// While the table is not hot the answer is one as of any table. When it is hot again its memory may have what is
		// older than this answer.
		r.changed = t.State() == StateHot
		g.rows.counts.dropped[dropEnded].Add(1)
		return false
	}
	// Another read may be running since a change cut this one loose. What that one sees may be older than this answer, so
	// nobody who comes later may share it.
	if g.running[r.key] == r || err == nil {
		delete(g.running, r.key)
	}
	if err != nil {
		return false
	}
	if have, _, ok := g.rows.get([]byte(r.key)); ok {
		// Another read was faster. What this one has seen may be newer, and then nobody may see it before memory has it.
		r.row = have
		g.rows.counts.dropped[dropOvertaken].Add(1)
		return false
	}
	// A row that waits was read before this answer and may be older.
	if g.unpublished[r.key] != nil {
		delete(g.unpublished, r.key)
	}
	if row == nil {
		return false
	}
	if reason, ok := r.keep(known); !ok {
		g.rows.counts.dropped[reason].Add(1)
		return false
	}
	g.unpublished[r.key] = r
	return true
}

// keep tells whether the row may be kept as far as is known when the read ends. The table's lock is held for writing.
func (r *HotRead) keep(known bool) (dropReason, bool) {
	g := r.gen
	switch {
	case !known:
		return dropUnsettled, false
	case !g.rows.fits([]byte(r.key), r.row):
		return dropTooLarge, false
	case g.touchedSince(r):
		return dropTouched, false
	}
	own, err := g.appendKey(g.after[:0], r.row)
	g.after = own
	if err != nil || string(own) != r.key {
		return dropOtherwise, false
	}
	return 0, true
}

// touchedSince tells whether the key of r may have been changed after what r has seen.
func (g *HotGeneration) touchedSince(r *HotRead) bool {
	return g.touched != nil && g.touched[g.place([]byte(r.key))] > r.seen
}

// Publish keeps the row that Finish has left waiting, unless something has come between. applied is whether everything
// that the SELECT may have seen has been applied.
func (r *HotRead) Publish(applied bool) {
	g := r.gen
	t := g.table
	t.mu.Lock()
	defer t.unlock()
	counts := g.rows.counts
	switch {
	case g.ended:
		counts.dropped[dropEnded].Add(1)
		return
	case g.unpublished[r.key] != r:
		counts.dropped[dropOvertaken].Add(1)
		return
	}
	delete(g.unpublished, r.key)
	switch {
	case !applied:
		counts.dropped[dropUnsettled].Add(1)
	case g.touchedSince(r):
		counts.dropped[dropTouched].Add(1)
	default:
		var err error
		if g.entry, err = g.rows.set(g.entry, []byte(r.key), r.row, r.seen); err != nil {
			counts.dropped[dropOtherwise].Add(1)
			return
		}
		g.held.Add(1)
		counts.published.Add(1)
	}
}

// Done is closed when the read has ended.
func (r *HotRead) Done() <-chan struct{} { return r.done }

// Answer is what the read came to, once it has ended: the row, nil when there is none, or an error. changed says that the
// table has been loaded anew meanwhile: resolve the names again. The row is shared and must not be changed.
func (r *HotRead) Answer() (row rowcodec.Row, changed bool, err error) {
	return r.row, r.changed, r.err
}
