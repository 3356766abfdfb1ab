package tests

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// Sizes of the model test of hot tables. BINLOGCACHE_MODEL_TIME sets how long it runs, as for TestModel.
const (
	hotModelTime    = 6 * time.Second
	hotModelRound   = 1500 * time.Millisecond
	hotModelWriters = 3
	hotModelReaders = 4
	hotModelKeys    = 24
)

// TestHotModel lets several sessions change rows of a hot table while readers of both protocols read them by key. A number
// in each row grows with each change of its key: no reader ever sees it go back, wherever answers come from, as long as the
// table stays hot. At each quiet point every key is the server's; so it is after statements that change the definition.
func TestHotModel(t *testing.T) {
	t.Parallel()
	run := hotModelTime
	if os.Getenv("BINLOGCACHE_MODEL_TIME") != "" {
		run, _ = modelSettings(t)
	}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			m := &hotModel{t: t, server: s, schema: s.Schema(t), db: s.DB(t)}
			mustExec(t, m.db, "CREATE TABLE "+m.schema+".w (id INT PRIMARY KEY, ver BIGINT NOT NULL, v VARCHAR(40))")
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			yaml := fmt.Sprintf("containers:\n  - {name: w, schema: %s, table: w, key_columns: [id], value_columns: [ver]}\n", m.schema)
			if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			m.d = start(t, s.DSN, m.schema+".none*", "--config", config, "--memory", "8MiB").waitReady()
			m.d.waitState(m.schema+".w", "hot") // the container is reason enough
			m.run(run)
		})
	}
}

type hotModel struct {
	t      *testing.T
	server testmysql.Server
	schema string
	db     *sql.DB
	d      *daemon
	// next orders the changes: who holds it commits the next number.
	next struct {
		sync.Mutex
		ver [hotModelKeys]int64
	}
}

func (m *hotModel) run(run time.Duration) {
	end := time.Now().Add(run)
	seed := rand.Uint64()
	m.t.Logf("seed %d", seed)
	for round := 0; time.Now().Before(end) && !m.t.Failed(); round++ {
		ctx, cancel := context.WithTimeout(m.t.Context(), hotModelRound)
		var wg sync.WaitGroup
		for i := range hotModelWriters {
			wg.Go(func() { m.write(ctx, rand.New(rand.NewPCG(seed, uint64(100*round+i)))) })
		}
		for i := range hotModelReaders {
			wg.Go(func() { m.read(ctx, rand.New(rand.NewPCG(seed, uint64(100*round+50+i))), i%2 == 0) })
		}
		wg.Wait()
		cancel()
		m.compare(round)
		mustExec(m.t, m.db, []string{
			"ALTER TABLE " + m.schema + ".w ADD COLUMN x INT NOT NULL DEFAULT 1 FIRST", "ALTER TABLE " + m.schema + ".w DROP COLUMN x",
			"RENAME TABLE " + m.schema + ".w TO " + m.schema + ".w2, " + m.schema + ".w2 TO " + m.schema + ".w", "TRUNCATE TABLE " + m.schema + ".w",
		}[round%4])
		m.compare(round)
		eventually(m.t, "the table is hot again", func() error {
			if got := m.find(1); got == "" {
				return fmt.Errorf("no answer")
			}
			if state, reason := m.d.tableState(m.schema + ".w"); state != "hot" {
				return fmt.Errorf("%s: %s", state, reason)
			}
			return nil
		})
	}
	hits, published := m.d.metric(`hot_reads_total{result="memory"}`), m.d.metric("hot_rows_published_total")
	m.t.Logf("%.0f hits, %.0f rows published, %.0f touched, %.0f shared", hits, published, m.d.metric(`hot_rows_dropped_total{reason="touched"}`), m.d.metric(`hot_reads_total{result="shared"}`))
	if hits < 100 || published < 20 {
		m.t.Error("too little of it was hot to prove anything")
	}
}

