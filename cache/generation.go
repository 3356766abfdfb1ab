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

// Generation is the content of a table from one Load on, and the writer's handle on it. It ends with the next Load,
// Suspend or Refuse of the table, and with an error of Apply or Install; its methods then return ErrStale.
type Generation struct {
	table *Table
	def   *schema.Table
	*body // nil once the generation has ended: who still holds it must not hold the memory
}

// body is what a generation holds while it is the table's current one. The table's lock protects it.
type body struct {
	log     *rowLog
	key     tree // of the row-identity key
	keyEnc  keyEncoder
	indexes []*secondary // by position in def.Indexes; nil where none was asked for. Filled from Live on

	// While loading, and while audited: the keys that Apply deleted, with the version, so that snapshot rows read before
	// that are not installed. queue has them in the order of their versions; a key may be in it several times.
	audited   bool
	restored  bool // Install's rows are those of a saved state
	marks     map[string]uint64
	queue     []mark
	queueDone int
	markBytes int64
	check     loadCheck

	rowBytes, keyBytes atomic.Int64 // as counted in the table and the store

	origin        Origin // of the rows of the call at hand
	before, after []byte // keys of the change at hand
	old, new      []byte // keys of the secondary index at hand
}

type mark struct {
	key     string
	version uint64
}

// markOverhead is about what a mark takes besides its key: a map entry and a queue entry.
const markOverhead = 100

// Def returns the definition that the content is of; shared.
func (g *Generation) Def() *schema.Table {
	g.table.mu.RLock()
	defer g.table.mu.RUnlock()
	return g.def
}

// enter begins a section under the table's lock. When it returns an error the lock is not held.
func (g *Generation) enter(what string) error {
	t := g.table
	t.mu.Lock()
	if t.gen != g {
		t.unlock()
		return fmt.Errorf("%s %s: %w", what, t.fullName, ErrStale)
	}
	return nil
}

// Apply makes the changes that one transaction made to the table, in their order; readers see all of them or none.
// version is the transaction's. The rows are copied.
//
// When the table is live each change must follow from what is cached: a before-image that is not the cached row byte for
// byte, or an insert of a key that is there, gives ErrGap. While it is loading that holds for rows that are there, and
// what the changes say of others must agree with the rows to come; after Restored what they say is taken. After any error the table is suspended, before a reader can see it, and the Generation stale.
func (g *Generation) Apply(changes []rowcodec.Change, version uint64) error {
	if err := g.enter("apply to"); err != nil {
		return err
	}
	t := g.table
	defer t.unlock()
	g.origin = OriginStream
	live := t.State() == StateLive
	for i := range changes {
		if err := g.change(&changes[i], version, live); err != nil {
			err = fmt.Errorf("apply to %s: change %d of %d: %w", t.fullName, i+1, len(changes), err)
			t.move(StateSuspended, err.Error())
			return err
		}
	}
	return g.settle()
}

// MostRow is the largest row that the table keeps, in bytes; 0 for no limit. One with a larger row gives ErrMemory.
func (g *Generation) MostRow() int { return g.table.store.mostRow }

// TooLarge is the error that a row of more than MostRow bytes gives.
func (g *Generation) TooLarge() error {
	return fmt.Errorf("%s: %w: it has a row of more than %d bytes", g.table.fullName, ErrMemory, g.MostRow())
}

// fits gives the error of a row that is too large.
func (g *Generation) fits(row rowcodec.Row) error {
	if most := g.MostRow(); most > 0 && len(row) > most {
		return g.TooLarge()
	}
	return nil
}

func (g *Generation) change(c *rowcodec.Change, version uint64, live bool) error {
	err := g.fits(c.After)
	if err != nil {
		return err
	}
	if c.Before != nil {
		if g.before, err = g.keyEnc.AppendRow(g.before[:0], c.Before); err != nil {
			return fmt.Errorf("key of the before-image: %w", err)
		}
	}
	if c.After != nil {
		if g.after, err = g.keyEnc.AppendRow(g.after[:0], c.After); err != nil {
			return fmt.Errorf("key of the after-image: %w", err)
		}
	}
	switch {
	case c.Before == nil && c.After == nil:
		return errors.New("neither before-image nor after-image")
	case c.Before == nil:
		return g.insert(c.After, version, live)
	case c.After == nil:
		return g.remove(c.Before, version, live)
	case bytes.Equal(g.before, g.after):
		return g.update(c, version, live)
	}
	if err := g.remove(c.Before, version, live); err != nil {
		return err
	}
	return g.insert(c.After, version, live)
}

// insert stores row under the key g.after.
func (g *Generation) insert(row rowcodec.Row, version uint64, live bool) error {
	id, err := g.log.add(row, version, g.origin)
	if err != nil {
		return err
	}
	old, replaced := g.key.put(g.after, id)
	switch {
	case live && replaced, replaced && !g.restored:
		return fmt.Errorf("%w: insert of a row that is there", ErrGap)
	case replaced:
		g.log.remove(old)
		return nil
	case !live && !g.restored:
		g.check.note(g.after, nil, false, version)
	}
	g.addToIndexes(id, row)
	return nil
}

// remove drops the row under the key g.before.
func (g *Generation) remove(before rowcodec.Row, version uint64, live bool) error {
	id, ok := g.key.del(g.before)
	row, err := g.follows(g.before, id, ok, before, version, live)
	if err != nil {
		return err
	}
	if live {
		g.dropFromIndexes(id, row)
	}
	if !live || g.audited {
		g.mark(version)
	}
	if ok {
		g.log.remove(id)
	}
	return nil
}

