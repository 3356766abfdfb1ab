package canal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// errSuperseded ends a load that a newer cause has made pointless.
var errSuperseded = errors.New("overtaken by a newer cause")

// How long a table stays refused for a reason that no definition shows: a missing privilege, or one of the Sink. The
// latter time doubles with each refusal, up to recheckLongest.
const (
	recheckPrivilege = time.Minute
	recheckSink      = 10 * time.Minute
	recheckLongest   = time.Hour
)

// jitter spreads a pause over half to one and a half of its length.
func jitter(d time.Duration) time.Duration { return d/2 + time.Duration(rand.Int64N(int64(d)+1)) }

// wakeLoader makes the loader look at its tables again.
func (f *Follower) wakeLoader() {
	select {
	case f.loaderWake <- struct{}{}:
	default:
	}
}

// runLoader starts loads as they become due, at most f.cfg.Loads at a time, and looks for new tables when asked to. It
// returns when ctx has ended and all loads with it.
func (f *Follower) runLoader(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, f.cfg.Loads)
	listing := make(chan struct{}, 1)
	redefining := make(chan struct{}, redefinitions)
	var listPace pace
	var listDue time.Time
	var listTook atomic.Int64
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.loaderWake:
		case <-timer.C:
		}
		if f.relist.Load() && time.Until(listDue) <= 0 {
			select {
			case listing <- struct{}{}:
				f.relist.Store(false)
				// A list can be dear on a server of many tables. Statements that make tables may come often.
				listDue = time.Now().Add(listPace.wait(time.Now(), time.Duration(listTook.Load())))
				wg.Go(func() {
					begin := time.Now()
					f.listTables(ctx)
					listTook.Store(int64(time.Since(begin)))
					<-listing
					f.wakeLoader()
				})
			default: // one is at work; it wakes us at its end
			}
		}
		f.startRedefinitions(ctx, &wg, redefining)
		next, waiting := f.startLoads(ctx, &wg, slots)
		if f.relist.Load() && time.Until(listDue) > 0 && (!waiting || listDue.Before(next)) {
			next, waiting = listDue, true
		}
		if waiting {
			timer.Reset(max(0, time.Until(next)))
		}
	}
}

// startLoads starts what is due while there are slots. It returns the time at which the next table becomes due, if any
// is waiting for its time.
func (f *Follower) startLoads(ctx context.Context, wg *sync.WaitGroup, slots chan struct{}) (next time.Time, waiting bool) {
	if f.pool.Load() == nil {
		return time.Time{}, false // the source has not been reached; the start of the stream asks for all tables
	}
	for {
		var first *table
		var due time.Time
		for _, t := range f.tables.all() {
			t.mu.Lock()
			if t.wanted && (first == nil || t.due.Before(due)) {
				first, due = t, t.due
			}
			t.mu.Unlock()
		}
		if first == nil {
			return time.Time{}, false
		}
		if time.Until(due) > 0 {
			return due, true
		}
		select {
		case slots <- struct{}{}:
		default:
			return time.Time{}, false // the end of a load wakes us
		}
		loadCtx, cancel := context.WithCancelCause(ctx)
		a := &attempt{f: f, t: first, cancel: cancel, started: time.Now()}
		first.mu.Lock()
		first.wanted = false
		if first.gone {
			first.mu.Unlock()
			cancel(nil)
			<-slots
			continue
		}
		first.attempt = a
		first.mu.Unlock()
		wg.Go(func() {
			f.load(loadCtx, a)
			cancel(nil)
			<-slots
			f.wakeLoader()
		})
	}
}

// load carries out one attempt and settles what comes of it.
func (f *Follower) load(ctx context.Context, a *attempt) { f.settle(ctx, a, a.run(ctx)) }

// settle notes what came of an attempt.
func (f *Follower) settle(ctx context.Context, a *attempt, err error) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempt != a {
		return // superseded: somebody else has settled it
	}
	if err == nil || ctx.Err() != nil {
		t.attempt = nil
		t.pace.failures = 0
		return
	}
	var refused *refusal
	switch {
	case errors.Is(err, schema.ErrNoTable):
		t.end()
		if t.phase != phaseAbsent {
			f.log.Info("table is gone", "table", t.name.String())
		}
		t.phase = phaseAbsent
		if t.asked {
			t.gone = true
			f.tables.remove(t) // whoever asks for it again follows it again
		}
		f.cfg.Sink.Remove(t.name.Schema, t.name.Table)
	case errors.As(err, &refused):
		t.end()
		f.refuseLocked(t, refused)
	default:
		t.pace.failures++
		f.counts.loadFailures.Add(1)
		f.suspendLocked(t, fmt.Sprintf("loading it failed: %v", err))
		t.wanted = true
	}
}

