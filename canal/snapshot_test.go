package canal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// A statement that changes the definition while the table is being loaded starts the load again, wherever it comes.
func TestDefinitionChangesDuringLoad(t *testing.T) {
	for _, at := range []struct {
		name  string
		point hookPoint
		visit int64
	}{{"defined", hookDefined, 1}, {"first-piece", hookChunkRead, 1}, {"later-piece", hookChunkRead, 5}} {
		t.Run(at.name, func(t *testing.T) {
			flavors(t, func(t *testing.T, s testmysql.Server) {
				r := newRig(t, s, deepRecursion(s), tableW, fillW(500))
				other := r.session()
				done := make(chan struct{}, 1)
				var visits atomic.Int64
				r.start(func(cfg *Config) { cfg.ChunkRows = 20 }, func(f *Follower) {
					f.mostRows = 20
					f.hooks = map[hookPoint]func(schema.Name){at.point: func(schema.Name) {
						if visits.Add(1) == at.visit {
							for _, sql := range []string{
								"ALTER TABLE w ADD COLUMN x INT NOT NULL DEFAULT 9 AFTER id, DROP COLUMN pad",
								"INSERT INTO w VALUES (1000, 1, 2)",
							} {
								if err := other.Exec(context.Background(), sql); err != nil {
									t.Error(err)
								}
							}
							done <- struct{}{}
						}
					}}
				})
				<-done
				r.same("w")
				r.sink.mu.Lock()
				defer r.sink.mu.Unlock()
				if n := len(r.sink.tables[r.schema+".w"].def.Columns); n != 3 {
					t.Errorf("%d columns", n)
				}
			})
		})
	}
}

// Statements change the definition again and again while others write.
func TestDefinitionChangesUnderWriters(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(1000))
		r.start(func(cfg *Config) { cfg.ChunkRows = 50 }, func(f *Follower) { f.mostRows = 50 })
		r.settleLive("w")
		stop := make(chan struct{})
		wg := r.writers(2, 1100, stop)
		for i, sql := range []string{
			"ALTER TABLE w ADD COLUMN x INT NOT NULL DEFAULT 9",
			"ALTER TABLE w MODIFY x VARCHAR(10) DEFAULT 'q'",
			"ALTER TABLE w RENAME TO w2",
			"CREATE TABLE w LIKE w2",
			"RENAME TABLE w TO w3, w2 TO w",
			"TRUNCATE TABLE w",
			"ALTER TABLE w DROP COLUMN x",
			"ALTER TABLE w ADD INDEX (v)",
		} {
			r.exec(sql)
			if i%2 == 1 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		close(stop)
		wg.Wait()
		r.same("w", "w3")
		r.noGap()
	})
}

