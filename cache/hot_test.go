package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// hotRig is a hot table of a store that keeps hot rows alone.
type hotRig struct {
	t     *testing.T
	store *Store
	table *Table
	def   *schema.Table
	g     *HotGeneration
}

func newHotRig(t *testing.T, bytes int64) *hotRig {
	t.Helper()
	r := &hotRig{t: t, store: New(Config{HotBytes: bytes})}
	t.Cleanup(r.store.Close)
	r.table = r.store.Add("app", "t", ModeHot)
	r.load()
	return r
}

func (r *hotRig) load() {
	r.t.Helper()
	r.def = testDef(false)
	var err error
	if r.g, err = r.table.LoadHot(r.def); err != nil {
		r.t.Fatal(err)
	}
	if err := r.g.Live(""); err != nil {
		r.t.Fatal(err)
	}
}

func (r *hotRig) point(id int) *schema.Search {
	return &schema.Search{Def: r.def, Values: [][]byte{fmt.Append(nil, id)}}
}

// find gives the row of a key that is in memory.
func (r *hotRig) find(id int) (row testRow, ok bool) {
	out := r.table.Search(r.point(id), func(found rowcodec.Row, version uint64) bool {
		row, ok = parseRow(r.t, found, version), true
		return true
	})
	if ok != (out == Served) {
		r.t.Fatalf("%v, but found is %v", out, ok)
	}
	return row, ok
}

// begin begins a read that has to be made.
func (r *hotRig) begin(id int) *HotRead {
	r.t.Helper()
	read, start := r.table.BeginRead(r.point(id), func(rowcodec.Row, uint64) bool { return true })
	if start != HotLead {
		r.t.Fatalf("the read of %d begins with %d", id, start)
	}
	return read
}

// keep reads a row from beginning to end.
func (r *hotRig) keep(row testRow, seen uint64) {
	r.t.Helper()
	read := r.begin(row.id)
	if !read.Finish(row.row(), nil, seen, true) {
		r.t.Fatalf("row %d is not to be published", row.id)
	}
	read.Publish(true)
	if have, ok := r.find(row.id); !ok || have.n != row.n || have.version != seen {
		r.t.Fatalf("row %d is %+v, %v", row.id, have, ok)
	}
}

func (r *hotRig) apply(version uint64, changes ...rowcodec.Change) {
	r.t.Helper()
	if err := r.g.Apply(changes, version); err != nil {
		r.t.Fatal(err)
	}
}

func (r *hotRig) dropped(reason dropReason) uint64 { return r.store.hotCounts.dropped[reason].Load() }

func insertOf(row testRow) rowcodec.Change { return rowcodec.Change{After: row.row()} }
func deleteOf(row testRow) rowcodec.Change { return rowcodec.Change{Before: row.row()} }
func updateOf(from, to testRow) rowcodec.Change {
	return rowcodec.Change{Before: from.row(), After: to.row()}
}

// Only the row of a whole key is answered, and only when it is there.
func TestHotAnswers(t *testing.T) {
	r := newHotRig(t, 4<<20)
	if _, ok := r.find(1); ok {
		t.Fatal("found in an empty store")
	}
	row := testRow{id: 1, grp: 2, name: "ann", n: 3}
	r.keep(row, 7)
	for name, s := range map[string]*schema.Search{
		"range":  {Def: r.def, Op: schema.OpGE, Values: [][]byte{{'1'}}},
		"offset": {Def: r.def, Values: [][]byte{{'1'}}, Offset: 1},
		"index":  {Def: r.def, Index: 1, Values: [][]byte{{'2'}}},
		"absent": {Def: r.def, Values: [][]byte{{'2'}}},
	} {
		if out := r.table.Search(s, func(rowcodec.Row, uint64) bool { return true }); out != Pass {
			t.Errorf("%s: %v", name, out)
		}
	}
	other := testDef(false)
	if out := r.table.Search(&schema.Search{Def: other, Values: [][]byte{{'1'}}}, nil); out != Changed {
		t.Errorf("another definition: %v", out)
	}
	// Nothing that a read did not find is kept.
	read := r.begin(2)
	if read.Finish(nil, nil, 7, true) {
		t.Error("an absence is to be published")
	}
	if got, _, _ := read.Answer(); got != nil {
		t.Error("an absence is a row")
	}
	if _, ok := r.find(2); ok {
		t.Error("an absence is found")
	}
	if x, err := r.table.Explain([][]byte{{'1'}}); err != nil || !x.Found || x.Version != 7 || x.Origin.String() != "hot" {
		t.Errorf("explained as %+v, %v", x, err)
	}
	if x, err := r.table.Explain([][]byte{{'2'}}); err != nil || x.Found {
		t.Errorf("an absent row is explained as %+v, %v", x, err)
	}
	st := r.table.Status()
	if st.Mode != ModeHot || st.State != StateHot || st.Rows != 1 || r.store.Used() <= 0 || r.store.Used() > 4<<20 {
		t.Errorf("%+v, %d bytes", st, r.store.Used())
	}
	// Rows go with their generation.
	r.load()
	if _, ok := r.find(1); ok || r.table.Len() != 0 {
		t.Error("a row outlives the definition")
	}
}

