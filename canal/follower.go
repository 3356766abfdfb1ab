package canal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// Config says what to follow and where to put it.
type Config struct {
	// Source is the server. The account needs SELECT on the followed tables, REPLICATION SLAVE and REPLICATION CLIENT.
	Source *sqltext.Config
	// Tables are the tables to follow, those to come included.
	Tables schema.Patterns
	Sink   Sink
	// Logger may be nil for silence.
	Logger *slog.Logger
	// ServerID is the follower's number among the source's replicas; 0 takes a random one.
	ServerID uint32
	// MaxTransactionBytes bounds what is kept of one transaction until its end, and of all prepared XA transactions
	// together. Tables of a larger one are loaded anew. 0 means 64 MiB.
	MaxTransactionBytes int64
	// ChunkRows is the size of a snapshot's first pieces; later ones follow what is measured. 0 means 500.
	ChunkRows int
	// Loads is the number of tables that are loaded at a time. 0 means 2: while a large table is read, small ones that
	// were changed by a statement need not wait for its end.
	Loads int
	// Heartbeat is how often the source says that it has nothing to say; after eight of them missing the connection
	// counts as lost. 0 means one second.
	Heartbeat time.Duration
}

const (
	defaultTransactionBytes = 64 << 20
	defaultChunkRows        = 500
	defaultLoads            = 2
	defaultHeartbeat        = time.Second
	silentHeartbeats        = 8
	// searchTime is how long a source may look for the place in its log: it may have to read a file of many gigabytes.
	searchTime = 2 * time.Minute
	// steadyTime is how long a connection must have lasted for the next try not to wait longer than the first.
	steadyTime = 10 * time.Second
	// defaultWatch is how often the source is asked whether the stream still shows its log.
	defaultWatch = 10 * time.Second
	// unreadableTries is how often a place of the log that can't be read is tried before everything is loaded anew
	// beyond it.
	unreadableTries = 3
)

// Follower follows one source. It is used once: New, Run.
type Follower struct {
	cfg    Config
	log    *slog.Logger
	tables registry
	pos    tracker
	gate   gate

	pool       atomic.Pointer[sqltext.Pool]
	loaderWake chan struct{}
	// relist asks for a search for new tables; recheckAbsent, for those that were not there, which may be seen now.
	relist, recheckAbsent atomic.Bool
	// listsWanted counts the requests for a search, listsDone is how many of them the last search has settled.
	listsWanted, listsDone atomic.Uint64
	wildcards              bool
	watchEvery             time.Duration
	mostRows               int // of a piece of a snapshot

	// prepared and made belong to the stream's goroutine, and to Run while there is none. made has the times at which the
	// log files that were read lately were made, to know them again.
	prepared prepared
	made     map[string]uint32
	// warned are the problems that were logged; Run's own.
	warned map[string]bool

	// heard is when the last event came, idle when the source is known to have had nothing more. Unix nanoseconds.
	// lastEvent is like heard, without heartbeats.
	heard, idle, lastEvent atomic.Int64
	counts                 counts
	state                  state

	// hooks let tests stop at certain points.
	hooks map[hookPoint]func(schema.Name)
}

type hookPoint uint8

const (
	hookDefined   hookPoint = iota // a load has read the definition
	hookChunkRead                  // a load has read a piece and its high mark
)

func (f *Follower) hook(p hookPoint, t *table) {
	if h := f.hooks[p]; h != nil {
		h(t.name)
	}
}

