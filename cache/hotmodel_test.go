package cache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// A database, the log that follows it, and readers at every possible moment between: no reader sees a key go back, what
// memory has is the state after what was applied, and no answer is older than that.
func TestHotModel(t *testing.T) {
	seeds := uint64(200)
	if raceEnabled {
		seeds = 20 // nothing runs beside anything here
	}
	for seed := range seeds {
		newHotModel(t, seed).run(4000)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type hotModel struct {
	*hotRig
	rng *rand.Rand
	// log has the changes that were committed, of which the first applied ones are applied; the version of log[i] is i+1.
	log     []hotCommit
	applied int
	// sight is the version up to which everything is known to be visible.
	sight   uint64
	reads   []*hotModelRead
	readers [3][hotModelKeys]int64 // the newest that each has seen: place in the log of the key's last change
	busy    [3]bool                // each asks for one thing at a time
}

const hotModelKeys = 4

type hotCommit struct {
	id     int
	change rowcodec.Change
}

// hotModelRead is a read in one of its stages.
type hotModelRead struct {
	*HotRead
	id      int
	waiters []int // readers
	known   bool
	seen    uint64
	// at is the length of the log when the SELECT ran, end when its end was read; -1 before that.
	at, end int
	publish bool
}

func newHotModel(t *testing.T, seed uint64) *hotModel {
	m := &hotModel{hotRig: newHotRig(t, 2<<20), rng: rand.New(rand.NewPCG(seed, 1))}
	return m
}

// state is the row of a key after the first n commits, with the place in the log of its last change; the row is nil where
// there is none.
func (m *hotModel) state(id, n int) (row rowcodec.Row, last int64) {
	for i := n - 1; i >= 0; i-- {
		if m.log[i].id == id {
			return m.log[i].change.After, int64(i + 1)
		}
	}
	return nil, 0
}

func (m *hotModel) run(steps int) {
	for range steps {
		switch m.rng.IntN(16) {
		case 0:
			m.commit(m.rng.IntN(hotModelKeys))
		case 1, 2:
			if m.applied < len(m.log) {
				m.apply(uint64(m.applied+1), m.log[m.applied].change)
				m.applied++
			}
		case 3:
			m.sight = max(m.sight, uint64(m.applied-m.rng.IntN(min(m.applied+1, 3))))
		case 4, 5, 6, 7, 8:
			m.ask(m.rng.IntN(len(m.readers)), m.rng.IntN(hotModelKeys))
		default:
			m.advance()
		}
		if m.rng.IntN(200) == 0 {
			m.load() // versions and places go on
			m.sight = uint64(m.applied)
		}
		if m.t.Failed() {
			return
		}
	}
	if c := m.store.HotCounts(); c.Hits == 0 || c.Published == 0 {
		m.t.Errorf("nothing was kept: %+v", c)
	}
}

func (m *hotModel) commit(id int) {
	before, _ := m.state(id, len(m.log))
	var after rowcodec.Row
	if before == nil || m.rng.IntN(3) > 0 {
		after = testRow{id: id, n: int64(len(m.log) + 1)}.row()
	}
	m.log = append(m.log, hotCommit{id, rowcodec.Change{Before: before, After: after}})
}

// answer is what a reader gets.
func (m *hotModel) answer(reader, id int, row rowcodec.Row, asked int) {
	last := int64(-1)
	for n := len(m.log); n >= 0; n-- { // the newest state that is this one: a deleted row has no number
		if have, at := m.state(id, n); (have == nil) == (row == nil) && string(have) == string(row) {
			last = at
			break
		}
	}
	if _, applied := m.state(id, asked); last < applied {
		m.t.Errorf("key %d: an answer of %d, after %d was applied", id, last, applied)
	}
	if last < m.readers[reader][id] {
		m.t.Errorf("key %d: reader %d sees %d after %d", id, reader, last, m.readers[reader][id])
	}
	if row == nil {
		return // which of the deletions it was can't be told
	}
	m.readers[reader][id] = last
}

func (m *hotModel) ask(reader, id int) {
	if m.busy[reader] {
		return
	}
	if row, ok := m.find(id); ok {
		want, _ := m.state(id, m.applied)
		if want == nil || parseRow(m.t, want, 0).n != row.n {
			m.t.Errorf("key %d: memory has %+v, the log %q", id, row, want)
		}
		m.answer(reader, id, want, m.applied)
		return
	}
	read, start := m.table.BeginRead(m.point(id), func(rowcodec.Row, uint64) bool { return true })
	m.busy[reader] = true
	switch start {
	case HotLead:
		m.reads = append(m.reads, &hotModelRead{HotRead: read, id: id, waiters: []int{reader, m.applied}, known: m.rng.IntN(8) > 0, seen: m.sight, at: -1, end: -1})
	case HotShared:
		for _, r := range m.reads {
			if r.HotRead == read {
				r.waiters = append(r.waiters, reader, m.applied)
			}
		}
	default:
		m.t.Errorf("start %d", start)
	}
}

// advance takes any read one step further.
func (m *hotModel) advance() {
	if len(m.reads) == 0 {
		return
	}
	i := m.rng.IntN(len(m.reads))
	r := m.reads[i]
	switch {
	case r.at < 0:
		r.at = len(m.log)
	case r.waiters != nil:
		row, _ := m.state(r.id, r.at)
		r.publish = r.Finish(row, nil, r.seen, r.known)
		if got, changed, err := r.Answer(); err != nil {
			m.t.Error(err)
		} else if !changed {
			for w := 0; w < len(r.waiters); w += 2 {
				m.answer(r.waiters[w], r.id, got, r.waiters[w+1])
			}
		}
		for w := 0; w < len(r.waiters); w += 2 {
			m.busy[r.waiters[w]] = false
		}
		r.waiters = nil
	case r.end < 0:
		r.end = len(m.log)
	case m.applied >= r.end || !r.publish:
		if r.publish {
			r.Publish(m.rng.IntN(16) > 0)
		}
		m.reads = slices.Delete(m.reads, i, i+1)
	}
}
