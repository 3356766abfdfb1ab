package cache

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// The test table has an integer primary key in one form and one of two parts in the other, and the same further indexes:
//
//	t(id INT, grp INT NULL, name VARBINARY(700), n BIGINT)
//	PRIMARY(id) or PRIMARY(name, id), grp(grp, n DESC), name(name)
func testDef(compound bool) *schema.Table {
	def := &schema.Table{
		Schema: "app", Name: "t", Engine: "InnoDB",
		Columns: []schema.Column{
			{Name: "id", Kind: schema.KindInt, TypeText: "int", Bytes: 4},
			{Name: "grp", Kind: schema.KindInt, TypeText: "int", Bytes: 4, Nullable: true},
			{Name: "name", Kind: schema.KindVarbinary, TypeText: "varbinary(700)", Length: 700},
			{Name: "n", Kind: schema.KindInt, TypeText: "bigint", Bytes: 8},
		},
		Indexes: []schema.Index{
			{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}},
			{Name: "grp", BTree: true, Parts: []schema.Part{{Column: 1}, {Column: 3, Desc: true}}},
			{Name: "name", BTree: true, Parts: []schema.Part{{Column: 2}}},
			{Name: "n", BTree: true, Parts: []schema.Part{{Column: 0}}},
		},
	}
	if compound {
		def.Indexes[0].Parts = []schema.Part{{Column: 2}, {Column: 0}}
	}
	return def
}

// testRow is one row of the test table in plain form.
type testRow struct {
	id      int
	grp     int // negative: NULL
	name    string
	n       int64
	version uint64
}

func (r testRow) values() [][]byte {
	v := [][]byte{strconv.AppendInt(nil, int64(r.id), 10), nil, []byte(r.name), strconv.AppendInt(nil, r.n, 10)}
	if r.grp >= 0 {
		v[1] = strconv.AppendInt(nil, int64(r.grp), 10)
	}
	return v
}

func makeRow(values ...[]byte) rowcodec.Row {
	var b rowcodec.Builder
	b.Reset()
	for _, v := range values {
		if v == nil {
			b.Null()
		} else {
			b.Add(v)
		}
	}
	return b.AppendRow(nil)
}

func (r testRow) row() rowcodec.Row { return makeRow(r.values()...) }

func parseRow(t testing.TB, row rowcodec.Row, version uint64) testRow {
	t.Helper()
	number := func(i int) int64 {
		v, null := row.Value(i)
		if null {
			return -1
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			t.Fatalf("column %d: %v", i, err)
		}
		return n
	}
	name, _ := row.Value(2)
	return testRow{id: int(number(0)), grp: int(number(1)), name: string(name), n: number(3), version: version}
}

// compareColumn orders two rows by a column as the server does.
func compareColumn(a, b testRow, column int) int {
	switch column {
	case 0:
		return cmp.Compare(a.id, b.id)
	case 1:
		return cmp.Compare(max(a.grp, -1), max(b.grp, -1))
	case 2:
		return cmp.Compare(a.name, b.name)
	default:
		return cmp.Compare(a.n, b.n)
	}
}

