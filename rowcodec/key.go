package rowcodec

import (
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/schema"
)

// ErrUnsupportedKey says that an index can't be kept in the server's order in memory; the wrapping text has the reason.
// Searches over that index are the database's to answer.
var ErrUnsupportedKey = errors.New("index cannot be ordered in memory")

// ErrPass says that only the database can answer a search: a request value whose conversion to the column's type is not
// known for certain. It says nothing about other searches over the same index.
var ErrPass = errors.New("only the database can answer")

// KeyEncoder turns the values of one index into bytes whose order is the server's order of the index: bytes.Compare of
// two keys tells how the server would sort them, and equal bytes are what the server takes as equal. The encoding of
// each part ends by itself, so the encoding of the first parts is a byte prefix of the whole key. A KeyEncoder is
// immutable and may be shared between goroutines.
type KeyEncoder struct {
	parts []keyPart
	fixed int
}

// keyPart encodes one part of an index.
type keyPart struct {
	column   int
	def      *schema.Column
	nullable bool
	desc     bool
	codec    partCodec
}

// partCodec encodes the values of one column, given as the server's text. What it appends ends by itself: no encoding is
// a proper prefix of another.
type partCodec interface {
	// appendKey appends the encoding of the stored text v. An error means that v is no text of that column.
	appendKey(dst, v []byte) ([]byte, error)
	// width is the number of bytes of every encoding, 0 where it varies.
	width() int
}

// NewKeyEncoder makes the encoder of t.Indexes[index]. An index that can't be ordered in memory gives an error that
// wraps ErrUnsupportedKey and says why. t is kept and must not change.
func NewKeyEncoder(t *schema.Table, index int) (*KeyEncoder, error) {
	if index < 0 || index >= len(t.Indexes) {
		return nil, fmt.Errorf("%w: %s has no index %d", ErrUnsupportedKey, t.FullName(), index)
	}
	ix := &t.Indexes[index]
	unsupported := func(format string, args ...any) error {
		return fmt.Errorf("%w: index %s of %s: %s", ErrUnsupportedKey, ix.Name, t.FullName(), fmt.Sprintf(format, args...))
	}
	if !ix.BTree {
		return nil, unsupported("not a B-tree")
	}
	if len(ix.Parts) == 0 {
		return nil, unsupported("no parts")
	}
	e := &KeyEncoder{parts: make([]keyPart, 0, len(ix.Parts))}
	fixed := true
	for _, p := range ix.Parts {
		if p.Column < 0 || p.Column >= len(t.Columns) {
			return nil, unsupported("a part is an expression")
		}
		c := &t.Columns[p.Column]
		codec, err := newPartCodec(t.Flavor, c, p.Prefix)
		if err != nil {
			return nil, unsupported("column %s: %v", c.Name, err)
		}
		e.parts = append(e.parts, keyPart{column: p.Column, def: c, nullable: c.Nullable, desc: p.Desc, codec: codec})
		if w := codec.width(); w > 0 && !c.Nullable {
			e.fixed += w
		} else {
			fixed = false
		}
	}
	if !fixed {
		e.fixed = 0
	}
	return e, nil
}

// NewColumnEncoder makes the encoder of an index over the whole values of one column of t, for comparing such values as
// the server does. An error wraps ErrUnsupportedKey as that of NewKeyEncoder does.
func NewColumnEncoder(t *schema.Table, column int) (*KeyEncoder, error) {
	if column < 0 || column >= len(t.Columns) {
		return nil, fmt.Errorf("%w: %s has no column %d", ErrUnsupportedKey, t.FullName(), column)
	}
	c := &t.Columns[column]
	codec, err := newPartCodec(t.Flavor, c, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: column %s of %s: %w", ErrUnsupportedKey, c.Name, t.FullName(), err)
	}
	e := &KeyEncoder{parts: []keyPart{{column: column, def: c, nullable: c.Nullable, codec: codec}}}
	if !c.Nullable {
		e.fixed = codec.width()
	}
	return e, nil
}

