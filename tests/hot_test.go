package tests

import (
	"fmt"
	"strings"
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
