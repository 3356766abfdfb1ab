// Package rowcodec turns the server's forms of a row into the one form that the cache keeps, and back into text: binlog
// row images and text result sets go in, Row comes out. It also encodes keys so that comparing bytes gives the
// server's order. Everything here is pure: no I/O, no goroutines.
package rowcodec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Row is one row in its cached form: the text that the server sends for each column with character_set_results=NULL,
// so in the column's own character set. Column i of the row is column i of its schema.Table. A Row is immutable; it
// stays valid as long as the memory that holds it (see cache.View).
//
// Layout: a head byte (bits 0-1: width of an end offset, 0 = 1, 1 = 2, 2 = 4 bytes; bit 2: set when no value holds a
// byte below 0x10, so that HandlerSocket needs no escaping; bits 3-7: number of columns, 31 = a little-endian uint16
// follows), then for each column the end of its value counted from the first value's start, whose highest bit marks NULL,
// then the values.
type Row []byte

const (
	rowPlainBit   = 1 << 2
	rowManyColumn = 31
)

func (r Row) layout() (width, n, head int) {
	width = 1 << (r[0] & 3)
	n = int(r[0] >> 3)
	head = 1
	if n == rowManyColumn {
		n = int(binary.LittleEndian.Uint16(r[1:]))
		head = 3
	}
	return width, n, head
}

// Columns returns the number of columns.
func (r Row) Columns() int {
	_, n, _ := r.layout()
	return n
}

// Plain reports that no value holds a byte below 0x10.
func (r Row) Plain() bool { return r[0]&rowPlainBit != 0 }

func rowEnd(b []byte, width int) (end int, null bool) {
	switch width {
	case 1:
		return int(b[0] & 0x7f), b[0]&0x80 != 0
	case 2:
		v := binary.LittleEndian.Uint16(b)
		return int(v & 0x7fff), v&0x8000 != 0
	default:
		v := binary.LittleEndian.Uint32(b)
		return int(v & 0x7fffffff), v&0x80000000 != 0
	}
}

// Value returns column i, which must be below Columns. The bytes are the row's own: not to be changed.
func (r Row) Value(i int) (v []byte, null bool) {
	if r[0]&3 == 0 && r[0] < rowManyColumn<<3 { // most rows
		base := 1 + int(r[0]>>3)
		start, end := 0, int(r[1+i])
		if i > 0 {
			start = int(r[i] & 0x7f)
		}
		if end&0x80 != 0 {
			return nil, true
		}
		return r[base+start : base+end : base+end], false
	}
	width, n, head := r.layout()
	start := 0
	if i > 0 {
		start, _ = rowEnd(r[head+(i-1)*width:], width)
	}
	end, null := rowEnd(r[head+i*width:], width)
	if null {
		return nil, true
	}
	base := head + n*width
	return r[base+start : base+end : base+end], false
}

// Check reports what keeps bytes from being a row of so many columns: rows that come from elsewhere than a Builder must
// pass it before anything else is done with them.
func (r Row) Check(columns int) error {
	if len(r) == 0 || r[0]&3 == 3 || r[0]>>3 == rowManyColumn && len(r) < 3 {
		return errors.New("a row without a head")
	}
	width, n, head := r.layout()
	base := head + n*width
	if n != columns || len(r) < base {
		return fmt.Errorf("a row of %d columns, want %d", n, columns)
	}
	at := 0
	if width == 1 { // most rows
		for i, b := range r[head:base] {
			end := int(b & 0x7f)
			if end < at {
				return errRowEnds(i)
			}
			at = end
		}
	} else {
		for i := range n {
			end, _ := rowEnd(r[head+i*width:], width)
			if end < at {
				return errRowEnds(i)
			}
			at = end
		}
	}
	if at != len(r)-base {
		return fmt.Errorf("a row with %d bytes of values, want %d", len(r)-base, at)
	}
	if r.Plain() != isPlain(r[base:]) {
		return errors.New("a row whose head does not fit its values")
	}
	return nil
}

func errRowEnds(i int) error { return fmt.Errorf("value %d of a row ends before it begins", i) }

// Builder assembles rows. The zero value is ready; one Builder serves one goroutine and reuses its memory.
type Builder struct {
	ends   []uint32 // bit 31: NULL
	values []byte
}

// Reset starts a new row.
func (b *Builder) Reset() {
	b.ends = b.ends[:0]
	b.values = b.values[:0]
}

