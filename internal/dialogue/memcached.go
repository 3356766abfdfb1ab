package dialogue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Dialogues of memcached, *.dlg, have these lines beside the others, for answers that can't be fixed in advance:
//
//	> "..." rep 1000 "ab"     literals are joined; rep repeats one
//	sleep: 1.2                wait, in seconds
//	quiet: 0.2                nothing arrives for that long
//	drop: 0.2                 what arrives for that long is passed over
//	let: cas /([0-9]+)$/      keep a group of the last answer; {cas} in later requests and answers is replaced by it,
//	                          {cas:be64} by its 8 bytes; "let: cas /cas64/" takes the cas of a binary answer
//	bin: op=.. status=.. opaque=.. cas=0|any|NAME|!NAME extras=".." key=".." value=".."
//	                          one binary answer; what is given is compared (!NAME: neither 0 nor the kept value)
//	lines: "END\r\n"          lines up to that one; "lines: bin" reads binary statistics as "STAT key value"
//	has: "re"                 one of these lines matches as a whole
//
// A <~ line is compared without the line end, and "use:" without a name is the connection that was opened without one.
const memcachedSuffix = ".dlg"

// unnamed is the name of a memcached connection that was opened without one.
const unnamed = "mc"

// binaryHead is the length of a binary answer's header.
const binaryHead = 24

// ReadMemcachedDir parses all dialogues of memcached of a folder, in the order of their names.
func ReadMemcachedDir(dir string) ([]*Dialogue, error) {
	return readAll(filepath.Join(dir, "*"+memcachedSuffix))
}

var literalPart = regexp.MustCompile(`^\s*(?:rep\s+(\d+)\s+)?("(?:[^"\\]|\\.)*")`)

// literals joins quoted strings and repetitions.
func literals(text string) ([]byte, error) {
	data := []byte{}
	for rest := text; ; {
		m := literalPart.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("no quoted string: %s", text)
		}
		s, err := strconv.Unquote(m[2])
		if err != nil {
			return nil, fmt.Errorf("no quoted string: %s", text)
		}
		count := 1
		if m[1] != "" {
			if count, err = strconv.Atoi(m[1]); err != nil {
				return nil, err
			}
		}
		data = append(data, bytes.Repeat([]byte(s), count)...)
		if rest = strings.TrimSpace(rest[len(m[0]):]); rest == "" {
			return data, nil
		}
	}
}

// linePattern is the pattern of a line that is given without its end.
func linePattern(data []byte) (*regexp.Regexp, error) {
	return regexp.Compile(`(?s)\A(?:` + strings.TrimRight(string(data), "\r\n") + `)\r\n\z`)
}

// parseMemcachedLine parses the lines that only dialogues of memcached have. Text is what stands behind the word, Name
// that of the variable of Let.
func parseMemcachedLine(word, arg string) (l Line, err error) {
	l.Text = arg
	switch word {
	case "sleep", "quiet", "drop":
		l.Kind = map[string]Kind{"sleep": Sleep, "quiet": Quiet, "drop": Drop}[word]
		seconds, err := strconv.ParseFloat(arg, 64)
		l.Wait = time.Duration(seconds * float64(time.Second))
		return l, err
	case "let":
		l.Kind = Let
		name, pattern, _ := strings.Cut(arg, " ")
		l.Name, l.Text = name, strings.Trim(strings.TrimSpace(pattern), "/")
		l.Pattern, err = regexp.Compile(l.Text)
	case "bin":
		l.Kind = Binary
	case "lines":
		l.Kind = Lines
		if arg != "bin" {
			l.Data, err = literals(arg)
		}
	case "has":
		l.Kind = Has
		if l.Data, err = literals(arg); err == nil {
			l.Pattern, err = regexp.Compile(`(?s)\A(?:` + string(l.Data) + `)\z`)
		}
	default:
		err = fmt.Errorf("not understood: %q with %q", word, arg)
	}
	return l, err
}

var variable = regexp.MustCompile(`\{([a-z][a-z0-9]*)(:be64)?\}`)

// filled replaces {name} and {name:be64} by what let: has kept.
func (r *run) filled(data []byte) []byte {
	if len(r.vars) == 0 {
		return data
	}
	return variable.ReplaceAllFunc(data, func(m []byte) []byte {
		name, isBinary := strings.CutSuffix(strings.Trim(string(m), "{}"), ":be64")
		v, ok := r.vars[name]
		if !ok {
			return m
		}
		if isBinary {
			n, _ := strconv.ParseUint(string(v), 10, 64) // what is no number is 0, and fails where it is compared
			return binary.BigEndian.AppendUint64(nil, n)
		}
		return v
	})
}

