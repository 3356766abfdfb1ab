package mcserver

import (
	"context"
	"errors"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// ErrChanged is what a Table's searches return (wrapped or not) when the definition that the search was made for is no
// longer the table's. The names are then resolved again with Reader.Open.
var ErrChanged = errors.New("table definition has changed")

// Reader finds tables, in memory or in the database. Its methods are called from many goroutines at once.
type Reader interface {
	// Open returns the table, asking the database for its definition where that is not known. The error wraps
	// schema.ErrNoTable when there is no such base table; other errors say that the database could not be asked.
	Open(ctx context.Context, schemaName, table string) (Table, error)
}

// Table is one table whose rows can be looked up. Its methods are called from many goroutines at once.
type Table interface {
	// Def returns the table's definition as it is now, which searches are made for; nil when there is none for the
	// time being. It does no I/O.
	Def() *schema.Table
	// SearchMemory answers s from memory, calling emit for each row until it returns false; false means that only
	// the database can answer, and emit has not been called then. It does no I/O. The row is valid during the call
	// only. The version tells states of one row apart and is never 0.
	SearchMemory(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error)
	// SearchDatabase answers s from the database, with the same rows in the same order.
	SearchDatabase(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) error
}

// Viewer is a Table that can answer several searches from one and the same state. A get of several keys uses it where a
// Table has it, so that it never shows half of a transaction.
type Viewer interface {
	// ViewMemory calls fn with a function that works as SearchMemory does and sees the table as it is at one moment.
	// fn makes no other calls to the table.
	ViewMemory(fn func(search func(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error)))
}
