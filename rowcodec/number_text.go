package rowcodec

import (
	"bytes"
	"math"
	"strconv"
)

// The servers write FLOAT and DOUBLE by my_gcvt: plain digits where the exponent is in a certain range or the digits
// reach beyond it, else d.ddde-N. The range is that of DBL_DIG.
const (
	plainMost  = 15
	plainLeast = -14
	// floatDigits is FLT_DIG: more digits of a FLOAT than these are not shown.
	floatDigits = 6
)

// appendDouble appends the text of a DOUBLE without declared digits: the shortest that reads back as f.
func appendDouble(dst []byte, f float64) []byte {
	var tmp [32]byte
	return appendGeneral(dst, strconv.AppendFloat(tmp[:0], f, 'e', -1, 64))
}

// appendFloat appends the text of a FLOAT without declared digits: at most 6 significant ones.
func appendFloat(dst []byte, f float32) []byte {
	var tmp [32]byte
	return appendGeneral(dst, strconv.AppendFloat(tmp[:0], float64(f), 'e', floatDigits-1, 64))
}

// appendGeneral rewrites [-]d[.ddd]e±NN in the server's form.
func appendGeneral(dst, e []byte) []byte {
	if e[0] == '-' {
		dst = append(dst, '-')
		e = e[1:]
	}
	if e[0] < '0' || e[0] > '9' { // Inf and NaN, which no server stores
		return append(dst, '0')
	}
	var digits [24]byte
	n := 0
	i := 0
	for ; e[i] != 'e'; i++ {
		if e[i] != '.' {
			digits[n] = e[i]
			n++
		}
	}
	for n > 1 && digits[n-1] == '0' {
		n--
	}
	exponent := 0
	for _, c := range e[i+2:] {
		exponent = exponent*10 + int(c-'0')
	}
	if e[i+1] == '-' {
		exponent = -exponent
	}
	point := exponent + 1 // digits before the point

	if point < plainLeast || point > plainMost && n <= point {
		dst = append(dst, digits[0])
		if n > 1 {
			dst = append(dst, '.')
			dst = append(dst, digits[1:n]...)
		}
		dst = append(dst, 'e')
		return strconv.AppendInt(dst, int64(exponent), 10)
	}
	switch {
	case point <= 0:
		dst = append(dst, '0', '.')
		for ; point < 0; point++ {
			dst = append(dst, '0')
		}
		return append(dst, digits[:n]...)
	case point >= n:
		dst = append(dst, digits[:n]...)
		for ; point > n; point-- {
			dst = append(dst, '0')
		}
		return dst
	default:
		dst = append(dst, digits[:point]...)
		dst = append(dst, '.')
		return append(dst, digits[point:n]...)
	}
}

// appendFixed appends the text of FLOAT(M,D) and DOUBLE(M,D): f rounded to D digits after the point, or the shortest
// digits that read back as f where those are fewer, with zeros behind.
func appendFixed(dst []byte, f float64, decimals int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0 // which no server stores
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	have := 0
	if point := bytes.IndexByte(dst[start:], '.'); point >= 0 {
		have = len(dst) - start - point - 1
	}
	if have > decimals {
		return strconv.AppendFloat(dst[:start], f, 'f', decimals, 64)
	}
	if have == 0 && decimals > 0 {
		dst = append(dst, '.')
	}
	for range decimals - have {
		dst = append(dst, '0')
	}
	return dst
}

// padZero inserts zeros before what was appended to dst since start, up to width.
func padZero(dst []byte, start, width int) []byte {
	have := len(dst) - start
	if have >= width {
		return dst
	}
	for range width - have {
		dst = append(dst, '0')
	}
	copy(dst[len(dst)-have:], dst[start:start+have])
	for i := start; i < len(dst)-have; i++ {
		dst[i] = '0'
	}
	return dst
}

// packedBytes is how many bytes a group of so many digits takes in the packed form.
var packedBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// decimalSize returns the length of a packed DECIMAL; ok is false for sizes that no server makes.
func decimalSize(precision, scale int) (size int, ok bool) {
	if precision < 1 || precision > 65 || scale < 0 || scale > 30 || scale > precision {
		return 0, false
	}
	whole := precision - scale
	return whole/9*4 + packedBytes[whole%9] + scale/9*4 + packedBytes[scale%9], true
}

// appendDecimal appends the text of a packed DECIMAL; data has decimalSize bytes. Digits come in groups of nine, four
// bytes each, the first and the last group cut short; all bytes of a negative number are inverted, and the highest bit
// is inverted once more so that the bytes sort.
func appendDecimal(dst, data []byte, precision, scale int) []byte {
	var mask byte
	if data[0]&0x80 == 0 {
		mask = 0xff
		dst = append(dst, '-')
	}
	flip := byte(0x80)
	group := func(n int) (v uint32) {
		for _, b := range data[:n] {
			v = v<<8 | uint32(b^mask^flip)
			flip = 0
		}
		data = data[n:]
		return v
	}
	whole := precision - scale
	start := len(dst)
	if n := whole % 9; n > 0 {
		if v := group(packedBytes[n]); v > 0 {
			dst = strconv.AppendUint(dst, uint64(v), 10)
		}
	}
	for range whole / 9 {
		v := group(4)
		switch {
		case len(dst) > start:
			dst = appendDigits(dst, v, 9)
		case v > 0:
			dst = strconv.AppendUint(dst, uint64(v), 10)
		}
	}
	if len(dst) == start {
		dst = append(dst, '0')
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for range scale / 9 {
		dst = appendDigits(dst, group(4), 9)
	}
	if n := scale % 9; n > 0 {
		dst = appendDigits(dst, group(packedBytes[n]), n)
	}
	return dst
}

// appendDigits appends the last n digits of v, with zeros in front.
func appendDigits(dst []byte, v uint32, n int) []byte {
	at := len(dst)
	dst = append(dst, "0000000000"[:n]...)
	for i := at + n - 1; i >= at; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}
