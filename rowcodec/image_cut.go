package rowcodec

import (
	"io"
)

// Source is what Cut reads from: Len is the number of bytes that are left.
type Source interface {
	io.Reader
	Len() int
}

// Cut reads the row images of one event (none that is compressed, or partial) and appends them to dst, with values of texts
// and bytes of more than most bytes cut off behind most+1: who decodes them gets rows that are longer than most where the
// true ones are, and else the true ones. Keys are not cut, since servers have none so long. Malformed images stay malformed, for
// Decode to say so, and are not read to their end. The error is that of src.
func (d *Decoder) Cut(dst []byte, src Source, most int) ([]byte, error) {
	nulls := (len(d.columns) + 7) / 8
	for src.Len() > 0 {
		image := len(dst)
		var err error
		if dst, err = appendFrom(dst, src, nulls); err != nil || len(dst)-image < nulls {
			return dst, err
		}
		for i := range d.columns {
			if dst[image+i>>3]&(1<<(i&7)) != 0 {
				continue
			}
			var whole bool
			if dst, whole, err = d.columns[i].cut(dst, src, most); err != nil || !whole {
				return dst, err
			}
		}
	}
	return dst, nil
}

// appendFrom appends the next n bytes, or what there is.
func appendFrom(dst []byte, src Source, n int) ([]byte, error) {
	at := len(dst)
	n = min(n, src.Len())
	if cap(dst)-at < n {
		grown := make([]byte, at, max(2*at, at+n))
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:at+n]
	_, err := io.ReadFull(src, dst[at:])
	return dst, err
}

// cut appends the value that comes next. whole is false when the rest of the event does not hold it.
func (c *imageColumn) cut(dst []byte, src Source, most int) (_ []byte, whole bool, err error) {
	if c.prefix == 0 {
		whole = src.Len() >= c.size
		dst, err = appendFrom(dst, src, c.size)
		return dst, whole, err
	}
	at := len(dst)
	if whole = src.Len() >= int(c.prefix); !whole {
		return dst, false, nil
	}
	if dst, err = appendFrom(dst, src, int(c.prefix)); err != nil {
		return dst, false, err
	}
	length := 0
	for i := int(c.prefix) - 1; i >= 0; i-- {
		length = length<<8 | int(dst[at+i])
	}
	if length > c.most || length > src.Len() {
		return dst, false, nil
	}
	if c.op != opBytes || length <= most+1 {
		dst, err = appendFrom(dst, src, length)
		return dst, true, err
	}
	for i := range int(c.prefix) {
		dst[at+i] = byte((most + 1) >> (8 * i))
	}
	if dst, err = appendFrom(dst, src, most+1); err != nil {
		return dst, false, err
	}
	_, err = io.CopyN(io.Discard, src, int64(length-most-1))
	return dst, true, err
}
