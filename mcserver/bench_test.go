package mcserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// benchConn is a connection whose answers nobody reads.
type benchConn struct{ out []byte }

func (c *benchConn) Out() []byte        { return c.out[:0] }
func (c *benchConn) SetOut(out []byte)  { c.out = out }
func (c *benchConn) OutputLimit() int   { return 256 << 10 }
func (c *benchConn) SetInputLimit(int)  {}
func (c *benchConn) RemoteAddr() string { return "" }
func (c *benchConn) ID() uint64         { return 1 }
func (c *benchConn) Await(func(context.Context, func(bool, func(context.Context, []byte) []byte))) {
	panic("parked")
}

func (c *benchConn) Park(func(context.Context, []byte) []byte) {
	panic("parked")
}

// userServer serves n rows of a table of users from memory.
func userServer(tb testing.TB, n int) *mcserver.Server {
	tb.Helper()
	def := &schema.Table{
		Schema: "app", Name: "user", Flavor: schema.FlavorMariaDB,
		Columns: []schema.Column{
			{Name: "id", Kind: schema.KindInt, Bytes: 4, TypeText: "int"},
			{Name: "uname", Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"},
			{Name: "email", Kind: schema.KindVarchar, Length: 80, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"},
		},
		Indexes: []schema.Index{{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}}},
	}
	store := cache.New(cache.Config{})
	tb.Cleanup(store.Close)
	g, err := store.Add("app", "user", cache.ModeFull).Load(def)
	if err != nil {
		tb.Fatal(err)
	}
	var b rowcodec.Builder
	for i := range n {
		b.Reset()
		b.Add(fmt.Append(nil, i))
		b.Add(fmt.Appendf(nil, "user%d", i))
		b.Add(fmt.Appendf(nil, "user%d@example.com", i))
		if err := g.Install([]rowcodec.Row{b.AppendRow(nil)}, 1, 1); err != nil {
			tb.Fatal(err)
		}
	}
	if err := g.Live(); err != nil {
		tb.Fatal(err)
	}
	r := router.New(router.Config{Store: store})
	tb.Cleanup(r.Close)
	s := mcserver.New(mcserver.Config{Reader: routed{r}})
	problems, err := s.SetContainers(tb.Context(), mcserver.ContainerSet{Containers: []mcserver.Container{{
		Name: "user", Schema: "app", Table: "user", KeyColumns: []string{"id"}, ValueColumns: []string{"uname", "email"},
	}}})
	if err != nil || len(problems) > 0 {
		tb.Fatal(err, problems)
	}
	return s
}

func BenchmarkGet(b *testing.B) {
	s := userServer(b, 100_000)
	for _, keys := range []int{1, 100} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			conn := &benchConn{}
			session := s.NewSession(conn)
			var requests [][]byte
			for i := range 1000 {
				line := []byte("get")
				for k := range keys {
					line = fmt.Appendf(line, " %d", (i*7919+k*104729)%100_000)
				}
				requests = append(requests, append(line, "\r\n"...))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := session.Serve(requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestGetThroughRouterDoesNotAllocate guards the whole path of a get from memory.
func TestGetThroughRouterDoesNotAllocate(t *testing.T) {
	s := userServer(t, 1000)
	conn := &benchConn{}
	session := s.NewSession(conn)
	request := []byte("get 77\r\n")
	serve := func() {
		if _, err := session.Serve(request); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if got, want := string(conn.out), "VALUE 77 0 25\r\nuser77|user77@example.com\r\nEND\r\n"; got != want {
		t.Fatalf("got %q", got)
	}
	if n := testing.AllocsPerRun(100, serve); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
