package tests

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// tableState gives what the status says of a table; the zero value when it says nothing.
func (d *daemon) tableState(name string) (state, reason string) {
	d.t.Helper()
	for _, t := range d.status().Tables {
		if t.Name == name {
			return t.State, t.Reason
		}
	}
	return "", ""
}

// waitState waits for a table's state.
func (d *daemon) waitState(name, want string) {
	d.t.Helper()
	eventually(d.t, name+" is "+want, func() error {
		if state, reason := d.tableState(name); state != want {
			return fmt.Errorf("it is %q: %s", state, reason)
		}
		return nil
	})
}

// TestHotTable: a table that --tables does not name becomes hot when it is opened. Its rows come from memory from the
// second time on, and change as SQL changes them; everything else of it is the database's.
func TestHotTable(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".u (id INT PRIMARY KEY, v VARCHAR(20), big TEXT, UNIQUE KEY v (v))")
			mustExec(t, db, "INSERT INTO "+schema+".u VALUES (1,'one',REPEAT('x',1000)),(2,'two',NULL),(3,'three','')")
			d := start(t, s.DSN, schema+".none*").waitReady()
			open := "P\t1\t" + schema + "\tu\tPRIMARY\tid,v\n"
			read := func(request string) string {
				t.Helper()
				return askLine(t, d.handlerSocket, open+request+"\n", 2)[1]
			}
			// hit reads until memory answers, which is soon after the first read of a key.
			hit := func(request, want string) {
				t.Helper()
				eventually(t, request+" from memory", func() error {
					before := d.status().Reads.HandlerSocket
					got := read(request)
					if after := d.status().Reads.HandlerSocket; after.Memory == before.Memory || after.Database != before.Database {
						return fmt.Errorf("reads %+v after %+v", after, before)
					}
					if got != want {
						return fmt.Errorf("%q, want %q", got, want)
					}
					return nil
				})
			}
			if got := read("1\t=\t1\t1"); got != "0\t2\t1\tone" {
				t.Errorf("%q", got)
			}
			d.waitState(schema+".u", "hot")
			hit("1\t=\t1\t1", "0\t2\t1\tone")
			hit("1\t=\t1\t2\t1\t0", "0\t2\t2\ttwo")
			hit("1\t=\t1\t3\t10\t0\t@\t0\t3\t3\t2\t1", "0\t2\t3\tthree\t2\ttwo\t1\tone")
			mustExec(t, db, "UPDATE "+schema+".u SET v='ONE' WHERE id=1")
			hit("1\t=\t1\t1", "0\t2\t1\tONE")
			// A deleted row, an absent one, a range and another index are the database's.
			mustExec(t, db, "DELETE FROM "+schema+".u WHERE id=2")
			eventually(t, "the deletion", func() error {
				if got := read("1\t=\t1\t2"); got != "0\t2" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			before := d.status().Reads.HandlerSocket
			for _, request := range []string{"1\t=\t1\t2", "1\t=\t1\t77", "1\t>=\t1\t1\t10", "1\t=\t1\t3\t1\t1"} {
				read(request)
			}
			after := d.status().Reads.HandlerSocket
			if after.Memory != before.Memory || after.Database != before.Database+4 {
				t.Errorf("reads %+v after %+v", after, before)
			}
			// A changed definition drops the rows; so does TRUNCATE; a table that is gone is forgotten, and comes back.
			mustExec(t, db, "ALTER TABLE "+schema+".u ADD COLUMN w INT NOT NULL DEFAULT 4 FIRST")
			hit("1\t=\t1\t1", "0\t2\t1\tONE")
			mustExec(t, db, "TRUNCATE TABLE "+schema+".u")
			eventually(t, "the truncation", func() error {
				if got := read("1\t=\t1\t1"); got != "0\t2" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			mustExec(t, db, "DROP TABLE "+schema+".u")
			d.waitState(schema+".u", "")
			mustExec(t, db, "CREATE TABLE "+schema+".u (id INT PRIMARY KEY, v VARCHAR(20))")
			mustExec(t, db, "INSERT INTO "+schema+".u VALUES (1,'again')")
			hit("1\t=\t1\t1", "0\t2\t1\tagain")
			st := d.status()
			if len(st.Tables) != 1 || st.Tables[0].Mode != "hot" || st.Tables[0].Rows != 1 || st.Memory.Used == 0 {
				t.Errorf("status: %+v", st)
			}
			if _, body, err := d.get("/metrics"); err != nil || !strings.Contains(body, "binlogcache_hot_rows_published_total") ||
				!strings.Contains(body, `binlogcache_hot_reads_total{result="memory"}`) {
				t.Errorf("metrics: %v", err)
			}
		})
	}
}

