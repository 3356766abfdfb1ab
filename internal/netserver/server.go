package netserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Server listens on one address and serves one protocol.
type Server struct {
	cfg      Config
	counters counters
	pool     bufferPool
	workers  workers
	nextID   atomic.Uint64

	// jobs is the context of all parked jobs; it ends when connections are cut.
	jobs    context.Context
	endJobs context.CancelFunc

	mu       sync.Mutex // guards what follows
	listener *boundListener
	engine   engine
	stopped  bool          // Shutdown was called
	ended    chan struct{} // Run has returned; nil before Run
}

// engine drives the connections of one Server.
type engine interface {
	// run accepts and serves until drain or abort was called and no connection and no job is left.
	run() error
	// drain stops accepting, answers what was received, and closes. It does not wait.
	drain()
	// abort stops accepting and closes all connections at once. It does not wait.
	abort()
	// release frees an engine that was never run.
	release()
	bytes() (in, out uint64)
}

// New checks cfg and makes a Server that does not listen yet.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", cfg.Name, err)
	}
	s := &Server{cfg: cfg}
	s.workers.max = cfg.Workers
	s.jobs, s.endJobs = context.WithCancel(context.Background())
	return s, nil
}

// Listen binds the address, so that Addr is known and errors come before Run. Clients can connect from then on and are
// served once Run is called. A second call does nothing.
func (s *Server) Listen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil || s.stopped {
		return nil
	}
	l, err := listen(ctx, &s.cfg)
	if err != nil {
		return err
	}
	e, err := newEngine(s, l)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", s.cfg.Listen, err), l.Close())
	}
	s.listener, s.engine = l, e
	return nil
}

func newEngine(s *Server, l *boundListener) (engine, error) {
	if s.cfg.Engine == EngineEpoll {
		return newEpollEngine(s, l)
	}
	return newStreamEngine(s, l), nil
}

// Addr is the bound address; nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Run listens, unless Listen was called, and serves until Shutdown is called or ctx ends; then it returns nil. The end of
// ctx cuts all connections, Shutdown is the graceful way. When Run has returned no goroutine and no connection of the
// Server is left. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if s.stopped && s.ended == nil { // Shutdown came first
		s.mu.Unlock()
		return nil
	}
	if s.ended != nil {
		s.mu.Unlock()
		return errors.New("run server " + s.cfg.Name + ": it was run before")
	}
	e, ended := s.engine, make(chan struct{})
	s.ended = ended
	s.mu.Unlock()
	defer close(ended)
	defer s.endJobs()
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	err := e.run()
	s.workers.wait()
	return errors.Join(err, s.closeListener())
}

func (s *Server) abort() {
	s.endJobs()
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if e != nil {
		e.abort()
	}
}

func (s *Server) closeListener() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("close listener %s: %w", s.cfg.Listen, err)
	}
	return nil
}

// abortGrace is how long Shutdown waits for jobs to notice that their context has ended.
const abortGrace = 2 * time.Second

// Shutdown stops accepting, answers the requests that were received (the parked ones included), sends the answers, closes the
// connections and waits for Run to return. When ctx ends first the remaining connections are cut and the context's cause
// is returned. It may be called at any time, also before Run and more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	e, ended := s.engine, s.ended
	s.mu.Unlock()
	if ended == nil { // not run, and never will be
		if e != nil && first {
			e.release()
		}
		return s.closeListener()
	}
	e.drain()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.abort()
	grace := time.NewTimer(abortGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		return fmt.Errorf("shut down server %s: %d jobs did not end: %w", s.cfg.Name, s.counters.parking.Load(), context.Cause(ctx))
	}
	return fmt.Errorf("shut down server %s: connections were cut: %w", s.cfg.Name, context.Cause(ctx))
}

// Close ends the Server without grace: it stops listening, cuts all connections and waits for Run to return, if it was
// called. It may be called at any time and more than once.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Stats returns the counters. It may be called at any time.
func (s *Server) Stats() Stats {
	c := &s.counters
	st := Stats{
		Open: c.open.Load(), MaxConns: int64(s.cfg.MaxConns), Loops: s.cfg.Loops, Accepted: c.accepted.Load(), AcceptErrors: c.acceptErrors.Load(),
		Closed: make(map[string]uint64, causeCount), Parked: c.parked.Load(), Parking: c.parking.Load(), Waiting: c.waiting.Load(), Panics: c.panics.Load(),
	}
	for i := range causeCount {
		st.Closed[i.String()] = c.closed[i].Load()
	}
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if e != nil {
		st.BytesIn, st.BytesOut = e.bytes()
	}
	return st
}

