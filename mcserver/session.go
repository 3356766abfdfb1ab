package mcserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/internal/item"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// state is what a session reads next.
type state uint8

const (
	stateStart   state = iota // the first byte, which decides the protocol
	stateAuth                 // what a text client sends before it has shown who it is
	stateText                 // a command line
	stateGet                  // the keys of a get line
	stateIgnore               // the rest of a line
	stateBlock                // a data block
	stateSwallow              // bytes that are dropped
	stateBinary               // a binary request
)

// inputLimitBytes is more than the longest line, or key of a get line, that is waited for.
const inputLimitBytes = 8 << 10

// maxKeptLine is the largest copy of a line that a session keeps for the next one.
const maxKeptLine = 4 << 10

// session is one connection.
type session struct {
	server *Server
	conn   netserver.Conn
	count  *counterStripe
	limit  int // of the output, for the call of Serve at hand
	state  state
	parked bool
	known  bool // the client has shown who it is, or need not
	// handled is how much of the input a parked job has answered.
	handled int
	// scanned is how much of the input at hand holds no line end, which so need not be looked at again.
	scanned int
	// skip is the number of bytes to swallow.
	skip int

	// containers are those that at is of (or was, before it was gone), and searched tells that the command at hand has looked up a key: from then
	// on it does not change the container.
	containers *containers
	at         *container
	switched   bool // the client has named at; otherwise it is the default
	searched   bool

	r        renderer
	search   schema.Search
	value    [1][]byte
	emit     func(row rowcodec.Row, version uint64) bool
	emitOnly func(row rowcodec.Row) bool // of a row from the database
	emitItem func(v *item.View)
	request  item.Request // to the items
	// touched is what a binary touch shows of the item.
	touched     shown
	emitTouched func(v *item.View)

	// view searches viewed, which is viewedAt's, in one state. They are set while several keys are taken from memory.
	view     searchFunc
	viewed   *binding
	viewedAt *container
	inView   func(search searchFunc)
	viewKeys []byte // what inView works on, and how far it got
	viewDone int

	meta  metaRequest
	frame binaryFrame
	// pending is the write whose data block is awaited.
	pending writeRequest
	cmd     command // of the request at hand
	// line holds what a parked job or a data block needs of the command line.
	line     []byte
	keyBytes []byte // a key that was written in base64
	scratch  []byte
	// failure is the error line of the last look-up that failed, and unavailable tells that the database could not be asked.
	failure     string
	unavailable bool
}

// searchFunc is Table.SearchMemory.
type searchFunc = func(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error)

// NewSession implements netserver.Protocol.
func (s *Server) NewSession(c netserver.Conn) netserver.Session {
	se := &session{server: s, conn: c, count: s.counters.stripe(c.ID())}
	se.r.meta, se.r.frame = &se.meta, &se.frame
	se.search.Values = se.value[:]
	se.emit = se.r.emit
	se.emitItem = se.r.emitItem
	se.emitTouched = func(v *item.View) { se.touched = shown{flags: v.Flags, cas: v.CAS} }
	se.inView = se.getKeysInView
	se.emitOnly = func(row rowcodec.Row) bool { return se.r.emit(row, 0) }
	if se.known = s.users == nil; !se.known {
		c.SetInputLimit(2 * maxAuthBytes)
	} else {
		c.SetInputLimit(inputLimitBytes)
	}
	s.sessions.Store(c.ID(), se)
	return se
}

// Close implements netserver.Session.
func (s *session) Close() { s.server.sessions.Delete(s.conn.ID()) }

// Serve implements netserver.Session.
func (s *session) Serve(in []byte) (int, error) {
	taken := s.handled
	s.handled = 0
	s.parked = false
	s.limit = s.conn.OutputLimit()
	s.r.out = s.conn.Out()
	var err error
	for err == nil && !s.parked && len(s.r.out) < s.limit {
		s.r.now = 0
		before := s.state
		var n int
		n, err = s.step(in[taken:])
		taken += n
		if n == 0 && s.state == before {
			break
		}
	}
	s.conn.SetOut(s.r.out)
	s.r.out = nil
	return taken, err
}