// A change of the key at any point of a read: what is kept is what the log says, or nothing.
func TestHotFillAgainstChanges(t *testing.T) {
	const seen = 100
	before, after, moved := testRow{id: 1, name: "old", n: 1}, testRow{id: 1, name: "new", n: 2}, testRow{id: 9, name: "old", n: 1}
	changes := []struct {
		name   string
		change rowcodec.Change
		read   *testRow // what a SELECT before the change sees
		then   *testRow // the row of the key afterwards
	}{
		{"update", updateOf(before, after), &before, &after},
		{"delete", deleteOf(before), &before, nil},
		{"insert", insertOf(after), nil, &after},
		{"key change away", updateOf(before, moved), &before, nil},
		{"key change here", updateOf(moved, before), nil, &before},
	}
	for _, c := range changes {
		for _, sees := range []string{"old", "new"} { // what the SELECT sees: it may run before or after the commit
			for _, point := range []string{"before the read", "during the select", "before publication", "after publication"} {
				t.Run(c.name+"/"+sees+"/"+point, func(t *testing.T) {
					r := newHotRig(t, 4<<20)
					at := func(p string) {
						if p == point {
							r.apply(seen+1, c.change)
						}
					}
					at("before the read") // applied, and its version is not known to be visible
					read := r.begin(1)
					at("during the select")
					result := c.read
					if sees == "new" {
						result = c.then
					}
					var row rowcodec.Row
					if result != nil {
						row = result.row()
					}
					publish := read.Finish(row, nil, seen, true)
					at("before publication")
					if publish {
						read.Publish(true)
					}
					have, ok := r.find(1)
					if point != "after publication" {
						if ok {
							t.Errorf("%+v was kept", have)
						}
						return
					}
					if ok != (result != nil) {
						t.Fatalf("kept is %v", ok)
					}
					if sees == "new" && (result != nil || c.read != nil) {
						return // the log would have told of the change before the publication
					}
					at("after publication")
					have, ok = r.find(1)
					if keeps := c.name == "update"; ok != keeps || ok && (have.n != c.then.n || have.version != seen+1) {
						t.Errorf("afterwards %+v, %v", have, ok)
					}
				})
			}
		}
	}
}

// Reloads and suspensions at any point of a read: nothing of it reaches the new content.
func TestHotFillAgainstReload(t *testing.T) {
	row := testRow{id: 1, n: 1}
	for name, end := range map[string]func(r *hotRig){
		"reload":  func(r *hotRig) { r.load() },
		"suspend": func(r *hotRig) { r.table.Suspend("test") },
		"refuse":  func(r *hotRig) { r.table.Refuse("test") },
		"remove":  func(r *hotRig) { r.store.Remove(r.table.Ident()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newHotRig(t, 4<<20)
			during, waiting := r.begin(1), r.begin(2)
			if !waiting.Finish(testRow{id: 2}.row(), nil, 5, true) {
				t.Fatal("not to be published")
			}
			end(r)
			waiting.Publish(true)
			if during.Finish(row.row(), nil, 5, true) {
				t.Error("to be published after the end")
			}
			got, changed, err := during.Answer()
			if err != nil || changed != (name == "reload") || got == nil {
				t.Errorf("answer %q, %v, %v", got, changed, err)
			}
			for id := 1; id <= 2; id++ {
				if _, ok := r.find(id); ok {
					t.Errorf("row %d was kept", id)
				}
			}
			if err := r.g.Apply(nil, 6); (err == nil) != (name == "reload") {
				t.Errorf("Apply: %v", err)
			}
		})
	}
}

