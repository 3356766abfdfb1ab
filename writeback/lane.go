package writeback

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/schema"
)

const (
	// maxGroup and maxGroupBytes bound what one transaction holds. 256 gave six times the rate of single commits on a
	// durable server; more would make the first wait for the last without gaining.
	maxGroup      = 256
	maxGroupBytes = 1 << 20
	// groupLockWait is how long a group waits for a lock that somebody else holds, which is as long as all in it wait.
	groupLockWait = time.Second
	// contendedTime is how long changes of a row whose lock was waited for go past the lanes.
	contendedTime = 5 * time.Second
	// unmergedTime is how long changes of a table are sent as they are after a merged statement was in vain.
	unmergedTime = 250 * time.Millisecond
	// maxRecent bounds the memory of such rows and tables.
	maxRecent = 1024
	// groupTries is how often a group that was the victim of a deadlock is tried as a group.
	groupTries = 2
	// singleTries is how often a single change is tried that was the victim of a deadlock.
	singleTries = 5
)

// unit is some changes of one caller, which are carried out in their order, as if one after the other.
type unit struct {
	items []*item
	bytes int         // of their statements
	taken atomic.Bool // by who carries it out, or by who gave it up
	left  atomic.Int64
	ended func()    // called once, when all have their answers
	since time.Time // when the unit was put into a lane; zero where its caller looks after the time
	last  placed    // of its changes in the steps that a batch is arranging
}

// item is one change.
type item struct {
	sql  []byte
	key  uint64 // of the row
	def  *schema.Table
	unit *unit
	// generated says that an insert makes its AUTO_INCREMENT value.
	generated bool
	// waited is how long a group that the change was in has waited for the row's lock.
	waited time.Duration
	// form says how the statement can be made one with those of others (merge.go); apart says that it is not to be.
	form  form
	apart bool
	// The answer, set before unit.ended is called.
	rows, insertID uint64
	err            error
}

// transactional reports that the table's engine undoes what is rolled back. Changes of others can't be in a group, which
// may have to be begun again.
func (it *item) transactional() bool {
	return strings.EqualFold(it.def.Engine, "InnoDB") || strings.EqualFold(it.def.Engine, "RocksDB")
}

// madeID is the AUTO_INCREMENT value that the server has made, or 0.
func (it *item) madeID() uint64 {
	if it.err != nil || !it.generated {
		return 0
	}
	return it.insertID
}

func (it *item) finish(err error) {
	it.err = err
	if it.unit.left.Add(-1) == 0 {
		it.unit.ended()
	}
}

// lane commits changes in groups: what came while one group was being committed is the next. Where there is so much to do
// that several lanes work, each has rows of its own, so that they do not wait for each other's locks.
type lane struct {
	w       *Writer
	mu      sync.Mutex
	queue   []*unit
	running bool
}

// submit carries changes out and waits for their answers. An error is that of all of them.
func (w *Writer) submit(ctx context.Context, u *unit) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.TimeLimit, ErrTimeLimit)
	defer cancel()
	done := make(chan struct{})
	u.ended = func() { close(done) }
	u.left.Store(int64(len(u.items)))
	w.laneFor(u).put(u)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if u.taken.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
	}
	if !errors.Is(context.Cause(ctx), ErrTimeLimit) {
		return uncertain(context.Cause(ctx)) // the caller does not want to know
	}
	// It is being carried out, which is bounded in time too: only its end can tell what became of it.
	<-done
	return nil
}

// laneFor chooses a lane: the first, as long as one group can hold what waits, since few large commits cost the server
// least; else by the row.
func (w *Writer) laneFor(u *unit) *lane {
	if w.waiting.Load() < maxGroup {
		return &w.lanes[0]
	}
	return &w.lanes[u.items[0].key%uint64(len(w.lanes))]
}

