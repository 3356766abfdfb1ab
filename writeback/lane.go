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
	// overlap is how many changes must wait for a group to begin while another one is being committed. A commit costs the
	// server as much as fifty changes.
	overlap = 16
	// groupLockWait is how long a group waits for a lock that somebody else holds, which is as long as all in it wait.
	groupLockWait = time.Second
	// contendedTime is how long changes of a row whose lock was waited for go past the lane.
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
	since time.Time // when the unit was put into the lane; zero where its caller looks after the time
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

// lane commits changes in groups: what came while one group was being carried out is the next. One group at a time carries
// out its statements, so none waits for the locks of another one that waits for it. While the server writes a commit to its
// disk the next group may begin, if enough waits for it; the server joins such commits.
type lane struct {
	w *Writer

	mu        sync.Mutex // guards what follows
	queue     []*unit
	waiting   int  // changes in it
	executing bool // the statements of a group are being carried out
	active    int  // groups whose commit has no answer
}

// submit carries changes out and waits for their answers. An error is that of all of them.
func (w *Writer) submit(ctx context.Context, u *unit) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.TimeLimit, ErrTimeLimit)
	defer cancel()
	done := make(chan struct{})
	u.ended = func() { close(done) }
	u.left.Store(int64(len(u.items)))
	w.lane.put(u)
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

// put gives changes to the lane, or past it when the lock of one of the rows was waited for lately.
func (l *lane) put(u *unit) {
	for _, it := range u.items {
		if l.w.contended.has(it.key) {
			u.taken.Store(true)
			l.w.goAlone(u.items, true)
			return
		}
	}
	l.change(func() {
		l.queue = append(l.queue, u)
		l.waiting += len(u.items)
	})
}

// change changes the lane, and begins the next group if it may.
func (l *lane) change(by func()) {
	l.mu.Lock()
	by()
	late := l.begin()
	l.mu.Unlock()
	for _, u := range late {
		for _, it := range u.items {
			it.finish(ErrTimeLimit)
		}
	}
}

// begin begins the next group if it may. It returns units that have waited too long. Guarded by mu.
func (l *lane) begin() (late []*unit) {
	if l.executing || len(l.queue) == 0 || l.active > 0 && (l.active >= l.w.cfg.Groups || l.waiting < overlap) {
		return nil
	}
	group, late := l.take()
	if group != nil {
		l.executing = true
		l.active++
		l.w.wg.Go(func() { l.run(group) })
	}
	return late
}

// run carries out a group.
func (l *lane) run(items []*item) {
	executing := true
	l.group(items, func() {
		if executing {
			executing = false
			l.change(func() { l.executing = false })
		}
	})
	l.change(func() {
		l.active--
		l.executing = l.executing && !executing
	})
}

// take gives the next group, nil when nothing waits; and units that have waited too long, as those do that came right behind
// a group that has used up its time. They are not begun. Guarded by mu.
func (l *lane) take() (group []*item, late []*unit) {
	size, n := 0, 0
	for _, u := range l.queue {
		if len(group) > 0 && (len(group)+len(u.items) > maxGroup || size+u.bytes > maxGroupBytes || l.w.tooLong(size+u.bytes+len(group)+len(u.items))) {
			break
		}
		n++
		l.waiting -= len(u.items)
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
	return group, late
}

// group carries out a group, and calls executed when only the answer to its commit is missing. Its answers are given when
// the follower has applied it, while the lane goes on.
func (l *lane) group(items []*item, executed func()) {
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
		b := batch{w: w, rest: items, executed: executed}
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
			try = -1 // others were taken out of the group, or are not merged any more; at least one each time
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
