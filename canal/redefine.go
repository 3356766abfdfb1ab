package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// redefinitions is how many definitions of live tables are read at a time, beside the loads.
const redefinitions = 2

// keep takes a statement that leaves the rows and columns of a table as they are. It is false where the table has to be
// loaded anew all the same: while it is being loaded under its old definition, where it has generated columns, whose
// values a server may compute again when it copies the table for such a statement, and where little is lost, of a hot one.
func (f *Follower) keep(t *table, indexes bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.feed.Load()
	switch {
	case to == nil && !indexes:
		return true // what is to be loaded has the statement's effect, or does not need it
	case to == nil || slices.ContainsFunc(to.def.Columns, func(c schema.Column) bool { return c.Generated }):
		return false
	case !indexes:
		return true
	case t.phase != phaseLive || t.hot:
		return false
	}
	t.redefine++
	f.cfg.Sink.Redefine(t.name.Schema, t.name.Table)
	f.wakeLoader()
	return true
}

// startRedefinitions starts what keep asked for, while there are slots.
func (f *Follower) startRedefinitions(ctx context.Context, wg *sync.WaitGroup, slots chan struct{}) {
	for _, t := range f.tables.all() {
		t.mu.Lock()
		start := t.redefine > 0 && !t.redefining
		if start {
			select {
			case slots <- struct{}{}:
				t.redefining = true
			default:
				start = false // the end of another one wakes the loader
			}
		}
		t.mu.Unlock()
		if start {
			wg.Go(func() {
				f.redefine(ctx, t)
				<-slots
				f.wakeLoader()
			})
		}
	}
}

// errChanged says that a definition is not one that the rows in memory fit.
var errChanged = errors.New("its columns, its key or its engine are not what they were")

// redefine reads the definition of a live table whose indexes may have changed, and gives it to the table's Target. Where
// that can't be done the table is loaded anew.
func (f *Follower) redefine(ctx context.Context, t *table) {
	defer func() {
		t.mu.Lock()
		t.redefining = false
		t.mu.Unlock()
	}()
	for {
		t.mu.Lock()
		count, to := t.redefine, t.feed.Load()
		t.mu.Unlock()
		if count == 0 || to == nil {
			return
		}
		def, err := f.newDefinition(ctx, t, to.def)
		if ctx.Err() != nil {
			return
		}
		// Between two transactions nobody decodes by the definition.
		if f.gate.take(ctx) != nil {
			return
		}
		again := f.settleDefinition(t, to, count, def, err)
		f.gate.release()
		if !again {
			return
		}
	}
}

// settleDefinition ends a redefinition. again is true when there was another statement meanwhile. The gate is held.
func (f *Follower) settleDefinition(t *table, to *feed, count int, def *schema.Table, err error) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.feed.Load() != to:
		return false // it is being loaded anew
	case t.redefine != count:
		return true
	case err == nil:
		if err = to.target.Redefine(def); err == nil {
			t.feed.Store(&feed{target: to.target, def: def})
			t.redefine = 0
			f.log.Info("table has other indexes", "table", t.name.String())
			return false
		}
	}
	f.suspendLocked(t, fmt.Sprintf("its definition has changed: %v", err))
	t.wanted = true
	return false
}

// newDefinition reads the definition and waits until the stream has come to a place where the table has it, as a load
// does. A statement about the table between shows in table.redefine, or suspends the table.
func (f *Follower) newDefinition(ctx context.Context, t *table, old *schema.Table) (def *schema.Table, err error) {
	var end coordinate
	err = f.withConn(ctx, func(c *sqltext.Conn) error {
		if err := f.pos.waitPlace(ctx, coordinate{}); err != nil {
			return err
		}
		if err := waitVisible(ctx, c, f.pos.mark()); err != nil {
			return err
		}
		var err error
		if def, err = schema.Load(ctx, c, c.Flavor(), t.name.Schema, t.name.Table); err != nil {
			return err
		}
		end, _, err = logEnd(ctx, c)
		return err
	})
	if err == nil {
		f.hook(hookRedefined, t.name)
		err = f.pos.waitPlace(ctx, end)
	}
	switch {
	case err != nil:
		return nil, err
	case def.Refusal != "" || !sameRows(old, def):
		return nil, errChanged
	}
	return def, nil
}

// sameRows reports that rows kept under one definition are those of the other.
func sameRows(a, b *schema.Table) bool {
	return a.Schema == b.Schema && a.Name == b.Name && a.Engine == b.Engine && a.SameColumns(b) && a.Key >= 0 && b.Key >= 0 &&
		slices.Equal(a.Indexes[a.Key].Parts, b.Indexes[b.Key].Parts)
}
