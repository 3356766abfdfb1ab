package sqltext

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// ErrSilent ends ReadLog when nothing has come for too long. It counts as a connection error.
var ErrSilent = errors.New("the server has been silent for too long")

// ErrLogEnd ends ReadLog when the server has nothing more to send and never will. It counts as a connection error.
var ErrLogEnd = errors.New("the server has ended the log")

// Command sends a command that is answered by OK, such as COM_REGISTER_SLAVE. Errors are those of Query.
func (c *Conn) Command(ctx context.Context, code byte, arg string) error {
	if c.Broken() {
		return ErrBroken
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.abortable(ctx, func() error {
		err := c.command(code, arg)
		if err == nil {
			err = c.okay()
		}
		if err != nil {
			c.judge(err)
		}
		return err
	})
}

// okay reads an answer that is OK or an error.
func (c *Conn) okay() error {
	p, err := c.packet()
	switch {
	case err != nil:
		return err
	case len(p) > 0 && p[0] == headOK:
		return nil
	case len(p) > 0 && p[0] == headError:
		return serverError(p)
	}
	return ErrMalformed
}

// ReadLog sends a command that has the server send its log (COM_BINLOG_DUMP and its kin) and calls event for each event,
// which it has to read to the end: e gives io.EOF after the last byte, and holds its memory whatever the event's size.
// It ends with an error: that of event, the server's, ErrSilent, ErrLogEnd, that of the connection, or the cause of ctx.
// patience is asked before each event how long to wait for it; the time that event takes does not count. The connection is
// Broken afterwards.
func (c *Conn) ReadLog(ctx context.Context, code byte, arg string, patience func() time.Duration, event func(e io.Reader) error) error {
	if c.Broken() {
		return ErrBroken
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := c.abortable(ctx, func() error { return c.readLog(code, arg, patience, event) })
	c.abort()
	return err
}

func (c *Conn) readLog(code byte, arg string, patience func() time.Duration, event func(e io.Reader) error) error {
	if err := c.command(code, arg); err != nil {
		return err
	}
	e := &logEvent{w: &c.wire}
	var kind [1]byte
	for {
		c.readTimeout = patience()
		err := e.frame()
		if err == nil {
			_, err = io.ReadFull(e, kind[:])
		}
		if err == io.EOF { // not of the connection
			err = &connError{"read the log", ErrMalformed}
		}
		if err != nil {
			return silence(err)
		}
		switch kind[0] {
		case headOK:
			if err = event(e); err == nil {
				err = e.end()
			}
		case headError:
			// It is short, but for a server that is none.
			rest, readErr := io.ReadAll(io.LimitReader(e, keepBuffer))
			if err = readErr; err == nil {
				err = serverError(append(kind[:], rest...))
			}
		case headEOF:
			// The command is over: the server is shut down, or somebody has ended the statement.
			err = &connError{"read the log", ErrLogEnd}
		default:
			err = &connError{"read the log", ErrMalformed}
		}
		if err != nil {
			return silence(err)
		}
	}
}

// silence tells a wait that was too long from other errors of the connection.
func silence(err error) error {
	if lost := (*connError)(nil); errors.As(err, &lost) && errors.Is(err, os.ErrDeadlineExceeded) {
		return &connError{"read the log", ErrSilent}
	}
	return err
}

// logEvent is one event of the log, as it comes from the server: it is read, not received as a whole.
type logEvent struct {
	w *wire
	// left is what is to come of the frame at hand; last is set when no other follows it.
	left int
	last bool
}

// frame waits for the next frame: the first of an event, or one that goes on with it.
func (e *logEvent) frame() error {
	n, err := e.w.frame()
	e.left, e.last = n, n < maxPayload
	return err
}

// Read implements io.Reader: io.EOF comes after the event's last byte.
func (e *logEvent) Read(b []byte) (int, error) {
	for e.left == 0 {
		if e.last {
			return 0, io.EOF
		}
		if err := e.frame(); err != nil {
			return 0, err
		}
	}
	if len(b) > e.left {
		b = b[:e.left]
	}
	w := e.w
	if w.r == w.w && len(b) >= readBuffer {
		n, err := w.read(b)
		e.left -= n
		return n, err
	}
	if len(b) > 0 {
		if err := w.fill(1); err != nil {
			return 0, err
		}
	}
	n := copy(b, w.buf[w.r:w.w])
	w.r += n
	e.left -= n
	return n, nil
}

// end is an error when there is more of the event. One whose frames are all full has an empty one behind them.
func (e *logEvent) end() error {
	if e.left == 0 && e.last {
		return nil
	}
	var next [1]byte
	switch n, err := e.Read(next[:]); {
	case n > 0:
		return &connError{"read the log", ErrMalformed}
	case err != io.EOF:
		return err
	}
	return nil
}
