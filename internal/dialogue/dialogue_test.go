package dialogue

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.dialogue")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, text string) *Dialogue {
	t.Helper()
	d, err := Read(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"# comment\n", ":1: the title"},
		{"== x\nwhat\n", ":2: not understood: what"},
		{"== x\nwhat: ever\n", ":2: not understood"},
		{"== x\n> no quotes\n", ":2: no quoted string"},
		{"== x\n<~ \"(\"\n", ":2: "},
		{"== x\n= []\n", ":2: "},
		{"== x\nrows: SELECT 1\nconn: hsr\n", ":3: a line = JSON"},
		{"== x\nrows: SELECT 1\n", ":2: rows: without a = line"},
		{"== x\ntimeout: soon\n", ":2: "},
	} {
		if _, err := Read(write(t, tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestPreparesFirst(t *testing.T) {
	d := read(t, "== x\nsql: A\nconn: hsr\n> \"x\\n\"\n")
	if !d.PreparesFirst() || !d.Opens("hsr") || d.Opens("hsw") {
		t.Error("wrong")
	}
	if read(t, "== x\nconn: hsr\nsql: A\n").PreparesFirst() {
		t.Error("wrong")
	}
}

func TestRenamedAcrossPieces(t *testing.T) {
	d := read(t, `== x
conn: hsr
> "P\t0\tdl"
> "g\tt1\tdlg\tdlgx\n"
< "dlg"
> "dlg\t\tdlg"
> "\t"
`)
	var sent []string
	for _, l := range renamed(d.Lines, "own_schema") {
		if l.Kind == Send {
			sent = append(sent, string(l.Data))
		}
	}
	want := []string{"P\t0\town_schema", "\tt1\town_schema\tdlgx\n", "dlg\t\town_schema", "\t"}
	if strings.Join(sent, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", sent, want)
	}
	if string(d.Lines[1].Data) != "P\t0\tdl" {
		t.Error("the dialogue itself was changed")
	}
}

// echoServer answers each line with itself, and "quit" by closing.
func echoServer(t *testing.T) func(context.Context, string) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan() && s.Text() != "quit"; {
					if _, err := c.Write(append(s.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func TestPlay(t *testing.T) {
	dial := echoServer(t)
	good := `== x
conn: hsr a
> "one\n"
< "one\n"
> "two\nthr"
< "two\n"
> "ee\n"
<~ "th[re]+\n"
conn: hsr b
> "four\n"
use: a
> "five\n"
< "five\n"
use: b
< "four\n"
> "quit\n"
eof:
close: a
`
	for _, mode := range []Mode{Whole, Bytewise, Pipelined} {
		if err := (&Player{Dial: dial, Mode: mode}).Play(t.Context(), read(t, good)); err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct{ text, want string }{
		{"> \"one\\n\"\n< \"two\\n\"\n", `:4: whole: expected "two\n", got "one\n"`},
		{"> \"one\\n\"\n", `sent more at the end: "one\n"`},
		{"> \"one\\n\"\n<~ \"two\"\n", "expected a match"},
		{"> \"quit\\n\"\n< \"x\"\n", `got "" and the end`},
		{"timeout: 20\neof:\n", "expected the end"},
		{"use: b\n", "no connection b"},
		{"close: b\n", "no such connection"},
		{"conn: hsr\n", "open already"},
	} {
		err := (&Player{Dial: dial}).Play(t.Context(), read(t, "== x\nconn: hsr\n"+tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %s", tc.text, err, tc.want)
		}
	}
}