// put gives changes to the lane, or past it when the lock of one of the rows was waited for lately.
func (l *lane) put(u *unit) {
	for _, it := range u.items {
		if l.w.contended.has(it.key) {
			u.taken.Store(true)
			l.w.goAlone(u.items, true)
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, u)
	l.w.waiting.Add(int64(len(u.items)))
	if !l.running {
		l.running = true
		l.w.wg.Go(l.run)
	}
}

// run carries out groups until nothing waits.
func (l *lane) run() {
	for {
		group, late := l.take()
		for _, u := range late {
			for _, it := range u.items {
				it.finish(ErrTimeLimit)
			}
		}
		if group == nil {
			return
		}
		l.group(group)
	}
}

// take gives the next group, nil when nothing waits, which ends the lane's run; and units that have waited too long, as
// those do that came right behind a group that has used up its time. They are not begun.
func (l *lane) take() (group []*item, late []*unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size, n := 0, 0
	for _, u := range l.queue {
		if len(group) > 0 && (len(group)+len(u.items) > maxGroup || size+u.bytes > maxGroupBytes || l.w.tooLong(size+u.bytes+len(group)+len(u.items))) {
			break
		}
		n++
		l.w.waiting.Add(-int64(len(u.items)))
		switch {
		case !u.taken.CompareAndSwap(false, true):
		case !u.since.IsZero() && time.Since(u.since) >= l.w.cfg.TimeLimit*9/10:
			late = append(late, u)
		default:
			group = append(group, u.items...)
			size += u.bytes
		}
	}
	l.queue = append(l.queue[:0], l.queue[n:]...)
	clear(l.queue[len(l.queue):min(cap(l.queue), len(l.queue)+n)])
	if group == nil {
		l.running = false
	}
	return group, late
}

// group carries out a group. Its answers are given when the follower has applied it, while the lane goes on.
func (l *lane) group(items []*item) {
	w := l.w
	for try := 0; len(items) > 0; try++ {
		if try >= groupTries {
			for len(items) > 0 {
				mine, others := ofUnit(items, items[0].unit)
				w.goAlone(mine, false)
				items = others
			}
			return
		}
		if try > 0 {
			pause(try)
		}
		server := w.server.Load()
		ctx, cancel := w.limit(server)
		c, err := server.get(ctx, server.groups)
		if err != nil {
			cancel()
			for _, it := range items {
				it.finish(unavailable(err))
			}
			return
		}
		b := batch{w: w, rest: items}
		b.run(ctx, c)
		until := w.mark(ctx, server, c, b.gtid, len(b.done) > 0)
		server.groups.Put(c)
		cancel()
		if len(b.done) > 0 {
			w.stats.groups.Add(1)
			w.stats.grouped.Add(uint64(len(b.done)))
			done := b.done
			w.wg.Go(func() {
				err := w.acknowledge(until, tablesOf(done))
				for _, it := range done {
					it.finish(err)
				}
			})
		}
		items = b.again
		if !b.deadlock {
			try = -1 // others were taken out of the group; at least one each time
		}
	}
}

// ofUnit sorts items by whether they are the unit's, in their order.
func ofUnit(items []*item, u *unit) (mine, others []*item) {
	for _, it := range items {
		if it.unit == u {
			mine = append(mine, it)
		} else {
			others = append(others, it)
		}
	}
	return mine, others
}

// goAlone carries out changes of one unit, each by itself, beside the lane.
func (w *Writer) goAlone(items []*item, contended bool) {
	w.wg.Go(func() {
		for _, it := range items {
			w.alone(it, contended)
		}
	})
}

// pause waits a short time of random length, longer with each try.
func pause(try int) { time.Sleep(time.Duration(rand.Int64N(int64(try) * int64(5*time.Millisecond)))) }

// tablesOf gives the tables of changes, each once.
func tablesOf(items []*item) []*schema.Table {
	var defs []*schema.Table
	seen := map[schema.Name]bool{}
	for _, it := range items {
		name := schema.Name{Schema: it.def.Schema, Table: it.def.Name}
		if !seen[name] {
			seen[name] = true
			defs = append(defs, it.def)
		}
	}
	return defs
}
