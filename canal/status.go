package canal

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/steady"
)

// Reason is why a connection to the source ended.
type Reason string

// The reasons of Status.Reconnects.
const (
	ReasonNetwork    Reason = "network"     // not reachable, or the connection was lost
	ReasonSilent     Reason = "silent"      // no event and no heartbeat for too long
	ReasonStalled    Reason = "stalled"     // heartbeats, but the source has transactions that do not come
	ReasonServer     Reason = "server"      // the source ended the stream with an error
	ReasonGone       Reason = "gone"        // the place in the log is not there any more
	ReasonReplaced   Reason = "replaced"    // the source's log is another one
	ReasonServerID   Reason = "server-id"   // another replica has the same server id
	ReasonAccess     Reason = "access"      // the login is refused, or a privilege is missing
	ReasonSettings   Reason = "settings"    // settings of the source do not allow it
	ReasonBehind     Reason = "behind"      // a fallback does not have (yet) what was applied, or not the log after it
	ReasonUnfit      Reason = "unfit"       // a fallback that can't take over from the server that was followed
	ReasonUnreadable Reason = "unreadable"  // an event that can't be read
	ReasonBug        Reason = "unspecified" // none of these
)

// Status is what the follower knows of itself and the source.
type Status struct {
	// Flavor and ServerVersion are empty until the source was reached once.
	Flavor, ServerVersion string
	// Address is that of the source that was turned to last, or is to be; Tried is the one that is tried at present while
	// none is followed. Candidates are all of them in the order of the configuration. host:port, or a socket's path.
	Address, Tried string
	Candidates     []string
	// Failovers counts turns from one candidate to another.
	Failovers uint64
	// Connected is true while the stream runs; Trouble is why it does not, or did not last.
	Connected bool
	Trouble   string
	Applied   Position
	// Surveyed is true when all tables that the patterns match are known: none has to be searched for.
	Surveyed bool
	// EventAge is the time since the source committed the last applied transaction, by its clock and ours; 0 before the
	// first one. On an idle source it grows without meaning anything.
	EventAge time.Duration
	// HeartbeatAge is the time since the last sign of life of the stream; 0 before the first one.
	HeartbeatAge time.Duration
	// Behind is how old the picture of the source is at most: the time since everything was applied that it had then. No
	// clock but our own counts, which is never set. 0 before it is known for the first time.
	Behind time.Duration
	// Reconnects counts ends of connections, tries that failed included.
	Reconnects map[Reason]uint64
	// Transactions and Changes (of rows) that were applied; Loads that ended with a live table, that failed, and that were
	// cut off by something in the log.
	Transactions, Changes, Loads, LoadFailures, LoadsCutOff uint64
	// Warnings are settings of the source that weaken the following, each with what to do.
	Warnings []string
}

type counts struct {
	transactions, changes, loads, loadFailures, loadsCutOff, failovers atomic.Uint64
}

// state is what Run tells Status.
type state struct {
	mu         sync.Mutex
	source     *source         // as it was seen last
	led        *sqltext.Config // the candidate that leads to it; nil before the first
	connected  bool
	trouble    string
	reconnects map[Reason]uint64
}

func (s *state) set(change func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// age is the follower's own, in nanoseconds, never zero: a clock that nobody sets.
func (f *Follower) age() int64 { return int64(time.Since(f.begun)) + 1 }

// Status may be called at any time.
func (f *Follower) Status() Status {
	st := Status{
		Address:      f.cfg.Source.Address,
		Failovers:    f.counts.failovers.Load(),
		Applied:      f.pos.position(),
		Transactions: f.counts.transactions.Load(),
		Changes:      f.counts.changes.Load(),
		Loads:        f.counts.loads.Load(),
		LoadFailures: f.counts.loadFailures.Load(),
		LoadsCutOff:  f.counts.loadsCutOff.Load(),
	}
	for _, c := range f.candidates.all { // written by New only
		st.Candidates = append(st.Candidates, c.Address)
	}
	f.state.set(func(s *state) {
		if s.led != nil {
			st.Address = s.led.Address
		}
		if !s.connected {
			st.Tried = f.source.Load().Address
		}
		st.Connected, st.Trouble = s.connected, s.trouble
		st.Reconnects = maps.Clone(s.reconnects)
		if s.source != nil {
			st.Flavor, st.ServerVersion = s.source.flavor, s.source.version
			for _, p := range s.source.problems(f.cfg.Tables) {
				st.Warnings = append(st.Warnings, p.Error())
			}
		}
	})
	// After the source was read: adopt wants the search before it shows the source.
	done := f.listsDone.Load()
	st.Surveyed = done >= f.listsWanted.Load()
	if at := f.pos.lastCommit(); !at.IsZero() {
		st.EventAge = max(time.Since(at), time.Nanosecond)
	}
	if heard := f.heard.Load(); heard != 0 {
		st.HeartbeatAge = max(time.Duration(f.age()-heard), time.Nanosecond)
	}
	st.Behind = f.Behind()
	return st
}

// Behind is Status().Behind alone, at the cost of reading a clock.
func (f *Follower) Behind() time.Duration {
	if proved := steady.Time(f.proved.Load()); proved != 0 {
		return proved.Since()
	}
	return 0
}