// Null adds a NULL.
func (b *Builder) Null() { b.ends = append(b.ends, uint32(len(b.values))|1<<31) }

// Add adds a value; v is copied.
func (b *Builder) Add(v []byte) {
	b.grow(v)
	b.End()
}

// grow appends v to the value at hand.
func (b *Builder) grow(v []byte) {
	if len(v) > arenaMost {
		b.values = slices.Grow(b.values, len(v)+takeRoom)
	}
	b.values = append(b.values, v...)
}

// takeRoom is what is left behind large values for the head of their row: see take.
const takeRoom = 1 << 10

// take gives the finished row in the builder's own memory, which it then has no longer. ok is false when there is no
// room in it.
func (b *Builder) take() (row Row, ok bool) {
	head := b.appendHead(nil)
	n := len(head) + len(b.values)
	if cap(b.values) < n {
		return nil, false
	}
	row = Row(b.values[:n:n])
	copy(row[len(head):], b.values)
	copy(row, head)
	b.values = nil
	return row, true
}

// OwnRow is the size above which Finish and Arena.Row give a row memory of its own.
const OwnRow = arenaMost

// Finish makes the row in dst's memory, or, where it is larger than OwnRow, in memory that nobody else has. b is to be Reset before it is used
// again.
func (b *Builder) Finish(dst []byte) Row {
	if b.size() > OwnRow {
		if row, ok := b.take(); ok {
			return row
		}
		dst = nil
	}
	return b.AppendRow(dst[:0])
}

// Buffer returns the values written so far, to be appended to: SetBuffer and End then make the appended bytes a value.
func (b *Builder) Buffer() []byte { return b.values }

// SetBuffer hands back what Buffer gave, appended to.
func (b *Builder) SetBuffer(v []byte) { b.values = v }

// End makes the bytes appended since the last value the next value.
func (b *Builder) End() { b.ends = append(b.ends, uint32(len(b.values))) }

// Len returns the number of values added since Reset.
func (b *Builder) Len() int { return len(b.ends) }

// size returns the most bytes that AppendRow will append.
func (b *Builder) size() int {
	width, _ := b.width()
	return 3 + width*len(b.ends) + len(b.values)
}

// width returns the width of an end offset and its code in the head byte.
func (b *Builder) width() (width int, code byte) {
	switch {
	case len(b.values) > 0x7fff:
		return 4, 2
	case len(b.values) > 0x7f:
		return 2, 1
	}
	return 1, 0
}

// AppendRow appends the finished row to dst. A row holds at most 2 GiB of values and 65,535 columns; the server's own
// limits (4,096 columns, 1 GiB packets) are below that.
func (b *Builder) AppendRow(dst []byte) []byte {
	return append(b.appendHead(dst), b.values...)
}

// appendHead appends what comes before the values.
func (b *Builder) appendHead(dst []byte) []byte {
	n := len(b.ends)
	width, head := b.width()
	if isPlain(b.values) {
		head |= rowPlainBit
	}
	if n >= rowManyColumn {
		dst = append(dst, head|rowManyColumn<<3, byte(n), byte(n>>8))
	} else {
		dst = append(dst, head|byte(n)<<3)
	}
	for _, e := range b.ends {
		null := byte(e >> 31 << 7)
		e &= 0x7fffffff
		switch width {
		case 1:
			dst = append(dst, byte(e)|null)
		case 2:
			dst = append(dst, byte(e), byte(e>>8)|null)
		default:
			dst = append(dst, byte(e), byte(e>>8), byte(e>>16), byte(e>>24)|null)
		}
	}
	return dst
}

// isPlain reports that no byte of v is below 0x10, eight bytes at a time: y has the high halves of eight bytes, and the
// subtraction borrows from the highest bit of the bytes that are zero.
func isPlain(v []byte) bool {
	if len(v) < 8 {
		for _, c := range v {
			if c < 0x10 {
				return false
			}
		}
		return true
	}
	for w := v; len(w) >= 8; w = w[8:] {
		if !isPlain8(w) {
			return false
		}
	}
	return isPlain8(v[len(v)-8:]) // the rest, and some of it again
}

func isPlain8(v []byte) bool {
	y := binary.LittleEndian.Uint64(v) & 0xf0f0f0f0f0f0f0f0
	return (y-0x0101010101010101)&^y&0x8080808080808080 == 0
}
