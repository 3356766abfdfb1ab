package rowcodec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/binlogcache/binlogcache/schema"
)

var errShort = errors.New("value ends early")

// imageOp is the way to decode a column.
type imageOp uint8

const (
	opInt imageOp = iota
	opDecimal
	opFloat
	opDouble
	opYear
	opDate
	opTime
	opDatetime
	opTimestamp
	opOldTime
	opOldDatetime
	opOldTimestamp
	opBytes  // a length prefix and bytes
	opPadded // the same, with trailing zero bytes cut off
	opEnum
	opSet
	opBit
	opJSON
	opUUID
	opInet4
	opInet6
)

// imageColumn is a column's decoding, worked out from definition and table map.
type imageColumn struct {
	op     imageOp
	prefix uint8 // bytes of a length prefix; 0 where the size is fixed
	digits uint8 // of fractional seconds
	// size is the size of a fixed value; for opPadded and the types on it, the size to pad to.
	size int
	// most is the greatest length that the length prefix may say.
	most int
	col  *schema.Column
	// separator stands between the labels of a SET, in the column's character set.
	separator []byte
}

// decode appends the text of the value at the start of data to b's buffer and returns the value's size in data.
func (c *imageColumn) decode(b *Builder, data []byte) (size int, err error) {
	if c.prefix > 0 {
		return c.decodeSized(b, data)
	}
	if len(data) < c.size {
		return 0, errShort
	}
	v := data[:c.size]
	start := len(b.values)
	dst := b.values
	switch c.op {
	case opInt:
		dst = c.appendInt(dst, v)
	case opDecimal:
		dst = appendDecimal(dst, v, c.col.Precision, c.col.Scale)
	case opFloat:
		f := math.Float32frombits(binary.LittleEndian.Uint32(v))
		if c.col.Scale >= 0 {
			dst = appendFixed(dst, float64(f), c.col.Scale)
		} else {
			dst = appendFloat(dst, f)
		}
	case opDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(v))
		if c.col.Scale >= 0 {
			dst = appendFixed(dst, f, c.col.Scale)
		} else {
			dst = appendDouble(dst, f)
		}
	case opYear:
		dst = appendYear(dst, v[0], c.col.Length)
	case opDate:
		dst = appendDatePacked(dst, v)
	case opTime:
		dst = appendTime(dst, v, int(c.digits))
	case opDatetime:
		dst = appendDatetime(dst, v, int(c.digits))
	case opTimestamp:
		dst = appendTimestamp(dst, binary.BigEndian.Uint32(v), fractionMicros(v[4:]), int(c.digits))
	case opOldTime:
		dst = appendOldTime(dst, v)
	case opOldDatetime:
		dst = appendOldDatetime(dst, v)
	case opOldTimestamp:
		dst = appendTimestamp(dst, binary.LittleEndian.Uint32(v), 0, 0)
	case opEnum:
		dst, err = c.appendEnum(dst, v)
	case opSet:
		dst = c.appendSet(dst, v)
	default: // opBit
		dst = append(dst, v...)
	}
	if c.col.Zerofill > 0 {
		dst = padZero(dst, start, c.col.Zerofill)
	}
	b.values = dst
	return c.size, err
}

// decodeSized decodes a value that has its length in front.
func (c *imageColumn) decodeSized(b *Builder, data []byte) (size int, err error) {
	prefix := int(c.prefix)
	if len(data) < prefix {
		return 0, errShort
	}
	length := 0
	for i := prefix - 1; i >= 0; i-- {
		length = length<<8 | int(data[i])
	}
	if length > c.most {
		return 0, fmt.Errorf("length %d is above %d", length, c.most)
	}
	if len(data)-prefix < length {
		return 0, errShort
	}
	v := data[prefix : prefix+length]
	switch c.op {
	case opBytes:
		b.grow(v)
	case opPadded:
		b.values = append(b.values, v...)
		for range c.size - length {
			b.values = append(b.values, 0)
		}
	case opJSON:
		b.values, err = appendJSON(b.values, v)
	default: // addresses are 16 bytes or less
		var whole [16]byte
		copy(whole[:], v)
		switch c.op {
		case opUUID:
			b.values = appendUUID(b.values, whole[:])
		case opInet4:
			b.values = appendInet4(b.values, whole[:])
		default:
			b.values = appendInet6(b.values, whole[:])
		}
	}
	return prefix + length, err
}

func (c *imageColumn) appendInt(dst, v []byte) []byte {
	var u uint64
	switch len(v) {
	case 1:
		u = uint64(v[0])
	case 2:
		u = uint64(binary.LittleEndian.Uint16(v))
	case 3:
		u = uint64(v[0]) | uint64(v[1])<<8 | uint64(v[2])<<16
	case 4:
		u = uint64(binary.LittleEndian.Uint32(v))
	default:
		u = binary.LittleEndian.Uint64(v)
	}
	if c.col.Unsigned {
		return strconv.AppendUint(dst, u, 10)
	}
	shift := 64 - 8*len(v)
	return strconv.AppendInt(dst, int64(u<<shift)>>shift, 10)
}

func appendYear(dst []byte, v byte, digits int) []byte {
	if digits == 2 {
		return append2(dst, uint32(v)%100)
	}
	if v == 0 {
		return append(dst, "0000"...)
	}
	return appendDigits(dst, 1900+uint32(v), 4)
}

// appendEnum appends the label; 0 is the error value, an empty text.
func (c *imageColumn) appendEnum(dst, v []byte) ([]byte, error) {
	n := int(v[0])
	if len(v) == 2 {
		n |= int(v[1]) << 8
	}
	if n == 0 {
		return dst, nil
	}
	if n > len(c.col.Members) {
		return dst, fmt.Errorf("label %d of %d", n, len(c.col.Members))
	}
	return append(dst, c.col.Members[n-1]...), nil
}

// appendSet appends the labels whose bits are set. Bits beyond the last label mean nothing, to the server too.
func (c *imageColumn) appendSet(dst, v []byte) []byte {
	start := len(dst)
	for i, label := range c.col.Members {
		if i>>3 >= len(v) {
			break
		}
		if v[i>>3]&(1<<(i&7)) == 0 {
			continue
		}
		if len(dst) > start {
			dst = append(dst, c.separator...)
		}
		dst = append(dst, label...)
	}
	return dst
}
