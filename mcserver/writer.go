package mcserver

import (
	"context"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Writer changes rows in the database. Its methods are called from many goroutines at once. Their errors are ErrChanged,
// *RefusedError, and others, of which the text says whether something may have happened.
type Writer interface {
	// Change makes a change of one row and returns how many rows were inserted or found: 0 or 1.
	Change(ctx context.Context, c *schema.Change) (rows int, err error)
	// Transact runs fn in a transaction and commits it: all that fn wanted, or nothing. fn is run again from its beginning
	// when the server has undone it.
	Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx Tx) error) error
}

// Tx is a transaction of a Writer.
type Tx interface {
	// Search gives the rows of s and locks them. A row is valid during the call only.
	Search(s *schema.Search, row func(row rowcodec.Row) error) error
	// Change changes a row, within the call that gives it. c.Index and c.Key don't count.
	Change(c *schema.Change, row rowcodec.Row) error
	// Insert makes a row, after a Search and not within it.
	Insert(c *schema.Change) error
	// Empty deletes all rows of the transaction's table.
	Empty() error
}

// RefusedError says that the row can't be as the client wants it, by the database's word or because it would not be
// read as it was written. Nothing was changed.
type RefusedError struct {
	// Duplicate: a row with one of the unique keys is there.
	Duplicate bool
	Err       error

	own bool // it was not the database: no other log has it, and it holds no values
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }
