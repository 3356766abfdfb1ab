// Package dbreader answers ordered searches with SQL on the source: the same rows, bytes and order that a walk of the
// index gives, which is what the memory gives and what the HandlerSocket plugin gave.
//
// Nearly all searches are one SELECT that forces the index (select.go). Where SQL has no exact or no fast word for a walk
// of the index, a HANDLER statement does it (handler.go): on indexes over the first characters of a column and
// hidden ones, backwards on indexes of mixed directions, on tables without a key that orders equal rows, and for request
// values whose conversion only the server knows.
//
// A Reader starts no goroutines; it runs in those of its callers.
package dbreader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

var (
	// ErrTableChanged says that the table, the index or a column of the search is no longer there: look the table up
	// again.
	ErrTableChanged = errors.New("table definition has changed")
	// ErrUnavailable says that the database can't be reached, or can't be logged in to. A later search may succeed.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrTimeLimit says that the search took longer than Config.TimeLimit, waiting for a free connection included.
	ErrTimeLimit = errors.New("time limit of database reads exceeded")
	// ErrUnsupportedIndex says that no ordered search is possible over the index: it is no B-tree, or holds an expression.
	ErrUnsupportedIndex = errors.New("index cannot be walked in order")
	// ErrBadSearch says that the search itself is wrong: no values or more than the index has parts, a position that the
	// definition does not have.
	ErrBadSearch = errors.New("malformed search")
)

// The defaults of Config.
const (
	DefaultTimeLimit   = 5 * time.Second
	DefaultConnections = 16
)

// Config of a Reader.
type Config struct {
	// TimeLimit bounds each search; 0 means DefaultTimeLimit. The server gets it too, so that an abandoned statement does
	// not go on there.
	TimeLimit time.Duration
	// Connections is the largest number of connections, and so of searches at a time; 0 means DefaultConnections. Further
	// searches wait, within their time limit.
	Connections int
	Logger      *slog.Logger // nil: silence
}

// errTurned ends what was asked of a server from which the Reader has turned to another one.
var errTurned = errors.New("another server is read from now on")

// Reader searches tables of one source at a time. It may be used by many goroutines.
type Reader struct {
	cfg Config

	mu     sync.Mutex
	server *server // guarded by mu
	closed bool    // guarded by mu
}

// server is what is read from until the Reader turns to another one.
type server struct {
	pool *sqltext.Pool // nil where there is no server yet
	ctx  context.Context
	turn context.CancelCauseFunc
}

// New makes a Reader. It opens connections when they are needed. With a nil source everything fails with ErrUnavailable
// until Use.
func New(source *sqltext.Config, c Config) *Reader {
	if c.TimeLimit <= 0 {
		c.TimeLimit = DefaultTimeLimit
	}
	if c.Connections <= 0 {
		c.Connections = DefaultConnections
	}
	r := &Reader{cfg: c}
	r.server = r.connect(source)
	return r
}

// Use turns to another server, or to another way to the same. Searches that are under way fail with ErrUnavailable,
// whatever the first server may still answer.
func (r *Reader) Use(source *sqltext.Config) {
	next := r.connect(source)
	r.mu.Lock()
	old := r.server
	if r.closed {
		old = next
	} else {
		r.server = next
	}
	r.mu.Unlock()
	old.turn(errTurned)
	old.close()
}

func (r *Reader) connect(source *sqltext.Config) *server {
	s := new(server)
	s.ctx, s.turn = context.WithCancelCause(context.Background())
	if source == nil {
		return s
	}
	own := *source
	inner := source.Init
	own.Init = func(ctx context.Context, conn *sqltext.Conn) error {
		if inner != nil {
			if err := inner(ctx, conn); err != nil {
				return err
			}
		}
		return limitSession(ctx, conn, r.cfg.TimeLimit)
	}
	s.pool = sqltext.NewPool(&own, r.cfg.Connections, r.cfg.Logger)
	return s
}

func (s *server) close() {
	if s.pool != nil {
		s.pool.Close()
	}
}

// current is the server to read from.
func (r *Reader) current() *server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

// limitSession makes the server end what takes too long by itself: a closed socket does not end a statement that waits
// for a lock or looks through a table without sending anything.
func limitSession(ctx context.Context, conn *sqltext.Conn, limit time.Duration) error {
	seconds := int64(math.Ceil(limit.Seconds()))
	assign := "max_execution_time = " + strconv.FormatInt(max(limit.Milliseconds(), 1), 10)
	if conn.Flavor() == schema.FlavorMariaDB {
		assign = "max_statement_time = " + strconv.FormatFloat(max(limit.Seconds(), 0.001), 'f', 3, 64)
	}
	if err := conn.Exec(ctx, "SET "+assign+", lock_wait_timeout = "+strconv.FormatInt(seconds, 10)); err != nil {
		return err
	}
	// Nothing here writes; a fault must not either. A server whose default is READ UNCOMMITTED must not show what may be
	// rolled back.
	return conn.Exec(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
}

// Close closes the connections. Searches that run go on to their end; later ones fail with ErrUnavailable.
func (r *Reader) Close() {
	r.mu.Lock()
	r.closed = true
	s := r.server
	r.mu.Unlock()
	s.close()
}

// Load describes a table as it is now; the errors are schema.ErrNoTable and those of Search.
func (r *Reader) Load(ctx context.Context, schemaName, table string) (*schema.Table, error) {
	var def *schema.Table
	err := r.run(ctx, func(ctx context.Context, c *sqltext.Conn) (bool, error) {
		var err error
		def, err = schema.Load(ctx, c, c.Flavor(), schemaName, table)
		return false, err
	})
	if errors.Is(err, schema.ErrNoTable) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("load definition: %w", err)
	}
	return def, nil
}

