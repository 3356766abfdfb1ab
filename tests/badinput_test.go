package tests

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// refuse starts serve, which must end by itself with the exit code and one line that has all the words.
func refuse(t *testing.T, code int, dsn, tables string, words []string, args ...string) {
	t.Helper()
	d := start(t, dsn, tables, args...)
	if got := d.waitExit(30 * time.Second); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
	last := lines[len(lines)-1]
	for _, w := range words {
		if !strings.Contains(last, w) {
			t.Errorf("no %q in the last line %q", w, last)
		}
	}
	if strings.Contains(d.log.String(), "goroutine ") {
		t.Errorf("a stack trace:\n%s", d.log)
	}
}

// TestBadInput: what a user gets wrong at the start is one line that says what, where and how to mend it.
func TestBadInput(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".t (id INT PRIMARY KEY)")
			mustExec(t, db, "CREATE TABLE "+schema+".nokey (id INT)")
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Close()
			config := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(config, []byte("memory: 1GiB\nnonsense: 1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			limited := strings.Replace(s.DSN, "root:test@", "bad_"+s.Flavor+":pw@", 1)
			mustExec(t, db, "CREATE USER IF NOT EXISTS 'bad_"+s.Flavor+"'@'%' IDENTIFIED BY 'pw'")
			t.Cleanup(func() {
				if _, err := s.DB(t).Exec("DROP USER 'bad_" + s.Flavor + "'@'%'"); err != nil {
					t.Error(err)
				}
			})
			mustExec(t, db, "GRANT SELECT ON "+schema+".* TO 'bad_"+s.Flavor+"'@'%'")
			for _, c := range []struct {
				name        string
				code        int
				dsn, tables string
				words       []string
				args        []string
			}{
				{"unknown flag", 2, s.DSN, schema + ".t", []string{"--frobnicate"}, []string{"--frobnicate=1"}},
				{"unknown YAML key", 2, s.DSN, schema + ".t", []string{"nonsense", "c.yaml", "2"}, []string{"--config", config}},
				{"bad DSN", 2, "not a dsn", schema + ".t", []string{"source"}, nil},
				{"a state folder that is a file", 1, s.DSN, schema + ".t", []string{"--state-dir", "c.yaml"}, []string{"--state-dir", config}},
				{"wrong password", 1, strings.Replace(s.DSN, ":test@", ":wrong@", 1), schema + ".t", []string{"root", "password"}, nil},
				{"missing privilege", 1, limited, schema + ".t", []string{"GRANT", "REPLICATION"}, nil},
				{"unknown table", 1, s.DSN, schema + ".nosuch", []string{schema + ".nosuch"}, nil},
				{"a table without a key", 1, s.DSN, schema + ".nokey", []string{schema + ".nokey", "key"}, nil},
				{"a port that is taken", 1, s.DSN, schema + ".t", []string{taken.Addr().String()}, []string{"--memcached", taken.Addr().String()}},
			} {
				t.Run(c.name, func(t *testing.T) { refuse(t, c.code, c.dsn, c.tables, c.words, c.args...) })
			}
		})
	}
}

// TestBadSettings: settings of the server with which following would not be right.
func TestBadSettings(t *testing.T) {
	for _, c := range []struct {
		name, flavor string
		options      []string
		words        []string
	}{
		{"binlog off", testmysql.MariaDB, []string{"--skip-log-bin"}, []string{"log_bin"}},
		{"binlog off", testmysql.MySQL, []string{"--skip-log-bin"}, []string{"log_bin"}},
		{"statement format", testmysql.MariaDB, []string{"--binlog-format=MIXED"}, []string{"binlog_format", "ROW"}},
		{"minimal images", testmysql.MariaDB, []string{"--binlog-row-image=MINIMAL"}, []string{"binlog_row_image", "FULL"}},
		{"minimal images", testmysql.MySQL, []string{"--binlog-row-image=MINIMAL"}, []string{"binlog_row_image", "FULL"}},
		{"GTID off", testmysql.MySQL, []string{"--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"}, []string{"gtid_mode"}},
	} {
		t.Run(c.flavor+" "+c.name, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, c.flavor, c.options...)
			db := s.DB(t)
			mustExec(t, db, "CREATE DATABASE b")
			mustExec(t, db, "CREATE TABLE b.t (id INT PRIMARY KEY)")
			refuse(t, 1, s.DSN, "b.t", c.words)
		})
	}
}
