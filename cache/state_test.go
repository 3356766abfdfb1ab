package cache

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

func TestStaleGeneration(t *testing.T) {
	def := testDef(false)
	ends := map[string]func(s *Store, table *Table){
		"load":    func(_ *Store, table *Table) { mustLoad(t, table, def) },
		"suspend": func(_ *Store, table *Table) { table.Suspend("DDL") },
		"refuse":  func(_ *Store, table *Table) { table.Refuse("cascades") },
		"remove":  func(s *Store, _ *Table) { s.Remove(schema.Name{Schema: "app", Table: "t"}) },
	}
	for name, end := range ends {
		for _, live := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s live %v", name, live), func(t *testing.T) {
				store := New(Config{})
				table := store.Add("app", "t", ModeFull)
				g := mustLoad(t, table, def)
				install(t, g, 1, 1, testRow{id: 1})
				if live {
					if err := g.Live(); err != nil {
						t.Fatal(err)
					}
				}
				end(store, table)
				state, used, rows := table.State(), store.Used(), table.Len()
				row := testRow{id: 2}.row()
				for what, err := range map[string]error{
					"Apply":   g.Apply([]rowcodec.Change{{After: row}}, 2),
					"Install": g.Install([]rowcodec.Row{row}, 2, 2),
					"Live":    g.Live(),
				} {
					if !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "app.t") {
						t.Errorf("%s: %v, want ErrStale with the table's name", what, err)
					}
				}
				g.PurgeMarks(5)
				g.Progress(7, 8)
				s := table.Status()
				if s.State != state || store.Used() != used || s.Rows != rows || s.SnapshotDone == 7 {
					t.Errorf("a stale generation changed the table: %+v", s)
				}
				if s.State != StateLoading && store.Used() != 0 {
					t.Errorf("%d bytes are still counted", store.Used())
				}
			})
		}
	}
}

func TestLoadErrors(t *testing.T) {
	edit := func(f func(def *schema.Table)) *schema.Table {
		def := testDef(false)
		f(def)
		return def
	}
	tests := map[string]struct {
		mode Mode
		def  *schema.Table
		want string
	}{
		"no key":          {ModeFull, edit(func(d *schema.Table) { d.Key = -1 }), "no primary key"},
		"refusal":         {ModeFull, edit(func(d *schema.Table) { d.Refusal = "system-versioned" }), "system-versioned"},
		"another table":   {ModeFull, edit(func(d *schema.Table) { d.Name = "u" }), "app.u"},
		"unsupported key": {ModeFull, edit(func(d *schema.Table) { d.Columns[0].Kind = schema.KindFloat }), "FLOAT"},
		"hot mode":        {ModeHot, testDef(false), "in hot mode"},
	}
	for name, tt := range tests {
		store := New(Config{})
		table := store.Add("app", "t", tt.mode)
		g, err := table.Load(tt.def)
		if g != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "app.t") {
			t.Errorf("%s: %v, want it to name the table and %q", name, err, tt.want)
		}
		if name == "unsupported key" && !errors.Is(err, rowcodec.ErrUnsupportedKey) {
			t.Errorf("%s: %v does not wrap ErrUnsupportedKey", name, err)
		}
		if table.State() != StatePass || table.Def() != nil || store.Used() != 0 {
			t.Errorf("%s: state %v after the error", name, table.State())
		}
		if rows, out := searchAll(t, table, &schema.Search{Def: tt.def, Op: schema.OpGE}); out != Pass || rows != nil {
			t.Errorf("%s: search: %v", name, out)
		}
	}

	store := New(Config{})
	table := store.Add("app", "t", ModeFull)
	store.Remove(schema.Name{Schema: "app", Table: "t"})
	if _, err := table.Load(testDef(false)); err == nil {
		t.Error("a removed table was loaded")
	}
	table.Suspend("x")
	table.Refuse("x")
	if table.State() != StatePass {
		t.Errorf("a removed table is %v", table.State())
	}
}

