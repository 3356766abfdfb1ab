package writeback

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/schema"
)

// kinds is the number of schema.ChangeKind's values.
const kinds = int(schema.ChangeUpsert) + 1

// The outcomes of Stats.Changes.
const (
	OutcomeDone        = "done"
	OutcomeRefused     = "refused"     // by the server
	OutcomeUnavailable = "unavailable" // nothing was done: no server, no time, read-only
	OutcomeUncertain   = "uncertain"   // nobody knows
	OutcomeFailed      = "failed"      // nothing was done for another reason
)

var outcomes = [...]string{OutcomeDone, OutcomeRefused, OutcomeUnavailable, OutcomeUncertain, OutcomeFailed}

func outcomeOf(err error) int {
	switch refused := (*Refused)(nil); {
	case err == nil:
		return 0
	case errors.As(err, &refused):
		return 1
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrReadOnly), errors.Is(err, ErrTimeLimit), errors.Is(err, ErrClosed):
		return 2
	case errors.Is(err, ErrUncertain):
		return 3
	}
	return 4
}

// waitBounds are the upper bounds of the buckets of Stats.Waits.
var waitBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
}

type stats struct {
	changes                                                                   [kinds][len(outcomes)]atomic.Uint64
	groups, grouped, merged, transactions, alone, deadlocks, lockWaits, asked atomic.Uint64
	waits                                                                     [len(waitBounds) + 1]atomic.Uint64
	waited                                                                    atomic.Int64
	timeouts                                                                  atomic.Uint64
}

func (s *stats) count(kind schema.ChangeKind, err error) { s.changes[kind][outcomeOf(err)].Add(1) }

// waitedFor counts a wait for the follower.
func (s *stats) waitedFor(d time.Duration) {
	i := 0
	for i < len(waitBounds) && d > waitBounds[i] {
		i++
	}
	s.waits[i].Add(1)
	s.waited.Add(int64(d))
}

// ChangeCount is the number of changes of one kind that ended one way.
type ChangeCount struct {
	Kind, Outcome string
	N             uint64
}

// Stats are counts since the start.
type Stats struct {
	Changes []ChangeCount
	// Groups is the number of commits of the lane, Grouped that of the changes in them, Merged that of those that were carried
	// out with others in one statement; Transactions are the commits of changes with more than one statement; Alone is the
	// number of changes that were taken out of their group.
	Groups, Grouped, Merged, Transactions, Alone uint64
	// Deadlocks and LockWaits are those that the server reported, retried or not.
	Deadlocks, LockWaits uint64
	// Asked is the number of times that the server was asked for its executed set, because a commit told no GTID.
	Asked uint64
	// Waits are the waits for the follower by their upper bounds in WaitBounds, not added up; the last one has none. Waited
	// is their sum.
	Waits      []uint64
	WaitBounds []time.Duration
	Waited     time.Duration
	// Timeouts is the number of commits that were answered before they were applied, because that took too long.
	Timeouts uint64
	// Fenced is the number of tables whose readers are answered by the database at present because of that.
	Fenced int
}

// Stats may be called at any time.
func (w *Writer) Stats() Stats {
	s := &w.stats
	t := Stats{
		Groups: s.groups.Load(), Grouped: s.grouped.Load(), Merged: s.merged.Load(), Transactions: s.transactions.Load(), Alone: s.alone.Load(),
		Deadlocks: s.deadlocks.Load(), LockWaits: s.lockWaits.Load(), Asked: s.asked.Load(),
		WaitBounds: waitBounds[:], Waited: time.Duration(s.waited.Load()), Timeouts: s.timeouts.Load(), Fenced: w.fences.count(),
	}
	for kind := range s.changes {
		for i, name := range outcomes {
			t.Changes = append(t.Changes, ChangeCount{schema.ChangeKind(kind).String(), name, s.changes[kind][i].Load()})
		}
	}
	for i := range s.waits {
		t.Waits = append(t.Waits, s.waits[i].Load())
	}
	return t
}
