package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestFailover: kill -9 of the server that is followed. What is in memory goes on being answered; what the database must
// answer is an error until the replica is followed, and comes from there afterwards.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			primary := testmysql.Private(t, flavor)
			replica := testmysql.Private(t, flavor, "--log-slave-updates=ON")
			testmysql.Replicate(t, replica, primary)
			db := primary.DB(t)
			mustExec(t, db, "CREATE DATABASE k")
			for _, table := range []string{"k.cached", "k.other"} {
				mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, v VARCHAR(10))")
				mustExec(t, db, "INSERT INTO "+table+" VALUES (1,'one')")
			}
			testmysql.CatchUp(t, replica, primary)
			second := replica.DB(t)
			// So that one sees who answers.
			mustExec(t, second, "SET SESSION sql_log_bin = 0; UPDATE k.other SET v = 'two'; SET SESSION sql_log_bin = 1")
			// Whose rows of k.other are kept is no matter of chance.
			d := start(t, primary.DSN, "k.cached", "--source", replica.DSN, "--hot", "off").waitReady()
			hot := start(t, primary.DSN, "k.none*", "--source", replica.DSN).waitReady()
			readHot := func() string {
				return askLine(t, hot.handlerSocket, "P\t1\tk\tcached\tPRIMARY\tid,v\n1\t=\t1\t1\n", 2)[1]
			}
			eventually(t, "a row is kept", func() error {
				before := hot.status().Reads.HandlerSocket.Memory
				if readHot(); hot.status().Reads.HandlerSocket.Memory == before {
					return errors.New("the database answers")
				}
				return nil
			})
			read := func(table string) string {
				return strings.Join(askLine(t, d.handlerSocket, "P\t1\tk\t"+table+"\tPRIMARY\tid,v\n1\t=\t1\t1\n", 2), " ")
			}
			if got := read("other"); got != "0\t1 0\t2\t1\tone" {
				t.Errorf("the primary answers %q", got)
			}
			loads := "binlogcache_table_loads_total{result=\"live\"} 1\n"
			primary.Kill()
			if got := read("other"); got != "0\t1 1\t1\tunavailable" {
				t.Errorf("with the primary dead: %q", got)
			}
			if got := read("cached"); got != "0\t1 0\t2\t1\tone" {
				t.Errorf("memory answers %q", got)
			}
			if got := readHot(); got != "0\t2\t1\tone" {
				t.Errorf("the kept row is %q", got)
			}
			for _, d := range []*daemon{d, hot} {
				eventually(t, "the replica is followed", func() error {
					if st := d.status(); !st.Source.Connected || st.Source.Failovers != 1 || !strings.Contains(replica.DSN, st.Source.Address) {
						return fmt.Errorf("%+v", st.Source)
					}
					return nil
				})
			}
			if got := read("other"); got != "0\t1 0\t2\t1\ttwo" {
				t.Errorf("the replica answers %q", got)
			}
			mustExec(t, second, "UPDATE k.cached SET v = 'three'")
			mustEqual(t, replica, d, "k", "cached")
			if got := read("cached"); got != "0\t1 0\t2\t1\tthree" {
				t.Errorf("memory answers %q", got)
			}
			eventually(t, "the kept row follows the replica", func() error {
				if got := readHot(); got != "0\t2\t1\tthree" {
					return fmt.Errorf("it is %q", got)
				}
				return nil
			})
			if state, reason := hot.tableState("k.cached"); state != "hot" {
				t.Errorf("the hot table is %s: %s", state, reason)
			}
			_, metrics, err := d.get("/metrics")
			if err != nil || !strings.Contains(metrics, loads) || !strings.Contains(metrics, "binlogcache_source_failovers_total 1\n") {
				t.Errorf("metrics: %v", err)
			}
		})
	}
}
