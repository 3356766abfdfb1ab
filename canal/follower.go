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
	"github.com/binlogcache/binlogcache/internal/steady"
	"github.com/binlogcache/binlogcache/schema"
)

// Config says what to follow and where to put it.
type Config struct {
	// Source is the server. The account needs SELECT on the followed tables, REPLICATION SLAVE and REPLICATION CLIENT.
	Source *sqltext.Config
	// Fallbacks are tried in turn when the server that is followed is lost. One of them goes on by GTID where the last one
	// was, without a loss; or, where none can, all tables are loaded anew from one. They must be of the same flavor.
	Fallbacks []*sqltext.Config
	// Patience is how long the server that is followed may be away before the others are tried. 0 means 5 s.
	Patience time.Duration
	// Led, where it is not nil, is called when the follower turns to a server, the first one included, with a configuration
	// for connections that lead to that very server or fail with sqltext.ErrOtherServer. It is to be quick: nothing is
	// followed meanwhile.
	Led func(source *sqltext.Config)
	// Tables are the tables to follow, those to come included.
	Tables schema.Patterns
	Sink   Sink
	// Saved is the state that an earlier process has kept, to begin with instead of loading the tables; nil for none. It is used
	// where the source can go on from there, and a table of it where its definition is the same.
	Saved *Saved
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
	// ProveEvery says how long to wait before the source is asked again where its log ends, so as to prove that all of it
	// has been applied. It is called before each wait, from one goroutine at a time. Nil, and 0 from it, mean one second.
	ProveEvery func() time.Duration
	// Proved, where it is not nil, is called with each proof: everything that the source had at that time is applied. It is
	// called from one goroutine at a time, in order, and is to be quick.
	Proved func(at steady.Time)
	// Watched, where it is not nil, is called after each transaction that has changed rows of a table of the schema WatchSchema,
	// followed or not, and when a transaction that did is prepared. Whether a SELECT sees the change at that time is not said.
	WatchSchema string
	Watched     func()
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

	// candidates are Run's; source is the one of them that is followed or tried.
	candidates candidates
	source     atomic.Pointer[sqltext.Config]
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
	// resume is Run's until the first connection has been made. restoring are the goroutines that it starts, restores how
	// many of them have not ended.
	resume    *resumption
	restoring sync.WaitGroup
	restores  atomic.Int32
	// warned are the problems that were logged; Run's own.
	warned map[string]bool

	// heard is when the last event came, lastEvent without heartbeats: nanoseconds since begun. proved is the time of the
	// last proof, a steady.Time.
	begun                    time.Time
	heard, lastEvent, proved atomic.Int64
	counts                   counts
	state                    state

	// reads are the reads of single rows that wait to be kept. See reads.go.
	reads readQueue
	// era changes before and after the source's log, or the server itself, becomes another.
	era atomic.Uint64

	// hooks let tests stop at certain points.
	hooks map[hookPoint]func(schema.Name)
}

type hookPoint uint8

const (
	hookDefined   hookPoint = iota // a load has read the definition
	hookChunkRead                  // a load has read a piece and its high mark
	hookReadsEnd                   // the end of the log has been read for reads of single rows; no name
	hookRedefined                  // the new definition of a live table has been read
)

