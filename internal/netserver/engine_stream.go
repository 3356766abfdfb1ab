package netserver

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// streamEngine has a goroutine for each connection. It works on every system, and on anything that is a net.Conn.
type streamEngine struct {
	srv      *Server
	listener net.Listener
	jobs     chan struct{} // a token for each job that may run
	wg       sync.WaitGroup

	mu       sync.Mutex // guards what follows
	conns    map[*streamConn]struct{}
	draining bool
	aborted  bool
	accepted chan struct{} // closed when draining or aborted
}

func newStreamEngine(s *Server, l net.Listener) *streamEngine {
	return &streamEngine{
		srv: s, listener: l, jobs: make(chan struct{}, s.cfg.Workers), conns: make(map[*streamConn]struct{}),
		accepted: make(chan struct{}),
	}
}

func (e *streamEngine) bytes() (in, out uint64) {
	return e.srv.counters.streamBytesIn.Load(), e.srv.counters.streamBytesOut.Load()
}

func (e *streamEngine) release() {} // the listener is the server's

func (e *streamEngine) run() error {
	err := e.acceptAll()
	e.wg.Wait()
	return err
}

func (e *streamEngine) acceptAll() error {
	s := e.srv
	pause := time.Duration(0)
	for {
		nc, err := e.listener.Accept()
		if e.ending() {
			if err == nil {
				_ = nc.Close() // never served
			}
			return nil
		}
		if err != nil {
			s.counters.acceptErrors.Add(1)
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			if pause == 0 {
				s.cfg.Logger.Error("connections can't be accepted; trying again", "err", err)
			}
			pause = min(max(2*pause, 50*time.Millisecond), time.Second)
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-e.accepted:
			}
			t.Stop()
			continue
		}
		pause = 0
		s.counters.accepted.Add(1)
		e.start(nc)
	}
}

func (e *streamEngine) ending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining || e.aborted
}

func (e *streamEngine) start(nc net.Conn) {
	s := e.srv
	if s.counters.open.Add(1) > int64(s.cfg.MaxConns) {
		if len(s.cfg.Refusal) > 0 && nc.SetWriteDeadline(time.Now().Add(time.Millisecond)) == nil {
			_, _ = nc.Write(s.cfg.Refusal) // best effort
		}
		e.closed(nc, CauseConnLimit)
		return
	}
	c := &streamConn{eng: e, nc: nc}
	c.init(s)
	e.mu.Lock()
	if e.draining || e.aborted {
		e.mu.Unlock()
		e.closed(nc, CauseShutdown)
		return
	}
	e.conns[c] = struct{}{}
	e.mu.Unlock()
	e.wg.Go(func() {
		cause := c.run()
		e.mu.Lock()
		delete(e.conns, c)
		e.mu.Unlock()
		e.closed(nc, cause)
		c.closeSession()
	})
}

func (e *streamEngine) closed(nc net.Conn, cause Cause) {
	_ = nc.Close() // nothing can be done about an error
	e.srv.counters.closed[cause].Add(1)
	e.srv.counters.open.Add(-1)
}

func (e *streamEngine) drain() { e.end(false) }

func (e *streamEngine) abort() { e.end(true) }

func (e *streamEngine) end(abort bool) {
	e.mu.Lock()
	if !e.draining && !e.aborted {
		close(e.accepted)
	}
	e.draining = true
	e.aborted = e.aborted || abort
	conns := make([]*streamConn, 0, len(e.conns))
	for c := range e.conns {
		conns = append(conns, c)
	}
	e.mu.Unlock()
	_ = e.listener.Close() // Server.Run closes it again and reports
	for _, c := range conns {
		if abort {
			c.cut()
		} else {
			c.drain()
		}
	}
}

// streamConn is one connection of a streamEngine. What is not said to be shared belongs to its goroutine.
type streamConn struct {
	link
	eng *streamEngine
	nc  net.Conn

	in      []byte // input that was read but not taken yet
	waiting int    // what Server.waits has noted
	short   int    // reads in a row that left most of it unused
	buf     []byte // the memory of out between two calls

	mu       sync.Mutex // guards the read deadline together with draining
	draining bool
	wasCut   bool
	deadline time.Time // the read deadline in force
	reads    int       // during a drain
}