// let keeps a part of the last answer.
func (r *run) let(l *Line) error {
	if l.Text == "cas64" {
		if len(r.last) < binaryHead {
			return errors.New("let: comes before any binary answer")
		}
		r.vars[l.Name] = strconv.AppendUint(nil, binary.BigEndian.Uint64(r.last[16:]), 10)
		return nil
	}
	m := l.Pattern.FindSubmatch(r.last)
	if len(m) < 2 { // a pattern for the line without its end
		m = l.Pattern.FindSubmatch(bytes.TrimRight(r.last, "\r\n"))
	}
	if len(m) < 2 {
		return fmt.Errorf("/%s/ is not in the last answer %q", l.Text, r.last)
	}
	r.vars[l.Name] = bytes.Clone(m[1])
	return nil
}

func (r *run) has(l *Line) error {
	for _, line := range r.found {
		if l.Pattern.MatchString(line) {
			return nil
		}
	}
	return fmt.Errorf("no line matches %q", l.Data)
}

func (c *conn) quiet(wait time.Duration) error {
	c.fill(wait, func() bool { return len(c.got) > 0 })
	if len(c.got) > 0 {
		return fmt.Errorf("expected silence, got %q", c.got)
	}
	return nil
}

// frame takes one binary answer.
func (c *conn) frame(wait time.Duration) ([]byte, error) {
	size := func() int {
		if len(c.got) < binaryHead {
			return binaryHead
		}
		return binaryHead + int(binary.BigEndian.Uint32(c.got[8:]))
	}
	c.fill(wait, func() bool { return len(c.got) >= size() })
	if len(c.got) < size() || c.got[0] != 0x81 {
		return nil, fmt.Errorf("expected a binary answer, got %q%s", c.got[:min(len(c.got), 300)], c.how())
	}
	n := size()
	f := bytes.Clone(c.got[:n])
	c.got = c.got[n:]
	return f, nil
}

var binaryField = regexp.MustCompile(`([a-z]+)=("(?:[^"\\]|\\.)*"|\S+)`)

// binary compares one binary answer.
func (r *run) binary(c *conn, l *Line) error {
	f, err := c.frame(r.wait)
	if err != nil {
		return err
	}
	r.last = f
	extras, key := int(f[4]), int(binary.BigEndian.Uint16(f[2:]))
	body := f[binaryHead:]
	if extras+key > len(body) {
		return fmt.Errorf("extras and key are longer than the body: %q", f)
	}
	texts := map[string][]byte{"extras": body[:extras], "key": body[extras : extras+key], "value": body[extras+key:]}
	cas := binary.BigEndian.Uint64(f[16:])
	numbers := map[string]uint64{
		"op": uint64(f[1]), "status": uint64(binary.BigEndian.Uint16(f[6:])), "opaque": uint64(binary.BigEndian.Uint32(f[12:])), "cas": cas,
	}
	for _, m := range binaryField.FindAllStringSubmatch(l.Text, -1) {
		name, want := m[1], m[2]
		if got, ok := texts[name]; ok {
			if data, err := literals(want); err != nil || !bytes.Equal(got, data) {
				return fmt.Errorf("%s is %q, expected %s", name, got, want)
			}
			continue
		}
		if kept, ok := strings.CutPrefix(want, "!"); ok && name == "cas" {
			if old := string(r.vars[kept]); cas == 0 || strconv.FormatUint(cas, 10) == old {
				return fmt.Errorf("cas is %d, expected another than %s", cas, old)
			}
			continue
		}
		if want == "any" && name == "cas" {
			if cas == 0 {
				return errors.New("cas is 0")
			}
			continue
		}
		if v, ok := r.vars[want]; ok && name == "cas" {
			want = string(v)
		}
		n, err := strconv.ParseUint(want, 0, 64)
		got, ok := numbers[name]
		if err != nil || !ok || got != n {
			return fmt.Errorf("%s is %#x, expected %s", name, got, want)
		}
	}
	return nil
}

// lines reads statistics for has:.
func (r *run) lines(c *conn, l *Line) error {
	r.found = nil
	for {
		if l.Data != nil {
			line := c.line(r.wait)
			if bytes.Equal(line, l.Data) {
				return nil
			}
			if !bytes.HasSuffix(line, []byte("\n")) {
				return fmt.Errorf("no line %q%s", l.Data, c.how())
			}
			r.found = append(r.found, string(bytes.TrimRight(line, "\r\n")))
			continue
		}
		f, err := c.frame(r.wait)
		if err != nil {
			return err
		}
		if status := binary.BigEndian.Uint16(f[6:]); status != 0 {
			return fmt.Errorf("status %#x among statistics", status)
		}
		key := int(binary.BigEndian.Uint16(f[2:]))
		if key == 0 {
			return nil
		}
		r.found = append(r.found, fmt.Sprintf("STAT %s %s", f[binaryHead:binaryHead+key], f[binaryHead+key:]))
	}
}
