package mcserver

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/binlogcache/binlogcache/internal/item"
)

// answerWrite counts and answers what came of w, in the protocol that it came in.
func (s *session) answerWrite(w *writeRequest, res *item.Result) {
	s.count.add(s.cmd, resultOf(w.cmd, res.Status))
	switch res.Status {
	case item.TooLarge:
		s.server.tooLarge.Add(1)
	case item.NoMemory:
		s.server.noMemory.Add(1)
	}
	switch {
	case s.frame.active:
		s.binaryWritten(w, res)
	case w.isMeta():
		s.metaWritten(w, res)
	case !w.noreply:
		s.textWritten(w, res)
	}
}

// answerError answers w with s.failure.
func (s *session) answerError(w *writeRequest) {
	s.count.add(s.cmd, resultServerError)
	switch {
	case s.frame.active:
		s.binaryAnswer(statusTemporary, strings.TrimPrefix(s.failure, serverErrorPrefix))
	case !w.noreply:
		s.text(s.failure)
	}
}

// resultOf is how a write is counted.
func resultOf(cmd command, st item.Status) result {
	switch st {
	case item.NotFound:
		return resultMiss
	case item.NotStored:
		return resultNotStored
	case item.Exists:
		return resultExists
	case item.NotNumber:
		return resultClientError
	case item.TooLarge, item.NoMemory:
		return resultServerError
	}
	switch cmd {
	case cmdDelete, cmdTouch, cmdIncr, cmdDecr, cmdCAS, cmdMetaDelete, cmdMetaArithmetic:
		return resultHit
	}
	return resultOK
}

// failureLine is the error line of a status that is answered so in text and meta alike.
func failureLine(st item.Status) string {
	switch st {
	case item.NotNumber:
		return errNotNumber
	case item.TooLarge:
		return errTooLarge
	case item.NoMemory:
		return errNoMemory
	}
	return ""
}

func (s *session) textWritten(w *writeRequest, res *item.Result) {
	switch res.Status {
	case item.Done:
	case item.NotStored:
		s.text("NOT_STORED")
		return
	case item.Exists:
		s.text("EXISTS")
		return
	case item.NotFound:
		s.text("NOT_FOUND")
		return
	default:
		s.text(failureLine(res.Status))
		return
	}
	switch w.cmd {
	case cmdIncr, cmdDecr:
		s.r.out = strconv.AppendUint(s.r.out, res.Number, 10)
		s.text("")
	case cmdDelete:
		s.text("DELETED")
	case cmdTouch:
		s.text("TOUCHED")
	case cmdFlushAll:
		s.text("OK")
	default:
		s.text("STORED")
	}
}

// metaWritten answers ms, md and ma.
func (s *session) metaWritten(w *writeRequest, res *item.Result) {
	m, r := &w.meta, &s.r
	done := res.Status == item.Done
	if done && m.quiet {
		return
	}
	arithmetic := w.cmd == cmdMetaArithmetic
	withValue := arithmetic && done && m.value
	switch res.Status {
	case item.Done:
		if withValue {
			r.out = append(r.out, "VA "...)
			r.out = strconv.AppendInt(r.out, int64(res.Length), 10)
		} else {
			r.out = append(r.out, "HD"...)
		}
	case item.NotStored:
		r.out = append(r.out, "NS"...)
	case item.Exists:
		r.out = append(r.out, "EX"...)
	case item.NotFound:
		r.out = append(r.out, "NF"...)
	default:
		s.text(failureLine(res.Status))
		return
	}
	for tok, rest := token(m.args); len(tok) > 0; tok, rest = token(rest) {
		switch c := tok[0]; {
		case c == 'k':
			r.out = m.appendKeyOf(r.out, res.BinaryKey)
		case c == 'O':
			r.out = m.appendEcho(r.out, tok)
		case !done:
		case c == 'c' && w.cmd != cmdMetaDelete:
			r.out = strconv.AppendUint(append(r.out, " c"...), res.CAS, 10)
		case c == 's' && w.cmd == cmdMetaSet:
			r.out = strconv.AppendInt(append(r.out, " s"...), int64(res.Length), 10)
		case c == 't' && arithmetic:
			r.out = strconv.AppendInt(append(r.out, " t"...), res.Left, 10)
		}
	}
	s.text("")
	if withValue {
		r.out = strconv.AppendUint(r.out, res.Number, 10)
		s.text("")
	}
}

// binaryWritten answers a binary request that was to change something. Quiet ones answer only when they fail.
func (s *session) binaryWritten(w *writeRequest, res *item.Result) {
	switch res.Status {
	case item.Done:
	case item.NotStored:
		switch w.cmd {
		case cmdAdd:
			s.binaryAnswer(statusExists, textExists)
		case cmdReplace:
			s.binaryAnswer(statusNotFound, textNotFound)
		default:
			s.binaryAnswer(statusNotStored, textNotStored)
		}
		return
	case item.Exists:
		s.binaryAnswer(statusExists, textExists)
		return
	case item.NotFound:
		s.binaryAnswer(statusNotFound, textNotFound)
		return
	case item.NotNumber:
		s.binaryAnswer(statusNotNumber, textNotNumber)
		return
	case item.TooLarge:
		s.binaryAnswer(statusTooLarge, textTooLarge)
		return
	default:
		s.binaryAnswer(statusNoMemory, textNoMemory)
		return
	}
	if w.noreply {
		return
	}
	f := &s.frame
	switch w.cmd {
	case cmdIncr, cmdDecr:
		s.r.out = f.appendHeader(s.r.out, statusOK, 0, 0, 8, res.CAS)
		s.r.out = binary.BigEndian.AppendUint64(s.r.out, res.Number)
	case cmdTouch:
		s.r.out = f.appendHeader(s.r.out, statusOK, 4, 0, 4, res.CAS)
		s.r.out = binary.BigEndian.AppendUint32(s.r.out, s.touched.flags)
	default:
		s.r.out = f.appendHeader(s.r.out, statusOK, 0, 0, 0, res.CAS)
	}
}
