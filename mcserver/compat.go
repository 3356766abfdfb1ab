package mcserver

import (
	"fmt"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/item"
)

// Compat chooses between safe behaviour and the plugin's own quirks. It counts where there are containers: without any the
// port is a plain memcached. What it means to commands is in this file, what it means to rows in pluginrow.go.
type Compat uint8

const (
	// CompatSafe gives the plugin's answers except where they would be wrong or lose data.
	CompatSafe Compat = iota
	// CompatStrict gives the plugin's answers, and makes of rows what it makes of them, also where that cuts values or
	// sets columns to NULL. What it does not copy is listed in docs/PROTOCOLS.md.
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

// asPlugin tells that requests are taken as the plugin takes them.
func (s *session) asPlugin() bool {
	if s.server.compat != CompatStrict {
		return false
	}
	cs := s.server.containers.Load()
	return cs != nil && len(cs.inOrder) > 0
}

// lacks tells that a command does not exist: the plugin's memcached is one of before touch and the meta protocol.
func (s *session) lacks(c command) bool {
	switch c {
	case cmdTouch, cmdGAT, cmdGATS, cmdMetaGet, cmdMetaSet, cmdMetaDelete, cmdMetaArithmetic, cmdMetaNoop, cmdMetaDebug:
		return s.asPlugin()
	}
	return false
}

// lacking answers the line of a command that the plugin lacks. It runs the data block of an ms as a line of its own; a value
// must never be a command, so it is passed over here.
func (s *session) lacking(line, rest []byte) error {
	if s.cmd == cmdMetaSet {
		_, rest = token(rest)
		size, _ := token(rest)
		if n, ok := parseUint(size); ok && n <= maxValueAnnounce {
			s.skip = int(n) + 2
			s.state = stateSwallow
		}
	}
	s.cmd = cmdUnknown
	return s.unknown(line)
}

// pluginExptime is what the plugin says to a time that it does not take; empty for others. It then runs the data block as a
// line of its own, which gives the second error: here that is said, and the block passed over.
func pluginExptime(text []byte) string {
	exptime, err := strconv.ParseInt(string(text), 10, 32)
	switch {
	case err != nil:
		return errBadFormat + "\r\n" + errLine
	case exptime < 0:
		return "CLIENT_ERROR Invalid expire time\r\n" + errLine
	}
	return ""
}

// errNotKept is the plugin's answer to an incr or decr whose number can't be stored.
const errNotKept = serverErrorPrefix + "failed to store item"

// pluginRefused answers a write that was refused as the plugin does, which has no words for the reason; a log has it. Not
// done: what deletes, for the plugin would say that there is nothing to delete.
func (s *session) pluginRefused(w *writeRequest, r *RefusedError) (done bool) {
	if w.cmd == cmdDelete || w.cmd == cmdFlushAll {
		return false
	}
	if r.own {
		s.server.errorLog.report("memcached write refused", r)
	}
	if (w.cmd == cmdIncr || w.cmd == cmdDecr) && !s.frame.active {
		s.failure = errNotKept
		s.answerError(w)
		return true
	}
	s.answerWrite(w, &item.Result{Status: item.NotStored})
	return true
}
