package netserver

import "golang.org/x/sys/unix"

// epollConn is one connection of a loop. All its fields belong to the loop's goroutine.
type epollConn struct {
	link
	loop     *loop
	fd       int
	gen      uint32 // tells it from an earlier connection with the same descriptor
	interest uint32 // what the descriptor is registered for
	addr     rawAddr

	in      []byte // input that was read but not taken yet
	pending []byte // output that is not written yet, beside out
	sent    int    // bytes of pending that have been written
	owned   bool   // out is pending, and not the loop's buffer
	blocked bool   // the kernel takes no more output for now
	choked  bool   // too much output is pending to serve anything more

	waiting int // what Server.waits has noted

	lastInput   int64
	lastOutput  int64 // when the kernel last took output, or began to refuse it
	lingerUntil int64 // > 0: everything was sent, and the client's end is waited for

	parked  bool // a job runs; the session must not be called
	full    bool // Serve stopped because of the output
	again   bool // waits in loop.again
	eof     bool // the client will send nothing more
	closing bool // ends, for cause, once everything is sent
	gone    bool // destroyed; only a job may still be running
	cause   Cause
	reads   int // during a drain
}

func (c *epollConn) RemoteAddr() string { return c.addr.String() }

// OutputLimit lets a pipeline's answers go out early while the client takes them, and pile up to MaxOutput otherwise.
func (c *epollConn) OutputLimit() int {
	if c.owned {
		return c.srv.cfg.MaxOutput
	}
	return min(outputLimit, c.srv.cfg.MaxOutput)
}

// wantsInput reports that a read would be served now.
func (c *epollConn) wantsInput() bool {
	return !c.parked && !c.full && !c.again && !c.eof && !c.choked && (!c.closing || c.lingerUntil > 0)
}

// event serves what epoll reports of a connection.
func (l *loop) event(c *epollConn, ev uint32) {
	if ev&unix.EPOLLOUT != 0 && c.blocked {
		c.blocked = false
		l.writePending(c)
	}
	if ev&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) != 0 && !c.gone {
		switch {
		case c.wantsInput():
			l.read(c)
		case ev&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
			// Nobody is left to answer, and the event would come for ever.
			l.destroy(c, CauseClient)
		default:
			// Input that must wait: only now is it worth a call to stop the reports.
			l.setInterest(c, c.interest&^unix.EPOLLIN)
		}
	}
	l.settle(c)
}

// read takes what has arrived and serves it. It reports whether anything had.
func (l *loop) read(c *epollConn) bool {
	kept := len(c.in)
	buf := l.readBuf
	shared := kept <= len(buf)/2
	if shared {
		copy(buf, c.in)
	} else {
		l.growInput(c)
		buf = c.in[:cap(c.in)]
	}
	n, errno := sockRead(c.fd, buf[kept:])
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			l.destroy(c, causeOfErrno(errno))
		}
		return false
	}
	if n == 0 {
		c.eof = true
		return false
	}
	l.counters.bytesIn.Add(uint64(n))
	c.lastInput = l.now
	if c.lingerUntil == 0 { // else it is read only to be thrown away
		l.serve(c, buf[:kept+n], shared)
	}
	return true
}

// growInput makes room for half as much again in c.in.
func (l *loop) growInput(c *epollConn) {
	if cap(c.in)-len(c.in) < len(c.in)/2 {
		b := append(c.srv.pool.get(2*len(c.in)), c.in...)
		c.srv.pool.put(c.in)
		c.in = b
	}
}

// serve lets the session answer what in holds, keeps the rest, and writes. in is c.in, or begins with it when shared.
func (l *loop) serve(c *epollConn, in []byte, shared bool) {
	if len(c.pending) > 0 {
		// Out shows only what has not been sent.
		c.pending = c.pending[:copy(c.pending, c.pending[c.sent:])]
		c.sent = 0
		c.out, c.owned = c.pending, true
	} else {
		c.out = l.outBuf[:0]
	}
	n, err := c.link.serve(in)
	if err != nil {
		c.fail(err)
		n = len(in)
	}
	c.keep(in[n:], shared)
	c.full = len(c.out) >= c.OutputLimit() && len(c.in) > 0 && !c.parks()
	l.flush(c)
	switch {
	case c.gone:
	case c.parks():
		l.park(c)
	case !c.full && len(c.in) > c.inputLimit:
		c.keep(nil, false)
		c.closing, c.cause = true, CauseInput
	}
}