func compareParts(a, b testRow, parts []schema.Part) int {
	for _, p := range parts {
		c := compareColumn(a, b, p.Column)
		if p.Desc {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// content is the plain form of a table: rows by their row-identity key.
type content map[string]testRow

func keyOf(def *schema.Table, r testRow) string {
	if len(def.Indexes[def.Key].Parts) == 2 {
		return fmt.Sprintf("%s|%d", r.name, r.id)
	}
	return strconv.Itoa(r.id)
}

// search gives the answer to a search the slow way.
func (c content) search(s *schema.Search, like testRow) []testRow {
	parts := s.Def.Indexes[s.Index].Parts
	order := append(slices.Clone(parts), s.Def.Indexes[s.Def.Key].Parts...)
	var rows []testRow
	for _, r := range c {
		side := compareParts(r, like, parts[:len(s.Values)])
		if s.Op == schema.OpEQ && side == 0 || s.Op == schema.OpGT && side > 0 || s.Op == schema.OpGE && side >= 0 ||
			s.Op == schema.OpLT && side < 0 || s.Op == schema.OpLE && side <= 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b testRow) int {
		if s.Op == schema.OpLT || s.Op == schema.OpLE {
			a, b = b, a
		}
		return compareParts(a, b, order)
	})
	rows = rows[min(max(s.Offset, 0), len(rows)):]
	if s.Limit > 0 {
		rows = rows[:min(s.Limit, len(rows))]
	}
	return rows
}

func searchAll(t testing.TB, table *Table, s *schema.Search) ([]testRow, Outcome) {
	t.Helper()
	var rows []testRow
	out := table.Search(s, func(row rowcodec.Row, version uint64) bool {
		rows = append(rows, parseRow(t, row, version))
		return true
	})
	return rows, out
}

// randomRowLike returns a row of small ranges, so that keys meet.
func newTestRow(r *rand.Rand) testRow {
	name := []string{"", "a", "a\x00", "ab", "xyz", "\xff\xff"}[r.IntN(6)]
	switch r.IntN(4) {
	case 0:
		name += fmt.Sprint(r.IntN(30))
	case 1:
		name += string(bytes.Repeat([]byte{'z'}, 200*r.IntN(4)))
	}
	return testRow{id: r.IntN(200) - 50, grp: r.IntN(6) - 1, name: name, n: int64(r.IntN(5))}
}

// checkContent compares a live table with what it should have, row by row and by searches of all kinds.
func checkContent(t testing.TB, r *rand.Rand, table *Table, def *schema.Table, want content, searches int) {
	t.Helper()
	if table.Len() != len(want) {
		t.Fatalf("Len() = %d, want %d", table.Len(), len(want))
	}
	all := &schema.Search{Def: def, Index: def.Key, Op: schema.OpGE}
	got, out := searchAll(t, table, all)
	if out != Served {
		t.Fatalf("outcome %v", out)
	}
	if rows := want.search(all, testRow{}); !slices.Equal(got, rows) {
		t.Fatalf("table has\n%v\nwant\n%v", got, rows)
	}
	for range searches {
		index := r.IntN(len(def.Indexes))
		parts := def.Indexes[index].Parts
		like := newTestRow(r)
		s := &schema.Search{
			Def: def, Index: index, Op: schema.Op(r.IntN(5)),
			Limit: r.IntN(8) - 1, Offset: max(0, r.IntN(8)-5),
		}
		values := like.values()
		for _, p := range parts[:1+r.IntN(len(parts))] {
			s.Values = append(s.Values, values[p.Column])
		}
		got, out := searchAll(t, table, s)
		if out == Pass && index != def.Key {
			continue // not complete
		}
		if rows := want.search(s, like); out != Served || !slices.Equal(got, rows) {
			t.Fatalf("search index %d op %d values %q limit %d offset %d: %v\n%v\nwant\n%v",
				index, s.Op, s.Values, s.Limit, s.Offset, out, got, rows)
		}
	}
	checkGeneration(t, table)
}

// checkGeneration checks that trees, rows and counts of a table agree.
func checkGeneration(t testing.TB, table *Table) {
	t.Helper()
	table.mu.RLock()
	defer table.mu.RUnlock()
	g := table.gen
	checkLog(t, g.log)
	trees := map[string]tree{"key": g.key}
	for _, ix := range g.indexes {
		if ix != nil && ix.complete {
			trees[ix.name] = ix.tree
		}
	}
	var index int64
	for name, tr := range trees {
		_, ids := checkTree(t, tr)
		if len(ids) != g.log.rows {
			t.Fatalf("tree %s has %d entries for %d rows", name, len(ids), g.log.rows)
		}
		seen := map[uint32]bool{}
		for _, id := range ids {
			if seen[id] || !g.log.inUse(id) {
				t.Fatalf("tree %s: id %d twice or not in use", name, id)
			}
			seen[id] = true
		}
		index += tr.bytes()
	}
	if rows, ix := table.Memory(); rows != g.log.bytes()+g.markBytes || len(trees) == len(g.indexes) && ix != index {
		t.Fatalf("memory counted as %d and %d, is %d and %d", rows, ix, g.log.bytes()+g.markBytes, index)
	}
	held := []tree{g.key}
	for _, ix := range g.indexes {
		if ix != nil && ix.tree != nil {
			held = append(held, ix.tree)
		}
	}
	checkPool(t, table.store.pool, []*rowLog{g.log}, held)
	rows, ix := table.Memory()
	if used := table.store.Used(); used != rows+ix {
		t.Fatalf("store counts %d, its only table %d", used, rows+ix)
	}
}

// randomTx makes changes that follow from c, and c with them.
func randomTx(r *rand.Rand, def *schema.Table, c content, version uint64, rows int) []rowcodec.Change {
	var changes []rowcodec.Change
	pick := func() (testRow, bool) {
		for _, row := range c { // the order of maps is random enough, but not the same for a seed
			return row, true
		}
		return testRow{}, false
	}
	set := func(row testRow) rowcodec.Row {
		row.version = version
		c[keyOf(def, row)] = row
		return row.row()
	}
	for range 1 + r.IntN(5) {
		old, any := pick()
		fresh := newTestRow(r)
		_, taken := c[keyOf(def, fresh)]
		switch k := r.IntN(10); {
		case k < 3 && len(c) > 0 && (r.IntN(rows) < len(c)):
			delete(c, keyOf(def, old))
			changes = append(changes, rowcodec.Change{Before: old.row()})
		case k < 5 && any:
			to := old
			to.grp, to.n = fresh.grp, fresh.n
			changes = append(changes, rowcodec.Change{Before: old.row(), After: set(to)})
		case k < 7 && any && !taken:
			delete(c, keyOf(def, old))
			changes = append(changes, rowcodec.Change{Before: old.row(), After: set(fresh)})
		case k == 7 && len(def.Indexes[def.Key].Parts) == 1:
			// UPDATE t SET id = id+1 WHERE id >= x ORDER BY id DESC LIMIT …: a chain of key changes
			for id := 200; id > fresh.id; id-- {
				row, ok := c[strconv.Itoa(id)]
				if _, next := c[strconv.Itoa(id+1)]; !ok || next {
					continue
				}
				to := row
				to.id++
				delete(c, strconv.Itoa(id))
				changes = append(changes, rowcodec.Change{Before: row.row(), After: set(to)})
			}
		case !taken:
			changes = append(changes, rowcodec.Change{After: set(fresh)})
		}
	}
	return changes
}

func mustLoad(t testing.TB, table *Table, def *schema.Table) *Generation {
	t.Helper()
	g, err := table.Load(def)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestTableModel runs random transactions against a live table and compares it with a map, under both kinds of keys and
// with indexes that come at different times.
func TestTableModel(t *testing.T) {
	for _, compound := range []bool{false, true} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("compound %v seed %d", compound, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 77))
				def := testDef(compound)
				store := New(Config{})
				defer store.Close()
				table := store.Add("app", "t", ModeFull)
				if seed%2 == 0 {
					table.EnsureIndex(2) // no definition yet: nothing happens
				}
				g := mustLoad(t, table, def)
				if seed%2 == 1 {
					table.EnsureIndex(2)
				}
				if err := g.Live(); err != nil {
					t.Fatal(err)
				}
				c := content{}
				versions := uint64(600)
				if raceEnabled {
					versions = 320
				}
				for version := uint64(1); version <= versions; version++ {
					changes := randomTx(r, def, c, version, 150)
					if err := g.Apply(changes, version); err != nil {
						t.Fatal(err)
					}
					switch version {
					case 200:
						table.EnsureIndex(1)
						table.EnsureIndex(0)
						table.EnsureIndex(1)
					case 300:
						table.EnsureIndex(2)
						table.EnsureIndex(3)
					}
					if version%20 == 0 {
						checkContent(t, r, table, def, c, 60)
					}
				}
				for _, ix := range table.Indexes() {
					if ix.State != IndexComplete || ix.Done != ix.Total || ix.Bytes == 0 {
						t.Errorf("index %+v", ix)
					}
				}
			})
		}
	}
}

