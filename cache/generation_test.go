package cache

import (
	"errors"
	"slices"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// sameRows compares a table with its database without looking at versions.
func sameRows(t *testing.T, table *Table, def *schema.Table, db content) {
	t.Helper()
	s := &schema.Search{Def: def, Index: def.Key, Op: schema.OpGE}
	got, out := searchAll(t, table, s)
	want := db.search(s, testRow{})
	for i := range got {
		got[i].version = 0
	}
	for i := range want {
		want[i].version = 0
	}
	if out != Served || !slices.Equal(got, want) {
		t.Fatalf("%v: table has\n%v\nwant\n%v", out, got, want)
	}
}

func TestInstallMarks(t *testing.T) {
	row := func(id int, n int64) testRow { return testRow{id: id, name: "x", n: n} }
	change := func(before, after *testRow) []rowcodec.Change {
		var c rowcodec.Change
		if before != nil {
			c.Before = before.row()
		}
		if after != nil {
			c.After = after.row()
		}
		return []rowcodec.Change{c}
	}
	one, two, moved, row3 := row(1, 1), row(1, 2), row(2, 1), row(3, 1)
	tests := []struct {
		name string
		run  func(t *testing.T, g *Generation)
		want []testRow
	}{
		{"snapshot before the change", func(t *testing.T, g *Generation) {
			install(t, g, 5, 5, one)
			apply(t, g, 8, change(&one, &two))
		}, []testRow{{1, 0, "x", 2, 8}}},
		{"put after low wins", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, &two))
			install(t, g, 5, 5, one)
		}, []testRow{{1, 0, "x", 2, 8}}},
		{"put up to low loses", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, &two))
			install(t, g, 9, 8, row(1, 3))
		}, []testRow{{1, 0, "x", 3, 9}}},
		{"delete after low wins", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			install(t, g, 5, 5, one)
		}, nil},
		{"delete up to low loses", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			install(t, g, 8, 8, one)
		}, []testRow{{1, 0, "x", 1, 8}}},
		{"key change wins at both keys", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, &moved))
			install(t, g, 5, 8, one)
		}, []testRow{{2, 0, "x", 1, 8}}},
		{"deleted and put again", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			apply(t, g, 9, change(nil, &two))
			g.PurgeMarks(8)
			install(t, g, 8, 9, two)
		}, []testRow{{1, 0, "x", 2, 9}}},
		{"a later deletion outlives the purge of an earlier one", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			apply(t, g, 9, change(nil, &two))
			apply(t, g, 10, change(&two, nil))
			g.PurgeMarks(9)
			install(t, g, 9, 10, two)
		}, nil},
		{"purged", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			g.PurgeMarks(8)
			if len(g.marks)+len(g.queue) != 0 || g.markBytes != 0 {
				t.Errorf("%d marks and %d in the queue after the purge", len(g.marks), len(g.queue))
			}
			install(t, g, 8, 8, one)
		}, []testRow{{1, 0, "x", 1, 8}}},
		{"same key twice in a chunk", func(t *testing.T, g *Generation) {
			install(t, g, 9, 9, two, one)
		}, []testRow{{1, 0, "x", 1, 9}}},
		{"what came since is put over saved rows", func(t *testing.T, g *Generation) {
			g.Restored()
			install(t, g, 9, 9, two, row(2, 1))
			apply(t, g, 10, change(nil, &one))
			apply(t, g, 11, change(&moved, nil))
			apply(t, g, 12, change(&row3, &row3))
		}, []testRow{{1, 0, "x", 1, 10}, {3, 0, "x", 1, 12}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := New(Config{})
			def := testDef(false)
			table := store.Add("app", "t", ModeFull)
			g := mustLoad(t, table, def)
			tt.run(t, g)
			if err := g.Live(); err != nil {
				t.Fatal(err)
			}
			got, _ := searchAll(t, table, &schema.Search{Def: def, Op: schema.OpGE})
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			checkGeneration(t, table)
		})
	}
}

func install(t testing.TB, g *Generation, low, high uint64, rows ...testRow) {
	t.Helper()
	var list []rowcodec.Row
	for _, r := range rows {
		list = append(list, r.row())
	}
	// Half of them with keys that are made before.
	half := len(list) / 2
	if err := g.Install(list[:half], low, high); err != nil {
		t.Fatal(err)
	}
	if err := g.InstallKeyed(g.Key(list[half:]), low, high); err != nil {
		t.Fatal(err)
	}
}

