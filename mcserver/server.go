package mcserver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/netserver"
)

// ProtocolVersion is what clients are told: the version of memcached whose protocol this is. Client libraries parse it
// as three numbers and choose commands by it, so it is not the version of this program.
const ProtocolVersion = "1.6.45"

// Refusal is what a client gets that is over the limit of connections, before it is closed.
const Refusal = "ERROR Too many open connections\r\n"

const (
	// maxLineBytes is how long a command line without its end may grow; only get and gets may be longer.
	maxLineBytes = 2048
	// DefaultItemBytes bounds a value with its key and what memcached keeps beside them, unless Config says otherwise.
	DefaultItemBytes = 1 << 20
	// itemHeaderBytes is about what memcached keeps.
	itemHeaderBytes  = 50
	maxMetaTokens    = 20
	maxOpaqueBytes   = 32
	maxValueAnnounce = 1<<31 - 3
	// maxRangeBytes bounds the answer of one range.
	maxRangeBytes = 16 << 20
	// refreshInterval is how often, at most, unknown container names are looked for on the source.
	refreshInterval = time.Second
	// reopenAttempts bounds how often one key is tried again because its table's definition changed meanwhile.
	reopenAttempts = 4
)

// Config is what a Server is made of.
type Config struct {
	// Reader finds the tables. It is needed.
	Reader Reader
	Compat Compat
	// FindContainers returns what is in innodb_memcache now (LoadContainers). It is called when a client names a
	// container that isn't known, at most once a second; containers that are new are then used, changes to known
	// ones are not, as in the plugin. Nil finds none.
	FindContainers func(ctx context.Context) (ContainerSet, error)
	// Writer changes rows. Nil refuses to.
	Writer Writer
	// FlushContainers names the containers of which flush_all may empty the table; with CompatStrict it may for all.
	FlushContainers []string
	// Items keep what is in no table. Nil keeps nothing: reads of it find nothing, writes are refused.
	Items Items
	// MaxItemBytes bounds one item; 0 is DefaultItemBytes.
	MaxItemBytes int
	// Users are those who may use the server; nil is everybody.
	Users *Users
	// Info gives the figures of `stats` that others count; it is called for each `stats` and `stats settings`. Nil
	// leaves them 0.
	Info func() Info
	// Logger may be nil.
	Logger *slog.Logger
}

// Server serves the memcached protocols. It is a netserver.Protocol.
type Server struct {
	reader  Reader
	compat  Compat
	find    func(ctx context.Context) (ContainerSet, error)
	info    func() Info
	items   Items
	writer  Writer
	flush   []string
	lastCAS atomic.Uint64 // given to a row
	maxItem int
	users   *Users
	// What could not be stored because it is too large, or because there is no room for it.
	tooLarge, noMemory atomic.Uint64
	logger             *slog.Logger
	started            time.Time
	containers         atomic.Pointer[containers]
	changing           sync.Mutex   // serialises changes of containers
	refreshed          atomic.Int64 // when find was last called, Unix nanoseconds
	counters           counters
	sessions           sync.Map // connection ID to *session, for `stats conns`
	errorLog           errorLog
}

var _ netserver.Protocol = (*Server)(nil)

// New makes a Server. Until SetContainers has been called, reads are answered with an error.
func New(cfg Config) *Server {
	s := &Server{reader: cfg.Reader, compat: cfg.Compat, find: cfg.FindContainers, info: cfg.Info, logger: cfg.Logger, started: time.Now(), items: cfg.Items, writer: cfg.Writer, flush: cfg.FlushContainers, maxItem: cfg.MaxItemBytes, users: cfg.Users}
	if s.maxItem <= 0 {
		s.maxItem = DefaultItemBytes
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.info == nil {
		s.info = func() Info { return Info{} }
	}
	s.errorLog.logger = s.logger
	return s
}

// ContainerStatus is a known container, for status output.
type ContainerStatus struct {
	Name, Schema, Table string
	Default             bool
	// Problem says why it can't be read at present, in one line; empty when it can.
	Problem string
}

// Containers returns the containers that are known, in order, also those that can't be read at present; nil before the
// first SetContainers.
func (s *Server) Containers() []ContainerStatus {
	now := s.containers.Load()
	if now == nil {
		return nil
	}
	all := make([]ContainerStatus, 0, len(now.inOrder))
	for _, c := range now.inOrder {
		st := ContainerStatus{Name: c.Name, Schema: c.Schema, Table: c.Table, Default: c == now.first}
		if err := c.problem(); err != nil {
			st.Problem = err.Error()
		}
		all = append(all, st)
	}
	return all
}

// errorLog writes errors that clients met, at most one a second, with the number of those left out.
type errorLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   time.Time
	missed int
}

func (l *errorLog) report(msg string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.last) < time.Second {
		l.missed++
		return
	}
	l.logger.Warn(msg, "err", err, "left_out", l.missed)
	l.last, l.missed = time.Now(), 0
}
