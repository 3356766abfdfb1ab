package rowcodec

import (
	"errors"
	"io"
)

// Source is what Cut reads from: Len is the number of bytes that are left.
type Source interface {
	io.Reader
	Len() int
}

// ErrOver is given by Cut for an event of which more would have to be kept than is wanted.
var ErrOver = errors.New("row images are larger than wanted")

// keyBytes is what is always left of a value: no server has keys of more than 3,072 bytes.
const keyBytes = 4096

// Cut reads the row images of one event (none that is compressed, or partial) and appends them to dst. Of rows whose texts
// and bytes come to more than most bytes the values are cut off, behind most+1 bytes of all of them and not within the
// first few thousand of one: who decodes them gets rows that are longer than most where the true ones are, with their
// keys, and else the true ones. When more than limit bytes come to be kept in all it ends with ErrOver.
//
// Malformed images stay malformed, for Decode to say so, and are not read to their end. Other errors are those of src.
func (d *Decoder) Cut(dst []byte, src Source, most, limit int) ([]byte, error) {
	nulls := (len(d.columns) + 7) / 8
	start := len(dst)
	for src.Len() > 0 {
		image := len(dst)
		var err error
		if dst, err = appendFrom(dst, src, nulls); err != nil || len(dst)-image < nulls {
			return dst, err
		}
		room := most + 1 // of the row, for values that can be cut off
		for i := range d.columns {
			if dst[image+i>>3]&(1<<(i&7)) != 0 {
				continue
			}
			at, whole := len(dst), false
			dst, whole, err = d.columns[i].cut(dst, src, max(room, min(most+1, keyBytes)), start+limit-at)
			if err != nil || !whole {
				return dst, err
			}
			if d.columns[i].op == opBytes {
				room -= len(dst) - at - int(d.columns[i].prefix)
			}
		}
		if len(dst)-start > limit {
			return dst, ErrOver
		}
	}
	return dst, nil
}

// fromPiece is what appendFrom reads at a time: memory grows with what comes, not with what is claimed.
const fromPiece = 1 << 20

// appendFrom appends the next n bytes, or what there is.
func appendFrom(dst []byte, src Source, n int) ([]byte, error) {
	for n = min(n, src.Len()); n > 0; {
		at, piece := len(dst), min(n, fromPiece)
		if cap(dst)-at < piece {
			grown := make([]byte, at, max(2*at, at+piece))
			copy(grown, dst)
			dst = grown
		}
		dst = dst[:at+piece]
		if _, err := io.ReadFull(src, dst[at:]); err != nil {
			return dst, err
		}
		n -= piece
	}
	return dst, nil
}

// cut appends the value that comes next, no more than room bytes of it if it is a text or bytes; ErrOver says that these are
// more than limit. whole is false when the rest of the event does not hold it.
func (c *imageColumn) cut(dst []byte, src Source, room, limit int) (_ []byte, whole bool, err error) {
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
	if c.op != opBytes || length <= room {
		if length > limit {
			return dst, false, ErrOver
		}
		dst, err = appendFrom(dst, src, length)
		return dst, true, err
	}
	if room > limit {
		return dst, false, ErrOver
	}
	for i := range int(c.prefix) {
		dst[at+i] = byte(room >> (8 * i))
	}
	if dst, err = appendFrom(dst, src, room); err != nil {
		return dst, false, err
	}
	_, err = io.CopyN(io.Discard, src, int64(length-room))
	return dst, true, err
}