// step takes one request, or part of one, from the beginning of in. It takes nothing and leaves the state when more
// input is needed.
func (s *session) step(in []byte) (taken int, err error) {
	switch s.state {
	case stateStart:
		if len(in) == 0 {
			return 0, nil
		}
		s.state = stateText
		if !s.known {
			s.state = stateAuth
		}
		if in[0] == magicRequest {
			s.state = stateBinary
		}
		return 0, nil
	case stateAuth:
		return s.textAuth(in)
	case stateText:
		return s.textLine(in)
	case stateGet:
		return s.getKeysAtOnce(in), nil
	case stateIgnore:
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			return len(in), nil
		}
		s.state = stateText
		return end + 1, nil
	case stateBlock:
		return s.dataBlock(in)
	case stateSwallow:
		n := min(s.skip, len(in))
		if s.skip -= n; s.skip == 0 {
			s.state = stateText
			if s.frame.active {
				s.state = stateBinary
			}
		}
		return n, nil
	default:
		return s.binaryRequest(in)
	}
}

// textLine takes a command line. A line that is too long closes the connection; a get line of that length is answered
// while it comes.
func (s *session) textLine(in []byte) (taken int, err error) {
	end := bytes.IndexByte(in[s.scanned:], '\n')
	if end >= 0 {
		end += s.scanned
	} else if end = len(in); end <= maxLineBytes {
		s.scanned = end
		return 0, nil
	}
	s.scanned = 0
	line := in[:end]
	if end > 1 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	name, rest := token(line)
	s.cmd = textCommand(name)
	get := s.cmd == cmdGet || s.cmd == cmdGets
	switch {
	case end > maxLineBytes && (!get || len(rest) == 0):
		s.count.add(cmdUnknown, resultClientError)
		return 0, netserver.ErrClose
	case s.lacks(s.cmd):
		return end + 1, s.lacking(line, rest)
	case s.cmd == cmdGAT || s.cmd == cmdGATS:
		keys := s.getAndTouch(rest)
		if keys == nil {
			return end + 1, nil
		}
		return len(line) - len(keys), nil
	case !get:
		return end + 1, s.command(line, name, rest)
	case end <= maxLineBytes && !goodKeys(rest):
		// With one bad key there is no answer but the error.
		s.fail(errBadFormat)
		return end + 1, nil
	}
	s.beginGet(s.cmd)
	return len(line) - len(rest), nil
}

// command runs a command line that is no get.
func (s *session) command(line, name, rest []byte) error {
	switch s.cmd {
	case cmdMetaGet, cmdMetaDebug:
		s.metaGet(rest)
	case cmdMetaNoop:
		s.ok("MN")
	case cmdSet, cmdAdd, cmdReplace, cmdAppend, cmdPrepend, cmdCAS:
		s.storage(rest)
	case cmdMetaSet:
		s.metaSet(rest)
	case cmdMetaDelete, cmdMetaArithmetic:
		s.metaChange(rest)
	case cmdIncr, cmdDecr:
		s.arithmetic(rest)
	case cmdDelete:
		s.delete(rest)
	case cmdTouch:
		s.touch(rest)
	case cmdFlushAll:
		s.flushAll(rest)
	case cmdBind:
		s.bind(rest)
	case cmdStats:
		s.stats(rest)
	case cmdVersion:
		s.ok("VERSION " + ProtocolVersion)
	case cmdVerbosity:
		s.verbosity(rest)
	case cmdQuit:
		s.count.add(cmdQuit, resultOK)
		return netserver.ErrClose
	case cmdShutdown:
		s.refuse(errShutdown)
	case cmdMemoryLimit:
		s.memoryLimit(rest)
	case cmdTune:
		s.tune(name, rest)
	case cmdWatch:
		s.refuse(errNoWatch)
	default:
		return s.unknown(line)
	}
	return nil
}

