package tests

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/internal/torture"
)

// writers change a table at random until stop is called: inserts, updates, deletes and changes of keys, in transactions
// of one to four statements, some rolled back. Errors (a server that is killed) are theirs to survive.
type writers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const writerKeys = 5000

func startWriters(t *testing.T, db *sql.DB, table string, n int) *writers {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writers{cancel: cancel}
	for i := range n {
		w.wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for ctx.Err() == nil {
				if err := writeOnce(ctx, db, table, rng); err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	t.Cleanup(w.stop)
	return w
}

func (w *writers) stop() {
	w.cancel()
	w.wg.Wait()
}

func writeOnce(ctx context.Context, db *sql.DB, table string, rng *rand.Rand) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for range 1 + rng.IntN(4) {
		id, other := rng.IntN(writerKeys), rng.IntN(writerKeys)
		value := fmt.Sprintf("v%d", rng.Uint64())
		var q string
		switch rng.IntN(6) {
		case 0:
			q = fmt.Sprintf("INSERT IGNORE INTO %s VALUES (%d,'%s',%d)", table, id, value, rng.IntN(100))
		case 1:
			q = fmt.Sprintf("DELETE FROM %s WHERE id=%d", table, id)
		case 2:
			q = fmt.Sprintf("UPDATE IGNORE %s SET id=%d WHERE id=%d", table, other, id)
		case 3:
			q = fmt.Sprintf("REPLACE INTO %s VALUES (%d,'%s',%d)", table, id, value, rng.IntN(100))
		default:
			q = fmt.Sprintf("UPDATE %s SET v='%s', n=n+1 WHERE id BETWEEN %d AND %d", table, value, id, id+rng.IntN(5))
		}
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	if rng.IntN(8) == 0 {
		return nil // the deferred rollback
	}
	return tx.Commit()
}

// fillTable makes table w of the writers with rows in it.
func fillTable(t *testing.T, db *sql.DB, table string, rows int) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, v VARCHAR(40), n INT, KEY (n)) ENGINE=InnoDB")
	var q strings.Builder
	for i := 0; i < rows; {
		q.Reset()
		q.WriteString("INSERT INTO " + table + " VALUES ")
		for range min(1000, rows-i) {
			fmt.Fprintf(&q, "(%d,'initial %d',%d),", i, i, i%100)
			i++
		}
		mustExec(t, db, strings.TrimSuffix(q.String(), ","))
	}
}

func mustExec(t *testing.T, db *sql.DB, q string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), q, args...); err != nil {
		t.Fatalf("%.200s: %v", q, err)
	}
}

// mustEqual compares a table of the cache with the server's, by the oracle of the scenarios.
func mustEqual(t *testing.T, s testmysql.Server, d *daemon, schema, table string) {
	t.Helper()
	r := &torture.Runner{Flavor: s.Flavor, DSN: s.DSN, HandlerSocket: d.handlerSocket, Admin: d.base, Settle: settleTimeout}
	if err := r.Connect(); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	verdicts, err := r.Judge(t.Context(), []torture.CachedTable{{Schema: schema, Table: table, Index: "PRIMARY"}})
	if err != nil {
		t.Fatal(err)
	}
	if verdicts[0].State != "live" {
		t.Fatalf("%s.%s is %s: %s", schema, table, verdicts[0].State, verdicts[0].Reason)
	}
}

// TestWritersDuringSnapshot: three writers change the table while it is loaded.
func TestWritersDuringSnapshot(t *testing.T) {
	t.Parallel()
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			fillTable(t, db, schema+".w", 200_000)
			w := startWriters(t, db, schema+".w", 3)
			d := start(t, s.DSN, schema+".*").waitReady()
			time.Sleep(500 * time.Millisecond)
			w.stop()
			mustEqual(t, s, d, schema, "w")
		})
	}
}

// TestCutConnections cuts every connection to the source, again and again: in mid-snapshot, then in mid-stream.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			fillTable(t, db, schema+".w", 100_000)
			p := testmysql.NewProxy(t, s)
			w := startWriters(t, db, schema+".w", 3)
			p.Budget.Store(400_000) // the snapshot is some megabytes
			d := start(t, p.DSN, schema+".*")
			eventually(t, "the cut in mid-snapshot", func() error {
				if p.Cuts.Load() == 0 {
					return fmt.Errorf("not yet")
				}
				return nil
			})
			d.waitReady()
			rng := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				before := p.Cuts.Load()
				p.Budget.Store(1 + rng.Int64N(60_000))
				eventually(t, "the cut in mid-stream", func() error {
					if p.Cuts.Load() == before {
						return fmt.Errorf("not yet")
					}
					return nil
				})
			}
			w.stop()
			mustEqual(t, s, d, schema, "w")
		})
	}
}

// TestDatabaseKilled: kill -9 of the database in mid-stream, twice, under writers; the cache answers while it is down,
// goes on when it is back, and equals the database in the end.
func TestDatabaseKilled(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			// Durable settings: a crash must not lose what the follower has seen.
			s := testmysql.Private(t, flavor, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
			db := s.DB(t)
			mustExec(t, db, "CREATE DATABASE k")
			fillTable(t, db, "k.w", 20_000)
			mustExec(t, db, "CREATE TABLE k.quiet (id INT PRIMARY KEY, v VARCHAR(10))")
			mustExec(t, db, "INSERT INTO k.quiet VALUES (1,'one')")
			d := start(t, s.DSN, "k.*").waitReady()
			w := startWriters(t, db, "k.w", 3)
			for range 2 {
				time.Sleep(300 * time.Millisecond)
				s.Kill()
				answer := askLine(t, d.handlerSocket, "P\t1\tk\tquiet\tPRIMARY\tid,v\n1\t=\t1\t1\n", 2)
				if answer[1] != "0\t2\t1\tone" {
					t.Errorf("with the database dead: %q", answer)
				}
				s.Start()
				eventually(t, "following again", func() error {
					if st := d.status(); !st.Source.Connected {
						return fmt.Errorf("not connected")
					}
					return nil
				})
			}
			w.stop()
			mustEqual(t, s, d, "k", "w")
			mustEqual(t, s, d, "k", "quiet")
		})
	}
}

// TestResetWhileAway: the source's log is reset while the cache is cut off, and grows longer than it was. The numbers are
// all there, for other transactions.
func TestResetWhileAway(t *testing.T) {
	t.Parallel()
	for flavor, reset := range map[string]string{testmysql.MariaDB: "RESET MASTER", testmysql.MySQL: "RESET BINARY LOGS AND GTIDS"} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			db := s.DB(t)
			mustExec(t, db, "CREATE DATABASE k")
			mustExec(t, db, "CREATE TABLE k.w (id INT PRIMARY KEY, v VARCHAR(40), n INT)")
			mustExec(t, db, "CREATE TABLE k.other (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(40))")
			for i := range 20 {
				mustExec(t, db, "INSERT INTO k.w VALUES (?,'one',1)", i)
			}
			p := testmysql.NewProxy(t, s)
			d := start(t, p.DSN, "k.w").waitReady()
			p.Down.Store(true)
			p.Cut()
			mustExec(t, db, reset)
			mustExec(t, db, "UPDATE k.w SET v='two' WHERE id=7")
			for range 300 {
				mustExec(t, db, "INSERT INTO k.other (v) VALUES ('x')")
			}
			p.Down.Store(false)
			mustEqual(t, s, d, "k", "w")
		})
	}
}
