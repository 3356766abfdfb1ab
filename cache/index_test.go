package cache

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// brittleEncoder fails for rows whose column n has the value bad.
type brittleEncoder struct {
	keyEncoder
	bad string
}

var errBrittle = errors.New("no key for this row")

func (e brittleEncoder) AppendRow(dst []byte, r rowcodec.Row) ([]byte, error) {
	if v, _ := r.Value(3); string(v) == e.bad {
		return dst, errBrittle
	}
	return e.keyEncoder.AppendRow(dst, r)
}

func brittleStore(index int, bad string) *Store {
	return New(Config{newEncoder: func(def *schema.Table, i int) (keyEncoder, error) {
		e, err := rowcodec.NewKeyEncoder(def, i)
		if i == index {
			return brittleEncoder{e, bad}, err
		}
		return e, err
	}})
}

// TestIndexThatFails checks that a row without a key in an index costs the table that index and nothing else, whichever
// change brings it.
func TestIndexThatFails(t *testing.T) {
	good, bad := testRow{id: 1, name: "a", n: 1}, testRow{id: 1, name: "a", n: 666}
	tests := map[string]struct {
		installed testRow
		changes   []rowcodec.Change
	}{
		"build":  {bad, nil},
		"insert": {testRow{id: 2}, []rowcodec.Change{{After: bad.row()}}},
		"update": {good, []rowcodec.Change{{Before: good.row(), After: bad.row()}}},
	}
	for name, tt := range tests {
		for _, early := range []bool{false, true} {
			store := brittleStore(2, "666")
			table := store.Add("app", "t", ModeFull)
			def := testDef(false)
			g := mustLoad(t, table, def)
			install(t, g, 1, 1, tt.installed)
			if early {
				table.EnsureIndex(2)
			}
			if err := g.Live(); err != nil {
				t.Fatal(err)
			}
			table.EnsureIndex(2)
			table.EnsureIndex(1)
			if err := g.Apply(tt.changes, 2); err != nil {
				t.Fatal(err)
			}
			ix := table.Indexes()
			if len(ix) != 2 || ix[0].State != IndexComplete || ix[1].State != IndexFailed || !strings.Contains(ix[1].Reason, "no key") {
				t.Errorf("%s: indexes %+v", name, ix)
			}
			if ix[1].Bytes != 0 {
				t.Errorf("%s: the failed index counts %d bytes", name, ix[1].Bytes)
			}
			if _, out := searchAll(t, table, &schema.Search{Def: def, Index: 2, Op: schema.OpGE}); out != Pass {
				t.Errorf("%s: search over the failed index: %v", name, out)
			}
			if _, out := searchAll(t, table, &schema.Search{Def: def, Index: 1, Op: schema.OpGE}); out != Served {
				t.Errorf("%s: search over the other index: %v", name, out)
			}
			if name == "build" { // the row goes away again
				if err := g.Apply([]rowcodec.Change{{Before: bad.row()}}, 3); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestIndexUnsupported(t *testing.T) {
	store := New(Config{})
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	def.Indexes[2].BTree = false
	table.EnsureIndex(2)
	g := mustLoad(t, table, def)
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	table.EnsureIndex(2)
	table.EnsureIndex(99)
	table.EnsureIndex(-1)
	table.EnsureIndex(def.Key)
	if ix := table.Indexes(); len(ix) != 1 || ix[0].State != IndexFailed || ix[0].Reason == "" {
		t.Errorf("indexes %+v", ix)
	}
	if _, out := searchAll(t, table, &schema.Search{Def: def, Index: 2, Op: schema.OpGE}); out != Pass {
		t.Errorf("search: %v", out)
	}
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// TestIndexInBackground builds indexes of a large table while transactions go on, and checks that they have every row,
// and that a second load builds them again.
func TestIndexInBackground(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	store := New(Config{})
	defer store.Close()
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	for round := range 2 {
		g := mustLoad(t, table, def)
		c := content{}
		var rows []testRow
		for id := 1000; id < 1000+2*buildAtOnceRows; id++ {
			row := testRow{id: id, grp: id % 7, name: strconv.Itoa(id % 1000), n: int64(id % 13), version: 1}
			c[keyOf(def, row)] = row
			rows = append(rows, row)
		}
		install(t, g, 1, 1, rows...)
		if err := g.Live(); err != nil {
			t.Fatal(err)
		}
		version := uint64(2)
		complete := func() bool {
			ix := table.Indexes()
			return len(ix) == 2 && ix[0].State == IndexComplete && ix[1].State == IndexComplete
		}
		for i := 0; i < 300 || !complete(); i++ {
			if i == 5 && round == 0 {
				table.EnsureIndex(1)
				table.EnsureIndex(2)
			}
			changes := randomTx(r, def, c, version, 1<<20)
			// rows of before the load change too, below and above where the builder is
			id := 1000 + r.IntN(2*buildAtOnceRows)
			if row, ok := c[strconv.Itoa(id)]; ok {
				to := row
				to.name, to.grp, to.version = "moved", 6-to.grp, version
				c[strconv.Itoa(id)] = to
				changes = append(changes, rowcodec.Change{Before: row.row(), After: to.row()})
			}
			if err := g.Apply(changes, version); err != nil {
				t.Fatal(err)
			}
			version++
		}
		checkContent(t, r, table, def, c, 10)
		for _, index := range []int{1, 2} {
			s := &schema.Search{Def: def, Index: index, Op: schema.OpGE}
			got, out := searchAll(t, table, s)
			want := c.search(s, testRow{})
			if out != Served || len(got) != len(want) {
				t.Fatalf("index %d: %v, %d rows, want %d", index, out, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("index %d, row %d: %v, want %v", index, i, got[i], want[i])
				}
			}
		}
	}
}

// TestCloseWhileBuilding checks that Close ends a build and waits for it, and that nothing starts afterwards.
func TestCloseWhileBuilding(t *testing.T) {
	store := New(Config{})
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	g := mustLoad(t, table, def)
	var rows []testRow
	for id := range 3 * buildAtOnceRows {
		rows = append(rows, testRow{id: id})
	}
	install(t, g, 1, 1, rows...)
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	table.EnsureIndex(1)
	table.EnsureIndex(2)
	store.Close()
	before := table.Indexes()
	table.EnsureIndex(3)
	time.Sleep(5 * time.Millisecond)
	for i, ix := range table.Indexes() {
		if i < 2 && ix.Done != before[i].Done || ix.State == IndexFailed {
			t.Errorf("index after Close: %+v", ix)
		}
	}
}

// TestSuspendWhileBuilding drops the table under a builder.
func TestSuspendWhileBuilding(t *testing.T) {
	store := New(Config{})
	defer store.Close()
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	for range 5 {
		g := mustLoad(t, table, def)
		var rows []testRow
		for id := range buildAtOnceRows + 1000 {
			rows = append(rows, testRow{id: id})
		}
		install(t, g, 1, 1, rows...)
		if err := g.Live(); err != nil {
			t.Fatal(err)
		}
		table.EnsureIndex(1)
		waitFor(t, "the build", func() bool { return table.Indexes()[0].Done > 0 })
		table.Suspend("test")
		if store.Used() != 0 {
			t.Fatalf("%d bytes are still counted", store.Used())
		}
	}
}

// TestReadersSeeWholeTransactions moves money between accounts while readers sum it up over the key and over an index,
// and while the index is built and the table reloaded.
func TestReadersSeeWholeTransactions(t *testing.T) {
	const accounts, start = 300, 100
	store := New(Config{})
	defer store.Close()
	table := store.Add("app", "t", ModeFull)
	def := testDef(false)
	var stop atomic.Bool
	var sums atomic.Int64
	var wg sync.WaitGroup
	for reader := range 3 {
		wg.Go(func() {
			for !stop.Load() {
				s := &schema.Search{Def: def, Index: reader % 2, Op: schema.OpGE}
				var sum, rows int64
				var last uint64
				out := table.Search(s, func(row rowcodec.Row, version uint64) bool {
					v, _ := row.Value(3)
					n, err := strconv.ParseInt(string(v), 10, 64)
					if err != nil {
						t.Error(err)
					}
					sum += n
					rows++
					last = max(last, version)
					return true
				})
				if out == Served {
					if sum != accounts*start || rows != accounts {
						t.Errorf("index %d at version %d: %d rows with a sum of %d", s.Index, last, rows, sum)
						return
					}
					sums.Add(1)
				}
				_ = table.Status()
			}
		})
	}
	r := rand.New(rand.NewPCG(8, 8))
	version := uint64(1)
	for range 3 {
		g := mustLoad(t, table, def)
		state := make([]testRow, accounts)
		for i := range state {
			state[i] = testRow{id: i, grp: i % 5, name: "account", n: start}
		}
		install(t, g, version, version, state...)
		if err := g.Live(); err != nil {
			t.Fatal(err)
		}
		for tx := range 1500 {
			if tx == 200 {
				table.EnsureIndex(1)
			}
			version++
			var changes []rowcodec.Change
			for range 1 + r.IntN(4) {
				a, b, amount := r.IntN(accounts), r.IntN(accounts), int64(r.IntN(30))
				if a == b {
					continue
				}
				from, to := state[a], state[b]
				from.n, to.n = from.n-amount, to.n+amount
				if r.IntN(3) == 0 {
					from.id += accounts * (1 - 2*(from.id/accounts)) // the key moves away and back
				}
				changes = append(changes,
					rowcodec.Change{Before: state[a].row(), After: from.row()},
					rowcodec.Change{Before: state[b].row(), After: to.row()})
				state[a], state[b] = from, to
			}
			if err := g.Apply(changes, version); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	if sums.Load() == 0 {
		t.Error("no reader ever got an answer")
	}
	t.Logf("%d sums", sums.Load())
}
