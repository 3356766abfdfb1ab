package rowcodec

import (
	"github.com/binlogcache/binlogcache/schema"
)

const zeroDate = "0000-00-00"

// dateTime is a date and time of day as read from a text.
type dateTime struct {
	year, month, day, hour, minute, second uint32
	// fraction are the digits after the seconds' point, as given: up to 6.
	fraction []byte
	// invalid is true for well-formed texts of dates or times that don't exist: the servers store the zero date.
	invalid bool
}

// scanDateTime reads the forms that both servers read alike: yyyy-m-d, yyyy/m/d, yyyymmdd, each with or without a time
// (h:m:s or, after yyyymmdd, hhmmss), and what does not begin with a digit, which is no date.
func scanDateTime(v []byte) (t dateTime, err error) {
	if len(v) == 0 || v[0] > '9' && v[0] < 0x80 {
		return dateTime{invalid: true}, nil
	}
	whole, rest := splitDigits(v)
	switch len(whole) {
	case 4:
		t.year = atoi(whole)
		if len(rest) == 0 || rest[0] != '-' && rest[0] != '/' {
			return t, errUncertain
		}
		separator := rest[0]
		var ok1, ok2 bool
		t.month, rest, ok1 = shortNumber(rest[1:])
		if len(rest) == 0 || rest[0] != separator {
			return t, errUncertain
		}
		t.day, rest, ok2 = shortNumber(rest[1:])
		if !ok1 || !ok2 {
			return t, errUncertain
		}
		if len(rest) > 0 {
			if rest, err = t.scanClock(rest); err != nil {
				return t, err
			}
		}
	case 8, 14:
		t.year, t.month, t.day = atoi(whole[:4]), atoi(whole[4:6]), atoi(whole[6:8])
		if len(whole) == 14 {
			t.hour, t.minute, t.second = atoi(whole[8:10]), atoi(whole[10:12]), atoi(whole[12:14])
		}
	default:
		return t, errUncertain
	}
	if len(rest) > 0 {
		return t, errUncertain
	}
	if t.year == 0 && t.month == 0 && t.day == 0 {
		if t.hour != 0 || t.minute != 0 || t.second != 0 || atoi(t.fraction) != 0 {
			return t, errUncertain
		}
		t.invalid = true
		return t, nil
	}
	if t.month == 0 || t.day == 0 || t.year == 0 {
		return t, errUncertain // allowed or not, by the servers' settings
	}
	t.invalid = t.month > 12 || t.day > daysOf(t.year, t.month) || t.hour > 23 || t.minute > 59 || t.second > 59
	return t, nil
}

// scanClock reads " h:m:s" or "Th:m:s" with a fraction.
func (t *dateTime) scanClock(v []byte) (rest []byte, err error) {
	if v[0] != ' ' && v[0] != 'T' {
		return v, errUncertain
	}
	var ok1, ok2, ok3 bool
	t.hour, rest, ok1 = shortNumber(v[1:])
	rest, colon1 := skip(rest, ':')
	t.minute, rest, ok2 = shortNumber(rest)
	rest, colon2 := skip(rest, ':')
	t.second, rest, ok3 = shortNumber(rest)
	if !ok1 || !ok2 || !ok3 || !colon1 || !colon2 {
		return rest, errUncertain
	}
	if rest, ok1 = skip(rest, '.'); ok1 {
		if t.fraction, rest = splitDigits(rest); len(t.fraction) == 0 || len(t.fraction) > 6 {
			return rest, errUncertain
		}
	}
	return rest, nil
}

// shortNumber reads one or two digits.
func shortNumber(v []byte) (n uint32, rest []byte, ok bool) {
	digits, rest := splitDigits(v)
	return atoi(digits), rest, len(digits) == 1 || len(digits) == 2
}

// atoi reads digits that are few.
func atoi(digits []byte) uint32 {
	var n uint32
	for _, c := range digits {
		n = n*10 + uint32(c-'0')
	}
	return n
}

func daysOf(year, month uint32) uint32 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// micros turns up to 6 digits of a fraction into microseconds.
func micros(fraction []byte) uint32 {
	n := atoi(fraction)
	for i := len(fraction); i < 6; i++ {
		n *= 10
	}
	return n
}

