package mcserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// startMemcached starts a memcached of its own for the test and returns its address.
func startMemcached(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("memcached")
	if err != nil {
		t.Fatal("memcached is not installed: scripts/install-deps.sh does that")
	}
	port, err := testmysql.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "-l", "127.0.0.1", "-p", fmt.Sprint(port), "-U", "0", "-u", "root")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its error is the kill
	})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	for range 200 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("memcached does not answer: %s", log.String())
	return ""
}

// The barrier has an answer that ends nothing else.
const barrier, barrierAnswer = "mg barrier O314159\r\n", "EN O314159\r\n"

// converse sends in, which ends with the barrier or makes the server close, and reads up to the barrier's answer or the
// end of the connection.
func converse(t *testing.T, addr, in string) (answer string, closed bool) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, in); err != nil {
		t.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		if bytes.HasSuffix(got, []byte(barrierAnswer)) {
			return string(got), false
		}
		if err != nil {
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				t.Fatalf("%q: no more answer after %q", in, got)
			}
			return string(got), true
		}
	}
}

// TestAsMemcached compares what needs no rows with a real memcached.
func TestAsMemcached(t *testing.T) {
	addr := startMemcached(t)
	s := New(Config{Reader: testReader{}})
	if _, err := s.SetContainers(t.Context(), ContainerSet{}); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{
		"mn\r\n", "mn \r\n", "mn\r\nmn\r\n",
		"nosuch\r\n", "nosuch a b c\r\n", "GET a\r\n", "getx a\r\n", "setter 0 0 0\r\n", "mx a\r\n", "\r\n", "x\r\n", "  \r\n",
		"get\r\n", "gets\r\n", "get \r\n", "set a\r\n", "incr\r\n", "incr a\r\n", "decr a\r\n", "touch a\r\n", "delete\r\n", "gat\r\n",
		"mg\r\n", "ms\r\n", "md\r\n", "ma\r\n", "me\r\n", "ms a\r\n", "ms a x\r\n", "ms a -1\r\n",
		"get a\r\n", "gets a b c\r\n", "  get   a   b  \r\n", "get a\nget b\n", "get " + key250 + "\r\n",
		"mg a\r\n", "mg a v\r\n", "mg a v k O7\r\n", "mg a O7 k q\r\n", "mg a k O" + strings.Repeat("x", 31) + "\r\n", "mg YQ== b k\r\n", "mg a h l u t s f c\r\n", "mg a v Lage=500\r\n", "mg a v k Lage P\r\n", "mg a Lage L\r\n",
		"mg a v v\r\n", "mg a Z\r\n", "mg a Tx\r\n", "mg a R\r\n", "mg a O" + strings.Repeat("x", 32) + "\r\n", "mg ===x b\r\n", "me a\r\n",
		"mg " + key251 + " v\r\n", "delete " + key251 + "\r\n", "incr " + key251 + " 1\r\n", "touch " + key251 + " 1\r\n",
		"verbosity 0\r\n", "verbosity\r\n", "verbosity x\r\n", "verbosity 0 noreply\r\n",
		"incr a x\r\n", "incr a -1\r\n", "decr a 18446744073709551616\r\n", "incr a x noreply\r\n", "touch a x\r\n", "touch a x noreply\r\n", "gat x a\r\n", "flush_all x\r\n",
		"set a 0 0 x\r\n", "set a 0 0 -1\r\n", "set a 0 0 2147483647\r\n", "set a 0 0\r\n",
		"set a 0 0 3\r\nabcdefghijkl\r\n", "set a 0 0 1\r\nxy\r\nmn\r\n",
		"set a 0 0 1048576\r\n" + strings.Repeat("x", 1048576) + "\r\n",
		"ms a 2 T0 T1\r\nxx\r\n", "ms a 1 Z\r\nx\r\n", "ms a 1 Tq\r\nx\r\n", "ms a 1 MX\r\nx\r\n", "ms a 2 q\r\nabcd\r\n",
		"stats nosuch\r\n", "stats reset\r\n", "stats detail\r\n", "stats detail dump\r\n",
		"shutdown\r\n",
		"GET / HTTP/1.1\r\n", "POST /x HTTP/1.0\r\n", "quit\r\n", "get a\r\nquit\r\nget b\r\n",
		"x" + strings.Repeat("y", 3000), "set " + strings.Repeat("y", 3000),
		"get " + strings.Repeat("abcdefgh ", 5000) + "\r\n",
	} {
		if strings.HasSuffix(in, "\n") {
			in += barrier
		}
		want, wantClosed := converse(t, addr, in)
		conn := newConn(s)
		got := conn.send(t, in)
		closed := conn.closed == netserver.ErrClose
		if sameAnswer(got) != sameAnswer(want) || closed != wantClosed {
			t.Errorf("%.60q: %q, closed %v\nmemcached: %q, closed %v", in, got, closed, want, wantClosed)
		}
	}
	version, _ := converse(t, addr, "version\r\n"+barrier)
	if got := newConn(s).send(t, "version\r\n"); !strings.HasPrefix(version, "VERSION ") || !strings.HasPrefix(got, "VERSION ") {
		t.Errorf("version: %q, memcached %q", got, version)
	}
}

// sameAnswer makes alike what differs between the versions of memcached: which of the two lines says that a line is no
// command, and how shutdown is refused.
func sameAnswer(s string) string {
	return strings.NewReplacer("CLIENT_ERROR bad command line format\r\n", "E\r\n", "SERVER_ERROR: shutdown", "S: shutdown", "ERROR: shutdown", "S: shutdown",
		"ERROR\r\n", "E\r\n").Replace(s)
}
