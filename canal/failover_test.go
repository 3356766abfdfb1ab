package canal

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// The source's address leads to a replica that has everything: the tables go on as they are, although the names of its
// log files mean something else.
func TestFailover(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			primary := testmysql.Private(t, flavor)
			replica := testmysql.Private(t, flavor, "--log-slave-updates=ON")
			host, port, err := net.SplitHostPort(address(t, primary))
			if err != nil {
				t.Fatal(err)
			}
			setup := []string{
				fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_PASSWORD='test', MASTER_USE_GTID=slave_pos", host, port),
				"START SLAVE",
			}
			stop := "STOP SLAVE"
			if flavor == testmysql.MySQL {
				setup = []string{
					fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='root', SOURCE_PASSWORD='test', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", host, port),
					"START REPLICA",
				}
				stop = "STOP REPLICA"
			}
			r := newRig(t, primary, deepRecursion(primary), tableW, fillW(500))
			second := dial(t, replica)
			for _, sql := range append([]string{"FLUSH BINARY LOGS", "FLUSH BINARY LOGS"}, setup...) {
				if err := second.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			p := newProxy(t, address(t, primary))
			r.start(p.through, nil)
			r.same("w")
			r.exec("UPDATE w SET v = v + 1")
			r.same("w")
			r.exec("DELETE FROM w WHERE id < 100")

			// The follower has not seen the last transaction when the replica has it.
			p.down.Store(true)
			p.cut()
			r.exec("INSERT INTO w VALUES (1, 2, 'last')")
			done := r.executed()
			caughtUp := "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + done + "', 30)"
			if flavor == testmysql.MariaDB {
				caughtUp = "SELECT MASTER_GTID_WAIT('" + done + "', 30)"
			}
			if err := second.Query(t.Context(), caughtUp, func(v [][]byte) error {
				if string(v[0]) != "0" {
					t.Fatalf("the replica does not catch up: %s", v[0])
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := second.Exec(t.Context(), stop); err != nil {
				t.Fatal(err)
			}
			p.target.Store(address(t, replica))
			p.down.Store(false)
			r.conn = second
			r.exec("USE " + r.schema)
			r.exec("UPDATE w SET v = v + 7 WHERE id < 300")
			r.same("w")
			r.noGap()
			if n := r.sink.loadsOf(r.schema + ".w"); n != 1 {
				t.Errorf("%d loads", n)
			}
			// A load now reads from the replica.
			r.f.reload(r.f.tables.find(schema.Name{Schema: r.schema, Table: "w"}), "test")
			r.exec("UPDATE w SET v = v + 7 WHERE id < 300")
			r.same("w")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := r.f.WaitApplied(ctx, r.executed()); err != nil {
				t.Error(err)
			}
		})
	}
}
