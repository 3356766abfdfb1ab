package cache

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// userDef is user(id INT PRIMARY KEY, uname, email, add_time, KEY(add_time)).
func userDef() *schema.Table {
	return &schema.Table{
		Schema: "app", Name: "user",
		Columns: []schema.Column{
			{Name: "id", Kind: schema.KindInt, TypeText: "int", Bytes: 4},
			{Name: "uname", Kind: schema.KindVarchar, TypeText: "varchar(32)", Length: 32, Charset: "utf8mb4", Collation: "utf8mb4_bin"},
			{Name: "email", Kind: schema.KindVarchar, TypeText: "varchar(64)", Length: 64, Charset: "utf8mb4", Collation: "utf8mb4_bin"},
			{Name: "add_time", Kind: schema.KindDatetime, TypeText: "datetime"},
		},
		Indexes: []schema.Index{
			{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}},
			{Name: "email", BTree: true, Parts: []schema.Part{{Column: 2}}},
		},
	}
}

func userRow(dst []byte, b *rowcodec.Builder, id, generation int) rowcodec.Row {
	b.Reset()
	b.SetBuffer(strconv.AppendInt(b.Buffer(), int64(id), 10))
	b.End()
	b.SetBuffer(fmt.Appendf(b.Buffer(), "u%07d", id))
	b.End()
	b.SetBuffer(fmt.Appendf(b.Buffer(), "user%07d@example.com", id))
	b.End()
	b.SetBuffer(fmt.Appendf(b.Buffer(), "2024-01-02 03:04:%02d", generation%60))
	b.End()
	return b.AppendRow(dst)
}

// loadUsers installs the users 1 to n in the order that key gives and makes the table live.
func loadUsers(tb testing.TB, store *Store, n int, key func(i int) int) (*Table, *Generation, *schema.Table) {
	tb.Helper()
	def := userDef()
	table := store.Add("app", "user", ModeFull)
	g := mustLoad(tb, table, def)
	var b rowcodec.Builder
	var rows []rowcodec.Row
	var arena []byte
	for i := 0; i < n; {
		rows, arena = rows[:0], arena[:0]
		for ; i < n && len(rows) < 1000; i++ {
			at := len(arena)
			arena = userRow(arena, &b, key(i), 0)
			rows = append(rows, arena[at:len(arena):len(arena)])
		}
		if err := g.Install(rows, 1, 1); err != nil {
			tb.Fatal(err)
		}
	}
	if err := g.Live(); err != nil {
		tb.Fatal(err)
	}
	return table, g, def
}

