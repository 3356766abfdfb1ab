package rowcodec

import "errors"

var errNoTime = errors.New("value is no date or time of its column")

// digits reads exactly n digits at the start of v, and what follows.
func digits(v []byte, n int) (number uint64, rest []byte, ok bool) {
	if len(v) < n {
		return 0, v, false
	}
	number, ok = parseUint(v[:n])
	return number, v[n:], ok
}

// skip takes byte b off the start of v.
func skip(v []byte, b byte) ([]byte, bool) {
	if len(v) == 0 || v[0] != b {
		return v, false
	}
	return v[1:], true
}

// scanDate reads yyyy-mm-dd as a number whose order is that of dates, in 23 bits.
func scanDate(v []byte) (date uint64, rest []byte, ok bool) {
	year, v, ok1 := digits(v, 4)
	v, ok2 := skip(v, '-')
	month, v, ok3 := digits(v, 2)
	v, ok4 := skip(v, '-')
	day, v, ok5 := digits(v, 2)
	return year<<9 | month<<5 | day, v, ok1 && ok2 && ok3 && ok4 && ok5 && month <= 12 && day <= 31
}

// scanClock reads hh:mm:ss, with as many digits of hours as there are, as seconds.
func scanClock(v []byte) (seconds uint64, rest []byte, ok bool) {
	n := 0
	for n < len(v) && v[n]-'0' <= 9 {
		n++
	}
	hours, v, ok1 := digits(v, n)
	v, ok2 := skip(v, ':')
	minutes, v, ok3 := digits(v, 2)
	v, ok4 := skip(v, ':')
	secs, v, ok5 := digits(v, 2)
	return hours*3600 + minutes*60 + secs, v, ok1 && ok2 && ok3 && ok4 && ok5 && hours <= 838 && minutes < 60 && secs < 60
}

// scanFraction reads the fraction of n digits that must be all that is left.
func scanFraction(v []byte, n int) (fraction uint64, ok bool) {
	if n == 0 {
		return 0, len(v) == 0
	}
	v, ok1 := skip(v, '.')
	fraction, v, ok2 := digits(v, n)
	return fraction, ok1 && ok2 && len(v) == 0
}

// dateCodec encodes DATE in 3 bytes.
type dateCodec struct{}

func (dateCodec) width() int { return 3 }

func (dateCodec) appendKey(dst, v []byte) ([]byte, error) {
	date, rest, ok := scanDate(v)
	if !ok || len(rest) > 0 {
		return dst, errNoTime
	}
	return appendUint(dst, date, 3), nil
}

// datetimeCodec encodes DATETIME and TIMESTAMP, both by their text, in 5 bytes and one for each 2 digits of fraction.
type datetimeCodec struct{ fraction int }

func (c datetimeCodec) width() int { return 5 + (c.fraction+1)/2 }

func (c datetimeCodec) appendKey(dst, v []byte) ([]byte, error) {
	date, rest, ok := scanDate(v)
	if !ok {
		return dst, errNoTime
	}
	rest, ok1 := skip(rest, ' ')
	clock, rest, ok2 := scanClock(rest)
	fraction, ok3 := scanFraction(rest, c.fraction)
	if !ok1 || !ok2 || !ok3 || clock >= 24*3600 {
		return dst, errNoTime
	}
	dst = appendUint(dst, date<<17|clock, 5)
	return appendUint(dst, fraction, (c.fraction+1)/2), nil
}

// timeCodec encodes TIME as the number of its smallest units, moved so that all are positive.
type timeCodec struct{ fraction int }

// timeBytes is the number of bytes for -839 to 839 hours with so many digits of fraction.
var timeBytes = [7]int{3, 4, 4, 5, 5, 5, 6}

func (c timeCodec) width() int { return timeBytes[c.fraction] }

func (c timeCodec) appendKey(dst, v []byte) ([]byte, error) {
	v, negative := skip(v, '-')
	units, rest, ok := scanClock(v)
	fraction, ok1 := scanFraction(rest, c.fraction)
	if !ok || !ok1 {
		return dst, errNoTime
	}
	for range c.fraction {
		units *= 10
	}
	units += fraction
	zero := uint64(1) << (8*timeBytes[c.fraction] - 1)
	if negative {
		return appendUint(dst, zero-units, timeBytes[c.fraction]), nil
	}
	return appendUint(dst, zero+units, timeBytes[c.fraction]), nil
}