// unknown answers a line that is no command.
func (s *session) unknown(line []byte) error {
	last := lastToken(line)
	switch {
	case bytes.HasPrefix(last, []byte("HTTP/")):
		// A browser that was led here must not make the lines of its request run as commands.
		s.count.add(cmdUnknown, resultClientError)
		return netserver.ErrClose
	case string(last) == "noreply":
		s.count.add(cmdUnknown, resultClientError)
	default:
		s.fail(errLine)
	}
	return nil
}

// text writes one answer line.
func (s *session) text(line string) {
	s.r.out = append(s.r.out, line...)
	s.r.out = append(s.r.out, "\r\n"...)
}

// ok answers a command that succeeded.
func (s *session) ok(line string) {
	s.count.add(s.cmd, resultOK)
	s.text(line)
}

// fail answers a command that was not understood.
func (s *session) fail(line string) {
	s.count.add(s.cmd, resultClientError)
	s.text(line)
}

// refuse answers a command that is understood and not supported.
func (s *session) refuse(line string) {
	s.count.add(s.cmd, resultRefused)
	s.text(line)
}

// failUnless is fail, in silence when the line ended with noreply.
func (s *session) failUnless(noreply bool, line string) {
	if noreply {
		s.count.add(s.cmd, resultClientError)
		return
	}
	s.fail(line)
}

func (s *session) verbosity(rest []byte) {
	noreply := isNoreply(rest)
	level, _ := token(rest)
	if _, ok := parseUint(level); !ok {
		s.failUnless(noreply, errBadFormat)
		return
	}
	// The level is taken and has no effect: what is logged is for the operator to choose.
	s.count.add(s.cmd, resultOK)
	if !noreply {
		s.text("OK")
	}
}

// bind is the plugin's command that changes the container without reading.
func (s *session) bind(rest []byte) {
	name, _ := token(rest)
	if len(name) == 0 || len(name) > maxKeyBytes {
		s.fail(errBadFormat)
		return
	}
	run := func(ctx context.Context, name []byte) bool {
		s.searched = false
		switch s.switchTo(ctx, name) {
		case outcomePark:
			return false
		case outcomeHit:
			s.ok("SUCCEED")
		case outcomeMiss:
			s.count.add(s.cmd, resultMiss)
			s.text("NOT_FOUND")
		default:
			s.serverError()
		}
		return true
	}
	if !run(memoryOnly, name) {
		s.line = append(s.line[:0], name...)
		s.park(func(ctx context.Context) { run(ctx, s.line) })
	}
}

// park runs job on a worker, with the session's output being the job's answer.
func (s *session) park(job func(ctx context.Context)) {
	s.parked = true
	s.conn.Park(func(ctx context.Context, out []byte) []byte {
		s.r.out = out
		s.r.now = 0
		job(ctx)
		if cap(s.line) > maxKeptLine {
			s.line = nil
		}
		out = s.r.out
		s.r.out = nil
		return out
	})
}

// serverError answers with the error line of the last look-up.
func (s *session) serverError() {
	s.count.add(s.cmd, resultServerError)
	s.text(s.failure)
}

// failed keeps err as the failure of a look-up.
func (s *session) failed(err error) outcome {
	s.failure = serverErrorLine(err)
	s.unavailable = errors.Is(err, ErrUnavailable) || errors.Is(err, ErrChanged)
	s.server.errorLog.report("memcached request failed", err)
	return outcomeFailed
}

// serverErrorLine is the answer line for an error: one line, of bounded length.
func serverErrorLine(err error) string {
	text := []byte(fmt.Sprintf("SERVER_ERROR %v", err))
	const most = 400
	if len(text) > most {
		text = append(text[:most-3], "..."...)
	}
	for i, c := range text {
		if c < ' ' || c == 0x7f {
			text[i] = ' '
		}
	}
	return string(text)
}
