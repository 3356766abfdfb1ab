package hsserver

import "bytes"

// tokens walks over the tokens of one line.
type tokens struct {
	rest  []byte
	ended bool // the last token was taken: further ones are empty
}

// more reports that another token stands on the line, even an empty one.
func (t *tokens) more() bool { return !t.ended }

// next returns the next token, as it stands there; a missing one is empty.
func (t *tokens) next() []byte {
	if i := bytes.IndexByte(t.rest, '\t'); i >= 0 {
		tok := t.rest[:i:i]
		t.rest = t.rest[i+1:]
		return tok
	}
	tok := t.rest
	t.rest, t.ended = nil, true
	return tok
}

// number reads the next token as a number: other characters than digits are skipped, and it wraps at 32 bits.
func (t *tokens) number() uint32 { return number(t.next()) }

func number(tok []byte) uint32 {
	var n uint32
	for _, c := range tok {
		if '0' <= c && c <= '9' {
			n = n*10 + uint32(c-'0')
		}
	}
	return n
}

// value reads the next token as a value: nil for NULL, else its bytes, unescaped where they stand.
func (t *tokens) value() []byte {
	tok := t.next()
	if len(tok) == 1 && tok[0] == 0 {
		return nil
	}
	return unescape(tok)
}

// text is value where NULL is not known: it is one NUL byte there.
func (t *tokens) text() []byte { return unescape(t.next()) }

// none is a value without bytes, which isn't NULL.
var none = []byte{}

const (
	escape      = 0x01
	escapeShift = 0x40
	firstPlain  = 0x10 // bytes from here on stand for themselves in answers
	nullByte    = 0x00
)

// unescape returns the bytes that a token stands for, written over it. What is not escaped is taken as it is; an escape
// of something that needs none ends the value.
func unescape(tok []byte) []byte {
	from := bytes.IndexByte(tok, escape)
	if from < 0 {
		if tok == nil {
			return none
		}
		return tok
	}
	to := from
	for from < len(tok) {
		c := tok[from]
		if c == escape {
			from++
			if from == len(tok) || tok[from] < escapeShift {
				break
			}
			c = tok[from] - escapeShift
		}
		tok[to] = c
		to++
		from++
	}
	return tok[:to]
}

// appendEscaped appends a value as answers show it.
func appendEscaped(dst, v []byte) []byte {
	for {
		i := 0
		for i < len(v) && v[i] >= firstPlain {
			i++
		}
		dst = append(dst, v[:i]...)
		if i == len(v) {
			return dst
		}
		dst = append(dst, escape, v[i]+escapeShift)
		v = v[i+1:]
	}
}
