package rowcodec

import "encoding/binary"

const twoDigits = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"

// append2 appends v, which is below 100, with two digits.
func append2(dst []byte, v uint32) []byte {
	return append(dst, twoDigits[2*v], twoDigits[2*v+1])
}

func appendDate(dst []byte, year, month, day uint32) []byte {
	year %= 10000
	dst = append2(dst, year/100)
	dst = append2(dst, year%100)
	dst = append(dst, '-')
	dst = append2(dst, month%100)
	dst = append(dst, '-')
	return append2(dst, day%100)
}

func appendClock(dst []byte, hour, minute, second uint32) []byte {
	dst = append2(dst, hour%100)
	dst = append(dst, ':')
	dst = append2(dst, minute%100)
	dst = append(dst, ':')
	return append2(dst, second%100)
}

// appendMicros appends the first digits of a number of microseconds, with the point.
func appendMicros(dst []byte, micros uint32, digits int) []byte {
	if digits == 0 {
		return dst
	}
	dst = append(dst, '.')
	at := len(dst)
	dst = appendDigits(dst, micros, 6)
	return dst[:at+digits]
}

// fractionBytes returns how many bytes so many fractional digits take.
func fractionBytes(digits int) int { return (digits + 1) / 2 }

// fractionMicros reads fractional seconds, high byte first, as microseconds.
func fractionMicros(b []byte) uint32 {
	switch len(b) {
	case 1:
		return uint32(b[0]) * 10000
	case 2:
		return uint32(binary.BigEndian.Uint16(b)) * 100
	case 3:
		return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	}
	return 0
}

// appendDatePacked appends a DATE: three bytes, day in 5 bits, month in 4, year above.
func appendDatePacked(dst, b []byte) []byte {
	v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	return appendDate(dst, v>>9, v>>5&15, v&31)
}

// appendDatetime appends a DATETIME: a 40-bit number, high byte first, and the fraction.
func appendDatetime(dst, b []byte, digits int) []byte {
	v := uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:]))
	dst = appendDatetimeBits(dst, v&^(1<<39)) // bit 39 says "not negative", which all are
	return appendMicros(dst, fractionMicros(b[5:5+fractionBytes(digits)]), digits)
}

// appendDatetimeBits appends date and time out of the 39 bits that DATETIME and MySQL's JSON share.
func appendDatetimeBits(dst []byte, v uint64) []byte {
	dst = appendDateBits(dst, v)
	dst = append(dst, ' ')
	return appendClock(dst, uint32(v>>12)&31, uint32(v>>6)&63, uint32(v)&63)
}

func appendDateBits(dst []byte, v uint64) []byte {
	months := uint32(v>>22) & 0x1ffff
	return appendDate(dst, months/13, months%13, uint32(v>>17)&31)
}

// appendTime appends a TIME: a 24-bit number and the fraction, together offset by a half of their range.
func appendTime(dst, b []byte, digits int) []byte {
	n := fractionBytes(digits)
	var v int64
	for _, c := range b[:3+n] {
		v = v<<8 | int64(c)
	}
	v -= 1 << (8*(3+n) - 1)
	if v < 0 {
		v = -v
		dst = append(dst, '-')
	}
	whole := uint32(v >> (8 * n))
	micros := uint32(v & (1<<(8*n) - 1))
	switch n {
	case 1:
		micros *= 10000
	case 2:
		micros *= 100
	}
	dst = appendTimeBits(dst, whole)
	return appendMicros(dst, micros, digits)
}

// appendTimeBits appends hours (10 bits, at least two digits), minutes and seconds (6 bits each).
func appendTimeBits(dst []byte, v uint32) []byte {
	hour := v >> 12 & 1023
	if hour >= 100 {
		dst = append(dst, byte('0'+hour/100%10))
	}
	return appendClock(dst, hour%100, v>>6&63, v&63)
}

const zeroDatetime = "0000-00-00 00:00:00"

// appendTimestamp appends seconds since 1970 as date and time in UTC; 0 with no fraction is the zero date.
func appendTimestamp(dst []byte, seconds, micros uint32, digits int) []byte {
	if seconds == 0 && micros == 0 {
		dst = append(dst, zeroDatetime...)
		return appendMicros(dst, 0, digits)
	}
	year, month, day := civil(seconds / 86400)
	dst = appendDate(dst, year, month, day)
	dst = append(dst, ' ')
	rest := seconds % 86400
	dst = appendClock(dst, rest/3600, rest/60%60, rest%60)
	return appendMicros(dst, micros, digits)
}

// civil turns days since 1970-01-01 into a date of the Gregorian calendar (by eras of 400 years that begin in March).
func civil(days uint32) (year, month, day uint32) {
	days += 719468
	era := days / 146097
	doe := days % 146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = doy - (153*mp+2)/5 + 1
	month = mp + 3
	if month > 12 {
		month -= 12
	}
	year = era*400 + yoe
	if month <= 2 {
		year++
	}
	return year, month, day
}

// The forms of before MySQL 5.6, without fractions: MariaDB keeps them in old tables.

func appendOldDatetime(dst, b []byte) []byte {
	v := binary.LittleEndian.Uint64(b) // YYYYMMDDhhmmss in decimal
	date, clock := uint32(v/1000000%100000000), uint32(v%1000000)
	dst = appendDate(dst, date/10000, date/100%100, date%100)
	dst = append(dst, ' ')
	return appendClock(dst, clock/10000, clock/100%100, clock%100)
}

func appendOldTime(dst, b []byte) []byte {
	v := int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24) >> 8 // hhhmmss in decimal
	if v < 0 {
		v = -v
		dst = append(dst, '-')
	}
	u := uint32(v)
	if u >= 1000000 {
		dst = append(dst, byte('0'+u/1000000%10))
	}
	return appendClock(dst, u/10000%100, u/100%100, u%100)
}
