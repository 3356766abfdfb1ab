package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestMemcachedStrict: a daemon with memcached-compat: strict in its file makes of rows what the plugin made of them, and
// everybody reads that from memory at once, keys of another spelling and an emptied table included.
func TestMemcachedStrict(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".t (k VARCHAR(8) PRIMARY KEY, v VARCHAR(5), f INT, c BIGINT UNSIGNED, e INT, other INT DEFAULT 3) DEFAULT CHARSET=latin1")
			mustExec(t, db, "INSERT INTO "+schema+".t VALUES ('Key', '7', 1, 1, 0, 9)")
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			text := fmt.Sprintf("memcached-compat: strict\ncontainers:\n  - {name: t, schema: %s, table: t, key_columns: [k], value_columns: [v], flags_column: f, cas_column: c, expiry_column: e}\n", schema)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, s.DSN, schema+".t", "--config", config).waitReady()
			w, r := openMC(t, d.memcached), openMC(t, d.memcached)
			read := d.status().Reads.Memcached
			for i, step := range []struct{ in, answer, get string }{
				{"incr KEY 4294967297\r\n", "8\r\n", "8"},
				{"set key 1 0 9\r\n123456789\r\n", "STORED\r\n", "12345"},
				{"set key 1 -1 9\r\nflush_all\r\n", "CLIENT_ERROR Invalid expire time\r\nERROR\r\n", "12345"},
				{"set kEy 1 2592000 1\r\nx\r\n", "STORED\r\n", ""},
				{"replace kEy 1 0 1\r\nx\r\n", "STORED\r\n", "x"},
				{"delete @@t.key\r\ntouch key 1\r\n", "NOT_FOUND\r\nERROR\r\n", "x"},
			} {
				w.must(step.answer, "%s", step.in)
				want := "END\r\n"
				if step.get != "" {
					want = fmt.Sprintf("VALUE key 1 %d\r\n%s\r\nEND\r\n", len(step.get), step.get)
				}
				r.must(want, "get key\r\n")
				if now := d.status().Reads.Memcached; now.Memory != read.Memory+uint64(i)+1 || now.Database != read.Database {
					t.Errorf("%q: reads were %+v and are %+v, want one more from memory", step.in, read, now)
				}
			}
			var row string
			if err := db.QueryRowContext(t.Context(), "SELECT CONCAT_WS('|', k, v, f, e, COALESCE(other, 'NULL')) FROM "+schema+".t").Scan(&row); err != nil || row != "kEy|x|1|0|NULL" {
				t.Errorf("the row is %q, %v", row, err)
			}
			w.must("OK\r\n", "flush_all\r\n")
			r.must("END\r\n", "get key\r\n")
			if log := d.log.String(); strings.Contains(log, "level=ERROR") {
				t.Error("the log has errors")
			}
		})
	}
}
