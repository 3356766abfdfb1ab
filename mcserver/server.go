package mcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/schema"
)

// Compat chooses between safe behaviour and the plugin's own quirks.
type Compat uint8

const (
	// CompatSafe gives the plugin's answers except where they would be wrong or lose data.
	CompatSafe Compat = iota
	// CompatStrict gives the plugin's answers to the byte: CHAR values filled up with blanks, cas 0 without a cas
	// column, integer keys that are followed by other text.
	CompatStrict
)

// String returns "safe" or "strict".
func (c Compat) String() string {
	if c == CompatStrict {
		return "strict"
	}
	return "safe"
}

// ParseCompat is the inverse of String.
func ParseCompat(s string) (Compat, error) {
	switch s {
	case "safe":
		return CompatSafe, nil
	case "strict":
		return CompatStrict, nil
	}
	return 0, fmt.Errorf("memcached compat mode %q: safe or strict", s)
}

// ProtocolVersion is what clients are told: the version of memcached whose protocol this is. Client libraries parse it
// as three numbers and choose commands by it, so it is not the version of this program.
const ProtocolVersion = "1.6.45"

// Refusal is what a client gets that is over the limit of connections, before it is closed.
const Refusal = "ERROR Too many open connections\r\n"

const (
	// maxLineBytes is how long a command line without its end may grow; only get and gets may be longer.
	maxLineBytes = 2048
	// maxItemBytes bounds a value with its key and what memcached keeps beside them.
	maxItemBytes     = 1 << 20
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
	// Info gives the figures of `stats` that others count; it is called for each `stats` and `stats settings`. Nil
	// leaves them 0.
	Info func() Info
	// Logger may be nil.
	Logger *slog.Logger
}

// Server serves the memcached protocols. It is a netserver.Protocol.
type Server struct {
	reader     Reader
	compat     Compat
	find       func(ctx context.Context) (ContainerSet, error)
	info       func() Info
	logger     *slog.Logger
	started    time.Time
	containers atomic.Pointer[containers]
	changing   sync.Mutex   // serialises changes of containers
	refreshed  atomic.Int64 // when find was last called, Unix nanoseconds
	counters   counters
	sessions   sync.Map // connection ID to *session, for `stats conns`
	errorLog   errorLog
}

var _ netserver.Protocol = (*Server)(nil)

// New makes a Server. Until SetContainers has been called, reads are answered with an error.
func New(cfg Config) *Server {
	s := &Server{reader: cfg.Reader, compat: cfg.Compat, find: cfg.FindContainers, info: cfg.Info, logger: cfg.Logger, started: time.Now()}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.info == nil {
		s.info = func() Info { return Info{} }
	}
	s.errorLog.logger = s.logger
	return s
}

// containers are the containers in use, with everything that holds for all of them. It is immutable.
type containers struct {
	byName   map[string]*container
	inOrder  []*container
	first    *container // where connections begin; nil when there is none
	policies Policies
	options  Options
}

// readsTables tells that reads go to the tables. cache_only finds nothing as long as there are no items but rows.
func (cs *containers) readsTables() bool {
	return cs.policies.Get == PolicyInnoDBOnly || cs.policies.Get == PolicyCaching
}

// SetContainers puts a set of containers to use in place of the ones before. Each is checked against its table; what
// does not fit is left out and told in the result, after the set's own problems. An error means that a table could not
// be looked at, because the database could not be asked; nothing is changed then. Connections stay at the container
// that has the name of the one they are at, if there is one.
func (s *Server) SetContainers(ctx context.Context, set ContainerSet) ([]Problem, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := &containers{byName: make(map[string]*container), policies: set.Policies, options: set.Options.withDefaults()}
	problems := append([]Problem(nil), set.Problems...)
	for i := range set.Containers {
		c, err := s.open(ctx, &set.Containers[i], next.options)
		if err != nil {
			return nil, err
		}
		if err := c.problem(); err != nil {
			problems = append(problems, Problem{Container: c.Name, Reason: err.Error()})
			continue
		}
		next.add(c)
	}
	s.containers.Store(next)
	return problems, nil
}

// add makes c known. The container that is called default is the first one, or else the first of the list.
func (cs *containers) add(c *container) {
	cs.byName[c.Name] = c
	cs.inOrder = append(cs.inOrder, c)
	if cs.first == nil || c.Name == defaultContainer {
		cs.first = c
	}
}

// open makes a container and binds it to its table. What does not fit is the container's problem; an error means that
// the database could not be asked.
func (s *Server) open(ctx context.Context, cfg *Container, options Options) (*container, error) {
	// Problems at this point are the caller's to report, so nothing is logged yet.
	c := &container{Container: *cfg, options: options, compat: s.compat, logger: slog.New(slog.DiscardHandler)}
	_, err := s.reopen(ctx, c)
	if err != nil && c.problem() == nil {
		return nil, fmt.Errorf("container %q: %w", c.Name, err)
	}
	c.logger = s.logger
	return c, nil
}

// reopen asks for c's table and binds c to it.
func (s *Server) reopen(ctx context.Context, c *container) (*binding, error) {
	table, err := s.reader.Open(ctx, c.Schema, c.Table)
	if errors.Is(err, schema.ErrNoTable) {
		c.fail(fmt.Errorf("there is no base table %s.%s", c.Schema, c.Table))
		return nil, c.problem()
	}
	if err != nil {
		return nil, err
	}
	return c.rebind(table)
}

// refresh looks on the source for a container that isn't known, and puts new ones to use. It returns the containers in
// use after that.
func (s *Server) refresh(ctx context.Context, name []byte) (*containers, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	now := s.containers.Load()
	if now == nil || now.byName[string(name)] != nil || !s.mayRefresh() {
		return now, nil
	}
	set, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	s.refreshed.Store(time.Now().UnixNano())
	next := &containers{byName: make(map[string]*container), policies: now.policies, options: now.options}
	for _, c := range now.inOrder {
		next.add(c)
	}
	for i := range set.Containers {
		if next.byName[set.Containers[i].Name] != nil {
			continue
		}
		c, err := s.open(ctx, &set.Containers[i], next.options)
		if err != nil {
			return nil, err
		}
		if c.problem() == nil {
			s.logger.Info("container found", "container", c.Name, "table", c.Schema+"."+c.Table)
			next.add(c)
		}
	}
	// What is new does not become the default of connections, unless there was none.
	if now.first != nil {
		next.first = now.first
	}
	s.containers.Store(next)
	return next, nil
}

// mayRefresh tells that the source may be asked for a container that isn't known.
func (s *Server) mayRefresh() bool {
	return s.find != nil && time.Now().UnixNano()-s.refreshed.Load() >= int64(refreshInterval)
}

// ContainerStatus is a container in use, for status output.
type ContainerStatus struct {
	Name, Schema, Table string
	Default             bool
	// Problem says why it can't be read at present, in one line; empty when it can.
	Problem string
}

// Containers returns the containers in use, in order; nil before the first SetContainers.
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