// fractionFits reports whether cutting digits off gives what rounding gives: MySQL rounds and MariaDB cuts.
func fractionFits(digits []byte, want int) bool {
	return len(digits) <= want || digits[want] < '5'
}

func convertDate(dst, v []byte) ([]byte, bool, error) {
	t, err := scanDateTime(v)
	if err != nil {
		return dst, false, err
	}
	if !fractionFits(t.fraction, 0) {
		return dst, false, errUncertain // MySQL may round up to the next day
	}
	if t.invalid {
		return append(dst, zeroDate...), false, nil
	}
	start := len(dst)
	if dst = appendDate(dst, t.year, t.month, t.day); string(dst[start:]) == string(v) {
		return dst[:start], true, nil
	}
	return dst, false, nil
}

func convertDatetime(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	t, err := scanDateTime(v)
	if err != nil {
		return dst, false, err
	}
	if !fractionFits(t.fraction, c.Fraction) {
		return dst, false, errUncertain
	}
	if t.invalid {
		t = dateTime{}
	} else if c.Kind == schema.KindTimestamp && (t.year < 1971 || t.year > 2037) {
		return dst, false, errUncertain // near or beyond the type's ends, which differ between versions
	}
	start := len(dst)
	dst = appendDate(dst, t.year, t.month, t.day)
	dst = appendClock(append(dst, ' '), t.hour, t.minute, t.second)
	dst = appendMicros(dst, micros(t.fraction), c.Fraction)
	if string(dst[start:]) == string(v) {
		return dst[:start], true, nil
	}
	return dst, false, nil
}

// convertTime reads h:m:s, h:m, and digits alone as hhmmss from their end; hours beyond 838 are clamped.
func convertTime(dst []byte, c *schema.Column, v []byte) ([]byte, bool, error) {
	rest, negative := skip(v, '-')
	whole, rest := splitDigits(rest)
	var hour, minute, second uint32
	var fraction []byte
	switch {
	case len(whole) == 0:
		if negative || len(v) > 0 && v[0] <= ':' {
			return dst, false, errUncertain
		}
		// No time at all is 0.
	case len(rest) > 0 && rest[0] == ':':
		var ok bool
		hour = atoi(whole[:min(len(whole), 8)])
		minute, rest, ok = shortNumber(rest[1:])
		if !ok || len(whole) > 8 {
			return dst, false, errUncertain
		}
		if rest, ok = skip(rest, ':'); ok {
			if second, rest, ok = shortNumber(rest); !ok {
				return dst, false, errUncertain
			}
		}
		if rest, ok = skip(rest, '.'); ok {
			fraction, rest = splitDigits(rest)
		}
		if len(rest) > 0 || len(fraction) > 6 {
			return dst, false, errUncertain
		}
	case len(rest) == 0 && len(whole) <= 7:
		n := atoi(whole)
		hour, minute, second = n/10000, n/100%100, n%100
	default:
		return dst, false, errUncertain
	}
	if minute > 59 || second > 59 || !fractionFits(fraction, c.Fraction) {
		return dst, false, errUncertain
	}
	if hour > 838 {
		if c.Fraction > 0 {
			return dst, false, errUncertain
		}
		hour, minute, second, fraction = 838, 59, 59, nil
	}
	fractional := micros(fraction[:min(len(fraction), c.Fraction)])
	if hour == 838 && minute == 59 && second == 59 && fractional > 0 {
		return dst, false, errUncertain // the servers' ends differ
	}
	if hour|minute|second|fractional == 0 && negative {
		return dst, false, errUncertain
	}
	start := len(dst)
	if negative {
		dst = append(dst, '-')
	}
	if hour >= 100 {
		dst = append(dst, byte('0'+hour/100))
	}
	dst = appendClock(dst, hour%100, minute, second)
	dst = appendMicros(dst, fractional, c.Fraction)
	if string(dst[start:]) == string(v) {
		return dst[:start], true, nil
	}
	return dst, false, nil
}
