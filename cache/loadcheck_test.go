package cache

import (
	"errors"
	"maps"
	"math/rand/v2"
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
