package mcserver

import (
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/netserver"
)

var (
	key250 = strings.Repeat("k", 250)
	key251 = strings.Repeat("k", 251)
)

// textCases are whole conversations of one connection over demoServer. All of them are also played with the input cut at
// every byte, and with every answer coming from the database.
var textCases = []struct {
	name, in, want string
	// version: the answer holds a row's version, which there is only in memory.
	version bool
	closes  bool
}{
	{name: "hit", in: "get AA\r\n", want: "VALUE AA 8 5\r\nHELLO\r\nEND\r\n"},
	{name: "line feed alone", in: "get AA\nget AA\n", want: "VALUE AA 8 5\r\nHELLO\r\nEND\r\nVALUE AA 8 5\r\nHELLO\r\nEND\r\n"},
	{name: "miss", in: "get zz\r\n", want: "END\r\n"},
	{name: "cas column", in: "gets BB\r\n", want: "VALUE BB 10 7 1\r\nGOODBYE\r\nEND\r\n"},
	{name: "several keys, in order, twice", in: "get BB zz AA BB\r\n", want: "VALUE BB 10 7\r\nGOODBYE\r\nVALUE AA 8 5\r\nHELLO\r\nVALUE BB 10 7\r\nGOODBYE\r\nEND\r\n"},
	{name: "blanks", in: "  get   AA   BB  \r\n", want: "VALUE AA 8 5\r\nHELLO\r\nVALUE BB 10 7\r\nGOODBYE\r\nEND\r\n"},
	{name: "time is over", in: "get OLD AA\r\n", want: "VALUE AA 8 5\r\nHELLO\r\nEND\r\n"},
	{name: "NULL everywhere", in: "gets NUL\r\n", want: "VALUE NUL 0 0 0\r\n\r\nEND\r\n"},
	{name: "empty value", in: "get empty\r\n", want: "VALUE empty 0 0\r\n\r\nEND\r\n"},
	{name: "flags in a signed column, largest cas", in: "gets NEG\r\n", want: "VALUE NEG 4294967295 1 18446744073709551615\r\nv\r\nEND\r\n"},
	{name: "pipelined", in: "get AA\r\nmn\r\nget zz\r\nversion\r\n", want: "VALUE AA 8 5\r\nHELLO\r\nEND\r\nMN\r\nEND\r\nVERSION 1.6.45\r\n"},

	{name: "switch with key", in: "get @@city.1\r\nget 2\r\n", want: "VALUE @@city.1 0 22\r\nBangalore|Karnataka|12\r\nEND\r\nVALUE 2 0 10\r\nChennai||0\r\nEND\r\n"},
	{name: "switch alone", in: "gets @@city\r\nget 3\r\n", want: "VALUE @@city 0 8 0\r\napp/city\r\nEND\r\nVALUE 3 0 11\r\nDelhi||1000\r\nEND\r\n"},
	{name: "switch with an empty key", in: "get @@city.\r\n", want: "VALUE @@city. 0 8\r\napp/city\r\nEND\r\n"},
	{name: "switch to an unknown name stays", in: "get @@nope.1\r\nget AA\r\n", want: "END\r\nVALUE AA 8 5\r\nHELLO\r\nEND\r\n"},
	{name: "three bytes are no switch", in: "get @@c\r\nget AA\r\n", want: "END\r\nVALUE AA 8 5\r\nHELLO\r\nEND\r\n"},
	{name: "switch at the first key only", in: "get @@city.1 @@demo.AA @@city.2\r\n", want: "VALUE @@city.1 0 22\r\nBangalore|Karnataka|12\r\nVALUE @@city.2 0 10\r\nChennai||0\r\nEND\r\n"},
	{name: "unknown name first", in: "get @@nope.1 @@city.2\r\n", want: "VALUE @@city.2 0 10\r\nChennai||0\r\nEND\r\n"},
	{name: "bind", in: "bind city\r\nget 3\r\nbind nope\r\nbind\r\n", want: "SUCCEED\r\nVALUE 3 0 11\r\nDelhi||1000\r\nEND\r\nNOT_FOUND\r\nCLIENT_ERROR bad command line format\r\n"},

	{name: "integer keys", in: "bind city\r\nget 03 +3 3abc x -3 99999999999999999999999 2147483648\r\n", want: "SUCCEED\r\nVALUE 03 0 11\r\nDelhi||1000\r\nVALUE +3 0 11\r\nDelhi||1000\r\nEND\r\n"},
	{name: "key longer than the column", in: "bind chars\r\nget abcde a b c\r\n", want: "SUCCEED\r\nVALUE a 0 2\r\nxy\r\nVALUE b 0 0\r\n\r\nVALUE c 0 0\r\n\r\nEND\r\n"},

	{name: "range above", in: "bind city\r\nget @>1\r\n", want: "SUCCEED\r\nVALUE 2 0 10\r\nChennai||0\r\nVALUE 3 0 11\r\nDelhi||1000\r\nEND\r\n"},
	{name: "range from", in: "bind city\r\nget @>=3\r\n", want: "SUCCEED\r\nVALUE 3 0 11\r\nDelhi||1000\r\nEND\r\n"},
	{name: "range below", in: "bind city\r\nget @<3\r\n", want: "SUCCEED\r\nVALUE 1 0 22\r\nBangalore|Karnataka|12\r\nVALUE 2 0 10\r\nChennai||0\r\nEND\r\n"},
	{name: "range up to", in: "bind city\r\nget @<=2\r\n", want: "SUCCEED\r\nVALUE 1 0 22\r\nBangalore|Karnataka|12\r\nVALUE 2 0 10\r\nChennai||0\r\nEND\r\n"},
	{name: "range with two ends", in: "bind city\r\nget @>=1@<3\r\nget @<=2@>1\r\n", want: "SUCCEED\r\nVALUE 1 0 22\r\nBangalore|Karnataka|12\r\nVALUE 2 0 10\r\nChennai||0\r\nEND\r\nVALUE 2 0 10\r\nChennai||0\r\nEND\r\n"},
	{
		name: "range beyond the column", in: "bind city\r\nget @>-99999999999\r\nget @<-99999999999\r\nget @>99999999999\r\nget @<99999999999@>2\r\nget @>x\r\n",
		want: "SUCCEED\r\nVALUE 1 0 22\r\nBangalore|Karnataka|12\r\nVALUE 2 0 10\r\nChennai||0\r\nVALUE 3 0 11\r\nDelhi||1000\r\nEND\r\n" +
			"END\r\nEND\r\nVALUE 3 0 11\r\nDelhi||1000\r\nEND\r\nEND\r\n",
	},
	{name: "range leaves out what is over", in: "get @>NUL\r\n", want: "VALUE empty 0 0\r\n\r\nEND\r\n"},
	{name: "range after a name", in: "get @@city.@>2\r\n", want: "VALUE 3 0 11\r\nDelhi||1000\r\nEND\r\n"},

	{name: "unknown commands", in: "nosuch a\r\nGET AA\r\ngetx a\r\n\r\nx\r\n \r\n", want: "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
	{name: "unknown with noreply", in: "nosuch noreply\r\nmn\r\n", want: "MN\r\n"},
	{
		name: "too few tokens", in: "get\r\ngets \r\nset a\r\nincr\r\nincr a\r\ntouch a\r\ndelete\r\nverbosity\r\ngat\r\ngat 100\r\nmg\r\nms\r\nms a\r\nmd\r\nma\r\nme\r\n",
		want: strings.Repeat("CLIENT_ERROR bad command line format\r\n", 16),
	},
	{name: "http", in: "GET / HTTP/1.1\r\nget AA\r\n", want: "", closes: true},
	{name: "quit", in: "get AA\r\nquit\r\nget AA\r\n", want: "VALUE AA 8 5\r\nHELLO\r\nEND\r\n", closes: true},
	{name: "verbosity", in: "verbosity 1\r\nverbosity x\r\nverbosity 0 noreply\r\nmn\r\n", want: "OK\r\nCLIENT_ERROR bad command line format\r\nMN\r\n"},
	{name: "shutdown", in: "shutdown\r\n", want: "SERVER_ERROR: shutdown not enabled\r\n"},

	{name: "longest key", in: "get " + key250 + "\r\n", want: "END\r\n"},
	{name: "key too long takes all answers", in: "get AA " + key251 + " BB\r\nmn\r\n", want: "CLIENT_ERROR bad command line format\r\nMN\r\n"},
	{
		name: "key too long, others", in: "delete " + key251 + "\r\nincr " + key251 + " 1\r\ntouch " + key251 + " 1\r\nmg " + key251 + " v\r\ngat 1 " + key251 + "\r\nset " + key251 + " 0 0 5\r\nhello\r\nmn\r\n",
		want: strings.Repeat("CLIENT_ERROR bad command line format\r\n", 6) + "MN\r\n",
	},
	{name: "line too long", in: "set " + strings.Repeat("x", 2100), want: "", closes: true},
	{name: "line too long that has ended", in: "mn" + strings.Repeat(" ", 2100) + "\r\nmn\r\n", want: "", closes: true},
	{name: "get line of any length", in: "get" + strings.Repeat(" none", 20000) + " AA\r\nmn\r\n", want: "VALUE AA 8 5\r\nHELLO\r\nEND\r\nMN\r\n"},
	{
		name: "bad key in a very long get line", in: "get AA" + strings.Repeat(" none", 20000) + " " + strings.Repeat("k", 3000) + " BB\r\nmn\r\n",
		want: "VALUE AA 8 5\r\nHELLO\r\nCLIENT_ERROR bad command line format\r\nMN\r\n",
	},

	{
		name: "writing is refused", in: "set a 1 2 5\r\nhello\r\nadd a 1 2 0\r\n\r\ncas a 1 2 3 4\r\nabc\r\nappend a 0 0 1\r\nx\r\nincr a 1\r\ndelete a\r\ndelete a 0\r\ntouch a 1\r\ngat 1 a\r\nflush_all\r\nflush_all 10\r\nms a 2\r\nhi\r\nmd a q\r\nma a D5\r\nmg AA T30\r\nmn\r\n",
		want: strings.Repeat(errNoWriting+"\r\n", 15) + "MN\r\n",
	},
	{name: "data that looks like commands", in: "set a 0 0 12\r\nget AA\r\nmn\r\n\r\nmn\r\n", want: errNoWriting + "\r\nMN\r\n"},
	{
		name: "noreply", in: "set a 0 0 5 noreply\r\nhello\r\ndelete a noreply\r\nincr a 1 noreply\r\nincr a x noreply\r\ntouch a x noreply\r\nflush_all noreply\r\nset a x 0 1 noreply\r\n1\r\nset a 0 0 1 noreply\r\n123\r\nmn\r\n",
		want: "ERROR\r\nMN\r\n",
	},
	{name: "bad data chunk", in: "set a 0 0 3\r\nabcdefghijkl\r\nmn\r\n", want: "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
	{name: "data ended by line feed", in: "set a 0 0 1\r\nx\nmn\r\n", want: "CLIENT_ERROR bad data chunk\r\nERROR\r\n"},
	{name: "bad lengths", in: "set a 0 0 -3\r\nset a 0 0 abc\r\nset a 0 0 2147483647\r\nset a 0 0\r\nms a -1\r\nms a x\r\nmn\r\n", want: strings.Repeat("CLIENT_ERROR bad command line format\r\n", 6) + "MN\r\n"},
	{
		name: "bad numbers, the data is passed over", in: "set a flag 0 2\r\nmn\r\nset a -1 0 2\r\nmn\r\nset a 0 soon 2\r\nmn\r\ncas a 0 0 2 x\r\nmn\r\ncas a 0 0 2\r\nmn\r\n",
		want: strings.Repeat("CLIENT_ERROR bad command line format\r\n", 5),
	},
	{name: "flags of more than 32 bits", in: "set a 4294967296 0 2\r\nmn\r\n", want: errNoWriting + "\r\n"},
	{name: "too large", in: "set a 0 0 1048576\r\n" + strings.Repeat("x", 1048576) + "\r\nmn\r\n", want: "SERVER_ERROR object too large for cache\r\nMN\r\n"},
	{
		name: "bad arguments", in: "incr a -1\r\nincr a 3x\r\ndecr a 18446744073709551616\r\ndelete a 5\r\ndelete a 0 x\r\ntouch a x\r\ngat soon a\r\nflush_all b\r\n",
		want: strings.Repeat("CLIENT_ERROR invalid numeric delta argument\r\n", 3) + strings.Repeat(errDeleteUsage+"\r\n", 2) + strings.Repeat("CLIENT_ERROR invalid exptime argument\r\n", 3),
	},

	{
		name: "mg", in: "mg AA\r\nmg AA v\r\nmg AA s v f c t k O12\r\nmg zz v\r\nmg zz k O9 v\r\n",
		want: "HD\r\nVA 5\r\nHELLO\r\nVA 5 s5 f8 c0 t-1 kAA O12\r\nHELLO\r\nEN\r\nEN kzz O9\r\n",
	},
	{name: "mg of item state", in: "mg AA h l u R30 E5 P1 Lpath\r\n", want: "HD h1 l0\r\n"},
	{name: "mg q", in: "mg zz v q k O1\r\nmg BB v q k O2\r\nmg zz q O3\r\nmn\r\n", want: "VA 7 kBB O2\r\nGOODBYE\r\nMN\r\n"},
	{name: "mg b", in: "mg QUE= b v k\r\nmg enp6 b k O1\r\nmg ===x b v\r\n", want: "VA 5 kQUE= b\r\nHELLO\r\nEN kenp6 b O1\r\nCLIENT_ERROR error decoding key\r\n"},
	{name: "mg C", in: "mg BB v c C1\r\nmg BB v c C2\r\nmg BB v Cxy\r\n", want: "HD c1\r\nVA 7 c1\r\nGOODBYE\r\nCLIENT_ERROR bad token in command line format\r\n"},
	{name: "mg N", in: "mg AA N30\r\nmg zz N30\r\n", want: "HD\r\n" + errNoVivify + "\r\n"},
	{name: "mg switches", in: "mg @@city.3 v k\r\nmg 1 s\r\nmg @@demo v\r\n", want: "VA 11 k@@city.3\r\nDelhi||1000\r\nHD s22\r\nVA 8\r\napp/demo\r\n"},
	{name: "me", in: "me NEG\r\nme zz\r\nme QUE= b\r\n", want: "", version: true},
	{
		name: "meta errors", in: "mg a v v\r\nmg a !\r\nmg a O" + strings.Repeat("x", 31) + "\r\nmg a O" + strings.Repeat("x", 32) + "\r\nmg a R\r\nmx a\r\nmg a " + strings.Repeat("v ", 20) + "\r\n",
		want: "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\nEN O" + strings.Repeat("x", 31) + "\r\nCLIENT_ERROR opaque token too long\r\nCLIENT_ERROR bad token in command line format\r\nERROR\r\nCLIENT_ERROR duplicate flag\r\n",
	},
	{
		name: "ms errors pass over the data", in: "ms a 2 T0 T1\r\nmn\r\nms a 2 Z\r\nmn\r\nms a 2 Tq\r\nmn\r\nms a 2 MX\r\nmn\r\nms a 2 Fz\r\nmn\r\nms " + key251 + " 2\r\nmn\r\nms a 2 q\r\nabcd\r\nmn\r\n",
		want: "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\nCLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR invalid mode for ms M token\r\n" +
			"CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n",
	},
	{name: "ma errors", in: "ma a Dx\r\nma a MZ\r\nma a N0 Jx\r\nmd a Cx\r\n", want: "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid mode for ma M token\r\nCLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate flag\r\n"},

	{
		name: "stats", in: "stats reset\r\nstats nosuch\r\nstats items\r\nstats cachedump 1 2\r\nstats sizes\r\nstats detail dump\r\nstats detail\r\n",
		want: "RESET\r\nERROR\r\nEND\r\nCLIENT_ERROR stats cachedump not allowed\r\nSTAT sizes_status disabled\r\nEND\r\nEND\r\nCLIENT_ERROR usage: stats detail on|off|dump\r\n",
	},
	{name: "binary bytes on a text connection", in: "mn\r\n\x80\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\r\nmn\r\n", want: "MN\r\nERROR\r\nERROR\r\nMN\r\n"},
}

func TestText(t *testing.T) {
	for _, c := range textCases {
		t.Run(c.name, func(t *testing.T) {
			s, _ := demoServer(t, CompatSafe)
			conn := newConn(s)
			got := conn.send(t, c.in)
			if c.want != "" && got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if c.closes != (conn.closed == netserver.ErrClose) {
				t.Errorf("closed: %v", conn.closed)
			}
			if conn.parks > 0 && !strings.Contains(c.in, "@<") && !strings.Contains(c.in, "@>") {
				t.Errorf("%d requests were parked though memory has the answer", conn.parks)
			}
		})
	}
}

// TestTextFromDatabase plays the cases with a database in place of memory: the answers are the same, and each line is
// parked at most once.
func TestTextFromDatabase(t *testing.T) {
	for _, c := range textCases {
		t.Run(c.name, func(t *testing.T) {
			s, reader := demoServer(t, CompatSafe)
			want := newConn(s).send(t, c.in)
			for _, table := range reader {
				table.inMemory.Store(false)
			}
			conn := newConn(s)
			got := conn.send(t, c.in)
			if !c.version && got != want {
				t.Errorf("from memory   %q\nfrom database %q", want, got)
			}
			// A very long line is answered in as many pieces as it arrives in, and by one job each.
			if lines := strings.Count(c.in, "\n"); conn.parks > lines {
				t.Errorf("%d jobs for %d lines", conn.parks, lines)
			}
		})
	}
}

// TestTextCut sends every case in two parts, cut at every byte, and byte by byte.
func TestTextCut(t *testing.T) {
	for _, c := range textCases {
		if len(c.in) > 5000 {
			continue // as long inputs are cut by their own test
		}
		t.Run(c.name, func(t *testing.T) {
			s, _ := demoServer(t, CompatSafe)
			whole := newConn(s)
			want := whole.send(t, c.in)
			for i := 1; i < len(c.in); i++ {
				conn := newConn(s)
				if got := conn.send(t, c.in[:i]) + conn.send(t, c.in[i:]); got != want || conn.closed != whole.closed {
					t.Fatalf("cut at %d: got %q, closed %v\nwant %q, closed %v", i, got, conn.closed, want, whole.closed)
				}
			}
			conn := newConn(s)
			var got strings.Builder
			for i := range len(c.in) {
				got.WriteString(conn.send(t, c.in[i:i+1]))
			}
			if got.String() != want || conn.closed != whole.closed {
				t.Fatalf("byte by byte: got %q, closed %v\nwant %q, closed %v", got.String(), conn.closed, want, whole.closed)
			}
		})
	}
}

// TestLongInputsCut cuts what is too long to be cut at every byte.
func TestLongInputsCut(t *testing.T) {
	for _, c := range textCases {
		if len(c.in) <= 5000 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s, _ := demoServer(t, CompatSafe)
			want := newConn(s).send(t, c.in)
			for _, size := range []int{1000, 1447, 65536} {
				conn := newConn(s)
				var got strings.Builder
				for rest := c.in; len(rest) > 0; {
					n := min(size, len(rest))
					got.WriteString(conn.send(t, rest[:n]))
					rest = rest[n:]
				}
				if got.String() != want {
					t.Errorf("in pieces of %d: %.200q, want %.200q", size, got.String(), want)
				}
			}
		})
	}
}

