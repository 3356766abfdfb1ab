package testmysql

import (
	"os"
	"path/filepath"
	"testing"
)

func TestServers(t *testing.T) {
	servers := Servers(t)
	if len(servers) != 2 {
		t.Fatalf("got %d servers, want one of each flavor", len(servers))
	}
	for _, s := range servers {
		t.Run(s.Flavor, func(t *testing.T) {
			again := Shared(t, s.Flavor)
			if again.DSN != s.DSN {
				t.Errorf("second call gave %s, first %s", again.DSN, s.DSN)
			}
			db := s.DB(t)
			var version string
			if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
				t.Fatal(err)
			}
			var format, image, metadata string
			if err := db.QueryRowContext(t.Context(), "SELECT @@binlog_format, @@binlog_row_image, @@binlog_row_metadata").
				Scan(&format, &image, &metadata); err != nil {
				t.Fatal(err)
			}
			if format != "ROW" || image != "FULL" || metadata != "FULL" {
				t.Errorf("%s: format %s, image %s, metadata %s; want ROW, FULL, FULL", version, format, image, metadata)
			}
		})
	}
}

func TestSchema(t *testing.T) {
	for _, s := range Servers(t) {
		var name string
		t.Run(s.Flavor, func(t *testing.T) {
			name = s.Schema(t)
			if other := s.Schema(t); other == name {
				t.Errorf("two schemas of the name %s", name)
			}
			db := s.DBIn(t, name)
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (7)"); err != nil {
				t.Fatal(err)
			}
			var id int
			if err := db.QueryRowContext(t.Context(), "SELECT id FROM a").Scan(&id); err != nil || id != 7 {
				t.Errorf("read back %d, %v", id, err)
			}
		})
		var left int
		if err := s.DB(t).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", name).
			Scan(&left); err != nil || left != 0 {
			t.Errorf("%s: schema %s after the test: %d, %v", s.Flavor, name, left, err)
		}
	}
}

func TestPrivate(t *testing.T) {
	for _, flavor := range Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			var dir string
			t.Run("life", func(t *testing.T) {
				s := Private(t, flavor, "--binlog-row-metadata=MINIMAL")
				dir = s.Dir
				schema := s.Schema(t)
				db := s.DBIn(t, schema)
				exec := func(query string) {
					t.Helper()
					if _, err := db.ExecContext(t.Context(), query); err != nil {
						t.Fatalf("%s: %v", query, err)
					}
				}
				expect := func(query, want string) {
					t.Helper()
					var got string
					if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
						t.Errorf("%s: %q, %v; want %q", query, got, err, want)
					}
				}
				expect("SELECT @@binlog_row_metadata", "MINIMAL")
				exec("CREATE TABLE a (id INT PRIMARY KEY)")
				exec("INSERT INTO a VALUES (1)")
				s.Kill()
				if err := db.PingContext(t.Context()); err == nil {
					t.Error("a killed server answers")
				}
				s.Start()
				exec("INSERT INTO a VALUES (2)")
				s.Stop()
				s.Start("--binlog-row-metadata=FULL")
				expect("SELECT GROUP_CONCAT(id ORDER BY id) FROM a", "1,2")
				expect("SELECT @@binlog_row_metadata", "FULL")
			})
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the private server's folder after its test: %v", err)
			}
		})
	}
}

func TestPrivateServersOfEndedProcessesAreRemoved(t *testing.T) {
	folder, err := cacheFolder("private")
	if err != nil {
		t.Fatal(err)
	}
	// No process has the highest possible number plus one.
	dir := filepath.Join(folder, "4194305-1")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := privateDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(own) })
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder of an ended process: %v", err)
	}
}
