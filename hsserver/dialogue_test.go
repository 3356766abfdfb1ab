package hsserver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/hsserver"
	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/internal/dialogue"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// reader gives the router's tables the form that hsserver wants.
type reader struct {
	r      *router.Router
	counts *router.Counters
}

func (r reader) Lookup(schemaName, table string) (hsserver.Table, bool) {
	t, ok := r.r.Lookup(schemaName, table)
	if !ok {
		return nil, false
	}
	return routed{t, r.counts}, true
}

func (r reader) Open(ctx context.Context, schemaName, table string) (hsserver.Table, error) {
	t, err := r.r.Open(ctx, schemaName, table)
	if err != nil {
		return nil, err
	}
	return routed{t, r.counts}, nil
}

func (r reader) NewView() hsserver.View { return &view{counts: r.counts} }

type view struct {
	router.View
	counts *router.Counters
}

func (v *view) Hold(tables []hsserver.Table) {
	of := make([]*router.Table, len(tables))
	for i, t := range tables {
		of[i] = t.(routed).t
	}
	v.View.Hold(of...)
}

func (v *view) Def(t hsserver.Table) *schema.Table { return v.View.Def(t.(routed).t) }

func (v *view) SearchMemory(t hsserver.Table, s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	served, err := v.View.SearchMemory(t.(routed).t, s, emit)
	return served, changed(err)
}

func (v *view) Release() { v.View.Release(v.counts) }

type routed struct {
	t      *router.Table
	counts *router.Counters
}

func (t routed) Def() *schema.Table { return t.t.Def() }

func (t routed) SearchMemory(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	served, err := t.t.SearchMemory(t.counts, s, emit)
	return served, changed(err)
}

func (t routed) SearchDatabase(ctx context.Context, s *schema.Search, emit func(rowcodec.Row) bool) error {
	return changed(t.t.SearchDatabase(ctx, t.counts, s, emit))
}

func changed(err error) error {
	if errors.Is(err, router.ErrChanged) {
		return fmt.Errorf("%w: %w", hsserver.ErrChanged, err)
	}
	return err
}

// writer gives the database's writer the form that hsserver wants. What was written is in memory when it returns, as the
// daemon's follower sees to.
type writer struct {
	f *fixture
	w *writeback.Writer
	r *router.Router
}

func (w *writer) Changes(ctx context.Context, changes []*schema.Change, answer func(i, rows int, id uint64, err error)) {
	w.w.Changes(ctx, changes, func(i, rows int, id uint64, err error) { answer(i, rows, id, w.after(ctx, changes[i].Def, err)) })
}

func (w *writer) Begin(context.Context, []*schema.Change, func([]hsserver.Result)) bool { return false }

func (w *writer) Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx hsserver.Tx) error) (int, error) {
	rows, err := w.w.Transact(ctx, def, kind, func(tx *writeback.Tx) error { return fn(tx) })
	return rows, w.after(ctx, def, err)
}

func (w *writer) after(ctx context.Context, def *schema.Table, err error) error {
	if err == nil {
		return w.f.reload(ctx, def.Name)
	}
	if r := (*writeback.Refused)(nil); errors.As(err, &r) {
		return &hsserver.WriteError{Text: strconv.Itoa(r.Number), Err: err}
	}
	if errors.Is(err, writeback.ErrNoKey) {
		return &hsserver.WriteError{Text: "nokey", Request: true, Err: err}
	}
	if errors.Is(err, writeback.ErrNoNumber) {
		return &hsserver.WriteError{Text: "modop", Request: true, Err: err}
	}
	if errors.Is(err, writeback.ErrChanged) {
		w.r.Forget(def.Schema, def.Name)
		return hsserver.ErrChanged
	}
	return err
}

// where says what answers: nothing but the database, or memory wherever it can.
type where string

const (
	byDatabase where = "database"
	byMemory   where = "memory"
)

