package rowcodec

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
)

var errNoNumber = errors.New("value is no number of its column")

// intCodec encodes integers big-endian in their storage size, signed ones with the sign bit turned over.
type intCodec struct {
	bytes    int
	unsigned bool
}

func (c intCodec) width() int { return c.bytes }

func (c intCodec) appendKey(dst, v []byte) ([]byte, error) {
	magnitude, negative, ok := parseInt(v)
	if !ok {
		return dst, errNoNumber
	}
	bits := 8 * c.bytes
	if c.unsigned {
		if negative && magnitude > 0 || bits < 64 && magnitude>>bits != 0 {
			return dst, errNoNumber
		}
		return appendUint(dst, magnitude, c.bytes), nil
	}
	half := uint64(1) << (bits - 1)
	if negative {
		if magnitude > half {
			return dst, errNoNumber
		}
		return appendUint(dst, half-magnitude, c.bytes), nil
	}
	if magnitude >= half {
		return dst, errNoNumber
	}
	return appendUint(dst, half+magnitude, c.bytes), nil
}

// appendUint appends the low n bytes of u, the highest first.
func appendUint(dst []byte, u uint64, n int) []byte {
	switch n {
	case 4:
		return binary.BigEndian.AppendUint32(dst, uint32(u))
	case 8:
		return binary.BigEndian.AppendUint64(dst, u)
	}
	for n--; n >= 0; n-- {
		dst = append(dst, byte(u>>(8*n)))
	}
	return dst
}

// parseInt reads an optional minus and digits, nothing else.
func parseInt(v []byte) (magnitude uint64, negative, ok bool) {
	if len(v) > 0 && v[0] == '-' {
		negative, v = true, v[1:]
	}
	magnitude, ok = parseUint(v)
	return magnitude, negative, ok
}

// parseUint reads digits, nothing else. ZEROFILL may have put zeros in front.
func parseUint(v []byte) (uint64, bool) {
	if len(v) == 0 {
		return 0, false
	}
	var n uint64
	if len(v) < 19 { // can't be too large
		for _, c := range v {
			d := uint64(c - '0')
			if d > 9 {
				return 0, false
			}
			n = n*10 + d
		}
		return n, true
	}
	for i, c := range v {
		d := uint64(c - '0')
		if d > 9 || i >= 19 && n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// yearCodec encodes YEAR in one byte, as the server stores it: 0000 is 0 and sorts first, 1901 to 2155 are 1 to 255.
type yearCodec struct{}

func (yearCodec) width() int { return 1 }

func (yearCodec) appendKey(dst, v []byte) ([]byte, error) {
	n, ok := parseUint(v)
	switch {
	case ok && n == 0:
		return append(dst, 0), nil
	case ok && n > 1900 && n <= 2155:
		return append(dst, byte(n-1900)), nil
	}
	return dst, errNoNumber
}

// bitCodec encodes BIT, whose text is its bytes.
type bitCodec struct{ bytes int }

func (c bitCodec) width() int { return c.bytes }

func (c bitCodec) appendKey(dst, v []byte) ([]byte, error) {
	if len(v) != c.bytes {
		return dst, errNoNumber
	}
	return append(dst, v...), nil
}

// doubleCodec encodes DOUBLE so that the bytes have the order of the numbers; -0 is 0.
type doubleCodec struct{}

func (doubleCodec) width() int { return 8 }

func (doubleCodec) appendKey(dst, v []byte) ([]byte, error) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, errNoNumber
	}
	bits := math.Float64bits(f)
	switch {
	case f == 0:
		bits = 1 << 63
	case f < 0:
		bits = ^bits
	default:
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(dst, bits), nil
}

// decimalCodec encodes DECIMAL(precision, scale). Up to 18 digits it takes the number without its point as an integer in
// as few bytes as hold the precision; beyond that, a byte for the sign and then 18 digits in every 8 bytes.
type decimalCodec struct{ precision, scale int }

// decimalBytes is the number of bytes of a signed integer of so many digits.
var decimalBytes = [19]int{1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7, 8, 8}

// maxDecimalDigits is the server's bound of a DECIMAL's precision.
const maxDecimalDigits = 65

func (c decimalCodec) width() int {
	if c.precision < len(decimalBytes) {
		return decimalBytes[c.precision]
	}
	return 1 + (c.precision+17)/18*8
}

func (c decimalCodec) appendKey(dst, v []byte) ([]byte, error) {
	// The digits, without zeros in front and with all of the scale's, aligned to the right.
	var digits [maxDecimalDigits]byte
	if c.precision > maxDecimalDigits || c.scale > c.precision {
		return dst, errNoNumber
	}
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	point := len(v)
	for i, b := range v {
		if b == '.' {
			point = i
			break
		}
	}
	whole, fraction := v[:point], v[min(point+1, len(v)):]
	for len(whole) > 0 && whole[0] == '0' {
		whole = whole[1:]
	}
	if len(v) == 0 || len(fraction) > c.scale || len(whole) > c.precision-c.scale {
		return dst, errNoNumber
	}
	at := c.precision - c.scale - len(whole)
	zero := true
	for _, part := range [2][]byte{whole, fraction} {
		for _, b := range part {
			d := b - '0'
			if d > 9 {
				return dst, errNoNumber
			}
			zero = zero && d == 0
			digits[at] = d
			at++
		}
	}
	negative = negative && !zero
	if c.precision < len(decimalBytes) {
		var n int64
		for _, d := range digits[:c.precision] {
			n = n*10 + int64(d)
		}
		if negative {
			n = -n
		}
		width := decimalBytes[c.precision]
		return appendUint(dst, uint64(n)^1<<(8*width-1), width), nil
	}
	start := len(dst)
	dst = append(dst, 0x80)
	first := c.precision % 18
	if first == 0 {
		first = 18
	}
	for from, to := 0, first; from < c.precision; from, to = to, to+18 {
		var n uint64
		for _, d := range digits[from:to] {
			n = n*10 + uint64(d)
		}
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	if negative {
		complement(dst[start:])
	}
	return dst, nil
}
