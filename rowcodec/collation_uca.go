package rowcodec

import (
	"encoding/binary"

	"vitess.io/vitess/go/mysql/collations/colldata"
)

// ucaOrder orders UTF-8 texts by the Unicode collation algorithm: texts have weights of 16 bits, on one or more levels
// with a weight of 0 between them.
type ucaOrder struct {
	charset *charset
	data    colldata.Collation
	pad     bool
	space   uint16
	// legacy is true for the collations before UCA 9.0: one level, and code points without a weight of their own have the
	// weights fbc0 + (c >> 15) and 8000 | c. implicitFFFF says that U+FFFF is one of those.
	legacy, implicitFFFF bool
	// ascii has, for each level, the weight of each ASCII character, 0 where it has none. It is nil where those characters
	// have several weights or influence each other.
	ascii []*[128]uint16
	// bmp has the weights of all code points up to 0xffff, where characters don't influence each other; nil elsewhere.
	bmp *runeWeights
}

// runeWeights has the weights of the code points up to 0xffff: those of r are weights[starts[r]:starts[r+1]].
type runeWeights struct {
	starts  [0x10001]uint32
	weights []byte
}

// withoutContractions are the legacy collations that weigh each character by itself: those that suit no language.
var withoutContractions = map[string]bool{
	"utf8mb3_unicode_ci": true, "utf8mb4_unicode_ci": true, "utf8mb3_unicode_520_ci": true, "utf8mb4_unicode_520_ci": true,
}

func newUCAOrder(cs *charset, data colldata.Collation, pad bool) *ucaOrder {
	o := &ucaOrder{charset: cs, data: data, pad: pad}
	o.space = binary.BigEndian.Uint16(data.WeightString(nil, []byte{' '}, 0))
	o.ascii = asciiWeights(data)
	_, o.legacy = data.(*colldata.Collation_uca_legacy)
	o.implicitFFFF = o.legacy && len(data.WeightString(nil, []byte("\uffff"), 0)) == 0
	if withoutContractions[data.Name()] {
		o.bmp = newRuneWeights(o)
	}
	return o
}

func newRuneWeights(o *ucaOrder) *runeWeights {
	t := new(runeWeights)
	var char [4]byte
	for r := range 0x10000 {
		t.weights, _ = o.appendLibraryWeights(t.weights, appendUTF8(char[:0], uint16(r)))
		t.starts[r+1] = uint32(len(t.weights))
	}
	return t
}

// asciiWeights makes the tables of ucaOrder.ascii.
func asciiWeights(data colldata.Collation) []*[128]uint16 {
	var levels []*[128]uint16
	for c := range byte(128) {
		weights := data.WeightString(nil, []byte{c}, 0)
		level, filled := 0, false
		for i := 0; ; i += 2 {
			if level == len(levels) {
				if c > 0 {
					return nil
				}
				levels = append(levels, new([128]uint16))
			}
			if i == len(weights) {
				break
			}
			switch w := binary.BigEndian.Uint16(weights[i:]); {
			case w == 0:
				level, filled = level+1, false
			case filled:
				return nil
			default:
				levels[level][c], filled = w, true
			}
		}
		if level != len(levels)-1 {
			return nil
		}
	}
	// Contractions ("ch" as one letter) and rules of order show when pairs don't weigh what their letters weigh.
	var pair [2]byte
	var got, want [64]byte
	for a := range byte(128) {
		for b := range byte(128) {
			pair = [2]byte{a, b}
			if string(data.WeightString(got[:0], pair[:], 0)) != string(appendASCIIWeights(want[:0], pair[:], levels)) {
				return nil
			}
		}
	}
	return levels
}

// appendASCIIWeights appends the weights of an ASCII text, level by level.
func appendASCIIWeights(dst, v []byte, levels []*[128]uint16) []byte {
	for i, level := range levels {
		if i > 0 {
			dst = append(dst, 0, 0)
		}
		for _, c := range v {
			if w := level[c&0x7f]; w != 0 {
				dst = append(dst, byte(w>>8), byte(w))
			}
		}
	}
	return dst
}

func (o *ucaOrder) appendKey(dst, v []byte) ([]byte, error) {
	start := len(dst)
	if o.ascii != nil && isASCII(v) {
		if o.pad {
			return o.appendPaddedASCII(dst, v), nil
		}
		return append(appendASCIIWeights(dst, v, o.ascii), 0, 0), nil
	}
	if !o.charset.wellFormed(v) {
		return dst, errNoText
	}
	dst, ok := o.appendWeights(dst, v)
	if !ok {
		return dst[:start], errNoText
	}
	if !o.pad {
		return append(dst, 0, 0), nil
	}
	mid := len(dst)
	dst = o.appendPadded(dst, dst[start:mid:mid])
	return append(dst[:start], dst[mid:]...), nil
}

