package tests

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestMaxStaleness: beyond the limit the database answers, and an error where that is not there; memory does again when it
// has caught up.
func TestMaxStaleness(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".a (id INT PRIMARY KEY, v VARCHAR(10))")
			mustExec(t, db, "INSERT INTO "+schema+".a VALUES (1,'one')")
			source := testmysql.NewProxy(t, s)
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			yaml := fmt.Sprintf("containers:\n  - name: a\n    schema: %s\n    table: a\n    key_columns: [id]\n    value_columns: [v]\n", schema)
			if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, source.DSN, schema+".a", "--max-staleness", "400ms", "--config", config).waitReady()
			read := func() string {
				return askLine(t, d.handlerSocket, "P\t1\t"+schema+"\ta\tPRIMARY\tv\n1\t=\t1\t1\n", 2)[1] + " " +
					askLine(t, d.memcached, "get 1\r\n", 1)[0]
			}
			until := func(what, want string) {
				t.Helper()
				eventually(t, what, func() error {
					if got := read(); got != want {
						return fmt.Errorf("%q, want %q", got, want)
					}
					return nil
				})
			}
			until("memory answers", "0\t1\tone VALUE 1 0 3")
			before := d.status().Reads
			if read(); d.status().Reads.HandlerSocket.Memory == before.HandlerSocket.Memory {
				t.Error("memory does not answer")
			}

			// The stream is late and the database is there.
			source.Stalled.Store(true)
			begin := time.Now()
			mustExec(t, db, "UPDATE "+schema+".a SET v = 'three'")
			until("the database answers", "0\t1\tthree VALUE 1 0 5")
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("the database answers after %v", took)
			}
			if code, body, err := d.get("/readyz"); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, "--max-staleness=400ms") {
				t.Errorf("readyz: %d %q %v", code, body, err)
			}
			if _, body, err := d.get("/metrics"); err != nil || !strings.Contains(body, "binlogcache_stale 1\n") {
				t.Errorf("metrics: %v", err)
			}

			// Then the database is not there either.
			source.Down.Store(true)
			source.Cut()
			eventually(t, "nobody answers", func() error {
				if got := read(); !strings.HasPrefix(got, "1\t1\tunavailable SERVER_ERROR ") {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			source.Down.Store(false)
			source.Stalled.Store(false)
			d.waitReady()
			before = d.status().Reads
			until("memory answers again", "0\t1\tthree VALUE 1 0 5")
			if after := d.status().Reads; after.HandlerSocket.Database != before.HandlerSocket.Database || after.HandlerSocket.Memory == before.HandlerSocket.Memory {
				t.Errorf("reads before %+v, after %+v", before, after)
			}
			d.stop()
		})
	}
}
