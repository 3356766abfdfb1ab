package rowcodec

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// errJSON is the cause inside ErrImage of every JSON document that can't be read.
var errJSON = errors.New("malformed JSON document")

// The type bytes of MySQL's binary JSON.
const (
	jsonSmallObject byte = iota
	jsonLargeObject
	jsonSmallArray
	jsonLargeArray
	jsonLiteral
	jsonInt16
	jsonUint16
	jsonInt32
	jsonUint32
	jsonInt64
	jsonUint64
	jsonDouble
	jsonString
	jsonOpaque byte = 15
)

// jsonDepth is the server's own limit of nesting.
const jsonDepth = 100

// appendJSON appends the text of a document in MySQL's binary form, as the server writes it: keys in their stored
// order, a blank after each comma and colon. An empty document is what INSERT IGNORE makes of NULL; it reads as null.
func appendJSON(dst, doc []byte) ([]byte, error) {
	if len(doc) == 0 {
		return append(dst, "null"...), nil
	}
	// Values of a document do not share bytes, so no well-formed one has more to read than its length; a hostile one
	// could make a few bytes into gigabytes of text.
	r := jsonReader{budget: len(doc)}
	return r.value(dst, doc[0], doc[1:], 0)
}

type jsonReader struct{ budget int }

// spend counts bytes that have been read.
func (r *jsonReader) spend(n int) bool {
	r.budget -= n
	return r.budget >= 0
}

// value appends the value of type t that starts at data, which reaches to the end of what the value may use.
func (r *jsonReader) value(dst []byte, t byte, data []byte, depth int) ([]byte, error) {
	switch t {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return r.container(dst, t, data, depth+1)
	case jsonString:
		text, ok := r.sized(data)
		if !ok {
			return dst, errJSON
		}
		return appendJSONString(dst, text), nil
	case jsonOpaque:
		if len(data) < 1 {
			return dst, errJSON
		}
		value, ok := r.sized(data[1:])
		if !ok {
			return dst, errJSON
		}
		return appendJSONOpaque(dst, data[0], value)
	}
	size := jsonScalarSize(t)
	if size == 0 || len(data) < size || !r.spend(1) {
		return dst, errJSON
	}
	return appendJSONScalar(dst, t, data)
}

func jsonScalarSize(t byte) int {
	switch t {
	case jsonLiteral:
		return 1
	case jsonInt16, jsonUint16:
		return 2
	case jsonInt32, jsonUint32:
		return 4
	case jsonInt64, jsonUint64, jsonDouble:
		return 8
	}
	return 0
}

func appendJSONScalar(dst []byte, t byte, data []byte) ([]byte, error) {
	switch t {
	case jsonLiteral:
		switch data[0] {
		case 0:
			return append(dst, "null"...), nil
		case 1:
			return append(dst, "true"...), nil
		case 2:
			return append(dst, "false"...), nil
		}
		return dst, errJSON
	case jsonInt16:
		return strconv.AppendInt(dst, int64(int16(binary.LittleEndian.Uint16(data))), 10), nil
	case jsonUint16:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint16(data)), 10), nil
	case jsonInt32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(data))), 10), nil
	case jsonUint32:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(data)), 10), nil
	case jsonInt64:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(data)), 10), nil
	case jsonUint64:
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(data), 10), nil
	default:
		return appendJSONDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(data))), nil
	}
}

// appendJSONDouble appends a double so that it can be told from an integer.
func appendJSONDouble(dst []byte, f float64) []byte {
	start := len(dst)
	dst = appendDouble(dst, f)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, '.', '0')
}

