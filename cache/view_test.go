package cache

import (
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// TestView checks what a view says of tables in each state, and that a table does not change while it is held.
func TestView(t *testing.T) {
	store := New(Config{})
	def := testDef(false)
	table := store.Add("app", "t", ModeFull)
	g := mustLoad(t, table, def)
	row := func(id int, n int64) rowcodec.Row { return testRow{id: id, name: "x", n: n}.row() }
	if err := g.Install([]rowcodec.Row{row(1, 1), row(2, 2)}, 1, 0); err != nil {
		t.Fatal(err)
	}
	one := &schema.Search{Def: def, Values: [][]byte{[]byte("1")}}
	find := func(v *View, s *schema.Search) (rows int, out Outcome) {
		out = v.Search(table, s, func(rowcodec.Row, uint64) bool { rows++; return true })
		return rows, out
	}
	var v View
	v.Release()
	v.Hold(table)
	if rows, out := find(&v, one); v.Def(table) != nil || rows != 0 || out != Pass {
		t.Errorf("a table that is loading: %d rows, %v", rows, out)
	}
	v.Release()
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}

	v.Hold(table, table)
	if v.Def(table) != def {
		t.Error("not the definition")
	}
	changed := make(chan error, 1)
	go func() { changed <- g.Apply([]rowcodec.Change{{Before: row(1, 1)}}, 7) }()
	time.Sleep(20 * time.Millisecond)
	after := &schema.Search{Def: def, Op: schema.OpGE, Values: one.Values}
	for range 2 {
		if rows, out := find(&v, after); rows != 2 || out != Served {
			t.Errorf("held: %d rows, %v", rows, out)
		}
	}
	if rows, out := find(&v, &schema.Search{Def: testDef(true), Values: one.Values}); rows != 0 || out != Changed {
		t.Errorf("another definition: %d rows, %v", rows, out)
	}
	select {
	case <-changed:
		t.Error("the table has changed while it was held")
	default:
	}
	v.Release()
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	v.Hold(table)
	if rows, out := find(&v, after); rows != 1 || out != Served {
		t.Errorf("the next view: %d rows, %v", rows, out)
	}
	v.Release()

	table.Redefining()
	v.Hold(table)
	if rows, out := find(&v, one); v.Def(table) != nil || rows != 0 || out != Pass {
		t.Errorf("a table whose indexes are being looked up: %d rows, %v", rows, out)
	}
	v.Release()
}

// TestViewsOfSeveralTables holds two tables in either order while both change: nobody waits for ever.
func TestViewsOfSeveralTables(t *testing.T) {
	store := New(Config{})
	var tables [2]*Table
	var gens [2]*Generation
	row := func(n int64) rowcodec.Row { return testRow{id: 1, name: "x", n: n}.row() }
	for i, name := range []string{"a", "b"} {
		def := testDef(false)
		def.Name = name
		tables[i] = store.Add("app", name, ModeFull)
		gens[i] = mustLoad(t, tables[i], def)
		if err := gens[i].Install([]rowcodec.Row{row(1)}, 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := gens[i].Live(); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	end := time.Now().Add(200 * time.Millisecond)
	for i := range 2 {
		wg.Go(func() {
			var v View
			for time.Now().Before(end) {
				v.Hold(tables[i], tables[1-i], tables[i])
				time.Sleep(10 * time.Microsecond)
				v.Release()
			}
		})
		wg.Go(func() {
			for n := int64(1); time.Now().Before(end); n++ {
				if err := gens[i].Apply([]rowcodec.Change{{Before: row(n), After: row(n + 1)}}, uint64(n+1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("views and changes wait for each other")
	}
}