// A row that waits for publication is not published once a later answer of the database was given: that may be newer.
func TestHotLaterAnswer(t *testing.T) {
	r := newHotRig(t, 4<<20)
	old, newer := testRow{id: 1, n: 1}, testRow{id: 1, n: 2}
	first := r.begin(1)
	first.Finish(old.row(), nil, 5, true)
	second := r.begin(1)
	if !second.Finish(newer.row(), nil, 5, true) {
		t.Fatal("the second is not to be published")
	}
	first.Publish(true)
	if row, ok := r.find(1); ok {
		t.Errorf("%+v after an answer with n=2", row)
	}
	second.Publish(true)
	if row, ok := r.find(1); !ok || row.n != 2 {
		t.Errorf("%+v, %v", row, ok)
	}

	// So too where the later answer is that there is no row, or one that can't be kept.
	for name, finish := range map[string]func(read *HotRead){
		"absence": func(read *HotRead) { read.Finish(nil, nil, 5, true) },
		"unknown": func(read *HotRead) { read.Finish(newer.row(), nil, 0, false) },
	} {
		r := newHotRig(t, 4<<20)
		first := r.begin(1)
		first.Finish(old.row(), nil, 5, true)
		finish(r.begin(1))
		first.Publish(true)
		if row, ok := r.find(1); ok {
			t.Errorf("%s: %+v", name, row)
		}
	}
	// An error is no answer.
	r = newHotRig(t, 4<<20)
	first = r.begin(1)
	first.Finish(old.row(), nil, 5, true)
	r.begin(1).Finish(nil, errors.New("test"), 5, true)
	first.Publish(true)
	if _, ok := r.find(1); !ok {
		t.Error("an error of another read kept the row away")
	}
}

// A read that a change has cut loose ends after a later one was published: its answer, which may be newer, is not given.
func TestHotLateRead(t *testing.T) {
	r := newHotRig(t, 4<<20)
	late := r.begin(1)
	r.apply(10, insertOf(testRow{id: 1, n: 1}))
	r.keep(testRow{id: 1, n: 1}, 10) // a new read: the cut-off one is not shared
	if late.Finish(testRow{id: 1, n: 7}.row(), nil, 9, true) {
		t.Error("to be published")
	}
	row, _, _ := late.Answer()
	if got := parseRow(t, row, 0); got.n != 1 {
		t.Errorf("the answer has n=%d, memory still n=1", got.n)
	}
}

// Requests for a key share its read, until a change of the key has been applied.
func TestHotSharedRead(t *testing.T) {
	r := newHotRig(t, 4<<20)
	none := func(rowcodec.Row, uint64) bool { return true }
	read := r.begin(1)
	for range 5 {
		if again, start := r.table.BeginRead(r.point(1), none); start != HotShared || again != read {
			t.Fatalf("start %d", start)
		}
	}
	other := r.begin(2)
	r.apply(3, insertOf(testRow{id: 1, n: 4}))
	fresh := r.begin(1) // who asks now must see n=4
	if again, start := r.table.BeginRead(r.point(1), none); start != HotShared || again != fresh {
		t.Errorf("start %d", start)
	}
	// The answer of the old read may be newer than what the new one sees.
	read.Finish(nil, nil, 2, true)
	last := r.begin(1)
	other.Finish(nil, nil, 2, true)
	fresh.Finish(testRow{id: 1, n: 4}.row(), nil, 3, true)
	last.Finish(testRow{id: 1, n: 4}.row(), nil, 3, true)
	<-last.Done()
	if c := r.store.HotCounts(); c.Reads != 4 || c.Shared != 6 {
		t.Errorf("%+v", c)
	}
	last.Publish(true)
	found := int64(0)
	if read, start := r.table.BeginRead(r.point(1), func(row rowcodec.Row, version uint64) bool {
		found = parseRow(t, row, version).n
		return true
	}); start != HotFound || read != nil || found != 4 {
		t.Errorf("start %d, n=%d", start, found)
	}
}

