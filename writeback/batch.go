package writeback

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
)

// batch is one try to commit a group. Afterwards each of its changes is in done, committed; or in again, undone and to be
// tried again; or has its answer, or goes its own way.
type batch struct {
	w          *Writer
	executed   func() // called when only the answer to the commit is missing
	done, rest []*item
	again      []*item
	deadlock   bool
	gtid       string
	open       bool          // the transaction is
	text       []byte        // the one that was sent last
	took       time.Duration // of the text that failed
}

// run sends the changes of rest as one transaction in one text. The server stops at the first statement that fails; that one
// alone is undone, so what follows it is sent after it, and then the commit.
func (b *batch) run(ctx context.Context, c *sqltext.Conn) {
	for {
		steps := b.w.arrange(b.rest)
		alone := !b.open && len(steps) == 1
		begun := 0 // answers before those of the steps
		b.text = b.text[:0]
		if !alone && !b.open {
			b.text = append(b.text, "BEGIN;"...)
			begun = 1
		}
		for i := range steps {
			b.text = steps[i].appendSQL(b.text)
			if !alone {
				b.text = append(b.text, ';')
			}
		}
		if !alone {
			b.text = append(b.text, "COMMIT"...)
		}
		answers := 0
		began := time.Now()
		err := c.ExecAll(ctx, string(b.text), func(i int, r sqltext.Changed) {
			answers++
			if at := i - begun; at >= 0 && at < len(steps) {
				steps[at].answered(r)
				if at == len(steps)-1 {
					b.executed()
				}
			}
			if r.GTID != "" {
				b.gtid = r.GTID
			}
		})
		if err == nil {
			b.w.countMerged(steps)
			b.done, b.rest = append(b.done, b.found(steps)...), nil
			return
		}
		b.took = time.Since(began)
		b.open = b.open || !alone && answers > 0
		if !b.failed(ctx, c, steps, answers-begun, err) {
			return
		}
	}
}

// errUnchecked says that the server has not kept to the check of a merged update.
var errUnchecked = errors.New("some rows of an update were not there, which the server was to tell before the commit")

// found gives the changes of steps that were committed, without those of which it can't be told which were made: the check
// should have kept these from being committed.
func (b *batch) found(steps []step) (done []*item) {
	for _, s := range steps {
		switch {
		case s.check:
		case s.short:
			b.w.fenceUncertain(tablesOf(s.items))
			b.answer(s.items, uncertain(errUnchecked))
		default:
			done = append(done, s.items...)
		}
	}
	return done
}

// failed sorts out what a text has left behind of which that many steps were carried out before err, all of them when it
// was the commit that failed; fewer than none when it was the beginning. It reports that the transaction is to go on with
// the rest.
func (b *batch) failed(ctx context.Context, c *sqltext.Conn, steps []step, executed int, err error) (goOn bool) {
	w := b.w
	all := slices.Concat(b.done, b.rest)
	code := sqltext.ServerCode(err)
	class := classOf(code)
	atCommit := executed >= len(steps)
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
	var failing step
	if begun && !atCommit {
		failing = steps[executed]
	}
	switch {
	case failing.check:
		// A row was not there. Which one, the others by themselves tell.
		w.parted(failing.items)
		b.rollback(ctx, c)
		b.done, b.rest = nil, all
		return true
	case failing.items != nil && class == classStatement:
		b.done, b.rest = append(b.done, itemsOf(steps[:executed])...), itemsOf(steps[executed+1:])
		w.countMerged(steps[:executed])
		if len(failing.items) > 1 {
			w.parted(failing.items)
			b.rest = slices.Concat(failing.items, b.rest)
		} else {
			failing.items[0].finish(refused(err))
		}
		if len(b.done) > 0 || len(b.rest) > 0 {
			return true
		}
	}
	b.rollback(ctx, c)
	switch {
	case class == classStatement && failing.items != nil: // it was all
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
		b.done, b.again = nil, all
		switch {
		case class == classLockWait:
			w.stats.lockWaits.Add(1)
			b.again = b.withoutRows(failing.locked(ctx, c), all)
		case len(failing.items) > 1:
			w.parted(failing.items)
		default:
			failing.items[0].finish(refused(err))
			b.again = slices.DeleteFunc(all, func(it *item) bool { return it == failing.items[0] })
		}
	}
	return false
}

// withoutRows sends the changes of locked rows their own way, and with each what its caller has sent beside it, so that
// the order of that stays. It returns the rest. If only the first went, the group would wait for each of the others again.
func (b *batch) withoutRows(locked, items []*item) (rest []*item) {
	keys := make(map[uint64]bool, len(locked))
	for _, it := range locked {
		keys[it.key] = true
		b.w.contended.add(it.key)
	}
	for i := 0; i < len(items); {
		if !keys[items[i].key] {
			i++
			continue
		}
		mine, others := ofUnit(items, items[i].unit)
		for _, it := range mine {
			if keys[it.key] {
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

// rollback ends the transaction, if there is one.
func (b *batch) rollback(ctx context.Context, c *sqltext.Conn) {
	if b.open {
		rollback(ctx, c)
	}
	b.open = false
}
