package mcserver

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/netserver"
)

// request makes a binary request.
func request(opcode byte, opaque uint32, extras, key, value string) string {
	b := []byte{magicRequest, opcode}
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	b = append(b, byte(len(extras)), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(extras)+len(key)+len(value)))
	b = binary.BigEndian.AppendUint32(b, opaque)
	b = append(b, make([]byte, 8)...)
	return string(b) + extras + key + value
}

// describe writes binary answers readably, one to a line.
func describe(t *testing.T, answers string) string {
	t.Helper()
	var out strings.Builder
	for len(answers) > 0 {
		h := []byte(answers)
		if len(h) < binaryHeaderBytes || h[0] != magicAnswer {
			t.Fatalf("no answer: %q", answers)
		}
		key, extras, body := int(binary.BigEndian.Uint16(h[2:])), int(h[4]), int(binary.BigEndian.Uint32(h[8:]))
		text := answers[binaryHeaderBytes:]
		fmt.Fprintf(&out, "op %#x status %#x opaque %d cas %d extras %x key %q value %q\n", h[1], binary.BigEndian.Uint16(h[6:]),
			binary.BigEndian.Uint32(h[12:]), binary.BigEndian.Uint64(h[16:]), text[:extras], text[extras:extras+key], text[extras+key:body])
		answers = text[body:]
	}
	return out.String()
}

var binaryCases = []struct {
	name, in, want string
	closes         bool
}{
	{name: "get", in: request(opGet, 1, "", "BB", ""), want: "op 0x0 status 0x0 opaque 1 cas 1 extras 0000000a key \"\" value \"GOODBYE\"\n"},
	{name: "getk", in: request(opGetK, 2, "", "AA", ""), want: "op 0xc status 0x0 opaque 2 cas 0 extras 00000008 key \"AA\" value \"HELLO\"\n"},
	{
		name: "misses", in: request(opGet, 1, "", "zz", "") + request(opGetK, 2, "", "zz", "") + request(opGetQ, 3, "", "zz", "") + request(opGetKQ, 4, "", "OLD", "") + request(opNoop, 5, "", "", ""),
		want: "op 0x0 status 0x1 opaque 1 cas 0 extras  key \"\" value \"Not found\"\nop 0xc status 0x1 opaque 2 cas 0 extras  key \"zz\" value \"\"\nop 0xa status 0x0 opaque 5 cas 0 extras  key \"\" value \"\"\n",
	},
	{
		name: "quiet batch", in: request(opGetKQ, 1, "", "AA", "") + request(opGetKQ, 2, "", "zz", "") + request(opGetQ, 3, "", "BB", "") + request(opNoop, 4, "", "", ""),
		want: "op 0xd status 0x0 opaque 1 cas 0 extras 00000008 key \"AA\" value \"HELLO\"\nop 0x9 status 0x0 opaque 3 cas 1 extras 0000000a key \"\" value \"GOODBYE\"\nop 0xa status 0x0 opaque 4 cas 0 extras  key \"\" value \"\"\n",
	},
	{
		name: "switch", in: request(opGetK, 1, "", "@@city.3", "") + request(opGet, 2, "", "2", ""),
		want: "op 0xc status 0x0 opaque 1 cas 1002 extras 00000000 key \"@@city.3\" value \"Delhi||1000\"\nop 0x0 status 0x0 opaque 2 cas 1001 extras 00000000 key \"\" value \"Chennai||0\"\n",
	},
	{name: "version", in: request(opVersion, 9, "", "", ""), want: "op 0xb status 0x0 opaque 9 cas 0 extras  key \"\" value \"1.6.45\"\n"},
	{name: "quit", in: request(opQuit, 1, "", "", "") + request(opNoop, 2, "", "", ""), want: "op 0x7 status 0x0 opaque 1 cas 0 extras  key \"\" value \"\"\n", closes: true},
	{name: "quitq", in: request(opQuitQ, 1, "", "", ""), want: "", closes: true},
	{
		name: "writing is refused", in: request(opSet, 1, strings.Repeat("\x00", 8), "a", "hello") + request(opSetQ, 2, strings.Repeat("\x00", 8), "a", "hello") + request(opFlush, 3, "", "", "") + request(opFlushQ, 4, "\x00\x00\x00\x00", "", "") + request(opNoop, 5, "", "", ""),
		want: "op 0x1 status 0x83 opaque 1 cas 0 extras  key \"\" value \"no writing through this server\"\nop 0x11 status 0x83 opaque 2 cas 0 extras  key \"\" value \"no writing through this server\"\n" +
			"op 0x8 status 0x83 opaque 3 cas 0 extras  key \"\" value \"no writing through this server\"\nop 0x18 status 0x83 opaque 4 cas 0 extras  key \"\" value \"no writing through this server\"\nop 0xa status 0x0 opaque 5 cas 0 extras  key \"\" value \"\"\n",
	},
	{
		name: "unknown opcode", in: request(0x77, 1, "", "", "hello") + request(0x21, 2, "", "PLAIN", "x") + request(opNoop, 3, "", "", ""),
		want: "op 0x77 status 0x81 opaque 1 cas 0 extras  key \"\" value \"Unknown command\"\nop 0x21 status 0x81 opaque 2 cas 0 extras  key \"\" value \"Unknown command\"\nop 0xa status 0x0 opaque 3 cas 0 extras  key \"\" value \"\"\n",
	},
	{name: "key longer than the body", in: "\x80\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00alpha", want: "op 0x0 status 0x81 opaque 1 cas 0 extras  key \"\" value \"Unknown command\"\n", closes: true},
	{name: "wrong extras", in: request(opSet, 1, "\x00\x00\x00\x00", "a", "b"), want: "op 0x1 status 0x4 opaque 1 cas 0 extras  key \"\" value \"Invalid arguments\"\n", closes: true},
	{name: "no key", in: request(opGet, 1, "", "", ""), want: "op 0x0 status 0x4 opaque 1 cas 0 extras  key \"\" value \"Invalid arguments\"\n", closes: true},
	{name: "a key too many", in: request(opNoop, 1, "", "k", ""), want: "op 0xa status 0x4 opaque 1 cas 0 extras  key \"\" value \"Invalid arguments\"\n", closes: true},
	{name: "a value too many", in: request(opGet, 1, "", "k", "v"), want: "op 0x0 status 0x4 opaque 1 cas 0 extras  key \"\" value \"Invalid arguments\"\n", closes: true},
	{name: "long key", in: request(opGet, 1, "", key250, "") + request(opGet, 2, "", key251, ""), want: "op 0x0 status 0x1 opaque 1 cas 0 extras  key \"\" value \"Not found\"\nop 0x0 status 0x4 opaque 2 cas 0 extras  key \"\" value \"Invalid arguments\"\n", closes: true},
	{name: "wrong magic", in: request(opNoop, 1, "", "", "") + "\x81\x0a" + strings.Repeat("\x00", 22), want: "op 0xa status 0x0 opaque 1 cas 0 extras  key \"\" value \"\"\n", closes: true},
	{name: "text on a binary connection", in: request(opNoop, 1, "", "", "") + "get AA\r\n", want: "op 0xa status 0x0 opaque 1 cas 0 extras  key \"\" value \"\"\n", closes: true},
	{
		name: "stat of an unknown kind", in: request(opStat, 1, "", "nosuch", "") + request(opStat, 2, "", "sizes", "") + request(opStat, 3, "", "reset", ""),
		want: "op 0x10 status 0x1 opaque 1 cas 0 extras  key \"\" value \"Not found\"\nop 0x10 status 0x0 opaque 2 cas 0 extras  key \"sizes_status\" value \"disabled\"\nop 0x10 status 0x0 opaque 2 cas 0 extras  key \"\" value \"\"\nop 0x10 status 0x0 opaque 3 cas 0 extras  key \"\" value \"\"\n",
	},
}

