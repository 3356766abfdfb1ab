package router

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Table is one table, wherever its rows are. It may be kept for long and used by many goroutines; it follows the table
// of its name through changes of definition and through memory.
type Table struct {
	router *Router
	name   schema.Name                  // as the server spells it
	used   atomic.Bool                  // since the last look for a table to evict
	cached atomic.Pointer[cache.Table]  // where it was last found in the store
	own    atomic.Pointer[schema.Table] // from the database; nil when not known. Written under Router.mu
	last   *schema.Table                // own as it was before it was forgotten; guarded by Router.mu
}

// definition is that of a table in memory, when memory vouches for it: the follower keeps it in step with the log.
func definition(ct *cache.Table) *schema.Table {
	if ct.Vouched() {
		return ct.Def()
	}
	return nil
}

// answers tells whether memory may have answers in that state.
func answers(s cache.State) bool { return s == cache.StateLive || s == cache.StateHot }

// inMemory returns the store's table, nil when there is none, or when memory is too old to answer.
func (t *Table) inMemory() *cache.Table {
	if t.router.stale.Load() {
		return nil
	}
	return t.stored()
}

// stored returns the store's table, nil when there is none.
func (t *Table) stored() *cache.Table {
	// A table that was removed from the store is never live or hot again.
	if ct := t.cached.Load(); ct != nil && answers(ct.State()) {
		return ct
	}
	if t.router.store == nil {
		return nil
	}
	ct := t.router.store.Table(t.name)
	if ct != t.cached.Load() {
		t.cached.Store(ct)
	}
	return ct
}

// cachedDef is the last definition that memory had, vouched for or not.
func (t *Table) cachedDef() *schema.Table {
	if ct := t.stored(); ct != nil {
		return ct.Def()
	}
	return nil
}

// Def returns the definition that searches are to be made for now; nil when it is not known, and Router.Open finds it.
// It does no I/O.
func (t *Table) Def() *schema.Table {
	if ct := t.inMemory(); ct != nil {
		if def := definition(ct); def != nil {
			return def
		}
	}
	return t.own.Load()
}

// SearchMemory answers s from memory, calling emit for each row with its version until emit returns false. served is
// false when only the database can answer; emit has not been called then. All rows are of one state between two
// transactions; a row is valid during the call of emit, which must be quick and must not call methods of the table. The
// error is ErrChanged. It does no I/O.
func (t *Table) SearchMemory(c *Counters, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error) {
	ct := t.inMemory()
	if ct == nil || t.fenced() {
		return false, nil
	}
	switch ct.Search(s, emit) {
	case cache.Served:
		c.addMemory(1)
		return true, nil
	case cache.Changed:
		return false, ErrChanged
	}
	return false, nil
}

// SearchFunc is SearchMemory within a view.
type SearchFunc = func(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error)

// ViewMemory calls fn with a function that works as SearchMemory does and sees the table as it is at one moment. fn must
// be quick and makes no other calls to the table.
func (t *Table) ViewMemory(c *Counters, fn func(search SearchFunc)) {
	var v View
	v.Hold(t)
	defer v.Release(c)
	fn(func(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
		return v.SearchMemory(t, s, emit)
	})
}

// SearchDatabase answers s from the database, with the same rows in the same order as memory would, until emit returns
// false. A row is valid during the call of emit. The error is ErrChanged, maybe after some rows, or the database's.
//
// A search that comes here because its index is not in memory, though the table is, makes memory build that index. One
// for a row of a hot table makes memory keep the row; when the row has come there since the caller looked, or while the
// database was asked, memory's is the answer: it is never older.
func (t *Table) SearchDatabase(ctx context.Context, c *Counters, s *schema.Search, emit func(row rowcodec.Row) bool) error {
	if s.Def != t.Def() {
		return ErrChanged
	}
	t.Prepare(s.Def, s.Index)
	if done, err := t.searchHot(ctx, c, s, emit); done {
		return err
	}
	_, err := t.router.db.SearchFrom(ctx, s, emit)
	return t.asked(c, s.Def, err)
}

// asked settles what the database has said to a search for the definition def.
func (t *Table) asked(c *Counters, def *schema.Table, err error) error {
	if errors.Is(err, dbreader.ErrTableChanged) {
		t.forget(def)
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	c.addDatabase(err)
	return err
}

// Prepare asks for an index of a table in memory, by its position in def, so that searches over it are answered there. It
// may take as long as sorting 20,000 rows. Nothing happens when the table is not in memory with that definition.
func (t *Table) Prepare(def *schema.Table, index int) {
	if ct := t.inMemory(); ct != nil && ct.State() == cache.StateLive && ct.Def() == def {
		ct.EnsureIndex(index)
	}
}

// forget drops the definition that the database no longer agrees with, unless it has been replaced already.
func (t *Table) forget(def *schema.Table) {
	t.router.mu.Lock()
	defer t.router.mu.Unlock()
	t.own.CompareAndSwap(def, nil)
	t.router.spoil(sameName(def.Schema, def.Name)) // a load that runs may have read the old definition
}
