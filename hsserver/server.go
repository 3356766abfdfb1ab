package hsserver

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// Config describes one port of the protocol.
type Config struct {
	Reader Reader
	// Writer carries out writes of a writable port; nil refuses them.
	Writer Writer
	// Secret is what clients have to show before they may open and use indexes; empty lets everybody in.
	Secret string
	// Writable is true on the write port.
	Writable bool
	// Logger gets what an operator has to know, at most once a second each; nil discards it. It never gets values.
	Logger *slog.Logger
}

// Server serves one port of the protocol. It is a netserver.Protocol.
type Server struct {
	cfg      Config
	counters [counterStripes]counters
	warned   atomic.Int64 // when the last warning was written, in nanoseconds since 1970
	unwarned atomic.Int64 // warnings left out since then

	openBytes atomic.Int64 // of all sessions, of maxAllOpenBytes
}

var _ netserver.Protocol = (*Server)(nil)

// New makes a server of the given configuration.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg}
}

// NewSession makes the session of one connection.
func (s *Server) NewSession(c netserver.Conn) netserver.Session {
	ss := &session{server: s, conn: c, count: &s.counters[c.ID()%counterStripes], authorized: s.cfg.Secret == "", lineBytes: MaxLineBytes}
	if !ss.authorized {
		ss.lineBytes = maxUnauthorizedLineBytes
	}
	c.SetInputLimit(ss.lineBytes)
	ss.emit = ss.emitRow
	ss.emitStored = func(row rowcodec.Row) bool { return ss.emitRow(row, 0) }
	return ss
}

// Stats are the counts since the start.
type Stats struct {
	// Opens, Finds, Writes and Auths are the requests carried out, by kind, those that found nothing or failed included.
	Opens, Finds, Writes, Auths uint64
	// Rows is the number of rows in the answers to finds.
	Rows uint64
	// Parked is the number of finds that left the connection's loop: for the database, or because they were long.
	Parked uint64
	// Refused is the number of writes that were refused.
	Refused uint64
	// Unauthorized is the number of requests without the right to make them, wrong secrets included.
	Unauthorized uint64
	// Failures is the number of all answers with a code other than 0.
	Failures uint64
	// Limits counts the requests that went beyond a bound, by its name: line, index_id, open_indexes, in_values, filters,
	// answer.
	Limits map[string]uint64
}

// counterStripes spreads the counters, so that loops rarely write to one cache line.
const counterStripes = 16

type counters struct {
	opens, finds, writes, auths, rows, parked, refused, unauthorized, failures atomic.Uint64
	limits                                                                     [limitCount]atomic.Uint64
	_                                                                          [64]byte
}

// Stats adds the counters up.
func (s *Server) Stats() Stats {
	t := Stats{Limits: make(map[string]uint64, limitCount)}
	for i := range s.counters {
		c := &s.counters[i]
		t.Opens += c.opens.Load()
		t.Finds += c.finds.Load()
		t.Writes += c.writes.Load()
		t.Auths += c.auths.Load()
		t.Rows += c.rows.Load()
		t.Parked += c.parked.Load()
		t.Refused += c.refused.Load()
		t.Unauthorized += c.unauthorized.Load()
		t.Failures += c.failures.Load()
		for l := limitNone + 1; l < limitCount; l++ {
			t.Limits[limitNames[l]] += c.limits[l].Load()
		}
	}
	return t
}

// warn writes a warning, unless one was written within the last second; the next one says how many were left out.
func (s *Server) warn(msg string, c netserver.Conn, err error, args ...any) {
	now, last := time.Now().UnixNano(), s.warned.Load()
	if now-last < int64(time.Second) || !s.warned.CompareAndSwap(last, now) {
		s.unwarned.Add(1)
		return
	}
	args = append(args, "conn_id", c.ID(), "remote", c.RemoteAddr())
	if err != nil {
		args = append(args, "err", err)
	}
	if n := s.unwarned.Swap(0); n > 0 {
		args = append(args, "left_out", n)
	}
	s.cfg.Logger.Warn(msg, args...)
}