// TestOutputLimit checks that a long multiple get is answered in parts no larger than the output may grow, from memory
// and from the database.
func TestOutputLimit(t *testing.T) {
	s, reader := demoServer(t, CompatSafe)
	in := "get" + strings.Repeat(" BB AA", 500) + "\r\nmn\r\n"
	want := newConn(s).send(t, in)
	for _, memory := range []bool{true, false} {
		reader["app.demo"].inMemory.Store(memory)
		conn := newConn(s)
		conn.limit = 100
		largest := 0
		conn.in = []byte(in)
		var got strings.Builder
		for range 5000 {
			before := len(conn.in)
			n, err := conn.session.Serve(conn.in)
			if err != nil {
				t.Fatal(err)
			}
			conn.in = conn.in[n:]
			out := conn.out
			conn.out = nil
			if conn.job != nil {
				job := conn.job
				conn.job = nil
				out = append(out, job(t.Context(), nil)...)
			}
			largest = max(largest, len(out))
			got.Write(out)
			if len(conn.in) == 0 || len(conn.in) == before && len(out) == 0 {
				break
			}
		}
		if got.String() != want {
			t.Errorf("memory %v: answer of %d bytes, want %d", memory, got.Len(), len(want))
		}
		if largest > 250 {
			t.Errorf("memory %v: %d bytes in one part", memory, largest)
		}
	}
}
