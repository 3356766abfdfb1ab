package dialogue

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLiterals(t *testing.T) {
	for text, want := range map[string]string{
		`"a\r\n"`: "a\r\n", ` "a" rep 3 "bc" "d" `: "abcbcbcd", `"\x80\"" "x"`: "\x80\"x", `rep 0 "x" ""`: "",
	} {
		if got, err := literals(text); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
	for _, text := range []string{``, `a`, `"a`, `"a" b`, `rep "a"`, `"\q"`} {
		if got, err := literals(text); err == nil {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

// TestMemcachedLines plays a dialogue with all lines of memcached against a server that answers by rote.
func TestMemcachedLines(t *testing.T) {
	const frame = "\x81\x00\x00\x01\x04\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x05kval"
	text := `== all lines
conn: mc
> "gets a\r\n"
<~ "VALUE a 0 1 [0-9]+"
let: cas /([0-9]+)$/
< "x\r\nEND\r\n"
> "cas {cas}\r\n" rep 2 "{cas:be64}"
< "CAS {cas}\r\n"
conn: mc second
> "two\r\n"
< "2\r\n"
use:
> "stats\r\n"
lines: "END\r\n"
has: "STAT pid [0-9]+"
quiet: 0.01
> "bin\r\n"
bin: op=0 status=0 opaque=7 cas=any extras="\x00\x00\x00\x05" key="k" value="val"
let: new /cas64/
> "bin\r\n"
bin: cas=new
> "bin\r\n"
bin: cas=!cas
> "rest\r\n"
drop: 0.05
sleep: 0.001
`
	answers := map[string]string{
		"gets a": "VALUE a 0 1 42\r\nx\r\nEND\r\n", "cas 42": "CAS 42\r\n", strings.Repeat("\x00\x00\x00\x00\x00\x00\x00*", 2) + "stats": "STAT pid 12\r\nSTAT x y\r\nEND\r\n",
		"two": "2\r\n", "bin": frame, "rest": "whatever",
	}
	path := filepath.Join(t.TempDir(), "a.dlg")
	play := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Read(path)
		if err != nil {
			return err
		}
		p := Player{Dial: roteServer(answers)}
		return p.Play(t.Context(), d)
	}
	if err := play(text); err != nil {
		t.Error(err)
	}
	for old, wrong := range map[string]string{
		`<~ "VALUE a 0 1 [0-9]+"`: `<~ "VALUE a 0 1"`,
		`< "CAS {cas}\r\n"`:       `< "CAS 43\r\n"`,
		`STAT pid [0-9]+`:         `STAT pid`,
		`opaque=7`:                `opaque=8`,
		`key="k"`:                 `key="K"`,
		`cas=new`:                 `cas=!new`,
		`cas=!cas`:                `cas=cas`,
		`drop: 0.05`:              `quiet: 0.2`,
		`lines: "END\r\n"`:        `lines: "END2\r\n"`,
		`let: cas /([0-9]+)$/`:    `let: cas /([a-z]+)$/`,
		`sleep: 0.001`:            `sleep: long`,
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("no %s", old)
		}
		if err := play(strings.Replace(text, old, wrong, 1)); err == nil {
			t.Errorf("no error with %s", wrong)
		}
	}
}

// roteServer answers each line with what stands for it.
func roteServer(answers map[string]string) func(context.Context, string) (net.Conn, error) {
	return func(context.Context, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			var in []byte
			buf := make([]byte, 256)
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				for in = append(in, buf[:n]...); ; {
					line, rest, ok := bytes.Cut(in, []byte("\r\n"))
					if !ok {
						break
					}
					if _, err := server.Write([]byte(answers[string(line)])); err != nil {
						return
					}
					in = rest
				}
			}
		}()
		return client, nil
	}
}
