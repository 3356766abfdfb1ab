// Package writeback carries changes of rows to the database as SQL, and answers each of them once it is committed and, if
// wanted, once the follower of the log has applied the commit.
//
// A change of one row by a unique key, and an insert, is one statement. Those that wait at the same time are committed
// together (lane.go): the disk, which a durable commit waits for, is what bounds writing. Everything else is a
// transaction of its own (transaction.go), which first locks the rows that it finds.
//
// What a failure means is told in three ways: nothing was done (ErrUnavailable and most others), the server refused the
// change (Refused), or nobody knows (ErrUncertain). A commit whose outcome is not known is never tried again.
package writeback

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// The defaults of Config.
const (
	DefaultLockWait    = 3 * time.Second
	DefaultAckTimeout  = 2 * time.Second
	DefaultTimeLimit   = 30 * time.Second
	DefaultGroups      = 3
	DefaultConnections = 16
)

// Applied knows how far the log has been applied to what readers are answered from.
type Applied interface {
	// WaitApplied returns nil when the transactions that gtids names have been applied.
	WaitApplied(ctx context.Context, gtids string) error
	// MergeGTIDs gives the text that names all transactions that a or b names.
	MergeGTIDs(a, b string) (string, error)
	// Epoch changes when everything is loaded anew from the source as it is then.
	Epoch() uint64
}

// Fencer makes readers of a table be answered by the database from when Fence returns until lift is called.
type Fencer interface {
	Fence(def *schema.Table) (lift func())
}

// Config of a Writer.
type Config struct {
	// LockWait bounds each wait for a row or a table that another session has locked, in whole seconds; 0 means
	// DefaultLockWait. Of that a statement in a group waits for a second before it is tried by itself. The
	// last wait is of a second at least, and a server may look only once a second whether a wait has ended: an answer may
	// come that much later.
	LockWait time.Duration
	// TimeLimit bounds each change, waiting for its turn included; 0 means DefaultTimeLimit.
	TimeLimit time.Duration
	// Groups is the number of groups that are under way at a time, Connections that of the other transactions, and half as
	// many single changes may wait for locked rows beside them; 0 means the default.
	Groups, Connections int
	// Applied makes changes wait until they are applied, for AckTimeout at most (0 means DefaultAckTimeout); Fence then
	// keeps readers from older answers. Applied nil answers at the commit.
	Applied    Applied
	AckTimeout time.Duration
	Fence      Fencer
	Logger     *slog.Logger // nil: silence
}

// Writer changes rows of one source's tables. It may be used by many goroutines.
type Writer struct {
	cfg    Config
	log    *slog.Logger
	seed   maphash.Seed
	server atomic.Pointer[server]
	lane   lane

	contended recent[uint64]        // rows whose locks were waited for
	unmerged  recent[*schema.Table] // whose changes are not merged

	stats stats

	maxPacket atomic.Int64 // the server's max_allowed_packet; 0 before the first connection

	ctx     context.Context // ends with Close, after what has begun
	cancel  context.CancelFunc
	mu      sync.RWMutex // guards closed, and changes from new ones while Close waits
	closed  bool
	changes sync.WaitGroup // calls of Change and Transact
	wg      sync.WaitGroup // goroutines; they are started by changes, and by each other
	fences  fences

	refusals, troubles, late throttle // of log lines
}

// New makes a Writer. It opens connections when they are needed. With a nil source everything fails with ErrUnavailable
// until Use.
func New(source *sqltext.Config, c Config) *Writer {
	setDefault(&c.LockWait, DefaultLockWait)
	setDefault(&c.TimeLimit, DefaultTimeLimit)
	setDefault(&c.AckTimeout, DefaultAckTimeout)
	setDefault(&c.Groups, DefaultGroups)
	setDefault(&c.Connections, DefaultConnections)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Writer{cfg: c, log: c.Logger, seed: maphash.MakeSeed()}
	w.contended.ttl, w.unmerged.ttl = contendedTime, unmergedTime
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.fences.tables = map[schema.Name]*fence{}
	w.lane.w = w
	w.server.Store(w.connect(source))
	return w
}

func setDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// server is what is written to until the Writer turns to another one.
type server struct {
	groups *sqltext.Pool // for the lane; nil where there is no server yet
	single *sqltext.Pool // for what is not in a group
	// contended is for single changes of rows whose lock was waited for lately.
	contended *sqltext.Pool
	ctx       context.Context
	cancel    context.CancelCauseFunc
}

var (
	errNoServer = errors.New("no server is known yet")
	errTurned   = errors.New("another server is written to from now on")
)