// fixture is two whole servers on a real database, one of which has its tables in memory. There is no follower: tables
// come into memory when the test says so.
type fixture struct {
	t       *testing.T
	db      *sql.DB
	schema  string
	mu      sync.Mutex // guards conn
	conn    *sqltext.Conn
	writer  *writeback.Writer
	store   *cache.Store
	routers map[where]*router.Router
	counts  map[where]*router.Counters
	ports   map[where]map[string]*netserver.Server
}

func newFixture(t *testing.T, s testmysql.Server, secret map[string]string) *fixture {
	t.Helper()
	source, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		t: t, db: s.DB(t), schema: s.Schema(t), store: cache.New(cache.Config{}),
		routers: map[where]*router.Router{}, counts: map[where]*router.Counters{}, ports: map[where]map[string]*netserver.Server{},
	}
	t.Cleanup(f.store.Close)
	if f.conn, err = sqltext.Dial(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.conn.Close)
	db := dbreader.New(source, dbreader.Config{})
	t.Cleanup(db.Close)
	// The answers have only the servers' numbers; their texts are in the log.
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	f.writer = writeback.New(source, writeback.Config{LockWait: time.Second, Logger: log})
	t.Cleanup(f.writer.Close)
	for _, w := range []where{byDatabase, byMemory} {
		cfg, engine := router.Config{Database: db}, netserver.EngineGoroutine
		if w == byMemory {
			cfg.Store, engine = f.store, netserver.EngineDefault
		}
		r := router.New(cfg)
		t.Cleanup(r.Close)
		f.routers[w], f.counts[w], f.ports[w] = r, &router.Counters{}, map[string]*netserver.Server{}
		for _, kind := range []string{"hsr", "hsw"} {
			f.ports[w][kind] = f.listen(engine, hsserver.Config{
				Reader: reader{r, f.counts[w]}, Writer: &writer{f: f, w: f.writer, r: r}, Writable: kind == "hsw", Secret: secret[kind],
			})
		}
	}
	return f
}

func (f *fixture) listen(engine netserver.Engine, cfg hsserver.Config) *netserver.Server {
	f.t.Helper()
	s, err := netserver.New(netserver.Config{Listen: "127.0.0.1:0", Engine: engine, Protocol: hsserver.New(cfg), MaxInput: hsserver.MaxLineBytes})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := s.Listen(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-ended); err != nil {
			f.t.Error(err)
		}
		if n := s.Stats().Panics; n > 0 {
			f.t.Errorf("%d panics", n)
		}
	})
	return s
}

