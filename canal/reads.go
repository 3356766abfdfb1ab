package canal

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// A row that was read for a client may be kept beside the stream when three things are known of it:
//
//  1. everything up to some version is visible to its SELECT (Reading.Version, known before the SELECT begins);
//  2. everything that its SELECT may have seen has been applied (the end of the log is read after the SELECT, and the
//     stream has come there);
//  3. no change with a version above the first has touched its key (which who keeps the rows knows).
//
// One goroutine does the asking for all reads: each round reads the end of the log once, waits for the stream, answers the
// reads that had ended before, and finds out what is visible now.
const (
	// mostReads bounds the reads that wait. Those over it are not kept, which costs a later read.
	mostReads = 4096
	// readsTimeout bounds one round: a source that hangs must not hold rows for long.
	readsTimeout = 10 * time.Second
	// sightAge is how old what is known to be visible may be before it is asked for anew. The older it is, the more keys
	// have been touched since.
	sightAge = 50 * time.Millisecond
)

// Reading is the read of one row for which BeginRead was called.
type Reading struct {
	// Version is one up to which everything is visible to a SELECT that begins after BeginRead.
	Version uint64
	era     uint64
}

// sight is a point of the applied order up to which everything is visible on the source.
type sight struct {
	era, seq, version uint64
	at                time.Time
}

// waitingRead is a read that has ended.
type waitingRead struct {
	Reading
	server string
	done   func(applied bool)
}

// readQueue holds the reads that wait for the stream. The zero value is ready for use.
type readQueue struct {
	mu      sync.Mutex
	waiting []waitingRead
	closed  bool
	wake    chan struct{} // made on first use; guarded by mu
	seen    atomic.Pointer[sight]
}

// waker returns the channel that wakes the goroutine.
func (q *readQueue) waker() chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	return q.wake
}

// kick asks for a round.
func (q *readQueue) kick() {
	select {
	case q.waker() <- struct{}{}:
	default:
	}
}

// add queues a read; false says that there is no room.
func (q *readQueue) add(r waitingRead) bool {
	q.mu.Lock()
	if q.closed || len(q.waiting) >= mostReads {
		q.mu.Unlock()
		return false
	}
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	q.kick()
	return true
}

func (q *readQueue) take() []waitingRead {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting
	q.waiting = nil
	return batch
}

// see records what is visible, which only grows within an era.
func (q *readQueue) see(s sight) {
	for {
		have := q.seen.Load()
		if have != nil && (have.era > s.era || have.era == s.era && have.seq > s.seq) {
			return
		}
		if q.seen.CompareAndSwap(have, &s) {
			return
		}
	}
}

// BeginRead is called before a row of a hot table is read for a client. ok is false when the row could not be kept: the
// table has no HotTarget at present, or it is not known what a SELECT sees. It does no I/O.
func (f *Follower) BeginRead(schemaName, tableName string) (r Reading, ok bool) {
	t := f.tables.find(schema.Name{Schema: schemaName, Table: tableName})
	if t == nil {
		return Reading{}, false
	}
	t.mu.Lock()
	hot, attached := t.hot && t.phase == phaseLive, t.attached
	t.mu.Unlock()
	if !hot {
		return Reading{}, false
	}
	s, era := f.reads.seen.Load(), f.era.Load()
	if s == nil || s.era != era || s.seq < attached {
		f.reads.kick()
		return Reading{}, false
	}
	if time.Since(s.at) > sightAge {
		f.reads.kick()
	}
	// See xaDelay. What an XA transaction changed may be invisible although what came after it is not.
	seq, version := s.seq, s.version
	wait, first := t.xaPending(attached)
	if first > 0 && first <= seq {
		version -= seq - (first - 1)
		seq = first - 1
	}
	if wait > 0 || seq < attached {
		return Reading{}, false
	}
	return Reading{Version: version, era: era}, true
}

// EndRead is called after the SELECT of a read has ended; server is the one that answered it, as Identify names it. done
// is called once: with true when everything that the SELECT may have seen has been applied, with false when that will not
// be known. It may be called at once, holds up others while it runs, and must not call the Follower.
func (f *Follower) EndRead(r Reading, server string, done func(applied bool)) {
	if !f.reads.add(waitingRead{Reading: r, server: server, done: done}) {
		done(false)
	}
}

// runReads serves the queue until ctx ends, and then empties it.
func (f *Follower) runReads(ctx context.Context) {
	wake := f.reads.waker()
	var pause backoff
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-wake:
			if f.readsRound(ctx) == nil {
				pause = backoff{}
			} else if sleep(ctx, pause.next()) == nil {
				f.reads.kick() // reads that came meanwhile
			}
		}
	}
	f.reads.mu.Lock()
	f.reads.closed = true
	f.reads.mu.Unlock()
	for _, r := range f.reads.take() {
		r.done(false)
	}
}

// errNoSource ends a round before the source was reached for the first time.
var errNoSource = errors.New("the source has not been reached")

// readsRound answers the reads that have ended before it began.
func (f *Follower) readsRound(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readsTimeout)
	defer cancel()
	batch := f.reads.take()
	defer func() {
		for _, r := range batch {
			r.done(false)
		}
	}()
	era := f.era.Load()
	pool := f.pool.Load()
	if pool == nil {
		return errNoSource
	}
	c, err := pool.Get(ctx)
	if err != nil {
		return err
	}
	defer pool.Put(c)
	if len(batch) > 0 {
		if err := f.awaitReads(ctx, c); err != nil {
			return err
		}
		identity := ""
		f.state.set(func(s *state) { identity = s.source.identity })
		// Places and versions of another era do not compare with those of this one.
		same := f.era.Load() == era
		for len(batch) > 0 {
			r := batch[0]
			batch = batch[1:]
			r.done(same && r.era == era && r.server == identity)
		}
	}
	m := f.pos.mark()
	if err := waitVisible(ctx, c, m); err != nil {
		return err
	}
	f.reads.see(sight{era: era, seq: m.seq, version: m.version, at: time.Now()})
	return nil
}

// awaitReads returns when everything has been applied that a SELECT may have seen which has ended.
func (f *Follower) awaitReads(ctx context.Context, c *sqltext.Conn) error {
	end, _, err := logEnd(ctx, c)
	if err != nil {
		return err
	}
	f.hook(hookReadsEnd, schema.Name{})
	return f.pos.waitPlace(ctx, end)
}