func (c *streamConn) OutputLimit() int { return min(outputLimit, c.srv.cfg.MaxOutput) }

func (c *streamConn) RemoteAddr() string {
	if _, unix := c.nc.RemoteAddr().(*net.UnixAddr); unix {
		return "unix"
	}
	return c.nc.RemoteAddr().String()
}

// drainWait is how long a read waits during a drain: only what was received before is wanted.
const drainWait = 5 * time.Millisecond

func (c *streamConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	_ = c.nc.SetReadDeadline(time.Now().Add(drainWait)) // fails on a closed connection only
}

func (c *streamConn) cut() {
	c.mu.Lock()
	c.wasCut = true
	c.mu.Unlock()
	_ = c.nc.Close() // a second close follows
}

const (
	// minInputBuffer is the first size of a connection's input buffer; it doubles while reads fill it, up to readSize.
	minInputBuffer = 1 << 10
	// maxIdleBuffer is the largest output buffer that a connection keeps for itself: ten thousand connections hold ten
	// thousand of them.
	maxIdleBuffer = 16 << 10
	// shortReads is how many reads in a row must leave most of the input buffer unused before it is made smaller.
	shortReads = 16
)

// run serves until the connection ends, and says why it did.
func (c *streamConn) run() Cause {
	if err := c.open(c); err != nil {
		return causeOf(err)
	}
	c.in = c.srv.pool.get(minInputBuffer)
	defer func() {
		c.srv.pool.put(c.in)
		c.srv.pool.put(c.buf)
		c.waiting, _ = c.srv.waits(c.waiting, 0)
	}()
	for {
		n, err := c.read()
		if n > 0 {
			if cause, ended := c.serveAll(); ended {
				return c.endWith(cause)
			}
		}
		if err != nil {
			return c.readEnded(err)
		}
	}
}

// endWith ends the output side and lets the client's own end come for a while; see loop.finish.
func (c *streamConn) endWith(cause Cause) Cause {
	if cause != CauseSession && cause != CauseProtocol && cause != CauseInput && cause != CausePanic {
		return cause
	}
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		c.mu.Lock()
		wait := lingerTime
		if c.draining {
			wait = drainWait
		}
		_ = c.nc.SetReadDeadline(time.Now().Add(wait)) // then the copy ends at once
		c.mu.Unlock()
		_, _ = io.Copy(io.Discard, c.nc)
	}
	return cause
}

// errWaiting ends a connection for CauseMemory.
var errWaiting = errors.New("all connections hold too much")

// holds notes what the connection's buffers hold, beside output of that capacity, and reports that this is too much.
func (c *streamConn) holds(output int) (over bool) {
	c.waiting, over = c.srv.waits(c.waiting, cap(c.in)+output)
	return over
}

func (c *streamConn) readEnded(err error) Cause {
	c.mu.Lock()
	draining, wasCut := c.draining, c.wasCut
	c.mu.Unlock()
	switch {
	case wasCut:
		return CauseShutdown
	case errors.Is(err, errWaiting):
		return CauseMemory
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return CauseClient
	case errors.Is(err, os.ErrDeadlineExceeded):
		if draining {
			return CauseShutdown
		}
		return CauseIdle
	default:
		return CauseNetwork
	}
}

// read appends to c.in what has arrived.
func (c *streamConn) read() (int, error) {
	if free := cap(c.in) - len(c.in); free < minInputBuffer/2 || free < len(c.in)/2 {
		b := append(c.srv.pool.get(max(2*len(c.in), minInputBuffer)), c.in...)
		c.srv.pool.put(c.in)
		c.in = b
	}
	if c.holds(0) {
		return 0, errWaiting
	}
	if err := c.setReadDeadline(); err != nil {
		return 0, err
	}
	n, err := c.nc.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	c.srv.counters.streamBytesIn.Add(uint64(n))
	return n, err
}

