package adopt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A dump may be larger than memory and hold rows of any size, so it is cut into tokens as it is read, and only what is
// asked for is kept.

const (
	// maxToken bounds one token that is kept: the plugin's own values have up to 250 characters.
	maxToken = 64 << 10
	// maxStatement bounds the text of a CREATE TABLE that is kept; the servers' own bound of a table is below.
	maxStatement = 1 << 20
	// maxComment is how much of a comment is looked at.
	maxComment = 512
)

type dumpTokenKind uint8

const (
	dumpEnd    dumpTokenKind = iota // of the statement
	dumpWord                        // also numbers
	dumpName                        // in backticks
	dumpDouble                      // in double quotes
	dumpString                      // in single quotes
	dumpMark                        // another character
)

type dumpToken struct {
	kind dumpTokenKind
	text string // without quotes and escapes
}

func (t dumpToken) is(word string) bool { return t.kind == dumpWord && strings.EqualFold(t.text, word) }

func (t dumpToken) mark(c string) bool { return t.kind == dumpMark && t.text == c }

// dumpScanner cuts a dump into tokens.
type dumpScanner struct {
	in        *bufio.Reader
	line      int
	delimiter string
	// fresh is true before the first token of a statement, where the client's own commands stand.
	fresh bool
	// versioned is true inside of a comment whose content servers run.
	versioned bool
	// comment gets what stands in comments of one line; nil for nobody.
	comment func(text string)
	// record takes the text of the statement as it is read; nil does not. It holds what stands outside of comments.
	record *bytes.Buffer
}

func newDumpScanner(r io.Reader) *dumpScanner {
	return &dumpScanner{in: bufio.NewReaderSize(r, 64<<10), line: 1, delimiter: ";", fresh: true}
}

var (
	errTooLong = errors.New("a value or name here is longer than any that the plugin takes")
	errUnended = errors.New("the file ends inside of a statement: it is cut off")
)

// read is the next byte; io.EOF at the end.
func (s *dumpScanner) read() (byte, error) {
	c, err := s.in.ReadByte()
	if c == '\n' {
		s.line++
	}
	if err == nil && s.record != nil {
		s.record.WriteByte(c)
	}
	return c, err
}

// inside is read where the file must not end.
func (s *dumpScanner) inside() (byte, error) {
	c, err := s.read()
	if err == io.EOF {
		err = errUnended
	}
	return c, err
}

