package rowcodec

import "vitess.io/vitess/go/mysql/collations/colldata"

// Sort keys with padding.
//
// A text under PAD SPACE compares as if blanks followed it without end. So what matters at the end of the shorter text
// is whether the other one goes on with something below a blank (it is smaller then), with blanks alone (they are equal)
// or with something above. Sort keys must say that at every blank, since any blank may stand opposite the other text's
// end. Trailing blanks are left out; each other blank is written as "blank, something smaller follows the blanks" or
// "blank, something greater follows"; and the end is written as "blank, nothing follows". Those are three codes next to
// each other in place of the one of a blank, in that order: smaller, end, greater. Weights above a blank move up by two
// to make room. The end's code stands nowhere else, so keys end by themselves.
//
// Sort keys without padding end in a code below all others, and the weights that would collide with it are escaped.

// byteOrder orders texts whose bytes have one weight each: 8-bit character sets, binary strings, and the _bin collations
// of UTF-8.
type byteOrder struct {
	// codes has the code of each byte: the low byte, preceded by the high byte when that is not 0.
	codes [256]uint16
	pad   bool
	// weights are as given, for looking at what follows blanks.
	weights [256]byte
	space   byte
}

// newByteOrder makes the order of the weights; nil means that each byte is its own.
func newByteOrder(weights *[256]byte, pad bool) *byteOrder {
	o := &byteOrder{pad: pad}
	if weights != nil {
		o.weights = *weights
	} else {
		for b := range o.weights {
			o.weights[b] = byte(b)
		}
	}
	o.space = o.weights[' ']
	for b, w := range o.weights {
		if pad {
			o.codes[b] = paddedCode(w, o.space)
		} else {
			o.codes[b] = unpaddedCode(w)
		}
	}
	return o
}

// paddedCode is the code of weight w where space is the weight of a blank; that of the blank itself depends on what follows.
func paddedCode(w, space byte) uint16 {
	switch {
	case w <= space:
		return uint16(w)
	case w <= 0xfc:
		return uint16(w) + 2
	default:
		return 0xff00 | uint16(w)
	}
}

// unpaddedCode is the code of weight w above the end's code, 0.
func unpaddedCode(w byte) uint16 {
	if w <= 1 {
		return 0x0100 | uint16(w) + 1
	}
	return uint16(w)
}

func (o *byteOrder) appendKey(dst, v []byte) ([]byte, error) {
	if !o.pad {
		for _, b := range v {
			code := o.codes[b]
			if code >= 0x100 {
				dst = append(dst, byte(code>>8))
			}
			dst = append(dst, byte(code))
		}
		return append(dst, 0), nil
	}
	for len(v) > 0 && o.weights[v[len(v)-1]] == o.space {
		v = v[:len(v)-1]
	}
	for i := 0; i < len(v); i++ {
		code := o.codes[v[i]]
		if code == uint16(o.space) {
			// The blanks end before v does.
			end := i + 1
			for o.weights[v[end]] == o.space {
				end++
			}
			code = uint16(o.space)
			if o.weights[v[end]] > o.space {
				code += 2
			}
			for ; i < end-1; i++ {
				dst = append(dst, byte(code))
			}
		} else if code >= 0x100 {
			dst = append(dst, byte(code>>8))
		}
		dst = append(dst, byte(code))
	}
	return append(dst, o.space+1), nil
}

// runeOrder orders UTF-8 texts whose code points have one weight of 16 bits each: the general_ci collations. Weights are
// written as UTF-8, so that a text of ASCII takes one byte a character.
type runeOrder struct {
	charset *charset
	weights []uint16 // of the code points up to 0xffff
	// codes are those of the UTF-8 bytes of weights.
	codes *byteOrder
	// ascii are the codes of the ASCII characters; notOneByte stands where more is to be done.
	ascii [128]byte
	pad   bool
}

