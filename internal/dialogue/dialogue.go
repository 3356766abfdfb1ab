// Package dialogue reads and plays recorded protocol dialogues: what a client sent to a server, what SQL was run meanwhile,
// and what the server answered, byte by byte.
//
// A file is one dialogue, line by line:
//
//	== title                    first line
//	# comment
//	sql: STATEMENT              run on the database at that point, on one session
//	conn: KIND [name]           opens a connection; the default name is the kind
//	use: name                   makes that connection the current one
//	close: [name]               closes a connection (the current one by default)
//	> "..."                     bytes to send, a Go double-quoted string literal
//	< "..."                     exact bytes expected
//	<~ "..."                    one line expected, matched whole by a regular expression
//	eof:                        the server closes the connection, sending nothing more
//	timeout: MS                 wait that long for expected bytes from here on (2000)
//	rows: SELECT ...            checks the database; the next line is "= JSON", rows of strings or null
//
// Bytes that no line expects make a dialogue fail too. Dialogues of memcached (*.dlg) have further lines, see memcached.go.
package dialogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kind is what a line of a dialogue does.
type Kind uint8

// The kinds of lines; comments, blank lines and the title are not kept as lines.
const (
	SQL Kind = iota
	Open
	Use
	Close
	Send
	Expect
	Match
	EOF
	Timeout
	Rows
	Sleep
	Quiet
	Drop
	Let
	Binary
	Lines
	Has
)

// Line is one step of a dialogue.
type Line struct {
	Number int
	Kind   Kind
	// Text is the statement of SQL and Rows, the kind of connection of Open, and the name of Use and Close (empty: the
	// current one; for Use the one without a name). For the lines of memcached see memcached.go.
	Text string
	// Name is the connection's name of Open.
	Name string
	// Data is what Send sends and Expect expects.
	Data []byte
	// Pattern is that of Match.
	Pattern *regexp.Regexp
	// Wait is that of Timeout, Sleep, Quiet and Drop.
	Wait time.Duration
	// Want is what Rows expects; nil elements are NULL.
	Want [][]*string
}

// Dialogue is one parsed file.
type Dialogue struct {
	Path, Title string
	Lines       []Line
}

// Opens reports that the dialogue opens a connection of that kind.
func (d *Dialogue) Opens(kind string) bool {
	for i := range d.Lines {
		if d.Lines[i].Kind == Open && d.Lines[i].Text == kind {
			return true
		}
	}
	return false
}

// PreparesFirst reports that all SQL lines come before the first connection, so that Player.Prepared is possible.
func (d *Dialogue) PreparesFirst() bool {
	opened := false
	for i := range d.Lines {
		switch d.Lines[i].Kind {
		case Open:
			opened = true
		case SQL:
			if opened {
				return false
			}
		}
	}
	return true
}

// ReadDir parses all dialogues of a folder, in the order of their names.
func ReadDir(dir string) ([]*Dialogue, error) {
	return readAll(filepath.Join(dir, "*.dialogue"))
}

func readAll(pattern string) ([]*Dialogue, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	all := make([]*Dialogue, 0, len(paths))
	for _, p := range paths {
		d, err := Read(p)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Read parses one file. Errors name the file and the line.
func Read(path string) (*Dialogue, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Dialogue{Path: path}
	var expectRows *Line
	for i, raw := range strings.Split(string(text), "\n") {
		if err := d.parse(i+1, strings.TrimSpace(raw), &expectRows); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	if expectRows != nil {
		return nil, fmt.Errorf("%s:%d: rows: without a = line", path, expectRows.Number)
	}
	return d, nil
}

// parse adds one line. rows is the line that waits for its "= JSON".
func (d *Dialogue) parse(number int, text string, rows **Line) error {
	if title, ok := strings.CutPrefix(text, "=="); ok && number == 1 {
		d.Title = strings.TrimSpace(title)
		return nil
	}
	if number == 1 {
		return errors.New("the title (== ...) is missing")
	}
	if text == "" || text[0] == '#' {
		return nil
	}
	if want, ok := strings.CutPrefix(text, "="); ok {
		if *rows == nil {
			return errors.New("a line = without a rows: line before it")
		}
		if err := json.Unmarshal([]byte(want), &(*rows).Want); err != nil {
			return fmt.Errorf("expected rows: %w", err)
		}
		*rows = nil
		return nil
	}
	if *rows != nil {
		return errors.New("a line = JSON is expected here")
	}
	l, err := parseLine(text)
	if err != nil {
		return err
	}
	l.Number = number
	if l.Kind == Match && strings.HasSuffix(d.Path, memcachedSuffix) {
		if l.Pattern, err = linePattern(l.Data); err != nil {
			return err
		}
	}
	d.Lines = append(d.Lines, l)
	if l.Kind == Rows {
		*rows = &d.Lines[len(d.Lines)-1]
	}
	return nil
}

func parseLine(text string) (l Line, err error) {
	quoted := func(kind Kind, text string) (Line, error) {
		data, err := literals(text)
		return Line{Kind: kind, Data: data}, err
	}
	switch {
	case strings.HasPrefix(text, "<~"):
		l, err = quoted(Match, text[2:])
		if err == nil {
			l.Pattern, err = regexp.Compile(`(?s)\A(?:` + string(l.Data) + `)\z`)
		}
		return l, err
	case text[0] == '<':
		return quoted(Expect, text[1:])
	case text[0] == '>':
		return quoted(Send, text[1:])
	}
	word, arg, ok := strings.Cut(text, ":")
	arg = strings.TrimSpace(arg)
	if !ok {
		return l, fmt.Errorf("not understood: %s", text)
	}
	switch word {
	case "sql":
		return Line{Kind: SQL, Text: arg}, nil
	case "conn":
		kind, name, _ := strings.Cut(arg, " ")
		if name = strings.TrimSpace(name); name == "" {
			name = kind
		}
		return Line{Kind: Open, Text: kind, Name: name}, nil
	case "use":
		return Line{Kind: Use, Text: arg}, nil
	case "close":
		return Line{Kind: Close, Text: arg}, nil
	case "eof":
		return Line{Kind: EOF}, nil
	case "rows":
		return Line{Kind: Rows, Text: arg}, nil
	case "timeout":
		ms, err := strconv.Atoi(arg)
		return Line{Kind: Timeout, Wait: time.Duration(ms) * time.Millisecond}, err
	}
	return parseMemcachedLine(word, arg)
}
