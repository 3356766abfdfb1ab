package mcserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// listTable is a table of a few rows for tests of the protocol: its memory answers, or leaves the answer to its
// "database", which holds the same rows.
type listTable struct {
	def      atomic.Pointer[schema.Table]
	rows     []rowcodec.Row // in the order of the first column
	inMemory atomic.Bool
	fail     atomic.Pointer[error] // of the database
	searches atomic.Int64          // of the database
}

func (t *listTable) Def() *schema.Table { return t.def.Load() }

func (t *listTable) SearchMemory(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	if s.Def != t.Def() {
		return false, ErrChanged
	}
	if !t.inMemory.Load() {
		return false, nil
	}
	t.search(s, func(i int) bool { return emit(t.rows[i], uint64(1000+i)) })
	return true, nil
}

func (t *listTable) SearchDatabase(_ context.Context, s *schema.Search, emit func(rowcodec.Row) bool) error {
	t.searches.Add(1)
	if err := t.fail.Load(); err != nil {
		return *err
	}
	if s.Def != t.Def() {
		return ErrChanged
	}
	t.search(s, func(i int) bool { return emit(t.rows[i]) })
	return nil
}

func (t *listTable) compare(a, b []byte) int {
	if t.def.Load().Columns[0].Kind == schema.KindInt {
		x, _ := strconv.ParseInt(string(a), 10, 64)
		y, _ := strconv.ParseInt(string(b), 10, 64)
		return cmp.Compare(x, y)
	}
	return bytes.Compare(a, b)
}

func (t *listTable) search(s *schema.Search, emit func(i int) bool) {
	for k := range t.rows {
		i := k
		if s.Op == schema.OpLT || s.Op == schema.OpLE {
			i = len(t.rows) - 1 - k
		}
		v, _ := t.rows[i].Value(0)
		c := t.compare(v, s.Values[0])
		match := c == 0 && s.Op != schema.OpGT && s.Op != schema.OpLT ||
			c > 0 && (s.Op == schema.OpGT || s.Op == schema.OpGE) || c < 0 && (s.Op == schema.OpLT || s.Op == schema.OpLE)
		if match && !emit(i) {
			return
		}
	}
}

type testReader map[string]*listTable

func (r testReader) Open(_ context.Context, schemaName, table string) (Table, error) {
	if t := r[schemaName+"."+table]; t != nil {
		return t, nil
	}
	return nil, schema.ErrNoTable
}

// makeTable makes a table of columns like "id int", "k varchar(20)"; the first is the primary key. Rows are values
// parted by commas; NULL is NULL.
func makeTable(t testing.TB, name string, columns []string, rows ...string) *listTable {
	t.Helper()
	def := &schema.Table{Schema: "app", Name: name, Engine: "InnoDB", Indexes: []schema.Index{{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}}}}
	for _, c := range columns {
		col, typ, _ := strings.Cut(c, " ")
		def.Columns = append(def.Columns, makeColumn(t, col, typ))
	}
	lt := &listTable{}
	lt.def.Store(def)
	lt.inMemory.Store(true)
	for _, r := range rows {
		lt.rows = append(lt.rows, makeRow(strings.Split(r, ",")...))
	}
	slices.SortFunc(lt.rows, func(a, b rowcodec.Row) int {
		x, _ := a.Value(0)
		y, _ := b.Value(0)
		return lt.compare(x, y)
	})
	return lt
}

func makeColumn(t testing.TB, name, typ string) schema.Column {
	t.Helper()
	c := schema.Column{Name: name, TypeText: typ, Nullable: true}
	base, arg, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(typ, " unsigned"), ")"), "(")
	c.Length, _ = strconv.Atoi(arg)
	c.Unsigned = strings.HasSuffix(typ, " unsigned")
	c.Scale = -1
	switch base {
	case "tinyint", "int", "bigint", "zerofill":
		c.Kind, c.Bytes = schema.KindInt, map[string]int{"tinyint": 1, "int": 4, "bigint": 8, "zerofill": 4}[base]
		if base == "zerofill" {
			c.Unsigned, c.Zerofill = true, c.Length
		}
	case "char", "varchar", "text":
		c.Kind = map[string]schema.Kind{"char": schema.KindChar, "varchar": schema.KindVarchar, "text": schema.KindText}[base]
		c.Charset, c.Collation = "utf8mb4", "utf8mb4_bin"
	case "varbinary":
		c.Kind = schema.KindVarbinary
	case "datetime":
		c.Kind = schema.KindDatetime
	default:
		t.Fatalf("no type %q in tests", typ)
	}
	return c
}

