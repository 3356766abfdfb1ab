package cache

import (
	"errors"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

// named is the test definition of a table of that name.
func named(schemaName, table string) *schema.Table {
	def := testDef(false)
	def.Schema, def.Name = schemaName, table
	return def
}

// fill makes the table live with one row.
func fill(t *testing.T, table *Table, def *schema.Table, id int) *Generation {
	t.Helper()
	g := mustLoad(t, table, def)
	install(t, g, 1, 1, testRow{id: id})
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	return g
}

// Two names that look the same in text without quotes are two tables.
func TestDotsInNames(t *testing.T) {
	store := New(Config{})
	defer store.Close()
	names := []schema.Name{{Schema: "a", Table: "b.c"}, {Schema: "a.b", Table: "c"}}
	for i, n := range names {
		fill(t, store.Add(n.Schema, n.Table, ModeFull), named(n.Schema, n.Table), i)
	}
	if tables := store.Tables(); len(tables) != 2 || tables[0].Ident() != names[0] || tables[1].Ident() != names[1] {
		t.Fatalf("Tables() = %v", tables)
	}
	for i, n := range names {
		table := store.Table(n)
		if table == nil || table.Ident() != n || table.Name() != "a.b.c" {
			t.Fatalf("Table(%+v) = %v", n, table)
		}
		rows, outcome := searchAll(t, table, &schema.Search{Def: table.Def(), Op: schema.OpGE, Values: [][]byte{{'0'}}})
		if outcome != Served || len(rows) != 1 || rows[0].id != i {
			t.Errorf("rows of %+v: %v, %v", n, rows, outcome)
		}
		if _, err := table.Load(named(names[1-i].Schema, names[1-i].Table)); err == nil {
			t.Errorf("%+v took the definition of the other table", n)
		}
	}
	store.Remove(names[0])
	if store.Table(names[0]) != nil || store.Table(names[1]) == nil {
		t.Error("Remove took the wrong table")
	}
}

// A server whose names know no case answers with its own spelling.
func TestOtherSpelling(t *testing.T) {
	asked, own := schema.Name{Schema: "App", Table: "User"}, schema.Name{Schema: "app", Table: "user"}
	store := New(Config{})
	defer store.Close()
	table := store.Add(asked.Schema, asked.Table, ModeFull)
	if store.Table(own) != nil {
		t.Error("the server's spelling is known before the definition")
	}
	for _, n := range []schema.Name{{Schema: "app", Table: "users"}, {Schema: "ap", Table: "user"}} {
		if _, err := table.Load(named(n.Schema, n.Table)); err == nil || !strings.Contains(err.Error(), "definition of "+n.String()) {
			t.Errorf("definition of %s: %v", n, err)
		}
	}
	fill(t, table, named(own.Schema, own.Table), 7)
	if table.Name() != "App.User" || store.Table(asked) != table || store.Table(own) != table || len(store.Tables()) != 1 {
		t.Fatalf("found %v and %v", store.Table(asked), store.Table(own))
	}
	rows, outcome := searchAll(t, table, &schema.Search{Def: table.Def(), Values: [][]byte{{'7'}}})
	if outcome != Served || len(rows) != 1 {
		t.Errorf("%v, %v", rows, outcome)
	}

	// The rows are kept once, and by the same table again when it comes back.
	third := store.Add("APP", "USER", ModeFull)
	kept := func() {
		t.Helper()
		if _, err := third.Load(named(own.Schema, own.Table)); err == nil || !strings.Contains(err.Error(), "kept as App.User") {
			t.Errorf("second table of the same rows: %v", err)
		}
	}
	kept()
	store.Remove(asked)
	if store.Table(own) != nil {
		t.Error("the server's spelling outlives Remove")
	}
	kept()
	table = store.Add(asked.Schema, asked.Table, ModeFull)
	g := fill(t, table, named(own.Schema, own.Table), 8)
	if store.Table(own) != table {
		t.Error("the table has lost the server's spelling")
	}

	// The server's own spelling has the first right to them.
	plain := store.Add(own.Schema, own.Table, ModeFull)
	if table.State() != StateRefused || table.Reason() != "the table is kept as app.user" {
		t.Errorf("%v, %q", table.State(), table.Reason())
	}
	if err := g.Apply(nil, 2); !errors.Is(err, ErrStale) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := table.Load(named(own.Schema, own.Table)); err == nil || !strings.Contains(err.Error(), "kept as app.user") {
		t.Errorf("load beside the server's spelling: %v", err)
	}
	fill(t, plain, named(own.Schema, own.Table), 9)
	if store.Table(own) != plain || store.Table(asked) != table {
		t.Error("tables are mixed up")
	}
}
