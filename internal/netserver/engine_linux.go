package netserver

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const epollSupported = true

// epollEngine is a number of loops. The first one also accepts and gives each connection to the loop that has fewest.
type epollEngine struct {
	srv      *Server
	listenFD int
	loops    []*loop
	aborted  atomic.Bool
}

func newEpollEngine(s *Server, l *boundListener) (engine, error) {
	fd, err := dupListener(l.Listener)
	if err != nil {
		return nil, fmt.Errorf("take over the socket: %w", err)
	}
	e := &epollEngine{srv: s, listenFD: fd}
	for range s.cfg.Loops {
		lp, err := newLoop(e)
		if err != nil {
			e.release()
			return nil, fmt.Errorf("make an epoll loop: %w", err)
		}
		e.loops = append(e.loops, lp)
	}
	e.loops[0].listening = true
	return e, nil
}

func (e *epollEngine) run() error {
	var wg sync.WaitGroup
	for _, l := range e.loops {
		wg.Go(l.run)
	}
	wg.Wait()
	e.release()
	return nil
}

// release closes everything that belongs to the loops, which have ended or never ran. A loop may hand a connection to
// another one that has just ended, so this comes after the last.
func (e *epollEngine) release() {
	for _, l := range e.loops {
		l.close()
	}
	sockClose(e.listenFD)
}

func (e *epollEngine) drain() {
	for _, l := range e.loops {
		l.post(message{kind: msgDrain})
	}
}

func (e *epollEngine) abort() {
	e.aborted.Store(true)
	for _, l := range e.loops {
		l.post(message{kind: msgAbort})
	}
}

func (e *epollEngine) bytes() (in, out uint64) {
	for _, l := range e.loops {
		in += l.counters.bytesIn.Load()
		out += l.counters.bytesOut.Load()
	}
	return in, out
}

// quietest returns the loop with fewest connections.
func (e *epollEngine) quietest() *loop {
	best := e.loops[0]
	for _, l := range e.loops[1:] {
		if l.load.Load() < best.load.Load() {
			best = l
		}
	}
	return best
}

// message is what other goroutines tell a loop.
type message struct {
	kind messageKind
	conn *epollConn // msgJobDone
	fd   int        // msgConn
	addr rawAddr
	out  []byte // msgJobDone: the answer
	err  error  // msgJobDone: errPanic
}

type messageKind uint8

const (
	msgConn messageKind = iota
	msgJobDone
	msgDrain
	msgAbort
)

// loop is one epoll instance and the goroutine that serves its connections. Everything but the inbox belongs to that
// goroutine.
type loop struct {
	eng    *epollEngine
	epfd   int
	wakeFD int

	events    []unix.EpollEvent
	readBuf   []byte       // holds one read, until it is served
	outBuf    []byte       // the answers of one read, until they are written
	conns     []*epollConn // by descriptor
	live      int          // connections, including closed ones whose job still runs
	again     []*epollConn // have requests left that were put off because of their output
	againNext []*epollConn // its memory, in turn
	gen       uint32

	base        time.Time
	now         int64 // nanoseconds since base, read once for each batch of events
	nextSweep   int64
	sweepEvery  int64
	listening   bool // the listening socket is this loop's to serve
	armed       bool // it is registered
	acceptPause int64
	acceptAt    int64 // when to register it again after a failure
	draining    bool

	load     atomic.Int32 // connections given to this loop
	woken    atomic.Bool  // a signal is under way, or the inbox is about to be read
	inboxMu  sync.Mutex   // guards the next two
	inbox    []message
	closed   bool
	taken    []message // its memory, in turn
	counters loopCounters
}

// The generation that marks the two descriptors which are no connections.
const (
	genWake   = 0
	genListen = 1
	genFirst  = 2
)

func newLoop(e *epollEngine) (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		sockClose(epfd)
		return nil, err
	}
	cfg := &e.srv.cfg
	sweep := min(cfg.WriteTimeout/4, time.Second)
	if cfg.IdleTimeout > 0 {
		sweep = min(sweep, cfg.IdleTimeout/4)
	}
	l := &loop{
		eng: e, epfd: epfd, wakeFD: wake, gen: genFirst, base: time.Now(), sweepEvery: int64(max(sweep, time.Millisecond)),
		events: make([]unix.EpollEvent, 256), readBuf: make([]byte, readSize), outBuf: make([]byte, 0, readSize),
	}
	// Edge-triggered, so that a signal needs no read to take it back.
	if err := l.control(unix.EPOLL_CTL_ADD, wake, unix.EPOLLIN|unix.EPOLLET, genWake); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *loop) control(op, fd int, mask, gen uint32) error {
	return unix.EpollCtl(l.epfd, op, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: int32(gen)})
}