func makeRow(values ...string) rowcodec.Row {
	var b rowcodec.Builder
	for _, v := range values {
		if v == "NULL" {
			b.Null()
		} else {
			b.Add([]byte(v))
		}
	}
	return b.AppendRow(nil)
}

// testConn is a connection without a network.
type testConn struct {
	in         []byte
	out        []byte
	limit      int
	inputLimit int
	job        func(context.Context, []byte) []byte
	parks      int
	closed     error
	session    netserver.Session
}

func newConn(s *Server) *testConn {
	c := &testConn{limit: 1 << 20}
	c.session = s.NewSession(c)
	return c
}

func (c *testConn) Out() []byte         { return c.out }
func (c *testConn) SetOut(out []byte)   { c.out = out }
func (c *testConn) OutputLimit() int    { return c.limit }
func (c *testConn) SetInputLimit(n int) { c.inputLimit = n }
func (c *testConn) RemoteAddr() string  { return "192.0.2.1:5" }
func (c *testConn) ID() uint64          { return 7 }
func (c *testConn) Await(func(context.Context, func(bool, func(context.Context, []byte) []byte))) {
	panic("not for memcached")
}

func (c *testConn) Park(job func(context.Context, []byte) []byte) {
	if c.job != nil {
		panic("parked twice")
	}
	c.parks++
	c.job = job
}

// send does what a netserver does with input, and returns what the session has answered to it.
func (c *testConn) send(t testing.TB, input string) string {
	t.Helper()
	var answer []byte
	c.in = append(c.in, input...)
	for c.closed == nil {
		in := bytes.Clone(c.in)
		n, err := c.session.Serve(in)
		if n > len(in) {
			t.Fatalf("took %d of %d bytes", n, len(in))
		}
		for i := range in {
			in[i] = 'X' // what is used after Serve must have been copied
		}
		full := len(c.out) >= c.limit && n < len(c.in) && c.job == nil
		c.in = c.in[n:]
		answer = append(answer, c.out...)
		c.out = nil
		c.closed = err
		if err != nil {
			break
		}
		if c.job == nil && !full {
			if len(c.in) > c.inputLimit {
				c.closed = errors.New("input limit")
			}
			break
		}
		if job := c.job; job != nil {
			c.job = nil
			answer = append(answer, job(t.Context(), nil)...)
		}
	}
	return string(answer)
}

// newServer makes a server with the given containers.
func newServer(t testing.TB, compat Compat, reader testReader, set ContainerSet) *Server {
	t.Helper()
	s := New(Config{Reader: reader, Compat: compat})
	problems, err := s.SetContainers(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Fatalf("%v", p)
	}
	return s
}

// demoServer has the containers that most tests use.
func demoServer(t testing.TB, compat Compat) (*Server, testReader) {
	t.Helper()
	reader := testReader{
		"app.demo": makeTable(t, "demo", []string{"c1 varchar(32)", "c2 varchar(1024)", "c3 int", "c4 bigint unsigned", "c5 int"},
			"AA,HELLO,8,0,0", "BB,GOODBYE,10,1,0", "OLD,past,0,0,1000000000", "NUL,NULL,NULL,NULL,NULL", "NEG,v,-1,18446744073709551615,2147483647", "empty,,0,0,0"),
		"app.city": makeTable(t, "city", []string{"id int", "name varchar(40)", "state varchar(40)", "pop zerofill(6)"},
			"1,Bangalore,Karnataka,000012", "2,Chennai,NULL,000000", "3,Delhi,,001000"),
		"app.chars": makeTable(t, "chars", []string{"k char(4)", "v char(6)"}, "a,xy", "b,NULL", "c,"),
	}
	return newServer(t, compat, reader, ContainerSet{Containers: []Container{
		{Name: "demo", Schema: "app", Table: "demo", KeyColumns: []string{"c1"}, ValueColumns: []string{"c2"}, FlagsColumn: "c3", CASColumn: "c4", ExpiryColumn: "c5"},
		{Name: "city", Schema: "app", Table: "city", KeyColumns: []string{"id"}, ValueColumns: []string{"name", "state", "pop"}},
		{Name: "chars", Schema: "app", Table: "chars", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}},
	}}), reader
}
