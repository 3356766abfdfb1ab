package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// TestCompare holds memory and source apart in random rows, at random versions, and has each span compared: what is found
// is what looking at each row by itself finds, whether the source's rows come in order or not.
func TestCompare(t *testing.T) {
	for _, compound := range []bool{false, true} {
		t.Run(fmt.Sprintf("compound key %v", compound), func(t *testing.T) {
			t.Parallel()
			for round := range 60 {
				compareOnce(t, compound, rand.New(rand.NewPCG(uint64(round), 4)))
			}
		})
	}
}

func compareOnce(t *testing.T, compound bool, r *rand.Rand) {
	t.Helper()
	const seen, later = 10, 20
	store := New(Config{})
	g := mustLoad(t, store.Add("app", "t", ModeFull), testDef(compound))
	rows := r.IntN(3 * auditStep)
	rate := []int{2, 50, 1000, 1 << 30}[r.IntN(4)] // one row in so many differs
	var memory, source []testRow
	unlike := map[int]string{} // by id
	for id := range rows {
		row := testRow{id: id, name: fmt.Sprintf("name%06d", id), n: 1}
		version := uint64(seen)
		if r.IntN(2) == 0 {
			version = later // need not agree
		}
		row.version = version
		kind := ""
		switch {
		case r.IntN(rate) > 0:
			memory, source = append(memory, row), append(source, row)
		case r.IntN(3) == 0:
			kind = "missing"
			source = append(source, row)
			version = seen // nothing in memory says otherwise
		case r.IntN(2) == 0:
			kind = "extra"
			memory = append(memory, row)
		default:
			kind = "altered"
			memory = append(memory, row)
			row.n = 2
			source = append(source, row)
		}
		if kind != "" && version == seen {
			unlike[id] = kind
		}
	}
	for _, row := range memory {
		install(t, g, row.version, row.version, row)
	}
	if err := g.Live(); err != nil {
		t.Fatal(err)
	}
	if err := g.BeginAudit(); err != nil {
		t.Fatal(err)
	}
	// The rows of source in (after, until], in pieces.
	edges := []int{-1, rows}
	for range r.IntN(3) {
		edges = append(edges, r.IntN(rows+1))
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	found := map[int]string{}
	for i := range edges[1:] {
		var span Span
		if after := edges[i]; after >= 0 {
			span.After = testRow{id: after, name: fmt.Sprintf("name%06d", after)}.row()
		}
		until := edges[i+1]
		if until < rows {
			span.Until = testRow{id: until, name: fmt.Sprintf("name%06d", until)}.row()
		}
		var piece []rowcodec.Row
		for _, row := range source {
			if row.id > edges[i] && row.id <= until {
				piece = append(piece, row.row())
			}
		}
		if r.IntN(4) == 0 {
			r.Shuffle(len(piece), func(i, j int) { piece[i], piece[j] = piece[j], piece[i] })
		}
		differences, err := g.Compare(span, piece, seen)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differences {
			id := parseRow(t, d.Row(), 0).id
			if found[id] != "" {
				t.Errorf("row %d is found twice", id)
			}
			found[id] = d.Kind.String()
		}
	}
	for id := range rows {
		if found[id] != unlike[id] {
			t.Errorf("%d rows, pieces at %v: row %d is %q, want %q", rows, edges, id, found[id], unlike[id])
		}
	}
	if len(found) != len(unlike) {
		t.Errorf("%d differences, want %d", len(found), len(unlike))
	}
}
