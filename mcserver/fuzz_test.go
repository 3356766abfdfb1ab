package mcserver

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"testing"
)

// What a fuzzed server is like.
const (
	overRows     = iota // containers over tables in memory
	overDatabase        // containers over tables that the database answers for
	plainItems          // a plain memcached
	withUsers           // one that asks who the client is
	strictRows          // overRows as the plugin takes requests
	fuzzKinds
)

func fuzzServer(t *testing.T, kind int) *Server {
	t.Helper()
	switch kind {
	case overRows, overDatabase, strictRows:
		compat := CompatSafe
		if kind == strictRows {
			compat = CompatStrict
		}
		s, reader := demoServer(t, compat)
		for _, table := range reader {
			table.inMemory.Store(kind != overDatabase)
		}
		return s
	}
	s, _ := itemServer(t, true, Policies{})
	if kind == withUsers {
		var err error
		if s.users, err = ReadUsers(strings.NewReader("u:p\n")); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// clockParts are the parts of answers that depend on the time of day.
var clockParts = regexp.MustCompile(` t-?\d+|exp=-?\d+| applied=\d+`)

// fuzzSession sends in whole, cut in two and in small pieces: no panic, the same answers, and nothing is waited for that goes
// beyond the announced limits.
func fuzzSession(t *testing.T, in []byte, cut uint16, kind int) {
	t.Helper()
	// Statistics hold the time, and reset counts of connections.
	if bytes.Contains(in, []byte("stats")) || bytes.Contains(in, []byte{magicRequest, opStat}) {
		return
	}
	run := func(pieces ...[]byte) (string, *testConn) {
		c := newConn(fuzzServer(t, kind))
		var got strings.Builder
		for _, p := range pieces {
			got.WriteString(c.send(t, string(p)))
		}
		return clockParts.ReplaceAllString(got.String(), " T"), c
	}
	want, whole := run(in)
	if len(whole.in) > DefaultItemBytes+inputLimitBytes {
		t.Fatalf("%d bytes wait", len(whole.in))
	}
	at := int(cut) % (len(in) + 1)
	if got, two := run(in[:at], in[at:]); got != want || two.closed != whole.closed {
		t.Fatalf("cut at %d: %q, closed %v\nwhole: %q, closed %v", at, got, two.closed, want, whole.closed)
	}
	size := int(cut)%7 + 1
	var small [][]byte
	for rest := in; len(rest) > 0; {
		n := min(size, len(rest))
		small = append(small, rest[:n])
		rest = rest[n:]
	}
	if got, c := run(small...); got != want || c.closed != whole.closed {
		t.Fatalf("in pieces of %d: %q, closed %v\nwhole: %q, closed %v", size, got, c.closed, want, whole.closed)
	}
}

// addText seeds a fuzzer with the text and meta requests of the other tests.
func addText(f *testing.F, meta bool) {
	f.Helper()
	kind := 0
	for _, c := range textCases {
		if m := strings.HasPrefix(c.in, "m"); len(c.in) < 10_000 && m == meta {
			f.Add([]byte(c.in), uint16(len(c.in)/2), uint8(kind))
			kind++
		}
	}
}

// FuzzText sends what is not binary.
func FuzzText(f *testing.F) {
	addText(f, false)
	for kind, in := range []string{
		"get AA BB zz\r\ngets @@city.1 2 3\r\nget @>=A@<C\r\n", "gat 0 AA\r\nget @@nope.1\r\nbind city\r\nget 1\r\n",
		"set k 5 0 3\r\nabc\r\nappend k 0 0 2\r\nde\r\ngets k\r\ncas k 1 0 1 1\r\nx\r\nincr k 1\r\ntouch k 9\r\ngat 5 k j\r\ndelete k 0\r\ncas a 0 0 1 9 noreply\r\nx\r\nflush_all 3 noreply\r\ncache_memlimit 9\r\n",
		"set a 0 0 3\r\nu p\r\nset k 0 0 9\r\n123456789\r\nincr k 18446744073709551615\r\nget k\r\nquit\r\n",
		"set k 0 -1 9\r\nflush_all\r\nms k 3 v\r\nabc\r\ntouch k 1\r\nset k 0 2147483648 1 noreply\r\nx\r\nget @@chars.abcdef AA\r\nms k x\r\n",
	} {
		f.Add([]byte(in), uint16(11), uint8(kind))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16, kind uint8) {
		if len(in) == 0 || in[0] == magicRequest {
			return
		}
		fuzzSession(t, in, cut, int(kind)%fuzzKinds)
	})
}

// FuzzMeta makes a meta command of every line that is none: what begins with a digit is ms, and so on.
func FuzzMeta(f *testing.F) {
	addText(f, true)
	for kind, in := range []string{
		"mg AA v k O9 s t c f Lage=5\r\nme AA\r\nmg QUE= b v k\r\nmn\r\n", "mg AA q Lage\r\nmg zz N30 v\r\nms AA 3 T0 q\r\nabc\r\nmd AA q x\r\n",
		"ms k 3 F5 T9 c O1 b\r\nabc\r\nms ay== 1 b I\r\nx\r\nms k 2 MA\r\nyz\r\nma n N0 J5 D7 MD v t c\r\nmg k N3 R30 h l t v\r\nmd k I T5\r\nmg k v c\r\nma k\r\n",
		"ms a 3\r\nu p\r\nset a 0 0 3\r\nu p\r\nmg a s v\r\nmd a C5 E6\r\nms a 2 C5 E9 MR\r\nok\r\n",
	} {
		f.Add([]byte(in), uint16(13), uint8(kind))
	}
	commands := []string{"mg ", "ms ", "md ", "ma ", "me "}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16, kind uint8) {
		lines := bytes.SplitAfter(in, []byte("\n"))
		block := false
		var all []byte
		for _, line := range lines {
			isMeta := len(line) > 2 && line[0] == 'm'
			if len(line) > 0 && !isMeta && !block {
				all = append(all, commands[int(line[0])%len(commands)]...)
			}
			block = bytes.HasPrefix(line, []byte("ms ")) && !block
			all = append(all, line...)
		}
		fuzzSession(t, all, cut, int(kind)%fuzzKinds)
	})
}

