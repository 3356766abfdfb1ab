package hsserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// talk is a netserver.Conn without a network: what is sent is served at once, in the pieces that the test gives.
type talk struct {
	t     testing.TB
	sess  *session
	in    []byte
	out   []byte
	job   func(context.Context, []byte) []byte
	limit int
	jobs  int
	ended error
}

func newTalk(t testing.TB, s *Server) *talk {
	c := &talk{t: t, limit: 1 << 30}
	c.sess = s.NewSession(c).(*session)
	return c
}

func (c *talk) Out() []byte                                           { return c.out }
func (c *talk) SetOut(out []byte)                                     { c.out = out }
func (c *talk) OutputLimit() int                                      { return c.limit }
func (c *talk) SetInputLimit(int)                                     {}
func (c *talk) RemoteAddr() string                                    { return "test" }
func (c *talk) ID() uint64                                            { return 1 }
func (c *talk) Park(job func(ctx context.Context, out []byte) []byte) { c.job = job }
func (c *talk) Await(begin func(context.Context, func(bool, func(context.Context, []byte) []byte))) {
	c.job = func(ctx context.Context, out []byte) []byte {
		resumed := make(chan func(context.Context, []byte) []byte, 1)
		begin(ctx, func(_ bool, job func(context.Context, []byte) []byte) { resumed <- job })
		return (<-resumed)(ctx, out)
	}
}

// send gives the session more input, and runs its parked jobs. Input that was taken is overwritten before a job runs, as a
// connection's next read would.
func (c *talk) send(text string) {
	c.in = append(c.in, text...)
	for c.ended == nil {
		in := append([]byte(nil), c.in...)
		n, err := c.sess.Serve(in)
		c.in = c.in[n:]
		c.ended = err
		full := len(c.out) >= c.limit
		if full {
			c.limit += len(c.out) // as if it had been sent
		}
		if c.job == nil {
			if full && len(c.in) > 0 {
				continue
			}
			return
		}
		for i := range in {
			in[i] = '?'
		}
		job := c.job
		c.job = nil
		c.jobs++
		c.out = append(c.out, job(context.Background(), nil)...)
	}
}

// ask sends one request and returns its answer.
func (c *talk) ask(line string) string {
	c.t.Helper()
	c.out = c.out[:0]
	c.send(line + "\n")
	return string(c.out)
}

func (c *talk) expect(line, want string) {
	c.t.Helper()
	if got := c.ask(line); got != want+"\n" {
		c.t.Errorf("%q: got %q, want %q", line, got, want+"\n")
	}
}

// memory is a Reader over a cache without a database.
type memory struct {
	store *cache.Store
	down  bool // the database can't be reached
	opens atomic.Int64
	holds atomic.Int64 // of tables, by views
}

func newMemory(t testing.TB) *memory {
	m := &memory{store: cache.New(cache.Config{})}
	t.Cleanup(m.store.Close)
	return m
}

func (m *memory) Lookup(schemaName, table string) (Table, bool) {
	t := m.store.Table(schema.Name{Schema: schemaName, Table: table})
	if t == nil || t.Def() == nil {
		return nil, false
	}
	return memoryTable{m: m, t: t}, true
}

func (m *memory) Open(_ context.Context, schemaName, table string) (Table, error) {
	m.opens.Add(1)
	if m.down {
		return nil, errors.New("connection refused")
	}
	if t, ok := m.Lookup(schemaName, table); ok {
		return t, nil
	}
	return nil, schema.ErrNoTable
}

type memoryTable struct {
	m *memory
	t *cache.Table
}

func (m *memory) NewView() View { return &memoryView{} }

// memoryView is a View whose holds are counted.
type memoryView struct {
	cache.View
	tables []*cache.Table
}

func (v *memoryView) Hold(tables []Table) {
	v.tables = v.tables[:0]
	for _, t := range tables {
		t.(memoryTable).m.holds.Add(1)
		v.tables = append(v.tables, t.(memoryTable).t)
	}
	v.View.Hold(v.tables...)
}

func (v *memoryView) Def(t Table) *schema.Table {
	if ct := t.(memoryTable).t; slices.Contains(v.tables, ct) {
		return v.View.Def(ct)
	}
	return nil
}

func (v *memoryView) SearchMemory(t Table, s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	return searched(v.View.Search(t.(memoryTable).t, s, emit))
}

func (t memoryTable) Def() *schema.Table { return t.t.Def() }

func (t memoryTable) SearchMemory(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	return searched(t.t.Search(s, emit))
}

func (t memoryTable) SearchDatabase(context.Context, *schema.Search, func(rowcodec.Row) bool) error {
	return errors.New("connection refused")
}

func searched(o cache.Outcome) (bool, error) {
	if o == cache.Changed {
		return false, ErrChanged
	}
	return o == cache.Served, nil
}

// column kinds of definitions made by hand.
func intColumn(name string) schema.Column {
	return schema.Column{Name: name, Kind: schema.KindInt, TypeText: "int", Bytes: 4, Nullable: true}
}

func textColumn(name string) schema.Column {
	return schema.Column{
		Name: name, Kind: schema.KindVarchar, TypeText: "varchar(100)", Length: 100, Nullable: true, Charset: "utf8mb4", Collation: "utf8mb4_general_ci",
	}
}

// tableOf describes a table with a primary key over its first column and an index over each other one.
func tableOf(name string, columns ...schema.Column) *schema.Table {
	def := &schema.Table{Schema: "app", Name: name, Engine: "InnoDB", Columns: columns}
	for i := range columns {
		ix := schema.Index{Name: "k" + columns[i].Name, BTree: true, Parts: []schema.Part{{Column: i}}}
		if i == 0 {
			def.Columns[0].Nullable = false
			ix.Name, ix.Unique = "PRIMARY", true
		}
		def.Indexes = append(def.Indexes, ix)
	}
	return def
}

// load makes a live table; rows are values joined by commas, \N is NULL.
func (m *memory) load(t testing.TB, def *schema.Table, rows ...string) *cache.Generation {
	t.Helper()
	table := m.store.Add(def.Schema, def.Name, cache.ModeFull)
	g, err := table.Load(def)
	if err != nil {
		t.Fatal(err)
	}
	var b rowcodec.Builder
	var all []rowcodec.Row
	for _, r := range rows {
		b.Reset()
		for v := range strings.SplitSeq(r, ",") {
			if v == `\N` {
				b.Null()
			} else {
				b.Add([]byte(v))
			}
		}
		all = append(all, b.AppendRow(nil))
	}
	if err := g.Install(all, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	for i := range def.Indexes {
		table.EnsureIndex(i)
	}
	return g
}