// appendWeights appends the weights of a well-formed text; ok is false where the library does not know a character.
func (o *ucaOrder) appendWeights(dst, v []byte) (weights []byte, ok bool) {
	if o.bmp == nil {
		return o.appendLibraryWeights(dst, v)
	}
	start := len(dst)
	for i := 0; i < len(v); {
		r, n := decodeBMP(v[i:])
		if n == 0 {
			return o.appendLibraryWeights(dst[:start], v)
		}
		i += n
		dst = append(dst, o.bmp.weights[o.bmp.starts[r]:o.bmp.starts[int(r)+1]]...)
	}
	return dst, true
}

// appendLibraryWeights is appendWeights by way of the library.
func (o *ucaOrder) appendLibraryWeights(dst, v []byte) (weights []byte, ok bool) {
	for i := 0; i < len(v); i++ {
		if v[i] < 0xed {
			continue
		}
		surrogate := v[i] == 0xed && v[i+1] >= 0xa0
		if !surrogate && !(o.implicitFFFF && string(v[i:i+3]) == "\uffff") {
			continue
		}
		// The library stops in silence at a surrogate, which MariaDB can hold, and leaves U+FFFF out.
		if !o.legacy {
			return dst, false
		}
		dst = o.data.WeightString(dst, v[:i], 0)
		dst = append(dst, 0xfb, 0xc1, 0x80|v[i]<<4|v[i+1]>>2&0xf, v[i+1]<<6|v[i+2]&0x3f)
		v, i = v[i+3:], -1
	}
	return o.data.WeightString(dst, v, 0), true
}

// The codes of padded weights: as for bytes, with 16 bits.
func (o *ucaOrder) appendCode(dst []byte, w uint16) []byte {
	switch {
	case w < o.space:
	case w <= 0xfffc:
		w += 2
	default:
		dst = append(dst, 0xff, 0xff)
	}
	return append(dst, byte(w>>8), byte(w))
}

// appendPaddedASCII appends the sort key of an ASCII text, whose characters have at most one weight.
func (o *ucaOrder) appendPaddedASCII(dst, v []byte) []byte {
	weights := o.ascii[0]
	for len(v) > 0 {
		if w := weights[v[len(v)-1]&0x7f]; w != o.space && w != 0 {
			break
		}
		v = v[:len(v)-1]
	}
	for i := 0; i < len(v); i++ {
		w := weights[v[i]&0x7f]
		switch w {
		case 0:
		case o.space:
			// The blanks end before v does. Those without weight between them don't count.
			blanks, next := 1, uint16(0)
			for i++; ; i++ {
				if next = weights[v[i]&0x7f]; next == o.space {
					blanks++
				} else if next != 0 {
					break
				}
			}
			dst = o.appendBlanks(dst, blanks, next)
			i--
		default:
			dst = o.appendCode(dst, w)
		}
	}
	return o.appendEnd(dst)
}

// appendPadded appends the sort key of the weights.
func (o *ucaOrder) appendPadded(dst, weights []byte) []byte {
	for n := len(weights); n > 0 && binary.BigEndian.Uint16(weights[n-2:]) == o.space; n -= 2 {
		weights = weights[:n-2]
	}
	for i := 0; i < len(weights); i += 2 {
		w := binary.BigEndian.Uint16(weights[i:])
		if w != o.space {
			dst = o.appendCode(dst, w)
			continue
		}
		blanks, next := 1, uint16(0)
		for {
			if next = binary.BigEndian.Uint16(weights[i+2:]); next != o.space {
				break
			}
			blanks, i = blanks+1, i+2
		}
		dst = o.appendBlanks(dst, blanks, next)
	}
	return o.appendEnd(dst)
}

// appendBlanks appends the codes of n blanks before a character of weight next.
func (o *ucaOrder) appendBlanks(dst []byte, n int, next uint16) []byte {
	code := o.space
	if next > o.space {
		code += 2
	}
	for ; n > 0; n-- {
		dst = append(dst, byte(code>>8), byte(code))
	}
	return dst
}

func (o *ucaOrder) appendEnd(dst []byte) []byte {
	return append(dst, byte((o.space+1)>>8), byte(o.space+1))
}
