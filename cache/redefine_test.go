package cache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

// redefined is a copy of the test table's definition with other indexes.
func redefined(def *schema.Table, change func(indexes []schema.Index) []schema.Index) *schema.Table {
	next := *def
	next.Columns = slices.Clone(def.Columns)
	next.Indexes = change(slices.Clone(def.Indexes))
	return &next
}

// TestRedefine changes the indexes of a live table: rows and what is asked for stay, searches of the old definition are
// told, memory of what is gone is given back.
func TestRedefine(t *testing.T) {
	for _, large := range []bool{false, true} {
		r := rand.New(rand.NewPCG(8, 8))
		store := New(Config{})
		table := store.Add("app", "t", ModeFull)
		def := testDef(false)
		g := mustLoad(t, table, def)
		c := content{}
		var rows []testRow
		n := 50
		if large {
			n = buildAtOnceRows + 500
		}
		for id := range n {
			row := testRow{id: 1000 + id, grp: id % 7, name: string(rune('a' + id%26)), n: int64(id % 13), version: 1}
			c[keyOf(def, row)] = row
			rows = append(rows, row)
		}
		install(t, g, 1, 1, rows...)
		table.EnsureIndex(1)
		table.EnsureIndex(2)
		if err := g.Live(); err != nil {
			t.Fatal(err)
		}
		complete := func() bool {
			return !slices.ContainsFunc(table.Indexes(), func(s IndexStatus) bool { return s.State != IndexComplete })
		}
		waitFor(t, "the indexes", complete)
		if !table.Vouched() {
			t.Fatal("a live table's definition is not vouched for")
		}
		check := func(def *schema.Table, index int) {
			t.Helper()
			s := &schema.Search{Def: def, Index: index, Op: schema.OpGE}
			got, out := searchAll(t, table, s)
			if want := c.search(s, testRow{}); out != Served || !slices.Equal(got, want) {
				t.Fatalf("index %d: %v, %d rows, want %d", index, out, len(got), len(want))
			}
		}
		check(def, 1)
		_, before := table.Memory()

		table.Redefining()
		if _, out := searchAll(t, table, &schema.Search{Def: def, Index: 0, Op: schema.OpGE}); out != Pass || table.Vouched() {
			t.Fatalf("while it is redefined: %v, vouched %v", out, table.Vouched())
		}
		if err := g.Apply(randomTx(r, def, c, 2, 1<<20), 2); err != nil {
			t.Fatal(err)
		}
		// "name" is gone, "grp" is over other columns, a new one stands before it.
		next := redefined(def, func(indexes []schema.Index) []schema.Index {
			grp := indexes[1]
			grp.Parts = []schema.Part{{Column: 1}}
			return []schema.Index{indexes[0], {Name: "fresh", BTree: true, Parts: []schema.Part{{Column: 3}}}, grp, indexes[3]}
		})
		if err := g.Redefine(next); err != nil {
			t.Fatal(err)
		}
		if _, out := searchAll(t, table, &schema.Search{Def: def, Index: 0, Op: schema.OpGE}); out != Changed || !table.Vouched() {
			t.Fatalf("old definition: %v", out)
		}
		check(next, 0)
		waitFor(t, "the index that is over other columns", complete)
		check(next, 2)
		if got := table.Indexes(); len(got) != 1 || got[0].Name != "grp" {
			t.Fatalf("indexes %+v", got)
		}
		if _, after := table.Memory(); after >= before {
			t.Errorf("indexes took %d bytes, and take %d with one less", before, after)
		}
		table.EnsureIndex(1)
		waitFor(t, "the new index", complete)
		for version := uint64(3); version < 60; version++ {
			if err := g.Apply(randomTx(r, next, c, version, 1<<20), version); err != nil {
				t.Fatal(err)
			}
		}
		for index := range 3 {
			check(next, index)
		}
		// The same once more: nothing is built anew.
		if err := g.Redefine(redefined(next, func(indexes []schema.Index) []schema.Index { return indexes })); err != nil {
			t.Fatal(err)
		}
		if !complete() {
			t.Error("an index that is as it was is built again")
		}
		check(table.Def(), 2)
		table.Suspend("the end")
		if store.Used() != 0 || g.Redefine(next) == nil {
			t.Errorf("%d bytes are left, or a stale generation was redefined", store.Used())
		}
		store.Close()
	}
}

func TestRedefineRefuses(t *testing.T) {
	store := New(Config{})
	defer store.Close()
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	g := mustLoad(t, table, def)
	table.Redefining() // it is not live: nothing happens
	if !table.Vouched() {
		t.Error("a loading table is redefined")
	}
	if g.Redefine(def) == nil {
		t.Error("a loading table was redefined")
	}
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	columns := *testDef(false)
	columns.Columns[3].Nullable = true
	key := testDef(true)
	none := *testDef(false)
	none.Key = -1
	for name, next := range map[string]*schema.Table{"another column": &columns, "another key": key, "no key": &none} {
		if err := g.Redefine(next); err == nil || errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if table.Def() != def {
		t.Error("a refused definition is there all the same")
	}
}
