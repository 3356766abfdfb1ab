package writeback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

var (
	// ErrUnavailable says that the database can't be reached and that nothing was changed. A later try may succeed.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrUncertain says that the connection was lost while the change was being committed: it may have happened or not.
	// The table's readers are answered by the database until that is known.
	ErrUncertain = errors.New("connection lost during the commit: the change may have happened or not")
	// ErrReadOnly says that the server takes no writes at present. Nothing was changed.
	ErrReadOnly = errors.New("database is read-only")
	// ErrChanged says that the table or a column is no longer there: look the definition up again. Nothing was changed.
	ErrChanged = errors.New("table definition has changed")
	// ErrTooLarge says that the change is larger than a statement of the server may be, or holds too many rows.
	ErrTooLarge = errors.New("change is too large")
	// ErrNoNumber says that nothing can be added to a column of that type.
	ErrNoNumber = errors.New("column holds no number")
	// ErrNoKey says that the table has no key by which a row that was found can be named.
	ErrNoKey = errors.New("table has no key to name rows by")
	// ErrTimeLimit says that the change took longer than Config.TimeLimit. Nothing was changed.
	ErrTimeLimit = errors.New("time limit of changes exceeded")
	// ErrClosed says that the Writer was closed. Nothing was changed.
	ErrClosed = errors.New("writer is closed")
)

// Refused is the server's refusal of one change. Nothing was changed.
type Refused struct {
	// Number is the error's number in the storage engines' list where it has one (121 for a duplicate key), else the
	// server's own, which is above 1000.
	Number int
	Err    error
}

func (e *Refused) Error() string { return fmt.Sprintf("refused with %d: %v", e.Number, e.Err) }
func (e *Refused) Unwrap() error { return e.Err }

// NumberDuplicate is the Refused.Number of a key that is there already.
const NumberDuplicate = 121

// Numbers of server errors that are named in more than one place.
const (
	codeLockWait = 1205
	codeDeadlock = 1213
	codeNoNumber = 1366 // a text for a number
	codeSyntax   = 1064 // of a trigger's body: statements are ours, and are right
)

// handlerNumbers are the storage engines' numbers of the server's errors, as the HandlerSocket plugin answered them.
// docs/PROTOCOLS.md has the table for users.
var handlerNumbers = map[uint16]int{
	1022: NumberDuplicate, 1062: NumberDuplicate, 1569: NumberDuplicate, 1586: NumberDuplicate,
	1114:         135,            // table full
	1118:         139,            // row too large
	codeLockWait: 146,            // lock wait time-out
	1206:         147,            // lock table full
	codeDeadlock: 149,            // deadlock
	1216:         151, 1452: 151, // foreign key: no parent
	1217: 152, 1451: 152, // foreign key: still referenced
	1526: 160, 1748: 160, // no partition for the value
	1557: 163, 1761: 163, 1762: 163, // a cascade would double a key
	1036: 165, // table is read-only
	1467: 166, // AUTO_INCREMENT exhausted
}

// errorClass says what a server's error means for the transaction that it came in.
type errorClass uint8

const (
	classUnknown   errorClass = iota // what is left of the transaction is not known
	classStatement                   // only the statement was undone
	classDeadlock                    // the whole transaction was undone
	classLockWait                    // the statement was undone, with some settings the transaction
	classReadOnly                    // the server takes no writes
)

func classOf(code uint16) errorClass {
	switch code {
	case codeDeadlock:
		return classDeadlock
	case codeLockWait:
		return classLockWait
	case 1290, 1792, 1836: // read_only; a read-only transaction; read-only mode
		return classReadOnly
	case 1022, 1062, 1586, // duplicate key
		1216, 1217, 1451, 1452, // foreign keys
		1048, 1364, // NULL; no default
		1264, 1265, 1292, 1366, 1406, 1690, // values that the column can't hold
		1300, 3140, // ill-formed text, JSON
		3819, 4025, // CHECK
		1906, 3105, // a value for a computed column
		1467, 1526, // AUTO_INCREMENT, partitions
		1044, 1142, 1143: // privileges
		return classStatement
	}
	if changedCode(code) {
		return classStatement
	}
	return classUnknown
}

// changedCode tells errors that a statement made for another definition of the table meets.
func changedCode(code uint16) bool {
	switch code {
	case 1049, // no such schema
		1054,       // no such column
		1146, 1932, // no such table
		1176,       // no such index
		1288,       // it is a view now
		1347, 1356: // likewise
		return true
	}
	return false
}

// refused is the answer to a change that the server has refused.
func refused(err error) error {
	code := sqltext.ServerCode(err)
	switch {
	case changedCode(code):
		return fmt.Errorf("%w: %w", ErrChanged, err)
	case classOf(code) == classReadOnly:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	number := int(code)
	if n := handlerNumbers[code]; n != 0 {
		number = n
	}
	return &Refused{Number: number, Err: err}
}

// unavailable is the answer when nothing was done, because there is no connection or no time.
func unavailable(err error) error {
	if errors.Is(err, ErrTimeLimit) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// uncertain is the answer when nobody knows.
func uncertain(err error) error { return fmt.Errorf("%w: %w", ErrUncertain, err) }

// withoutValues is the server's text without what it quotes of the rows.
func withoutValues(text string) string {
	quote := strings.IndexByte(text, '\'')
	if quote < 0 {
		return text
	}
	// What stands behind the value is the server's own, even where the value looks like it.
	tail := max(strings.LastIndex(text, " for key '"), strings.LastIndex(text, " for column '"))
	switch {
	case tail < 0:
		return text[:quote] + "..."
	case tail < quote:
		return text
	}
	return text[:quote] + "..." + text[tail:]
}

// brokenTrigger says what can be done about codeSyntax. MariaDB keeps the outcome of reading a table's triggers with the
// open table. When the session that opened it was killed at that moment, they count as broken for all who are given that
// table out of its cache, some or all of the time, until it leaves the cache.
const brokenTrigger = "MariaDB says so, too, after a KILL of a session that was just opening the table: FLUSH TABLES with its name mends that"

// finished counts a change and logs what an operator has to know, without values.
func (w *Writer) finished(def *schema.Table, kind schema.ChangeKind, began time.Time, err error) {
	w.stats.count(kind, err)
	if err == nil || errors.Is(err, ErrChanged) || errors.Is(err, context.Canceled) {
		return
	}
	args := []any{"table", def.FullName(), "kind", kind.String(), "took", time.Since(began).Round(time.Millisecond).String(), "err", withoutValues(err.Error())}
	if r := (*Refused)(nil); errors.As(err, &r) {
		if sqltext.ServerCode(err) == codeSyntax {
			w.troubles.log(w.log, slog.LevelWarn, "change refused by the database: a trigger of the table is broken", append(args, "hint", brokenTrigger)...)
			return
		}
		w.refusals.log(w.log, slog.LevelInfo, "change refused by the database", args...)
		return
	}
	w.troubles.log(w.log, slog.LevelWarn, "change not carried out", args...)
}

// throttle lets one line a second through.
type throttle struct {
	mu      sync.Mutex
	last    time.Time
	leftOut int
}

func (t *throttle) log(to *slog.Logger, level slog.Level, msg string, args ...any) {
	t.mu.Lock()
	if time.Since(t.last) < time.Second {
		t.leftOut++
		t.mu.Unlock()
		return
	}
	if t.leftOut > 0 {
		args = append(args, "left_out", t.leftOut)
	}
	t.last, t.leftOut = time.Now(), 0
	t.mu.Unlock()
	to.Log(context.Background(), level, msg, args...)
}
