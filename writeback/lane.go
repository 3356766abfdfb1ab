package writeback

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
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
	// maxContended bounds the memory of such rows.
	maxContended = 1024
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
	done  chan struct{} // closed when all have their answers
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
	// The answer, set before unit.done is closed.
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
		close(it.unit.done)
	}
}

// contended are the rows whose locks were waited for lately.
type contended struct {
	n    atomic.Int64 // of rows; there are none most of the time
	mu   sync.Mutex
	rows map[uint64]time.Time
}

func (c *contended) add(key uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || len(c.rows) >= maxContended {
		c.rows = map[uint64]time.Time{}
	}
	c.rows[key] = time.Now()
	c.n.Store(int64(len(c.rows)))
}

func (c *contended) has(key uint64) bool {
	if c.n.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.rows[key]
	if ok && time.Since(at) >= contendedTime {
		delete(c.rows, key)
		c.n.Store(int64(len(c.rows)))
		return false
	}
	return ok
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
	u.done = make(chan struct{})
	u.left.Store(int64(len(u.items)))
	w.laneFor(u).put(u)
	select {
	case <-u.done:
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
	<-u.done
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
		group := l.take()
		if group == nil {
			return
		}
		l.group(group)
	}
}

// take gives the next group, nil when nothing waits, which ends the lane's run.
func (l *lane) take() []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	var group []*item
	size, n := 0, 0
	for _, u := range l.queue {
		if len(group) > 0 && (len(group)+len(u.items) > maxGroup || size+u.bytes > maxGroupBytes || l.w.tooLong(size+u.bytes+len(group)+len(u.items))) {
			break
		}
		n++
		l.w.waiting.Add(-int64(len(u.items)))
		if u.taken.CompareAndSwap(false, true) {
			group = append(group, u.items...)
			size += u.bytes
		}
	}
	l.queue = append(l.queue[:0], l.queue[n:]...)
	clear(l.queue[len(l.queue):min(cap(l.queue), len(l.queue)+n)])
	if group == nil {
		l.running = false
	}
	return group
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

// batch is one try to commit a group. Afterwards each of its changes is in done, committed; or in again, undone and to be
// tried again; or has its answer, or goes its own way.
type batch struct {
	w          *Writer
	done, rest []*item
	again      []*item
	deadlock   bool
	gtid       string
	took       time.Duration // of the text that failed
}

// run sends the changes of rest as one transaction in one text. The server stops at the first one that fails; that one
// alone is undone, so what follows it is sent after it, and then the commit.
func (b *batch) run(ctx context.Context, c *sqltext.Conn) {
	single := len(b.rest) == 1
	begun := 0 // answers before those of rest
	var text strings.Builder
	for first := true; ; first = false {
		text.Reset()
		begun = 0
		if first && !single {
			text.WriteString("BEGIN;")
			begun = 1
		}
		for _, it := range b.rest {
			text.Write(it.sql)
			if !single {
				text.WriteByte(';')
			}
		}
		if !single {
			text.WriteString("COMMIT")
		}
		answers := 0
		began := time.Now()
		err := c.ExecAll(ctx, text.String(), func(i int, r sqltext.Changed) {
			answers++
			if at := i - begun; at >= 0 && at < len(b.rest) {
				b.rest[at].rows, b.rest[at].insertID = r.Rows, r.InsertID
			}
			if r.GTID != "" {
				b.gtid = r.GTID
			}
		})
		if err == nil {
			b.done, b.rest = append(b.done, b.rest...), nil
			return
		}
		b.took = time.Since(began)
		if !b.failed(ctx, c, answers-begun, single, err) {
			return
		}
	}
}

// failed sorts out what a text has left behind of which that many changes were carried out before err, all of them when it
// was the commit that failed. It reports that the transaction is to go on with the rest.
func (b *batch) failed(ctx context.Context, c *sqltext.Conn, executed int, single bool, err error) (goOn bool) {
	w := b.w
	all := slices.Concat(b.done, b.rest)
	code := sqltext.ServerCode(err)
	class := classOf(code)
	atCommit := executed >= len(b.rest)
	begun := executed >= 0
	if class == classDeadlock {
		w.stats.deadlocks.Add(1)
	}
	switch {
	case errors.Is(err, sqltext.ErrUnsent), code != 0 && !atCommit && sqltext.IsConnectionError(err):
		b.done = nil
		b.answer(all, unavailable(err))
		return false
	case code == 0 || sqltext.IsConnectionError(err):
		b.done = nil
		w.fenceUncertain(tablesOf(all))
		b.answer(all, uncertain(err))
		return false
	}
	if begun && !atCommit && class == classStatement {
		b.rest[executed].finish(refused(err))
		b.done, b.rest = slices.Concat(b.done, b.rest[:executed]), b.rest[executed+1:]
		if len(b.done) > 0 || len(b.rest) > 0 {
			return true
		}
	}
	if !single {
		rollback(ctx, c)
	}
	switch {
	case class == classStatement && begun && !atCommit: // it was all
	case class == classDeadlock:
		b.done, b.again, b.deadlock = nil, all, true
	case class == classReadOnly || !begun:
		b.done = nil
		b.answer(all, refused(err))
	case atCommit:
		// Refused by a plugin, or for want of space: what a server has done by then depends on the reason.
		b.done = nil
		w.fenceUncertain(tablesOf(all))
		b.answer(all, uncertain(err))
	default:
		failing := b.rest[executed]
		before, rest := slices.Concat(b.done, b.rest[:executed]), b.rest[executed+1:]
		b.done = nil
		if class != classLockWait {
			failing.finish(refused(err))
			b.again = slices.Concat(before, rest)
			break
		}
		w.stats.lockWaits.Add(1)
		w.contended.add(failing.key)
		b.again = b.withoutRow(failing.key, slices.Concat(before, b.rest[executed:]))
	}
	return false
}

// withoutRow sends the changes of a locked row their own way, and with each what its caller has sent beside it, so that
// the order of that stays. It returns the rest. If only the first went, the group would wait for each of the others again.
func (b *batch) withoutRow(key uint64, items []*item) (rest []*item) {
	for i := 0; i < len(items); {
		if items[i].key != key {
			i++
			continue
		}
		mine, others := ofUnit(items, items[i].unit)
		for _, it := range mine {
			if it.key == key {
				it.waited = b.took
			}
		}
		b.w.goAlone(mine, true)
		items, i = others, 0
	}
	return items
}

func (b *batch) answer(items []*item, err error) {
	for _, it := range items {
		it.finish(err)
	}
}

// rollback ends a transaction; a connection on which that fails is closed, which ends it too.
func rollback(ctx context.Context, c *sqltext.Conn) {
	if !c.Broken() && c.Exec(ctx, "ROLLBACK") != nil {
		c.Close()
	}
}
