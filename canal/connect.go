package canal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// errSilent ends a stream that has shown no sign of life for too long.
var errSilent = errors.New("no event and no heartbeat")

// errStalled ends a stream that shows heartbeats but not the source's transactions.
var errStalled = errors.New("the source has executed transactions that do not come")

// stream reads the log until it ends, and says why it did, and whether anything came at all. The error is a *failure.
func (f *Follower) stream(parent context.Context, src *source, serverID uint32) (came bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s := &stream{f: f, ctx: ctx, positionless: src.positionless(), flushes: !src.lossy}
	defer s.close()
	o := streamOptions{
		source: f.source.Load(), serverID: serverID, from: f.pos.set(), heartbeat: f.cfg.Heartbeat, log: f.log,
		silent: func() { cancel(errSilent) }, found: &s.found,
	}
	syncer, streamer, err := openStream(ctx, src, o, s)
	if err != nil {
		return false, streamFailure(ctx, err)
	}
	// Cancelled first, so that the syncer does not wait for the server.
	defer syncer.Close()
	defer cancel(nil)
	now := f.age()
	f.heard.Store(now)
	f.lastEvent.Store(now)
	f.state.set(func(st *state) { st.connected, st.trouble = true, "" })
	f.log.Info("following", "source", f.source.Load().String(), "flavor", src.flavor, "version", src.version,
		"applied", f.pos.mark().applied)

	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel(nil)
	watcher.Go(func() { f.watch(ctx, cancel, src, &s.found) })
	watcher.Go(func() { f.prove(ctx) })

	_, err = streamer.GetEvent(ctx)
	return s.came.Load(), streamFailure(ctx, err)
}

// streamOptions say how to open a stream.
type streamOptions struct {
	source    *sqltext.Config
	serverID  uint32
	from      gtidSet
	heartbeat time.Duration
	log       *slog.Logger
	// silent is called when the stream has shown no sign of life for too long, before its reading fails.
	silent func()
	// found is set when the source has found the place in its log: before that it may say nothing for long.
	found *atomic.Bool
}

// openStream connects and asks for the log from a set on; events go to handler. The stream ends with ctx; the syncer has
// to be closed after that.
func openStream(ctx context.Context, src *source, o streamOptions, handler replication.EventHandler) (
	*replication.BinlogSyncer, *replication.BinlogStreamer, error,
) {
	d := &streamDialer{life: ctx, options: o}
	cfg := replication.BinlogSyncerConfig{
		ServerID: o.serverID,
		Flavor:   src.flavor,
		Host:     o.source.Address,
		User:     o.source.User,
		Password: o.source.Password,
		// A name of the product's own among the source's replicas.
		Localhost:       "binlogcache",
		HeartbeatPeriod: o.heartbeat,
		// Its way to reconnect would give parts of transactions twice.
		DisableRetrySync:        true,
		VerifyChecksum:          true,
		DiscardGTIDSet:          true,
		EventCacheCount:         1, // events go to the handler
		Dialer:                  d.dial,
		SynchronousEventHandler: handler,
		RowsEventDecodeFunc:     rowcodec.Capture,
		Logger:                  slog.New(quiet{o.log.Handler()}),
	}
	if src.positionless() {
		// MariaDB 11.4 and later leave positions out of events, so stream.move adds up the sizes of all of them. (The
		// syncer's own way to do so counts the description that opens a stream in the middle of a file.)
		cfg.DumpCommandFlag = replication.BINLOG_SEND_ANNOTATE_ROWS_EVENT
	}
	if o.source.TLS != nil {
		cfg.TLSConfig = o.source.TLS.Clone()
	}
	syncer := replication.NewBinlogSyncer(cfg)
	streamer, err := syncer.StartSyncGTID(o.from.forSyncer())
	if err != nil {
		d.shut()
		syncer.Close()
		return nil, nil, err
	}
	return syncer, streamer, nil
}

// streamFailure sorts the ends of a stream; the cause of ctx's end goes before err.
func streamFailure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if fail := (*failure)(nil); errors.As(err, &fail) {
		return fail
	}
	if p, ok := accessProblem(err, true); ok {
		return &failure{reason: ReasonAccess, err: p, mend: []Problem{p}}
	}
	switch code := sqltext.ServerCode(err); {
	case code == mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG && strings.Contains(err.Error(), "same server_"):
		return &failure{reason: ReasonServerID, err: err}
	case code == mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG:
		return &failure{reason: ReasonGone, err: fmt.Errorf("the source cannot give its log from the applied place on: %w", err), anew: true}
	case code != 0:
		return &failure{reason: ReasonServer, err: err}
	case errors.Is(err, errHistory):
		return &failure{reason: ReasonReplaced, err: err, anew: true}
	case errors.Is(err, errStalled):
		return &failure{reason: ReasonStalled, err: err}
	case errors.Is(err, errAnonymous):
		p := Problem{Fatal: true, Text: errAnonymous.Error()}
		return &failure{reason: ReasonSettings, err: p, mend: []Problem{p}}
	case errors.Is(err, errSilent):
		return &failure{reason: ReasonSilent, err: err}
	}
	network := net.Error(nil)
	if errors.As(err, &network) || errors.Is(err, mysql.ErrBadConn) || sqltext.IsConnectionError(err) || errors.Is(err, net.ErrClosed) {
		return &failure{reason: ReasonNetwork, err: err}
	}
	return &failure{reason: ReasonUnreadable, err: err}
}