// New checks a configuration and makes a follower of it. Nothing is connected yet.
func New(cfg Config) (*Follower, error) {
	if cfg.Source == nil || cfg.Sink == nil {
		return nil, errors.New("a follower needs a source and a sink")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxTransactionBytes <= 0 {
		cfg.MaxTransactionBytes = defaultTransactionBytes
	}
	if cfg.ChunkRows <= 0 {
		cfg.ChunkRows = defaultChunkRows
	}
	if cfg.Loads <= 0 {
		cfg.Loads = defaultLoads
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = defaultHeartbeat
	}
	f := &Follower{
		cfg: cfg, log: cfg.Logger, gate: make(gate, 1), loaderWake: make(chan struct{}, 1),
		tables: registry{tables: map[schema.Name]*table{}}, watchEvery: defaultWatch, mostRows: maxChunk,
		warned: map[string]bool{}, made: map[string]uint32{},
	}
	// Versions of one process must not look like those of the one before it.
	f.pos.epoch = uint16(rand.UintN(1 << 15))
	f.state.reconnects = map[Reason]uint64{}
	exact := cfg.Tables.Exact()
	for _, name := range exact {
		f.tables.add(name)
	}
	f.wildcards = len(exact) < len(cfg.Tables)
	return f, nil
}

// failure is the end of one connection, with what it means for the next.
type failure struct {
	reason Reason
	err    error
	// mend are what has to be mended on the source; at the start that is the end.
	mend []Problem
	// anew asks for all tables to be loaded anew.
	anew bool
}

func (e *failure) Error() string { return string(e.reason) + ": " + e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// Run follows the source until ctx ends, which is no error. It waits for a source that can't be reached and comes back
// after interruptions. The errors are those that only people can mend, and that are there at the start: settings of the
// source and missing privileges; each is one line that says what to do.
//
// When Run returns all its goroutines have ended and all waits with them.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		if p := f.pool.Load(); p != nil {
			p.Close()
		}
		wg.Wait()
		f.pos.close()
		f.state.set(func(s *state) { s.connected = false })
	}()
	for _, t := range f.tables.all() {
		f.suspend(t, "waits for the source")
	}
	wg.Go(func() { f.runLoader(ctx) })

	var pause backoff
	started, anew, unreadable := false, true, 0
	for {
		seq, begin := f.pos.mark().seq, time.Now()
		adopted, came, err := f.follow(ctx, anew)
		if ctx.Err() != nil {
			return nil
		}
		var end *failure
		if !errors.As(err, &end) {
			end = &failure{reason: ReasonBug, err: err}
		}
		started = started || came
		anew = anew && !adopted
		if f.pos.mark().seq != seq {
			pause, unreadable = backoff{}, 0
		}
		if time.Since(begin) > steadyTime {
			pause = backoff{}
		}
		if end.reason == ReasonUnreadable {
			if unreadable++; unreadable >= unreadableTries {
				end.anew, unreadable = true, 0
			}
		}
		if len(end.mend) > 0 && !started {
			return joinProblems(end.mend)
		}
		if end.reason == ReasonSettings {
			// What is written to the log meanwhile can't be relied on.
			anew = true
			f.suspendAll("the source's settings do not allow it to be followed: " + end.err.Error())
		}
		if end.anew {
			anew = true
			f.suspendAll(end.err.Error())
		}
		f.state.set(func(s *state) {
			s.connected = false
			s.trouble = end.Error()
			s.reconnects[end.reason]++
		})
		wait := pause.next()
		f.log.Warn("not following", "reason", string(end.reason), "err", end.err, "next_try", wait.Round(time.Millisecond).String())
		if err := sleep(ctx, wait); err != nil {
			return nil
		}
	}
}

func joinProblems(problems []Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (f *Follower) suspendAll(reason string) {
	for _, t := range f.tables.all() {
		f.suspend(t, reason)
	}
}

// follow is the life of one connection. adopted says that the place from which to follow is settled, came that the log was
// read from there.
func (f *Follower) follow(ctx context.Context, anew bool) (adopted, came bool, err error) {
	conn, err := sqltext.Dial(ctx, f.cfg.Source)
	if err != nil {
		return false, false, dialFailure(err, false)
	}
	defer conn.Close()
	applied, at := f.pos.state()
	identity := ""
	f.state.set(func(s *state) {
		if s.source != nil {
			identity = s.source.identity
		}
	})
	src, lack, err := inspectFor(ctx, conn, applied, at, identity)
	if err != nil {
		return false, false, dialFailure(err, true)
	}
	if lack == "" && src.identity == identity {
		if lack, err = src.otherHistory(ctx, conn, applied, at); err != nil {
			return false, false, dialFailure(err, true)
		}
	}
	problems := src.problems(f.cfg.Tables)
	if fatal := fatalProblems(problems); len(fatal) > 0 {
		return false, false, &failure{reason: ReasonSettings, err: fatal[0], mend: fatal}
	}
	for _, p := range problems {
		if !f.warned[p.Text] {
			f.warned[p.Text] = true
			f.log.Warn(p.Text, "mend", p.Mend)
		}
	}
	serverID := f.cfg.ServerID
	if serverID == 0 {
		serverID = freeServerID(ctx, conn)
	}
	conn.Close()
	f.adopt(src, lack, anew)
	came, err = f.stream(ctx, src, serverID)
	return true, came, err
}

// dialFailure sorts the errors of the first questions to the source.
func dialFailure(err error, loggedIn bool) error {
	if p, ok := accessProblem(err, loggedIn); ok {
		return &failure{reason: ReasonAccess, err: p, mend: []Problem{p}}
	}
	return &failure{reason: ReasonNetwork, err: err}
}

// adopt decides whether the stream goes on where it was, or begins anew with all tables. lack is why it can't go on.
func (f *Follower) adopt(src *source, lack string, anew bool) {
	var was source
	f.state.set(func(s *state) {
		if s.source != nil {
			was = *s.source
		}
		s.source = src
	})
	if was.identity != src.identity {
		f.lead(src)
	}
	reason := "the follower starts"
	switch {
	case was.identity == "":
		anew = true
	case anew:
		reason = "the place in the source's log was given up"
	case lack != "":
		anew, reason = true, lack
		f.log.Warn("all tables are loaded anew", "reason", lack)
	}
	if anew {
		f.restart(src, reason)
		return
	}
	if was.identity != src.identity {
		f.log.Warn("the source is another server now", "was", was.identity, "is", src.identity)
		// What the other server has shown to loads under way need not be what this one has.
		for _, t := range f.tables.all() {
			if t.loading() {
				f.reload(t, "the source is another server now")
			}
		}
	}
	if was.vars["innodb_native_foreign_keys"] != src.vars["innodb_native_foreign_keys"] {
		// Which tables can be kept depends on it.
		for _, t := range f.tables.all() {
			f.reload(t, "innodb_native_foreign_keys was changed")
		}
	}
}

// lead makes all further connections lead to that very server.
func (f *Follower) lead(src *source) {
	cfg := *f.cfg.Source
	before := cfg.Init
	cfg.Init = func(ctx context.Context, c *sqltext.Conn) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		// A server may have READ UNCOMMITTED for its default.
		if err := c.Exec(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
			return err
		}
		return checkIdentity(ctx, c, src.identity)
	}
	// Two connections for a load or an audit that reads its table in one SELECT, one for the list of tables.
	if old := f.pool.Swap(sqltext.NewPool(&cfg, 2*f.cfg.Loads+2+1, f.log)); old != nil {
		old.Close()
	}
	clear(f.made)
	f.pos.leave(src.end)
}

