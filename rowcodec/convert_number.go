package rowcodec

import (
	"math"
	"strconv"

	"github.com/binlogcache/binlogcache/schema"
)

// decimalText is a number as the servers read it at the start of a text: sign, digits with or without a point, exponent.
// What follows is dropped.
type decimalText struct {
	negative bool
	// whole and fraction are the digits before and after the point. Without any the text is no number, and so 0.
	whole, fraction []byte
	// exponent moves the point to the right.
	exponent int
	// text is what the number was read from, without blanks in front.
	text []byte
}

// maxExponent bounds the exponents that are read; beyond it the servers' ways part.
const maxExponent = 400

// scanDecimal reads a number. Forms that the servers' types read in different ways are uncertain.
func scanDecimal(v []byte) (d decimalText, err error) {
	for len(v) > 0 && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	if len(v) > 0 && v[0] >= '\n' && v[0] <= '\r' {
		return d, errUncertain // a blank for some types
	}
	rest := v
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		d.negative, rest = rest[0] == '-', rest[1:]
	}
	d.whole, rest = splitDigits(rest)
	if len(rest) > 0 && rest[0] == '.' {
		d.fraction, rest = splitDigits(rest[1:])
		if len(rest) > 0 && rest[0] == '.' {
			return d, errUncertain // MariaDB goes on reading digits for integers
		}
	}
	if len(d.whole)+len(d.fraction) > 0 && len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		negative := len(rest) > 0 && rest[0] == '-'
		if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
			rest = rest[1:]
		}
		var exponent []byte
		exponent, rest = splitDigits(rest)
		n, ok := parseUint(exponent)
		if !ok || n > maxExponent {
			return d, errUncertain
		}
		d.exponent = int(n)
		if negative {
			d.exponent = -d.exponent
		}
	}
	d.text = v[:len(v)-len(rest)]
	return d, nil
}

// splitDigits splits v after the digits that it begins with.
func splitDigits(v []byte) (digits, rest []byte) {
	n := 0
	for n < len(v) && v[n]-'0' <= 9 {
		n++
	}
	return v[:n], v[n:]
}

// convertInt rounds and clamps.
func convertInt(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	switch c.Bytes {
	case 1, 2, 3, 4, 8:
	default:
		return dst, false, errUncertain
	}
	most, least := uint64(math.MaxUint64)>>(64-8*c.Bytes), uint64(0)
	if !c.Unsigned {
		most >>= 1
		least = most + 1
	}
	negative := false
	n, ok := uint64(0), false
	if len(v) <= 20 { // the usual form
		n, negative, ok = parseInt(v)
	}
	if !ok {
		d, err := scanDecimal(v)
		if err != nil {
			return dst, false, err
		}
		negative = d.negative
		if n, ok = d.round(); !ok || negative && c.Unsigned && n > math.MaxInt64 {
			return dst, false, errUncertain // (MySQL takes 0, MariaDB the largest number)
		}
	}
	switch {
	case negative && n > least:
		n = least
	case !negative && n > most:
		n = most
	}
	start := len(dst)
	if negative && n > 0 {
		dst = append(dst, '-')
	}
	digits := len(dst)
	dst = strconv.AppendUint(dst, n, 10)
	dst = padZero(dst, digits, c.Zerofill)
	if string(dst[start:]) == string(v) {
		return dst[:start], true, nil
	}
	return dst, false, nil
}

// round returns the number without its sign, rounded to a whole one, halves up; what is too large is the largest number.
// The servers' own way with more than 18 digits is not certain unless they are all before the point.
func (d *decimalText) round() (n uint64, ok bool) {
	whole, fraction := d.whole, d.fraction
	if len(fraction) == 0 && d.exponent == 0 {
		for len(whole) > 0 && whole[0] == '0' {
			whole = whole[1:]
		}
		if len(whole) == 0 {
			return 0, true
		}
		if n, ok = parseUint(whole); !ok {
			return math.MaxUint64, true
		}
		return n, true
	}
	if len(whole)+len(fraction) > 18 {
		return 0, false
	}
	for _, digits := range [2][]byte{whole, fraction} {
		for _, c := range digits {
			n = n*10 + uint64(c-'0')
		}
	}
	shift := d.exponent - len(fraction)
	switch {
	case n == 0 || shift < -19:
		return 0, true
	case shift < 0:
		unit := uint64(1)
		for range -shift {
			unit *= 10
		}
		// n is below 10^18 and unit at most 10^19.
		rounded := n / unit
		if n%unit >= unit/2 {
			rounded++
		}
		return rounded, true
	}
	for range shift {
		if n > math.MaxUint64/10 {
			return math.MaxUint64, true
		}
		n *= 10
	}
	return n, true
}

