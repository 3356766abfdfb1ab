package rowcodec

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// Convert appends the text that column c would hold after request value v was stored in it without strict mode, as the
// HandlerSocket plugin stores and looks up: too long texts are cut, numbers rounded and clamped, what is no number or no
// date is 0. v is in the column's character set; nil is the NULL given for a column that can't be NULL: 0 or empty
// (NULLs of other columns are not for Convert). A TIMESTAMP is taken as UTC.
//
// Where the servers' result is not known for certain, the error wraps ErrPass and dst comes back as it was.
func Convert(dst []byte, c *schema.Column, v []byte) ([]byte, error) {
	out, same, err := convert(dst, c, v)
	if err != nil {
		return dst, fmt.Errorf("column %s: %w", c.Name, err)
	}
	if same {
		out = append(dst, v...)
	}
	return out, nil
}

// errUncertain is the only reason inside: which form was not certain does not help anybody.
var errUncertain = fmt.Errorf("%w: conversion of the value is not certain", ErrPass)

// convert is Convert, but says when v is stored as it is, in place of a copy. Errors are errUncertain.
func convert(dst []byte, c *schema.Column, v []byte) (out []byte, same bool, err error) {
	if v == nil {
		out, err = appendZero(dst, c)
		return out, false, err
	}
	switch c.Kind {
	case schema.KindInt:
		return convertInt(dst, c, v)
	case schema.KindDecimal:
		return convertDecimal(dst, c, v)
	case schema.KindDouble:
		return convertDouble(dst, c, v)
	case schema.KindYear:
		return convertYear(dst, v)
	case schema.KindDate:
		return convertDate(dst, v)
	case schema.KindDatetime, schema.KindTimestamp:
		return convertDatetime(dst, c, v)
	case schema.KindTime:
		return convertTime(dst, c, v)
	case schema.KindChar, schema.KindVarchar, schema.KindText:
		return convertText(dst, c, v)
	case schema.KindBinary, schema.KindVarbinary, schema.KindBlob:
		return convertBinary(dst, c, v)
	case schema.KindEnum:
		return convertEnum(dst, c, v)
	case schema.KindSet:
		return convertSet(dst, c, v)
	case schema.KindBit:
		return convertBit(dst, c, v)
	case schema.KindUUID:
		return convertUUID(dst, v)
	case schema.KindInet4, schema.KindInet6:
		return convertInet(dst, c, v)
	}
	return dst, false, errUncertain
}

// appendZero appends what stands for NULL in a column that can't be NULL.
func appendZero(dst []byte, c *schema.Column) ([]byte, error) {
	switch c.Kind {
	case schema.KindInt, schema.KindDecimal, schema.KindDouble:
		zero := []byte{'0'}
		out, same, err := convert(dst, c, zero)
		if same {
			out = append(dst, zero...)
		}
		return out, err
	case schema.KindYear:
		return append(dst, "0000"...), nil
	case schema.KindDate:
		return append(dst, zeroDate...), nil
	case schema.KindDatetime, schema.KindTimestamp:
		return appendMicros(append(dst, zeroDatetime...), 0, c.Fraction), nil
	case schema.KindTime:
		return appendMicros(append(dst, "00:00:00"...), 0, c.Fraction), nil
	case schema.KindChar, schema.KindVarchar, schema.KindText, schema.KindVarbinary, schema.KindBlob, schema.KindEnum, schema.KindSet:
		return dst, nil
	case schema.KindBinary:
		return append(dst, make([]byte, c.Length)...), nil
	case schema.KindBit:
		dst, _, err := convertBit(dst, c, nil)
		return dst, err
	case schema.KindUUID:
		return append(dst, "00000000-0000-0000-0000-000000000000"...), nil
	case schema.KindInet4:
		return append(dst, "0.0.0.0"...), nil
	case schema.KindInet6:
		return append(dst, "::"...), nil
	}
	return dst, errUncertain
}

// convertText cuts texts to the column's length; ill-formed bytes become question marks first.
func convertText(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	cs := lookupCharset(c.Charset)
	if cs == nil || cs == binaryCharset {
		return dst, false, errUncertain
	}
	if (cs == utf8mb3Charset || cs == utf8mb4Charset) && hasSurrogate(v) {
		return dst, false, errUncertain // MariaDB keeps them, MySQL does not
	}
	if cs == asciiCharset && !isASCII(v) {
		return dst, false, errUncertain // so are other bytes in an ASCII column
	}
	if !cs.wellFormed(v) {
		start := len(dst)
		for len(v) > 0 {
			n := cs.length(v)
			if n == 0 {
				dst, v = append(dst, '?'), v[1:]
				continue
			}
			dst, v = append(dst, v[:n]...), v[n:]
		}
		return dst[:start+len(cutText(cs, c, dst[start:]))], false, nil
	}
	if cut := cutText(cs, c, v); len(cut) != len(v) {
		return append(dst, cut...), false, nil
	}
	return dst, true, nil
}

