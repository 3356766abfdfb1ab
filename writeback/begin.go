package writeback

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/schema"
)

// Result is the answer to one change, as Change gives it.
type Result struct {
	Rows int
	ID   uint64
	Err  error
}

// Begin is Changes for callers that do not wait: ended is called once with the results, in the order of the changes, by
// another goroutine or within this call, and must not block. It does nothing and returns false where Changes would not
// carry them out in one group, or they can't be made into statements; then that is to be called.
//
// Changes that a group never took within Config.TimeLimit end with ErrTimeLimit when the group before them has ended.
func (w *Writer) Begin(ctx context.Context, changes []*schema.Change, ended func([]Result)) bool {
	if len(changes) == 0 || len(changes) > maxGroup || !w.enter() {
		return false
	}
	u := &unit{items: make([]*item, 0, len(changes)), since: time.Now()}
	for _, c := range changes {
		it, err := w.prepare(c)
		if err != nil || it == nil || !it.transactional() || u.bytes+len(it.sql) > maxGroupBytes {
			w.changes.Done()
			return false
		}
		u.add(it)
	}
	results := make([]Result, len(changes))
	var answered atomic.Bool
	end := func(all error) {
		if answered.Swap(true) {
			return
		}
		for i, c := range changes {
			r := &results[i]
			if r.Err = all; all == nil {
				r.Rows, r.ID, r.Err = u.items[i].answer(c.Kind)
			}
			w.finished(c.Def, c.Kind, u.since, r.Err)
		}
		ended(results)
		w.changes.Done()
	}
	abandoned := context.AfterFunc(ctx, func() {
		if u.taken.CompareAndSwap(false, true) {
			end(context.Cause(ctx))
			return
		}
		end(uncertain(context.Cause(ctx))) // the caller does not want to know
	})
	u.ended = func() {
		abandoned()
		end(nil)
	}
	u.left.Store(int64(len(u.items)))
	w.lane.put(u)
	return true
}

// add puts a change into the unit.
func (u *unit) add(it *item) {
	it.unit = u
	u.items = append(u.items, it)
	u.bytes += len(it.sql) + it.form.longer()
}

// answer gives what Change returns of a change of that kind.
func (it *item) answer(kind schema.ChangeKind) (rows int, id uint64, err error) {
	if it.err != nil {
		return 0, 0, it.err
	}
	if kind == schema.ChangeUpsert {
		return 1, it.madeID(), nil // the servers count a changed row twice
	}
	return int(it.rows), it.madeID(), nil
}
