package sqltext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// script is a socket that answers with given bytes, at most step at a time, and takes everything.
type script struct {
	net.Conn
	in   []byte
	step int
	out  bytes.Buffer
}

func (s *script) Read(b []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(s.step, len(b))], s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *script) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) Close() error                     { return nil }

// play runs a statement against an answer, and tells what came of it.
func play(answer []byte, step int) string {
	s := &script{in: answer, step: step}
	c := &Conn{raw: s}
	c.init(s, 0, 0)
	var b strings.Builder
	err := c.run(noContext{}, "q", nil, func(p []byte, columns int) error {
		f := Fields{rest: p, left: columns}
		for {
			v, null, ok := f.Next()
			if !ok {
				break
			}
			fmt.Fprintf(&b, "%q/%v ", v, null)
		}
		fmt.Fprintf(&b, "left %d\n", f.Len())
		return nil
	})
	fmt.Fprintf(&b, "%v broken %v", err, c.Broken())
	return b.String()
}

// noContext never ends.
type noContext struct{}

func (noContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (noContext) Done() <-chan struct{}       { return nil }
func (noContext) Err() error                  { return nil }
func (noContext) Value(any) any               { return nil }

// packets frames payloads as an answer.
func packets(payloads ...string) []byte {
	var b []byte
	for i, p := range payloads {
		b = append(b, byte(len(p)), byte(len(p)>>8), byte(len(p)>>16), byte(i+1))
		b = append(b, p...)
	}
	return b
}

const (
	eofPacket = "\xfe\x00\x00\x02\x00"
	okPacket  = "\x00\x00\x00\x02\x00\x00\x00"
	errPacket = "\xff\x48\x04#42000no tables"
)

func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct {
		name   string
		answer []byte
		want   string
	}{
		{"ok", packets(okPacket), "<nil> broken false"},
		{"error", packets(errPacket), "ERROR 1096 (42000): no tables broken false"},
		{"error without state", packets("\xff\x48\x04oops"), "ERROR 1096 (HY000): oops broken false"},
		{
			"rows", packets("\x02", "def", "def", eofPacket, "\x01a\xfb", "\x00\xfc\x2c\x01"+long, eofPacket),
			`"a"/false ""/true left 0` + "\n" + `""/false "` + long + `"/false left 0` + "\n<nil> broken false",
		},
		{"error after rows", packets("\x01", "def", eofPacket, "\x01a", errPacket), `"a"/false left 0` + "\nERROR 1096 (42000): no tables broken false"},
		{"short row", packets("\x02", "def", "def", eofPacket, "\x01a", eofPacket), `"a"/false left 1` + "\n<nil> broken false"},
		{"value beyond the row", packets("\x01", "def", eofPacket, "\x05ab", eofPacket), "left 1\n<nil> broken false"},
		{"empty packet", packets(""), "malformed packet from the server broken true"},
		{"local infile", packets("\xfb/etc/passwd"), "malformed packet from the server broken true"},
		{"more results", packets("\x00\x00\x00\x0a\x00\x00\x00"), "malformed packet from the server broken true"},
		{"no column end", packets("\x01", "def", "\x01a"), "malformed packet from the server broken true"},
		{"nothing", nil, "wait for the server: EOF broken true"},
		{"cut", packets(okPacket)[:7], "wait for the server: EOF broken true"},
		{"out of step", append(packets("\x01"), packets("def")...), "read an answer: malformed packet from the server: sequence number 1 in place of 2 broken true"},
		{"shutdown", packets("\xff\x1d\x04#08S01Server shutdown in progress"), "ERROR 1053 (08S01): Server shutdown in progress broken true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1 << 20, 1, 2, 3, 7} {
				if got := play(bytes.Clone(tt.answer), step); got != tt.want {
					t.Errorf("step %d:\n got %s\nwant %s", step, got, tt.want)
				}
			}
		})
	}
}

// Any bytes: no panic, and the same outcome however they arrive.
func FuzzAnswer(f *testing.F) {
	f.Add(packets(okPacket))
	f.Add(packets(errPacket))
	f.Add(packets("\x02", "def", "def", eofPacket, "\x01a\xfb", "\x00\xfc\x2c\x01", eofPacket))
	f.Add(packets("\x01", "def", eofPacket, "\xfe\x01\x00\x00\x00\x00\x00\x00\x00a", "\xfd\x01\x00\x00b", errPacket))
	f.Fuzz(func(t *testing.T, answer []byte) {
		whole := play(bytes.Clone(answer), 1<<20)
		if got := play(bytes.Clone(answer), 1); got != whole {
			t.Errorf("byte by byte:\n got %s\nwant %s", got, whole)
		}
	})
}

func TestCommandFrames(t *testing.T) {
	for _, size := range []int{1, 5, maxPayload - 1, maxPayload, maxPayload + 1, 2 * maxPayload} {
		s := &script{}
		w := &wire{}
		w.init(s, 0, 0)
		arg := strings.Repeat("q", size-1)
		if err := w.command(3, arg); err != nil {
			t.Fatal(err)
		}
		var payload []byte
		frames := 0
		for b := s.out.Bytes(); ; frames++ {
			n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
			if int(b[3]) != frames {
				t.Fatalf("size %d: frame %d has number %d", size, frames, b[3])
			}
			payload = append(payload, b[4:4+n]...)
			if b = b[4+n:]; n < maxPayload {
				if len(b) != 0 {
					t.Fatalf("size %d: %d bytes too many", size, len(b))
				}
				break
			}
		}
		if len(payload) != size || payload[0] != 3 || string(payload[1:]) != arg {
			t.Errorf("size %d: payload of %d bytes", size, len(payload))
		}
		if frames != size/maxPayload {
			t.Errorf("size %d: %d full frames", size, frames)
		}
	}
}

func TestIsConnectionError(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{nil, false},
		{io.EOF, false},
		{errors.New("x"), false},
		{&connError{"read", io.EOF}, true},
		{fmt.Errorf("a: %w", ErrBroken), true},
		{ErrPoolClosed, false},
		{serverError([]byte("\xff\x1d\x04#08S01bye")), true},              // 1053
		{serverError([]byte("\xff\x10\x04#08004too many")), true},         // 1040
		{serverError([]byte("\xff\x15\x04#28000not you")), false},         // 1045
		{serverError([]byte("\xff\x7a\x04#42S02no table")), false},        // 1146
		{serverError([]byte("\xff\xbf\x0f#HY000too idle")), true},         // 4031
		{fmt.Errorf("a: %w", serverError([]byte("\xff\x87\x07k"))), true}, // 1927
	}
	for _, tt := range tests {
		if got := IsConnectionError(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
