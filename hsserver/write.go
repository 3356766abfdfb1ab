package hsserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Writer changes rows. Its methods are called from many goroutines at once. Their errors are ErrChanged, *WriteError, and
// others, which are answered as an unreachable database.
type Writer interface {
	// Changes inserts rows, or changes the one row each that has the Key, one after the other, and gives answer the result of
	// each in their order: the number of rows inserted or found, and the AUTO_INCREMENT value that the server has made, 0
	// where it made none. One that fails does not keep others from being made.
	Changes(ctx context.Context, changes []*schema.Change, answer func(i, rows int, id uint64, err error))
	// Begin is Changes without waiting: ended gets the results, once, from another goroutine or within the call. It begins
	// nothing and returns false for changes that only Changes can make.
	Begin(ctx context.Context, changes []*schema.Change, ended func([]Result)) bool
	// Transact runs fn in a transaction, again from its beginning when the server has undone it, and returns the number of
	// rows that were changed: all that fn wanted, or none.
	Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx Tx) error) (rows int, err error)
}

// Result is what Changes gives answer of one change.
type Result struct {
	Rows int
	ID   uint64
	Err  error
}

// Tx is a transaction of a Writer.
type Tx interface {
	// Search gives the rows of s in order and locks them. A row is valid during the call only.
	Search(s *schema.Search, row func(row rowcodec.Row) error) error
	// Change changes a row, within the call that gives it. c.Index and c.Key don't count.
	Change(c *schema.Change, row rowcodec.Row) error
}

// WriteError is a failure that has a word in the protocol: the answer is "1 1 <Text>", or "2 1 <Text>" where the request is
// at fault whatever the table holds.
type WriteError struct {
	Text    string
	Request bool
	Err     error
}

func (e *WriteError) Error() string { return e.Text + ": " + e.Err.Error() }
func (e *WriteError) Unwrap() error { return e.Err }

// maxInsertValues is the largest number of values of an insert: the servers have no more columns.
const maxInsertValues = 4096

// write carries out a request that changes rows.
func (s *session) write(ix *openIndex, t *tokens, out []byte) []byte {
	s.endRun()
	r := &s.req
	var f failure
	switch {
	case r.kind == kindSQL:
		f = failNotThere
	case !s.server.cfg.Writable:
		f = failReadOnly
	case r.kind == kindFind && !modification(r.modify):
		f = failModify
	case s.server.cfg.Writer == nil:
		f = failNotThere
	case r.kind == kindInsert && r.missing:
		f = failNoValues
	}
	if f != "" {
		s.count.refused.Add(1)
		return append(out, f...)
	}
	s.count.writes.Add(1)
	if r.kind == kindFind {
		r.change = changeKind(r.modify[0])
		r.before = len(r.modify) > 1 && r.modify[1] == '?'
		r.parseSet(t, len(ix.columnAt))
	}
	if s.addToBatch(ix) {
		return out
	}
	r.detach()
	s.park(func(ctx context.Context, out []byte) []byte {
		out = s.writeParked(ctx, ix, out)
		s.shrink()
		return out
	})
	return out
}

// modification reports that a token is one; only its first character counts.
func modification(tok []byte) bool {
	switch first(tok) {
	case 'U', 'D', '+', '-':
		return true
	}
	return false
}

func changeKind(modification byte) schema.ChangeKind {
	switch modification {
	case 'U':
		return schema.ChangeUpdate
	case 'D':
		return schema.ChangeDelete
	case '+':
		return schema.ChangeAdd
	default:
		return schema.ChangeSubtract
	}
}

// writeParked makes the change in the database. It is called from parked jobs.
func (s *session) writeParked(ctx context.Context, ix *openIndex, out []byte) []byte {
	start := len(out)
	var err error
	for range maxTries {
		var def *schema.Table
		var f failure
		if def, f = s.definition(ctx, ix, err); f != "" {
			return append(out, f...)
		}
		c := s.change(ix, def)
		if c == nil {
			out, err = s.modify(ctx, ix, def, out)
		} else {
			s.server.cfg.Writer.Changes(ctx, []*schema.Change{c}, func(_, rows int, id uint64, failure error) {
				if err = failure; err == nil {
					out = appendChanged(out, c, rows, id)
				}
			})
		}
		if err == nil {
			return out
		}
		out = out[:start]
		if !errors.Is(err, ErrChanged) {
			break
		}
	}
	return s.writeFailed(ctx, ix, err, out)
}

