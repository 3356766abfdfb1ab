package writeback

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

const (
	// maxQueuedBytes bounds the statements for the rows that one search has found.
	maxQueuedBytes = 64 << 20
	// flushBytes is the size of the texts in which they are sent.
	flushBytes = 1 << 20
)

// Tx is a transaction of Transact. It belongs to the function that it was given to, during its call.
type Tx struct {
	w    *Writer
	ctx  context.Context
	c    *sqltext.Conn
	def  *schema.Table
	rows int

	queue  [][]byte // statements for the rows of the search at hand
	queued int      // bytes
	found  int      // rows that need no statement
	where  []byte
}

// Search gives the rows of s to row, in the order of the index, and locks them until the transaction ends. All rows of
// the search are read and locked, so it should have a limit. Rows that row marks with Change are changed when all have
// been read.
func (tx *Tx) Search(s *schema.Search, row func(row rowcodec.Row) error) error {
	own := *s
	if own.Columns != nil && tx.def.Key >= 0 {
		own.Columns = append([]int(nil), s.Columns...)
		for _, p := range tx.def.Indexes[tx.def.Key].Parts {
			own.Columns = append(own.Columns, p.Column)
		}
	}
	if err := dbreader.SearchLocked(tx.ctx, tx.c, &own, row); err != nil {
		return err
	}
	return tx.flush()
}

// Change changes a row that Search is giving. c's Key and Index do not matter.
func (tx *Tx) Change(c *schema.Change, row rowcodec.Row) error {
	if !namesRows(tx.def) {
		return fmt.Errorf("%s: %w", tx.def.FullName(), ErrNoKey)
	}
	key := rowKey(tx.def, row)
	tx.where = appendRow(tx.where[:0], tx.def, key)
	sql, changes, err := appendChange(nil, c, tx.where, tx.def.Key, key, nil)
	if err != nil {
		return err
	}
	if !changes {
		tx.found++
		return nil
	}
	if tx.queued += len(sql); tx.queued > maxQueuedBytes || tx.w.tooLong(len(sql)) {
		return fmt.Errorf("%s: %w", tx.def.FullName(), ErrTooLarge)
	}
	tx.queue = append(tx.queue, sql)
	return nil
}

// Insert puts a row into the table, at once; it is not for calls within Search. c is a ChangeInsert.
func (tx *Tx) Insert(c *schema.Change) error {
	sql, _, _ := appendInsert(nil, c)
	if tx.w.tooLong(len(sql)) {
		return fmt.Errorf("%s: %w", tx.def.FullName(), ErrTooLarge)
	}
	return tx.c.ExecAll(tx.ctx, string(sql), func(_ int, r sqltext.Changed) { tx.rows += int(r.Rows) })
}

// Empty deletes all rows of the table, by one DELETE: triggers fire, foreign keys are looked at, and no other privilege is
// needed. It is not for calls within Search.
func (tx *Tx) Empty() error {
	sql := appendTable([]byte("DELETE FROM "), tx.def)
	return tx.c.ExecAll(tx.ctx, string(sql), func(_ int, r sqltext.Changed) { tx.rows += int(r.Rows) })
}

// changeByKey changes the row that c's key finds, in a way that only a search can find it.
func (tx *Tx) changeByKey(c *schema.Change) error {
	return tx.Search(&schema.Search{Def: c.Def, Index: c.Index, Values: c.Key, Columns: []int{}, Limit: 1}, func(row rowcodec.Row) error {
		return tx.Change(c, row)
	})
}

// flush sends the changes of the rows that were found.
func (tx *Tx) flush() error {
	tx.rows += tx.found
	tx.found = 0
	for len(tx.queue) > 0 {
		var text strings.Builder
		n := 0
		for n < len(tx.queue) && (n == 0 || text.Len()+len(tx.queue[n]) < flushBytes) {
			if n > 0 {
				text.WriteByte(';')
			}
			text.Write(tx.queue[n])
			n++
		}
		if err := tx.c.ExecAll(tx.ctx, text.String(), func(_ int, r sqltext.Changed) { tx.rows += int(r.Rows) }); err != nil {
			return err
		}
		tx.queue = tx.queue[n:]
	}
	tx.queue, tx.queued = nil, 0
	return nil
}

// transact runs fn in a transaction, again when that was undone by a deadlock.
func (w *Writer) transact(ctx context.Context, def *schema.Table, fn func(tx *Tx) error) (rows int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.TimeLimit, ErrTimeLimit)
	defer cancel()
	server := w.server.Load()
	ctx, turn := context.WithCancelCause(ctx)
	defer turn(nil)
	defer context.AfterFunc(server.ctx, func() { turn(context.Cause(server.ctx)) })()
	for try := 1; ; try++ {
		rows, err = w.transactOnce(ctx, server, def, fn)
		if err != nil && sqltext.ServerCode(err) == codeDeadlock {
			w.stats.deadlocks.Add(1)
			if try < singleTries {
				pause(try)
				continue
			}
		}
		return rows, err
	}
}

func (w *Writer) transactOnce(ctx context.Context, server *server, def *schema.Table, fn func(tx *Tx) error) (rows int, err error) {
	c, err := server.get(ctx, server.single)
	if err != nil {
		return 0, unavailable(err)
	}
	ended := false
	defer func() {
		if !ended {
			c.Close() // fn panicked
		}
		server.single.Put(c)
	}()
	tx := &Tx{w: w, ctx: ctx, c: c, def: def}
	err = c.Exec(ctx, "BEGIN")
	if err == nil {
		err = fn(tx)
	}
	if err != nil {
		rollback(ctx, c)
		ended = true
		return 0, undone(err)
	}
	var gtid string
	err = c.ExecAll(ctx, "COMMIT", func(_ int, r sqltext.Changed) { gtid = r.GTID })
	ended = true
	if err != nil {
		if sqltext.ServerCode(err) == codeDeadlock {
			return 0, refused(err)
		}
		if !errors.Is(err, sqltext.ErrUnsent) {
			w.fenceUncertain([]*schema.Table{def})
			return 0, uncertain(err)
		}
		return 0, unavailable(err)
	}
	w.stats.transactions.Add(1)
	if err := w.acknowledge(w.mark(ctx, server, c, gtid, true), []*schema.Table{def}); err != nil {
		return 0, err
	}
	return tx.rows, nil
}

// undone is the answer of a transaction that did not come to its commit.
func undone(err error) error {
	code := sqltext.ServerCode(err)
	switch {
	case errors.Is(err, ErrTimeLimit):
		return err
	case errors.Is(err, errTurned):
		return unavailable(err)
	case sqltext.IsConnectionError(err), errors.Is(err, sqltext.ErrMalformed), errors.Is(err, sqltext.ErrUnsent):
		return unavailable(err)
	case code != 0:
		return refused(err)
	}
	return err
}

// rollback ends a transaction; a connection on which that fails is closed, which ends it too.
func rollback(ctx context.Context, c *sqltext.Conn) {
	if !c.Broken() && c.Exec(ctx, "ROLLBACK") != nil {
		c.Close()
	}
}
