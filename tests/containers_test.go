package tests

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// memcacheTables are the tables of the InnoDB memcached plugin's script.
var memcacheTables = []string{
	"CREATE DATABASE innodb_memcache",
	"CREATE TABLE innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY, get_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, set_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, delete_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, flush_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"CREATE TABLE innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, db_schema VARCHAR(250) NOT NULL, db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"INSERT INTO innodb_memcache.cache_policies VALUES ('cache_policy','innodb_only','innodb_only','innodb_only','innodb_only')",
	"INSERT INTO innodb_memcache.config_options VALUES ('separator','|'),('table_map_delimiter','.')",
}

// followTime is how long a change of a container's row may take until it counts, on a busy machine.
const followTime = 5 * time.Second

// TestContainersFollowed: rows of the plugin's tables that plain DML changes count at once, without a restart, for
// connections that are open too; and the file is read again at SIGHUP.
func TestContainersFollowed(t *testing.T) {
	for _, flavor := range []string{"mariadb", "mysql"} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			db := s.DB(t)
			for _, q := range append([]string{
				"CREATE DATABASE app", "CREATE TABLE app.a (id INT PRIMARY KEY, v VARCHAR(20), w VARCHAR(20), e INT NOT NULL DEFAULT 0)", "INSERT INTO app.a (id, v, w) VALUES (1,'one','uno')",
				"CREATE TABLE app.b (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20))", "INSERT INTO app.b VALUES ('x','of b')",
			}, memcacheTables...) {
				mustExec(t, db, q)
			}
			const columns = "INSERT INTO innodb_memcache.containers (name, db_schema, db_table, key_columns, value_columns, flags, cas_column, expire_time_column, unique_idx_name_on_key) VALUES "
			mustExec(t, db, columns+"('a','app','a','id','v','0','0','0','PRIMARY')")
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			write := func(text string) {
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("log-level: info\n")
			d := start(t, s.DSN, "app.*", "--config", config).waitReady()
			c := openMC(t, d.memcached)
			c.must("VALUE 1 0 3\r\none\r\nEND\r\n", "get 1\r\n")

			// until waits for an answer on a connection that is open, and notes how long that takes.
			longest := time.Duration(0)
			until := func(change, request, want string) {
				t.Helper()
				begin := time.Now()
				if !strings.HasPrefix(change, "#") {
					mustExec(t, db, change)
				}
				got := ""
				for got = c.ask("%s\r\n", request); got != want && time.Since(begin) < followTime; got = c.ask("%s\r\n", request) {
					time.Sleep(2 * time.Millisecond)
				}
				if got != want {
					t.Errorf("%s: %s is answered %q, want %q", change, request, got, want)
				}
				longest = max(longest, time.Since(begin))
			}
			until("UPDATE innodb_memcache.containers SET value_columns = 'w' WHERE name = 'a'", "get 1", "VALUE 1 0 3\r\nuno\r\nEND\r\n")
			until("UPDATE innodb_memcache.containers SET value_columns = 'v|w' WHERE name = 'a'", "get 1", "VALUE 1 0 7\r\none|uno\r\nEND\r\n")
			until("UPDATE innodb_memcache.config_options SET value = ';' WHERE name = 'separator'", "get 1", "VALUE 1 0 7\r\none;uno\r\nEND\r\n")
			until(columns+"('b','app','b','k','v','0','0','0','PRIMARY')", "get @@b.x", "VALUE @@b.x 0 4\r\nof b\r\nEND\r\n")
			c.must("VALUE @@a.1 0 7\r\none;uno\r\nEND\r\n", "get @@a.1\r\n")
			until("UPDATE innodb_memcache.config_options SET value = ':' WHERE name = 'table_map_delimiter'", "get @@b:x", "VALUE @@b:x 0 4\r\nof b\r\nEND\r\n")
			until("UPDATE innodb_memcache.config_options SET value = '.' WHERE name = 'table_map_delimiter'", "get @@b.x", "VALUE @@b.x 0 4\r\nof b\r\nEND\r\n")

			// Policies.
			until("UPDATE innodb_memcache.cache_policies SET get_policy = 'disabled'", "get x", "END\r\n")
			until("UPDATE innodb_memcache.cache_policies SET get_policy = 'innodb_only'", "get x", "VALUE x 0 4\r\nof b\r\nEND\r\n")
			until("UPDATE innodb_memcache.cache_policies SET get_policy = 'cache_only', set_policy = 'cache_only'", "get x", "END\r\n")
			c.must("STORED\r\nVALUE x 0 4\r\nitem\r\nEND\r\n", "set x 0 0 4\r\nitem\r\nget x\r\n")
			until("UPDATE innodb_memcache.cache_policies SET get_policy = 'innodb_only', set_policy = 'innodb_only'", "get x", "VALUE x 0 4\r\nof b\r\nEND\r\n")

			// A row that becomes wrong: the container is refused, with the reason, and neither the old one nor another answers.
			begin := time.Now()
			mustExec(t, db, "UPDATE innodb_memcache.containers SET value_columns = 'nope' WHERE name = 'b'")
			eventually(t, "the wrong row is told", func() error {
				if got := c.ask("get x\r\n"); !strings.HasPrefix(got, "SERVER_ERROR ") || !strings.Contains(got, `"nope"`) {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			longest = max(longest, time.Since(begin))
			if got := c.ask("get @@b.x\r\n"); !strings.HasPrefix(got, "SERVER_ERROR ") {
				t.Errorf("@@b.x: %q", got)
			}
			c2 := openMC(t, d.memcached)
			c2.must("VALUE 1 0 7\r\none;uno\r\nEND\r\n", "get 1\r\n")
			until("UPDATE innodb_memcache.containers SET value_columns = 'v' WHERE name = 'b'", "get x", "VALUE x 0 4\r\nof b\r\nEND\r\n")

			// Deleted: unknown by its name, and an error to those who have chosen it; another with its name is found again.
			until("DELETE FROM innodb_memcache.containers WHERE name = 'b'", "get x", "SERVER_ERROR container \"b\" is no longer known\r\n")
			c2.must("END\r\n", "get @@b.x\r\n")
			mustExec(t, db, "CREATE TABLE app.c (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20))")
			mustExec(t, db, "INSERT INTO app.c VALUES ('x','of c')")
			until(columns+"('b','app','c','k','v','0','0','0','PRIMARY')", "get x", "VALUE x 0 4\r\nof c\r\nEND\r\n")

			// A container whose table comes later.
			mustExec(t, db, columns+"('late','app','late','k','v','0','0','0','PRIMARY')")
			until("# no table", "get @@late.x", "SERVER_ERROR there is no base table app.late\r\n")
			c.must("VALUE @@b.x 0 4\r\nof c\r\nEND\r\n", "get @@b.x\r\n")
			mustExec(t, db, "CREATE TABLE app.late (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20))")
			until("INSERT INTO app.late VALUES ('x','late')", "get @@late.x", "VALUE @@late.x 0 4\r\nlate\r\nEND\r\n")

			// A transaction counts at its end, whole; one that is rolled back never.
			changeTogether(t, db)
			until("# together", "get @@b.x", "VALUE @@b.x 0 4\r\nof b\r\nEND\r\n")

			// The file, at SIGHUP.
			hangup := func(text string) {
				write(text)
				if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
			}
			hangup("containers:\n  - {name: f, schema: app, table: b, key_columns: [k], value_columns: [v]}\n")
			until("# file", "get @@f.x", "VALUE @@f.x 0 4\r\nof b\r\nEND\r\n")
			hangup("containers:\n  - {name: f, schema: app, table: c, key_columns: [k], value_columns: [v]}\noptions: {separator: '/'}\n")
			until("# file", "get @@f.x", "VALUE @@f.x 0 4\r\nof c\r\nEND\r\n")
			c.must("VALUE @@a.1 0 7\r\none/uno\r\nEND\r\n", "get @@a.1\r\n")
			for text, word := range map[string]string{"containers: [\n": "everything stays", "containers:\n  - {name: f, schema: app, table: c, nokey: 1}\n": "everything stays", "memory: 2GiB\ncontainers:\n  - {name: f, schema: app, table: c, key_columns: [k], value_columns: [v]}\n": "changed=memory"} {
				before := strings.Count(d.log.String(), word)
				hangup(text)
				eventually(t, "what is wrong with the file is told", func() error {
					if strings.Count(d.log.String(), word) == before {
						return fmt.Errorf("nothing of %q in the log", word)
					}
					return nil
				})
				c.must("VALUE @@f.x 0 4\r\nof c\r\nEND\r\n", "get @@f.x\r\n")
			}
			t.Logf("the slowest change counted after %v", longest)
			if longest > 2*time.Second {
				t.Errorf("a change counted after %v", longest)
			}
			d.stop()
		})
	}
}

// changeTogether exchanges tables between containers in one transaction, after one that is rolled back.
func changeTogether(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		table := "b"
		if end == "ROLLBACK" {
			table = "nosuch"
		}
		for _, q := range []string{"DELETE FROM innodb_memcache.containers WHERE name = 'late'", "UPDATE innodb_memcache.containers SET db_table = '" + table + "' WHERE name = 'b'"} {
			if _, err := tx.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		if end == "COMMIT" {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
