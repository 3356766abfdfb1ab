package router

import (
	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// View holds tables still in memory, so that several searches see one state of each. The zero value holds none, and a
// View may be used again after Release. It is for one goroutine at a time.
//
// Between Hold and Release changes of the tables wait, so what is done meanwhile must be quick, and it must call no
// methods of tables and of the Router, and hold no other View.
type View struct {
	view   cache.View
	held   []heldTable
	stored []*cache.Table
	served uint64 // not counted yet
}

type heldTable struct {
	t      *Table
	stored *cache.Table
}

// Hold takes those of the tables that memory has answers for, each as it is at one moment.
func (v *View) Hold(tables ...*Table) {
	for _, t := range tables {
		// Those without answers are left alone: a snapshot holds the lock for long.
		if ct := t.inMemory(); ct != nil && answers(ct.State()) && !t.fenced() {
			v.held = append(v.held, heldTable{t, ct})
			v.stored = append(v.stored, ct)
		}
	}
	if len(v.stored) > 0 {
		v.view.Hold(v.stored...)
	}
}

// Release lets the tables go on, and counts the searches that were answered.
func (v *View) Release(c *Counters) {
	v.view.Release()
	clear(v.held)
	clear(v.stored)
	v.held, v.stored = v.held[:0], v.stored[:0]
	if v.served > 0 {
		c.addMemory(v.served)
		v.served = 0
	}
}

func (v *View) find(t *Table) *cache.Table {
	for i := range v.held {
		if v.held[i].t == t {
			return v.held[i].stored
		}
	}
	return nil
}

// Def returns the definition that searches of t in this view are to be made for; nil when none is answered in it.
func (v *View) Def(t *Table) *schema.Table {
	if ct := v.find(t); ct != nil {
		return v.view.Def(ct)
	}
	return nil
}

// SearchMemory is Table.SearchMemory of t in this view. A table that is not held is not served.
func (v *View) SearchMemory(t *Table, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error) {
	ct := v.find(t)
	if ct == nil {
		return false, nil
	}
	switch v.view.Search(ct, s, emit) {
	case cache.Served:
		v.served++
		return true, nil
	case cache.Changed:
		return false, ErrChanged
	}
	return false, nil
}
