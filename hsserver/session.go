package hsserver

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"

	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// session is one connection. While a job of it is parked the session belongs to the job.
type session struct {
	server     *Server
	conn       netserver.Conn
	count      *counters
	authorized bool
	lineBytes  int // the longest line that is taken
	scanned    int // bytes at the beginning of the input that hold no line feed
	parked     bool

	ids       indexIDs
	openBytes int // of maxOpenBytes

	// The request at hand and the search for it, kept for their memory.
	req        request
	search     schema.Search
	answer     answer
	emit       func(row rowcodec.Row, version uint64) bool // emitRow, bound once
	emitStored func(row rowcodec.Row) bool

	run   run
	batch batch
	text  []byte // an answer on its way into the batch
}

var errLineTooLong = errors.New("request line is too long")

// Serve carries out the complete lines of in.
func (s *session) Serve(in []byte) (int, error) {
	out, limit := s.conn.Out(), s.conn.OutputLimit()
	pos := 0
	s.parked = false
	defer s.endRun()
	for len(out) < limit && !s.parked {
		n := bytes.IndexByte(in[pos+s.scanned:], '\n')
		if n >= 0 {
			n += s.scanned
		} else if len(in)-pos <= s.lineBytes {
			s.scanned = len(in) - pos
			break
		}
		s.scanned = 0
		if len(s.batch.writes) > 0 && (n < 0 || n > s.lineBytes || s.batch.full() || !mayJoin(in[pos:pos+n])) {
			break
		}
		if n < 0 || n > s.lineBytes {
			s.count.failures.Add(1)
			s.count.limits[limitLine].Add(1)
			s.conn.SetOut(append(out, failLine...))
			return len(in), errLineTooLong
		}
		line := in[pos : pos+n]
		pos += n + 1
		if n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		s.run.ahead = in[pos:]
		if len(s.batch.writes) == 0 {
			out = s.execute(line, out)
		} else if s.text = s.execute(line, s.text[:0]); len(s.text) > 0 {
			s.batch.writes = append(s.batch.writes, batched{answer: string(s.text)})
		}
		if len(s.batch.writes) > 0 {
			s.batch.bytes += len(line)
		}
	}
	s.conn.SetOut(out)
	if len(s.batch.writes) > 0 && !s.parked {
		s.awaitBatch()
	}
	if !s.parked && len(in) > maxKeptRequest/2 {
		s.shrink()
	}
	return pos, nil
}

// shrink lets go of what a large request has left behind.
func (s *session) shrink() {
	s.req.shrink()
	if cap(s.answer.keys) > maxKeptRequest {
		s.answer.keys = nil
	}
	if cap(s.answer.rowKey) > maxKeptRequest {
		s.answer.rowKey = nil
	}
}

// Close ends the session.
func (s *session) Close() { s.server.openBytes.Add(-int64(s.openBytes)) }

// park lets a worker answer the request, after the batch that was begun before it. It is called at most once for a
// request.
func (s *session) park(job func(ctx context.Context, out []byte) []byte) {
	s.parked = true
	s.endRun()
	batch := s.batch.take()
	s.conn.Park(func(ctx context.Context, out []byte) []byte {
		out = s.writeBatch(ctx, batch, out)
		start := len(out)
		return s.countFailure(job(ctx, out), start)
	})
}

// countFailure counts the answer that begins at start of out if it is a failure. It returns out.
func (s *session) countFailure(out []byte, start int) []byte {
	if len(out) > start && out[start] != '0' {
		s.count.failures.Add(1)
	}
	return out
}

// execute carries out one request and appends its answer, unless it parks.
func (s *session) execute(line, out []byte) []byte {
	t := tokens{rest: line}
	command := t.next()
	var first byte
	if len(command) > 0 {
		first = command[0]
	}
	start := len(out)
	switch {
	case '0' <= first && first <= '9':
		if !s.authorized {
			out = s.unauthorized(out)
			break
		}
		out = s.exec(number(command), &t, out)
	case len(command) == 1 && first == 'P':
		if !s.authorized {
			out = s.unauthorized(out)
			break
		}
		s.count.opens.Add(1)
		s.endRun()
		out = s.open(&t, out)
	case len(command) == 1 && first == 'A':
		s.count.auths.Add(1)
		s.endRun()
		out = s.authorize(&t, out)
	default:
		out = append(out, failCommand...)
	}
	return s.countFailure(out, start)
}

func (s *session) unauthorized(out []byte) []byte {
	s.count.unauthorized.Add(1)
	s.server.warn("client refused: it has not shown the secret", s.conn, nil)
	return append(out, failSecret...)
}

// authorize carries out A: <type> <secret>.
func (s *session) authorize(t *tokens, out []byte) []byte {
	if kind := t.next(); len(kind) != 1 || kind[0] != '1' {
		return append(out, failSecretType...)
	}
	want, got := s.server.cfg.Secret, t.text()
	ok := subtle.ConstantTimeCompare(got, []byte(want)) == 1
	if want != "" {
		s.authorized = ok
		s.lineBytes = maxUnauthorizedLineBytes
		if ok {
			s.lineBytes = MaxLineBytes
		}
		s.conn.SetInputLimit(s.lineBytes)
	}
	if !ok {
		s.count.unauthorized.Add(1)
		s.server.warn("client refused: wrong secret", s.conn, nil)
		return append(out, failSecret...)
	}
	return append(out, done...)
}