// FixedWidth returns the number of bytes that every whole key has, or 0 where that varies. Up to 8 bytes a key can be
// held as an integer.
func (e *KeyEncoder) FixedWidth() int { return e.fixed }

// Parts returns the number of the index's parts: the most values that AppendValues takes.
func (e *KeyEncoder) Parts() int { return len(e.parts) }

// The marker bytes before the values of a nullable part: NULL sorts before everything.
const (
	keyNull    = 0x00
	keyNotNull = 0x01
)

// AppendRow appends the key of row r to dst. An error means that r does not fit the table's definition or, when it wraps
// ErrUnsupportedKey, that it holds a text whose place is not known: from then on the index can't answer. dst is then
// returned as it was.
func (e *KeyEncoder) AppendRow(dst []byte, r Row) ([]byte, error) {
	start := len(dst)
	for i := range e.parts {
		p := &e.parts[i]
		v, null := r.Value(p.column)
		var err error
		if dst, err = p.append(dst, v, null); err != nil {
			return dst[:start], err
		}
	}
	return dst, nil
}

// AppendValues appends the encoding of request values for the first parts of the index: nil is NULL, other values are
// texts in the column's character set, converted first as Convert does. The result is a byte prefix of AppendRow's
// result for exactly the rows whose parts equal the values for the server. The error wraps ErrPass where only the
// database can tell; dst is then returned as it was. More values than Parts are an error that does not.
func (e *KeyEncoder) AppendValues(dst []byte, values [][]byte) ([]byte, error) {
	if len(values) > len(e.parts) {
		return dst, fmt.Errorf("%d key values for %d parts", len(values), len(e.parts))
	}
	start := len(dst)
	for i, v := range values {
		var err error
		if dst, err = e.parts[i].appendRequest(dst, v); err != nil {
			return dst[:start], err
		}
	}
	return dst, nil
}

// append appends the encoding of a stored value.
func (p *keyPart) append(dst, v []byte, null bool) ([]byte, error) {
	start := len(dst)
	switch {
	case null && !p.nullable:
		return dst, fmt.Errorf("column %s: NULL in a column that cannot be NULL", p.def.Name)
	case null:
		dst = append(dst, keyNull)
	default:
		if p.nullable {
			dst = append(dst, keyNotNull)
		}
		var err error
		if dst, err = p.codec.appendKey(dst, v); err != nil {
			return dst[:start], fmt.Errorf("column %s: %w", p.def.Name, err)
		}
	}
	if p.desc {
		complement(dst[start:])
	}
	return dst, nil
}

// appendRequest appends the encoding of a request value.
func (p *keyPart) appendRequest(dst, v []byte) ([]byte, error) {
	if v == nil && p.nullable {
		return p.append(dst, nil, true)
	}
	if v != nil && p.exact(v) {
		// Most requests for numbers are what the column would hold, or say the same in other digits.
		if out, err := p.append(dst, v, false); err == nil {
			return out, nil
		}
	}
	start := len(dst)
	out, same, err := convert(dst, p.def, v)
	switch {
	case err != nil:
		return dst, fmt.Errorf("column %s: %w", p.def.Name, err)
	case same:
		out, err = p.append(dst, v, false)
	default:
		// The stored text lies where the key belongs: make the key behind it and move it down.
		mid := len(out)
		if out, err = p.append(out, out[start:mid:mid], false); err == nil {
			out = append(out[:start], out[mid:]...)
		}
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrPass, err)
	}
	return out, nil
}

// exact reports whether v, if the codec takes it, has the value that the column would hold.
func (p *keyPart) exact(v []byte) bool {
	switch p.codec.(type) {
	case intCodec:
		return true
	case decimalCodec:
		return !p.def.Unsigned || len(v) > 0 && v[0] != '-'
	}
	return false
}

func complement(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// KeySuccessor returns the smallest key that is greater than all keys that begin with prefix, or false when there is
// none (an empty prefix, or one of 0xff bytes alone). prefix itself is left alone; the result is new memory.
func KeySuccessor(prefix []byte) ([]byte, bool) {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 {
		return nil, false
	}
	next := append([]byte(nil), prefix[:n]...)
	next[n-1]++
	return next, true
}
