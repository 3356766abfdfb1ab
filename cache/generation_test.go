package cache

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// loadGame plays a database that goes on changing while its table is loaded, with the follower behind it by any distance:
// in pieces by the order of the key, of which one is read ahead, or in pieces in any order by one SELECT that may begin
// anew.
type loadGame struct {
	*testing.T
	r     *rand.Rand
	def   *schema.Table
	g     *Generation
	table *Table
	db    content

	log     []loadTx // committed, not applied yet
	commit  uint64
	applied uint64
}

type loadTx struct {
	changes []rowcodec.Change
	version uint64
}

// loadPiece is what a SELECT has given of the ids in a range.
type loadPiece struct {
	from, to  int
	low, high uint64
	reached   uint64 // what was applied when high was
	rows      []rowcodec.Row
}

func (l *loadGame) write() {
	l.commit++
	l.log = append(l.log, loadTx{randomTx(l.r, l.def, l.db, l.commit, 100), l.commit})
}

// apply lets the follower take a transaction. An error ends the game.
func (l *loadGame) apply() error {
	if len(l.log) == 0 {
		return nil
	}
	tx := l.log[0]
	l.applied, l.log = tx.version, l.log[1:]
	return l.g.Apply(tx.changes, tx.version)
}

// meanwhile lets some time pass.
func (l *loadGame) meanwhile(write func()) error {
	for range l.r.IntN(4) {
		if l.r.IntN(2) == 0 {
			write()
		} else if err := l.apply(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loadGame) read(p *loadPiece, db content) {
	p.rows = nil
	for id := p.from; id < p.to; id++ {
		for _, row := range db {
			if row.id == id {
				p.rows = append(p.rows, row.row())
			}
		}
	}
	p.high = l.commit
}

func (l *loadGame) install(p *loadPiece) error {
	for l.applied < p.high {
		if err := l.apply(); err != nil {
			return err
		}
	}
	if p.reached == 0 {
		p.reached = l.applied
	}
	if err := l.meanwhile(func() {}); err != nil {
		return err
	}
	return l.g.Install(p.rows, p.low, p.reached)
}

func (l *loadGame) pieces() (pieces []*loadPiece) {
	for from := -60; from < 260; from += 40 {
		pieces = append(pieces, &loadPiece{from: from, to: from + 40})
	}
	return pieces
}

// ordered loads in pieces by the order of ids, which is that of the key.
func (l *loadGame) ordered(write func()) error {
	var ahead *loadPiece
	for from, last := -1000, false; !last || ahead != nil; {
		var p *loadPiece
		if !last {
			p = &loadPiece{from: from, to: 1000, low: l.applied}
			if err := l.meanwhile(write); err != nil {
				return err
			}
			l.read(p, l.db)
			limit := 1 + l.r.IntN(12)
			if last = len(p.rows) < limit; !last {
				p.rows = p.rows[:limit]
				id, _ := p.rows[limit-1].Value(0)
				from, _ = strconv.Atoi(string(id))
				from++
			}
		}
		if ahead != nil {
			for _, step := range []func() error{
				func() error { return l.meanwhile(write) },
				func() error { return l.install(ahead) },
				func() error { return l.meanwhile(write) },
				func() error { return l.g.PieceDone(ahead.low, ahead.reached) },
				func() error { return l.meanwhile(write) },
			} {
				if err := step(); err != nil {
					return err
				}
			}
		}
		ahead = p
	}
	return nil
}

// whole loads by one SELECT that is begun anew now and then.
func (l *loadGame) whole(write func()) error {
	for {
		again := l.r.IntN(3) == 0
		low, reached := l.applied, uint64(0)
		if err := l.meanwhile(write); err != nil {
			return err
		}
		seen, high := maps.Clone(l.db), l.commit
		pieces := l.pieces()
		l.r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		if again {
			pieces = pieces[:l.r.IntN(len(pieces))]
		}
		for _, p := range pieces {
			l.read(p, seen)
			p.low, p.high, p.reached = low, high, reached
			if err := l.install(p); err != nil {
				return err
			}
			reached = p.reached
			if err := l.meanwhile(write); err != nil {
				return err
			}
		}
		if !again {
			return l.g.PieceDone(low, reached)
		}
	}
}

// play loads the table and lets the follower take all that was committed.
func (l *loadGame) play(write func()) error {
	load := l.whole
	if len(l.def.Indexes[l.def.Key].Parts) == 1 && l.r.IntN(2) == 0 {
		load = l.ordered
	}
	if err := load(write); err != nil {
		return err
	}
	if l.r.IntN(2) == 0 {
		for len(l.log) > 0 {
			if err := l.apply(); err != nil {
				return err
			}
		}
	}
	if out, _ := searchAll(l.T, l.table, &schema.Search{Def: l.def, Op: schema.OpGE}); out != nil {
		l.Fatal("rows from a loading table")
	}
	if err := l.g.Live(); err != nil {
		return err
	}
	for len(l.log) > 0 {
		if err := l.apply(); err != nil {
			return err
		}
	}
	return nil
}

// loadGames plays many games.
func loadGames(t *testing.T, runs uint64, game func(l *loadGame)) {
	if testing.Short() {
		runs /= 8
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(seed, 5))
		store := New(Config{})
		l := &loadGame{T: t, r: r, def: testDef(seed%2 == 1), table: store.Add("app", "t", ModeFull), db: content{}, commit: 10, applied: 10}
		for range 3 {
			randomTx(r, l.def, l.db, 1, 100)
		}
		l.g = mustLoad(t, l.table, l.def)
		if seed%3 == 0 {
			l.table.EnsureIndex(1)
		}
		game(l)
		store.Close()
	}
}

func TestLoadBesideWrites(t *testing.T) {
	loadGames(t, 400, func(l *loadGame) {
		if err := l.play(l.write); err != nil {
			t.Fatal(err)
		}
		sameRows(t, l.table, l.def, l.db)
		for range 30 {
			l.write()
			if err := l.apply(); err != nil {
				t.Fatal(err)
			}
		}
		sameRows(t, l.table, l.def, l.db)
		checkGeneration(t, l.table)
		if s := l.table.Status(); s.State != StateLive || s.Rows != len(l.db) {
			t.Errorf("status %+v", s)
		}
	})
}

// TestUnloggedBesideLoad has two rows changed without the log, and then one of the two with it: unless both changes were
// there to be read, the table must notice. A row that was put without the log is not deleted with it, then or later: that
// can look as if the table had been read after both.
func TestUnloggedBesideLoad(t *testing.T) {
	var same, noticed int
	loadGames(t, 800, func(l *loadGame) {
		done := false
		err := l.play(func() {
			if done {
				return
			}
			if l.write(); l.r.IntN(4) > 0 {
				return
			}
			done = true
			first, second := newTestRow(l.r), newTestRow(l.r)
			for _, row := range l.db { // keys that are there, or new ones
				if l.r.IntN(4) == 0 {
					first.id, first.name = row.id, row.name
				} else if l.r.IntN(4) == 0 {
					second.id, second.name = row.id, row.name
				}
			}
			if second.id < first.id {
				first, second = second, first // the first is not read after the second
			} else if second.id == first.id {
				second.id++
			}
			_, known := l.db[keyOf(l.def, first)]
			l.commit++
			first.n, second.n = 1000, 2000 // other than ever
			first.version, second.version = l.commit, l.commit
			l.db[keyOf(l.def, second)] = second
			l.db[keyOf(l.def, first)] = first
			before := first.row()
			first.n++
			first.version = l.commit
			change := rowcodec.Change{Before: before}
			if !known || l.r.IntN(2) == 0 {
				change.After = first.row()
				l.db[keyOf(l.def, first)] = first
			} else {
				delete(l.db, keyOf(l.def, first))
			}
			l.log = append(l.log, loadTx{[]rowcodec.Change{change}, l.commit})
		})
		switch {
		case errors.Is(err, ErrGap):
			noticed++
			return
		case err != nil:
			t.Fatal(err)
		}
		sameRows(t, l.table, l.def, l.db)
		checkGeneration(t, l.table)
		same++
	})
	t.Logf("%d noticed, %d read as they were", noticed, same)
	if noticed == 0 || same == 0 {
		t.Errorf("%d noticed, %d read as they were: the game plays no such case", noticed, same)
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

// TestLoadCheck plays what the log and the pieces say of rows, and wants all of it taken or the last step refused.
func TestLoadCheck(t *testing.T) {
	row := func(n int64) *testRow { return &testRow{id: 1, name: "x", n: n} }
	change := func(version uint64, before, after *testRow) func(g *Generation) error {
		var c rowcodec.Change
		if before != nil {
			c.Before = before.row()
		}
		if after != nil {
			c.After = after.row()
		}
		return func(g *Generation) error { return g.Apply([]rowcodec.Change{c}, version) }
	}
	// piece ends with a row of id 5, or at the table's end.
	piece := func(low, high uint64, rows ...*testRow) func(g *Generation) error {
		return func(g *Generation) error {
			var list []rowcodec.Row
			for _, r := range append(rows, &testRow{id: 5}) {
				list = append(list, r.row())
			}
			if err := g.Install(list, low, high); err != nil {
				return err
			}
			return g.PieceDone(low, high)
		}
	}
	empty := func(g *Generation) error { return g.PieceDone(20, 22) }
	live := (*Generation).Live
	flood := func(g *Generation) error {
		for i := range mostPasts + 1 {
			if err := g.Apply([]rowcodec.Change{{After: (&testRow{id: 1000 + i}).row()}}, uint64(30+i)); err != nil {
				return err
			}
		}
		return nil
	}
	type steps = []func(g *Generation) error
	tests := []struct {
		name  string
		steps steps
		gap   bool // at the last step
	}{
		{"read before an update, installed after it", steps{change(21, row(1), row(2)), piece(20, 22, row(1)), live}, false},
		{"read after it", steps{change(21, row(1), row(2)), piece(20, 22, row(2)), live}, false},
		{"read between two", steps{change(21, row(1), row(2)), change(22, row(2), row(3)), piece(20, 22, row(2)), live}, false},
		{"neither", steps{change(21, row(1), row(2)), piece(20, 22, row(3))}, true},
		{"updated without having been read", steps{change(21, row(1), row(2)), piece(20, 22)}, true},
		{"state of a change that the read can't have seen", steps{change(23, row(1), row(2)), piece(20, 22, row(2))}, true},
		{"state before it", steps{change(23, row(1), row(2)), piece(20, 22, row(1)), live}, false},
		{"insert", steps{change(21, nil, row(1)), piece(20, 22), live}, false},
		{"insert, and read", steps{change(21, nil, row(1)), piece(20, 22, row(1)), live}, false},
		{"insert, and read as something else", steps{change(21, nil, row(1)), piece(20, 22, row(2))}, true},
		{"insert that must have been read", steps{change(19, nil, row(1)), piece(20, 22)}, true},
		{"delete", steps{change(21, row(1), nil), piece(20, 22), live}, false},
		{"delete, and read before it", steps{change(21, row(1), nil), piece(20, 22, row(1)), live}, false},
		{"delete of another row than was read", steps{change(21, row(1), nil), piece(20, 22, row(2))}, true},
		{"delete that the read can't have seen", steps{change(23, row(1), nil), piece(20, 22)}, true},
		{"unlogged before the read", steps{change(19, row(1), row(2)), piece(20, 22, row(3)), live}, false},
		{"update of an installed row", steps{piece(20, 22, row(1)), change(23, row(1), row(2)), live}, false},
		{"update of another", steps{piece(20, 22, row(1)), change(23, row(2), row(3))}, true},
		{"delete of another", steps{piece(20, 22, row(1)), change(23, row(2), nil)}, true},
		{"insert over an installed row", steps{piece(20, 22, row(1)), change(23, nil, row(2))}, true},
		{"update of one that was not in the piece", steps{piece(20, 22), change(23, row(1), row(2))}, true},
		{"update beyond the last piece", steps{empty, change(23, row(1), row(2)), live}, true},
		{"insert beyond the last piece", steps{empty, change(23, nil, row(1)), change(24, row(1), row(2)), live}, false},
		{"chain that is broken", steps{change(21, row(1), row(2)), change(22, row(3), row(4))}, true},
		{"update of one that the log has deleted", steps{change(21, row(1), nil), change(22, row(2), row(3))}, true},
		{"too many changes to remember", steps{change(21, row(1), row(2)), flood, piece(20, 22, row(3)), live}, false},
		{"and those after", steps{flood, change(40_000, row(1), row(2)), piece(39_000, 50_000, row(3))}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := New(Config{})
			defer store.Close()
			g := mustLoad(t, store.Add("app", "t", ModeFull), testDef(false))
			for i, step := range tt.steps {
				err := step(g)
				if tt.gap && i == len(tt.steps)-1 {
					if !errors.Is(err, ErrGap) {
						t.Errorf("step %d: %v, want a gap", i, err)
					}
				} else if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			if tt.gap {
				return
			}
			if c := &g.check; c.count != 0 || c.size != 0 || len(c.pasts) != 0 {
				t.Errorf("%d changes and %d bytes are still remembered", c.count, c.size)
			}
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
