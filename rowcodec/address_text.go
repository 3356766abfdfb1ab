package rowcodec

import "strconv"

const hexDigits = "0123456789abcdef"

// appendUUID appends a UUID of 16 bytes.
func appendUUID(dst, b []byte) []byte {
	for i, c := range b[:16] {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}

// appendInet4 appends an IPv4 address of 4 bytes.
func appendInet4(dst, b []byte) []byte {
	for i, c := range b[:4] {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(c), 10)
	}
	return dst
}

// appendInet6 appends an IPv6 address of 16 bytes as MariaDB writes it: the longest run of zero groups, the first of
// equals, becomes "::", and the addresses that hold an IPv4 one end like that.
func appendInet6(dst, b []byte) []byte {
	var groups [8]uint16
	for i := range groups {
		groups[i] = uint16(b[2*i])<<8 | uint16(b[2*i+1])
	}
	gap, gapLen := -1, 0
	for i := 0; i < len(groups); i++ {
		n := 0
		for i+n < len(groups) && groups[i+n] == 0 {
			n++
		}
		if n > gapLen {
			gap, gapLen = i, n
		}
		i += n
	}
	for i := 0; i < len(groups); i++ {
		if i == gap {
			if i == 0 {
				dst = append(dst, ':')
			}
			dst = append(dst, ':')
			i += gapLen - 1
			continue
		}
		if i == 6 && gap == 0 && (gapLen == 6 || gapLen == 5 && groups[5] == 0xffff) {
			return appendInet4(dst, b[12:])
		}
		dst = strconv.AppendUint(dst, uint64(groups[i]), 16)
		if i < len(groups)-1 {
			dst = append(dst, ':')
		}
	}
	return dst
}
