package cache

import (
	"errors"
	"fmt"
)

// Mode says how a table is kept.
type Mode uint8

const (
	// ModeFull keeps a table whole: hits, misses and ranges are answered from memory once it is live.
	ModeFull Mode = iota
	// ModeHot keeps rows that were asked for, see HotGeneration.
	ModeHot
)

// String returns the mode's name in configuration and status output.
func (m Mode) String() string {
	switch m {
	case ModeFull:
		return "full"
	case ModeHot:
		return "hot"
	default:
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
}

// State says what a table's answers come from.
type State uint8

const (
	// StatePass: not cached, every answer comes from the database.
	StatePass State = iota
	// StateLoading: a snapshot is running, answers come from the database.
	StateLoading
	// StateLive: complete, answers come from memory.
	StateLive
	// StateHot: rows that were asked for are kept right by the log; the rest comes from the database.
	StateHot
	// StateSuspended: the memory's content is not to be trusted or was given up, answers come from the database, a
	// reload is under way or planned.
	StateSuspended
	// StateRefused: cannot be cached safely, answers come from the database.
	StateRefused

	stateCount
)

var stateNames = [stateCount]string{"pass", "loading", "live", "hot", "suspended", "refused"}

// String returns the state's name in status output and logs.
func (s State) String() string {
	if s < stateCount {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Outcome says whether a search was answered from memory.
type Outcome uint8

const (
	// Served: the rows that were emitted are the answer.
	Served Outcome = iota
	// Pass: nothing was emitted, the database has to answer: the table is not live, the index not complete or not one
	// that memory can order, or the values not ones whose meaning is certain.
	Pass
	// Changed: nothing was emitted, the table is live with another definition than the search was made for. Resolve
	// the names again.
	Changed
)

// String returns the outcome's name for logs.
func (o Outcome) String() string {
	switch o {
	case Served:
		return "served"
	case Pass:
		return "pass"
	case Changed:
		return "changed"
	default:
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
}

// Errors of a Generation. Each is wrapped with the table's name.
var (
	// ErrStale says that the table was loaded anew, suspended or refused since: forget this Generation.
	ErrStale = errors.New("stale generation")
	// ErrGap says that a change does not follow from what is cached, so changes are missing. The table is suspended:
	// load it again.
	ErrGap = errors.New("gap in the log")
	// ErrMemory says that the table outgrew the memory limit. The table is suspended: load it again only when there is
	// more room.
	ErrMemory = errors.New("memory limit reached")
)

// Transition is one change of a table's state.
type Transition struct {
	Table    string
	From, To State
	// Reason is for people; empty where the state speaks for itself.
	Reason string
}

// move is the one place where a table's state changes. t.mu is held for writing; unlock logs the change and hands it on.
// A table that does not become live or hot loses its generation and all its memory.
func (t *Table) move(to State, reason string) {
	from := t.State()
	t.state.Store(uint32(to)) // first: readers then no longer wait for the lock
	t.redefining.Store(false)
	if to != StateLive {
		t.drop()
	}
	if to != StateHot && t.hot != nil {
		t.hot.drop()
	}
	if from == to && t.reason == reason && to != StateLoading {
		return
	}
	t.reason = reason
	t.store.transitions[to].Add(1)
	t.store.revision.Add(1)
	t.pending = append(t.pending, Transition{Table: t.fullName, From: from, To: to, Reason: reason})
}

// unlock ends a section under t.mu held for writing and announces the transitions made in it, in their order.
func (t *Table) unlock() {
	announce := len(t.pending) > 0
	t.mu.Unlock()
	if !announce {
		return
	}
	t.announceMu.Lock()
	defer t.announceMu.Unlock()
	t.mu.Lock()
	pending := t.pending
	t.pending = nil
	t.mu.Unlock()
	for _, tr := range pending {
		t.store.cfg.Logger.Info("table state", "table", tr.Table, "from", tr.From, "to", tr.To, "reason", tr.Reason)
		if t.store.cfg.OnTransition != nil {
			t.store.cfg.OnTransition(tr)
		}
	}
}