// post hands a message to the loop. It may be called by any goroutine and does not block.
func (l *loop) post(m message) {
	l.inboxMu.Lock()
	defer l.inboxMu.Unlock()
	if l.closed {
		return
	}
	l.inbox = append(l.inbox, m)
	if l.woken.CompareAndSwap(false, true) {
		eventfdSignal(l.wakeFD)
	}
}

// run serves until draining has ended.
func (l *loop) run() {
	l.updateTime()
	l.listen()
	for !l.draining || l.live > 0 {
		n := l.wait()
		l.updateTime()
		for i := range n {
			l.dispatch(&l.events[i])
		}
		if l.woken.Load() {
			l.readInbox()
		}
		if len(l.again) > 0 {
			l.serveAgain()
		}
		if l.now >= l.nextSweep {
			l.sweep()
		}
	}
}

func (l *loop) updateTime() { l.now = int64(time.Since(l.base)) }

func (l *loop) dispatch(ev *unix.EpollEvent) {
	switch gen := uint32(ev.Pad); gen {
	case genWake:
	case genListen:
		l.accept()
	default:
		// A connection may have ended, and its descriptor been given away again, earlier in the same batch.
		if c := l.conns[ev.Fd]; c != nil && c.gen == gen {
			l.event(c, ev.Events)
		}
	}
}

// readInbox takes the messages that have come. The flag is cleared first, so a message that comes meanwhile signals
// again.
func (l *loop) readInbox() {
	l.woken.Store(false)
	l.inboxMu.Lock()
	l.inbox, l.taken = l.taken[:0], l.inbox
	l.inboxMu.Unlock()
	for i := range l.taken {
		m := &l.taken[i]
		switch m.kind {
		case msgConn:
			l.add(m.fd, m.addr)
		case msgJobDone:
			l.jobDone(m.conn, m.out, m.err)
		case msgDrain:
			l.drain()
		case msgAbort:
			l.abort()
		}
		*m = message{}
	}
}

// close frees what the loop holds and refuses connections that were handed to it too late. Nothing else can be waiting:
// jobs belong to live connections.
func (l *loop) close() {
	l.inboxMu.Lock()
	defer l.inboxMu.Unlock()
	for _, m := range l.inbox {
		if m.kind == msgConn {
			l.eng.reject(m.fd, CauseShutdown)
		}
	}
	l.inbox = nil
	l.closed = true
	sockClose(l.epfd)
	sockClose(l.wakeFD)
}

// listen registers the listening socket.
func (l *loop) listen() {
	if !l.listening || l.armed || l.draining {
		return
	}
	if err := l.control(unix.EPOLL_CTL_ADD, l.eng.listenFD, unix.EPOLLIN, genListen); err != nil {
		l.eng.srv.cfg.Logger.Error("listening socket can't be watched; trying again", "err", err)
		l.pauseAccept()
		return
	}
	l.armed = true
}

func (l *loop) unlisten() {
	if l.armed {
		l.armed = false
		// It can fail only if the socket is not registered, which is what is wanted.
		_ = l.control(unix.EPOLL_CTL_DEL, l.eng.listenFD, 0, genListen)
	}
}

const (
	// acceptBatch bounds the connections accepted in one go, so that a flood of them does not stop the others.
	acceptBatch = 64
	// After a failure to accept the socket rests for a while, twice as long after each further one: with no descriptor
	// left it would be reported as ready for ever.
	minAcceptPause = int64(50 * time.Millisecond)
	maxAcceptPause = int64(time.Second)
)

func (l *loop) pauseAccept() {
	l.unlisten()
	l.acceptPause = min(max(l.acceptPause*2, minAcceptPause), maxAcceptPause)
	l.acceptAt = l.now + l.acceptPause
	l.nextSweep = min(l.nextSweep, l.acceptAt)
}