// Use turns to another server, or to another way to the same. Changes that are under way on the first one fail: what that
// one still commits need not be on the other.
func (w *Writer) Use(source *sqltext.Config) {
	w.server.Swap(w.connect(source)).end(errTurned)
}

func (w *Writer) connect(source *sqltext.Config) *server {
	s := new(server)
	s.ctx, s.cancel = context.WithCancelCause(w.ctx)
	if source != nil {
		s.groups = sqltext.NewPool(w.configure(source, groupLockWait), w.cfg.Groups, w.log)
		s.single = sqltext.NewPool(w.configure(source, w.cfg.LockWait), w.cfg.Connections, w.log)
		s.contended = sqltext.NewPool(w.configure(source, w.cfg.LockWait), w.cfg.Connections/2, w.log)
	}
	return s
}

func (s *server) end(cause error) {
	s.cancel(cause)
	if s.groups != nil {
		s.groups.Close()
		s.single.Close()
		s.contended.Close()
	}
}

// limit bounds what is done on the server by the Writer's limit, the end of the Writer, and its turn to another server.
func (w *Writer) limit(s *server) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(s.ctx, w.cfg.TimeLimit, ErrTimeLimit)
}

// get gives a connection of a pool of the server.
func (s *server) get(ctx context.Context, pool *sqltext.Pool) (*sqltext.Conn, error) {
	if pool == nil {
		return nil, errNoServer
	}
	return pool.Get(ctx)
}

// configure makes a configuration of connections that change rows.
//
// The mode is strict, so that no value is stored as another one without an error; zero dates are allowed, which clients of
// the plugin have stored. READ COMMITTED locks the rows that are changed, and no gaps between them.
func (w *Writer) configure(source *sqltext.Config, lockWait time.Duration) *sqltext.Config {
	own := *source
	own.Changes = true
	before := own.Init
	own.Init = func(ctx context.Context, c *sqltext.Conn) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		for _, sql := range []string{
			lockWaits(lockWait) + ", sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', completion_type = 0",
			"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		} {
			if err := c.Exec(ctx, sql); err != nil {
				return err
			}
		}
		track := "SET session_track_gtids = OWN_GTID"
		if c.Flavor() == schema.FlavorMariaDB {
			track = "SET session_track_system_variables = 'last_gtid'"
		}
		// Some servers let only some accounts set it. Without it the server is asked after each commit.
		if err := c.Exec(ctx, track); err != nil && sqltext.ServerCode(err) == 0 {
			return err
		}
		return c.Query(ctx, "SELECT @@max_allowed_packet", func(v [][]byte) error {
			n, err := strconv.ParseInt(string(v[0]), 10, 64)
			if err == nil {
				w.maxPacket.Store(n)
			}
			return err
		})
	}
	return &own
}

// Close waits for the changes that have begun, which are bounded in time, and closes the connections. Later changes fail
// with ErrUnavailable. It may be called more than once.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.changes.Wait()
	w.cancel() // nobody waits for fences
	w.wg.Wait()
	w.server.Load().end(ErrClosed)
}

// enter begins a change, which ends with w.changes.Done; false after Close.
func (w *Writer) enter() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return false
	}
	w.changes.Add(1)
	return true
}

// Change inserts a row, or changes the one row that has c.Key, or does the one or the other, and returns the number of rows that were inserted or found
// (0 or 1), and for inserts the AUTO_INCREMENT value that the server has made, 0 where it made none.
//
// Errors are those of the package, *Refused, and the cause of ctx when that ended before the change had begun.
func (w *Writer) Change(ctx context.Context, c *schema.Change) (rows int, id uint64, err error) {
	w.Changes(ctx, []*schema.Change{c}, func(_, n int, made uint64, failure error) { rows, id, err = n, made, failure })
	return rows, id, err
}

// Changes carries several changes out as Change does, one after the other, but commits as many of them together as it can.
// Each has its own result, which answer gets in their order; one that fails does not keep others from being made.
func (w *Writer) Changes(ctx context.Context, changes []*schema.Change, answer func(i, rows int, id uint64, err error)) {
	began := time.Now()
	finish := func(i, rows int, id uint64, err error) {
		w.finished(changes[i].Def, changes[i].Kind, began, err)
		answer(i, rows, id, err)
	}
	if !w.enter() {
		for i := range changes {
			finish(i, 0, 0, ErrClosed)
		}
		return
	}
	defer w.changes.Done()
	u := &unit{}
	flush := func(next int) {
		if len(u.items) == 0 {
			return
		}
		err := w.submit(ctx, u)
		for k, it := range u.items {
			i := next - len(u.items) + k
			if err != nil {
				finish(i, 0, 0, err)
				continue
			}
			rows, id, err := it.answer(changes[i].Kind)
			finish(i, rows, id, err)
		}
		u = &unit{}
	}
	for i, c := range changes {
		it, err := w.prepare(c)
		if err != nil || it == nil {
			flush(i)
			rows := 0
			if err == nil {
				rows, err = w.transact(ctx, c.Def, func(tx *Tx) error { return tx.changeByKey(c) })
			}
			finish(i, rows, 0, err)
			continue
		}
		if !it.transactional() {
			flush(i)
			it.unit = &unit{ended: func() {}}
			it.unit.left.Store(1)
			w.alone(it, false)
			rows, id, err := it.answer(c.Kind)
			finish(i, rows, id, err)
			continue
		}
		if len(u.items) == maxGroup || u.bytes+len(it.sql) > maxGroupBytes {
			flush(i)
		}
		u.add(it)
	}
	flush(len(changes))
}