// TestLoadBesideWrites plays a database that goes on changing while its table is loaded in chunks, with the follower
// behind it by any distance and several chunks in flight, and compares the table at the end.
func TestLoadBesideWrites(t *testing.T) {
	runs := uint64(150)
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(seed, 5))
		def := testDef(seed%2 == 1)
		store := New(Config{})
		table := store.Add("app", "t", ModeFull)
		db := content{}
		for range 3 {
			randomTx(r, def, db, 1, 100)
		}
		type tx struct {
			changes []rowcodec.Change
			version uint64
		}
		var log []tx // committed, not applied yet
		commit := uint64(10)
		applied := commit
		g := mustLoad(t, table, def)
		if seed%3 == 0 {
			table.EnsureIndex(1)
		}

		type chunk struct {
			from, to  int // ids
			low, high uint64
			rows      []rowcodec.Row
			read      bool
		}
		var waiting []chunk
		for from := -60; from < 260; from += 40 {
			waiting = append(waiting, chunk{from: from, to: from + 40})
		}
		var flight []chunk
		applyOne := func() {
			if len(log) == 0 {
				return
			}
			if err := g.Apply(log[0].changes, log[0].version); err != nil {
				t.Fatal(err)
			}
			applied = log[0].version
			log = log[1:]
		}
		for len(waiting)+len(flight) > 0 {
			switch k := r.IntN(6); {
			case k == 0:
				commit++
				log = append(log, tx{randomTx(r, def, db, commit, 100), commit})
			case k == 1:
				applyOne()
			case k == 2 && len(waiting) > 0 && len(flight) < 3:
				c := waiting[0]
				waiting = waiting[1:]
				c.low = applied
				flight = append(flight, c)
			case k == 3 && len(flight) > 0:
				c := &flight[r.IntN(len(flight))]
				c.rows, c.read, c.high = nil, true, commit
				for _, row := range db {
					if row.id >= c.from && row.id < c.to {
						c.rows = append(c.rows, row.row())
					}
				}
			case k == 4 && len(flight) > 0:
				i := r.IntN(len(flight))
				c := flight[i]
				if !c.read {
					continue
				}
				for applied < c.high {
					applyOne()
				}
				version := []uint64{c.low, c.high}[r.IntN(2)]
				if err := g.Install(c.rows, version, c.low); err != nil {
					t.Fatal(err)
				}
				if r.IntN(4) == 0 {
					flight[i].read = false // it is read and installed once more
				} else {
					flight = slices.Delete(flight, i, i+1)
				}
				low := applied
				for _, c := range flight {
					low = min(low, c.low)
				}
				g.PurgeMarks(low)
				g.Progress(uint64(table.Len()), 100)
			}
		}
		for len(log) > 0 {
			applyOne()
		}
		if out, _ := searchAll(t, table, &schema.Search{Def: def, Op: schema.OpGE}); out != nil {
			t.Fatal("rows from a loading table")
		}
		if err := g.Live(); err != nil {
			t.Fatal(err)
		}
		sameRows(t, table, def, db)
		for range 30 {
			commit++
			if err := g.Apply(randomTx(r, def, db, commit, 100), commit); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		sameRows(t, table, def, db)
		checkGeneration(t, table)
		if s := table.Status(); s.SnapshotTotal != 100 || s.State != StateLive || s.Rows != len(db) {
			t.Errorf("status %+v", s)
		}
		store.Close()
	}
}

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
	one, two, moved := row(1, 1), row(1, 2), row(2, 1)
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
			install(t, g, 5, 5, one, row(2, 9))
		}, []testRow{{2, 0, "x", 1, 8}}},
		{"deleted and put again", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			apply(t, g, 9, change(nil, &two))
			g.PurgeMarks(8)
			install(t, g, 8, 8, one)
		}, []testRow{{1, 0, "x", 2, 9}}},
		{"a later deletion outlives the purge of an earlier one", func(t *testing.T, g *Generation) {
			apply(t, g, 8, change(&one, nil))
			apply(t, g, 9, change(nil, &two))
			apply(t, g, 10, change(&two, nil))
			g.PurgeMarks(9)
			install(t, g, 9, 9, one)
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
			install(t, g, 9, 8, one, two)
		}, []testRow{{1, 0, "x", 1, 9}}},
		{"insert while loading overwrites", func(t *testing.T, g *Generation) {
			install(t, g, 9, 8, one)
			apply(t, g, 9, change(nil, &two))
		}, []testRow{{1, 0, "x", 2, 9}}},
		{"before-image while loading is not compared", func(t *testing.T, g *Generation) {
			install(t, g, 9, 8, two)
			apply(t, g, 10, change(&one, &one))
		}, []testRow{{1, 0, "x", 1, 10}}},
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

func install(t testing.TB, g *Generation, version, low uint64, rows ...testRow) {
	t.Helper()
	var list []rowcodec.Row
	for _, r := range rows {
		list = append(list, r.row())
	}
	if err := g.Install(list, version, low); err != nil {
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
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	if err := g.Install(nil, 1, 1); err == nil || table.State() != StateSuspended {
		t.Errorf("install into a live table: %v, state %v", err, table.State())
	}
}