// container appends an object or array. Its header is: number of members, size in bytes, then for each key its offset
// and length, then for each value its type and its offset or the value itself where it fits.
func (r *jsonReader) container(dst []byte, t byte, data []byte, depth int) ([]byte, error) {
	large := t == jsonLargeObject || t == jsonLargeArray
	object := t == jsonSmallObject || t == jsonLargeObject
	word := 2
	if large {
		word = 4
	}
	if depth > jsonDepth || len(data) < 2*word {
		return dst, errJSON
	}
	number := func(at int) int {
		if large {
			return int(binary.LittleEndian.Uint32(data[at:]))
		}
		return int(binary.LittleEndian.Uint16(data[at:]))
	}
	count, size := number(0), number(word)
	if size > len(data) {
		return dst, errJSON
	}
	data = data[:size]
	keys, values := 2*word, 2*word
	if object {
		values += count * (word + 2)
	}
	if header := values + count*(1+word); header > size || !r.spend(header) {
		return dst, errJSON
	}
	open, closing := byte('['), byte(']')
	if object {
		open, closing = '{', '}'
	}
	dst = append(dst, open)
	for i := range count {
		if i > 0 {
			dst = append(dst, ',', ' ')
		}
		if object {
			at := keys + i*(word+2)
			from := number(at)
			length := int(binary.LittleEndian.Uint16(data[at+word:]))
			if from+length > size || !r.spend(length) {
				return dst, errJSON
			}
			dst = appendJSONString(dst, data[from:from+length])
			dst = append(dst, ':', ' ')
		}
		at := values + i*(1+word)
		vt := data[at]
		var err error
		if n := jsonScalarSize(vt); n > 0 && n <= word {
			dst, err = appendJSONScalar(dst, vt, data[at+1:])
		} else {
			from := number(at + 1)
			if from >= size {
				return dst, errJSON
			}
			dst, err = r.value(dst, vt, data[from:], depth)
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, closing), nil
}

// sized reads a length in groups of seven bits, lowest first, and as many bytes after it.
func (r *jsonReader) sized(data []byte) (v []byte, ok bool) {
	var n uint64
	for i := range min(len(data), 5) {
		n |= uint64(data[i]&0x7f) << (7 * i)
		if data[i]&0x80 == 0 {
			rest := data[i+1:]
			if n > uint64(len(rest)) || !r.spend(int(n)+1) {
				return nil, false
			}
			return rest[:n], true
		}
	}
	return nil, false
}

// appendJSONString appends a quoted string. Bytes from 0x20 on stand for themselves, be they UTF-8 or not.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			dst = append(dst, c)
			continue
		}
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '"')
}

// appendJSONOpaque appends a value of an SQL type.
func appendJSONOpaque(dst []byte, t byte, v []byte) ([]byte, error) {
	switch t {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		if len(v) < 2 {
			return dst, errJSON
		}
		precision, scale := int(v[0]), int(v[1])
		size, ok := decimalSize(precision, scale)
		if !ok || len(v)-2 != size {
			return dst, errJSON
		}
		return appendDecimal(dst, v[2:], precision, scale), nil
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME:
		if len(v) != 8 {
			return dst, errJSON
		}
		packed := int64(binary.LittleEndian.Uint64(v))
		dst = append(dst, '"')
		if packed < 0 {
			packed = -packed
			dst = append(dst, '-')
		}
		whole, micros := uint64(packed)>>24, uint32(packed&0xffffff)
		switch t {
		case mysql.MYSQL_TYPE_DATE:
			dst = appendDateBits(dst, whole)
		case mysql.MYSQL_TYPE_TIME:
			dst = appendMicros(appendTimeBits(dst, uint32(whole)), micros, 6)
		default:
			dst = appendMicros(appendDatetimeBits(dst, whole), micros, 6)
		}
		return append(dst, '"'), nil
	}
	dst = append(dst, `"base64:type`...)
	dst = strconv.AppendUint(dst, uint64(t), 10)
	dst = append(dst, ':')
	// The server's encoder breaks lines, and the line feeds are escaped like all others.
	const line = 57 // bytes that make 76 characters
	for len(v) > line {
		dst = base64.StdEncoding.AppendEncode(dst, v[:line])
		dst = append(dst, '\\', 'n')
		v = v[line:]
	}
	dst = base64.StdEncoding.AppendEncode(dst, v)
	return append(dst, '"'), nil
}