// update replaces the row under the key g.after, which is g.before as well.
func (g *Generation) update(c *rowcodec.Change, version uint64, live bool) error {
	id, ok := g.key.get(g.after)
	row, err := g.follows(g.after, id, ok, c.Before, version, live)
	switch {
	case err != nil:
		return err
	case live:
		g.moveInIndexes(id, row, c.After)
	case !ok:
		if id, err = g.log.add(c.After, version, g.origin); err == nil {
			g.key.put(g.after, id)
		}
		return err
	}
	return g.log.set(id, c.After, version, g.origin)
}

// follows checks that the change of a row follows from the one with that id, if there is one, and returns it. While the
// table is loading it remembers what the log says.
func (g *Generation) follows(key []byte, id uint32, there bool, before rowcodec.Row, version uint64, live bool) (rowcodec.Row, error) {
	if !live && g.restored {
		return nil, nil
	}
	if !there {
		if live || g.check.isPassed(key) || g.marks[string(key)] != 0 {
			return nil, fmt.Errorf("%w: change of a row that is not there", ErrGap)
		}
		g.check.note(key, before, false, version)
		return nil, nil
	}
	row, _ := g.log.get(id)
	if !bytes.Equal(row, before) {
		return nil, fmt.Errorf("%w: before-image differs from the row", ErrGap)
	}
	if !live {
		g.check.note(key, before, g.log.origin(id) == OriginSnapshot, version)
	}
	return row, nil
}

// mark notes that the key g.before was deleted at version.
func (g *Generation) mark(version uint64) {
	key := string(g.before)
	g.marks[key] = version
	g.queue = append(g.queue, mark{key: key, version: version})
	g.markBytes += markOverhead + int64(len(key))
}

// PurgeMarks tells that no Compare with a lower version than this one will come: what an audit remembers of deletions up
// to that version is forgotten. On a stale Generation it does nothing.
func (g *Generation) PurgeMarks(low uint64) {
	if g.enter("purge marks of") != nil {
		return
	}
	defer g.table.unlock()
	g.purgeMarks(low)
}

// purgeMarks forgets the deletions up to a version.
func (g *Generation) purgeMarks(low uint64) {
	for g.queueDone < len(g.queue) && g.queue[g.queueDone].version <= low {
		m := g.queue[g.queueDone]
		if g.marks[m.key] == m.version {
			delete(g.marks, m.key)
		}
		g.markBytes -= markOverhead + int64(len(m.key))
		g.queueDone++
	}
	switch rest := g.queue[g.queueDone:]; {
	case len(rest) == 0:
		g.dropMarks()
	case g.queueDone > len(rest):
		// Maps do not shrink: move what is left.
		marks := make(map[string]uint64, len(g.marks))
		for k, v := range g.marks {
			marks[k] = v
		}
		g.marks, g.queue, g.queueDone = marks, append([]mark(nil), rest...), 0
	}
	g.countMemory()
}

func (g *Generation) dropMarks() {
	g.marks, g.queue, g.queueDone, g.markBytes = map[string]uint64{}, nil, 0, 0
}

// Live declares the table complete: from now on it answers. Indexes that were asked for are built, at once when the
// table is small, else in the background.
func (g *Generation) Live() error {
	large, err := g.live()
	for _, ix := range large {
		g.table.store.background(func(ctx context.Context) { g.build(ctx, ix) })
	}
	return err
}

// live makes the table live and returns the indexes that are to be built in the background.
func (g *Generation) live() (large []*secondary, err error) {
	if err := g.enter("live"); err != nil {
		return nil, err
	}
	t := g.table
	defer t.unlock()
	if t.State() == StateLive {
		return nil, nil
	}
	if err := g.checkUnread(g.check.low, g.check.high, true); err != nil {
		err = fmt.Errorf("live %s: %w", t.fullName, err)
		t.move(StateSuspended, err.Error())
		return nil, err
	}
	g.check = loadCheck{}
	g.dropMarks()
	large = g.buildWanted()
	if err := g.settle(); err != nil {
		return nil, err
	}
	t.move(StateLive, "")
	return large, nil
}

// Progress notes how far the snapshot is, in rows, for the table's status. On a stale Generation it does nothing.
func (g *Generation) Progress(done, total uint64) {
	t := g.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gen == g {
		t.done.Store(done)
		t.total.Store(total)
	}
}

// countMemory notes what the generation takes.
func (g *Generation) countMemory() {
	t := g.table
	t.count(&g.rowBytes, g.log.bytes()+g.markBytes+g.check.size, &t.rowBytes)
	t.count(&g.keyBytes, g.key.bytes(), &t.indexBytes)
	for _, ix := range g.indexes {
		if ix != nil {
			ix.countMemory(t)
		}
	}
}

// settle ends a change: it counts the memory, and when the table has grown beyond the limit gives up first its indexes
// and then the table.
func (g *Generation) settle() error {
	t := g.table
	had := t.rowBytes.Load() + t.indexBytes.Load()
	g.countMemory()
	if !t.store.overLimit() || t.rowBytes.Load()+t.indexBytes.Load() <= had {
		return nil
	}
	for _, ix := range g.indexes {
		if ix != nil && ix.tree != nil {
			ix.fail(t, ErrMemory)
		}
	}
	if !t.store.overLimit() {
		return nil
	}
	err := fmt.Errorf("%s: %w: %d of %d bytes in use", t.fullName, ErrMemory, t.store.Used(), t.store.cfg.MemoryLimit)
	t.move(StateSuspended, err.Error())
	return err
}
