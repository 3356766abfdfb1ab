package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// serveRows runs the built program over a table and returns its memcached address.
func serveRows(t *testing.T, s testmysql.Server, schema string) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "binlogcache")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/binlogcache").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	port, err := testmysql.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	config := filepath.Join(dir, "binlogcache.yaml")
	yaml := fmt.Sprintf("containers:\n  - {name: default, schema: %s, table: kv, key_columns: [k], value_columns: [v], flags_column: f, cas_column: c, expiry_column: e}\n", schema)
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.CommandContext(context.Background(), binary, "serve", "--source", s.DSN, "--tables", schema+".kv", "--config", config, "--memcached", address,
		"--handlersocket-read", "off", "--handlersocket-write", "off", "--admin", "off")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon ended: %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	// Containers are known a moment after the port is open.
	ready := func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("get ready\r\nquit\r\n")); err != nil {
			return err
		}
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err == nil && string(buf[:n]) != "VALUE ready 0 1\r\n1\r\nEND\r\n" {
			err = errors.New(string(buf[:n]))
		}
		return err
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := ready()
		if err == nil {
			return address
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("not ready: %v", err)
		}
	}
}

// TestClientsWriteRows: the libraries write to a container, in text and binary as far as they have both, and SQL shows
// what they wrote.
func TestClientsWriteRows(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			for _, q := range []string{
				"CREATE TABLE " + schema + ".kv (k VARCHAR(64) COLLATE utf8mb4_bin PRIMARY KEY, v VARCHAR(255), f BIGINT NOT NULL DEFAULT 0, c BIGINT NOT NULL DEFAULT 0, e BIGINT NOT NULL DEFAULT 0)",
				"INSERT INTO " + schema + ".kv (k, v) VALUES ('ready', '1')",
			} {
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			address := serveRows(t, s, schema)
			for i, p := range programs {
				if p.name == "memccapable" {
					continue // it has keys of its own
				}
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					prefix := fmt.Sprintf("c%d", i)
					p.run(t, address, "MC_ROWS="+prefix)
					var got string
					if err := db.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(k, '=', v ORDER BY k SEPARATOR ' ') FROM "+schema+".kv WHERE k LIKE '"+prefix+"%'").Scan(&got); err != nil {
						t.Fatal(err)
					}
					want := strings.ReplaceAll("PPbadd=a1 PPbn=15 PPbset=hello PPtadd=a1 PPtn=15 PPtset=hello", "PP", prefix)
					if got != want {
						t.Errorf("the table has %q, want %q", got, want)
					}
				})
			}
		})
	}
}
