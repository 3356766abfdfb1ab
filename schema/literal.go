package schema

import "strconv"

// AppendLiteral appends an SQL literal for the value v of column c, in the form that Row keeps values (see
// rowcodec.Row); nil is NULL. Whatever the bytes of v are, the result is one literal and nothing else, under any sql_mode.
//
// Texts carry the column's character set, so that no conversion takes place and the column's collation decides
// comparisons. A value that a number or date column can't hold becomes a string literal.
func AppendLiteral(dst []byte, c *Column, v []byte) []byte {
	if v == nil {
		return append(dst, "NULL"...)
	}
	switch c.Kind {
	case KindInt, KindDecimal, KindFloat, KindDouble, KindYear:
		if isNumber(v) {
			return append(dst, v...)
		}
		return appendHex(dst, "latin1", v)
	case KindBit:
		if n, ok := bitNumber(v); ok {
			return strconv.AppendUint(dst, n, 10)
		}
		return appendHex(dst, "", v)
	case KindDate, KindTime, KindDatetime, KindTimestamp, KindUUID, KindInet4, KindInet6:
		for _, b := range v {
			if !(b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' ||
				b == ' ' || b == ':' || b == '.' || b == '-') {
				return appendHex(dst, "latin1", v)
			}
		}
		dst = append(dst, '\'')
		dst = append(dst, v...)
		return append(dst, '\'')
	case KindChar, KindVarchar, KindText, KindEnum, KindSet:
		return appendHex(dst, c.Charset, v)
	case KindJSON:
		return appendHex(dst, "utf8mb4", v)
	default:
		return appendHex(dst, "", v)
	}
}

// isNumber reports that v is a decimal number as SQL spells it, with nothing before or after.
func isNumber(v []byte) bool {
	i := 0
	sign := func() {
		if i < len(v) && (v[i] == '-' || v[i] == '+') {
			i++
		}
	}
	digits := func() int {
		start := i
		for i < len(v) && v[i] >= '0' && v[i] <= '9' {
			i++
		}
		return i - start
	}
	sign()
	n := digits()
	if i < len(v) && v[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return false
	}
	if i < len(v) && (v[i] == 'e' || v[i] == 'E') {
		i++
		sign()
		if digits() == 0 {
			return false
		}
	}
	return i == len(v)
}

// bitNumber reads the bytes of a BIT value, high byte first.
func bitNumber(v []byte) (n uint64, ok bool) {
	for _, b := range v {
		if n>>56 != 0 {
			return 0, false
		}
		n = n<<8 | uint64(b)
	}
	return n, true
}

// appendHex appends a string literal of that character set, or a binary one where charset is empty.
func appendHex(dst []byte, charset string, v []byte) []byte {
	if isWordAll(charset) && charset != "" {
		dst = append(dst, '_')
		dst = append(dst, charset...)
		dst = append(dst, ' ')
	}
	dst = append(dst, 'x', '\'')
	const digits = "0123456789abcdef"
	for _, b := range v {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return append(dst, '\'')
}

// isWordAll keeps a character set's name from being more than a name.
func isWordAll(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 || !isWord(s[i]) {
			return false
		}
	}
	return true
}