// settle does what the follower would: definitions are looked at again, and the rows in memory are those of the database.
func (f *fixture) settle(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.routers {
		r.ForgetAll()
	}
	for _, t := range f.store.Tables() {
		f.store.Remove(t.Ident())
	}
	// A session of another test that is killed while it looks at all tables leaves the one that it was opening with triggers
	// that MariaDB calls broken, for all who come later.
	var triggers []string
	if err := f.conn.Query(ctx, "SELECT DISTINCT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA='"+f.schema+"'", func(v [][]byte) error {
		triggers = append(triggers, string(v[0]))
		return nil
	}); err != nil {
		return err
	}
	for _, name := range triggers {
		if err := f.conn.Exec(ctx, "FLUSH TABLES "+schema.QuoteName(f.schema)+"."+schema.QuoteName(name)); err != nil {
			return err
		}
	}
	var names []string
	if err := f.conn.Query(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA='"+f.schema+"' AND TABLE_TYPE='BASE TABLE'", func(v [][]byte) error {
		names = append(names, string(v[0]))
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		if err := f.load(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// reload takes a table into memory anew.
func (f *fixture) reload(ctx context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load(ctx, name)
}

// load takes a table into memory as it is. A table that can't be kept there stays the database's.
func (f *fixture) load(ctx context.Context, name string) error {
	def, err := schema.Load(ctx, f.conn, f.conn.Flavor(), f.schema, name)
	if err != nil || def.Refusal != "" {
		return err
	}
	table := f.store.Add(f.schema, name, cache.ModeFull)
	g, err := table.Load(def)
	if err != nil {
		table.Refuse(err.Error())
		return nil
	}
	list := ""
	for i := range def.Columns {
		if i > 0 {
			list += ","
		}
		list += schema.QuoteName(def.Columns[i].Name)
	}
	var b rowcodec.Builder
	var rows []rowcodec.Row
	if err := f.conn.Query(ctx, "SELECT "+list+" FROM "+schema.QuoteName(f.schema)+"."+schema.QuoteName(name), func(values [][]byte) error {
		b.Reset()
		for _, v := range values {
			if v == nil {
				b.Null()
			} else {
				b.Add(v)
			}
		}
		rows = append(rows, b.AppendRow(nil))
		return nil
	}); err != nil {
		return err
	}
	if err := errors.Join(g.Install(rows, 1, 1), g.Live()); err != nil {
		return err
	}
	for i := range def.Indexes {
		table.EnsureIndex(i)
	}
	return nil
}

// writes finds requests that change rows.
var writes = regexp.MustCompile(`\t(\+|-|U|D)[^\t\n]*[\t\n]`)

// readsOnly reports that a dialogue writes nothing, so that its tables can be used again.
func readsOnly(d *dialogue.Dialogue) bool {
	if !d.Opens("hsw") {
		return true
	}
	var sent []byte
	for _, l := range d.Lines {
		if l.Kind == dialogue.Send {
			sent = append(sent, l.Data...)
		}
	}
	return !writes.Match(sent)
}

func TestDialogues(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		for _, dir := range []string{".", "auth"} {
			all, err := dialogue.ReadDir(filepath.Join("..", "testdata", "dialogues", "handlersocket", dir))
			if err != nil {
				t.Fatal(err)
			}
			secret, parts := map[string]string{}, 3
			if dir == "auth" {
				secret, parts = map[string]string{"hsr": "s3cret", "hsw": "wr-s3cret"}, 1
			}
			for part := range parts {
				t.Run(fmt.Sprintf("%s/%s/%d", s.Flavor, dir, part), func(t *testing.T) {
					t.Parallel() // most of the time goes into making tables
					var mine []*dialogue.Dialogue
					for i := part; i < len(all); i += parts {
						mine = append(mine, all[i])
					}
					playAll(t, s, mine, secret)
				})
			}
		}
	}
}

// playAll plays each recording against both servers, whole, byte by byte and pipelined.
func playAll(t *testing.T, s testmysql.Server, all []*dialogue.Dialogue, secret map[string]string) {
	f := newFixture(t, s, secret)
	wrote := 0
	for _, d := range all {
		name := filepath.Base(d.Path)
		t.Run(name, func(t *testing.T) {
			reads := readsOnly(d)
			if !reads {
				wrote++
			}
			prepared := false
			for _, w := range []where{byDatabase, byMemory} {
				if !reads && w == byDatabase {
					continue // memory has no part in writing
				}
				dial := func(ctx context.Context, kind string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", f.ports[w][kind].Addr().String())
				}
				for _, mode := range []dialogue.Mode{dialogue.Whole, dialogue.Bytewise, dialogue.Pipelined} {
					p := dialogue.Player{DB: f.db, Schema: f.schema, Dial: dial, Settle: f.settle, Mode: mode, Prepared: prepared}
					if err := p.Play(t.Context(), d); err != nil {
						t.Errorf("answered by %s: %v", w, err)
					}
					prepared = reads && d.PreparesFirst()
				}
			}
		})
	}
	plain, cached := f.counts[byDatabase].Counts(), f.counts[byMemory].Counts()
	t.Logf("%d played, %d of which write; searches answered: without memory %+v, with memory %+v", len(all), wrote, plain, cached)
	if plain.Memory > 0 || cached.Memory < 4*cached.Database || len(secret) == 0 && wrote < 10 {
		t.Error("that is not what was to be tested")
	}
}