// Reads of which it is not known what they saw, or whether that was applied, are not kept.
func TestHotUnsettledRead(t *testing.T) {
	r := newHotRig(t, 4<<20)
	read := r.begin(1)
	if read.Finish(testRow{id: 1}.row(), nil, 0, false) {
		t.Error("to be published")
	}
	read = r.begin(1)
	read.Finish(testRow{id: 1}.row(), nil, 5, true)
	read.Publish(false)
	if _, ok := r.find(1); ok || r.dropped(dropUnsettled) != 2 {
		t.Errorf("kept, or %d dropped", r.dropped(dropUnsettled))
	}
	// A row whose key is another than the one asked for has no place.
	if r.begin(1).Finish(testRow{id: 3}.row(), nil, 5, true) {
		t.Error("a row of another key is to be published")
	}
}

// A change that does not follow from the row that is kept shows that the log has a gap.
func TestHotGap(t *testing.T) {
	row := testRow{id: 1, n: 1}
	for name, change := range map[string]rowcodec.Change{
		"update": updateOf(testRow{id: 1, n: 5}, testRow{id: 1, n: 6}),
		"delete": deleteOf(testRow{id: 1, n: 5}),
		"insert": insertOf(testRow{id: 1, n: 6}),
		"move":   updateOf(testRow{id: 2}, testRow{id: 1}),
	} {
		r := newHotRig(t, 4<<20)
		r.keep(row, 5)
		if err := r.g.Apply([]rowcodec.Change{change}, 6); !errors.Is(err, ErrGap) {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := r.find(1); ok || r.table.State() != StateSuspended {
			t.Errorf("%s: the table is %s", name, r.table.State())
		}
	}
}

// Changes of keys that share a place with the read one cost the fill, never more.
func TestHotTouchedPlaces(t *testing.T) {
	r := newHotRig(t, 4<<20)
	read := r.begin(1)
	changes := make([]rowcodec.Change, 0, 20*touchedKeys)
	for id := 2; len(changes) < cap(changes); id++ {
		changes = append(changes, insertOf(testRow{id: id}))
	}
	r.apply(6, changes...)
	if read.Finish(testRow{id: 1}.row(), nil, 5, true) || r.dropped(dropTouched) != 1 {
		t.Error("no change has met the place of the key")
	}
	r.keep(testRow{id: 1}, 6)
	if n := len(r.g.touched); n != touchedKeys {
		t.Errorf("%d places", n)
	}
}

// The store stays within its bound, whatever is put; what it still has is right.
func TestHotEviction(t *testing.T) {
	const limit = 2 << 20
	r := newHotRig(t, limit)
	name := string(slices.Repeat([]byte{'x'}, 600))
	for id := range 20_000 {
		r.keep(testRow{id: id, name: name, n: int64(id)}, 5)
	}
	held := 0
	for id := range 20_000 {
		if row, ok := r.find(id); ok {
			held++
			if row.id != id || row.n != int64(id) || row.name != name {
				t.Fatalf("key %d gives %+v", id, row)
			}
		}
	}
	c := r.store.HotCounts()
	if held == 0 || held != r.table.Len() || uint64(held) != c.Published-c.Evicted || c.Bytes > limit || c.Limit != limit {
		t.Errorf("%d rows found, %d counted, %+v", held, r.table.Len(), c)
	}
	// A change of a row that was evicted is no gap, and a read of it may be kept again.
	gone := testRow{id: 1, name: name, n: 1}
	if _, ok := r.find(1); ok {
		t.Fatal("the oldest row is still there")
	}
	r.apply(6, updateOf(gone, testRow{id: 1, name: name, n: 2}))
	r.keep(testRow{id: 1, name: name, n: 2}, 6)
}

// A row too large for its shard is not kept and drives nothing out, be it read or changed.
func TestHotLargeRow(t *testing.T) {
	r := newHotRig(t, 2<<20)
	for id := range 100 {
		r.keep(testRow{id: id, name: "x"}, 5)
	}
	large := testRow{id: 200, name: string(make([]byte, 300<<10))}
	if r.begin(200).Finish(large.row(), nil, 5, true) || r.dropped(dropTooLarge) != 1 {
		t.Error("the large row is to be published")
	}
	grown := large
	grown.id = 7
	r.apply(6, updateOf(testRow{id: 7, name: "x"}, grown))
	for id := range 100 {
		if _, ok := r.find(id); ok == (id == 7) {
			t.Errorf("row %d: %v", id, ok)
		}
	}
}

// Two keys of one hash: the later one replaces the earlier, and neither gives the other's row.
func TestHotCollision(t *testing.T) {
	r := newHotRig(t, 4<<20)
	r.g.rows.sum = func(string) uint64 { return 42 }
	one, two := testRow{id: 1, name: "one", n: 1}, testRow{id: 2, name: "two", n: 2}
	r.keep(one, 5)
	r.keep(two, 5)
	if row, ok := r.find(1); ok {
		t.Errorf("key 1 gives %+v", row)
	}
	// Neither a change nor a deletion of the one that is gone is a gap, or touches the other.
	r.apply(6, updateOf(one, testRow{id: 1, name: "one", n: 5}))
	r.apply(7, deleteOf(testRow{id: 1, name: "one", n: 5}))
	if row, ok := r.find(2); !ok || row.name != "two" {
		t.Errorf("key 2 gives %+v, %v", row, ok)
	}
}

// Hot rows take what full tables leave, and full tables what is left beside them.
func TestHotMemory(t *testing.T) {
	store := New(Config{MemoryLimit: 8 << 20, HotBytes: 2 << 20})
	defer store.Close()
	full := store.Add("app", "t", ModeFull)
	g := mustLoad(t, full, testDef(false))
	name := string(make([]byte, 600))
	grow := func(bytes int64) (err error) {
		for id := full.Len(); err == nil && store.used.Load() < bytes; id++ {
			err = g.Install([]rowcodec.Row{testRow{id: id, name: name}.row()}, 1, 1)
		}
		return err
	}
	if err := grow(5 << 20); err != nil {
		t.Fatal(err)
	}
	hot := store.Add("app", "u", ModeHot)
	def := testDef(false)
	def.Name = "u"
	if _, err := hot.LoadHot(def); err != nil {
		t.Fatal(err)
	}
	if err := grow(7 << 20); !errors.Is(err, ErrMemory) {
		t.Errorf("the share of hot rows was given away: %v", err)
	}

	// A table that fills the memory as long as there are no hot rows leaves room for some.
	store = New(Config{MemoryLimit: 8 << 20, HotBytes: 2 << 20})
	defer store.Close()
	full = store.Add("app", "t", ModeFull)
	g = mustLoad(t, full, testDef(false))
	if err := grow(13 << 19); err != nil {
		t.Fatal(err)
	}
	if err := grow(15 << 19); !errors.Is(err, ErrMemory) {
		t.Errorf("all was given away: %v", err)
	}
	full = store.Add("app", "v", ModeFull)
	other := testDef(false)
	other.Name = "v"
	g = mustLoad(t, full, other)
	if err := grow(13 << 19); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Add("app", "u", ModeHot).LoadHot(def); err != nil {
		t.Errorf("a hot table beside full ones that take all they may: %v", err)
	}

	store = New(Config{MemoryLimit: 2 << 20, HotBytes: 512 << 10})
	defer store.Close()
	if _, err := store.Add("app", "t", ModeHot).LoadHot(testDef(false)); !errors.Is(err, ErrMemory) {
		t.Errorf("too little memory: %v", err)
	}
	// A table that did not fit becomes hot.
	full.SetMode(ModeHot)
	if _, err := full.LoadHot(other); err != nil {
		t.Error(err)
	}
}