// TestTransitions follows a table through its life and checks what the callback, the log and the counts say of it.
func TestTransitions(t *testing.T) {
	var got []Transition
	var logged bytes.Buffer
	var table *Table
	store := New(Config{
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		OnTransition: func(tr Transition) {
			got = append(got, tr)
			_ = table.Status() // no lock is held
		},
	})
	table = store.Add("app", "t", ModeFull)
	def := testDef(false)
	mustLoad(t, table, def)
	g := mustLoad(t, table, def)
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	table.Suspend("ALTER TABLE")
	table.Suspend("ALTER TABLE")
	table.Suspend("lost position")
	table.Refuse("no key")
	store.Remove(schema.Name{Schema: "app", Table: "t"})
	store.Remove(schema.Name{Schema: "app", Table: "t"})
	want := []Transition{
		{"app.t", StatePass, StateLoading, ""},
		{"app.t", StateLoading, StateLoading, ""},
		{"app.t", StateLoading, StateLive, ""},
		{"app.t", StateLive, StateSuspended, "ALTER TABLE"},
		{"app.t", StateSuspended, StateSuspended, "lost position"},
		{"app.t", StateSuspended, StateRefused, "no key"},
		{"app.t", StateRefused, StatePass, "the table is gone"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("transitions\n%v\nwant\n%v", got, want)
	}
	if n := strings.Count(logged.String(), "table state"); n != len(want) || !strings.Contains(logged.String(), "to=suspended") {
		t.Errorf("log:\n%s", logged.String())
	}
	for state, n := range map[State]uint64{StateLoading: 2, StateLive: 1, StateSuspended: 2, StateRefused: 1, StatePass: 1, 99: 0} {
		if store.Transitions(state) != n {
			t.Errorf("%v: counted %d, want %d", state, store.Transitions(state), n)
		}
	}
	if store.Table(schema.Name{Schema: "app", Table: "t"}) != nil || len(store.Tables()) != 0 {
		t.Error("the table is still there")
	}
}

func TestStoreTables(t *testing.T) {
	store := New(Config{MemoryLimit: 5})
	b := store.Add("app", "b", ModeHot)
	a := store.Add("app", "a", ModeFull)
	if store.Add("app", "b", ModeFull) != b || b.Mode() != ModeHot || a.Name() != "app.a" {
		t.Error("Add made a second table of one name")
	}
	if store.Table(schema.Name{Schema: "app", Table: "b"}) != b || store.Table(schema.Name{Schema: "app", Table: "c"}) != nil || store.MemoryLimit() != 5 {
		t.Error("Table or MemoryLimit differs")
	}
	if tables := store.Tables(); !slices.Equal(tables, []*Table{a, b}) {
		t.Errorf("Tables() = %v", tables)
	}
	if s := a.Status(); s.State != StatePass || s.Rows != 0 || s.Name != "app.a" || s.Indexes != nil {
		t.Errorf("status %+v", s)
	}
	store.Close()
	store.Close()
}

func TestNames(t *testing.T) {
	for _, s := range []fmt.Stringer{
		StatePass, StateLoading, StateLive, StateHot, StateSuspended, StateRefused, State(9),
		ModeFull, ModeHot, Mode(9), Served, Pass, Changed, Outcome(9), IndexBuilding, IndexComplete, IndexFailed, IndexState(9),
	} {
		if s.String() == "" || strings.Contains(s.String(), "%") {
			t.Errorf("%T has the name %q", s, s.String())
		}
	}
	if StateSuspended.String() != "suspended" || StateHot.String() != "hot" {
		t.Error("states have other names than the status interface says")
	}
}

func TestSearchOutcomes(t *testing.T) {
	store := New(Config{})
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	g := mustLoad(t, table, def)
	install(t, g, 1, 1, testRow{id: 1, name: "a"}, testRow{id: 2, name: "b"})
	one := [][]byte{[]byte("1")}
	if _, out := searchAll(t, table, &schema.Search{Def: def, Values: one}); out != Pass {
		t.Errorf("loading: %v", out)
	}
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		s    schema.Search
		want Outcome
		rows int
	}{
		"hit":             {schema.Search{Def: def, Values: one}, Served, 1},
		"miss":            {schema.Search{Def: def, Values: [][]byte{[]byte("7")}}, Served, 0},
		"hit with offset": {schema.Search{Def: def, Values: one, Offset: 1}, Served, 0},
		"all":             {schema.Search{Def: def, Op: schema.OpGE}, Served, 2},
		"other definition": {
			schema.Search{Def: testDef(false), Values: one}, Changed, 0,
		},
		"index not asked for":   {schema.Search{Def: def, Index: 2, Values: one}, Pass, 0},
		"index out of range":    {schema.Search{Def: def, Index: 9, Values: one}, Pass, 0},
		"negative index":        {schema.Search{Def: def, Index: -1, Values: one}, Pass, 0},
		"too many values":       {schema.Search{Def: def, Values: [][]byte{one[0], one[0]}}, Pass, 0},
		"operator out of range": {schema.Search{Def: def, Op: 17, Values: one}, Pass, 0},
	}
	for name, tt := range tests {
		rows, out := searchAll(t, table, &tt.s)
		if out != tt.want || len(rows) != tt.rows {
			t.Errorf("%s: %v, %d rows, want %v, %d rows", name, out, len(rows), tt.want, tt.rows)
		}
	}
	n := 0
	table.Search(&schema.Search{Def: def, Op: schema.OpGE}, func(rowcodec.Row, uint64) bool { n++; return false })
	if n != 1 {
		t.Errorf("emit was called %d times after it said stop", n)
	}
}

// TestReloadUnderReaders checks that a table that was loaded with another definition answers searches for that one only.
func TestReload(t *testing.T) {
	store := New(Config{})
	table := store.Add("app", "t", ModeFull)
	old, def := testDef(false), testDef(true)
	g := mustLoad(t, table, old)
	table.EnsureIndex(2)
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	if def.Indexes[2].Name = "renamed"; table.Status().Indexes[0].Name != "name" {
		t.Fatal("index name is not there")
	}
	g = mustLoad(t, table, def)
	install(t, g, 1, 1, testRow{id: 1, name: "a"})
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	if table.Def() != def {
		t.Error("Def() is not the new definition")
	}
	if _, out := searchAll(t, table, &schema.Search{Def: old, Op: schema.OpGE}); out != Changed {
		t.Errorf("search with the old definition: %v", out)
	}
	if rows, out := searchAll(t, table, &schema.Search{Def: def, Op: schema.OpGE}); out != Served || len(rows) != 1 {
		t.Errorf("search with the new definition: %v %v", out, rows)
	}
	if ix := table.Indexes(); len(ix) != 0 {
		t.Errorf("indexes %+v, the wanted one is not in the new definition", ix)
	}
}