// TestMemoryPerRow holds the table of the first example to 130 bytes a row, rows and key together, as counted and as
// held in the heap and in blocks, for keys in order and in random order.
func TestMemoryPerRow(t *testing.T) {
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 100_000
	}
	orders := map[string]struct {
		key   func(i int) int
		limit float64
	}{
		"ascending": {func(i int) int { return i + 1 }, 105},
		"scattered": {func(i int) int { return 1 + i*7919%n }, 115}, // 7919 is a prime: each id once
	}
	for name, tt := range orders {
		t.Run(name, func(t *testing.T) {
			before := heap()
			store := New(Config{})
			table, _, _ := loadUsers(t, store, n, tt.key)
			held := float64(heap()-before+int64(store.pool.inUse)*blockBytes) / float64(n)
			rowBytes, indexBytes := table.Memory()
			counted := float64(rowBytes+indexBytes) / float64(n)
			t.Logf("%.1f bytes a row counted (rows %.1f, key %.1f), %.1f held",
				counted, float64(rowBytes)/float64(n), float64(indexBytes)/float64(n), held)
			if counted > tt.limit || held > tt.limit*1.03 {
				t.Errorf("more than %.0f bytes a row", tt.limit)
			}
			if held > counted*1.03 || held < counted*0.97 {
				t.Errorf("the count is %.1f bytes a row, held are %.1f", counted, held)
			}
			if table.Len() != n || store.Used() != rowBytes+indexBytes {
				t.Errorf("%d rows, %d bytes used", table.Len(), store.Used())
			}
			table.Suspend("done")
			if store.pool.inUse != 0 {
				t.Errorf("%d blocks are still in use", store.pool.inUse)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTinyTables keeps an empty table and one of ten rows to a few KiB.
func TestTinyTables(t *testing.T) {
	store := New(Config{})
	def := testDef(true)
	table := store.Add("app", "t", ModeFull)
	g := mustLoad(t, table, def)
	if used := store.Used(); used > 5<<10 {
		t.Errorf("an empty table takes %d bytes", used)
	}
	for id := range 10 {
		install(t, g, 1, 1, testRow{id: id, name: "abc"})
	}
	if used := store.Used(); used > 11<<10 {
		t.Errorf("ten rows take %d bytes", used)
	}
}

// TestRowBeyondItsShare: a row that is larger than a row may be ends the table, whether it comes by a snapshot or by a transaction; one that is
// just as large is kept.
func TestRowBeyondItsShare(t *testing.T) {
	row := func(size int) rowcodec.Row { return testRow{id: 1, name: strings.Repeat("n", size)}.row() }
	for _, live := range []bool{false, true} {
		store := New(Config{MemoryLimit: 64 << 20})
		table := store.Add("app", "t", ModeFull)
		g := mustLoad(t, table, testDef(false))
		most := g.MostRow()
		if most != 4<<20 {
			t.Fatalf("rows of %d bytes", most)
		}
		put := func(row rowcodec.Row) error { return g.Install([]rowcodec.Row{row}, 1, 1) }
		if live {
			if err := g.Live(); err != nil {
				t.Fatal(err)
			}
			put = func(row rowcodec.Row) error { return g.Apply([]rowcodec.Change{{After: row}}, 2) }
		}
		size := 4<<20 - len(row(1<<20)) + 1<<20
		if fits := row(size); len(fits) != most {
			t.Fatalf("%d bytes", len(fits))
		} else if err := put(fits); err != nil {
			t.Errorf("live %v: a row that fits: %v", live, err)
		}
		if live {
			put = func(after rowcodec.Row) error {
				return g.Apply([]rowcodec.Change{{Before: row(size), After: after}}, 3)
			}
		}
		if err := put(row(size + 1)); !errors.Is(err, ErrMemory) || table.State() != StateSuspended {
			t.Errorf("live %v: a row that does not: %v, state %v", live, err, table.State())
		}
	}
	if g := mustLoad(t, New(Config{MemoryLimit: 1 << 20}).Add("app", "t", ModeFull), testDef(false)); g.MostRow() != 1<<20 {
		t.Errorf("rows of %d bytes in a small memory", g.MostRow())
	}
	if g := mustLoad(t, New(Config{}).Add("app", "t", ModeFull), testDef(false)); g.MostRow() != 0 {
		t.Errorf("rows of %d bytes without a limit", g.MostRow())
	}
}

// TestMemoryLimit checks that a table which outgrows the limit is suspended, by a snapshot as by a transaction, and that
// its memory is free for others.
func TestMemoryLimit(t *testing.T) {
	const limit = 400 << 10
	row := func(id int) rowcodec.Row { return testRow{id: id, name: string(make([]byte, 100))}.row() }
	for _, live := range []bool{false, true} {
		store := New(Config{MemoryLimit: limit})
		small := store.Add("app", "small", ModeFull)
		smallDef := testDef(false)
		smallDef.Name = "small"
		keep := mustLoad(t, small, smallDef)
		install(t, keep, 1, 1, testRow{id: 1})
		if err := keep.Live(); err != nil {
			t.Fatal(err)
		}

		table := store.Add("app", "t", ModeFull)
		g := mustLoad(t, table, testDef(false))
		if live {
			if err := g.Live(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		rows := 0
		for ; err == nil && rows < 100_000; rows++ {
			if live {
				err = g.Apply([]rowcodec.Change{{After: row(rows)}}, uint64(rows))
			} else {
				err = g.Install([]rowcodec.Row{row(rows)}, 1, 1)
			}
		}
		if !errors.Is(err, ErrMemory) || table.State() != StateSuspended || table.Reason() == "" {
			t.Fatalf("live %v: %v, state %v", live, err, table.State())
		}
		if rows < 2000 || rows > 3000 {
			t.Errorf("live %v: the limit was reached with %d rows", live, rows)
		}
		if store.Used() > 20<<10 || small.Len() != 1 || small.State() != StateLive {
			t.Errorf("live %v: %d bytes used, the other table has %d rows", live, store.Used(), small.Len())
		}
		if err := g.Apply(nil, 1); !errors.Is(err, ErrStale) {
			t.Errorf("live %v: Apply afterwards: %v", live, err)
		}
	}
}

// TestMemoryLimitTakesIndexesFirst checks that a live table gives up its other indexes before it stops answering.
func TestMemoryLimitTakesIndexesFirst(t *testing.T) {
	store := New(Config{MemoryLimit: 1 << 20})
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	g := mustLoad(t, table, def)
	table.EnsureIndex(1)
	table.EnsureIndex(2)
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	var err error
	id := 0
	for ; err == nil && len(failed(table)) == 0; id++ {
		err = g.Apply([]rowcodec.Change{{After: testRow{id: id, name: strconv.Itoa(id)}.row()}}, 1)
	}
	if err != nil || table.State() != StateLive || len(failed(table)) != 2 {
		t.Fatalf("%v, state %v, failed %v", err, table.State(), failed(table))
	}
	for range 1000 {
		if err := g.Apply([]rowcodec.Change{{After: testRow{id: id}.row()}}, 1); err != nil {
			t.Fatal(err)
		}
		id++
	}
	if _, out := searchAll(t, table, &schema.Search{Def: def, Index: 1, Op: schema.OpGE}); out != Pass {
		t.Errorf("search over a failed index: %v", out)
	}
	if rows, out := searchAll(t, table, &schema.Search{Def: def, Op: schema.OpGE}); out != Served || len(rows) != id {
		t.Errorf("search over the key: %v, %d rows of %d", out, len(rows), id)
	}
}

// TestMemoryLimitWhileBuilding checks that an index for which there is no room costs the table nothing else, whether it is
// built by EnsureIndex, by Live or in the background.
func TestMemoryLimitWhileBuilding(t *testing.T) {
	for _, tt := range []struct {
		rows  int
		early bool
	}{{2000, false}, {2000, true}, {buildAtOnceRows + 1, false}, {buildAtOnceRows + 1, true}} {
		var rows []testRow
		for id := range tt.rows {
			rows = append(rows, testRow{id: id, name: strconv.Itoa(id)})
		}
		probe := New(Config{})
		install(t, mustLoad(t, probe.Add("app", "t", ModeFull), testDef(false)), 1, 1, rows...)

		store := New(Config{MemoryLimit: probe.Used() + 10<<10})
		table := store.Add("app", "t", ModeFull)
		g := mustLoad(t, table, testDef(false))
		install(t, g, 1, 1, rows...)
		used := store.Used()
		if tt.early {
			table.EnsureIndex(2)
		}
		if err := g.Live(); err != nil {
			t.Fatal(err)
		}
		table.EnsureIndex(2)
		waitFor(t, "the failure", func() bool { return len(failed(table)) == 1 })
		if ix := table.Indexes(); ix[0].Reason != ErrMemory.Error() || ix[0].Bytes != 0 {
			t.Errorf("%+v: index %+v", tt, ix)
		}
		if table.State() != StateLive || store.Used() != used {
			t.Errorf("%+v: state %v, %d bytes, %d without the index", tt, table.State(), store.Used(), used)
		}
		checkGeneration(t, table)
		store.Close()
	}
}

func failed(table *Table) (names []string) {
	for _, ix := range table.Indexes() {
		if ix.State == IndexFailed {
			names = append(names, ix.Name)
		}
	}
	return names
}

// TestMarksAreCounted checks that deletions while loading count as memory and are bounded by the limit.
func TestMarksAreCounted(t *testing.T) {
	store := New(Config{MemoryLimit: 1 << 20})
	table := store.Add("app", "t", ModeFull)
	g := mustLoad(t, table, testDef(false))
	empty := store.Used()
	remove := func(id int) error {
		return g.Apply([]rowcodec.Change{{Before: testRow{id: id}.row()}}, uint64(id))
	}
	for id := range 1000 {
		if err := remove(id); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.Used() - empty; n < 1000*markOverhead {
		t.Errorf("1000 marks count as %d bytes", n)
	}
	pieceDone := func(low uint64) {
		t.Helper()
		if err := g.PieceDone(low, low); err != nil {
			t.Fatal(err)
		}
	}
	pieceDone(899)
	if len(g.marks) != 100 || len(g.queue)-g.queueDone != 100 {
		t.Errorf("%d marks and %d in the queue after the purge", len(g.marks), len(g.queue)-g.queueDone)
	}
	pieceDone(5000)
	if store.Used() != empty {
		t.Errorf("%d bytes after the purge, %d at first", store.Used(), empty)
	}
	var err error
	for id := 0; err == nil && id < 100_000; id++ {
		err = remove(id)
	}
	if !errors.Is(err, ErrMemory) {
		t.Errorf("marks without end: %v", err)
	}
}
