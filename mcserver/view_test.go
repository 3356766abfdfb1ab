package mcserver

import (
	"context"
	"slices"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// viewTable is a table that counts its views. While one is open, a search beside it would take the table's lock a second
// time.
type viewTable struct {
	*listTable
	views  int
	inside bool
	beside int
}

func (t *viewTable) SearchMemory(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	if t.inside {
		t.beside++
	}
	return t.listTable.SearchMemory(s, emit)
}

func (t *viewTable) Def() *schema.Table {
	if t.inside {
		t.beside++
	}
	return t.listTable.Def()
}

func (t *viewTable) ViewMemory(fn func(search func(*schema.Search, func(rowcodec.Row, uint64) bool) (bool, error))) {
	t.views++
	t.inside = true
	fn(t.listTable.SearchMemory)
	t.inside = false
}

type viewReader map[string]*viewTable

func (r viewReader) Open(_ context.Context, schemaName, table string) (Table, error) {
	if t := r[schemaName+"."+table]; t != nil {
		return t, nil
	}
	return nil, schema.ErrNoTable
}

// TestMultipleGetSeesOneState checks that the keys of a multiple get are looked up in one view of their table.
func TestMultipleGetSeesOneState(t *testing.T) {
	plain, lists := demoServer(t, CompatSafe)
	reader := viewReader{}
	for name, table := range lists {
		reader[name] = &viewTable{listTable: table}
	}
	s := New(Config{Reader: reader})
	var set ContainerSet
	for _, c := range plain.containers.Load().inOrder {
		set.Containers = append(set.Containers, c.Container)
	}
	if _, err := s.SetContainers(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	demo, city := reader["app.demo"], reader["app.city"]
	tests := []struct {
		in         string
		demo, city int // views
	}{
		{"get AA\r\n", 0, 0},
		{"get AA BB zz\r\n", 1, 0},
		{"gets @@city.1 2 3\r\n", 0, 1},
		{"gets @@city.1\r\n", 0, 0},
		{"get @@nope.1 AA\r\n", 0, 0}, // no container for the first key
		{"get AA BB\r\nget BB AA\r\n", 2, 0},
		{"get AA @>=BB\r\n", 1, 0},          // the range is for a job
		{"get @@demo @@city.1 2\r\n", 1, 0}, // the second name is looked up outside
	}
	for _, tt := range tests {
		demo.views, city.views = 0, 0
		want := newConn(plain).send(t, tt.in)
		if got := newConn(s).send(t, tt.in); got != want {
			t.Errorf("%q: got %q, want %q", tt.in, got, want)
		}
		if demo.views != tt.demo || city.views != tt.city || demo.beside+city.beside > 0 {
			t.Errorf("%q: %d and %d views, %d searches beside them", tt.in, demo.views, city.views, demo.beside+city.beside)
		}
	}
	// All other cases have the same answers with views.
	for _, c := range textCases {
		want := newConn(plain).send(t, c.in)
		if got := newConn(s).send(t, c.in); got != want && !c.version {
			t.Errorf("%s: got %.200q, want %.200q", c.name, got, want)
		}
	}
	// A definition that has changed is bound again first.
	conn := newConn(s)
	def := *demo.def.Load()
	def.Columns = slices.Clone(def.Columns)
	demo.views = 0
	if got, want := conn.send(t, "get AA BB\r\n"), newConn(plain).send(t, "get AA BB\r\n"); got != want {
		t.Errorf("got %q", got)
	}
	demo.def.Store(&def)
	if got, want := conn.send(t, "get AA BB\r\n"), newConn(plain).send(t, "get AA BB\r\n"); got != want || conn.parks != 0 {
		t.Errorf("after a change: got %q, %d parks", got, conn.parks)
	}
}