// fail ends the connection once everything is sent.
func (c *epollConn) fail(err error) {
	c.closing, c.cause = true, causeOf(err)
	c.takeParked()
	if c.cause == CauseProtocol {
		c.srv.cfg.Logger.Info("connection closed by the protocol", "conn_id", c.id, "remote", c.RemoteAddr(), "err", err)
	}
}

// keep stores the input that was not taken.
func (c *epollConn) keep(rest []byte, shared bool) {
	switch {
	case len(rest) == 0:
		if c.in != nil {
			c.srv.pool.put(c.in)
			c.in = nil
		}
	case !shared:
		c.in = c.in[:copy(c.in[:cap(c.in)], rest)]
	default:
		if cap(c.in) < len(rest) {
			if c.in != nil {
				c.srv.pool.put(c.in)
			}
			c.in = c.srv.pool.get(len(rest))
		}
		c.in = append(c.in[:0], rest...)
	}
}

// flush writes what Serve has appended, and keeps what the kernel does not take.
func (l *loop) flush(c *epollConn) {
	out := c.out
	c.out = nil
	if c.owned {
		c.owned = false
		c.pending = out
		if !c.blocked {
			l.writePending(c)
		}
		c.choke()
		return
	}
	if cap(out) <= maxKeptOutput {
		l.outBuf = out[:0] // as the session has grown it
	}
	if len(out) == 0 {
		return
	}
	if n := l.write(c, out); n < len(out) && !c.gone {
		c.pending = append(c.srv.pool.get(len(out)-n), out[n:]...)
		c.choke()
	}
}

// writePending sends what waits.
func (l *loop) writePending(c *epollConn) {
	c.sent += l.write(c, c.pending[c.sent:])
	if !c.gone && c.sent == len(c.pending) {
		c.release()
	}
	c.choke()
}

// choke stops serving when too much output is pending, until half of that has gone.
func (c *epollConn) choke() {
	unsent := len(c.pending) - c.sent
	c.choked = unsent >= c.srv.cfg.MaxOutput || c.choked && unsent > c.srv.cfg.MaxOutput/2
}

// write sends what the kernel takes of b and returns how much that was.
func (l *loop) write(c *epollConn, b []byte) int {
	for len(b) > 0 {
		n, errno := sockWrite(c.fd, b)
		switch errno {
		case 0:
			l.counters.bytesOut.Add(uint64(n))
			c.blocked = n < len(b)
			c.lastOutput = l.now
			return n
		case unix.EINTR:
		case unix.EAGAIN:
			if !c.blocked {
				c.blocked = true
				c.lastOutput = l.now
			}
			return 0
		default:
			l.destroy(c, causeOfErrno(errno))
			return 0
		}
	}
	return 0
}

// release gives back the memory of pending.
func (c *epollConn) release() {
	if c.pending != nil {
		c.srv.pool.put(c.pending)
	}
	c.pending, c.sent = nil, 0
}

// park hands the job to a worker, or begins what it waits for.
func (l *loop) park(c *epollConn) {
	work, begin := c.takeParked()
	c.parked = true
	c.needContext()
	s := c.srv
	s.counters.parked.Add(1)
	s.counters.parking.Add(1)
	run := func(job job) {
		out, err := c.runJob(job, s.pool.get(0))
		s.counters.parking.Add(-1)
		l.post(message{kind: msgJobDone, conn: c, out: out, err: err})
	}
	if begin == nil {
		s.workers.run(func() { run(work) })
		return
	}
	c.await(begin, func(quick bool, job job) {
		if quick {
			run(job)
			return
		}
		s.workers.run(func() { run(job) })
	})
}

// jobDone takes the answer of a parked job and goes on with the input that waited for it.
func (l *loop) jobDone(c *epollConn, out []byte, err error) {
	c.parked = false
	if c.gone {
		c.srv.pool.put(out)
		l.forget(c)
		return
	}
	c.lastInput = l.now // the client could send nothing meanwhile
	if len(c.pending) == 0 {
		c.pending = out
	} else {
		c.pending = append(c.pending, out...)
		c.srv.pool.put(out)
	}
	if err != nil {
		c.fail(err)
		c.keep(nil, false)
		c.out, c.owned = c.pending, true
		l.flush(c)
	} else {
		l.serve(c, c.in, false)
	}
	l.settle(c)
}

