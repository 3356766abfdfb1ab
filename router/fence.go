package router

import (
	"sync"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/schema"
)

// fences are the tables that memory does not answer for at present, because a commit that was answered to its client has
// not been applied yet.
type fences struct {
	n      atomic.Int64 // of all; reads look no further while it is 0
	mu     sync.Mutex
	tables map[schema.Name]int
}

// Fence makes the database answer for a table until lift is called, which is to be done once. def's names are the
// server's spelling.
func (r *Router) Fence(def *schema.Table) (lift func()) {
	name := schema.Name{Schema: def.Schema, Table: def.Name}
	f := &r.fences
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil {
		f.tables = map[schema.Name]int{}
	}
	f.tables[name]++
	f.n.Add(1)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.n.Add(-1)
		if f.tables[name]--; f.tables[name] == 0 {
			delete(f.tables, name)
		}
	}
}

func (t *Table) fenced() bool {
	f := &t.router.fences
	if f.n.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tables[t.name] > 0
}
