package cache

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// checkLog fails the test where the counts of a log do not agree with its chunks and slots.
func checkLog(t testing.TB, l *rowLog) {
	t.Helper()
	var live, dead, resident int64
	rows := 0
	for id := range l.ids {
		if !l.inUse(id) {
			continue
		}
		rows++
		b, n := l.entry(l.slot(id))
		if n != int(binary.LittleEndian.Uint32(b[12:])&lengthMask) {
			t.Fatalf("slot %d has the length %d", id, n)
		}
		if got := binary.LittleEndian.Uint32(b[8:]); got != id {
			t.Fatalf("slot %d points at the row of %d", id, got)
		}
		live += rowHeadBytes + int64(binary.LittleEndian.Uint32(b[12:])&lengthMask)
	}
	free := 0
	for id := l.freeID; id != noRow; id = uint32(l.slot(id)) {
		free++
	}
	if rows != l.rows || rows+free != int(l.ids) {
		t.Fatalf("%d rows, counted %d; %d free of %d ids", rows, l.rows, free, l.ids)
	}
	var inChunks int64
	for i := range l.chunks {
		c := &l.chunks[i]
		resident += int64(len(c.buf))
		inChunks += int64(c.used - c.dead)
		if c.at >= 0 {
			dead += c.waste()
			if l.sealed[c.at] != uint32(i) {
				t.Fatalf("chunk %d is not where it says in sealed", i)
			}
		}
	}
	if resident += int64(len(l.spare)); live != l.live || inChunks != live || dead != l.dead || resident != l.resident {
		t.Fatalf("live %d (chunks: %d) counted %d, dead %d counted %d, resident %d counted %d",
			live, inChunks, l.live, dead, l.dead, resident, l.resident)
	}
}

var noise = func() rowcodec.Row {
	r := rand.New(rand.NewPCG(1, 2))
	b := make(rowcodec.Row, 1<<18)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}()

// randomRow returns bytes that are no row for anybody who looks into them, which the log does not do.
// checkPool fails the test when the pool's count of blocks is not what the logs and trees hold.
func checkPool(t testing.TB, pool *blockPool, logs []*rowLog, trees []tree) {
	t.Helper()
	held := 0
	count := func(b []byte) {
		if len(b) == blockBytes {
			held++
		}
	}
	array := func(a *blockArray) {
		for _, b := range a.blocks {
			count(b)
		}
	}
	for _, l := range logs {
		for i := range l.chunks {
			count(l.chunks[i].buf)
		}
		count(l.spare)
		array(&l.slots)
	}
	for _, tr := range trees {
		switch tr := tr.(type) {
		case *u64Tree:
			array(&tr.pages.blockArray)
		case *bytesTree:
			array(&tr.pages.blockArray)
		}
	}
	if held != pool.inUse {
		t.Fatalf("%d blocks are held, %d counted as in use", held, pool.inUse)
	}
}

func randomRow(r *rand.Rand, maxLen int) rowcodec.Row {
	n := 1 + r.IntN(maxLen)
	off := r.IntN(len(noise) - n)
	return noise[off : off+n]
}

func TestRowLogModel(t *testing.T) {
	for _, maxLen := range []int{8, 90, 700, 5000, 200_000} {
		r := rand.New(rand.NewPCG(7, uint64(maxLen)))
		l := newRowLog(newBlockPool())
		type entry struct {
			row     rowcodec.Row
			version uint64
		}
		want := map[uint32]entry{}
		var ids []uint32
		ops := 20_000
		if maxLen > 100_000 {
			ops = 1_000
		}
		grow := 60
		for op := range ops {
			if op%(ops/6) == 0 {
				checkLog(t, l)
				grow = []int{60, 20, 40, 2}[op/(ops/6)%4]
			}
			e := entry{randomRow(r, maxLen), uint64(op)}
			switch p := r.IntN(100); {
			case p < grow || len(ids) == 0:
				id, err := l.add(e.row, e.version, OriginStream)
				if err != nil {
					t.Fatal(err)
				}
				if _, used := want[id]; used {
					t.Fatalf("id %d was given out twice", id)
				}
				want[id] = e
				ids = append(ids, id)
			case p < grow+(100-grow)/2:
				id := ids[r.IntN(len(ids))]
				if r.IntN(3) == 0 {
					e.row = append(rowcodec.Row(nil), want[id].row...)
				}
				_ = l.set(id, e.row, e.version, OriginStream)
				want[id] = e
			default:
				i := r.IntN(len(ids))
				id := ids[i]
				ids[i] = ids[len(ids)-1]
				ids = ids[:len(ids)-1]
				delete(want, id)
				l.remove(id)
				if l.inUse(id) {
					t.Fatalf("id %d is in use after remove", id)
				}
			}
			if op%(ops/40) == 0 {
				for id, e := range want {
					row, version := l.get(id)
					if !bytes.Equal(row, e.row) || version != e.version || l.version(id) != e.version {
						t.Fatalf("row %d: %x at %d, want %x at %d", id, row, version, e.row, e.version)
					}
				}
			}
		}
		checkLog(t, l)
		checkPool(t, l.pool, []*rowLog{l}, nil)
		l.reset()
		checkPool(t, l.pool, nil, nil)
	}
}