func (l *loop) accept() {
	s := l.eng.srv
	for range acceptBatch {
		if l.draining {
			return
		}
		fd, addr, errno := sockAccept(l.eng.listenFD)
		switch errno {
		case 0:
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED, unix.EPROTO, unix.EPERM:
			continue // that connection is gone or was forbidden; the next one may be fine
		default:
			s.counters.acceptErrors.Add(1)
			if l.acceptPause == 0 { // one line for each row of failures
				s.cfg.Logger.Error("connections can't be accepted; trying again", "err", errno)
			}
			l.pauseAccept()
			return
		}
		l.acceptPause = 0
		s.counters.accepted.Add(1)
		if s.counters.open.Add(1) > int64(s.cfg.MaxConns) {
			if len(s.cfg.Refusal) > 0 {
				_, _ = sockWrite(fd, s.cfg.Refusal) // best effort
			}
			l.eng.reject(fd, CauseConnLimit)
			continue
		}
		to := l.eng.quietest()
		to.load.Add(1)
		if to == l {
			l.add(fd, addr)
		} else {
			to.post(message{kind: msgConn, fd: fd, addr: addr})
		}
	}
}

// reject closes a connection that was never served.
func (e *epollEngine) reject(fd int, cause Cause) {
	sockClose(fd)
	e.srv.counters.closed[cause].Add(1)
	e.srv.counters.open.Add(-1)
}

func (l *loop) add(fd int, addr rawAddr) {
	if l.draining {
		l.eng.reject(fd, CauseShutdown)
		l.load.Add(-1)
		return
	}
	l.gen++
	if l.gen < genFirst {
		l.gen = genFirst
	}
	c := &epollConn{loop: l, fd: fd, gen: l.gen, addr: addr, lastInput: l.now}
	c.init(l.eng.srv)
	for fd >= len(l.conns) {
		l.conns = append(l.conns, nil)
	}
	l.conns[fd] = c
	l.live++
	if err := c.open(c); err != nil {
		l.destroy(c, causeOf(err))
		return
	}
	c.interest = unix.EPOLLIN
	if err := l.control(unix.EPOLL_CTL_ADD, fd, c.interest, c.gen); err != nil {
		l.eng.srv.cfg.Logger.Error("connection can't be watched; it is closed", "conn_id", c.id, "err", err)
		l.destroy(c, CauseNetwork)
	}
}

// wait returns the number of events in l.events. Before it blocks it lets other goroutines run: under load more has
// arrived by then, which is served as one batch. The loop is not locked to a thread for the same reason: giving way would
// cost two switches of threads.
func (l *loop) wait() int {
	n, errno := epollPoll(l.epfd, l.events)
	if errno == 0 && n > 0 {
		return n
	}
	if len(l.again) > 0 {
		return 0
	}
	runtime.Gosched()
	ms := -1
	if l.live > 0 || l.acceptAt > 0 {
		// Rounded up, or the last millisecond would be spent polling.
		ms = int(max(l.nextSweep-int64(time.Since(l.base)), 0)/int64(time.Millisecond)) + 1
	}
	n, errno = epollWait(l.epfd, l.events, ms)
	if errno != 0 {
		if errno != syscall.EINTR {
			// The arguments are constants; this would be a bug, and going on would spin.
			panic("netserver: epoll_wait: " + errno.Error())
		}
		return 0
	}
	return n
}

// sweep looks for connections whose time is over.
func (l *loop) sweep() {
	l.nextSweep = l.now + l.sweepEvery
	if l.acceptAt > 0 && l.now >= l.acceptAt {
		l.acceptAt = 0
		l.listen()
	}
	if l.acceptAt > 0 {
		l.nextSweep = min(l.nextSweep, l.acceptAt)
	}
	cfg := &l.eng.srv.cfg
	for _, c := range l.conns {
		switch {
		case c == nil || c.parked:
		case c.lingerUntil > 0:
			if l.now >= c.lingerUntil {
				l.destroy(c, c.cause)
			}
		case c.blocked:
			if l.now-c.lastOutput >= int64(cfg.WriteTimeout) {
				l.destroy(c, CauseSlow)
			}
		case cfg.IdleTimeout > 0 && l.now-c.lastInput >= int64(cfg.IdleTimeout):
			l.destroy(c, CauseIdle)
		}
	}
}

func (l *loop) drain() {
	if l.draining {
		return
	}
	l.draining = true
	l.unlisten()
	for _, c := range l.conns {
		if c != nil {
			l.settle(c) // a first look: from now on a connection ends when nothing is left to answer
		}
	}
}

func (l *loop) abort() {
	l.draining = true
	l.unlisten()
	for _, c := range l.conns {
		if c != nil {
			l.destroy(c, CauseShutdown)
		}
	}
}
