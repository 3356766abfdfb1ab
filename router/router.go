// Package router finds tables for the protocols and sends each search to where it can be answered: to memory when the
// table is live and its index complete, else to the database. It keeps the definitions of tables that are not in memory.
//
// A Router's goroutines are the loads of definitions, one for each table that is being looked up, and the reads of rows
// of hot tables, one for each key; Close waits for them.
package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

var (
	// ErrChanged says that the definition that a search was made for is no longer the table's: resolve the names again,
	// after Router.Open where Table.Def is nil, and make the search anew.
	ErrChanged = errors.New("definition changed: resolve the names again")
	// ErrClosed is given by Open after Close.
	ErrClosed = errors.New("router is closed")
	// ErrUnsettled says that a table's definition changed again and again while it was being read.
	ErrUnsettled = errors.New("table definition keeps changing")
)

// DefaultDefinitions is how many definitions are kept: some 20 MB for tables of ten columns, and more tables than a
// client opens in earnest.
const DefaultDefinitions = 10000

// loadAttempts bounds how often a definition is read again because of a change meanwhile, with a pause between: statements
// about one table seldom come faster than its definition can be read, for long.
const (
	loadAttempts = 20
	loadPause    = 5 * time.Millisecond
)

// Database answers what memory does not.
type Database interface {
	// Load returns the definition of a table as it is now, or an error that wraps schema.ErrNoTable.
	Load(ctx context.Context, schemaName, table string) (*schema.Table, error)
	// SearchFrom gives the rows of s in order until emit returns false, and says where they came from. The error wraps
	// dbreader.ErrTableChanged when s.Def does not fit the table any more.
	SearchFrom(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) (dbreader.Origin, error)
}

var _ Database = (*dbreader.Reader)(nil)

// Config of a Router.
type Config struct {
	Store    *cache.Store // nil: nothing is in memory
	Database Database
	// Hot keeps rows of tables that are asked for; nil: nothing of the kind.
	Hot Hot
	// Definitions is the largest number of tables whose definitions are kept; 0 means DefaultDefinitions.
	Definitions int
	// Stale, while it is set, keeps memory from answering: everything goes to the database. nil: never.
	Stale  *atomic.Bool
	Logger *slog.Logger // nil: silence
}

// Router finds tables by name. It may be used by many goroutines.
type Router struct {
	store  *cache.Store
	stale  *atomic.Bool
	db     Database
	hot    Hot
	most   int
	log    *slog.Logger
	loads  atomic.Uint64
	ctx    context.Context // of the loads
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.RWMutex // guards what follows, and Table.own
	tables  map[schema.Name]*Table
	aliases map[schema.Name]schema.Name // names as clients wrote them, where the server has another spelling
	flights map[schema.Name]*flight
	closed  bool

	fences fences
}

// flight is a definition being loaded, for all who ask meanwhile.
type flight struct {
	stale bool // a change of the table has been heard of since the load began; guarded by Router.mu
	done  chan struct{}
	table *Table // after done
	err   error  // after done
}