// writeFailed appends the answer to a write that failed.
func (s *session) writeFailed(ctx context.Context, ix *openIndex, err error, out []byte) []byte {
	if w := (*WriteError)(nil); errors.As(err, &w) {
		code := 1
		if w.Request {
			code = 2
		}
		return fmt.Appendf(out, "%d\t1\t%s\n", code, w.Text)
	}
	if f := failure(""); errors.As(err, &f) {
		return append(out, f...)
	}
	if ctx.Err() == nil {
		s.server.warn("write can't be carried out", s.conn, err, "table", ix.schema+"."+ix.table)
	}
	return append(out, failDatabase...)
}

// change makes the request's change where that is an insert, or of one row by a whole key; else it is nil. The values
// are the request's own.
func (s *session) change(ix *openIndex, def *schema.Table) *schema.Change {
	r := &s.req
	if ix.current(def) != "" {
		return nil
	}
	if r.kind == kindInsert {
		return &schema.Change{Kind: schema.ChangeInsert, Def: def, Set: s.set(ix)}
	}
	if r.before || r.hasIn || len(r.filters) > 0 || r.offset > 0 || r.op != schema.OpEQ {
		return nil
	}
	index := &def.Indexes[ix.pos]
	if !index.Unique || r.n != len(index.Parts) {
		return nil
	}
	for i, p := range index.Parts {
		if r.values[i] == nil && def.Columns[p.Column].Nullable || p.Prefix > 0 {
			return nil
		}
	}
	return &schema.Change{Kind: r.change, Def: def, Set: s.set(ix), Index: ix.pos, Key: r.values[:r.n]}
}

// appendChanged appends the answer to a change.
func appendChanged(out []byte, c *schema.Change, rows int, id uint64) []byte {
	out = append(out, done[:len(done)-1]...)
	if c.Kind != schema.ChangeInsert {
		out = strconv.AppendInt(append(out, '\t'), int64(rows), 10)
		return append(out, '\n')
	}
	for i := range c.Def.Columns {
		if c.Def.Columns[i].AutoIncrement {
			out = strconv.AppendUint(append(out, '\t'), id, 10)
		}
	}
	return append(out, '\n')
}

// set makes the assignments of the request: values belong to the opened columns in order.
func (s *session) set(ix *openIndex) []schema.Assignment {
	set := make([]schema.Assignment, len(s.req.set))
	for i, v := range s.req.set {
		set[i] = schema.Assignment{Column: ix.columnAt[i], Value: v}
	}
	return set
}

// modify changes the rows that the request finds, in a transaction.
func (s *session) modify(ctx context.Context, ix *openIndex, def *schema.Table, out []byte) ([]byte, error) {
	start := len(out)
	if f := s.begin(ix, def, out, false); f != "" {
		return out, f
	}
	a, r := &s.answer, &s.req
	c := &schema.Change{Kind: r.change, Def: def, Set: s.set(ix)}
	rows := 0
	var err error
	if a.ended { // no rows
		a.out, out = nil, a.out
	} else {
		rows, err = s.server.cfg.Writer.Transact(ctx, def, r.change, func(tx Tx) error {
			if f := s.begin(ix, def, out[:start], false); f != "" {
				return f
			}
			err := s.modifyFound(tx, c)
			a.out, out = nil, a.out
			return err
		})
	}
	if err != nil {
		return out[:start], err
	}
	if r.before {
		return append(out, '\n'), nil
	}
	out = append(out[:start], "0\t1\t"...)
	return append(strconv.AppendInt(out, int64(rows), 10), '\n'), nil
}

// modifyFound changes the rows that the request finds, as a find does, in the transaction.
func (s *session) modifyFound(tx Tx, c *schema.Change) error {
	row := func(row rowcodec.Row) error {
		if s.answer.ended {
			return nil
		}
		before := s.answer.rows
		s.emitRow(row, 0)
		switch {
		case s.answer.failure != "":
			return s.answer.failure
		case s.answer.rows == before:
			return nil
		case !s.req.before:
			s.answer.out = s.answer.out[:s.answer.start]
		}
		return tx.Change(c, row)
	}
	if !s.req.hasIn {
		return tx.Search(&s.search, row)
	}
	for s.firstInValue(); ; {
		if err := tx.Search(&s.search, row); err != nil {
			return err
		}
		if !s.nextInValue() {
			return nil
		}
	}
}