// serveAgain goes on with connections that had requests left, one round each, so that others get their turn.
func (l *loop) serveAgain() {
	l.again, l.againNext = l.againNext[:0], l.again
	for i, c := range l.againNext {
		l.againNext[i] = nil
		c.again, c.full = false, false
		if !c.gone {
			l.serve(c, c.in, false)
			l.settle(c)
		}
	}
}

// settle decides how a connection goes on after anything has happened to it.
func (l *loop) settle(c *epollConn) {
	for l.decide(c) {
	}
	if !c.gone {
		var over bool
		if c.waiting, over = c.srv.waits(c.waiting, cap(c.in)+cap(c.pending)); over {
			l.relieve()
		}
	}
	if !c.gone {
		l.updateInterest(c)
	}
}

// relieve closes connections that hold most, until all together hold what they may. The last one is left alone.
func (l *loop) relieve() {
	s := l.eng.srv
	for s.counters.waiting.Load() > s.cfg.MaxWaiting {
		var most *epollConn
		for _, c := range l.conns {
			if c != nil && (most == nil || c.waiting > most.waiting) {
				most = c
			}
		}
		if most == nil || most.waiting == 0 || int64(most.waiting) == s.counters.waiting.Load() {
			return
		}
		l.destroy(most, CauseMemory)
	}
}

// decide takes the next step of a connection's end, or of input that was put off. It reports whether to look again.
func (l *loop) decide(c *epollConn) bool {
	switch {
	case c.gone || c.parked || c.again:
	case c.lingerUntil > 0:
		if c.eof || l.draining {
			l.destroy(c, c.cause)
		}
	case c.full && !c.choked:
		c.again = true
		l.again = append(l.again, c)
	case len(c.pending) > 0:
	case c.closing:
		l.finish(c)
		return true
	case c.eof:
		l.destroy(c, CauseClient)
	case l.draining:
		c.reads++
		if c.reads > drainReads || !l.read(c) && !c.eof && !c.gone {
			c.closing, c.cause = true, CauseShutdown
		}
		return true
	}
	return false
}

// finish ends the output side. The connection stays a little so that input which is under way can't reset it before the
// client has read the last answer.
func (l *loop) finish(c *epollConn) {
	sockShutdownWrite(c.fd)
	c.keep(nil, false)
	c.lingerUntil = l.now + int64(lingerTime)
}

// destroy closes the connection at once. The session ends with it, or with the job that still runs.
func (l *loop) destroy(c *epollConn, cause Cause) {
	if c.gone {
		return
	}
	c.gone = true
	l.conns[c.fd] = nil
	sockClose(c.fd)
	c.release()
	c.keep(nil, false)
	c.waiting, _ = c.srv.waits(c.waiting, 0)
	c.srv.counters.closed[cause].Add(1)
	c.srv.counters.open.Add(-1)
	l.load.Add(-1)
	if c.cancel != nil {
		c.cancel()
	}
	if !c.parked {
		l.forget(c)
	}
}

func (l *loop) forget(c *epollConn) {
	l.live--
	c.closeSession()
}

// updateInterest registers what the connection waits for. Input that isn't wanted stays registered until some comes:
// most clients send nothing before they have their answer.
func (l *loop) updateInterest(c *epollConn) {
	want := c.interest & unix.EPOLLIN
	if c.wantsInput() {
		want |= unix.EPOLLIN
	}
	if c.blocked {
		want |= unix.EPOLLOUT
	}
	if want != c.interest {
		l.setInterest(c, want)
	}
}

func (l *loop) setInterest(c *epollConn, mask uint32) {
	c.interest = mask
	if err := l.control(unix.EPOLL_CTL_MOD, c.fd, mask, c.gen); err != nil {
		c.srv.cfg.Logger.Error("connection can't be watched; it is closed", "conn_id", c.id, "err", err)
		l.destroy(c, CauseNetwork)
	}
}

func causeOfErrno(errno error) Cause {
	if errno == unix.ECONNRESET || errno == unix.EPIPE {
		return CauseClient
	}
	return CauseNetwork
}