// notOneByte is the code of no ASCII weight.
const notOneByte = 0xff

// beyondBMP is the weight of all code points above 0xffff.
const beyondBMP = 0xfffd

func newRuneOrder(cs *charset, data colldata.Collation, pad bool) *runeOrder {
	o := &runeOrder{charset: cs, weights: make([]uint16, 0x10000), codes: newByteOrder(nil, pad), pad: pad}
	var char [4]byte
	var buf [8]byte
	for r := range o.weights {
		o.weights[r] = uint16(r)
		n := appendUTF8(char[:0], uint16(r))
		if hasSurrogate(n) {
			continue // not known to the library; no letter, so it weighs what it is
		}
		w := data.WeightString(buf[:0], n, 0)
		o.weights[r] = uint16(w[0])<<8 | uint16(w[1])
	}
	for c := range o.ascii {
		o.ascii[c] = notOneByte
		if w := o.weights[c]; w < 0x80 && o.codes.codes[w] < notOneByte && (!pad || w != ' ') {
			o.ascii[c] = byte(o.codes.codes[w])
		}
	}
	return o
}

// appendUTF8 is utf8.AppendRune for surrogates too.
func appendUTF8(dst []byte, r uint16) []byte {
	switch {
	case r < 0x80:
		return append(dst, byte(r))
	case r < 0x800:
		return append(dst, 0xc0|byte(r>>6), 0x80|byte(r&0x3f))
	default:
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
	}
}

// decodeBMP reads the code point that a well-formed text begins with; the length is 0 for those above 0xffff.
func decodeBMP(v []byte) (r uint16, length int) {
	switch b := v[0]; {
	case b < 0x80:
		return uint16(b), 1
	case b < 0xe0:
		return uint16(b&0x1f)<<6 | uint16(v[1]&0x3f), 2
	case b < 0xf0:
		return uint16(b&0xf)<<12 | uint16(v[1]&0x3f)<<6 | uint16(v[2]&0x3f), 3
	}
	return 0, 0
}

// weight returns the weight of the character that a well-formed text begins with, and its length.
func (o *runeOrder) weight(v []byte) (weight uint16, length int) {
	r, n := decodeBMP(v)
	if n == 0 {
		return beyondBMP, 4
	}
	return o.weights[r], n
}

func (o *runeOrder) appendKey(dst, v []byte) ([]byte, error) {
	if o.pad {
		for len(v) > 0 && v[len(v)-1] == ' ' {
			v = v[:len(v)-1]
		}
	}
	if !o.charset.wellFormed(v) {
		return dst, errNoText
	}
	for i := 0; i < len(v); {
		if b := v[i]; b < 0x80 && o.ascii[b] != notOneByte {
			dst = append(dst, o.ascii[b])
			i++
			continue
		}
		w, n := o.weight(v[i:])
		i += n
		if w >= 0x80 {
			var utf [4]byte
			for _, b := range appendUTF8(utf[:0], w) {
				dst = append(dst, byte(o.codes.codes[b]))
			}
			continue
		}
		code := o.codes.codes[w]
		switch {
		case o.pad && w == ' ':
			var blanks int
			blanks, code = o.blanks(v[i:])
			for i += blanks; blanks > 0; blanks-- {
				dst = append(dst, byte(code))
			}
		case code >= 0x100:
			dst = append(dst, byte(code>>8))
		}
		dst = append(dst, byte(code))
	}
	if o.pad {
		return append(dst, ' '+1), nil
	}
	return append(dst, 0), nil
}

// blanks counts the blanks that rest begins with, and returns the code for them and a blank before: it depends on what
// follows, which must not be the end.
func (o *runeOrder) blanks(rest []byte) (n int, code uint16) {
	for n < len(rest) && rest[n] == ' ' {
		n++
	}
	if w, _ := o.weight(rest[n:]); w < ' ' {
		return n, ' '
	}
	return n, ' ' + 2
}
