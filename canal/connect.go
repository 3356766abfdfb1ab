package canal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// errStalled ends a stream that shows heartbeats but not the source's transactions.
var errStalled = errors.New("the source has executed transactions that do not come")

// stream reads the log until it ends, and says why it did, and whether anything came at all. The error is a *failure.
func (f *Follower) stream(parent context.Context, src *source, serverID uint32) (came bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s := &stream{f: f, ctx: ctx, positionless: src.positionless(), flushes: !src.lossy}
	defer s.close()
	o := streamOptions{
		source: f.source.Load(), serverID: serverID, from: f.pos.set(), heartbeat: f.cfg.Heartbeat, found: &s.found,
	}
	r, err := openLog(ctx, src, o, s)
	if err != nil {
		return false, streamFailure(ctx, err)
	}
	defer r.close()
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

	err = r.run(ctx)
	return s.came.Load(), streamFailure(ctx, err)
}

// mariadbSameID is ER_SLAVE_SAME_ID, which go-mysql has no name for.
const mariadbSameID = 4052

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
	case code == mariadbSameID || code == mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG && strings.Contains(err.Error(), "same server_"):
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
	case errors.Is(err, errFault):
		return &failure{reason: ReasonBug, err: err, anew: true}
	case errors.Is(err, sqltext.ErrSilent):
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
