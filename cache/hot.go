package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// HotGeneration is the content of a table in hot mode from one LoadHot on, and the writer's handle on it: rows that were
// asked for by their whole row-identity key, which changes in the log keep right. It ends as a Generation does.
//
// What holds at any time: a row that is in memory is the state of its key after everything that has been applied, and not
// older than any answer that a HotRead of that key has given. So whoever reads a key again and again by BeginRead and
// Search never sees it go back.
type HotGeneration struct {
	table *Table
	def   *schema.Table
	enc   keyEncoder
	rows  *hotRows
	id    uint64 // the first bytes of all keys
	held  *atomic.Int64

	// The table's lock protects what follows; ended is set when the generation is no longer the table's.
	ended bool
	// touched has the version of the last change of each key, many keys to a place: a change of one then looks like one of
	// another, which costs a fill. nil until the first change.
	touched []uint64
	// running are the reads by key that have not ended; unpublished are those whose row waits for the log.
	running, unpublished map[string]*HotRead

	before, after, entry []byte // of the change at hand
}

const (
	// touchedKeys is the size of touched, a power of two: 32 KiB for a table. What counts is how many keys are changed
	// between the start of a read and its publication, some milliseconds: of 4096 places a hundred changes spoil 2 %.
	touchedKeys = 4096
)

// hotCounts count what became of reads of all hot tables.
type hotCounts struct {
	generations                             atomic.Uint64
	hits, reads, shared, published, evicted atomic.Uint64
	dropped                                 [dropReasons]atomic.Uint64
}

// dropReason is why a row that was read is not kept.
type dropReason uint8

const (
	dropTouched   dropReason = iota // a change may have come after what the read saw
	dropOvertaken                   // another read of the key has ended since
	dropEnded                       // the table was suspended or loaded anew meanwhile
	dropUnsettled                   // it is not known what the read saw, or that it has all been applied
	dropTooLarge                    // the row is too large to be kept
	dropOtherwise                   // the key of the row is spelt in another way than the request's, or it has no place
	dropReasons
)

var dropNames = [dropReasons]string{"touched", "overtaken", "ended", "unsettled", "too_large", "otherwise"}

// HotCounts are figures of all hot tables of a store since it was made.
type HotCounts struct {
	// Hits are searches answered from memory. Reads are SELECTs for rows that were not there, Shared further requests that
	// took their answer from one of those.
	Hits, Reads, Shared uint64
	// Published are rows that were kept after a read, Dropped those that were not, by reason, Evicted those that had to
	// make room.
	Published, Evicted uint64
	Dropped            map[string]uint64
	// Bytes is the memory that hot rows take, Limit what is set aside for them; both are 0 before the first hot table.
	Bytes, Limit int64
}

// HotCounts returns the figures so far.
func (s *Store) HotCounts() HotCounts {
	c := &s.hotCounts
	sum := HotCounts{
		Hits: c.hits.Load(), Reads: c.reads.Load(), Shared: c.shared.Load(), Published: c.published.Load(), Evicted: c.evicted.Load(),
		Dropped: map[string]uint64{},
	}
	for reason, name := range dropNames {
		sum.Dropped[name] = c.dropped[reason].Load()
	}
	if h := s.hot.Load(); h != nil {
		sum.Bytes, sum.Limit = h.bytes(), h.limit
	}
	return sum
}

// LoadHot is Load for a table in hot mode: it drops the rows that are kept and begins a new HotGeneration with the
// definition def. The table is loading until HotGeneration.Live.
func (t *Table) LoadHot(def *schema.Table) (*HotGeneration, error) {
	enc, err := t.keyEncoder(def, ModeHot)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", t.fullName, err)
	}
	rows, err := t.store.hotRows()
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", t.fullName, err)
	}
	g := &HotGeneration{
		table: t, def: def, enc: enc, rows: rows, id: t.store.hotCounts.generations.Add(1), held: new(atomic.Int64),
		running: map[string]*HotRead{}, unpublished: map[string]*HotRead{},
	}
	t.mu.Lock()
	defer t.unlock()
	if err := t.begin(def); err != nil {
		return nil, fmt.Errorf("load %s: %w", t.fullName, err)
	}
	rows.held.Store(g.id, g.held)
	t.hot = g
	return g, nil
}

// drop ends the generation. The table's lock is held for writing.
func (g *HotGeneration) drop() {
	g.table.hot = nil
	g.ended = true
	g.rows.held.Delete(g.id)
	g.touched, g.running, g.unpublished = nil, nil, nil
}

// enter begins a section under the table's lock. When it returns an error the lock is not held.
func (g *HotGeneration) enter(what string) error {
	t := g.table
	t.mu.Lock()
	if g.ended {
		t.unlock()
		return fmt.Errorf("%s %s: %w", what, t.fullName, ErrStale)
	}
	return nil
}

