package canal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Large rows, also those whose events are sent in several packets, arrive whole; those of tables that are not followed are
// passed over.
func TestLargeEvents(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		elsewhere := s.Schema(t)
		r := newRig(t, s, "CREATE TABLE w (id INT PRIMARY KEY, v LONGBLOB, n INT)", "CREATE TABLE "+elsewhere+".w LIKE w",
			"INSERT INTO w VALUES (1, REPEAT('a', 3000000), 1)")
		if s.Flavor == testmysql.MySQL {
			r.exec("SET SESSION binlog_rows_query_log_events = ON") // and a text in the log for each statement
		}
		r.start(nil, nil)
		r.same("w")
		for _, sql := range []string{
			"BEGIN",
			"INSERT INTO w VALUES (9, '" + strings.Repeat("x", 3_000_000) + "', 9)",
			"INSERT INTO " + elsewhere + ".w VALUES (1, REPEAT('e', 9000000), 1)",
			"INSERT INTO w VALUES (2, REPEAT('b', 9000000), 2), (3, NULL, 3), (4, REPEAT('d', 1048577), 4)",
			"UPDATE " + elsewhere + ".w SET v = REPEAT('f', 9000000)",
			"UPDATE w SET v = REPEAT('c', 9500000), n = n + 10 WHERE id < 4",
			"COMMIT",
			"DELETE FROM w WHERE id = 1",
			"UPDATE w SET n = 5 WHERE id = 4",
		} {
			r.exec(sql)
		}
		r.same("w")
		if st := r.f.Status(); st.Loads != 1 || len(st.Reconnects) != 0 {
			t.Errorf("loads %d, reconnects %v", st.Loads, st.Reconnects)
		}
	})
}

// Events whose packets are as large as packets can be, one byte less and one more.
func TestPacketBoundaries(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE w (id INT PRIMARY KEY, v LONGBLOB)")
		r.start(nil, nil)
		r.same("w")
		const length, whole = 100_000, 1<<24 - 1 // of a packet's payload: a byte, and the event
		r.exec(fmt.Sprintf("INSERT INTO w VALUES (0, REPEAT('a', %d))", length))
		status := "SHOW MASTER STATUS"
		if s.Flavor == testmysql.MySQL {
			status = "SHOW BINARY LOG STATUS"
		}
		size := 0
		var file string
		query := func(sql string, row func(v [][]byte)) {
			if err := r.conn.Query(t.Context(), sql, func(v [][]byte) error { row(v); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		query(status, func(v [][]byte) { file = string(v[0]) })
		query("SHOW BINLOG EVENTS IN '"+file+"'", func(v [][]byte) {
			from, _ := strconv.Atoi(string(v[1]))
			to, _ := strconv.Atoi(string(v[4]))
			size = max(size, to-from)
		})
		if size < length || size > length+100 {
			t.Fatalf("the event of %d bytes has %d", length, size)
		}
		id := 0
		for _, payload := range []int{whole - 1, whole, whole + 1, 2*whole - 1, 2 * whole, 2*whole + 1} {
			id++
			r.exec(fmt.Sprintf("INSERT INTO w VALUES (%d, REPEAT('b', %d))", id, payload-1-size+length))
		}
		r.same("w")
		if st := r.f.Status(); st.Loads != 1 || len(st.Reconnects) != 0 {
			t.Errorf("loads %d, reconnects %v", st.Loads, st.Reconnects)
		}
	}, "--max-allowed-packet=64M", "--binlog-row-event-max-size=8192")
}

// What is larger than a target keeps comes cut off, and all else whole; a load meets it without receiving it.
func TestRowsBeyondALimit(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		const most = 100_000
		r := newRig(t, s, "CREATE TABLE w (id INT PRIMARY KEY, v LONGBLOB, n INT)", "INSERT INTO w VALUES (1, 'a', 1)")
		r.sink.mostRow = most
		var got []int // sizes of rows that came
		r.sink.onChanges = func(t *memTable, changes []rowcodec.Change) {
			for _, c := range changes {
				got = append(got, len(c.Before), len(c.After))
				if v, _ := c.After.Value(1); strings.Trim(string(v), "b") != "" {
					r.sink.breach("%.20q", v)
				}
				if n, _ := c.After.Value(2); string(n) != "17" {
					r.sink.breach("n = %q behind a value that was cut off", n)
				}
			}
		}
		r.start(nil, nil)
		r.same("w")
		r.exec("INSERT INTO w VALUES (2, REPEAT('b', 90000), 17), (3, REPEAT('b', 5000000), 17)")
		r.exec("UPDATE w SET v = REPEAT('b', 6000000), n = 17 WHERE id = 1")
		r.settle()
		r.sink.mu.Lock()
		if len(got) != 6 || got[0] != 0 || got[1] < 90_000 || got[1] > most || got[3] <= most || got[3] > most+100 || got[4] > 100 || got[5] <= most || got[5] > most+100 {
			t.Errorf("sizes of rows: %v", got)
		}
		r.sink.mu.Unlock()
		// The next load is refused by the Sink.
		r.exec("ALTER TABLE w ADD COLUMN more INT")
		r.eventually("the table is refused", func() bool {
			r.sink.mu.Lock()
			defer r.sink.mu.Unlock()
			return r.sink.tables[r.schema+".w"].state == "refused"
		})
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		if reason := r.sink.tables[r.schema+".w"].reason; !strings.Contains(reason, "more than 100000 bytes") {
			t.Errorf("reason %q", reason)
		}
	})
}

// A panic of what takes the events ends the stream, and neither the process nor the following; tables are loaded anew.
func TestPanicInHandler(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		r.start(nil, nil)
		r.same("w")
		once := true
		r.sink.mu.Lock()
		r.sink.onChanges = func(*memTable, []rowcodec.Change) {
			if once {
				once = false
				panic("a fault")
			}
		}
		r.sink.mu.Unlock()
		r.exec("INSERT INTO w VALUES (2, 2, '')")
		r.eventually("the end of the stream", func() bool { return r.f.Status().Reconnects[ReasonBug] == 1 })
		r.same("w")
	})
}

// Events that claim more than there is end with an error, and with no more memory than what came.
func TestAppendEvent(t *testing.T) {
	whole := bytes.Repeat([]byte{7}, 3*eventPiece+5)
	for _, n := range []int{0, 1, eventPiece, eventPiece + 1, len(whole)} {
		got, err := appendEvent([]byte("x"), bytes.NewReader(whole), n)
		if err != nil || len(got) != n+1 || got[0] != 'x' || !bytes.Equal(got[1:], whole[:n]) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	got, err := appendEvent(nil, bytes.NewReader(whole[:100]), 1<<30)
	if !errors.Is(err, errEventShort) || cap(got) > 2*eventPiece {
		t.Errorf("a short event: %v, room for %d bytes", err, cap(got))
	}
	l := newLayer(schema.FlavorMySQL)
	for _, data := range [][]byte{nil, make([]byte, replication.EventHeaderSize), bytes.Repeat([]byte{0xff}, 40)} {
		if _, err := l.parse(data); err == nil {
			t.Errorf("%d bytes that are no event gave no error", len(data))
		}
	}
	b := eventBody{r: bytes.NewReader(whole), left: 10}
	if n, err := io.Copy(io.Discard, &b); n != 10 || err != nil {
		t.Errorf("%d bytes of 10, %v", n, err)
	}
}
