package rowcodec

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// newPartCodec returns the codec of a column's values in an index over its first prefix characters or bytes; 0 means all
// of a value. The error says why values of that column can't be ordered here.
func newPartCodec(flavor string, c *schema.Column, prefix int) (partCodec, error) {
	switch c.Kind {
	case schema.KindInt:
		switch c.Bytes {
		case 1, 2, 3, 4, 8:
			return intCodec{bytes: c.Bytes, unsigned: c.Unsigned}, nil
		}
	case schema.KindDecimal:
		if c.Precision >= 1 && c.Precision <= maxDecimalDigits && c.Scale >= 0 && c.Scale <= c.Precision {
			return decimalCodec{precision: c.Precision, scale: c.Scale}, nil
		}
	case schema.KindFloat:
		return nil, errors.New("the text of FLOAT does not tell its exact value")
	case schema.KindDouble:
		if c.Scale >= 0 {
			return nil, errors.New("the text of DOUBLE with a number of digits does not tell its exact value")
		}
		return doubleCodec{}, nil
	case schema.KindYear:
		if c.Length != 2 {
			return yearCodec{}, nil
		}
	case schema.KindDate:
		return dateCodec{}, nil
	case schema.KindDatetime, schema.KindTimestamp:
		if c.Fraction >= 0 && c.Fraction <= 6 {
			return datetimeCodec{fraction: c.Fraction}, nil
		}
	case schema.KindTime:
		if c.Fraction >= 0 && c.Fraction <= 6 {
			return timeCodec{fraction: c.Fraction}, nil
		}
	case schema.KindChar, schema.KindVarchar, schema.KindText:
		if c.Kind == schema.KindText && prefix == 0 {
			// A unique index of MariaDB over a whole TEXT is one of hashes.
			return nil, errors.New("an index over the whole of a text is one of hashes")
		}
		collation, err := columnCollation(flavor, c.Kind, c.Collation)
		if err != nil {
			return nil, err
		}
		if collation.charset == binaryCharset || lookupCharset(c.Charset) != collation.charset {
			return nil, fmt.Errorf("collation %s does not belong to character set %s", c.Collation, c.Charset)
		}
		return textCodec{
			collation: collation,
			prefix:    prefix,
			trim:      c.Kind == schema.KindChar && prefix > 0 && !collation.pad,
		}, nil
	case schema.KindBinary:
		if prefix > 0 {
			return fixedCodec{length: c.Length, keep: min(prefix, c.Length)}, nil
		}
		if c.Length > 0 {
			return fixedCodec{length: c.Length, keep: c.Length}, nil
		}
	case schema.KindVarbinary, schema.KindBlob:
		if c.Kind == schema.KindBlob && prefix == 0 {
			return nil, errors.New("an index over the whole of a blob is one of hashes")
		}
		return textCodec{collation: binaryCollation, prefix: prefix}, nil
	case schema.KindEnum:
		return newEnumCodec(c)
	case schema.KindSet:
		return newSetCodec(c)
	case schema.KindBit:
		if c.Length >= 1 && c.Length <= 64 {
			return bitCodec{bytes: (c.Length + 7) / 8}, nil
		}
	case schema.KindUUID:
		// Tables of MariaDB before 10.11.5 say more than the name: their order is another one.
		if strings.EqualFold(c.TypeText, "uuid") {
			return uuidCodec{}, nil
		}
	case schema.KindInet4:
		return inetCodec{bytes: 4}, nil
	case schema.KindInet6:
		return inetCodec{bytes: 16}, nil
	}
	return nil, fmt.Errorf("type %s", c.TypeText)
}

// textCodec encodes texts and binary strings of any length by their collation.
type textCodec struct {
	collation *collation
	prefix    int
	// trim takes blanks off the end of a prefix of a CHAR: the server does so before it compares without padding.
	trim bool
}

func (textCodec) width() int { return 0 }

func (c textCodec) appendKey(dst, v []byte) ([]byte, error) {
	if c.prefix > 0 {
		v = c.collation.charset.prefix(v, c.prefix)
		if c.trim {
			v = bytes.TrimRight(v, " ")
		}
	}
	return c.collation.order.appendKey(dst, v)
}

// fixedCodec encodes BINARY(length), whose values all have that length, by their first bytes.
type fixedCodec struct{ length, keep int }

func (c fixedCodec) width() int { return c.keep }

func (c fixedCodec) appendKey(dst, v []byte) ([]byte, error) {
	if len(v) != c.length {
		return dst, fmt.Errorf("value has %d bytes instead of %d", len(v), c.length)
	}
	return append(dst, v[:c.keep]...), nil
}

// inetCodec encodes INET4 and INET6 by their bytes.
type inetCodec struct{ bytes int }

func (c inetCodec) width() int { return c.bytes }

func (c inetCodec) appendKey(dst, v []byte) ([]byte, error) {
	a, err := netip.ParseAddr(string(v))
	switch {
	case err != nil || a.Zone() != "":
	case c.bytes == 16 && a.Is6():
		b := a.As16()
		return append(dst, b[:]...), nil
	case c.bytes == 4 && a.Is4():
		b := a.As4()
		return append(dst, b[:]...), nil
	}
	return dst, errors.New("value is no address of its column")
}

// uuidCodec encodes UUIDs by the bytes in which MariaDB stores them: those that look like versions 1 to 5 have their
// fields in the opposite order, so that UUIDs made one after the other stand close together.
type uuidCodec struct{}

func (uuidCodec) width() int { return 16 }

func (uuidCodec) appendKey(dst, v []byte) ([]byte, error) {
	u, ok := parseUUID(v)
	if !ok {
		return dst, errors.New("value is no UUID")
	}
	if u[6] > 0 && u[6] < 0x60 && u[8]&0x80 != 0 {
		dst = append(dst, u[10:]...)
		dst = append(dst, u[8:10]...)
		dst = append(dst, u[6:8]...)
		dst = append(dst, u[4:6]...)
		return append(dst, u[:4]...), nil
	}
	return append(dst, u[:]...), nil
}

// parseUUID reads the one form in which the server sends UUIDs: 36 characters.
func parseUUID(v []byte) (u [16]byte, ok bool) {
	if len(v) != 36 {
		return u, false
	}
	n := 0
	for i, c := range v {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return u, false
			}
			continue
		}
		d, ok := hexDigit(c)
		if !ok {
			return u, false
		}
		u[n/2] = u[n/2]<<4 | d
		n++
	}
	return u, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