// FuzzBinary sends what begins as a binary request does.
func FuzzBinary(f *testing.F) {
	for i, c := range binaryCases {
		f.Add([]byte(c.in), uint16(len(c.in)/3), uint8(i))
	}
	for kind, in := range []string{
		request(opGetK, 1, "", "AA", "") + request(opGetKQ, 2, "", "zz", "") + request(opNoop, 3, "", "", ""), request(opGet, 1, "", "@@city.1", "") + request(opGet, 1, "", "@>=A", ""),
		request(opSet, 1, "\x00\x00\x00\x05\x00\x00\x00\x00", "k", "12") + request(opIncrement, 2, strings.Repeat("\x00", 7)+"\x01"+strings.Repeat("\x00", 12), "k", "") + request(opGetQ, 3, "", "k", "") + request(opTouch, 4, "\x00\x00\x00\x09", "k", ""),
		request(opSASLAuth, 1, "", "PLAIN", "\x00u\x00p") + request(opGet, 2, "", "k", ""),
		request(opAppend, 3, "", "AA", "x") + request(opGATK, 4, "\x00\x00\x00\x05", "AA", ""),
	} {
		f.Add([]byte(in), uint16(25), uint8(kind))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16, kind uint8) {
		if len(in) == 0 || in[0] != magicRequest {
			in = append([]byte{magicRequest}, in...)
		}
		// Lengths that are mostly right let more frames through.
		if len(in) >= binaryHeaderBytes && cut%2 == 0 {
			in = bytes.Clone(in)
			binary.BigEndian.PutUint32(in[8:], uint32(len(in)-binaryHeaderBytes))
		}
		fuzzSession(t, in, cut, int(kind)%fuzzKinds)
	})
}