// restart gives up everything and begins at the end of the source's log.
func (f *Follower) restart(src *source, reason string) {
	for _, t := range f.tables.all() {
		f.suspendChanged(t, reason)
	}
	f.prepared = prepared{}
	clear(f.made)
	f.cfg.Sink.SchemaChanged("", "")
	f.pos.reset(src.start, src.end)
	f.idle.Store(src.asked.UnixNano()) // tables loaded from now on are not older
	f.requestLoad(f.tables.all()...)
	if f.wildcards {
		f.requestList()
	}
}

// checkIdentity refuses a connection to another server.
func checkIdentity(ctx context.Context, c *sqltext.Conn, want string) error {
	sql := "SELECT @@server_uuid"
	if c.Flavor() == schema.FlavorMariaDB {
		sql = "SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port)"
	}
	return c.Query(ctx, sql, func(v [][]byte) error {
		if string(v[0]) != want {
			return fmt.Errorf("%w: %s in place of %s", errOtherServer, v[0], want)
		}
		return nil
	})
}

// Position says how far the source's log has been applied.
func (f *Follower) Position() Position { return f.pos.position() }

// WaitApplied returns when the transactions that gtids names have been applied: when the Sink's live tables show them and
// all others are known not to. gtids has the server's own form, a set on MySQL, a list of domain-server-number on MariaDB.
// Other errors than that of a malformed text are ErrStopped and the cause of ctx.
func (f *Follower) WaitApplied(ctx context.Context, gtids string) error {
	if strings.TrimSpace(gtids) == "" {
		return nil
	}
	set, err := parseGTIDs(flavorOf(gtids), gtids)
	if err != nil {
		return err
	}
	return f.pos.waitSet(ctx, set)
}

// MergeGTIDs gives the text that names all transactions that a or b names, in the form that WaitApplied takes.
func MergeGTIDs(a, b string) (string, error) {
	switch {
	case a == "":
		return b, nil
	case b == "":
		return a, nil
	}
	var sets [2]gtidSet
	for i, text := range []string{a, b} {
		var err error
		if sets[i], err = parseGTIDs(flavorOf(text), text); err != nil {
			return "", err
		}
	}
	if sets[0].my != nil && sets[1].my != nil {
		if err := sets[0].my.Update(b); err != nil {
			return "", fmt.Errorf("GTID set %.100q: %w", b, err)
		}
		return sets[0].String(), nil
	}
	if sets[0].maria == nil || sets[1].maria == nil {
		return "", fmt.Errorf("GTIDs %.100q and %.100q are of two flavors", a, b)
	}
	for domain, g := range sets[1].maria.Sets {
		if have := sets[0].maria.Sets[domain]; have == nil || have.SequenceNumber < g.SequenceNumber {
			sets[0].maria.Sets[domain] = g
		}
	}
	return sets[0].String(), nil
}

// flavorOf tells whose form a text of GTIDs has.
func flavorOf(gtids string) string {
	if strings.Contains(gtids, ":") {
		return schema.FlavorMySQL
	}
	return schema.FlavorMariaDB
}
