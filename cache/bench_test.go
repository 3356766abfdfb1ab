package cache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// TestSearchAllocations: neither a search by the whole key nor a walk over a few rows allocates.
func TestSearchAllocations(t *testing.T) {
	store := New(Config{})
	table, _, def := loadUsers(t, store, 10_000, func(i int) int { return i + 1 })
	table.EnsureIndex(1)
	found := 0
	emit := func(rowcodec.Row, uint64) bool { found++; return true }
	searches := map[string]*schema.Search{
		"point":    {Def: def, Values: [][]byte{[]byte("5000")}},
		"miss":     {Def: def, Values: [][]byte{[]byte("50000")}},
		"walk up":  {Def: def, Op: schema.OpGT, Values: [][]byte{[]byte("5000")}, Limit: 10},
		"walk low": {Def: def, Op: schema.OpLE, Values: [][]byte{[]byte("5000")}, Limit: 10},
		"email":    {Def: def, Index: 1, Values: [][]byte{[]byte("user0005000@example.com")}},
	}
	for name, s := range searches {
		if table.Search(s, emit) != Served {
			t.Fatalf("%s was not served", name)
		}
		if raceEnabled {
			continue // the race detector makes pools forget
		}
		if n := testing.AllocsPerRun(1000, func() { table.Search(s, emit) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}

const benchRows = 1_000_000

// cpuPerOp reports the CPU time of the process for each operation since it was called: on a shared machine it says more
// than the clock. Benchmarks call it before their loop and the result after it.
func cpuPerOp(b *testing.B) (report func()) {
	start := cpuTime(b)
	return func() {
		b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkSearchPoint(b *testing.B) {
	store := New(Config{})
	table, _, def := loadUsers(b, store, benchRows, func(i int) int { return i + 1 })
	r := rand.New(rand.NewPCG(1, 1))
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = strconv.AppendInt(nil, 1+r.Int64N(benchRows), 10)
	}
	out := make([]byte, 0, 1024)
	emit := func(row rowcodec.Row, _ uint64) bool { out = append(out[:0], row...); return true }
	s := &schema.Search{Def: def, Values: make([][]byte, 1)}
	b.ReportAllocs()
	report := cpuPerOp(b)
	for i := 0; b.Loop(); i++ {
		s.Values[0] = keys[i&(len(keys)-1)]
		table.Search(s, emit)
	}
	report()
}

func BenchmarkSearchEmail(b *testing.B) {
	store := New(Config{})
	table, _, def := loadUsers(b, store, benchRows, func(i int) int { return i + 1 })
	table.EnsureIndex(1)
	waitFor(b, "the index", func() bool { return table.Indexes()[0].State == IndexComplete })
	b.ReportMetric(float64(table.Indexes()[0].Bytes)/benchRows, "index-B/row")
	r := rand.New(rand.NewPCG(1, 1))
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user%07d@example.com", 1+r.Int64N(benchRows))
	}
	out := make([]byte, 0, 1024)
	emit := func(row rowcodec.Row, _ uint64) bool { out = append(out[:0], row...); return true }
	s := &schema.Search{Def: def, Index: 1, Values: make([][]byte, 1)}
	b.ReportAllocs()
	report := cpuPerOp(b)
	for i := 0; b.Loop(); i++ {
		s.Values[0] = keys[i&(len(keys)-1)]
		table.Search(s, emit)
	}
	report()
}

func BenchmarkSearchRange10(b *testing.B) {
	store := New(Config{})
	table, _, def := loadUsers(b, store, benchRows, func(i int) int { return i + 1 })
	r := rand.New(rand.NewPCG(1, 1))
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = strconv.AppendInt(nil, 1+r.Int64N(benchRows-10), 10)
	}
	out := make([]byte, 0, 4096)
	emit := func(row rowcodec.Row, _ uint64) bool { out = append(out, row...); return true }
	s := &schema.Search{Def: def, Op: schema.OpGE, Values: make([][]byte, 1), Limit: 10}
	b.ReportAllocs()
	report := cpuPerOp(b)
	for i := 0; b.Loop(); i++ {
		s.Values[0] = keys[i&(len(keys)-1)]
		out = out[:0]
		table.Search(s, emit)
	}
	report()
}

// BenchmarkApplyUpdate applies transactions that update one row each, with rows made in advance.
func BenchmarkApplyUpdate(b *testing.B) {
	store := New(Config{})
	_, g, _ := loadUsers(b, store, benchRows, func(i int) int { return i + 1 })
	const hot = 1 << 15
	r := rand.New(rand.NewPCG(1, 1))
	var builder rowcodec.Builder
	forms := make([][2]rowcodec.Row, hot)
	for i, id := range r.Perm(benchRows)[:hot] {
		forms[i] = [2]rowcodec.Row{userRow(nil, &builder, id+1, 0), userRow(nil, &builder, id+1, 1)}
	}
	changes := make([]rowcodec.Change, 1)
	b.ReportAllocs()
	report := cpuPerOp(b)
	for i := 0; b.Loop(); i++ {
		form := i / hot & 1
		f := &forms[i&(hot-1)]
		changes[0] = rowcodec.Change{Before: f[form], After: f[1-form]}
		if err := g.Apply(changes, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
	report()
}

// BenchmarkApplyGrowing is BenchmarkApplyUpdate with rows that change their length, so that the log is rewritten.
func BenchmarkApplyGrowing(b *testing.B) {
	store := New(Config{})
	table, g, _ := loadUsers(b, store, 200_000, func(i int) int { return i + 1 })
	r := rand.New(rand.NewPCG(1, 1))
	const hot = 1 << 16
	row := func(id, n int) rowcodec.Row {
		return makeRow(strconv.AppendInt(nil, int64(id), 10), []byte("uname"), make([]byte, 20+n), []byte("2024-01-02 03:04:05"))
	}
	forms := make([][2]rowcodec.Row, hot)
	for i, id := range r.Perm(200_000)[:hot] {
		forms[i] = [2]rowcodec.Row{row(id+1, i%9), row(id+1, 10+i%7)}
		var builder rowcodec.Builder
		if err := g.Apply([]rowcodec.Change{{Before: userRow(nil, &builder, id+1, 0), After: forms[i][0]}}, 1); err != nil {
			b.Fatal(err)
		}
	}
	changes := make([]rowcodec.Change, 1)
	b.ReportAllocs()
	report := cpuPerOp(b)
	for i := 0; b.Loop(); i++ {
		form := i / hot & 1
		f := &forms[i&(hot-1)]
		changes[0] = rowcodec.Change{Before: f[form], After: f[1-form]}
		if err := g.Apply(changes, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
	report()
	rows, _ := table.Memory()
	b.ReportMetric(float64(rows)/200_000, "B/row")
}

// BenchmarkInstall installs snapshot rows in key order, 1000 at a time.
func BenchmarkInstall(b *testing.B) {
	var builder rowcodec.Builder
	var arena []byte
	rows := make([]rowcodec.Row, 0, 1000)
	store := New(Config{})
	table := store.Add("app", "user", ModeFull)
	g := mustLoad(b, table, userDef())
	id, batches := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if id == benchRows {
			g, id = mustLoad(b, table, userDef()), 0
		}
		batches++
		rows, arena = rows[:0], arena[:0]
		for range 1000 {
			id++
			at := len(arena)
			arena = userRow(arena, &builder, id, 0)
			rows = append(rows, arena[at:len(arena):len(arena)])
		}
		b.StartTimer()
		if err := g.Install(rows, 1, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(1000*batches), "ns/row")
}

func BenchmarkTreeGet(b *testing.B) {
	for _, form := range []string{"dense", "sparse", "bytes"} {
		b.Run(form, func(b *testing.B) {
			key := func(dst []byte, i uint64) []byte { return binary.BigEndian.AppendUint64(dst, i) }
			width := 8
			switch form {
			case "sparse":
				key = func(dst []byte, i uint64) []byte { return binary.BigEndian.AppendUint64(dst, i*0x9e3779b97f4a7c15) }
			case "bytes":
				width = 0
				key = func(dst []byte, i uint64) []byte { return fmt.Appendf(dst, "user%08d@example.com", i) }
			}
			tr := newTree(newBlockPool(), width)
			var k []byte
			for i := range uint64(benchRows) {
				k = key(k[:0], i)
				tr.put(k, uint32(i))
			}
			r := rand.New(rand.NewPCG(1, 1))
			keys := make([][]byte, 1<<16)
			for i := range keys {
				keys[i] = key(nil, r.Uint64N(benchRows))
			}
			report := cpuPerOp(b)
			for i := 0; b.Loop(); i++ {
				if _, ok := tr.get(keys[i&(len(keys)-1)]); !ok {
					b.Fatal("a key is missing")
				}
			}
			report()
		})
	}
}

// BenchmarkHotHit is a look-up of a row of a hot table, to be compared with BenchmarkSearchPoint.
func BenchmarkHotHit(b *testing.B) {
	const rows = 200_000 // fewer than of a full table, as is their use
	store := New(Config{HotBytes: 256 << 20})
	full, _, def := loadUsers(b, store, rows, func(i int) int { return i + 1 })
	hot := store.Add("app", "hot", ModeHot)
	own := *def
	own.Schema, own.Name = "app", "hot"
	g, err := hot.LoadHot(&own)
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Live(""); err != nil {
		b.Fatal(err)
	}
	keys := make([][]byte, 1<<16)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range keys {
		keys[i] = strconv.AppendInt(nil, 1+r.Int64N(rows), 10)
		s := &schema.Search{Def: def, Values: [][]byte{keys[i]}}
		full.Search(s, func(row rowcodec.Row, _ uint64) bool {
			s.Def = &own
			if read, start := hot.BeginRead(s, func(rowcodec.Row, uint64) bool { return true }); start == HotLead {
				read.Finish(row, nil, 1, true)
				read.Publish(true)
			}
			return true
		})
	}
	out := make([]byte, 0, 1024)
	emit := func(row rowcodec.Row, _ uint64) bool { out = append(out[:0], row...); return true }
	for _, of := range []struct {
		name  string
		table *Table
		def   *schema.Table
	}{{"full", full, def}, {"hot", hot, &own}} {
		b.Run(of.name, func(b *testing.B) {
			s := &schema.Search{Def: of.def, Values: make([][]byte, 1)}
			b.ReportAllocs()
			report := cpuPerOp(b)
			for i := 0; b.Loop(); i++ {
				s.Values[0] = keys[i&(len(keys)-1)]
				if of.table.Search(s, emit) != Served {
					b.Fatal("not served")
				}
			}
			report()
		})
	}
}
