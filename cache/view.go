package cache

import (
	"cmp"
	"slices"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// View holds tables still, each as it is at one moment, for several searches that have to see the same state. The zero
// value holds none, and a View may be used again after Release. It is for one goroutine at a time.
//
// Between Hold and Release the locks of the tables are held for reading: changes of them wait, and new readers behind
// those. So what is done meanwhile must be quick, and must call no methods of a table but State and Def, and hold no
// other View.
type View struct {
	tables []*Table
	mem    *scratch
}

// Hold takes the tables as they are, each once however often it is given. Views that hold several tables don't keep each
// other waiting for ever: all of them take their tables in the same order.
func (v *View) Hold(tables ...*Table) {
	v.tables = append(v.tables[:0], tables...)
	if len(tables) > 1 {
		slices.SortFunc(v.tables, func(a, b *Table) int { return cmp.Compare(a.order, b.order) })
		v.tables = slices.Compact(v.tables)
	}
	for _, t := range v.tables {
		t.mu.RLock()
	}
	v.mem = scratchPool.Get().(*scratch)
}

// Release lets the tables go on. Nothing happens when none is held.
func (v *View) Release() {
	for _, t := range v.tables {
		t.mu.RUnlock()
	}
	clear(v.tables)
	v.tables = v.tables[:0]
	if v.mem != nil {
		scratchPool.Put(v.mem)
		v.mem = nil
	}
}

// Def returns the definition that searches of a held table are to be made for; nil when memory has no answer to any.
func (v *View) Def(t *Table) *schema.Table {
	switch {
	case t.hot != nil && t.State() == StateHot:
		return t.hot.def
	case t.gen != nil && t.State() == StateLive && !t.redefining.Load():
		return t.gen.def
	}
	return nil
}

// Search is Table.Search for a held table.
func (v *View) Search(t *Table, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) Outcome {
	return t.search(v.mem, s, emit)
}
