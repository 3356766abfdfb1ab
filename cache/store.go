package cache

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Config has the settings of a Store. The zero value is usable.
type Config struct {
	// MemoryLimit is the most bytes that rows and indexes of all tables together may take; 0 means no limit.
	MemoryLimit int64
	// HotBytes is what hot rows may take of it; 0 keeps none. It is set aside when the first table becomes hot, or as much
	// of it as is left then.
	HotBytes int64
	// Logger gets a line for each change of a table's state; nil discards them.
	Logger *slog.Logger
	// OnTransition is called after each change of a table's state, in order for each table, with no lock held that
	// readers or the follower wait for. It must not load, suspend, refuse or remove a table. nil: nobody is told.
	OnTransition func(Transition)

	// newEncoder is rowcodec.NewKeyEncoder but in tests.
	newEncoder func(def *schema.Table, index int) (keyEncoder, error)
}

// keyEncoder is rowcodec.KeyEncoder.
type keyEncoder interface {
	AppendRow(dst []byte, r rowcodec.Row) ([]byte, error)
	AppendValues(dst []byte, values [][]byte) ([]byte, error)
	FixedWidth() int
}

// Store is a set of tables that share a memory limit. Its methods may be called from any goroutine.
type Store struct {
	cfg         Config
	mostRow     int // the largest row of a full table; 0 for no limit
	pool        *blockPool
	used        atomic.Int64 // by full tables
	hot         atomic.Pointer[hotRows]
	hotCounts   hotCounts
	transitions [stateCount]atomic.Uint64
	revision    atomic.Uint64

	mu     sync.RWMutex
	added  uint64 // tables, ever
	tables map[schema.Name]*Table
	// owners has the one table that may hold the rows of the server's table of that name: the one of the same name, or
	// the first that was asked for in another spelling. It is kept for good: changes of the server's table go to the
	// same one again when that comes back.
	owners map[schema.Name]schema.Name
	closed bool

	builders    sync.WaitGroup
	buildersCtx context.Context // ends with Close
	stop        context.CancelFunc
	building    chan struct{} // held by the builder that works
}

// A row of a full table takes at most this share of the memory limit, but may have rowFloor bytes in any case: what is on its way into
// memory, a few times the largest row, stays small beside the limit, and a table with larger rows is better kept hot.
const (
	rowShare = 16
	rowFloor = 1 << 20
)

// New returns an empty store.
func New(cfg Config) *Store {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.newEncoder == nil {
		cfg.newEncoder = func(def *schema.Table, index int) (keyEncoder, error) {
			return rowcodec.NewKeyEncoder(def, index)
		}
	}
	s := &Store{cfg: cfg, pool: newBlockPool(), tables: map[schema.Name]*Table{}, owners: map[schema.Name]schema.Name{}, building: make(chan struct{}, 1)}
	if cfg.MemoryLimit > 0 {
		s.mostRow = int(max(cfg.MemoryLimit/rowShare, rowFloor))
	}
	s.buildersCtx, s.stop = context.WithCancel(context.Background())
	return s
}

// Add returns the table of that name, made in StatePass when there is none yet. The mode of a table that is there stays.
// A table that was loaded with a definition of this very name under another spelling is refused then: see Table.Load.
func (s *Store) Add(schemaName, table string, mode Mode) *Table {
	name := schema.Name{Schema: schemaName, Table: table}
	s.mu.Lock()
	if t := s.tables[name]; t != nil {
		s.mu.Unlock()
		return t
	}
	s.added++
	t := &Table{store: s, name: name, order: s.added, fullName: name.String(), wanted: map[string]struct{}{}}
	t.SetMode(mode)
	s.tables[name] = t
	var other *Table
	if owner, ok := s.owners[name]; ok && owner != name {
		other = s.tables[owner]
	}
	s.owners[name] = name
	s.mu.Unlock()
	if other != nil {
		other.Refuse("the table is kept as " + t.fullName)
	}
	return t
}

// claim makes name the table that may hold the rows of the server's table own, unless that is another one, which it
// returns. A table's lock may be held.
func (s *Store) claim(own, name schema.Name) (owner schema.Name, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, ok = s.owners[own]
	if !ok {
		owner = name
		s.owners[own] = name
	}
	return owner, owner == name
}

// Remove forgets the table that was added under that name, if there is one. Who still holds it gets Pass and ErrStale.
func (s *Store) Remove(name schema.Name) {
	s.mu.Lock()
	t := s.tables[name]
	delete(s.tables, name)
	s.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.unlock()
	t.removed = true
	t.move(StatePass, "the table is gone")
}

// Table returns the table that was added under that name, or else the one that was loaded with a definition of that
// name; nil when there is neither.
func (s *Store) Table(name schema.Name) *Table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.tables[name]; t != nil {
		return t
	}
	if owner, ok := s.owners[name]; ok {
		return s.tables[owner]
	}
	return nil
}

// Tables returns the tables there are, by name.
func (s *Store) Tables() []*Table {
	s.mu.RLock()
	tables := make([]*Table, 0, len(s.tables))
	for _, t := range s.tables {
		tables = append(tables, t)
	}
	s.mu.RUnlock()
	slices.SortFunc(tables, func(a, b *Table) int {
		return cmp.Or(strings.Compare(a.fullName, b.fullName), strings.Compare(a.name.Schema, b.name.Schema))
	})
	return tables
}

// Used returns the bytes that rows and indexes of all tables take, hot rows included.
func (s *Store) Used() int64 {
	used := s.used.Load()
	if hot := s.hot.Load(); hot != nil {
		used += hot.bytes()
	}
	return used
}

// OutsideHeap returns how many bytes of rows and indexes lie outside of Go's heap, where the collector does not count them.
func (s *Store) OutsideHeap() int64 { return s.pool.outside() }

// MemoryLimit returns the limit that the store was made with; 0 means none.
func (s *Store) MemoryLimit() int64 { return s.cfg.MemoryLimit }

// Transitions returns how many times tables came into that state.
func (s *Store) Transitions(to State) uint64 {
	if to >= stateCount {
		return 0
	}
	return s.transitions[to].Load()
}

// Revision counts what changes tables and is not in the log: changes of state, repairs, other definitions of live tables.
func (s *Store) Revision() uint64 { return s.revision.Load() }

// Close ends the building of indexes and waits for it. Tables go on answering with what they have. It may be called
// more than once.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.builders.Wait()
}

// overLimit tells whether the full tables take more than the limit leaves them.
func (s *Store) overLimit() bool {
	if s.cfg.MemoryLimit <= 0 {
		return false
	}
	limit := s.cfg.MemoryLimit
	if hot := s.hot.Load(); hot != nil {
		limit -= hot.limit
	} else {
		limit -= s.hotFloor()
	}
	return s.used.Load() > limit
}

// background runs work in a goroutine of the store's, one at a time. Nothing happens when the store is closed.
func (s *Store) background(work func(ctx context.Context)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return
	}
	s.builders.Go(func() {
		select {
		case s.building <- struct{}{}:
		case <-s.buildersCtx.Done():
			return
		}
		defer func() { <-s.building }()
		work(s.buildersCtx)
	})
}
