package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// answerAge is the age that the first line of an answer shows.
func answerAge(t *testing.T, answer string) int {
	t.Helper()
	m := regexp.MustCompile(`^[^\r]* Lage=(-?\d+)`).FindStringSubmatch(answer)
	if m == nil {
		t.Errorf("no age in %q", answer)
		return -2
	}
	age, _ := strconv.Atoi(m[1])
	return age
}

// TestAge: clients of the meta protocol see how old a row may be, and bound that: with the stream held up the database
// answers what would be too old, and where it is not there, nobody says that there is no row.
func TestAge(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			for _, table := range []string{"a", "hot"} {
				mustExec(t, db, "CREATE TABLE "+schema+"."+table+" (id INT PRIMARY KEY, v VARCHAR(10), u INT NOT NULL, UNIQUE KEY u (u))")
				mustExec(t, db, "INSERT INTO "+schema+"."+table+" VALUES (1,'one',11)")
			}
			source := testmysql.NewProxy(t, s)
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			yaml := "containers:\n"
			for _, c := range []string{"a", "hot"} {
				yaml += fmt.Sprintf("  - {name: %s, schema: %s, table: %s, key_columns: [id], value_columns: [v]}\n", c, schema, c)
			}
			yaml += fmt.Sprintf("  - {name: u, schema: %s, table: a, key_columns: [u], value_columns: [v], unique_index: u}\n", schema)
			if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, source.DSN, schema+".a", "--config", config).waitReady()
			c := openMC(t, d.memcached)
			memory := func() uint64 { return d.status().Reads.Memcached.Memory }

			// Of a table in memory, and of a row that a hot table keeps.
			eventually(t, "the hot row is kept", func() error {
				if got := c.ask("me @@hot.1\r\n"); !strings.Contains(got, " origin=hot ") {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			for _, container := range []string{"a", "hot"} {
				key := "@@" + container + ".1"
				before := memory()
				got := c.ask("mg %s v Lage\r\n", key)
				if age := answerAge(t, got); age < 1 || age > 20000 || !strings.HasSuffix(got, "\r\none\r\n") || memory() == before {
					t.Errorf("%s: %q", key, got)
				}
				c.must("VA 3 Lage=0\r\none\r\n", "mg %s v Lage=0\r\n", key)
				c.must("EN Lage=0\r\n", "mg @@%s.7 v Lage=0\r\n", container)
			}
			// A bound makes the proofs come often enough for memory to satisfy it.
			eventually(t, "memory satisfies a bound of 300 ms", func() error {
				before := memory()
				for range 20 {
					if age := answerAge(t, c.ask("mg @@a.1 v Lage=300\r\n")); age > 300 {
						t.Errorf("%d ms is more than 300", age)
					}
					time.Sleep(5 * time.Millisecond)
				}
				if n := memory() - before; n < 18 {
					return fmt.Errorf("memory answered %d times of 20", n)
				}
				return nil
			})

			me := regexp.MustCompile(`^ME @@\S+ exp=-1 la=0 cas=(\d+) fetch=yes cls=0 size=\d version=(\d+) origin=(\w+) age=(\d+) applied=(-?\d+)\r\n$`)
			// An index beside the key that tells rows apart is made when it is asked for.
			for _, key := range []string{"@@a.1", "@@u.11"} {
				eventually(t, "the row came by the snapshot", func() error {
					if m := me.FindStringSubmatch(c.ask("me %s\r\n", key)); m == nil || m[1] != m[2] || m[3] != "snapshot" {
						return fmt.Errorf("%s: %q", key, m)
					}
					return nil
				})
			}
			mustExec(t, db, "UPDATE "+schema+".a SET v = 'two'")
			eventually(t, "the change came by the stream", func() error {
				for _, key := range []string{"@@a.1", "@@u.11"} {
					if m := me.FindStringSubmatch(c.ask("me %s\r\n", key)); m == nil || m[3] != "stream" || m[5] == "-1" {
						return fmt.Errorf("%s: %q", key, m)
					}
				}
				return nil
			})

			// The stream is held up, the database is there.
			source.Stalled.Store(true)
			for _, table := range []string{"a", "hot"} {
				mustExec(t, db, "UPDATE "+schema+"."+table+" SET v = 'three'")
				mustExec(t, db, "INSERT INTO "+schema+"."+table+" VALUES (2,'new',12)")
			}
			held := time.Now()
			time.Sleep(20 * time.Millisecond)
			c.must("VA 5 Lage=0\r\nthree\r\n", "mg @@a.1 v Lage=10\r\n")
			c.must("VA 3 Lage=0\r\nnew\r\n", "mg @@a.2 v Lage=10\r\n")
			c.must("VA 5 Lage=0\r\nthree\r\n", "mg @@u.11 v Lage=10\r\n")
			c.must("VA 5 Lage=0\r\nthree\r\n", "mg @@hot.1 v Lage=10\r\n")
			c.must("VA 3 Lage=0\r\nnew\r\n", "mg @@hot.2 v Lage=10\r\n")
			for key, want := range map[string]string{"@@a.1": "VA 3 Lage=", "@@hot.1": "VA 3 Lage=", "@@a.2": "EN Lage="} {
				got := c.ask("mg %s v Lage\r\n", key)
				if age := answerAge(t, got); !strings.HasPrefix(got, want) || age < int(time.Since(held).Milliseconds())/2 {
					t.Errorf("held up, %s: %q", key, got)
				}
			}

			// Nor is the database.
			source.Down.Store(true)
			source.Cut()
			eventually(t, "nobody says what is not older", func() error {
				for _, key := range []string{"@@a.1", "@@a.2", "@@hot.1", "@@hot.2"} {
					if got := c.ask("mg %s v q O7 Lage=10\r\n", key); got != "EN O7 Lage=-1\r\n" {
						return fmt.Errorf("%s: %q", key, got)
					}
				}
				return nil
			})
			if got := c.ask("mg @@a.1 v Lage=3600000\r\n"); !strings.HasSuffix(got, "\r\ntwo\r\n") {
				t.Errorf("within an hour: %q", got)
			}
			source.Down.Store(false)
			source.Stalled.Store(false)
			eventually(t, "memory has caught up", func() error {
				before := memory()
				got := c.ask("mg @@a.1 v Lage=300\r\n")
				if age := answerAge(t, got); age < 1 || !strings.HasSuffix(got, "\r\nthree\r\n") || memory() == before {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			d.stop()
		})
	}
}