// Hot marks a HotGeneration as one that takes no snapshot.
func (g *HotGeneration) Hot() {}

// MostRow is the size of rows above which none is kept: of a larger one Apply wants the key, and that it is larger.
func (g *HotGeneration) MostRow() int { return g.rows.mostEntry }

// Live makes the table hot. reason may say why it is kept so.
func (g *HotGeneration) Live(reason string) error {
	if err := g.enter("live"); err != nil {
		return err
	}
	defer g.table.unlock()
	g.table.move(StateHot, reason)
	return nil
}

// len is the number of rows, by what was put and what is known to have left.
func (g *HotGeneration) len() int { return int(max(g.held.Load(), 0)) }

// place is where a key is in touched.
func (g *HotGeneration) place(key []byte) uint64 {
	return g.rows.sum(asString(key)) % touchedKeys
}

// prefix appends what all keys of the generation begin with.
func (g *HotGeneration) prefix(dst []byte) []byte { return binary.BigEndian.AppendUint64(dst, g.id) }

// appendKey appends the key of a row.
func (g *HotGeneration) appendKey(dst []byte, row rowcodec.Row) ([]byte, error) {
	return g.enc.AppendRow(g.prefix(dst), row)
}

// Apply makes the changes that one transaction made to the table, in their order; readers see all of them or none.
// version is the transaction's. A row that is kept is replaced or dropped; one that is not kept is not put. A change that
// does not follow from a row that is kept gives ErrGap. After any error the table is suspended, before a reader can see
// it, and the HotGeneration stale.
func (g *HotGeneration) Apply(changes []rowcodec.Change, version uint64) error {
	if err := g.enter("apply to"); err != nil {
		return err
	}
	t := g.table
	defer t.unlock()
	for i := range changes {
		if err := g.change(&changes[i], version); err != nil {
			err = fmt.Errorf("apply to %s: change %d of %d: %w", t.fullName, i+1, len(changes), err)
			t.move(StateSuspended, err.Error())
			return err
		}
	}
	return nil
}

func (g *HotGeneration) change(c *rowcodec.Change, version uint64) error {
	var err error
	if c.Before != nil {
		if g.before, err = g.appendKey(g.before[:0], c.Before); err != nil {
			return fmt.Errorf("key of the before-image: %w", err)
		}
		g.touch(g.before, version)
	}
	if c.After != nil {
		if g.after, err = g.appendKey(g.after[:0], c.After); err != nil {
			return fmt.Errorf("key of the after-image: %w", err)
		}
		g.touch(g.after, version)
	}
	if c.Before == nil && c.After == nil {
		return errors.New("neither before-image nor after-image")
	}
	same := c.Before != nil && c.After != nil && bytes.Equal(g.before, g.after)
	if c.Before != nil {
		row, _, ok := g.rows.get(g.before)
		switch {
		case ok && !bytes.Equal(row, c.Before):
			return fmt.Errorf("%w: before-image differs from the row", ErrGap)
		case ok && same && g.rows.fits(g.after, c.After):
			g.entry, err = g.rows.set(g.entry, g.after, c.After, version)
			if err != nil {
				return err
			}
		case ok:
			g.remove(g.before)
		}
	}
	if c.After != nil && !same {
		if _, _, ok := g.rows.get(g.after); ok {
			return fmt.Errorf("%w: insert of a row that is there", ErrGap)
		}
	}
	return nil
}

// remove drops a row that is there.
func (g *HotGeneration) remove(key []byte) {
	g.rows.remove(key)
	g.held.Add(-1)
}

// touch notes a change of a key. Who asks for it from now on must not be given what a read has seen that began before.
func (g *HotGeneration) touch(key []byte, version uint64) {
	if g.touched == nil {
		g.touched = make([]uint64, touchedKeys)
	}
	g.touched[g.place(key)] = version
	if len(g.running) > 0 {
		delete(g.running, string(key))
	}
}

// search answers a search for one row by its whole key, if the row is there. The table's lock is held for reading.
func (g *HotGeneration) search(mem *scratch, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) Outcome {
	if g.table.State() != StateHot {
		return Pass
	}
	if s.Def != g.def {
		return Changed
	}
	if !g.wholeKey(s) {
		return Pass
	}
	key, err := g.enc.AppendValues(g.prefix(mem.prefix[:0]), s.Values)
	if err != nil {
		return Pass
	}
	mem.prefix = key
	row, version, ok := g.rows.get(key)
	if !ok {
		return Pass
	}
	g.table.asked.Add(1)
	g.rows.counts.hits.Add(1)
	emit(row, version)
	return Served
}

// wholeKey tells whether a search is one for the row of a whole key.
func (g *HotGeneration) wholeKey(s *schema.Search) bool {
	return s.Op == schema.OpEQ && s.Index == g.def.Key && len(s.Values) == len(g.def.Indexes[g.def.Key].Parts) && s.Offset <= 0
}
