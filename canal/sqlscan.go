package canal

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// session is what the status block of a query event says about reading the statement's text.
type session struct {
	ansiQuotes  bool // "x" is a name
	noBackslash bool // a backslash in a string is a character like others
	// trailing is true for client character sets in which a byte of a character may look like a quote or a backslash.
	trailing bool
	// utf8 is true where names in the text can be compared with names in UTF-8.
	utf8 bool
}

// Codes of the status block of query events, and bits of sql_mode in it.
const (
	statusFlags2    = 0
	statusSQLMode   = 1
	statusAutoInc   = 3
	statusCharset   = 4
	statusTimeZone  = 5
	statusCatalogNZ = 6

	modeANSIQuotes  = 1 << 2
	modeNoBackslash = 1 << 20
)

// parseStatus reads the status block as far as the client's character set. Both flavors write these parts first.
func parseStatus(b []byte) session {
	s := session{utf8: true}
	for len(b) > 0 {
		code := b[0]
		b = b[1:]
		size := 0
		switch code {
		case statusFlags2, statusAutoInc:
			size = 4
		case statusSQLMode:
			size = 8
		case statusCharset:
			size = 6
		case statusTimeZone, statusCatalogNZ:
			if len(b) == 0 {
				return s
			}
			size = 1 + int(b[0])
		default:
			return s
		}
		if len(b) < size {
			return s
		}
		switch code {
		case statusSQLMode:
			mode := binary.LittleEndian.Uint64(b)
			s.ansiQuotes = mode&modeANSIQuotes != 0
			s.noBackslash = mode&modeNoBackslash != 0
		case statusCharset:
			s.setCharset(binary.LittleEndian.Uint16(b))
			return s
		}
		b = b[size:]
	}
	return s
}

// setCharset takes the number of the client's collation.
func (s *session) setCharset(id uint16) {
	if id >= 1024 && id < 2048 {
		id -= 1024 // MariaDB's NO PAD twins
	}
	switch id {
	case 1, 84, // big5
		13, 88, // sjis
		28, 87, // gbk
		95, 96, // cp932
		248, 249, 250: // gb18030
		s.trailing = true
	}
	switch {
	case id == 33, id == 76, id == 83, id == 45, id == 46, id >= 192 && id <= 247, id >= 255 && id <= 323:
		s.utf8 = true // utf8mb3 and utf8mb4 of both flavors
	case id == 11, id == 65, id == 63: // ascii, binary
		s.utf8 = true
	default:
		s.utf8 = false
	}
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenName   // in backticks
	tokenDouble // in double quotes: a name or a string, by the sql_mode
	tokenString // in single quotes
	tokenMark   // one other character
	tokenBad    // a quote or comment that does not end: the text can't be read
)

type scanToken struct {
	kind tokenKind
	// text is without quotes; escapes in strings are left alone, doubled backticks and double quotes are single.
	text string
}

// is reports an unquoted word, in any case.
func (t scanToken) is(word string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, word)
}

func (t scanToken) isMark(mark string) bool { return t.kind == tokenMark && t.text == mark }

// name reports a token that can be an identifier.
func (t scanToken) name() bool {
	return t.kind == tokenWord || t.kind == tokenName || t.kind == tokenDouble
}

// scanner cuts a statement into tokens.
type scanner struct {
	text string
	at   int
	mode session
	// versioned says whether the content of executable comments, /*! and /*M!, counts as text: a server runs it or not
	// by its version.
	versioned bool
	inside    bool // in an executable comment that counts
	// found is set when an executable comment was seen.
	found bool
}

func (s *scanner) next() scanToken {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			s.at++
		case c == '#', strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				s.at = len(s.text)
			} else {
				s.at += end + 1
			}
		case s.inside && strings.HasPrefix(rest, "*/"):
			s.inside = false
			s.at += 2
		case strings.HasPrefix(rest, "/*"):
			if !s.comment(rest) {
				return scanToken{kind: tokenBad}
			}
		case c == '\'':
			return s.quoted(tokenString, '\'', !s.mode.noBackslash)
		case c == '"':
			return s.quoted(tokenDouble, '"', !s.mode.noBackslash && !s.mode.ansiQuotes)
		case c == '`':
			return s.quoted(tokenName, '`', false)
		case isWordByte(c):
			n := 1
			for n < len(rest) && isWordByte(rest[n]) {
				n++
			}
			s.at += n
			return scanToken{tokenWord, rest[:n]}
		default:
			s.at++
			return scanToken{tokenMark, rest[:1]}
		}
	}
	if s.inside {
		return scanToken{kind: tokenBad}
	}
	return scanToken{kind: tokenEnd}
}

// comment passes over a comment, or over the start of an executable one whose content counts.
func (s *scanner) comment(rest string) bool {
	skip := 0
	switch {
	case strings.HasPrefix(rest, "/*!"):
		skip = 3
	case strings.HasPrefix(rest, "/*M!"):
		skip = 4
	}
	if skip > 0 {
		s.found = true
		if s.versioned && !s.inside {
			for skip < len(rest) && rest[skip] >= '0' && rest[skip] <= '9' {
				skip++
			}
			s.inside = true
			s.at += skip
			return true
		}
	}
	end := strings.Index(rest[2:], "*/")
	if end < 0 {
		return false
	}
	s.at += end + 4
	return true
}

func (s *scanner) quoted(kind tokenKind, quote byte, backslash bool) scanToken {
	start := s.at + 1
	doubled := false
	for i := start; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\\' && backslash:
			i++
		case c == quote:
			if i+1 < len(s.text) && s.text[i+1] == quote {
				doubled = true
				i++
				continue
			}
			s.at = i + 1
			text := s.text[start:i]
			if doubled {
				text = strings.ReplaceAll(text, string([]byte{quote, quote}), string(rune(quote)))
			}
			return scanToken{kind, text}
		}
	}
	s.at = len(s.text)
	return scanToken{kind: tokenBad}
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= utf8.RuneSelf || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
