package testmysql

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Replicate makes a private server a replica of another one, from the beginning of that one's log; they must be of one
// flavor. The replica stays writable.
func Replicate(t testing.TB, replica, source Server) {
	t.Helper()
	cfg, err := mysql.ParseDSN(source.DSN)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		t.Fatal(err)
	}
	change := "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='%s', SOURCE_PASSWORD='%s'," +
		" SOURCE_CONNECT_RETRY=1, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
	if replica.Flavor == MariaDB {
		change = "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='%s', MASTER_PASSWORD='%s'," +
			" MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos"
	}
	replica.mustBePrivate().exec(fmt.Sprintf(change, host, port, cfg.User, cfg.Passwd))
	replica.StartReplica()
}

// StartReplica lets a replica go on after StopReplica.
func (s Server) StartReplica() { s.mustBePrivate().replica("START") }

// StopReplica keeps a replica from applying anything more. It can be written to meanwhile.
func (s Server) StopReplica() { s.mustBePrivate().replica("STOP") }

func (p *privateServer) replica(verb string) {
	p.t.Helper()
	noun := " REPLICA"
	if p.flavor == MariaDB {
		noun = " SLAVE"
	}
	p.exec(verb + noun)
}

// CatchUp waits until a replica has applied everything that its source has executed by now.
func CatchUp(t testing.TB, replica, source Server) {
	t.Helper()
	executed, wait := "SELECT @@global.gtid_executed", "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 30)"
	if replica.Flavor == MariaDB {
		executed, wait = "SELECT @@gtid_binlog_pos", "SELECT MASTER_GTID_WAIT(?, 30)"
	}
	var set string
	if err := source.DB(t).QueryRowContext(t.Context(), executed).Scan(&set); err != nil {
		t.Fatal(err)
	}
	var late sql.NullInt64
	if err := replica.DB(t).QueryRowContext(t.Context(), wait, set).Scan(&late); err != nil || late.Int64 != 0 {
		t.Fatalf("the replica does not catch up with %s: %v, %v", set, late, err)
	}
}

func (p *privateServer) exec(statement string) {
	p.t.Helper()
	db := Server{Flavor: p.flavor, DSN: dsnOf(p.port)}.DB(p.t)
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
}