// setReadDeadline keeps the idle time, moving it only when a good part of it has gone, because that costs about as much as
// a small read.
func (c *streamConn) setReadDeadline() error {
	idle := c.srv.cfg.IdleTimeout
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		if c.reads++; c.reads > drainReads {
			return os.ErrDeadlineExceeded
		}
		return c.nc.SetReadDeadline(time.Now().Add(drainWait))
	}
	if idle <= 0 {
		return nil
	}
	if now := time.Now(); c.deadline.Sub(now) < idle-idle/8 {
		c.deadline = now.Add(idle)
		return c.nc.SetReadDeadline(c.deadline)
	}
	return nil
}

// serveAll lets the session answer everything in c.in that is complete.
func (c *streamConn) serveAll() (cause Cause, ended bool) {
	filled := len(c.in)
	off := 0
	for {
		if c.buf == nil {
			c.buf = c.srv.pool.get(minInputBuffer)
		}
		c.out = c.buf[:0]
		n, err := c.link.serve(c.in[off:])
		off += n
		full := len(c.out) >= c.OutputLimit() && off < len(c.in)
		work, begin := c.takeParked()
		if cause, ended := c.flush(); ended {
			return cause, true
		}
		switch {
		case err != nil:
			if causeOf(err) == CauseProtocol {
				c.srv.cfg.Logger.Info("connection closed by the protocol", "conn_id", c.id, "remote", c.RemoteAddr(), "err", err)
			}
			return causeOf(err), true
		case work != nil || begin != nil:
			if cause, ended := c.runParked(work, begin); ended {
				return cause, true
			}
		case !full:
			rest := copy(c.in, c.in[off:])
			c.in = c.in[:rest]
			if rest > c.inputLimit {
				return CauseInput, true
			}
			c.resizeInput(filled)
			return 0, false
		}
	}
}

// resizeInput lets the buffer follow the traffic: twice as large when a read has filled it, half as large after some that
// left most of it unused.
func (c *streamConn) resizeInput(read int) {
	size := cap(c.in)
	switch {
	case len(c.in) > 0:
		return
	case read == size && size < readSize:
		c.short = 0
		size *= 2
	case read < size/4 && size > minInputBuffer:
		if c.short++; c.short < shortReads && size <= 2*readSize {
			return
		}
		c.short = 0
		size /= 2
	default:
		c.short = 0
		return
	}
	c.srv.pool.put(c.in)
	c.in = c.srv.pool.get(size)
}

// runParked runs a job on the connection's own goroutine, one of Config.Workers at a time where it may block.
func (c *streamConn) runParked(work job, begin begin) (cause Cause, ended bool) {
	s := c.srv
	c.needContext()
	s.counters.parked.Add(1)
	s.counters.parking.Add(1)
	defer s.counters.parking.Add(-1)
	blocks := true
	if begin != nil {
		resumed := make(chan struct{})
		c.await(begin, func(quick bool, job job) {
			blocks, work = !quick, job
			close(resumed)
		})
		<-resumed
	}
	if blocks {
		select {
		case c.eng.jobs <- struct{}{}:
			defer func() { <-c.eng.jobs }()
		case <-c.ctx.Done():
			return CauseShutdown, true
		}
	}
	out, err := c.runJob(work, c.srv.pool.get(0))
	if err != nil {
		return causeOf(err), true
	}
	if c.buf != nil {
		c.srv.pool.put(c.buf)
	}
	c.out = out
	return c.flush()
}

// flush writes c.out and keeps its memory. Nothing is read meanwhile, which is this engine's back-pressure.
func (c *streamConn) flush() (cause Cause, ended bool) {
	out := c.out
	c.out = nil
	if cap(out) <= maxIdleBuffer {
		c.buf = out[:0]
	} else {
		c.buf = nil
		defer c.srv.pool.put(out)
	}
	if c.holds(cap(out)) {
		return CauseMemory, true
	}
	for len(out) > 0 {
		// A write may take long for a large answer; the time-out is for a client that takes nothing at all.
		part := out[:min(len(out), outputLimit)]
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.srv.cfg.WriteTimeout)); err != nil {
			return c.readEnded(err), true
		}
		n, err := c.nc.Write(part)
		c.srv.counters.streamBytesOut.Add(uint64(n))
		out = out[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if n > 0 {
				continue
			}
			return CauseSlow, true
		}
		if err != nil {
			return c.readEnded(err), true
		}
	}
	return 0, false
}