// write changes rows, each change in a transaction of its own or several in one, in the order of their numbers.
func (m *hotModel) write(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		m.next.Lock()
		tx, err := m.db.BeginTx(context.WithoutCancel(m.t.Context()), nil)
		if err != nil {
			m.t.Error(err)
			m.next.Unlock()
			return
		}
		for range 1 + rng.IntN(3) {
			id := rng.IntN(hotModelKeys)
			m.next.ver[id]++
			ver := m.next.ver[id]
			query := fmt.Sprintf("REPLACE INTO %s.w (id, ver, v) VALUES (%d, %d, 'v%d')", m.schema, id, ver, ver)
			switch rng.IntN(6) {
			case 0:
				query = fmt.Sprintf("DELETE FROM %s.w WHERE id=%d", m.schema, id)
			case 1, 2, 3:
				query = fmt.Sprintf("INSERT INTO %s.w (id, ver, v) VALUES (%d, %d, 'v%d') ON DUPLICATE KEY UPDATE ver=VALUES(ver), v=VALUES(v)", m.schema, id, ver, ver)
			}
			if _, err := tx.Exec(query); err != nil {
				m.t.Errorf("%s: %v", query, err)
			}
		}
		if rng.IntN(8) == 0 {
			err = tx.Rollback()
		} else {
			err = tx.Commit()
		}
		m.next.Unlock()
		if err != nil {
			m.t.Error(err)
		}
		time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
	}
}

// read reads keys over one connection. A row that is not there has no number, and says nothing about order.
func (m *hotModel) read(ctx context.Context, rng *rand.Rand, memcached bool) {
	address, prefix := m.d.handlerSocket, fmt.Sprintf("P\t1\t%s\tw\tPRIMARY\tver\n", m.schema)
	if memcached {
		address, prefix = m.d.memcached, ""
	}
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		m.t.Error(err)
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	line := func() string {
		s, err := in.ReadString('\n')
		if err != nil {
			m.t.Errorf("reader: %v", err)
		}
		return strings.TrimRight(s, "\r\n")
	}
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		m.t.Error(err)
	}
	if prefix != "" {
		fmt.Fprint(conn, prefix)
		if got := line(); got != "0\t1" {
			m.t.Errorf("open: %q", got)
		}
	}
	var seen [hotModelKeys]int64
	saw := func(id int, text string) {
		ver, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ver < seen[id] {
			m.t.Errorf("key %d: %q after %d (memcached: %v, %v)", id, text, seen[id], memcached, err)
		}
		seen[id] = ver
	}
	for ctx.Err() == nil && !m.t.Failed() {
		id, other := rng.IntN(hotModelKeys), rng.IntN(hotModelKeys)
		switch {
		case memcached:
			fmt.Fprintf(conn, "get %d %d\r\n", id, other)
			for text := line(); text != "END"; text = line() {
				var key, flags, size int
				if _, err := fmt.Sscanf(text, "VALUE %d %d %d", &key, &flags, &size); err != nil {
					m.t.Errorf("answer %q", text)
					return
				}
				saw(key, line())
			}
		case rng.IntN(3) == 0: // an IN list: memory's when all is there, else the database's key by key
			fmt.Fprintf(conn, "1\t=\t1\t%d\t10\t0\t@\t0\t2\t%d\t%d\n", id, id, other)
			parts := strings.Split(line(), "\t")
			if id != other && len(parts) == 4 {
				saw(id, parts[2])
				saw(other, parts[3])
			}
		default:
			fmt.Fprintf(conn, "1\t=\t1\t%d\n", id)
			if parts := strings.Split(line(), "\t"); len(parts) == 3 {
				saw(id, parts[2])
			}
		}
	}
}

// find gives the answer to a look-up of one key.
func (m *hotModel) find(id int) string {
	return askLine(m.t, m.d.handlerSocket, fmt.Sprintf("P\t1\t%s\tw\tPRIMARY\tver,v\n1\t=\t1\t%d\n", m.schema, id), 2)[1]
}

// compare looks every key up twice when everything has been applied.
func (m *hotModel) compare(round int) {
	m.t.Helper()
	query := "SELECT @@global.gtid_executed"
	if m.server.Flavor == testmysql.MariaDB {
		query = "SELECT @@gtid_binlog_pos"
	}
	var want string
	if err := m.db.QueryRow(query).Scan(&want); err != nil {
		m.t.Fatal(err)
	}
	eventually(m.t, "everything is applied", func() error {
		if got := m.d.status().Applied.GTID; strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(want, "\n", "") {
			return fmt.Errorf("applied %q, want %q", got, want)
		}
		return nil
	})
	for range 2 {
		for id := range hotModelKeys {
			want := "0\t2"
			var ver, v string
			err := m.db.QueryRow(fmt.Sprintf("SELECT ver, v FROM %s.w WHERE id=%d", m.schema, id)).Scan(&ver, &v)
			if err == nil {
				want += "\t" + ver + "\t" + v
			} else if err != sql.ErrNoRows {
				m.t.Fatal(err)
			}
			if got := m.find(id); got != want {
				m.t.Errorf("quiet point %d: key %d is %q, the server has %q", round, id, got, want)
			}
		}
	}
}
