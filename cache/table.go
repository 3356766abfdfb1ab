package cache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/schema"
)

// Table is one table of a Store: its state and, while it is loading or live, its content.
type Table struct {
	store    *Store
	name     schema.Name
	fullName string // name for people
	order    uint64 // of the store's tables; locks of several are taken in it
	mode     atomic.Uint32

	def        atomic.Pointer[schema.Table] // of the last Load
	state      atomic.Uint32                // written by move alone
	done       atomic.Uint64
	total      atomic.Uint64
	rowBytes   atomic.Int64
	indexBytes atomic.Int64
	asked      atomic.Uint64 // of hot tables: searches by whole keys

	announceMu sync.Mutex

	// mu protects what follows and everything that gen points to.
	mu     sync.RWMutex
	reason string
	gen    *Generation    // the current one; nil unless loading or live
	hot    *HotGeneration // the same of a table in hot mode; nil unless loading or hot
	// redefining is set while the table is live and its indexes may not be those of its definition. It is read without mu.
	redefining atomic.Bool
	wanted     map[string]struct{} // names of the indexes that EnsureIndex asked for
	pending    []Transition        // not announced yet
	removed    bool
}

// Status is what a table has to say about itself.
type Status struct {
	Name   string
	Mode   Mode
	State  State
	Reason string
	// Rows is the number of rows in memory: exact, but for a hot table, of which it may count rows that are gone.
	Rows int
	// RowBytes and IndexBytes are memory; both are 0 unless the table is loading or live. The memory of hot rows is that
	// of all hot tables together.
	RowBytes, IndexBytes int64
	// SnapshotDone and SnapshotTotal are rows, as the last snapshot reported them.
	SnapshotDone, SnapshotTotal uint64
	// Indexes are those that are in memory, being built, or were asked for and can't be had.
	Indexes []IndexStatus
}

// Name returns the table's full name for people, schema.table. With dots in names two tables may have the same one.
func (t *Table) Name() string { return t.fullName }

// Ident returns the name that the table was added under.
func (t *Table) Ident() schema.Name { return t.name }

// Mode returns how the table is kept.
func (t *Table) Mode() Mode { return Mode(t.mode.Load()) }

// SetMode says how the table is kept from its next Load or LoadHot on.
func (t *Table) SetMode(m Mode) { t.mode.Store(uint32(m)) }

// State returns the table's state.
func (t *Table) State() State { return State(t.state.Load()) }

// Def returns the definition of the last Load, nil before the first. It is shared and must not be changed.
func (t *Table) Def() *schema.Table { return t.def.Load() }

// Content returns the table's present content while it is live, else nil.
func (t *Table) Content() *Generation {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.State() != StateLive {
		return nil
	}
	return t.gen
}

// Reason says for people why the table is in its state; often empty.
func (t *Table) Reason() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.reason
}

// Len returns the number of rows in memory: of the table when it is live, of the part that has arrived while it is loading,
// those that are kept while it is hot, else 0.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.len()
}

func (t *Table) len() int {
	switch {
	case t.gen != nil:
		return t.gen.log.rows
	case t.hot != nil:
		return t.hot.len()
	}
	return 0
}

// Memory returns the bytes that the rows and the indexes of the table take.
func (t *Table) Memory() (rowBytes, indexBytes int64) {
	return t.rowBytes.Load(), t.indexBytes.Load()
}

// Status returns everything about the table for status output, as of one moment.
func (t *Table) Status() Status {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := Status{
		Name: t.fullName, Mode: t.Mode(), State: t.State(), Reason: t.reason, Rows: t.len(),
		SnapshotDone: t.done.Load(), SnapshotTotal: t.total.Load(), Indexes: t.indexes(),
	}
	s.RowBytes, s.IndexBytes = t.Memory()
	if t.redefining.Load() {
		s.Reason = "its new indexes are being looked up"
	}
	return s
}