// Tables are read piece by piece by every kind of key, or all at once by those that do not allow it.
func TestKeyKinds(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "SET sql_mode = ''")
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
		temporal := func(i int) string {
			return fmt.Sprintf("'20%02d-%02d-%02d %02d:%02d:%02d.%06d'", i%100, 1+i%12, 1+i%28, i%24, i%60, i*7%60, i*999%1000000)
		}
		text := func(i int) string {
			words := []string{"a", "B", "ß", "é", "Z", "zz", "_", "'", "\\\\", "日本", "0", "-", " x", "%", "\U0001F600"}
			w := ""
			for i += 1; i > 0; i /= len(words) {
				w += words[i%len(words)]
			}
			return quote(w)
		}
		kinds := map[string]struct {
			columns, key string
			row          func(i int) string
		}{
			"int":       {"a INT", "a", func(i int) string { return fmt.Sprint(i*7 - 300) }},
			"ubig":      {"a BIGINT UNSIGNED", "a", func(i int) string { return fmt.Sprint(uint64(i) << 57 >> 1 << 1) }},
			"zerofill":  {"a INT(8) ZEROFILL", "a", func(i int) string { return fmt.Sprint(i) }},
			"decimal":   {"a DECIMAL(10,3)", "a", func(i int) string { return fmt.Sprintf("%d.%03d", 50-i, i) }},
			"double":    {"a DOUBLE", "a", func(i int) string { return fmt.Sprintf("%de-7", i*i*31) }},
			"date":      {"a DATE", "a", func(i int) string { return fmt.Sprintf("'%04d-%02d-%02d'", i*20, i%13, i%29) }},
			"time":      {"a TIME(3)", "a", func(i int) string { return fmt.Sprintf("'%d:%02d:%02d.%03d'", i*8-400, i%60, i%60, i) }},
			"datetime":  {"a DATETIME(6)", "a", temporal},
			"timestamp": {"a TIMESTAMP(6) DEFAULT 0", "a", temporal},
			"year":      {"a YEAR", "a", func(i int) string { return fmt.Sprint(1901 + i) }},
			"enum":      {"a ENUM('z','a','m')", "a", func(i int) string { return fmt.Sprint(i%3 + 1) }},
			"set":       {"a SET('z','a','m','b','x','c','y')", "a", func(i int) string { return fmt.Sprint(i) }},
			"bit":       {"a BIT(10)", "a", func(i int) string { return fmt.Sprint(i * 3) }},
			"ci":        {"a VARCHAR(40)", "a", text},
			"bin":       {"a VARCHAR(40) COLLATE utf8mb4_bin", "a", text},
			"general":   {"a VARCHAR(40) COLLATE utf8mb4_general_ci", "a", text},
			"latin1":    {"a CHAR(20) CHARACTER SET latin1", "a", text},
			"ucs2":      {"a VARCHAR(20) CHARACTER SET ucs2", "a", text},
			"gbk":       {"a VARCHAR(20) CHARACTER SET gbk", "a", text},
			"binary":    {"a BINARY(6)", "a", func(i int) string { return fmt.Sprintf("x'%02x00%02x'", i*37%256, i) }},
			"varbinary": {"a VARBINARY(6)", "a", func(i int) string { return fmt.Sprintf("x'%02x00%02x'", i*37%256, i) }},
			"three":     {"a INT, b VARCHAR(5), c DATE", "b, a, c", func(i int) string { return fmt.Sprintf("%d, '%c', '2020-01-%02d'", i%3, 'a'+i%4, i%28+1) }},
			"desc":      {"a INT, b INT", "a DESC, b", func(i int) string { return fmt.Sprintf("%d, %d", i%5, i) }},
		}
		if s.Flavor == testmysql.MariaDB {
			kinds["uuid"] = struct {
				columns, key string
				row          func(i int) string
			}{"a UUID", "a", func(i int) string { return "UUID()" }}
		}
		var tables []string
		for name, k := range kinds {
			name = "k_" + name
			r.exec("CREATE TABLE " + name + " (" + k.columns + ", n INT, PRIMARY KEY (" + k.key + ")) CHARACTER SET utf8mb4")
			for i := range 120 {
				// Texts that are equal in the collation are left out.
				r.exec(fmt.Sprintf("INSERT IGNORE INTO %s VALUES (%s, %d)", name, k.row(i), i))
			}
			tables = append(tables, name)
		}
		r.start(func(cfg *Config) { cfg.ChunkRows = 7 }, func(f *Follower) { f.mostRows = 7 })
		r.same(tables...)
		for _, name := range tables {
			r.exec("UPDATE " + name + " SET n = n + 1")
			r.exec(fmt.Sprintf("DELETE FROM %s WHERE n %% 3 = %d", name, rand.IntN(3)))
		}
		r.same(tables...)
		r.noGap()
		if n := r.f.Status().LoadFailures; n > 0 {
			t.Errorf("%d loads failed", n)
		}
	})
}

// Rows that grow suddenly must not be read into memory by the thousand.
func TestPiecesAreBounded(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), "CREATE TABLE w (id INT PRIMARY KEY, b LONGBLOB)",
			"INSERT INTO w WITH RECURSIVE r AS (SELECT 0 n UNION ALL SELECT n + 1 FROM r WHERE n < 3999) SELECT n, IF(n < 3900, 'x', REPEAT('y', 400000)) FROM r")
		r.start(nil, nil)
		r.same("w")
		if st := r.f.Status(); st.LoadFailures > 0 || st.Loads != 1 {
			t.Errorf("%d loads, %d failed", st.Loads, st.LoadFailures)
		}
	})
}

func TestPace(t *testing.T) {
	var p pace
	now := time.Now()
	for i := range loadBurst {
		if w := p.wait(now, 0); w != 0 {
			t.Fatalf("load %d waits %v", i, w)
		}
	}
	if w := p.wait(now, 0); w != 500*time.Millisecond {
		t.Errorf("first after the burst waits %v", w)
	}
	if w := p.wait(now.Add(time.Hour), 7*time.Second); w != 7*time.Second {
		t.Errorf("after a load that was cut off: %v", w)
	}
	if w := p.wait(now.Add(time.Hour), time.Hour); w != longestPause {
		t.Errorf("after a long load that was cut off: %v", w)
	}
	p.failures = 100
	if w := p.wait(now.Add(2*time.Hour), 0); w < mostPause/2 || w > 2*mostPause {
		t.Errorf("after many failures: %v", w)
	}
}