// Origin says where the rows of a search came from.
type Origin struct {
	// Server is the label of the connection, as sqltext.Config.Init has set it; empty without one.
	Server string
	// Snapshot is true where one SELECT, begun after the search was asked for, has read all rows: they are one committed
	// state. A HANDLER statement promises nothing of the kind.
	Snapshot bool
}

// Search gives the rows of s to emit, in order, until emit returns false. A row has all columns of s.Def; those that
// are not in s.Columns are NULL. Its bytes are valid during the call of emit only, but for a row of more than rowcodec.OwnRow bytes: it is
// emit's.
//
// When a value can't be converted to the text that its column would hold (rowcodec.ErrPass), the server is sent the
// value as it is, and converts it as it would for storing it; on partitioned tables and for invisible columns it
// compares the value as a string literal instead. MySQL refuses some texts that it could only store as a zero value, with
// error 1210.
//
// Errors are the package's own, the cause of ctx when that ended, and *mysql.MyError for what the server refuses. Rows
// may have been given before an error.
func (r *Reader) Search(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) error {
	_, err := r.SearchFrom(ctx, s, emit)
	return err
}

// SearchFrom is Search that also says where the rows came from; the Origin means nothing when there is an error.
func (r *Reader) SearchFrom(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) (Origin, error) {
	p, err := newPlan(s)
	if err != nil {
		return Origin{}, fmt.Errorf("search: %w", err)
	}
	var from Origin
	err = r.run(ctx, func(ctx context.Context, c *sqltext.Conn) (bool, error) {
		from = Origin{Server: c.Server, Snapshot: !p.walk}
		return p.read(ctx, c, emit)
	})
	if err != nil {
		return Origin{}, fmt.Errorf("search %s: %w", s.Def.FullName(), err)
	}
	return from, nil
}

// otherServers is how often an address that leads to several servers may lead to another one than is followed.
const otherServers = 4

// run gives job a connection. A job that meets a lost connection before it has done anything visible is tried once more
// on another one: the server may have closed it while it was idle.
func (r *Reader) run(ctx context.Context, job func(ctx context.Context, c *sqltext.Conn) (visible bool, err error)) error {
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.TimeLimit, ErrTimeLimit)
	defer cancel()
	s := r.current()
	ctx, turn := context.WithCancelCause(ctx)
	defer turn(nil)
	defer context.AfterFunc(s.ctx, func() { turn(errTurned) })()
	for attempt := 0; ; attempt++ {
		visible, dialed, err := s.attempt(ctx, job)
		lost := dialed && !visible && attempt == 0 && sqltext.IsConnectionError(err)
		if elsewhere := errors.Is(err, sqltext.ErrOtherServer) && attempt < otherServers; (lost || elsewhere) && ctx.Err() == nil {
			continue
		}
		if err == nil && s.ctx.Err() != nil {
			err = errTurned // the answer is not that of the server that counts by now
		}
		return classify(outer, err)
	}
}

func (s *server) attempt(ctx context.Context, job func(context.Context, *sqltext.Conn) (bool, error)) (visible, dialed bool, err error) {
	if s.pool == nil {
		return false, false, fmt.Errorf("%w: none is followed yet", ErrUnavailable)
	}
	c, err := s.pool.Get(ctx)
	if err != nil {
		return false, false, err
	}
	returned := false
	defer func() {
		if !returned {
			c.Close() // emit panicked
		}
		s.pool.Put(c)
	}()
	visible, err = job(ctx, c)
	returned = true
	return visible, true, err
}

// classify marks err with one of the package's errors. outer is the caller's context.
func classify(outer context.Context, err error) error {
	if err == nil || errors.Is(err, ErrTableChanged) || errors.Is(err, ErrTimeLimit) || errors.Is(err, ErrUnavailable) || errors.Is(err, schema.ErrNoTable) {
		return err
	}
	if outer.Err() != nil && errors.Is(err, context.Cause(outer)) {
		return err
	}
	switch sqltext.ServerCode(err) {
	case 1049, // no such schema
		1054,       // no such column
		1072,       // key column is not there
		1146, 1932, // no such table
		1176,       // no such index
		1347, 1356, // it is a view now
		1412, // definition changed since the transaction began
		1462, // HANDLER: likewise
		3105: // no such generated column
		return fmt.Errorf("%w: %w", ErrTableChanged, err)
	case 1205, // waited too long for a lock
		1969,       // MariaDB: max_statement_time
		3024, 1907: // MySQL: max_execution_time
		return fmt.Errorf("%w: %w", ErrTimeLimit, err)
	case 1044, 1045, 1130, 1226, 1698, 1820, 1862, 3118, 4151:
		// The login is refused, or the account is locked or out of its resources.
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if errors.Is(err, errTurned) || errors.Is(err, sqltext.ErrOtherServer) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if sqltext.IsConnectionError(err) || errors.Is(err, sqltext.ErrPoolClosed) || errors.Is(err, sqltext.ErrMalformed) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
