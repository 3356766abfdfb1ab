// Package demo is the guided tour: a private database server with sample data, the cache in front of it, and first reads
// and writes that a newcomer can watch. It leaves the daemon running with addresses to try, and removes everything
// when it ends.
package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/binlogcache/binlogcache/internal/progress"
)

// Addresses are where the daemon of the tour listens.
type Addresses struct {
	Source        string // DSN of the private server
	HandlerSocket string // read port
	WritePort     string
	Memcached     string
	Admin         string
}

// Snapshot is how far the table's load has come.
type Snapshot struct {
	Done, Total uint64
	Live        bool
	// Trouble says why the table will not become live; empty while it may.
	Trouble string
}

// Daemon is the running cache, as the tour needs it.
type Daemon interface {
	// Snapshot tells how far the sample table is; ok is false before it is known.
	Snapshot(table string) (s Snapshot, ok bool)
	// Close stops the daemon and waits for it.
	Close() error
}

// Options of the tour.
type Options struct {
	Flavor string // "mariadb" or "mysql"
	Rows   int    // of the sample table
	Once   bool   // end after the tour instead of leaving the daemon running
	Dir    string // where the private server lives; a new temporary folder when empty
	Keep   bool   // leave Dir behind
	Out    io.Writer
	// Start starts the daemon on the addresses. An error it ends with later is reported to failed.
	Start func(ctx context.Context, a Addresses, failed func(error)) (Daemon, error)
	// InstallTriggers puts the triggers of a spec (see package triggers) on the server of the DSN, fills their cache table
	// and registers it for memcached clients.
	InstallTriggers func(ctx context.Context, source string, spec []byte) error
}

// Schema, Table and Container are what the tour creates and maps.
const (
	Schema    = "demo"
	Table     = "user"
	Container = "user"
)

// Run gives the tour. When ctx ends it stops what it started and returns nil after a finished tour, the cause otherwise.
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "binlogcache-demo-"); err != nil {
			return err
		}
	} else if err := takeDir(dir); err != nil {
		return err
	}
	if !o.Keep {
		defer func() { err = errors.Join(err, removeAll(dir)) }()
	}
	addresses, err := pickAddresses()
	if err != nil {
		return err
	}
	t := &tour{Options: o, addresses: addresses}
	t.server = &server{flavor: o.Flavor, dir: filepath.Join(dir, "server"), out: o.Out}
	defer func() { err = errors.Join(err, t.server.stop()) }()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	defer t.db.Close()

	daemon, err := o.Start(ctx, t.addresses, func(err error) { cancel(fmt.Errorf("the daemon ended: %w", err)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, daemon.Close()) }()
	t.daemon = daemon
	for _, act := range []func(context.Context) error{t.watchSnapshot, t.firstReads, t.update, t.write, t.databaseDies, t.rates, t.totals} {
		if err := act(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
	if o.Once {
		t.say("\nThat was the tour. Stopping everything.")
		return nil
	}
	t.farewell()
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !strings.Contains(cause.Error(), "signal") {
		return cause
	}
	t.say("\nStopping everything.")
	return nil
}

// takeDir makes the folder, or takes it when it is empty: what is in it at the end is removed.
func takeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("--dir %s: the folder is not empty, and the tour removes what it leaves there; give a new one", dir)
	}
	return nil
}

type tour struct {
	Options
	addresses Addresses
	server    *server
	db        *sql.DB
	daemon    Daemon
}

func (t *tour) say(format string, args ...any) { fmt.Fprintf(t.Out, format+"\n", args...) }

// pickAddresses takes the well-known ports where they are free, others where not.
func pickAddresses() (Addresses, error) {
	var a Addresses
	for _, p := range []struct {
		address *string
		port    int
	}{{&a.HandlerSocket, 9998}, {&a.WritePort, 9999}, {&a.Memcached, 11211}, {&a.Admin, 8911}} {
		address, err := freeAddress(p.port)
		if err != nil {
			return a, err
		}
		*p.address = address
	}
	return a, nil
}

func freeAddress(port int) (string, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
	}
	return l.Addr().String(), l.Close()
}

// prepare starts the server and fills the sample table.
func (t *tour) prepare(ctx context.Context) error {
	name := map[string]string{"mariadb": "MariaDB", "mysql": "MySQL"}[t.Flavor]
	t.say("1. A private %s server (row-based binlog, GTID), nothing is installed into the system.", name)
	dsn, err := t.server.start(ctx)
	if err != nil {
		return err
	}
	t.addresses.Source = dsn
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	// The server is killed in the tour; what the driver has to say of that is no news.
	cfg.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	t.db = sql.OpenDB(connector)
	t.say("2. The table %s.%s with %d rows.", Schema, Table, t.Rows)
	for _, q := range []string{
		"DROP DATABASE IF EXISTS " + Schema,
		"CREATE DATABASE " + Schema + " CHARACTER SET utf8mb4",
		"CREATE TABLE " + Schema + ".`user` (id INT PRIMARY KEY AUTO_INCREMENT, uname VARCHAR(64), email VARCHAR(128), add_time DATETIME) ENGINE=InnoDB",
	} {
		if _, err := t.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return t.fill(ctx)
}

// fill inserts the sample rows, some thousand in a statement.
func (t *tour) fill(ctx context.Context) error {
	const batch = 4000
	bar := progress.New(t.Out, "   rows inserted", int64(t.Rows))
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	var q []byte
	for done := 0; done < t.Rows; {
		q = append(q[:0], "INSERT INTO "+Schema+".`user` (uname, email, add_time) VALUES "...)
		for n := min(batch, t.Rows-done); n > 0; n-- {
			done++
			if q[len(q)-1] == ')' {
				q = append(q, ',')
			}
			q = fmt.Appendf(q, "('user%07d','user%07d@example.com','%s')", done, done, begin.Add(time.Duration(done)*time.Second).Format(time.DateTime))
		}
		if _, err := t.db.ExecContext(ctx, string(q)); err != nil {
			return fmt.Errorf("insert sample rows: %w", err)
		}
		bar.Set(int64(done))
	}
	bar.Done(int64(t.Rows))
	return nil
}

// removeAll removes the folder; the server's files may vanish or appear while it is still closing them.
func removeAll(dir string) error {
	var err error
	for range 10 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (t *tour) farewell() {
	a := t.addresses
	t.say(`
The daemon goes on running. To try, in another terminal:
   dashboard       http://%[1]s/
   memcached       printf 'get 42\r\nquit\r\n' | nc %[2]s
   HandlerSocket   printf 'P\t1\t%[5]s\t%[6]s\tPRIMARY\tid,uname,email\n1\t=\t1\t42\n' | nc -q1 %[3]s
   SQL             %[4]s
   status          curl http://%[1]s/api/v1/status
Ctrl-C stops everything and leaves nothing behind.`,
		a.Admin, strings.Replace(a.Memcached, ":", " ", 1), strings.Replace(a.HandlerSocket, ":", " ", 1), t.server.client(), Schema, Table)
}
