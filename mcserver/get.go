package mcserver

import (
	"bytes"
	"context"
)

// goodKeys tells that a get line has keys, none of which is too long.
func goodKeys(keys []byte) bool {
	key, rest := token(keys)
	if len(key) == 0 {
		return false
	}
	for len(key) > 0 {
		if len(key) > maxKeyBytes {
			return false
		}
		key, rest = token(rest)
	}
	return true
}

// beginGet starts the answer to a get, gets, gat or gats line, whose keys getKeys then takes.
func (s *session) beginGet(cmd command) {
	s.cmd = cmd
	s.state = stateGet
	s.searched = false
	s.r.form = formText
	if cmd == cmdGets || cmd == cmdGATS {
		s.r.form = formCAS
	}
}

// nextKey finds the first key of in, which begins with the rest of a get line. end is where it ends; the line's end is
// an empty key, with end behind it. Not ok: more input is needed to tell, and the first begin bytes are blank.
func nextKey(in []byte) (begin, end int, ok bool) {
	for begin < len(in) && in[begin] == ' ' {
		begin++
	}
	end = begin
	for end < len(in) && in[end] != ' ' && in[end] != '\n' {
		end++
	}
	if end == len(in) {
		return begin, end, false
	}
	return begin, end, true
}

// getKeysAtOnce takes keys of a get line from memory. Where there are several, all that are taken together see one state
// of the table.
func (s *session) getKeysAtOnce(in []byte) (taken int) {
	if b := s.multiple(in); b != nil {
		s.viewed, s.viewedAt, s.viewKeys = b, s.at, in
		b.viewer.ViewMemory(s.inView)
		s.viewed, s.viewedAt, s.view, s.viewKeys = nil, nil, nil, nil
		return s.viewDone
	}
	return s.getKeys(memoryOnly, in)
}

// getKeysInView is what ViewMemory calls.
func (s *session) getKeysInView(search searchFunc) {
	s.view = search
	s.viewDone = s.getKeys(memoryOnly, s.viewKeys)
}

// multiple returns what the keys of in are looked up in, if there are several and they can see one state together.
func (s *session) multiple(in []byte) *binding {
	begin, end, ok := nextKey(in)
	if !ok || in[end] != ' ' {
		return nil
	}
	cs := s.server.containers.Load()
	if cs == nil || cs.places[operationGet] != inTable || s.cmd == cmdGAT || s.cmd == cmdGATS {
		return nil
	}
	s.follow(cs)
	if name, _ := splitKey(in[begin:end], cs.options.TableMapDelimiter); name != nil && !s.searched && s.switchTo(memoryOnly, name) != outcomeHit {
		return nil
	}
	if s.at == nil {
		return nil
	}
	if b, err := s.at.bound(); err == nil && b.viewer != nil {
		return b
	}
	return nil
}

// getKeys takes keys of a get line while there is room in the output. With memoryOnly, from the first one that memory has
// no answer to, those that have arrived are left to a job.
func (s *session) getKeys(ctx context.Context, in []byte) (taken int) {
	for len(s.r.out) < s.limit {
		begin, end, ok := nextKey(in[taken:])
		begin, end = begin+taken, end+taken
		if !ok {
			if end-begin > maxKeyBytes+1 {
				// Only in a line that was too long to look at as a whole: its first answers are out.
				s.fail(errBadFormat)
				s.state = stateIgnore
			}
			return begin
		}
		key := in[begin:end]
		if in[end] == '\n' {
			if len(key) > 0 && key[len(key)-1] == '\r' {
				key = key[:len(key)-1]
			}
			if len(key) == 0 {
				s.text("END")
				s.state = stateText
				return end + 1
			}
		}
		if len(key) > maxKeyBytes {
			s.fail(errBadFormat)
			s.state = stateIgnore
			return begin
		}
		switch s.lookup(ctx, key) {
		case outcomePark:
			s.parkKeys(in[begin:])
			return begin
		case outcomeFailed:
			s.serverError()
			s.state = stateIgnore
			return begin
		default:
			s.countRead()
		}
		taken = end
	}
	return taken
}

// parkKeys gives the complete keys of in, up to the end of the line, to a job. They stay in the input until it is done.
func (s *session) parkKeys(in []byte) {
	n := bytes.IndexByte(in, '\n') + 1
	if n == 0 {
		n = bytes.LastIndexByte(in, ' ') + 1
	}
	s.line = append(s.line[:0], in[:n]...)
	s.park(func(ctx context.Context) { s.handled = s.getKeys(ctx, s.line) })
}