func (f *Follower) hook(p hookPoint, name schema.Name) {
	if h := f.hooks[p]; h != nil {
		h(name)
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
		begun: time.Now(), cfg: cfg, log: cfg.Logger, gate: make(gate, 1), loaderWake: make(chan struct{}, 1),
		tables: registry{tables: map[schema.Name]*table{}}, watchEvery: defaultWatch, mostRows: maxChunk,
		warned: map[string]bool{}, made: map[string]uint32{}, candidates: newCandidates(&cfg),
	}
	f.source.Store(cfg.Source)
	// Versions of one process must not look like those of the one before it.
	f.pos.epoch = uint16(rand.UintN(1 << 15))
	f.state.reconnects = map[Reason]uint64{}
	exact := cfg.Tables.Exact()
	for _, name := range exact {
		f.tables.add(name)
	}
	f.wildcards = len(exact) < len(cfg.Tables)
	if cfg.Saved != nil {
		resume, err := newResumption(cfg.Saved)
		if err != nil {
			return nil, err
		}
		f.resume = resume
	}
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
		f.restoring.Wait()
		f.pos.close()
		f.state.set(func(s *state) { s.connected = false })
	}()
	if f.resume != nil {
		f.resume.take(f)
	}
	for _, t := range f.tables.all() {
		f.suspend(t, "waits for the source")
	}
	wg.Go(func() { f.runLoader(ctx) })
	wg.Go(func() { f.runReads(ctx) })

	c := &f.candidates
	started, anew, unreadable := false, f.resume == nil, 0
	for {
		f.source.Store(c.all[c.at])
		seq, begin := f.pos.mark().seq, time.Now()
		adopted, came, err := f.follow(ctx, anew)
		if ctx.Err() != nil {
			return nil
		}
		var end *failure
		if !errors.As(err, &end) {
			end = &failure{reason: ReasonBug, err: err}
		}
		if came {
			started = true
			c.followed()
		}
		anew = anew && !adopted
		if f.pos.mark().seq != seq {
			c.pause, unreadable = backoff{}, 0
		}
		if time.Since(begin) > steadyTime {
			c.pause = backoff{}
		}
		if end.reason == ReasonUnreadable {
			if unreadable++; unreadable >= unreadableTries {
				end.anew, unreadable = true, 0
			}
		}
		if end.reason == ReasonSettings && c.at == c.home {
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
		tried := c.all[c.at].Address
		wait := c.failed(end)
		if problems := c.hopeless(); len(problems) > 0 && !started {
			return joinProblems(problems)
		}
		f.log.Warn("not following", "source", tried, "reason", string(end.reason), "err", end.err,
			"next_source", c.all[c.at].Address, "next_try", wait.Round(time.Millisecond).String())
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
	cfg := f.source.Load()
	conn, err := sqltext.Dial(ctx, cfg)
	if err != nil {
		return false, false, dialFailure(err, false)
	}
	defer conn.Close()
	applied, at := f.pos.state()
	var was *source
	f.state.set(func(s *state) { was = s.source })
	identity := ""
	if f.resume != nil {
		was = f.resume.source()
	}
	if was != nil {
		identity = was.identity
	}
	src, lacking, err := inspectFor(ctx, conn, applied, at, identity)
	if err != nil {
		return false, false, dialFailure(err, true)
	}
	if len(f.candidates.all) > 1 && f.resume == nil {
		if err := unfit(was, src); err != nil {
			return false, false, &failure{reason: ReasonUnfit, err: err}
		}
	}
	src.lossy = !src.flushes() || src.identity == identity && !was.flushes()
	if lacking == (lack{}) && src.identity == identity {
		if lacking, err = src.otherHistory(ctx, conn, applied, at); err != nil {
			return false, false, dialFailure(err, true)
		}
		if lacking == (lack{}) {
			if lacking, err = src.lostInCrash(ctx, conn, at); err != nil {
				return false, false, dialFailure(err, true)
			}
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
	if was != nil && f.resume == nil && src.identity != identity && lacking == (lack{}) && !anew {
		if lacking, err = f.errantAt(ctx, cfg, src, serverID, applied); err != nil {
			return false, false, err
		}
	}
	if lacking != (lack{}) && !anew && f.resume == nil && f.candidates.waitFor(src, src.identity == identity, lacking) {
		return false, false, &failure{reason: ReasonBehind, err: errors.New(lacking.reason)}
	}
	conn.Close()
	f.adopt(ctx, cfg, src, was, lacking, anew)
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

// adopt turns to a server, and decides whether the stream goes on where it was, or begins anew with all tables.
func (f *Follower) adopt(ctx context.Context, cfg *sqltext.Config, src, was *source, lacking lack, anew bool) {
	f.era.Add(1)
	defer f.era.Add(1) // who has seen it between has seen neither the one log nor the other
	resume := f.resume
	f.resume = nil
	identity := ""
	if was != nil {
		identity = was.identity
	}
	reason := "the follower starts"
	switch {
	case was == nil:
		anew = true
	case resume != nil && identity != src.identity:
		anew, reason = true, "the saved state is of another server"
	case anew:
		reason = "the place in the source's log was given up"
	case lacking != (lack{}):
		anew, reason = true, lacking.reason
		f.log.Warn("all tables are loaded anew", "source", cfg.Address, "reason", reason)
	}
	if anew {
		// Before anything is answered by the other server, which may be behind.
		for _, t := range f.tables.all() {
			f.suspendChanged(t, reason)
		}
	}
	if f.wildcards && (anew || resume != nil) {
		f.wantList() // who sees the new source must see that its tables are not known yet
	}
	var from *sqltext.Config
	f.state.set(func(s *state) {
		from = s.led
		s.source, s.led = src, cfg
	})
	other := identity != src.identity
	if from != nil && from != cfg {
		f.counts.failovers.Add(1)
		f.log.Warn("another source takes over", "was", from.Address, "is", cfg.Address, "same_server", !other, "tables_are_loaded_anew", anew)
	} else if was != nil && other {
		f.log.Warn("the source is another server now", "was", identity, "is", src.identity)
	}
	if other || from != cfg {
		f.lead(cfg, src)
	}
	if other || resume != nil {
		clear(f.made)
		f.pos.leave(src.end)
	}
	if anew {
		if resume != nil {
			f.log.Warn("the saved state is not used", "reason", reason)
		}
		f.restart(src)
		return
	}
	if resume != nil {
		f.restore(ctx, resume, src.end)
		return
	}
	if other {
		// What the other server has shown to loads under way need not be what this one has. Nor need definitions be, that
		// were read for clients.
		for _, t := range f.tables.all() {
			if t.loading() {
				f.reload(t, "the source is another server now")
			}
		}
		f.cfg.Sink.SchemaChanged("", "")
	}
	if was.vars["innodb_native_foreign_keys"] != src.vars["innodb_native_foreign_keys"] {
		// Which tables can be kept depends on it.
		for _, t := range f.tables.all() {
			f.reload(t, "innodb_native_foreign_keys was changed")
		}
	}
}

// restart begins at the end of the source's log with all tables, which are suspended.
func (f *Follower) restart(src *source) {
	f.prepared = prepared{}
	clear(f.made)
	f.cfg.Sink.SchemaChanged("", "")
	f.pos.reset(src.start, src.state, coordinate{}, src.end)
	f.proved.Store(int64(src.asked)) // tables loaded from now on are not older
	f.requestLoad(f.tables.all()...)
	if f.wildcards {
		f.beginList()
	}
}

// Identify asks a connection which server it leads to. EndRead compares such texts.
func Identify(ctx context.Context, c *sqltext.Conn) (server string, err error) {
	sql := "SELECT @@server_uuid"
	if c.Flavor() == schema.FlavorMariaDB {
		sql = "SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port)"
	}
	err = c.Query(ctx, sql, func(v [][]byte) error {
		server = string(v[0])
		return nil
	})
	return server, err
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