// refuse ends what is under way for a table that the Sink can't keep any more.
func (f *Follower) refuse(t *table, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return
	}
	if t.attempt != nil {
		t.attempt.cancel(errSuperseded)
		f.counts.loadsCutOff.Add(1)
	}
	t.end()
	f.refuseLocked(t, &refusal{reason: reason, recheck: recheckSink, sink: true})
	f.wakeLoader()
}

// refuseLocked tells the Sink of a refusal and plans the next try. The caller holds mu.
func (f *Follower) refuseLocked(t *table, r *refusal) {
	wait := jitter(r.recheck)
	if r.sink {
		wait = t.sinkPause(time.Now())
	}
	f.log.Warn("table is refused", "table", t.name.String(), "reason", r.reason)
	t.phase = phaseRefused
	f.cfg.Sink.Refuse(t.name.Schema, t.name.Table, r.reason)
	if r.recheck > 0 {
		t.wanted = true
		t.due = time.Now().Add(wait)
	}
}

// sinkPause says how long to wait after a refusal by the Sink. A table that was live for less than the pause before has
// gained nothing from that try. The caller holds mu, and changes the phase afterwards.
func (t *table) sinkPause(now time.Time) time.Duration {
	if t.phase == phaseLive && now.Sub(t.liveSince) > t.sinkWait {
		t.sinkWait = 0
	}
	t.sinkWait = min(max(2*t.sinkWait, recheckSink), recheckLongest)
	return min(jitter(t.sinkWait), recheckLongest)
}

// end closes a load that came to a result other than content. The caller holds mu.
func (t *table) end() {
	t.attempt = nil
	t.feed.Store(nil)
	t.redefine = 0
	t.pace.failures = 0
}

// requestList asks for a search for tables that the patterns match.
func (f *Follower) requestList() {
	f.wantList()
	f.beginList()
}

// beginList has the loader begin a search that is counted as wanted.
func (f *Follower) beginList() {
	f.relist.Store(true)
	f.wakeLoader()
}

// wantList counts a search as wanted, which is begun later.
func (f *Follower) wantList() { f.listsWanted.Add(1) }

// listTables looks for tables that are not followed yet, and for those that were gone.
func (f *Follower) listTables(ctx context.Context) {
	wanted := f.listsWanted.Load()
	var names []schema.Name
	err := f.withConn(ctx, func(c *sqltext.Conn) error {
		if err := f.pos.waitPlace(ctx, coordinate{}); err != nil {
			return err
		}
		// What the log told of must be there for the list.
		if err := waitVisible(ctx, c, f.pos.mark()); err != nil {
			return err
		}
		var err error
		names, err = schema.List(ctx, c, f.cfg.Tables)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			f.log.Warn("tables cannot be listed", "err", err)
			if sleep(ctx, jitter(time.Second)) == nil {
				f.requestList()
			}
		}
		return
	}
	for _, name := range names {
		f.discover(name)
	}
	// A privilege may have been given since.
	for _, t := range f.tables.all() {
		t.mu.Lock()
		again := t.phase == phaseAbsent && t.attempt == nil && !t.wanted
		t.mu.Unlock()
		if again && f.recheckAbsent.Load() {
			f.requestLoad(t)
		}
	}
	f.recheckAbsent.Store(false)
	f.listsDone.Store(wanted)
}

// discover begins to follow a table that exists.
func (f *Follower) discover(name schema.Name) {
	t, isNew := f.tables.add(name)
	t.mu.Lock()
	again := t.phase == phaseAbsent && t.attempt == nil && !t.wanted
	if isNew || again {
		t.phase = phaseSuspended
		t.due = time.Now()
		f.log.Debug("table found", "table", name.String())
		f.cfg.Sink.Suspend(t.name.Schema, t.name.Table, "waits to be loaded")
	}
	t.mu.Unlock()
	if isNew || again {
		f.requestLoad(t)
	}
}

// withConn runs do on a connection to the server that the stream reads from, and runs it again when the connection was
// lost.
func (f *Follower) withConn(ctx context.Context, do func(c *sqltext.Conn) error) error {
	return retry(ctx, func() error {
		pool := f.pool.Load()
		c, err := pool.Get(ctx)
		if err != nil {
			return err
		}
		defer pool.Put(c)
		return do(c)
	}, func(err error) bool {
		return sqltext.IsConnectionError(err) || errors.Is(err, sqltext.ErrPoolClosed)
	})
}

// endOfLog reads the end of the log, over another connection than one that the caller may be using.
func (f *Follower) endOfLog(ctx context.Context) (at coordinate, err error) {
	err = f.withConn(ctx, func(c *sqltext.Conn) (err error) {
		at, _, err = logEnd(ctx, c)
		return err
	})
	return at, err
}
