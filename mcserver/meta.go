package mcserver

import (
	"encoding/base64"
	"strconv"
)

// metaRequest is a parsed line of a meta command. Its slices are parts of the line.
type metaRequest struct {
	key  []byte // as it was written
	args []byte // the flags, for the answer's order
	// binaryKey: the key is written in base64.
	binaryKey bool
	value     bool // v
	quiet     bool // q
	hasCAS    bool // C
	cas       uint64
	hasNewCAS bool // E
	newCAS    uint64
	touch     bool // T
	exptime   int32
	vivify    bool // N
	vivifyFor int32
	mode      byte // M, 0 without one
	flags     uint32
	initial   uint64
	delta     uint64
	stale     bool  // I
	dropValue bool  // x
	recache   int32 // R
	noBump    bool  // u
	age       ageRequest
}

// parseFlags reads the flags of a meta command; the result is the error line, or empty.
func (m *metaRequest) parseFlags(args []byte) string {
	*m = metaRequest{key: m.key, args: args, delta: 1}
	var seen [128]bool
	failed := ""
	count := 2
	for tok, rest := token(args); len(tok) > 0; tok, rest = token(rest) {
		if count++; count > maxMetaTokens {
			return errMetaTooMany
		}
		c, arg := tok[0], tok[1:]
		if c >= 127 || seen[c] {
			return errMetaDuplicate
		}
		seen[c] = true
		ok := true
		switch c {
		case 'b':
			m.binaryKey = true
		case 'N':
			m.vivify = true
			m.vivifyFor, ok = parseInt32(arg)
		case 'T':
			m.touch = true
			m.exptime, ok = parseInt32(arg)
		case 'R':
			m.recache, ok = parseInt32(arg)
		case 'C':
			m.hasCAS = true
			m.cas, ok = parseUint(arg)
		case 'E':
			m.hasNewCAS = true
			m.newCAS, ok = parseUint(arg)
		case 'J':
			m.initial, ok = parseUint(arg)
		case 'D':
			m.delta, ok = parseUint(arg)
		case 'F':
			n, good := parseUint(arg)
			if !good || n > 1<<32-1 {
				failed = errBadFormat
			}
			m.flags = uint32(n)
		case 'M':
			m.mode = '?'
			if len(arg) == 1 {
				m.mode = arg[0]
			}
		case 'O':
			if len(tok) > maxOpaqueBytes {
				failed = errMetaOpaque
			}
		case 'v':
			m.value = true
		case 'q':
			m.quiet = true
		case 'x':
			m.dropValue = true
		case 'I':
			m.stale = true
		case 'u':
			m.noBump = true
		case 'L':
			m.age.parse(arg)
		case 'P', 'k', 's', 't', 'c', 'f', 'h', 'l':
		default:
			return errMetaInvalid
		}
		if !ok {
			failed = errMetaToken
		}
	}
	return failed
}

// parseMeta reads key and flags of mg, md, ma and me, all of which stand behind the command's name.
func (m *metaRequest) parseMeta(line []byte) string {
	key, rest := token(line)
	if len(key) == 0 || len(key) > maxKeyBytes {
		return errBadFormat
	}
	m.key = key
	return m.parseFlags(rest)
}

// decodeKey returns the key's bytes, which for a binary key are in *scratch.
func (m *metaRequest) decodeKey(scratch *[]byte) ([]byte, bool) {
	if !m.binaryKey {
		return m.key, true
	}
	decoded, err := base64.StdEncoding.AppendDecode((*scratch)[:0], m.key)
	*scratch = decoded
	return decoded, err == nil && len(decoded) > 0
}

// appendEcho appends what a flag brings back on hits and misses alike, if it does: L only on those of rows.
func (m *metaRequest) appendEcho(out, flag []byte) []byte {
	switch flag[0] {
	case 'O':
		out = append(out, ' ')
		out = append(out, flag...)
	case 'k':
		out = append(out, " k"...)
		out = append(out, m.key...)
		if m.binaryKey {
			out = append(out, " b"...)
		}
	case 'L':
		out = m.age.append(out)
	}
	return out
}

