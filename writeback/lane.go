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

// item is one change that waits for its commit.
type item struct {
	sql   []byte
	key   uint64 // of the row
	def   *schema.Table
	taken atomic.Bool // by who carries it out, or by who gave it up
	done  chan struct{}
	// The answer, set before done is closed.
	rows, insertID uint64
	err            error
}

func (it *item) finish(err error) {
	it.err = err
	close(it.done)
}

// lane commits changes of some rows in groups: what came while one group was being committed is the next. A row has one
// lane, so that lanes do not wait for each other's locks, and its changes are carried out in the order in which they came,
// but for those that had to be tried again.
type lane struct {
	w         *Writer
	mu        sync.Mutex
	queue     []*item
	running   bool
	contended map[uint64]time.Time
}

// submit carries a change out and waits for its answer.
func (w *Writer) submit(ctx context.Context, it *item) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.TimeLimit, ErrTimeLimit)
	defer cancel()
	l := &w.lanes[it.key%uint64(len(w.lanes))]
	l.put(it)
	select {
	case <-it.done:
		return it.err
	case <-ctx.Done():
		if it.taken.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
	}
	// It is being carried out, which is bounded in time too: only its end can tell what became of it.
	<-it.done
	return it.err
}

// put gives a change to the lane, or past it when the row's lock was waited for lately.
func (l *lane) put(it *item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.contended[it.key]; ok {
		if time.Since(at) < contendedTime {
			it.taken.Store(true)
			l.w.goAlone(it)
			return
		}
		delete(l.contended, it.key)
	}
	l.queue = append(l.queue, it)
	if !l.running {
		l.running = true
		l.w.wg.Go(l.run)
	}
}

func (l *lane) avoid(key uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contended == nil || len(l.contended) >= maxContended {
		l.contended = map[uint64]time.Time{}
	}
	l.contended[key] = time.Now()
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
	for _, it := range l.queue {
		if len(group) == maxGroup || len(group) > 0 && (size+len(it.sql) > maxGroupBytes || l.w.tooLong(size+len(it.sql)+len(group))) {
			break
		}
		n++
		if it.taken.CompareAndSwap(false, true) {
			group = append(group, it)
			size += len(it.sql)
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
			for _, it := range items {
				w.goAlone(it)
			}
			return
		}
		if try > 0 {
			pause(try)
		}
		ctx, cancel := context.WithTimeoutCause(w.ctx, w.cfg.TimeLimit, ErrTimeLimit)
		c, err := w.groups.Get(ctx)
		if err != nil {
			cancel()
			for _, it := range items {
				it.finish(unavailable(err))
			}
			return
		}
		b := batch{w: w, l: l, rest: items}
		b.run(ctx, c)
		until := w.mark(ctx, c, b.gtid, len(b.done) > 0)
		w.groups.Put(c)
		cancel()
		if len(b.done) > 0 {
			w.stats.groups.Add(1)
			w.stats.grouped.Add(uint64(len(b.done)))
			done := b.done
			w.wg.Go(func() {
				w.acknowledge(until, tablesOf(done))
				for _, it := range done {
					it.finish(nil)
				}
			})
		}
		items = b.again
		if !b.deadlock {
			try = -1 // others were taken out of the group; at least one each time
		}
	}
}

func (w *Writer) goAlone(it *item) { w.wg.Go(func() { w.alone(it) }) }

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
	l          *lane
	done, rest []*item
	again      []*item
	deadlock   bool
	gtid       string
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
		b.again = slices.Concat(b.done, b.rest[:executed], b.rest[executed+1:])
		b.done = nil
		if class != classLockWait {
			failing.finish(refused(err))
			break
		}
		w.stats.lockWaits.Add(1)
		b.l.avoid(failing.key)
		w.goAlone(failing)
	}
	return false
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

// alone carries out one change by itself, as a statement that commits.
func (w *Writer) alone(it *item) {
	w.stats.alone.Add(1)
	ctx, cancel := context.WithTimeoutCause(w.ctx, w.cfg.TimeLimit, ErrTimeLimit)
	defer cancel()
	for try := 1; ; try++ {
		c, err := w.single.Get(ctx)
		if err != nil {
			it.finish(unavailable(err))
			return
		}
		var r sqltext.Changed
		err = c.ExecAll(ctx, string(it.sql), func(_ int, got sqltext.Changed) { r = got })
		until := w.mark(ctx, c, r.GTID, err == nil)
		w.single.Put(c)
		if err == nil {
			it.rows, it.insertID = r.Rows, r.InsertID
			w.acknowledge(until, []*schema.Table{it.def})
			it.finish(nil)
			return
		}
		if sqltext.ServerCode(err) == codeDeadlock && try < singleTries {
			w.stats.deadlocks.Add(1)
			pause(try)
			continue
		}
		it.finish(w.failure(err, []*schema.Table{it.def}))
		return
	}
}

// failure is the answer to a statement that commits by itself, or to a COMMIT, that has failed.
func (w *Writer) failure(err error, tables []*schema.Table) error {
	code := sqltext.ServerCode(err)
	switch {
	case errors.Is(err, sqltext.ErrUnsent), errors.Is(err, sqltext.ErrPoolClosed):
		return unavailable(err)
	case code == 0 || sqltext.IsConnectionError(err):
		w.fenceUncertain(tables)
		return uncertain(err)
	case code == codeLockWait:
		w.stats.lockWaits.Add(1)
	case code == codeDeadlock:
		w.stats.deadlocks.Add(1)
	}
	return refused(err)
}