// Load empties the table and begins a new Generation of it with the definition def, which is kept and must not change.
// The table is then loading. An error means that the table can't be kept in memory, and why; nothing has changed then,
// and the caller refuses the table.
//
// def is of the table's name, or of one that differs in the case of letters alone, as a server whose names know no case
// may spell it; Store.Table then finds the table under that name too. The rows of one table of the server are kept once:
// it is an error when the store has, or had, another table for that spelling.
func (t *Table) Load(def *schema.Table) (*Generation, error) {
	g, err := t.newGeneration(def)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", t.fullName, err)
	}
	t.mu.Lock()
	defer t.unlock()
	if err := t.begin(def); err != nil {
		return nil, fmt.Errorf("load %s: %w", t.fullName, err)
	}
	t.gen = g
	for name := range t.wanted {
		if def.IndexByName(name) < 0 {
			delete(t.wanted, name)
		}
	}
	g.settle()
	return g, nil
}

// begin makes the table loading with the definition def. t.mu is held for writing.
func (t *Table) begin(def *schema.Table) error {
	if t.removed {
		return errors.New("the table was removed")
	}
	if owner, ok := t.store.claim(schema.Name{Schema: def.Schema, Table: def.Name}, t.name); !ok {
		return fmt.Errorf("the table is kept as %s", owner)
	}
	t.move(StateLoading, "")
	t.done.Store(0)
	t.total.Store(0)
	t.def.Store(def)
	return nil
}

// keyEncoder checks that def fits the table, whose mode has to be that one, and makes the encoder of its key.
func (t *Table) keyEncoder(def *schema.Table, mode Mode) (keyEncoder, error) {
	switch {
	case t.Mode() != mode:
		return nil, fmt.Errorf("the table is in %s mode", t.Mode())
	case !strings.EqualFold(def.Schema, t.name.Schema) || !strings.EqualFold(def.Name, t.name.Table):
		return nil, fmt.Errorf("definition of %s", def.FullName())
	case def.Refusal != "":
		return nil, errors.New(def.Refusal)
	case def.Key < 0 || def.Key >= len(def.Indexes):
		return nil, errors.New("no primary key and no unique key over NOT NULL columns")
	}
	return t.store.cfg.newEncoder(def, def.Key)
}

func (t *Table) newGeneration(def *schema.Table) (*Generation, error) {
	enc, err := t.keyEncoder(def, ModeFull)
	if err != nil {
		return nil, err
	}
	return &Generation{table: t, def: def, body: &body{
		log:     newRowLog(t.store.pool),
		keyEnc:  enc,
		key:     newTree(t.store.pool, enc.FixedWidth()),
		indexes: make([]*secondary, len(def.Indexes)),
		marks:   map[string]uint64{},
		check:   newLoadCheck(),
	}}, nil
}

// Suspend stops the table from answering, frees its memory and makes its Generation stale. reason is for people.
func (t *Table) Suspend(reason string) {
	t.mu.Lock()
	defer t.unlock()
	if !t.removed {
		t.move(StateSuspended, reason)
	}
}

// Refuse is Suspend for a table that can't be cached safely.
func (t *Table) Refuse(reason string) {
	t.mu.Lock()
	defer t.unlock()
	if !t.removed {
		t.move(StateRefused, reason)
	}
}

// drop gives up the current generation and its memory. t.mu is held for writing.
func (t *Table) drop() {
	g := t.gen
	if g == nil {
		return
	}
	t.gen = nil
	t.count(&g.rowBytes, 0, &t.rowBytes)
	t.count(&g.keyBytes, 0, &t.indexBytes)
	for _, ix := range g.indexes {
		if ix != nil {
			t.count(&ix.bytes, 0, &t.indexBytes)
			if ix.tree != nil {
				ix.tree.release()
			}
		}
	}
	g.log.reset()
	g.key.release()
	g.body = nil
}

// count notes that a part of the table takes now bytes: part is what was noted before, total the table's sum. The
// caller is the only one who notes that part.
func (t *Table) count(part *atomic.Int64, now int64, total *atomic.Int64) {
	d := now - part.Swap(now)
	total.Add(d)
	t.store.used.Add(d)
}