func (s *dumpScanner) peek() byte {
	b, _ := s.in.Peek(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// follows tells that text stands next, and passes over it.
func (s *dumpScanner) follows(text string) bool {
	b, _ := s.in.Peek(len(text))
	if string(b) != text {
		return false
	}
	for range text {
		_, _ = s.read()
	}
	return true
}

// next returns the next token. With keep unset its text is left out, except that of words. io.EOF is the end of the file between
// two statements.
func (s *dumpScanner) next(keep bool) (dumpToken, error) {
	for {
		if s.record != nil && s.record.Len() > maxStatement {
			s.record = nil
		}
		if s.delimiter != ";" && s.follows(s.delimiter) {
			s.fresh = true
			return dumpToken{}, nil
		}
		c, err := s.read()
		if err == io.EOF && !s.fresh {
			err = errUnended
		}
		if err != nil {
			return dumpToken{}, err
		}
		switch {
		case c <= ' ':
		case c == '#', c == '-' && s.dashes():
			if err := s.lineComment(); err != nil {
				return dumpToken{}, err
			}
		case c == '/' && s.peek() == '*':
			if err := s.blockComment(); err != nil {
				return dumpToken{}, err
			}
		case c == '*' && s.versioned && s.follows("/"):
			s.versioned = false
			s.unrecord("*/")
		case c == ';' && s.delimiter == ";":
			if s.fresh {
				continue // empty
			}
			s.fresh = true
			return dumpToken{}, nil
		default:
			s.fresh = false
			return s.token(c, keep)
		}
	}
}

// dashes tells that a dash begins a comment.
func (s *dumpScanner) dashes() bool {
	b, _ := s.in.Peek(2)
	return len(b) == 1 && b[0] == '-' || len(b) == 2 && b[0] == '-' && b[1] <= ' '
}

// unrecord takes text that was read off the record.
func (s *dumpScanner) unrecord(text string) {
	if s.record != nil {
		s.record.Truncate(s.record.Len() - len(text))
	}
}

func (s *dumpScanner) lineComment() error {
	s.unrecord("#")
	record := s.record
	s.record = nil
	defer func() { s.record = record }()
	var text []byte
	for {
		c, err := s.read()
		if err == io.EOF || err == nil && c == '\n' {
			break
		}
		if err != nil {
			return err
		}
		if len(text) < maxComment {
			text = append(text, c)
		}
	}
	if s.comment != nil {
		s.comment(strings.TrimLeft(string(text), "- "))
	}
	return nil
}

// blockComment passes over a comment whose slash was read, or over the beginning of one whose content counts.
func (s *dumpScanner) blockComment() error {
	s.unrecord("/")
	record := s.record
	s.record = nil
	defer func() { s.record = record }()
	_, _ = s.read() // the asterisk
	if !s.versioned && (s.follows("!") || s.follows("M!")) {
		version := ""
		for c := s.peek(); c >= '0' && c <= '9' && len(version) < 8; c = s.peek() {
			_, _ = s.read()
			version += string(c)
		}
		// The sandbox mark of MariaDB's dumps is for its client.
		if version != "999999" {
			s.versioned = true
			return nil
		}
	}
	for last := byte(0); ; {
		c, err := s.inside()
		if err != nil {
			return err
		}
		if last == '*' && c == '/' {
			return nil
		}
		last = c
	}
}

// token reads the token that begins with c.
func (s *dumpScanner) token(c byte, keep bool) (dumpToken, error) {
	switch {
	case c == '\'':
		text, err := s.quoted(c, keep, true)
		return dumpToken{dumpString, text}, err
	case c == '"':
		text, err := s.quoted(c, keep, true)
		return dumpToken{dumpDouble, text}, err
	case c == '`':
		text, err := s.quoted(c, keep, false)
		return dumpToken{dumpName, text}, err
	case isDumpWord(c):
		text := []byte{c}
		for isDumpWord(s.peek()) {
			c, err := s.inside()
			if err != nil {
				return dumpToken{}, err
			}
			switch {
			case len(text) < maxToken:
				text = append(text, c)
			case keep:
				return dumpToken{}, errTooLong
			}
		}
		return dumpToken{dumpWord, string(text)}, nil
	}
	return dumpToken{dumpMark, string([]byte{c})}, nil
}

func isDumpWord(c byte) bool {
	return c == '_' || c == '$' || c == '.' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quoted reads up to the closing quote.
func (s *dumpScanner) quoted(quote byte, keep, escapes bool) (string, error) {
	var text []byte
	for {
		if !keep && s.record == nil {
			s.passOver(quote)
		}
		c, err := s.inside()
		if err != nil {
			return "", err
		}
		switch {
		case c == quote:
			if s.peek() != quote {
				return string(text), nil
			}
			_, _ = s.read()
		case c == '\\' && escapes:
			if c, err = s.inside(); err != nil {
				return "", err
			}
			c = unescaped(c)
		}
		if !keep {
			continue
		}
		if len(text) == maxToken {
			return "", errTooLong
		}
		text = append(text, c)
	}
}

// passOver discards what is in the buffer up to the next quote or backslash: most of a dump is in such texts.
func (s *dumpScanner) passOver(quote byte) {
	b, _ := s.in.Peek(s.in.Buffered())
	n := 0
	for n < len(b) && b[n] != quote && b[n] != '\\' {
		if b[n] == '\n' {
			s.line++
		}
		n++
	}
	_, _ = s.in.Discard(n)
}

// unescaped is the byte that stands behind a backslash in a string.
func unescaped(c byte) byte {
	switch c {
	case '0':
		return 0
	case 'b':
		return '\b'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'Z':
		return 26
	}
	return c
}

// skip passes over the rest of the statement.
func (s *dumpScanner) skip() error {
	for {
		t, err := s.next(false)
		if err != nil || t.kind == dumpEnd {
			return err
		}
	}
}

// restOfLine reads what stands in the line still.
func (s *dumpScanner) restOfLine() (string, error) {
	var text []byte
	for {
		c, err := s.read()
		if err == io.EOF || err == nil && c == '\n' {
			return strings.TrimSpace(string(text)), nil
		}
		if err != nil {
			return "", err
		}
		if len(text) == maxComment {
			return "", fmt.Errorf("a line of the client's commands is longer than %d bytes", maxComment)
		}
		text = append(text, c)
	}
}