// New makes a Router.
func New(c Config) *Router {
	if c.Definitions <= 0 {
		c.Definitions = DefaultDefinitions
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Stale == nil {
		c.Stale = new(atomic.Bool)
	}
	r := &Router{
		store: c.Store, stale: c.Stale, db: c.Database, hot: c.Hot, most: c.Definitions, log: c.Logger,
		tables: make(map[schema.Name]*Table), aliases: make(map[schema.Name]schema.Name), flights: make(map[schema.Name]*flight),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends the loads and reads that run, whose callers get an error, and waits for them. Tables go on answering. It may be
// called more than once.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

// Lookup returns a table whose definition is known. It does no I/O.
func (r *Router) Lookup(schemaName, table string) (*Table, bool) {
	name := schema.Name{Schema: schemaName, Table: table}
	if t := r.find(name); t != nil {
		t.used.Store(true)
		return t, t.Def() != nil
	}
	// A table in memory that nobody has asked for yet.
	if r.store == nil || r.stale.Load() {
		return nil, false
	}
	ct := r.store.Table(name)
	if ct == nil {
		return nil, false
	}
	def := definition(ct)
	if def == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.spelled(name, def)
	return t, t.Def() != nil
}

// find returns the entry of a name as a client wrote it, or nil.
func (r *Router) find(name schema.Name) *Table {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.findLocked(name)
}

// findLocked is find; r.mu is held.
func (r *Router) findLocked(name schema.Name) *Table {
	if t := r.tables[name]; t != nil {
		return t
	}
	if alias, ok := r.aliases[name]; ok {
		return r.tables[alias]
	}
	return nil
}

// Open returns the table, asking the database for its definition where that is not known; several callers share one
// question. The error wraps schema.ErrNoTable when there is no base table of that name (a view is none), and is the
// cause of ctx when that ends first; others say that the database could not be asked. Nothing is remembered of an error.
func (r *Router) Open(ctx context.Context, schemaName, table string) (*Table, error) {
	name := schema.Name{Schema: schemaName, Table: table}
	for range loadAttempts {
		if t, ok := r.Lookup(schemaName, table); ok {
			return t, nil
		}
		t, err := r.ask(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		if t.Def() != nil {
			return t, nil
		}
		// Forgotten as soon as it was known.
	}
	return nil, fmt.Errorf("open %s: %w", name, ErrUnsettled)
}

// ask waits for a load of the table's definition, which it starts when none runs.
func (r *Router) ask(ctx context.Context, name schema.Name) (*Table, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if t := r.findLocked(name); t != nil && t.own.Load() != nil {
		r.mu.Unlock()
		return t, nil // a load has ended since the caller looked
	}
	f := r.flights[name]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		r.flights[name] = f
		// It outlives the caller's context: others may wait for it too.
		r.wg.Go(func() { r.load(name, f) })
	}
	r.mu.Unlock()
	select {
	case <-f.done:
		return f.table, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// load asks the database for a definition, again where the table changes meanwhile.
func (r *Router) load(name schema.Name, f *flight) {
	defer close(f.done)
	for range loadAttempts {
		r.loads.Add(1)
		def, err := r.db.Load(r.ctx, name.Schema, name.Table)
		r.mu.Lock()
		if f.stale && (err == nil || errors.Is(err, schema.ErrNoTable)) {
			f.stale = false
			r.mu.Unlock()
			select {
			case <-time.After(loadPause):
			case <-r.ctx.Done():
			}
			continue
		}
		delete(r.flights, name)
		if err == nil {
			f.table = r.install(name, def)
		}
		r.mu.Unlock()
		f.err = err
		if err == nil {
			f.table.want()
		}
		return
	}
	r.mu.Lock()
	delete(r.flights, name)
	r.mu.Unlock()
	f.err = ErrUnsettled
	r.log.Warn("table definition not read", "table", name.String(), "err", f.err)
}

// Loads returns how many times the database was asked for a definition.
func (r *Router) Loads() uint64 { return r.loads.Load() }

// spelled returns the entry of the table that def describes, under the server's spelling of its name, to be found under
// the client's too. r.mu is held for writing.
func (r *Router) spelled(name schema.Name, def *schema.Table) *Table {
	own := schema.Name{Schema: def.Schema, Table: def.Name}
	if own != name {
		if len(r.aliases) >= r.most {
			clear(r.aliases)
		}
		r.aliases[name] = own
	}
	return r.entry(own)
}

// install keeps a definition that was asked for under that name. r.mu is held for writing.
func (r *Router) install(name schema.Name, def *schema.Table) *Table {
	t := r.spelled(name, def)
	// Who holds a definition that says the same need not resolve its names again.
	for _, known := range []*schema.Table{t.last, t.cachedDef()} {
		if known != nil && reflect.DeepEqual(known, def) {
			def = known
			break
		}
	}
	t.last = def
	t.own.Store(def)
	return t
}

// entry returns the table of that name, made where it is not there. r.mu is held for writing.
func (r *Router) entry(name schema.Name) *Table {
	if t := r.tables[name]; t != nil {
		return t
	}
	if len(r.tables) >= r.most {
		r.evict()
	}
	t := &Table{router: r, name: name}
	t.used.Store(true)
	r.tables[name] = t
	return t
}

// evictLooks bounds the search for a table that was not used since the last look.
const evictLooks = 32

// evict makes room for one table. Who still holds the evicted one finds it without definition, and opens it again.
func (r *Router) evict() {
	var victim *Table
	looks := 0
	for _, t := range r.tables { // in no order
		victim = t
		if looks++; !t.used.Swap(false) || looks == evictLooks {
			break
		}
	}
	if victim == nil {
		return
	}
	delete(r.tables, victim.name)
	victim.own.Store(nil)
	victim.last = nil
}

// Forget drops what is known of a table, or of all tables of the schema when table is empty: the log tells of a change.
func (r *Router) Forget(schemaName, table string) {
	r.forget(sameName(schemaName, table))
}

// sameName matches a table, or all of a schema, in any spelling: some servers' names know no case. To forget too much
// only costs a question.
func sameName(schemaName, table string) func(schema.Name) bool {
	return func(name schema.Name) bool {
		return strings.EqualFold(name.Schema, schemaName) && (table == "" || strings.EqualFold(name.Table, table))
	}
}

// ForgetAll is Forget for all tables: after a reconnect, or a change whose tables can't be told.
func (r *Router) ForgetAll() {
	r.forget(func(schema.Name) bool { return true })
}

func (r *Router) forget(matches func(schema.Name) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, t := range r.tables {
		if matches(name) {
			t.own.Store(nil)
		}
	}
	r.spoil(matches)
}

// spoil makes loads that run begin again. r.mu is held for writing.
func (r *Router) spoil(matches func(schema.Name) bool) {
	for name, f := range r.flights {
		f.stale = f.stale || matches(name)
	}
}