// mostStrays is how often in a row the source's address must lead to another server than the stream's before that one is
// followed: an address that leads now here, now there is no reason to go to and fro.
const mostStrays = 3

// watch asks the source now and then whether the stream shows its log. A reset of the log leaves a stream waiting for
// ever, in the belief that nothing happens; so does a server that is no longer the one behind the source's address. found
// is set when the source has found the place from which it is to send.
func (f *Follower) watch(ctx context.Context, cancel context.CancelCauseFunc, src *source, found *atomic.Bool) {
	var before *source
	var seq uint64
	var heard int64
	strays := 0
	for {
		if sleep(ctx, f.watchEvery) != nil {
			return
		}
		applied, at := f.pos.state()
		now, lacking, err := f.look(ctx, applied, at, src.identity)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			// The stream may be well all the same, and the next connection asks again.
			f.log.Debug("the source cannot be watched", "err", err)
			continue
		case now.identity != src.identity:
			if strays++; strays >= mostStrays {
				cancel(&failure{reason: ReasonReplaced, err: errors.New("the source's address leads to another server now")})
				return
			}
			continue
		case lacking != (lack{}):
			cancel(&failure{reason: ReasonReplaced, err: errors.New(lacking.reason), anew: true})
			return
		case now.unlogged:
			// Replication can begin at any time; what it has brought since is in no event.
			cancel(&failure{reason: ReasonSettings, err: unloggedProblem, mend: []Problem{unloggedProblem}})
			return
		}
		strays = 0
		f.state.set(func(s *state) { s.source = now })
		m := f.pos.mark()
		// Nothing came for a whole round although something was there to come.
		quiet := before != nil && m.seq == seq && f.lastEvent.Load() == heard
		if quiet && !f.pos.set().containsAll(before.start) {
			cancel(errStalled)
			return
		}
		if found.Load() {
			before, seq, heard = now, m.seq, f.lastEvent.Load()
		}
	}
}

// look is inspectFor over a connection of its own, which leads to where the source's address leads now.
func (f *Follower) look(ctx context.Context, applied gtidSet, at coordinate, identity string) (*source, lack, error) {
	c, err := sqltext.Dial(ctx, f.source.Load())
	if err != nil {
		return nil, lack{}, err
	}
	defer c.Close()
	return inspectFor(ctx, c, applied, at, identity)
}

// freeServerID chooses a random number for the follower that none of the source's replicas has, as far as the account may
// see them.
func freeServerID(ctx context.Context, c *sqltext.Conn) uint32 {
	used := map[uint32]bool{}
	sql := "SHOW REPLICAS"
	if c.Flavor() == schema.FlavorMariaDB {
		sql = "SHOW SLAVE HOSTS"
	}
	// Where it is not permitted, or not known to the server, chance has to do.
	_ = c.Query(ctx, sql, func(v [][]byte) error {
		if id, err := strconv.ParseUint(string(v[0]), 10, 32); err == nil {
			used[uint32(id)] = true
		}
		return nil
	})
	for {
		// Above what people give to servers.
		if id := 1<<31 | rand.Uint32(); !used[id] {
			return id
		}
	}
}

// streamDialer makes the one connection of a BinlogSyncer and ends it with life. A second one, by which the syncer would
// kill the first on the server when it is closed, is refused: closing must not wait for a server that may be gone.
type streamDialer struct {
	life    context.Context
	options streamOptions

	mu   sync.Mutex
	used bool
	conn net.Conn
	stop func() bool
}

func (d *streamDialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used || d.life.Err() != nil {
		return nil, net.ErrClosed
	}
	d.used = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, d.options.source.Network, d.options.source.Address)
	if err != nil {
		return nil, err
	}
	d.conn = conn
	d.stop = context.AfterFunc(d.life, func() { _ = conn.Close() })
	return &watchedConn{Conn: conn, options: d.options}, nil
}

// shut closes the connection.
func (d *streamDialer) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	if d.conn != nil {
		d.stop()
		_ = d.conn.Close()
	}
}

// watchedConn gives up when nothing comes for too long. The syncer's own time limit would also count the time that the
// handler takes for an event.
type watchedConn struct {
	net.Conn
	options streamOptions
}

// SetReadDeadline does nothing: Read sets its own. The syncer sets one when it is closed; were that an error, because the
// connection is closed already, it would write to what its reader still uses.
func (c *watchedConn) SetReadDeadline(time.Time) error { return nil }

func (c *watchedConn) Read(b []byte) (int, error) {
	limit := silentHeartbeats * c.options.heartbeat
	if !c.options.found.Load() {
		limit = max(limit, searchTime)
	}
	if err := c.Conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		c.options.silent()
	}
	return n, err
}

// quiet keeps go-mysql's log lines, which repeat what the follower says itself, at debug level.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
