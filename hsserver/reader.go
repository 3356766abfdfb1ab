// Package hsserver serves the HandlerSocket protocol: requests of one line, each with an answer of one line. Finds are
// answered from memory on the connection's own loop where a Table can do that, and by the database on a parked connection
// everywhere else, with the same bytes.
//
// It starts no goroutines; netserver drives it.
package hsserver

import (
	"context"
	"errors"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// ErrChanged is what a Table's searches return (wrapped or not) when the definition that the search was made for is no
// longer the table's. The names are then resolved again.
var ErrChanged = errors.New("table definition has changed")

// Reader finds tables. Its methods are called from many goroutines at once.
type Reader interface {
	// Lookup returns a table that is known already. It does no I/O.
	Lookup(schemaName, table string) (Table, bool)
	// Open returns the table, asking the database for its definition where that is not known. The error wraps
	// schema.ErrNoTable when there is no such base table; other errors say that the database could not be asked.
	Open(ctx context.Context, schemaName, table string) (Table, error)
}

// Table is one table whose rows can be searched. Its methods are called from many goroutines at once. Those that a Reader
// gives for one table compare as equal.
type Table interface {
	// Def returns the table's definition as it is now, which searches are made for; nil when there is none for the
	// time being. It does no I/O.
	Def() *schema.Table
	// SearchMemory answers s from memory, calling emit for each row until it returns false; false means that only
	// the database can answer, and emit has not been called then. It does no I/O. The row is valid during the call
	// of emit only, and all rows are of one state between two transactions.
	SearchMemory(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error)
	// SearchDatabase answers s from the database, with the same rows in the same order.
	SearchDatabase(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) error
}

// Preparer is a Table that keeps an index beside its key in memory from when it is asked for.
type Preparer interface {
	// Prepare asks for the index at that position of def. Small tables have it when Prepare returns, which takes some
	// milliseconds then; searches of larger ones are the database's until it is complete.
	Prepare(def *schema.Table, index int)
}

// Viewer is a Reader whose tables can be held still in memory. IN lists, and finds that come together, are answered from
// one state of a table where the Reader is one; elsewhere each search sees a state of its own.
type Viewer interface {
	// NewView returns a View that holds nothing. A session keeps it for all its requests.
	NewView() View
}

// View holds tables still, each as it is at one moment. It is for one goroutine at a time.
type View interface {
	// Hold takes those of the tables that memory has answers for. Until Release, which has to follow, changes of them
	// wait, so what is done meanwhile must be quick, and no methods of a Table may be called.
	Hold(tables []Table)
	// Def is Table.Def of the state that is held; nil also when memory answers nothing for the table.
	Def(t Table) *schema.Table
	// SearchMemory is Table.SearchMemory on the state that is held.
	SearchMemory(t Table, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error)
	// Release lets the tables go on.
	Release()
}
