package mcserver

import (
	"bytes"
	"math"
	"strings"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// keyCheck turns the bytes of a request's key into a value of the key column. A key that can't be in the column finds
// nothing; the plugin cuts or converts such a key and answers another row (CompatStrict keeps that for texts that are too
// long, and for numbers that are followed by other text).
type keyCheck struct {
	column *schema.Column
	// min and max are the bounds of integers; max of BIGINT UNSIGNED is math.MaxUint64.
	min int64
	max uint64
	// ascii is the number of bytes up to which a text of ASCII characters surely fits; 0 where it has to be tried.
	ascii int
	// padSpace tells that the column's comparisons ignore blanks at the end.
	padSpace bool
}

func newKeyCheck(c *schema.Column) keyCheck {
	k := keyCheck{column: c}
	switch c.Kind {
	case schema.KindInt:
		bits := uint(c.Bytes * 8)
		if c.Unsigned {
			k.max = math.MaxUint64 >> (64 - bits)
		} else {
			k.min = -1 << (bits - 1)
			k.max = 1<<(bits-1) - 1
		}
	case schema.KindChar, schema.KindVarchar:
		k.padSpace = !strings.Contains(c.Collation, "_0900_") && !strings.Contains(c.Collation, "_nopad_")
		switch c.Charset {
		case "latin1", "utf8", "utf8mb3", "utf8mb4", "ascii":
			k.ascii = c.Length
		}
	}
	return k
}

// keyValue returns the value of the key column that key stands for; not ok where no row has it.
func (b *binding) keyValue(key []byte, scratch *[]byte) (value []byte, ok bool) {
	value, fit := b.keyCheck.value(key, b.strict, scratch)
	return value, fit == fits || fit == fitsCut && b.strict
}

// fit is how a key lies to the values that the column can hold.
type fit uint8

const (
	fits fit = iota
	fitsCut
	fitsNothing
	fitsBelow
	fitsAbove
)

// value returns the value of the column that key stands for. fitsNothing: there is none. For ranges the result also
// tells how a key that the column can't hold compares with what it can: fitsBelow and fitsAbove are numbers beyond all
// of the column's, fitsCut is a text whose beginning is the value. The result may alias key or *scratch.
func (k *keyCheck) value(key []byte, strict bool, scratch *[]byte) ([]byte, fit) {
	switch k.column.Kind {
	case schema.KindInt:
		return k.integer(key, strict)
	case schema.KindChar, schema.KindVarchar:
		if len(key) <= k.ascii && isASCII(key) {
			return key, fits
		}
	}
	converted, err := rowcodec.Convert((*scratch)[:0], k.column, key)
	*scratch = converted[:0]
	switch {
	case err != nil && k.column.Kind == schema.KindUUID:
		return nil, fitsNothing // no UUID
	case err != nil:
		return key, fits // only the database can tell
	case bytes.Equal(converted, key):
		return key, fits
	}
	switch k.column.Kind {
	case schema.KindUUID:
		// Another spelling of the same UUID.
		return converted, fits
	case schema.KindBinary:
		if len(converted) > len(key) {
			return converted, fits // filled up with zero bytes, as such columns are
		}
	}
	if !bytes.HasPrefix(key, converted) {
		return nil, fitsNothing // it has bytes that are no characters
	}
	blank := len(bytes.TrimLeft(key[len(converted):], " ")) == 0
	if blank && (k.column.Kind == schema.KindChar || k.padSpace) {
		return converted, fits
	}
	return converted, fitsCut
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// integer reads a decimal number. Not strict, the whole key must be one.
func (k *keyCheck) integer(key []byte, strict bool) ([]byte, fit) {
	if strict {
		// strtoll passes over white space at the beginning and everything behind the digits.
		for len(key) > 0 && (key[0] == ' ' || key[0] >= '\t' && key[0] <= '\r') {
			key = key[1:]
		}
	}
	text, negative := key, false
	if len(key) > 0 && (key[0] == '-' || key[0] == '+') {
		negative = key[0] == '-'
		key = key[1:]
	}
	n := 0
	for n < len(key) && key[n] >= '0' && key[n] <= '9' {
		n++
	}
	if n == 0 || n < len(key) && !strict {
		return nil, fitsNothing
	}
	digits := key[:n]
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	beyond := fitsAbove
	if negative {
		beyond = fitsBelow
	}
	if len(digits) > 20 {
		return nil, beyond
	}
	var v uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if v > (math.MaxUint64-d)/10 {
			return nil, beyond
		}
		v = v*10 + d
	}
	if !negative || v == 0 {
		if v > k.max {
			return nil, fitsAbove
		}
		return digits, fits
	}
	if v > uint64(-(k.min+1))+1 || k.min == 0 {
		return nil, fitsBelow
	}
	if n == len(digits) {
		return text[:n+1], fits
	}
	// Leading zeros behind the sign: the sign moves to the digits, in the session's own memory.
	return append([]byte{'-'}, digits...), fits
}
