package writeback

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// errBehindLock says that a change has waited for its turn at a locked row for as long as it would have for the lock.
var errBehindLock = errors.New("as many changes as may wait for locked rows do so already")

// alone carries out one change by itself, as a statement that commits. contended says that the lock of its row was waited
// for lately: such changes have connections of their own, so that they leave those of other transactions free, and what
// they have waited already, in a group and for a connection, counts towards Config.LockWait.
func (w *Writer) alone(it *item, contended bool) {
	w.stats.alone.Add(1)
	server := w.server.Load()
	ctx, cancel := w.limit(server)
	defer cancel()
	pool, until := server.single, time.Time{}
	if contended {
		pool, until = server.contended, time.Now().Add(w.cfg.LockWait-it.waited)
	}
	for try := 1; ; try++ {
		c, err := server.getUntil(ctx, pool, until)
		if err != nil {
			if errors.Is(err, errBehindLock) {
				it.finish(&Refused{Number: handlerNumbers[codeLockWait], Err: err})
				return
			}
			it.finish(unavailable(err))
			return
		}
		sql, before := string(it.sql), 0
		if contended {
			sql, before = lockWaits(time.Until(until))+";"+sql, 1
		}
		var r sqltext.Changed
		err = c.ExecAll(ctx, sql, func(i int, got sqltext.Changed) {
			if i == before {
				r = got
			}
		})
		mark := w.mark(ctx, server, c, r.GTID, err == nil)
		pool.Put(c)
		if err == nil {
			it.rows, it.insertID = r.Rows, r.InsertID
			it.finish(w.acknowledge(mark, []*schema.Table{it.def}))
			return
		}
		if sqltext.ServerCode(err) == codeDeadlock && try < singleTries {
			w.stats.deadlocks.Add(1)
			pause(try)
			continue
		}
		if sqltext.ServerCode(err) == codeLockWait {
			w.contended.add(it.key) // for as long as the lock is held
		}
		it.finish(w.failure(err, []*schema.Table{it.def}))
		return
	}
}

// getUntil is get; with a time it fails with errBehindLock when no connection is free before that or a second from now,
// whichever is later.
func (s *server) getUntil(ctx context.Context, pool *sqltext.Pool, until time.Time) (*sqltext.Conn, error) {
	if !until.IsZero() {
		until = later(until, time.Now().Add(time.Second))
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, until, errBehindLock)
		defer cancel()
	}
	return s.get(ctx, pool)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lockWaits is the statement that bounds the session's waits for locks. The servers count whole seconds, from one.
func lockWaits(d time.Duration) string {
	seconds := strconv.FormatInt(int64(max(d.Round(time.Second), time.Second)/time.Second), 10)
	return "SET innodb_lock_wait_timeout = " + seconds + ", lock_wait_timeout = " + seconds
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
