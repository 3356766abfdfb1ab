package mcserver

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/binlogcache/binlogcache/internal/item"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// form is the shape of an answer that carries a value.
type form uint8

const (
	formText   form = iota // VALUE key flags bytes
	formCAS                // VALUE key flags bytes cas
	formMeta               // VA or HD, with the flags asked for
	formDebug              // ME
	formBinary             // a binary answer, its header in renderer.frame
)

// renderer writes what a row says to out. A session has one, for its searches give rows to a function that must be made
// but once.
type renderer struct {
	out   []byte
	form  form
	b     *binding
	key   []byte // as the client wrote it
	meta  *metaRequest
	frame *binaryFrame

	found   bool
	expired bool
	created bool // the item that was found has just been made
	traced  traced
	// now is the time of the request at hand, in seconds; 0 until somebody needs it.
	now int64
}

// shown is what a row, an item, or another thing with a value, says beside that.
type shown struct {
	flags uint32
	cas   uint64
	exp   int64 // Unix time, 0 is never
	// view is the item, nil for everything else.
	view *item.View
}

// emit takes the one row of a look-up from memory.
func (r *renderer) emit(row rowcodec.Row, version uint64) bool {
	it, live := r.read(row, version)
	if !live {
		r.expired = true
		return false
	}
	r.found = true
	if r.form == formDebug {
		r.traced.take(row, version)
	}
	r.write(row, it)
	return false
}

// read takes flags, cas and expiry of a row; false when its time is over.
func (r *renderer) read(row rowcodec.Row, version uint64) (it shown, live bool) {
	b, over := r.b, false
	if b.exp >= 0 {
		if v, null := row.Value(b.exp); !null {
			if it.exp = number(v); it.exp < 0 && v[0] != '-' {
				it.exp = math.MaxInt64 // BIGINT UNSIGNED
			}
			over = it.exp != 0 && r.time() > it.exp
		}
	}
	if b.flags >= 0 {
		if v, null := row.Value(b.flags); !null {
			// Flags over 31 bits stand in a signed column as negative numbers.
			it.flags = uint32(number(v))
		}
	}
	switch {
	case b.cas >= 0:
		if v, null := row.Value(b.cas); !null {
			it.cas = uint64(number(v))
		}
	case !b.strict:
		// A row that was read from the database has no version: 0, which no row in memory has.
		it.cas = version
	}
	return it, !over
}

func (r *renderer) time() int64 {
	if r.now == 0 {
		r.now = time.Now().Unix()
	}
	return r.now
}

// write writes a row's answer.
func (r *renderer) write(row rowcodec.Row, it shown) {
	b := r.b
	if len(b.value) == 1 && b.value[0].plain() {
		v, _ := row.Value(b.value[0].column)
		if r.head(it, len(v)) {
			r.out = append(r.out, v...)
			r.tail()
		}
		return
	}
	if r.head(it, b.valueLen(row)) {
		r.out = b.appendValue(r.out, row)
		r.tail()
	}
}

// emitItem takes an item.
func (r *renderer) emitItem(v *item.View) {
	r.found, r.created = true, v.Created
	if r.head(shown{flags: v.Flags, cas: v.CAS, view: v}, len(v.Value)) {
		r.out = append(r.out, v.Value...)
		r.tail()
	}
}

// writeText writes an answer whose value is v.
func (r *renderer) writeText(v string) {
	r.found = true
	if r.head(shown{}, len(v)) {
		r.out = append(r.out, v...)
		r.tail()
	}
}

// head writes everything before a value of n bytes, and tells whether the value follows.
func (r *renderer) head(it shown, n int) bool {
	switch r.form {
	case formMeta:
		return r.metaHead(it, n)
	case formDebug:
		r.debugLine(it, n)
		return false
	case formBinary:
		r.binaryHead(it, n)
		return true
	default:
		r.out = append(r.out, "VALUE "...)
		r.out = append(r.out, r.key...)
		r.out = append(r.out, ' ')
		r.out = strconv.AppendUint(r.out, uint64(it.flags), 10)
		r.out = append(r.out, ' ')
		r.out = strconv.AppendUint(r.out, uint64(n), 10)
		if r.form == formCAS {
			r.out = append(r.out, ' ')
			r.out = strconv.AppendUint(r.out, it.cas, 10)
		}
		r.out = append(r.out, "\r\n"...)
		return true
	}
}

// tail writes what follows the value.
func (r *renderer) tail() {
	if r.form != formBinary {
		r.out = append(r.out, "\r\n"...)
	}
}

// number reads an integer column's text; numbers over math.MaxInt64 wrap.
func number(v []byte) int64 {
	negative := false
	if len(v) > 0 && v[0] == '-' {
		negative = true
		v = v[1:]
	}
	var n uint64
	for _, c := range v {
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n)
	}
	return int64(n)
}

// plain tells that the column's text is the value as it is.
func (v valueColumn) plain() bool { return v.pad == 0 && !v.zerofill }

// text returns the column's part of the value, without padding. NULL is empty.
func (v valueColumn) text(row rowcodec.Row) []byte {
	t, null := row.Value(v.column)
	if null {
		return nil
	}
	if v.zerofill {
		for len(t) > 1 && t[0] == '0' {
			t = t[1:]
		}
	}
	return t
}

// valueLen returns the length of the value that a row makes.
func (b *binding) valueLen(row rowcodec.Row) int {
	n := (len(b.value) - 1) * len(b.separator)
	for _, v := range b.value {
		t := v.text(row)
		if n += len(t); len(t) < v.pad && t != nil {
			n += v.pad - len(t)
		}
	}
	return n
}

// appendValue appends the value that a row makes: its columns joined by the separator, NULL and empty ones as nothing.
func (b *binding) appendValue(dst []byte, row rowcodec.Row) []byte {
	for i, v := range b.value {
		if i > 0 {
			dst = append(dst, b.separator...)
		}
		t := v.text(row)
		dst = append(dst, t...)
		if t != nil {
			for n := len(t); n < v.pad; n++ {
				dst = append(dst, ' ')
			}
		}
	}
	return dst
}

// secondsLeft is the time that an item has left as the meta protocol shows it: -1 for never.
func (r *renderer) secondsLeft(it shown) int64 {
	if it.view != nil {
		return it.view.Left
	}
	if it.exp == 0 {
		return -1
	}
	return it.exp - r.time()
}

// binaryHead writes a binary answer's header and flags; the value is written by the caller.
func (r *renderer) binaryHead(it shown, n int) {
	f := r.frame
	key := r.key
	if !f.withKey {
		key = nil
	}
	body := 4 + len(key) + n
	if body > math.MaxUint32 {
		body = math.MaxUint32
	}
	r.out = f.appendHeader(r.out, 0, 4, len(key), body, it.cas)
	r.out = binary.BigEndian.AppendUint32(r.out, it.flags)
	r.out = append(r.out, key...)
}