// TestRowLogResident rewrites a live set 64 times in several patterns: the log must stay below twice the live bytes all
// the time, and lose no row.
func TestRowLogResident(t *testing.T) {
	const slack = 16 << 10
	patterns := map[string]func(r *rand.Rand, n, i int) uint32{
		"in order":      func(_ *rand.Rand, n, i int) uint32 { return uint32(i % n) },
		"random":        func(r *rand.Rand, n, _ int) uint32 { return uint32(r.IntN(n)) },
		"hot tenth":     func(r *rand.Rand, n, _ int) uint32 { return uint32(r.IntN(n / 10)) },
		"every seventh": func(_ *rand.Rand, n, i int) uint32 { return uint32(i * 7 % n) },
	}
	sizes := []int{50, 1000, 10_000}
	if raceEnabled {
		sizes = sizes[:2]
	}
	for name, pick := range patterns {
		for _, n := range sizes {
			r := rand.New(rand.NewPCG(uint64(n), 9))
			l := newRowLog(newBlockPool())
			versions := make([]uint64, n)
			for range n {
				if _, err := l.add(randomRow(r, 200), 0, OriginStream); err != nil {
					t.Fatal(err)
				}
			}
			worst := 0.0
			for i := range 64 * n {
				id := pick(r, n, i)
				versions[id]++
				_ = l.set(id, randomRow(r, 200), versions[id], OriginStream)
				if l.resident > 2*l.live+slack {
					t.Fatalf("%s, %d rows, change %d: %d bytes for %d live ones", name, n, i, l.resident, l.live)
				}
				worst = max(worst, float64(l.resident)/float64(l.live))
			}
			checkLog(t, l)
			for id, v := range versions {
				if got := l.version(uint32(id)); got != v {
					t.Fatalf("row %d has version %d, want %d", id, got, v)
				}
			}
			t.Logf("%s, %d rows: at most %.2f x live", name, n, worst)
		}
	}
}

// TestRowLogShrinks deletes most of a table, in order and at random: the memory follows the rows.
func TestRowLogShrinks(t *testing.T) {
	for _, order := range []string{"up", "down", "random"} {
		r := rand.New(rand.NewPCG(5, 6))
		const n = 200_000
		l := newRowLog(newBlockPool())
		for range n {
			if _, err := l.add(randomRow(r, 150), 1, OriginStream); err != nil {
				t.Fatal(err)
			}
		}
		perm := r.Perm(n)
		checkPool(t, l.pool, []*rowLog{l}, nil)
		if l.pool.inUse == 0 {
			t.Fatal("a log of 18 MB has no block") // or this tests nothing
		}
		for i := range n - 100 {
			id := map[string]int{"up": i, "down": n - 1 - i, "random": perm[i]}[order]
			l.remove(uint32(id))
			if l.resident > 2*l.live+64<<10 {
				t.Fatalf("%s, %d left: %d bytes for %d live ones", order, l.rows, l.resident, l.live)
			}
		}
		checkLog(t, l)
		checkPool(t, l.pool, []*rowLog{l}, nil)
		t.Logf("%s: %d bytes for %d live ones", order, l.resident, l.live)
	}
}

// TestRowLogTiny keeps the memory of empty and tiny tables small.
func TestRowLogTiny(t *testing.T) {
	l := newRowLog(newBlockPool())
	if l.bytes() != 0 {
		t.Errorf("empty log holds %d bytes", l.bytes())
	}
	if _, err := l.add(make(rowcodec.Row, 60), 1, OriginStream); err != nil {
		t.Fatal(err)
	}
	if l.bytes() > 6<<10 {
		t.Errorf("one row takes %d bytes", l.bytes())
	}
	l.remove(0)
	if l.bytes() != 0 {
		t.Errorf("emptied log holds %d bytes", l.bytes())
	}
}
