package rowcodec

import (
	"bytes"
	"errors"

	"github.com/binlogcache/binlogcache/schema"
)

var errNoMember = errors.New("value is no member of its column")

// enumCodec encodes ENUM by the number of the member, from 1; 0 is the error value, whose text is empty.
type enumCodec struct {
	numbers map[string]uint16
	bytes   int
}

func newEnumCodec(c *schema.Column) (partCodec, error) {
	if len(c.Members) == 0 || len(c.Members) > 65535 {
		return nil, errors.New("members are not known")
	}
	codec := enumCodec{numbers: make(map[string]uint16, len(c.Members)+1), bytes: 1}
	if len(c.Members) > 255 {
		codec.bytes = 2
	}
	codec.numbers[""] = 0
	for i, m := range c.Members {
		if _, ok := codec.numbers[string(m)]; ok {
			if len(m) == 0 {
				return nil, errors.New("the empty text is a member and the error value too")
			}
			return nil, errors.New("two members are alike")
		}
		codec.numbers[string(m)] = uint16(i + 1)
	}
	return codec, nil
}

func (c enumCodec) width() int { return c.bytes }

func (c enumCodec) appendKey(dst, v []byte) ([]byte, error) {
	n, ok := c.numbers[string(v)]
	if !ok {
		return dst, errNoMember
	}
	return appendUint(dst, uint64(n), c.bytes), nil
}

// setCodec encodes SET by the number whose bits are the members, the first member's being 1.
type setCodec struct {
	bits  map[string]uint64
	bytes int
}

func newSetCodec(c *schema.Column) (partCodec, error) {
	if len(c.Members) == 0 || len(c.Members) > 64 {
		return nil, errors.New("members are not known")
	}
	if lookupCharset(c.Charset) == nil {
		return nil, errors.New("character set not supported")
	}
	codec := setCodec{bits: make(map[string]uint64, len(c.Members)), bytes: (len(c.Members) + 7) / 8}
	for i, m := range c.Members {
		switch _, double := codec.bits[string(m)]; {
		case len(m) == 0:
			return nil, errors.New("the empty text is a member and no member too")
		case double:
			return nil, errors.New("two members are alike")
		}
		codec.bits[string(m)] = 1 << i
	}
	return codec, nil
}

func (c setCodec) width() int { return c.bytes }

func (c setCodec) appendKey(dst, v []byte) ([]byte, error) {
	var n uint64
	for more := len(v) > 0; more; {
		var member []byte
		member, v, more = bytes.Cut(v, []byte{','})
		bit, ok := c.bits[string(member)]
		if !ok {
			return dst, errNoMember
		}
		n |= bit
	}
	return appendUint(dst, n, c.bytes), nil
}
