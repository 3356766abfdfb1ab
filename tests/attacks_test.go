package tests

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// residentMB is the daemon's resident memory.
func (d *daemon) residentMB() int {
	d.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		d.t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// TestAttacks: what one client can send to the HandlerSocket ports without end or beyond measure is bounded, and others are
// served as before.
func TestAttacks(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	schema := s.Schema(t)
	db := s.DB(t)
	mustExec(t, db, "CREATE TABLE "+schema+".t (id INT PRIMARY KEY, v MEDIUMTEXT)")
	mustExec(t, db, "INSERT INTO "+schema+".t VALUES (1, REPEAT('v', 1000000))")
	d := start(t, s.DSN, schema+".t").waitReady()
	open := "P\t0\t" + schema + "\tt\tPRIMARY\tid,v"
	before := d.residentMB()
	for _, address := range []string{d.handlerSocket, d.writePort} {
		dial := func() net.Conn {
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

		// Hundreds of thousands of open indexes (with a million it is the same): the first few thousand are opened, the others refused.
		const ids = 200_000
		conn := dial()
		answers := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(conn)
			answers <- b
		}()
		var buf bytes.Buffer
		for id := range ids {
			fmt.Fprintf(&buf, "P\t%d\t%s\tt\tPRIMARY\tid,v\n", id, schema)
			if buf.Len() > 1<<20 {
				if _, err := conn.Write(buf.Bytes()); err != nil {
					t.Fatal(err)
				}
				buf.Reset()
			}
		}
		buf.WriteString("7\t+\n199999\t=\t1\t1\n")
		if _, err := conn.Write(buf.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got := <-answers
		opened, refused := bytes.Count(got, []byte("0\t1\n")), bytes.Count(got, []byte("2\t1\tfld\n"))
		if opened+refused != ids || opened < 1000 || opened > 100_000 || !bytes.HasSuffix(got, []byte("2\t1\tklen\n2\t1\tstmtnum\n")) {
			t.Errorf("%d opened, %d refused; end %q", opened, refused, got[max(0, len(got)-40):])
		}

		// A line of 100 MB.
		conn = dial()
		go func() {
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			_, _ = conn.Write([]byte(open + "\n0\t+\t2\t5\t"))
			for range 100 {
				if _, err := conn.Write(chunk); err != nil {
					return // closed on us, as it should be
				}
			}
		}()
		if got, _ := io.ReadAll(conn); string(got) != "0\t1\n2\t1\tline\n" {
			t.Errorf("a line of 100 MB: %.60q", got)
		}

		c := openHS(t, address, open)

		// Halves of requests, which are bounded for all together; nobody else notices.
		var halves []net.Conn
		half := append([]byte("0\t=\t1\t"), bytes.Repeat([]byte("x"), 14<<20)...)
		for range 20 {
			conn := dial()
			halves = append(halves, conn)
			_, _ = conn.Write(half) // it may be closed meanwhile
		}
		c.mustAsk(t, "0\t=\t1\t2", "0\t2")
		listener := map[bool]string{true: "handlersocket-write", false: "handlersocket-read"}[address == d.writePort]
		eventually(t, "connections to be closed that hold half requests", func() error {
			if n := d.metric(`connections_closed_total{cause="memory",listener="` + listener + `"}`); n < 2 || n > 19 {
				return fmt.Errorf("%v were closed", n)
			}
			return nil
		})
		for _, conn := range halves {
			conn.Close()
		}
		if n := d.metric(`handlersocket_limits_total{limit="open_indexes",listener="` + listener + `"}`); n < ids/2 {
			t.Errorf("%v refused indexes are counted", n)
		}

		c.mustAsk(t, "0\t=\t1\t1\t1\t0\t@\t0\t4294967295\t1", "2\t1\tinvalueslen")
		c.mustAsk(t, "0\t=\t1\t1\t1\t0\t@\t0\t4294967295\t1\tU\t1", "2\t1\tinvalueslen")
		c.mustAsk(t, "P\t4294967295\t"+schema+"\tt\tPRIMARY\tid", "2\t1\tstmtnum")
		c.mustAsk(t, "4294967295\t=\t1\t1", "2\t1\tstmtnum")
		c.mustAsk(t, "0\t=\t4294967295\t1", "2\t1\tfldnum")
		c.mustAsk(t, "0\t+\t4294967295\t1", "2\t1\tfldnum")
		c.mustAsk(t, "0\t>=\t1\t1\t4294967295\t4294967295", "0\t2")

		// A client that asks for 2 GB and reads nothing; others are served meanwhile.
		conn = dial()
		go func() {
			_, _ = conn.Write([]byte(open + "\n" + strings.Repeat("0\t=\t1\t1\n", 2000)))
		}()
		time.Sleep(300 * time.Millisecond)
		c.mustAsk(t, "0\t=\t1\t2", "0\t2")
	}
	// The race detector's shadow memory counts too.
	if after := d.residentMB(); after > before+1000 {
		t.Errorf("the daemon has %d MB, %d before", after, before)
	} else {
		t.Logf("the daemon has %d MB, %d before", after, before)
	}
}
