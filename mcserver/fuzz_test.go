package mcserver

import (
	"bytes"
	"testing"
)

// FuzzSession sends any bytes, whole, cut in two and in small pieces: no panic, the same answers, and nothing is waited
// for that goes beyond the announced limits.
func FuzzSession(f *testing.F) {
	for _, c := range textCases {
		if len(c.in) < 10_000 {
			f.Add([]byte(c.in), uint16(len(c.in)/2), true)
		}
	}
	for _, c := range binaryCases {
		f.Add([]byte(c.in), uint16(len(c.in)/3), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16, inMemory bool) {
		// Statistics hold the time.
		if bytes.Contains(in, []byte("stats")) || bytes.Contains(in, []byte{0x80, opStat}) {
			return
		}
		s, reader := demoServer(t, CompatSafe)
		for _, table := range reader {
			table.inMemory.Store(inMemory)
		}
		whole := newConn(s)
		want := whole.send(t, string(in))
		if len(whole.in) > DefaultItemBytes+inputLimitBytes {
			t.Fatalf("%d bytes wait", len(whole.in))
		}
		at := int(cut) % (len(in) + 1)
		two := newConn(s)
		if got := two.send(t, string(in[:at])) + two.send(t, string(in[at:])); got != want || two.closed != whole.closed {
			t.Fatalf("cut at %d: %q, closed %v\nwhole: %q, closed %v", at, got, two.closed, want, whole.closed)
		}
		size := int(cut)%7 + 1
		pieces := newConn(s)
		var got []byte
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			got = append(got, pieces.send(t, string(rest[:n]))...)
			rest = rest[n:]
		}
		if string(got) != want || pieces.closed != whole.closed {
			t.Fatalf("in pieces of %d: %q, closed %v\nwhole: %q, closed %v", size, got, pieces.closed, want, whole.closed)
		}
	})
}
