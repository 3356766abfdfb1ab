package mcserver

import (
	"testing"
)

// TestGetDoesNotAllocate guards the path of a get that memory answers.
func TestGetDoesNotAllocate(t *testing.T) {
	s, _ := demoServer(t, CompatSafe)
	for name, in := range map[string]string{
		"get": "get AA\r\n", "gets": "gets BB\r\n", "miss": "get zz\r\n", "several": "get AA BB zz NEG\r\n",
		"prefix": "get @@demo.AA\r\n", "mg": "mg AA v f c k O1\r\n", "binary": "\x80\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00AA",
	} {
		conn := newConn(s)
		conn.out = make([]byte, 0, 4096)
		input := []byte(in)
		n := testing.AllocsPerRun(100, func() {
			conn.out = conn.out[:0]
			if n, err := conn.session.Serve(input); n != len(input) || err != nil {
				t.Fatal(n, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
