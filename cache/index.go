package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

const (
	// An index of a table of so many rows is built at once: that takes about 20 ms. Larger ones are built beside.
	buildAtOnceRows = 20_000
	// A builder keeps Apply waiting for so many rows at a time, some tenths of a millisecond.
	buildBatchRows = 256
)

// IndexState says what an index in memory can do.
type IndexState uint8

const (
	// IndexBuilding: being built, searches over it pass.
	IndexBuilding IndexState = iota
	// IndexComplete: searches over it are answered.
	IndexComplete
	// IndexFailed: can't be had, searches over it pass. IndexStatus.Reason says why.
	IndexFailed
)

// String returns the state's name in status output.
func (s IndexState) String() string {
	switch s {
	case IndexBuilding:
		return "building"
	case IndexComplete:
		return "complete"
	case IndexFailed:
		return "failed"
	default:
		return fmt.Sprintf("index state(%d)", uint8(s))
	}
}

// IndexStatus is what is to be told about one index of a table.
type IndexStatus struct {
	Name   string
	State  IndexState
	Reason string // why it failed
	// Done and Total are row ids looked at, and those there are; equal once the index is complete.
	Done, Total uint64
	Bytes       int64
}

// secondary is an index besides the row-identity key. Its keys are the index's own followed by the row-identity key, so
// rows that are equal in the index come in the order of that, as in InnoDB.
//
// While it is being built it has exactly the rows whose id is below next: the builder adds them by id, and Apply changes
// it for ids below next and leaves the others to the builder. So no change is lost, whenever it comes.
type secondary struct {
	name     string
	enc      keyEncoder
	tree     tree // nil when failed
	failed   error
	complete bool
	next     atomic.Uint32
	bytes    atomic.Int64 // as counted in the table and the store
	buf      []byte       // the builder's
}

// EnsureIndex asks for an index, by its position in Def().Indexes, so that searches over it are answered from memory. It
// is built at once when the table has at most 20,000 rows and in the background when it has more; until it is complete
// searches over it pass. From then on it is kept right, and after a new Load it is built again. On a table that is not
// live the wish is noted. Asking again costs little.
func (t *Table) EnsureIndex(index int) {
	def := t.Def()
	if def == nil || index < 0 || index >= len(def.Indexes) || index == def.Key {
		return
	}
	t.mu.RLock()
	g := t.gen
	known := g != nil && g.def == def && g.indexes[index] != nil
	t.mu.RUnlock()
	if known {
		return
	}
	if ix, g, small := t.wantIndex(def, index); ix != nil {
		if small {
			g.build(t.store.buildersCtx, ix)
		} else {
			t.store.background(func(ctx context.Context) { g.build(ctx, ix) })
		}
	}
}

// wantIndex notes that an index is wanted, and returns it when it is the caller's to build.
func (t *Table) wantIndex(def *schema.Table, index int) (ix *secondary, g *Generation, small bool) {
	t.mu.Lock()
	defer t.unlock()
	if t.Def() != def {
		return nil, nil, false
	}
	t.wanted[def.Indexes[index].Name] = struct{}{}
	if t.State() != StateLive {
		return nil, nil, false
	}
	g = t.gen
	return g.startIndex(index), g, g.log.rows <= buildAtOnceRows
}

// Indexes returns what is to be told about the indexes besides the row-identity key, by their place in the definition.
func (t *Table) Indexes() []IndexStatus {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.indexes()
}

func (t *Table) indexes() []IndexStatus {
	if t.gen == nil {
		return nil
	}
	var list []IndexStatus
	for _, ix := range t.gen.indexes {
		if ix == nil {
			continue
		}
		s := IndexStatus{Name: ix.name, Total: uint64(t.gen.log.ids), Bytes: ix.bytes.Load()}
		switch {
		case ix.failed != nil:
			s.State, s.Reason = IndexFailed, ix.failed.Error()
		case ix.complete:
			s.State, s.Done = IndexComplete, s.Total
		default:
			s.State, s.Done = IndexBuilding, min(uint64(ix.next.Load()), s.Total)
		}
		list = append(list, s)
	}
	return list
}

// startIndex makes the index at that position and returns it when it is to be built: nil when it is there already or
// can't be had. The table's lock is held for writing.
func (g *Generation) startIndex(index int) *secondary {
	if index < 0 || index == g.def.Key || g.indexes[index] != nil {
		return nil
	}
	ix := &secondary{name: g.def.Indexes[index].Name}
	g.indexes[index] = ix
	enc, err := g.table.store.cfg.newEncoder(g.def, index)
	if err != nil {
		ix.failed = err
		return nil
	}
	ix.enc = enc
	width := 0
	if a, b := enc.FixedWidth(), g.keyEnc.FixedWidth(); a > 0 && b > 0 {
		width = a + b
	}
	ix.tree = newTree(g.table.store.pool, width)
	return ix
}