func apply(t testing.TB, g *Generation, version uint64, changes []rowcodec.Change) {
	t.Helper()
	if err := g.Apply(changes, version); err != nil {
		t.Fatal(err)
	}
}

// TestGap checks that a change which does not follow from the cached rows suspends the table at once and frees it.
func TestGap(t *testing.T) {
	row := func(id int, n int64) rowcodec.Row { return testRow{id: id, name: "x", n: n}.row() }
	tests := map[string][]rowcodec.Change{
		"insert of a row that is there":    {{After: row(1, 7)}},
		"delete of a missing row":          {{Before: row(9, 1)}},
		"update of a missing row":          {{Before: row(9, 1), After: row(9, 2)}},
		"delete with another before-image": {{Before: row(1, 7)}},
		"update with another before-image": {{Before: row(1, 7), After: row(1, 8)}},
		"key change of a missing row":      {{Before: row(9, 1), After: row(10, 1)}},
		"key change to a row that is there": {
			{Before: row(1, 1), After: row(2, 1)},
		},
		"after good changes": {{After: row(5, 1)}, {Before: row(1, 1), After: row(1, 2)}, {Before: row(1, 1)}},
	}
	for name, changes := range tests {
		t.Run(name, func(t *testing.T) {
			var transitions []Transition
			store := New(Config{OnTransition: func(tr Transition) { transitions = append(transitions, tr) }})
			def := testDef(false)
			table := store.Add("app", "t", ModeFull)
			g := mustLoad(t, table, def)
			install(t, g, 1, 1, testRow{id: 1, name: "x", n: 1}, testRow{id: 2, name: "x", n: 1})
			if err := g.Live(); err != nil {
				t.Fatal(err)
			}
			err := g.Apply(changes, 2)
			if !errors.Is(err, ErrGap) {
				t.Fatalf("error %v, want ErrGap", err)
			}
			if table.State() != StateSuspended || table.Reason() != err.Error() || table.Len() != 0 || store.Used() != 0 {
				t.Errorf("state %v (%s), %d rows, %d bytes", table.State(), table.Reason(), table.Len(), store.Used())
			}
			if rows, out := searchAll(t, table, &schema.Search{Def: def, Op: schema.OpGE}); out != Pass || rows != nil {
				t.Errorf("search: %v %v", out, rows)
			}
			if err := g.Apply(nil, 3); !errors.Is(err, ErrStale) {
				t.Errorf("Apply after the gap: %v", err)
			}
			if last := transitions[len(transitions)-1]; last.From != StateLive || last.To != StateSuspended || last.Reason == "" {
				t.Errorf("last transition %+v", last)
			}
		})
	}
}

func TestBadChanges(t *testing.T) {
	for name, c := range map[string]rowcodec.Change{
		"empty":            {},
		"bad before-image": {Before: makeRow([]byte("x"), nil, []byte("a"), []byte("1"))},
		"bad after-image":  {After: makeRow([]byte("x"), nil, []byte("a"), []byte("1"))},
	} {
		store := New(Config{})
		table := store.Add("app", "t", ModeFull)
		g := mustLoad(t, table, testDef(false))
		if err := g.Apply([]rowcodec.Change{c}, 1); err == nil || table.State() != StateSuspended || store.Used() != 0 {
			t.Errorf("%s: error %v, state %v, %d bytes", name, err, table.State(), store.Used())
		}
	}
	store := New(Config{})
	table := store.Add("app", "t", ModeFull)
	g := mustLoad(t, table, testDef(false))
	if err := g.Install([]rowcodec.Row{makeRow([]byte("x"), nil, nil, nil)}, 1, 1); err == nil || table.State() != StateSuspended {
		t.Errorf("install of a bad row: %v, state %v", err, table.State())
	}
	g = mustLoad(t, table, testDef(false))
	keyed := g.Key([]rowcodec.Row{testRow{id: 1, name: "a"}.row(), makeRow([]byte("x"), nil, nil, nil)})
	if err := g.InstallKeyed(keyed, 1, 1); err == nil || table.State() != StateSuspended || table.Len() != 0 {
		t.Errorf("install of a bad row with its key: %v, state %v", err, table.State())
	}
	if err := g.InstallKeyed(g.Key([]rowcodec.Row{testRow{id: 1}.row()}), 1, 1); !errors.Is(err, ErrStale) {
		t.Errorf("rows that got their keys on a stale generation: %v", err)
	}
	g = mustLoad(t, table, testDef(false))
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	if err := g.Install(nil, 1, 1); err == nil || table.State() != StateSuspended {
		t.Errorf("install into a live table: %v, state %v", err, table.State())
	}
}
