package router

import (
	"slices"
	"strconv"
	"testing"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

func idTable(name schema.Name) *schema.Table {
	return &schema.Table{
		Schema: name.Schema, Name: name.Table, Engine: "InnoDB",
		Columns: []schema.Column{{Name: "id", Kind: schema.KindInt, TypeText: "int", Bytes: 4}},
		Indexes: []schema.Index{{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}}},
	}
}

// fillWith makes a table live that has one row.
func fillWith(t *testing.T, ct *cache.Table, def *schema.Table, id int) {
	t.Helper()
	g, err := ct.Load(def)
	if err != nil {
		t.Fatal(err)
	}
	var b rowcodec.Builder
	b.Reset()
	b.Add(strconv.AppendInt(nil, int64(id), 10))
	if err := g.Install([]rowcodec.Row{b.AppendRow(nil)}, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
}

// expectRows asks memory for all rows.
func expectRows(t *testing.T, tab *Table, want ...string) {
	t.Helper()
	var rows []string
	s := &schema.Search{Def: tab.Def(), Op: schema.OpGE, Values: [][]byte{{'0'}}}
	served, err := tab.SearchMemory(nil, s, func(row rowcodec.Row, _ uint64) bool {
		rows = append(rows, text(row))
		return true
	})
	if !served || err != nil || !slices.Equal(rows, want) {
		t.Errorf("%s: %q, %v, %v; want %q", tab.name, rows, served, err, want)
	}
}

// Two names that look the same in text without quotes are two tables.
func TestDotsInNames(t *testing.T) {
	store := cache.New(cache.Config{})
	defer store.Close()
	r := New(Config{Store: store})
	defer r.Close()
	names := []schema.Name{{Schema: "a", Table: "b.c"}, {Schema: "a.b", Table: "c"}}
	fillWith(t, store.Add("a", "b.c", cache.ModeFull), idTable(names[0]), 1)
	if _, ok := r.Lookup("a.b", "c"); ok {
		t.Error("found a table that is not there")
	}
	fillWith(t, store.Add("a.b", "c", cache.ModeFull), idTable(names[1]), 2)
	for i, n := range names {
		tab, ok := r.Lookup(n.Schema, n.Table)
		if !ok {
			t.Fatalf("%+v is not found", n)
		}
		expectRows(t, tab, strconv.Itoa(i+1))
	}
}

// A table in memory under the name that was asked for is found for the server's spelling too, and for a client's third.
func TestOtherSpellingInMemory(t *testing.T) {
	store := cache.New(cache.Config{})
	defer store.Close()
	r := New(Config{Store: store})
	defer r.Close()
	own := schema.Name{Schema: "app", Table: "user"}
	ct := store.Add("App", "User", cache.ModeFull)
	fillWith(t, ct, idTable(own), 1)
	asked, ok := r.Lookup("App", "User")
	if !ok {
		t.Fatal("the asked spelling is not found")
	}
	plain, ok := r.Lookup("app", "user")
	if !ok || plain != asked {
		t.Fatalf("the server's spelling: %v, %v", plain, ok)
	}
	expectRows(t, asked, "1")

	// Out of memory the database's definition counts, whatever the spelling, until the table is back.
	ct.Suspend("test")
	if _, ok := r.Lookup("App", "User"); ok {
		t.Error("a suspended table's definition is vouched for")
	}
	r.mu.Lock()
	third := r.install(schema.Name{Schema: "APP", Table: "USER"}, idTable(own))
	r.mu.Unlock()
	for _, n := range []schema.Name{own, {Schema: "App", Table: "User"}, {Schema: "APP", Table: "USER"}} {
		if tab, ok := r.Lookup(n.Schema, n.Table); !ok || tab != asked || tab != third {
			t.Errorf("%s: %p, %v; want %p", n, tab, ok, asked)
		}
	}
	fillWith(t, ct, idTable(own), 2)
	expectRows(t, third, "2")
	r.Forget("APP", "user")
	if r.find(own).own.Load() != nil {
		t.Error("the database's definition outlives Forget")
	}
	expectRows(t, third, "2")
}
