package mcserver

import (
	"reflect"
	"strings"
	"testing"
)

// TestWriteRequest checks what arrives where writing is to be done.
func TestWriteRequest(t *testing.T) {
	meta := func(m metaRequest) metaRequest {
		if m.delta == 0 {
			m.delta = 1
		}
		return m
	}
	tests := []struct {
		in   string
		want writeRequest
	}{
		{"set k 5 100 3\r\nabc\r\n", writeRequest{cmd: cmdSet, key: []byte("k"), flags: 5, exptime: 100, length: 3}},
		{"  add  k  4294967295  -1  0  \r\n\r\n", writeRequest{cmd: cmdAdd, key: []byte("k"), flags: 4294967295, exptime: -1}},
		{"replace k 4294967297 0 1 noreply\r\nx\r\n", writeRequest{cmd: cmdReplace, key: []byte("k"), flags: 1, length: 1, noreply: true}},
		{"append k 0 0 1\nx\r\n", writeRequest{cmd: cmdAppend, key: []byte("k"), length: 1}},
		{"prepend k 0 0 1\r\nx\r\n", writeRequest{cmd: cmdPrepend, key: []byte("k"), length: 1}},
		{"cas k 1 2 3 18446744073709551615 noreply\r\nabc\r\n", writeRequest{cmd: cmdCAS, key: []byte("k"), flags: 1, exptime: 2, length: 3, cas: 18446744073709551615, noreply: true}},
		{"incr k 18446744073709551615\r\n", writeRequest{cmd: cmdIncr, key: []byte("k"), delta: 18446744073709551615}},
		{"decr k 5 noreply\r\n", writeRequest{cmd: cmdDecr, key: []byte("k"), delta: 5, noreply: true}},
		{"delete k\r\n", writeRequest{cmd: cmdDelete, key: []byte("k")}},
		{"delete k 0 noreply\r\n", writeRequest{cmd: cmdDelete, key: []byte("k"), noreply: true}},
		{"touch k -1\r\n", writeRequest{cmd: cmdTouch, key: []byte("k"), exptime: -1}},
		{"gats 7 a b\r\n", writeRequest{cmd: cmdGATS, key: []byte(" a b"), exptime: 7}},
		{"flush_all\r\n", writeRequest{cmd: cmdFlushAll}},
		{"flush_all noreply\r\n", writeRequest{cmd: cmdFlushAll, noreply: true}},
		{"flush_all 10 noreply\r\n", writeRequest{cmd: cmdFlushAll, exptime: 10, noreply: true}},
		{"ms k 2 F5 T60 MA I C7 E8 q O1\r\nhi\r\n", writeRequest{cmd: cmdMetaSet, key: []byte("k"), length: 2, meta: meta(metaRequest{
			key: []byte("k"), args: []byte(" F5 T60 MA I C7 E8 q O1"), flags: 5, touch: true, exptime: 60, mode: 'A', stale: true, hasCAS: true, cas: 7, hasNewCAS: true, newCAS: 8, quiet: true,
		})}},
		{"ms aw== 0 b S\r\n\r\nmn\r\n", writeRequest{}}, // S is no flag
		{"md k x N5 q\r\n", writeRequest{cmd: cmdMetaDelete, key: []byte("k"), meta: meta(metaRequest{
			key: []byte("k"), args: []byte(" x N5 q"), dropValue: true, vivify: true, vivifyFor: 5, quiet: true,
		})}},
		{"ma k D10 J20 M- v\r\n", writeRequest{cmd: cmdMetaArithmetic, key: []byte("k"), meta: meta(metaRequest{
			key: []byte("k"), args: []byte(" D10 J20 M- v"), delta: 10, initial: 20, mode: '-', value: true,
		})}},
	}
	for _, tt := range tests {
		s, _ := demoServer(t, CompatSafe)
		conn := newConn(s)
		// The last byte is sent alone, so that a data block is waited for.
		conn.send(t, tt.in[:len(tt.in)-1])
		got := conn.session.(*session)
		if tt.want.length > 0 && (got.state != stateBlock || conn.inputLimit < tt.want.length+2) {
			t.Errorf("%q: state %d, input limit %d", tt.in, got.state, conn.inputLimit)
		}
		answer := conn.send(t, tt.in[len(tt.in)-1:])
		if tt.want.cmd == cmdUnknown {
			continue
		}
		w := got.pending
		// A line's key is gone with the line, a data block's is kept.
		if tt.want.length == 0 && tt.want.cmd != cmdAdd {
			if len(w.key) != len(tt.want.key) || len(w.meta.args) != len(tt.want.meta.args) {
				t.Errorf("%q: key of %d bytes, flags of %d", tt.in, len(w.key), len(w.meta.args))
			}
			w.key, w.meta.key, w.meta.args = tt.want.key, tt.want.meta.key, tt.want.meta.args
		}
		if tt.want.meta.key == nil {
			w.meta = metaRequest{}
		}
		if !reflect.DeepEqual(w, tt.want) {
			t.Errorf("%q:\ngot  %+v\nwant %+v", tt.in, w, tt.want)
		}
		if refused := strings.HasSuffix(answer, errNoWriting+"\r\n"); refused == tt.want.noreply {
			t.Errorf("%q: answer %q", tt.in, answer)
		}
		if conn.inputLimit != inputLimitBytes || got.state != stateText {
			t.Errorf("%q: state %d, input limit %d afterwards", tt.in, got.state, conn.inputLimit)
		}
	}
}
