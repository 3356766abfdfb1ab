package canal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

func TestFollow(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s,
			"CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20), b BLOB)",
			"INSERT INTO a VALUES (1, 'one', NULL), (2, 'two', x'00ff')",
			"CREATE TABLE nokey (v INT)")
		r.start(nil, nil)
		r.same("a")
		if state, reason := r.sink.state(r.schema + ".nokey"); state != "refused" || reason == "" {
			t.Errorf("table without a key is %s (%s)", state, reason)
		}
		r.exec("INSERT INTO a VALUES (3, 'three', REPEAT('x', 70000)), (4, NULL, '')")
		r.exec("UPDATE a SET v = CONCAT(v, '!')")
		r.exec("UPDATE a SET id = id + 10 ORDER BY id DESC")
		r.exec("DELETE FROM a WHERE id = 12")
		r.same("a")
		// A table that comes, one that goes, one that gets its key.
		r.exec("CREATE TABLE b (id INT PRIMARY KEY, v INT)")
		r.exec("INSERT INTO b VALUES (1, 1)")
		r.exec("ALTER TABLE nokey ADD PRIMARY KEY (v)")
		r.exec("INSERT INTO nokey VALUES (1)")
		r.same("a", "b", "nokey")
		r.exec("DROP TABLE b")
		r.same("a", "nokey")
		deadline := time.Now().Add(10 * time.Second)
		for {
			if state, _ := r.sink.state(r.schema + ".b"); state == "none" {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("dropped table is %s", state)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if st := r.f.Status(); !st.Connected || st.Applied.Seq == 0 || st.Applied.File == "" || st.Flavor != s.Flavor {
			t.Errorf("status %+v", st)
		}
	})
}

// TestSurveyed looks at the status from the first moment on: as soon as it knows the source and says that all tables are
// known, they are.
func TestSurveyed(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY)")
		seen := make(chan string, 1)
		r.start(nil, func(f *Follower) {
			go func() {
				for st := f.Status(); st.Flavor == "" || !st.Surveyed; st = f.Status() {
				}
				state, _ := r.sink.state(r.schema + ".a")
				seen <- state
			}()
		})
		if state := <-seen; state == "none" {
			t.Error("all tables are said to be known, and one is not")
		}
		r.same("a")
	})
}

// writers changes a table (id INT PRIMARY KEY, v INT, pad) until stopped, with keys in [0, n): inserts, updates, deletes
// and moves of keys, alone and in transactions.
func (r *rig) writers(count, n int, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range count {
		c := r.session()
		wg.Go(func() {
			exec := func(sql string) {
				// Duplicate keys and deadlocks are part of it.
				_ = c.Exec(context.Background(), sql)
			}
			for {
				select {
				case <-stop:
					exec("COMMIT")
					return
				default:
				}
				id := rand.IntN(n)
				switch rand.IntN(6) {
				case 0:
					exec(fmt.Sprintf("INSERT INTO w VALUES (%d, %d, REPEAT('p', %d))", id, rand.IntN(1000), rand.IntN(200)))
				case 1:
					exec(fmt.Sprintf("DELETE FROM w WHERE id = %d", id))
				case 2:
					exec(fmt.Sprintf("UPDATE w SET id = %d WHERE id = %d", rand.IntN(n), id))
				case 3:
					exec(fmt.Sprintf("UPDATE w SET v = v + 1 WHERE id BETWEEN %d AND %d", id, id+20))
				default:
					exec("START TRANSACTION")
					for range 1 + rand.IntN(4) {
						exec(fmt.Sprintf("UPDATE w SET v = %d WHERE id = %d", rand.IntN(1000), rand.IntN(n)))
						exec(fmt.Sprintf("REPLACE INTO w VALUES (%d, 7, 'r')", rand.IntN(n)))
					}
					if rand.IntN(4) == 0 {
						exec("ROLLBACK")
					} else {
						exec("COMMIT")
					}
				}
			}
		})
	}
	return &wg
}

const tableW = "CREATE TABLE w (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(200))"

// deepRecursion lets fillW make many rows.
func deepRecursion(s testmysql.Server) string {
	if s.Flavor == testmysql.MariaDB {
		return "SET max_recursive_iterations = 1000000"
	}
	return "SET cte_max_recursion_depth = 1000000"
}

// settleLive waits until a table is live, whatever is being written to it.
func (r *rig) settleLive(table string) {
	r.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		state, reason := r.sink.state(r.schema + "." + table)
		if state == "live" {
			return
		}
		if time.Now().After(deadline) {
			r.fail("%s is %s (%s)", table, state, reason)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func fillW(n int) string {
	return fmt.Sprintf("INSERT INTO w WITH RECURSIVE r AS (SELECT 0 n UNION ALL SELECT n + 1 FROM r WHERE n < %d) SELECT n, n, REPEAT('x', n %% 150) FROM r", n-1)
}

// The snapshot of a table that is being written to must end as the table.
func TestSnapshotUnderWriters(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(3000))
		stop := make(chan struct{})
		wg := r.writers(3, 3300, stop)
		r.start(func(cfg *Config) { cfg.ChunkRows = 20 }, func(f *Follower) {
			f.mostRows = 20
			// Pieces wait, so that more happens between their marks.
			f.hooks = map[hookPoint]func(schema.Name){hookChunkRead: func(schema.Name) { time.Sleep(3 * time.Millisecond) }}
		})
		for round := range 3 {
			r.settleLive("w")
			time.Sleep(100 * time.Millisecond)
			if round < 2 {
				r.f.reload(r.f.tables.all()[0], "again")
			}
		}
		close(stop)
		wg.Wait()
		r.same("w")
		if n := r.f.Status().LoadFailures; n > 0 {
			t.Errorf("%d loads failed", n)
		}
		if n := r.sink.loadsOf(r.schema + ".w"); n != 3 {
			t.Errorf("%d loads", n)
		}
	})
}