// convertDecimal rounds halves away from zero to the column's scale, and clamps.
func convertDecimal(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	if c.Precision < 1 || c.Precision > maxDecimalDigits || c.Scale < 0 || c.Scale > c.Precision {
		return dst, false, errUncertain
	}
	d, err := scanDecimal(v)
	if err != nil {
		return dst, false, err
	}
	for len(d.whole) > 0 && d.whole[0] == '0' {
		d.whole = d.whole[1:]
	}
	if len(d.whole)+len(d.fraction) > maxDecimalDigits || d.exponent > 20 || d.exponent < -20 {
		return dst, false, errUncertain
	}
	// All digits in one row, with zeros around so that every place that matters is inside.
	const around = 100
	var row [maxDecimalDigits + 2*around]byte
	at := around
	point := around + len(d.whole) + d.exponent
	for _, digits := range [2][]byte{d.whole, d.fraction} {
		for _, b := range digits {
			row[at] = b - '0'
			at++
		}
	}
	first, end := point-(c.Precision-c.Scale), point+c.Scale // the column's digits
	if row[end] >= 5 {
		i := end - 1
		for ; row[i] == 9; i-- {
			row[i] = 0
		}
		row[i]++
	}
	clamp, zero := false, true
	for i, b := range row[:end] {
		if b != 0 {
			zero = false
			clamp = clamp || i < first
		}
	}
	start := len(dst)
	if d.negative && c.Unsigned {
		zero, clamp = true, false
		row = [len(row)]byte{}
	}
	if d.negative && !zero {
		dst = append(dst, '-')
	}
	digits := len(dst)
	for i := first; i < end; i++ {
		b := row[i]
		if clamp {
			b = 9
		}
		switch {
		case i == point:
			if len(dst) == digits {
				dst = append(dst, '0')
			}
			dst = append(dst, '.')
		case i < point && i < point-1 && b == 0 && len(dst) == digits:
			continue // zeros in front
		}
		dst = append(dst, b+'0')
	}
	dst = padZero(dst, digits, c.Zerofill)
	if string(dst[start:]) == string(v) {
		return dst[:start], true, nil
	}
	return dst, false, nil
}

// convertDouble takes the nearest double.
func convertDouble(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	if c.Scale >= 0 || c.Zerofill > 0 {
		return dst, false, errUncertain
	}
	d, err := scanDecimal(v)
	if err != nil || len(d.text) > 60 {
		return dst, false, errUncertain
	}
	if len(d.whole)+len(d.fraction) == 0 {
		return append(dst, '0'), false, nil
	}
	f, err := strconv.ParseFloat(string(d.text), 64)
	switch {
	case err != nil && !math.IsInf(f, 0):
		return dst, false, errUncertain
	case c.Unsigned && f < 0, f == 0:
		return append(dst, '0'), false, nil
	case math.IsInf(f, 0):
		f = math.Copysign(math.MaxFloat64, f)
	}
	return appendDouble(dst, f), false, nil
}

// convertYear takes years of four digits, and of two: 70 is 1970 and 69 is 2069.
func convertYear(dst, v []byte) ([]byte, bool, error) {
	n, ok := parseUint(v)
	switch {
	case !ok || len(v) > 4:
		return dst, false, errUncertain
	case len(v) == 4 && (n == 0 || n >= 1901 && n <= 2155):
		return dst, true, nil
	case len(v) > 2:
		return dst, false, errUncertain
	case n < 70:
		n += 2000
	default:
		n += 1900
	}
	return strconv.AppendUint(dst, n, 10), false, nil
}