// TestHotSharedRead: requests for one key that is not in memory share one SELECT.
func TestHotSharedRead(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".u (id INT PRIMARY KEY, v VARCHAR(20))")
			mustExec(t, db, "INSERT INTO "+schema+".u VALUES (1,'one'),(2,'two')")
			d := start(t, s.DSN, schema+".none*").waitReady()
			request := func(id int) string {
				return fmt.Sprintf("P\t1\t%s\tu\tPRIMARY\tv\n1\t=\t1\t%d\n", schema, id)
			}
			askLine(t, d.handlerSocket, request(2), 2)
			d.waitState(schema+".u", "hot")
			lock, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if _, err := lock.ExecContext(t.Context(), "LOCK TABLES "+schema+".u WRITE"); err != nil {
				t.Fatal(err)
			}
			const clients = 12
			before := d.metric(`hot_reads_total{result="shared"}`)
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					if got := askLine(t, d.handlerSocket, request(1), 2)[1]; got != "0\t1\tone" {
						t.Errorf("%q", got)
					}
				})
			}
			eventually(t, "all but one share", func() error {
				if n := d.metric(`hot_reads_total{result="shared"}`) - before; n != clients-1 {
					return fmt.Errorf("%v share", n)
				}
				return nil
			})
			var selects int
			err = db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE 'SELECT%FROM `" + schema + "`.`u`%'").Scan(&selects)
			if err != nil || selects != 1 {
				t.Errorf("%d SELECTs are waiting, %v", selects, err)
			}
			if _, err := lock.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if n := d.status().Reads.HandlerSocket.Database; n < clients {
				t.Errorf("%d answers of the database", n)
			}
		})
	}
}

// metric gives one value of /metrics, by its name without the prefix.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	_, body, err := d.get("/metrics")
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, "binlogcache_"+name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return v
		}
	}
	d.t.Fatalf("no metric %s", name)
	return 0
}

// TestTooLargeTableIsHot: a table of --tables that does not fit into --memory is kept hot, and says so.
func TestTooLargeTableIsHot(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MySQL)
	schema := s.Schema(t)
	db := s.DB(t)
	mustExec(t, db, "CREATE TABLE "+schema+".big (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(4000))")
	mustExec(t, db, "INSERT INTO "+schema+".big (v) VALUES (REPEAT('x',4000)),(REPEAT('y',4000))")
	for range 12 {
		mustExec(t, db, "INSERT INTO "+schema+".big (v) SELECT v FROM "+schema+".big")
	}
	mustExec(t, db, "CREATE TABLE "+schema+".small (id INT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO "+schema+".small VALUES (1)")
	d := start(t, s.DSN, schema+".*", "--memory", "16MiB").waitReady()
	d.waitState(schema+".big", "hot")
	if _, reason := d.tableState(schema + ".big"); !strings.Contains(reason, "--memory") {
		t.Errorf("reason %q", reason)
	}
	d.waitState(schema+".small", "live")
	eventually(t, "a row from memory", func() error {
		before := d.status().Reads.HandlerSocket.Memory
		if got := askLine(t, d.handlerSocket, "P\t1\t"+schema+"\tbig\tPRIMARY\tv\n1\t=\t1\t1\n", 2)[1]; got != "0\t1\t"+strings.Repeat("x", 4000) {
			t.Fatalf("%.40q", got)
		}
		if d.status().Reads.HandlerSocket.Memory == before {
			return fmt.Errorf("still the database's")
		}
		return nil
	})
	if m := d.status().Memory; m.Used > m.Limit {
		t.Errorf("memory %+v", m)
	}
}
