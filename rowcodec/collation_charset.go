package rowcodec

// charset tells the characters of a character set apart. In all of those here a blank is the byte 0x20, and no byte below
// 0x80 is part of another character.
type charset struct {
	name string
	// length returns the number of bytes of the well-formed character that v, which is not empty, begins with, or 0.
	// It is nil where every byte is a character.
	length func(v []byte) int
}

var (
	utf8mb3Charset = &charset{name: "utf8mb3", length: utf8mb3Length}
	utf8mb4Charset = &charset{name: "utf8mb4", length: utf8mb4Length}
	asciiCharset   = &charset{name: "ascii", length: asciiLength}
	binaryCharset  = &charset{name: "binary"}
)

// eightBitCharsets are the character sets of one byte a character.
var eightBitCharsets = func() map[string]*charset {
	all := make(map[string]*charset)
	for _, name := range []string{
		"armscii8", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8", "geostd8", "greek", "hebrew",
		"hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "swe7",
	} {
		all[name] = &charset{name: name}
	}
	return all
}()

// lookupCharset returns the character set of that name, or nil when it is not supported.
func lookupCharset(name string) *charset {
	switch name {
	case "utf8mb4":
		return utf8mb4Charset
	case "utf8mb3", "utf8":
		return utf8mb3Charset
	case "ascii":
		return asciiCharset
	case "binary":
		return binaryCharset
	}
	return eightBitCharsets[name]
}

func asciiLength(v []byte) int {
	if v[0] < 0x80 {
		return 1
	}
	return 0
}

// utf8mb3Length follows the servers: the shortest form only, and surrogates are allowed (MariaDB stores them).
func utf8mb3Length(v []byte) int {
	b := v[0]
	switch {
	case b < 0x80:
		return 1
	case b < 0xc2:
		return 0
	case b < 0xe0:
		if len(v) >= 2 && v[1]&0xc0 == 0x80 {
			return 2
		}
	case b < 0xf0:
		if len(v) >= 3 && v[1]&0xc0 == 0x80 && v[2]&0xc0 == 0x80 && (b > 0xe0 || v[1] >= 0xa0) {
			return 3
		}
	}
	return 0
}

func utf8mb4Length(v []byte) int {
	b := v[0]
	if b < 0xf0 {
		return utf8mb3Length(v)
	}
	if b <= 0xf4 && len(v) >= 4 && v[1]&0xc0 == 0x80 && v[2]&0xc0 == 0x80 && v[3]&0xc0 == 0x80 &&
		(b > 0xf0 || v[1] >= 0x90) && (b < 0xf4 || v[1] < 0x90) {
		return 4
	}
	return 0
}

// prefix returns the first n characters of v, or all of it when it has fewer. Ill-formed bytes count as one each.
func (c *charset) prefix(v []byte, n int) []byte {
	if len(v) <= n {
		return v
	}
	if c.length == nil {
		return v[:n]
	}
	i := 0
	for ; n > 0 && i < len(v); n-- {
		if v[i] < 0x80 {
			i++
			continue
		}
		i += max(1, c.length(v[i:]))
	}
	return v[:i]
}

// wellFormed reports whether v has only characters of the set.
func (c *charset) wellFormed(v []byte) bool {
	if c.length == nil {
		return true
	}
	for i := 0; i < len(v); {
		if v[i] < 0x80 {
			i++
			continue
		}
		n := c.length(v[i:])
		if n == 0 {
			return false
		}
		i += n
	}
	return true
}

// isASCII reports whether v has no byte above 0x7f.
func isASCII(v []byte) bool {
	for _, b := range v {
		if b >= 0x80 {
			return false
		}
	}
	return true
}

// hasSurrogate reports whether v, in UTF-8, encodes a surrogate code point: MariaDB keeps those, MySQL does not.
func hasSurrogate(v []byte) bool {
	for i := 0; i+1 < len(v); i++ {
		if v[i] == 0xed && v[i+1] >= 0xa0 {
			return true
		}
	}
	return false
}