func TestBinary(t *testing.T) {
	for _, c := range binaryCases {
		t.Run(c.name, func(t *testing.T) {
			s, reader := demoServer(t, CompatSafe)
			conn := newConn(s)
			raw := conn.send(t, c.in)
			if got := describe(t, raw); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.closes != (conn.closed == netserver.ErrClose) {
				t.Errorf("closed: %v", conn.closed)
			}
			for i := 1; i < len(c.in); i++ {
				cut := newConn(s)
				if got := cut.send(t, c.in[:i]) + cut.send(t, c.in[i:]); got != raw || cut.closed != conn.closed {
					t.Fatalf("cut at %d: %q, closed %v", i, got, cut.closed)
				}
			}
			if c.name == "switch" {
				return // shows versions, which only memory has
			}
			for _, table := range reader {
				table.inMemory.Store(false)
			}
			if got := newConn(s).send(t, c.in); got != raw {
				t.Errorf("from the database: %s", describe(t, got))
			}
		})
	}
}

// TestBinaryTooLarge passes over a value that is too large without keeping it.
func TestBinaryTooLarge(t *testing.T) {
	s, _ := demoServer(t, CompatSafe)
	conn := newConn(s)
	in := request(opSet, 1, strings.Repeat("\x00", 8), "a", strings.Repeat("z", 1<<20)) + request(opNoop, 2, "", "", "")
	var got strings.Builder
	for rest := in; len(rest) > 0; {
		n := min(4096, len(rest))
		got.WriteString(conn.send(t, rest[:n]))
		rest = rest[n:]
		if len(conn.in) > inputLimitBytes {
			t.Fatalf("%d bytes are kept", len(conn.in))
		}
	}
	want := "op 0x1 status 0x3 opaque 1 cas 0 extras  key \"\" value \"Too large.\"\nop 0xa status 0x0 opaque 2 cas 0 extras  key \"\" value \"\"\n"
	if text := describe(t, got.String()); text != want {
		t.Errorf("got %s", text)
	}
}
