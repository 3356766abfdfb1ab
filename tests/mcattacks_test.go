package tests

import (
	"bytes"
	be "encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// mcFrame is a binary request; the lengths in its head are those given, whatever the parts are.
func mcFrame(opcode byte, keyLen, extrasLen, bodyLen int, rest string) string {
	head := make([]byte, 24)
	head[0], head[1], head[4] = 0x80, opcode, byte(extrasLen)
	be.BigEndian.PutUint16(head[2:], uint16(keyLen))
	be.BigEndian.PutUint32(head[8:], uint32(bodyLen))
	return string(head) + rest
}

const mcNoop = "\x80\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func dialRaw(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// talkToEnd sends in, says that nothing follows unless the server is to close by itself, and returns everything that comes.
func talkToEnd(t *testing.T, address, in string, closes bool) string {
	t.Helper()
	conn := dialRaw(t, address)
	go func() {
		_, _ = io.WriteString(conn, in)
		if !closes {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	if closes {
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := io.ReadAll(conn)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("%.60q: the connection stays open after %.60q", in, got)
	}
	return string(got)
}

// statuses are the opcodes and statuses of binary answers, in hexadecimal.
func statuses(t *testing.T, got string) string {
	t.Helper()
	var out []string
	for len(got) >= 24 {
		n := 24 + int(be.BigEndian.Uint32([]byte(got[8:12])))
		if got[0] != 0x81 || n > len(got) {
			break
		}
		out = append(out, fmt.Sprintf("%02x:%02x", got[1], be.BigEndian.Uint16([]byte(got[6:8]))))
		got = got[n:]
	}
	if len(got) > 0 {
		out = append(out, fmt.Sprintf("%.20q", got))
	}
	return strings.Join(out, " ")
}

// TestMemcachedAttacks: broken frames, huge and endless requests, readers that do not read: the right error or a closed connection,
// bounded memory, and others are served as before.
func TestMemcachedAttacks(t *testing.T) {
	t.Parallel()
	s := testmysql.Shared(t, testmysql.MariaDB)
	schema := s.Schema(t)
	db := s.DB(t)
	mustExec(t, db, "CREATE TABLE "+schema+".t (k VARCHAR(64) PRIMARY KEY, v MEDIUMTEXT)")
	mustExec(t, db, "INSERT INTO "+schema+".t VALUES ('big', REPEAT('v', 1000000)), ('n', '0')")
	dir := t.TempDir()
	config, users := filepath.Join(dir, "binlogcache.yaml"), filepath.Join(dir, "users")
	for path, text := range map[string]string{
		config: fmt.Sprintf("containers:\n  - {name: t, schema: %s, table: t, key_columns: [k], value_columns: [v]}\n", schema), users: "u:p\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rows := start(t, s.DSN, schema+".t", "--config", config).waitReady()
	plain := start(t, s.DSN, schema+".t").waitReady()
	locked := start(t, s.DSN, schema+".t", "--memcached-auth-file", users).waitReady()
	before := rows.residentMB() + plain.residentMB() + locked.residentMB()

	set := func(n int) string { return mcFrame(0x01, 1, 8, n, "\x00\x00\x00\x00\x00\x00\x00\x00k") }
	for name, d := range map[string]*daemon{"rows": rows, "plain": plain} {
		// Binary frames whose lengths are wrong, and the protocols mixed.
		for _, c := range []struct {
			in, want string
			closes   bool
		}{
			{mcNoop + "get k\r\nget k\r\nget k\r\nget k\r\n", "0a:00", true},
			{mcNoop + "\x81" + mcNoop[1:], "0a:00", true},
			{mcNoop + mcFrame(0x00, 300, 0, 300, strings.Repeat("k", 300)) + mcNoop, "0a:00 00:04", true},
			{mcNoop + mcFrame(0x00, 10, 0, 4, "kkkk") + mcNoop, "0a:00 00:81", true},
			{mcNoop + mcFrame(0x00, 4, 4, 8, "xxxxkkkk") + mcNoop, "0a:00 00:04", true},
			{mcNoop + mcFrame(0x01, 1, 4, 8, "xxxxkvvv") + mcNoop, "0a:00 01:04", true},
			{mcNoop + mcFrame(0x01, 0, 8, 8, "xxxxxxxx") + mcNoop, "0a:00 01:04", true},
			{mcNoop + mcFrame(0x05, 1, 8, 9, "xxxxxxxxk") + mcNoop, "0a:00 05:04", true},
			{mcNoop + mcFrame(0x01, 1, 255, 300, strings.Repeat("x", 300)) + mcNoop, "0a:00 01:04", true},
			{mcNoop + set(0xffffffff) + strings.Repeat("x", 1000), "0a:00 01:04", true},
			{mcNoop + mcFrame(0x6f, 5, 3, 20, strings.Repeat("x", 20)) + mcNoop, "0a:00 6f:81 0a:00", false},
			{mcNoop[:23], "", false},
			{mcNoop + set(100) + "half", "0a:00", false},
		} {
			if got := statuses(t, talkToEnd(t, d.memcached, c.in, c.closes)); got != c.want {
				t.Errorf("%s: %.80q: %s, want %s", name, c.in, got, c.want)
			}
		}
		for _, c := range []struct {
			in, want string
			closes   bool
		}{
			{"get k\r\n" + mcNoop + "\r\nmn\r\n", "END\r\nERROR\r\nERROR\r\nMN\r\n", false}, // 0x0a ends a line
			{"set k 0 0 99999999999999999999\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"set k 0 0 4294967296\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"set k 0 0 -5\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"set k 0 0 1048577\r\n" + strings.Repeat("x", 1048577) + "\r\nmn\r\n", "SERVER_ERROR object too large for cache\r\nMN\r\n", false},
			{"set k 0 0 9 noreply\r\n123456789xxmn\r\n", "MN\r\n", false},
			{"set " + strings.Repeat("k", 251) + " 0 0 1\r\nx\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"get " + strings.Repeat("k", 251) + "\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"mg " + strings.Repeat("k", 251) + " v\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"ms k 2147483648 T0\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n", false},
			{"set k 0 0 5\r\nab", "", false},
			{strings.Repeat("x", 4000), "", true},
			{"set " + strings.Repeat("k", 4000), "", true},
			{"get " + strings.Repeat("k", 20000), "CLIENT_ERROR bad command line format\r\n", false},
		} {
			if got := talkToEnd(t, d.memcached, c.in, c.closes); got != c.want {
				t.Errorf("%s: %.60q: %.100q, want %q", name, c.in, got, c.want)
			}
		}

		// A line and a value without end.
		for _, head := range []string{"get ", "get k ", "set k 0 0 2147483645\r\n", set(1 << 30), "\x80\x01" + strings.Repeat("\x00", 30)} {
			conn := dialRaw(t, d.memcached)
			go func() {
				_, _ = io.WriteString(conn, head)
				chunk := bytes.Repeat([]byte("x"), 1<<20)
				for range 60 {
					if _, err := conn.Write(chunk); err != nil {
						return
					}
				}
				_ = conn.(*net.TCPConn).CloseWrite()
			}()
			if n, _ := io.Copy(io.Discard, conn); n > 1000 {
				t.Errorf("%s: %.20q without end: %d bytes of answers", name, head, n)
			}
		}

		// A thousand half values: what was announced is not set aside.
		for range 1000 {
			conn := dialRaw(t, d.memcached)
			if _, err := io.WriteString(conn, "set k 0 0 1000000\r\nhalf of it"); err != nil {
				t.Fatal(err)
			}
		}

		// Clients that ask for gigabytes and read nothing.
		key := "big"
		if d == plain {
			openMC(t, d.memcached).must("STORED\r\n", "set big 0 0 1000000\r\n%s\r\n", strings.Repeat("v", 1000000))
		}
		for _, request := range []string{strings.Repeat("get "+key+"\r\n", 2000), "get" + strings.Repeat(" "+key, 2000) + "\r\n", strings.Repeat("mg "+key+" v\r\n", 2000), strings.Repeat(mcFrame(0x00, 3, 0, 3, key), 2000)} {
			conn := dialRaw(t, d.memcached)
			go func() { _, _ = io.WriteString(conn, request) }()
		}
		time.Sleep(300 * time.Millisecond)
		request := "get n\r\n"
		if d == plain {
			request = "set n 0 0 1 noreply\r\n0\r\nget n\r\n"
		}
		openMC(t, d.memcached).must("VALUE n 0 1\r\n0\r\nEND\r\n", "%s", request)
	}

	// Pipelines of writes that nobody wants an answer to: all are made, in order.
	for d, n := range map[*daemon]int{plain: 1_000_000, rows: 500} {
		conn := dialRaw(t, d.memcached)
		go func() {
			var buf bytes.Buffer
			for i := range n {
				fmt.Fprintf(&buf, "set n 0 0 7 noreply\r\n%07d\r\n", i)
				if buf.Len() > 1<<16 || i == n-1 {
					if _, err := conn.Write(buf.Bytes()); err != nil {
						return
					}
					buf.Reset()
				}
			}
			_, _ = io.WriteString(conn, "get n\r\nquit\r\n")
		}()
		if got, err := io.ReadAll(conn); err != nil || string(got) != fmt.Sprintf("VALUE n 0 7\r\n%07d\r\nEND\r\n", n-1) {
			t.Errorf("after %d noreply: %.80q %v", n, got, err)
		}
	}
	quiet := strings.Repeat(mcFrame(0x09, 4, 0, 4, "none"), 300_000) + mcNoop
	if got := statuses(t, talkToEnd(t, plain.memcached, quiet, false)); got != "0a:00" {
		t.Errorf("quiet gets: %s", got)
	}

	// Who has not shown who he is.
	auth := func(text string) string {
		return mcFrame(0x21, 5, 0, 5+len(text), "PLAIN"+text)
	}
	for _, c := range []struct{ in, want string }{
		{mcFrame(0x00, 1, 0, 1, "k") + mcNoop, "00:20"},
		{auth("\x00u\x00wrong") + mcFrame(0x00, 1, 0, 1, "k"), "21:20 00:20"},
		{auth(strings.Repeat("x", 100_000)), "21:20"},
		{mcFrame(0x22, 5, 0, 9, "PLAINxxxx") + mcFrame(0x00, 1, 0, 1, "k"), "22:20 00:20"},
		{mcFrame(0x21, 9, 0, 9, "CRAM-MD5x") + mcFrame(0x00, 1, 0, 1, "k"), "21:20 00:20"},
		{auth("") + auth("\x00") + auth("\x00\x00") + mcFrame(0x00, 1, 0, 1, "k"), "21:20 21:20 21:20 00:20"},
	} {
		if got := statuses(t, talkToEnd(t, locked.memcached, c.in, true)); got != c.want {
			t.Errorf("%.40q: %s, want %s", c.in, got, c.want)
		}
	}
	if got := statuses(t, talkToEnd(t, locked.memcached, auth("\x00u\x00p")+mcFrame(0x00, 1, 0, 1, "k")+mcNoop, false)); got != "21:00 00:01 0a:00" {
		t.Errorf("after the login: %s", got)
	}
	for in, want := range map[string]string{
		"get k\r\n": "CLIENT_ERROR unauthenticated\r\n", "set k 0 0 3\r\nu q\r\nget k\r\n": "CLIENT_ERROR authentication failure\r\nCLIENT_ERROR unauthenticated\r\n",
		"set k 0 0 100000\r\n": "", strings.Repeat("x", 100_000): "",
	} {
		if got := talkToEnd(t, locked.memcached, in, false); !strings.HasPrefix(got, want) || strings.Contains(got, "END") {
			t.Errorf("%.40q: %q, want %q", in, got, want)
		}
	}

	// The race detector's shadow memory counts too.
	after := rows.residentMB() + plain.residentMB() + locked.residentMB()
	t.Logf("the daemons have %d MB, %d before", after, before)
	if after > before+900 {
		t.Errorf("the daemons have %d MB, %d before", after, before)
	}
}