// cutText cuts a well-formed text to what the column holds.
func cutText(cs *charset, c *schema.Column, v []byte) []byte {
	switch c.Kind {
	case schema.KindChar:
		return bytes.TrimRight(cs.prefix(v, c.Length), " ")
	case schema.KindVarchar:
		return cs.prefix(v, c.Length)
	}
	limit := uint64(1)<<(8*c.Bytes) - 1
	if uint64(len(v)) <= limit {
		return v
	}
	cut := v[:limit]
	for !cs.wellFormed(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut
}

// convertBinary cuts binary strings, and fills those of BINARY.
func convertBinary(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	limit := uint64(c.Length)
	if c.Kind == schema.KindBlob {
		limit = uint64(1)<<(8*c.Bytes) - 1
	}
	switch {
	case uint64(len(v)) > limit:
		return append(dst, v[:limit]...), false, nil
	case c.Kind != schema.KindBinary || len(v) == c.Length:
		return dst, true, nil
	}
	dst = append(dst, v...)
	return append(dst, make([]byte, c.Length-len(v))...), false, nil
}

// convertBit takes the bytes of a number, the highest first: zeros in front don't count, and a number too large becomes
// the largest one.
func convertBit(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	if c.Length < 1 || c.Length > 64 {
		return dst, false, errUncertain
	}
	v = bytes.TrimLeft(v, "\x00")
	size := (c.Length + 7) / 8
	highest := byte(0xff) >> (size*8 - c.Length)
	if len(v) > size || len(v) == size && v[0] > highest {
		dst = append(dst, highest)
		for range size - 1 {
			dst = append(dst, 0xff)
		}
		return dst, false, nil
	}
	for range size - len(v) {
		dst = append(dst, 0)
	}
	return append(dst, v...), false, nil
}

// convertUUID takes the text of a UUID, in either case, or its 16 bytes: those are what the HandlerSocket plugin wants.
func convertUUID(dst, v []byte) ([]byte, bool, error) {
	if len(v) == 16 {
		return appendUUID(dst, v), false, nil
	}
	u, ok := parseUUID(v)
	if !ok {
		return dst, false, errUncertain
	}
	return appendUUID(dst, u[:]), false, nil
}

// convertInet takes the text of an address, or else its bytes: those are what the HandlerSocket plugin wants.
func convertInet(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	codec := inetCodec{bytes: 4}
	if c.Kind == schema.KindInet6 {
		codec.bytes = 16
	}
	var address [16]byte
	b, err := codec.appendKey(address[:0], v)
	switch {
	case err == nil:
	case len(v) == codec.bytes:
		b = v
	default:
		return dst, false, errUncertain
	}
	if c.Kind == schema.KindInet6 {
		return appendInet6(dst, b), false, nil
	}
	return appendInet4(dst, b), false, nil
}

// convertEnum finds the member by its label, or else by its number; the rest is the error value, whose text is empty.
func convertEnum(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	v = bytes.TrimRight(v, " ")
	m, err := findMember(c, v)
	if err != nil {
		return dst, false, err
	}
	if m < 0 {
		n, isNumber, err := memberNumber(v, 5)
		if err != nil {
			return dst, false, err
		}
		if isNumber && n <= uint64(len(c.Members)) {
			m = int(n) - 1
		}
	}
	if m >= 0 {
		dst = append(dst, c.Members[m]...)
	}
	return dst, false, nil
}

// convertSet finds the members by their labels; a text without any is the number of the set, if it is one.
func convertSet(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	if len(c.Members) > 64 {
		return dst, false, errUncertain
	}
	var set uint64
	text := bytes.TrimRight(v, " ")
	for rest, more := text, len(text) > 0; more; {
		var label []byte
		label, rest, more = bytes.Cut(rest, []byte{','})
		m, err := findMember(c, label)
		if err != nil {
			return dst, false, err
		}
		if m >= 0 {
			set |= 1 << m
		}
	}
	if set == 0 {
		n, isNumber, err := memberNumber(v, 21)
		if err != nil {
			return dst, false, err
		}
		if isNumber {
			if len(c.Members) < 64 && n>>len(c.Members) != 0 {
				return dst, false, errUncertain // MariaDB takes the bits that there are, MySQL none
			}
			set = n
		}
	}
	start := len(dst)
	for i, m := range c.Members {
		if set>>i&1 != 0 {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = append(dst, m...)
		}
	}
	return dst, false, nil
}

// findMember returns the position of the member with that label, by the column's collation, or -1.
func findMember(c *schema.Column, label []byte) (int, error) {
	for i, m := range c.Members {
		if string(m) == string(label) {
			return i, nil
		}
	}
	order, err := lookupCollation(c.Collation)
	if err != nil || lookupCharset(c.Charset) != order.charset || !isASCII(label) && strings.Contains(c.Collation, "_0900_") {
		// (MariaDB has other weights under those names.)
		return 0, errUncertain
	}
	for i, m := range c.Members {
		if order.equal(m, label) {
			return i, nil
		}
	}
	return -1, nil
}

// memberNumber reads a number of at most so many digits that stands in place of labels. Forms that the servers may take
// as a number, or not, are uncertain.
func memberNumber(v []byte, most int) (n uint64, isNumber bool, err error) {
	if len(v) == 0 || len(v) > most {
		return 0, false, nil
	}
	if n, ok := parseUint(v); ok {
		return n, true, nil
	}
	switch c := v[0]; {
	case c <= ' ', c == '+', c == '-', c >= '0' && c <= '9':
		return 0, false, errUncertain
	}
	return 0, false, nil
}