// appendKeyOf is appendEcho for the key of an item that was stored under one in base64: it is shown so to everybody.
func (m *metaRequest) appendKeyOf(out []byte, binaryKey bool) []byte {
	if m.binaryKey || !binaryKey {
		return m.appendEcho(out, []byte{'k'})
	}
	out = append(out, " k"...)
	out = base64.StdEncoding.AppendEncode(out, m.key)
	return append(out, " b"...)
}

// appendMiss appends the answer line of a miss.
func (m *metaRequest) appendMiss(out []byte) []byte {
	out = append(out, "EN"...)
	for tok, rest := token(m.args); len(tok) > 0; tok, rest = token(rest) {
		out = m.appendEcho(out, tok)
	}
	return append(out, "\r\n"...)
}

// metaHead writes the answer line of a hit. Of what an item has, a row has cas, flags, size and expiry; the others are
// answered as for an item that was read before (h1), just now (l0), and the flags u, R and E change nothing.
func (r *renderer) metaHead(it shown, n int) (withValue bool) {
	m := r.meta
	withValue = m.value && !(m.hasCAS && m.cas == it.cas)
	if withValue {
		r.out = append(r.out, "VA "...)
		r.out = strconv.AppendInt(r.out, int64(n), 10)
	} else {
		r.out = append(r.out, "HD"...)
	}
	for tok, rest := token(m.args); len(tok) > 0; tok, rest = token(rest) {
		switch tok[0] {
		case 's':
			r.out = strconv.AppendInt(append(r.out, " s"...), int64(n), 10)
		case 't':
			r.out = strconv.AppendInt(append(r.out, " t"...), r.secondsLeft(it), 10)
		case 'c':
			r.out = strconv.AppendUint(append(r.out, " c"...), it.cas, 10)
		case 'f':
			r.out = strconv.AppendUint(append(r.out, " f"...), uint64(it.flags), 10)
		case 'h':
			if it.view != nil && !it.view.Fetched {
				r.out = append(r.out, " h0"...)
			} else {
				r.out = append(r.out, " h1"...)
			}
		case 'l':
			r.out = append(r.out, " l"...)
			if it.view != nil {
				r.out = strconv.AppendInt(r.out, it.view.Idle, 10)
			} else {
				r.out = append(r.out, '0')
			}
		case 'k':
			r.out = m.appendKeyOf(r.out, it.view != nil && it.view.BinaryKey)
		default:
			r.out = m.appendEcho(r.out, tok)
		}
	}
	if v := it.view; v != nil {
		if v.Sent {
			r.out = append(r.out, " Z"...)
		}
		if v.Stale {
			r.out = append(r.out, " X"...)
		}
		if v.Won {
			r.out = append(r.out, " W"...)
		}
	}
	r.out = append(r.out, "\r\n"...)
	return withValue
}

// debugLine writes the answer of me. That of a row is ended by session.appendTrace.
func (r *renderer) debugLine(it shown, n int) {
	r.out = append(r.out, "ME "...)
	r.out = append(r.out, r.meta.key...)
	r.out = strconv.AppendInt(append(r.out, " exp="...), r.secondsLeft(it), 10)
	idle, fetched, class := int64(0), "yes", "0"
	if v := it.view; v != nil {
		idle, class, n = v.Idle, "1", v.Size
		if !v.Fetched {
			fetched = "no"
		}
	}
	r.out = strconv.AppendInt(append(r.out, " la="...), idle, 10)
	r.out = strconv.AppendUint(append(r.out, " cas="...), it.cas, 10)
	r.out = append(append(r.out, " fetch="...), fetched...)
	r.out = append(append(r.out, " cls="...), class...)
	r.out = strconv.AppendInt(append(r.out, " size="...), int64(n), 10)
	if !r.traced.row {
		r.out = append(r.out, "\r\n"...)
	}
}