type (
	job   = func(ctx context.Context, out []byte) []byte
	begin = func(ctx context.Context, resume func(quick bool, job job))
)

// link is what both engines' connections have in common: the memory behind Conn.
type link struct {
	srv        *Server
	id         uint64
	out        []byte
	inputLimit int
	job        job
	begin      begin // in place of job
	sess       Session
	// ctx is the context of the connection's jobs, made with the first one.
	ctx    context.Context
	cancel context.CancelFunc
}

func (l *link) init(s *Server) {
	l.srv = s
	l.id = s.nextID.Add(1)
	l.inputLimit = s.cfg.MaxInput
}

func (l *link) Out() []byte         { return l.out }
func (l *link) SetOut(out []byte)   { l.out = out }
func (l *link) OutputLimit() int    { return outputLimit }
func (l *link) SetInputLimit(n int) { l.inputLimit = max(n, 1) }
func (l *link) ID() uint64          { return l.id }

func (l *link) Park(job func(ctx context.Context, out []byte) []byte) {
	l.checkParked()
	l.job = job
}

func (l *link) Await(begin func(context.Context, func(bool, func(context.Context, []byte) []byte))) {
	l.checkParked()
	l.begin = begin
}

func (l *link) checkParked() {
	if l.parks() {
		panic("netserver: Park or Await called twice in one Serve")
	}
}

// parks reports that the session waits for a job.
func (l *link) parks() bool { return l.job != nil || l.begin != nil }

// takeParked gives what the session waits for.
func (l *link) takeParked() (job, begin) {
	job, begin := l.job, l.begin
	l.job, l.begin = nil, nil
	return job, begin
}

// await calls begin. resume is called once, whatever that does.
func (l *link) await(begin begin, resume func(quick bool, job job)) {
	var resumed atomic.Bool
	once := func(quick bool, job job) {
		if resumed.Swap(true) {
			panic("netserver: a request was resumed twice")
		}
		resume(quick, job)
	}
	err := l.callBegin(begin, once)
	if err != nil && !resumed.Swap(true) {
		resume(true, func(context.Context, []byte) []byte { panic("its beginning has panicked") })
	}
}

func (l *link) callBegin(begin begin, resume func(quick bool, job job)) (err error) {
	defer l.recovered("await", &err)
	begin(l.ctx, resume)
	return nil
}

// errPanic ends a connection whose session panicked; the log line is written where it was caught.
var errPanic = errors.New("panic")

// open makes the session.
func (l *link) open(c Conn) (err error) {
	defer l.recovered("new session", &err)
	l.sess = l.srv.cfg.Protocol.NewSession(c)
	return nil
}

// serve calls the session and checks what it returns.
func (l *link) serve(in []byte) (consumed int, err error) {
	defer l.recovered("serve", &err)
	consumed, err = l.sess.Serve(in)
	if consumed < 0 || consumed > len(in) {
		panic(fmt.Sprintf("netserver: session took %d of %d bytes", consumed, len(in)))
	}
	return consumed, err
}

// runJob runs the parked job.
func (l *link) runJob(job job, out []byte) (answer []byte, err error) {
	defer l.recovered("job", &err)
	if l.ctx.Err() != nil {
		return out, nil
	}
	return job(l.ctx, out), nil
}

// closeSession is the last call of a session.
func (l *link) closeSession() {
	if l.cancel != nil {
		l.cancel()
	}
	if l.sess == nil {
		return
	}
	var err error
	defer l.recovered("close", &err)
	l.sess.Close()
}

func (l *link) needContext() {
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(l.srv.jobs)
	}
}

// recovered is deferred around everything that belongs to the protocol: a panic costs its own connection only.
func (l *link) recovered(where string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	l.srv.counters.panics.Add(1)
	l.srv.cfg.Logger.Error("session panicked; its connection is closed", "conn_id", l.id, "where", where, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	*err = errPanic
}

// causeOf classes the error that a session returned.
func causeOf(err error) Cause {
	switch {
	case errors.Is(err, errPanic):
		return CausePanic
	case errors.Is(err, ErrClose):
		return CauseSession
	default:
		return CauseProtocol
	}
}
