package cache

import (
	"bytes"
	"cmp"
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

// newTestRow returns a row of small ranges, so that keys meet.
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
