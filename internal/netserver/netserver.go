// Package netserver is the network side that both protocols share: listening, the connections and their limits, buffers,
// back-pressure and the graceful end. A protocol sees a resumable parser over the connection's input and an output buffer.
//
// Two engines stand behind one Server: epoll loops on raw non-blocking sockets (Linux), and a goroutine for each
// connection (any system). Both serve all complete requests of a read and then write once.
package netserver

import (
	"context"
	"errors"
)

// ErrClose is returned by Session.Serve to close the connection in good order: what was answered is sent first, and
// nothing is logged. Any other error does the same with a log line.
var ErrClose = errors.New("close the connection")

// Protocol makes a session for each connection. NewSession is called from several goroutines at once.
type Protocol interface {
	NewSession(c Conn) Session
}

// Session is the protocol's side of one connection. Its methods are never called at the same time as each other or as a
// parked job of the connection, and each call sees what the one before did, so a session needs no locks of its own.
type Session interface {
	// Serve reads complete requests from the beginning of in, appends their answers to the connection's output and
	// returns how many bytes of in it took. The rest comes again, longer, when more input has arrived; in is not
	// valid after the return and is the session's to change as far as it is taken (unescaping in place).
	//
	// It must return after a call of Park, and should return between two requests when the output has reached
	// Conn.OutputLimit; it is called again with the rest once the parked job has ended, or the output has been
	// sent. So in may be empty, and may hold nothing new.
	//
	// An error closes the connection after what was answered has been sent; see ErrClose.
	Serve(in []byte) (consumed int, err error)
	// Close is called once, after everything else, when the connection has ended.
	Close()
}

// Conn is the server's side of one connection. Its methods may be called only from within NewSession, Serve and Close
// of its session, except RemoteAddr and ID, which may be called at any time.
type Conn interface {
	// Out returns the output that has not been sent, to be appended to and handed back with SetOut. What stands in
	// it must not be changed, except what this call of Serve has appended.
	Out() []byte
	// SetOut takes back what Out gave, appended to. It isn't copied.
	SetOut(out []byte)
	// OutputLimit is the length of Out from which Serve should return between two requests, so that a pipeline of small
	// requests with large answers costs no more memory than that. A single answer may go beyond it.
	OutputLimit() int
	// SetInputLimit sets how many bytes of an incomplete request are kept before the connection is closed (and
	// counted). It starts at Config.MaxInput. A protocol that knows the length of what is to come may raise it
	// for a while, or lower it before a client has shown who it is.
	SetInputLimit(n int)
	// Park makes the request at hand wait for job, which runs on a bounded pool of workers while other connections are
	// served. job appends the answer to out, which holds nothing of the connection's other output, and returns it; it
	// may use the session's own memory. Its context ends when the connection or the server does. Reading pauses
	// meanwhile and the order of answers is kept. Bytes of Serve's in that job needs must be copied. At most one call
	// for each Serve, which must return after it; Serve is called again when job has ended, even without new input.
	Park(job func(ctx context.Context, out []byte) []byte)
	// Await is Park for what ends by itself elsewhere, so that no worker waits for it. begin is called once Serve has
	// returned, and must not block. It, or what it has started, calls resume once, also when ctx has ended, with the job that
	// answers. A quick job runs within that call and must not block; others get a worker. One call of Park or Await for each
	// Serve.
	Await(begin func(ctx context.Context, resume func(quick bool, job func(ctx context.Context, out []byte) []byte)))
	// RemoteAddr is the peer's address as text; "unix" for a Unix socket.
	RemoteAddr() string
	// ID numbers the connections of a Server from 1.
	ID() uint64
}