// build fills an index in batches until it is complete, has failed, the generation has ended or ctx has.
func (g *Generation) build(ctx context.Context, ix *secondary) {
	for ctx.Err() == nil {
		more, err := g.buildBatch(ix)
		if err == nil && more {
			continue
		}
		if g.endBuild(ix, err) {
			return
		}
	}
}

// endBuild notes that an index has failed or has all rows, and tells whether the builder is done with it. It is not when
// Apply has added rows since.
func (g *Generation) endBuild(ix *secondary, err error) bool {
	t := g.table
	t.mu.Lock()
	defer t.unlock()
	if t.gen != g || ix.tree == nil {
		return true
	}
	if err != nil {
		ix.fail(t, err)
		return true
	}
	ix.complete = ix.next.Load() >= g.log.ids
	return ix.complete
}

// buildBatch adds some rows to an index, and tells whether there are more. Readers go on meanwhile.
func (g *Generation) buildBatch(ix *secondary) (more bool, err error) {
	t := g.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gen != g || ix.tree == nil {
		return false, nil
	}
	return g.fill(ix, buildBatchRows)
}

// fill adds the rows with the next ids, at most limit of them, to an index.
func (g *Generation) fill(ix *secondary, limit uint32) (more bool, err error) {
	id := ix.next.Load()
	end := g.log.ids
	if end > id && end-id > limit {
		end = id + limit
	}
	for ; id < end; id++ {
		if !g.log.inUse(id) {
			continue
		}
		row, _ := g.log.get(id)
		if ix.buf, err = g.indexKey(ix.buf[:0], ix, row); err != nil {
			return false, err
		}
		ix.tree.put(ix.buf, id)
	}
	ix.next.Store(id)
	ix.countMemory(g.table)
	if g.table.store.overLimit() {
		return false, ErrMemory
	}
	return id < g.log.ids, nil
}

// indexKey appends the key of a row in an index.
func (g *Generation) indexKey(dst []byte, ix *secondary, row rowcodec.Row) ([]byte, error) {
	dst, err := ix.enc.AppendRow(dst, row)
	if err != nil {
		return dst, err
	}
	return g.keyEnc.AppendRow(dst, row)
}

// has tells whether Apply has to keep the row of that id right in the index.
func (ix *secondary) has(id uint32) bool {
	return ix != nil && ix.tree != nil && (ix.complete || id < ix.next.Load())
}

// fail gives up an index and its memory. The table's lock is held for writing.
func (ix *secondary) fail(t *Table, err error) {
	ix.tree.release()
	ix.failed, ix.tree, ix.complete = err, nil, false
	ix.countMemory(t)
}

func (ix *secondary) countMemory(t *Table) {
	var now int64
	if ix.tree != nil {
		now = ix.tree.bytes()
	}
	t.count(&ix.bytes, now, &t.indexBytes)
}

// addToIndexes adds a row to the indexes. A row that has no key in an index costs the table that index.
func (g *Generation) addToIndexes(id uint32, row rowcodec.Row) {
	for _, ix := range g.indexes {
		if !ix.has(id) {
			continue
		}
		var err error
		if g.old, err = g.indexKey(g.old[:0], ix, row); err != nil {
			ix.fail(g.table, err)
			continue
		}
		ix.tree.put(g.old, id)
	}
}

// dropFromIndexes takes a row out of the indexes.
func (g *Generation) dropFromIndexes(id uint32, row rowcodec.Row) {
	for _, ix := range g.indexes {
		if !ix.has(id) {
			continue
		}
		var err error
		if g.old, err = g.indexKey(g.old[:0], ix, row); err != nil {
			ix.fail(g.table, err)
			continue
		}
		ix.tree.del(g.old)
	}
}

// moveInIndexes puts a row where its new content belongs. Its row-identity key is the same.
func (g *Generation) moveInIndexes(id uint32, from, to rowcodec.Row) {
	for _, ix := range g.indexes {
		if !ix.has(id) {
			continue
		}
		var err, err2 error
		g.old, err = g.indexKey(g.old[:0], ix, from)
		g.new, err2 = g.indexKey(g.new[:0], ix, to)
		if err = errors.Join(err, err2); err != nil {
			ix.fail(g.table, err)
			continue
		}
		if !bytes.Equal(g.old, g.new) {
			ix.tree.del(g.old)
			ix.tree.put(g.new, id)
		}
	}
}