// statementSize is enough for most statements.
const statementSize = 256

// prepare makes the statement of a change; nil where it takes a transaction.
func (w *Writer) prepare(c *schema.Change) (*item, error) {
	if err := checkSchema(c.Def); err != nil {
		return nil, err
	}
	it := &item{def: c.Def}
	if c.Kind == schema.ChangeInsert || c.Kind == schema.ChangeUpsert {
		var values span
		it.sql, values, it.generated = appendInsert(make([]byte, 0, statementSize), c)
		if !it.generated && values.to > values.from {
			it.form = form{kind: mergeValues, values: values}
		}
		it.key = w.insertKey(c)
	} else {
		where, ok := dbreader.AppendOne(nil, c.Def, c.Index, c.Key)
		sql, changes, err := appendChange(make([]byte, 0, statementSize), c, where, c.Index, c.Key, &it.form)
		if err != nil {
			return nil, err
		}
		if !ok || !changes {
			return nil, nil
		}
		it.sql = sql
		if (c.Kind == schema.ChangeUpdate || c.Kind == schema.ChangeAdd) && it.form.mergeable(c) {
			it.form.kind = mergeCases
		}
		it.key = w.hash(c.Def, where)
		if c.Index == c.Def.Key {
			it.key = w.hash(c.Def, c.Key...)
		}
	}
	if w.tooLong(len(it.sql)) {
		return nil, ErrTooLarge
	}
	return it, nil
}

// checkSchema keeps changes from the server's own tables: its accounts are no business of a client that reads rows.
func checkSchema(def *schema.Table) error {
	switch strings.ToLower(def.Schema) {
	case "mysql", "sys", "information_schema", "performance_schema":
		return fmt.Errorf("%s belongs to the server: %w", def.FullName(), ErrReadOnly)
	}
	return nil
}

// tooLong reports that the server does not take a statement of that length.
func (w *Writer) tooLong(n int) bool {
	limit := w.maxPacket.Load()
	if limit == 0 {
		limit = 16 << 20 // the smaller one of the servers' defaults
	}
	return int64(n) > limit-packetRoom
}

// packetRoom is for the command and for what a group puts around a statement.
const packetRoom = 1 << 10

func (w *Writer) hash(def *schema.Table, values ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	// They don't fail.
	_, _ = h.WriteString(def.Schema)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(def.Name)
	for _, v := range values {
		_ = h.WriteByte(0)
		_, _ = h.Write(v)
	}
	return h.Sum64()
}

// insertKey is the key of the row to insert, as far as it is known.
func (w *Writer) insertKey(c *schema.Change) uint64 {
	if c.Def.Key < 0 {
		return w.hash(c.Def)
	}
	parts := c.Def.Indexes[c.Def.Key].Parts
	values := make([][]byte, len(parts))
	for i, p := range parts {
		for _, a := range c.Set {
			if a.Column == p.Column {
				values[i] = a.Value
			}
		}
	}
	return w.hash(c.Def, values...)
}

// Transact runs fn in a transaction and commits it, with all changes or none. It returns the number of rows that were
// found and changed. fn may be called again, on a new transaction, when the server has undone the first: it starts over
// then. Errors are those of fn and of Change.
func (w *Writer) Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx *Tx) error) (rows int, err error) {
	if !w.enter() {
		return 0, ErrClosed
	}
	defer w.changes.Done()
	began := time.Now()
	if err = checkSchema(def); err == nil {
		rows, err = w.transact(ctx, def, fn)
	}
	w.finished(def, kind, began, err)
	return rows, err
}

// rowKey gives the values of the key by which a row is told from others.
func rowKey(def *schema.Table, row rowcodec.Row) [][]byte {
	parts := def.Indexes[def.Key].Parts
	values := make([][]byte, len(parts))
	for i, p := range parts {
		values[i], _ = row.Value(p.Column) // never NULL in such a key
	}
	return values
}
