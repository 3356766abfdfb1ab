package cache

import (
	"sync"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// scratch is the memory of one search.
type scratch struct {
	prefix []byte // of the keys that are asked for
	after  []byte // the smallest key behind all of those
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// Search answers one search from memory, or says that it can't. emit is called for each row in turn, with its version,
// and ends the search by returning false. The row is the table's own memory: it is valid until emit returns, and must not
// be changed. The table's lock is held for reading meanwhile, so emit must be quick and must not call methods of the
// table; all rows are of one state between two transactions.
func (t *Table) Search(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) Outcome {
	if st := t.State(); st != StateLive && st != StateHot {
		return Pass // without the lock, which a snapshot holds for long
	}
	mem := scratchPool.Get().(*scratch)
	defer scratchPool.Put(mem)
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.search(mem, s, emit)
}

// search does the work of Search; t.mu is held for reading.
func (t *Table) search(mem *scratch, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) Outcome {
	if t.hot != nil {
		return t.hot.search(mem, s, emit)
	}
	if t.State() != StateLive || t.redefining.Load() {
		return Pass
	}
	g := t.gen
	if s.Def != g.def {
		return Changed
	}
	enc, tr := g.index(s.Index)
	if tr == nil {
		return Pass
	}
	prefix, err := enc.AppendValues(mem.prefix[:0], s.Values)
	if err != nil {
		return Pass
	}
	mem.prefix = prefix
	if s.Op == schema.OpEQ && s.Index == g.def.Key && len(s.Values) == len(g.def.Indexes[s.Index].Parts) {
		if id, ok := tr.get(prefix); ok && s.Offset <= 0 {
			emit(g.log.get(id))
		}
		return Served
	}

	var c cursor
	switch s.Op {
	case schema.OpEQ, schema.OpGE:
		c = tr.seek(prefix)
	case schema.OpGT:
		c = mem.seekAfter(tr, prefix)
	case schema.OpLT:
		c = tr.prev(tr.seek(prefix))
	case schema.OpLE:
		c = tr.prev(mem.seekAfter(tr, prefix))
	default:
		return Pass
	}
	down := s.Op == schema.OpLT || s.Op == schema.OpLE
	for skip, left := s.Offset, s.Limit; !c.atEnd(); {
		if s.Op == schema.OpEQ && !tr.hasPrefix(c, prefix) {
			break
		}
		if skip > 0 {
			skip--
		} else {
			if !emit(g.log.get(tr.id(c))) {
				break
			}
			if left--; left == 0 {
				break
			}
		}
		if down {
			c = tr.prev(c)
		} else {
			c = tr.next(c)
		}
	}
	return Served
}

// seekAfter returns the first entry behind all those whose key begins with prefix, or the end.
func (m *scratch) seekAfter(tr tree, prefix []byte) cursor {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 {
		return tr.end()
	}
	m.after = append(m.after[:0], prefix[:n]...)
	m.after[n-1]++
	return tr.seek(m.after)
}

// index returns what is needed to search the index at that position; no tree when memory can't.
func (g *Generation) index(index int) (keyEncoder, tree) {
	if index < 0 || index >= len(g.indexes) {
		return nil, nil
	}
	if index == g.def.Key {
		return g.keyEnc, g.key
	}
	if ix := g.indexes[index]; ix != nil && ix.complete {
		return ix.enc, ix.tree
	}
	return nil, nil
}
