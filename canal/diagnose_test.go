package canal

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// TestDiagnose makes one thing wrong after the other: exactly that one is found, and the SQL that is given mends it.
func TestDiagnose(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		admin := s.DB(t)
		exec := func(statements ...string) {
			t.Helper()
			for _, sql := range statements {
				if _, err := admin.ExecContext(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
		}
		const account = `'c@che'@'127.0.0.1'`
		exec("CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY, s VARCHAR(20), FULLTEXT KEY words (s))",
			"CREATE TABLE d.keyless (v INT)",
			"CREATE USER "+account+" IDENTIFIED BY 'pass'", "GRANT SELECT, INSERT, UPDATE, DELETE ON d.* TO "+account,
			"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+account)
		cfg, err := sqltext.ParseDSN(s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Password = "c@che", "pass"
		tables, purpose := "d.a", Purpose{Writes: true, Memory: 1 << 20}
		diagnose := func() *Diagnosis {
			t.Helper()
			patterns, err := schema.ParsePatterns(tables)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			d, err := Diagnose(ctx, cfg, patterns, purpose)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		codes := func(d *Diagnosis) (codes []string) {
			for _, p := range d.Problems {
				if p.Text == "" || strings.Contains(p.Error(), "\n") {
					t.Errorf("problem %+v is not one line", p)
				}
				if p.Code != "stream.untried" {
					codes = append(codes, p.Code)
				}
			}
			return codes
		}
		healthy := func(when string) {
			t.Helper()
			d := diagnose()
			if len(codes(d)) != 0 || !d.Safe() {
				t.Errorf("%s: %v", when, d.Problems)
			}
			if len(d.Tables) != 1 || d.Tables[0].Key != "PRIMARY" || d.Tables[0].Refusal != "" || len(d.Tables[0].Passed) != 1 || d.Tables[0].Passed[0].Name != "words" {
				t.Errorf("%s: tables %+v", when, d.Tables)
			}
		}
		healthy("at first")

		type fault struct {
			sql  string
			code string
			safe bool
		}
		faults := []fault{
			{"SET GLOBAL binlog_format = 'MIXED'", "binlog_format", false},
			{"SET GLOBAL binlog_row_image = 'MINIMAL'", "binlog_row_image", false},
			{"SET GLOBAL binlog_row_metadata = 'MINIMAL'", "binlog_row_metadata", true},
			{"SET GLOBAL sync_binlog = 0", "sync_binlog", true},
			{"SET GLOBAL innodb_flush_log_at_trx_commit = 2", "innodb_flush_log_at_trx_commit", true},
			{"SET GLOBAL binlog_expire_logs_seconds = 600", "binlog_expire_logs_seconds", true},
			{"SET GLOBAL read_only = 1", codeReadOnly, true},
			{"REVOKE INSERT ON d.* FROM " + account, codeWrite, true},
			{"REVOKE UPDATE ON d.* FROM " + account, codeWrite, true},
			{"REVOKE DELETE ON d.* FROM " + account, codeWrite, true},
			{"REVOKE INSERT, UPDATE, DELETE ON d.* FROM " + account, codeWrite, true},
			{"REVOKE SELECT ON d.* FROM " + account, codeSelect, false},
			{"REVOKE REPLICATION SLAVE ON *.* FROM " + account, codeSlave, false},
			{"REVOKE REPLICATION CLIENT ON *.* FROM " + account, codeClient, false},
		}
		if s.Flavor == testmysql.MySQL {
			faults = append(
				faults,
				fault{"SET GLOBAL gtid_mode = ON_PERMISSIVE", "gtid_mode", false},
				fault{"SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'", "binlog_row_value_options", true},
				fault{"SET GLOBAL server_id = 0", "server_id", false},
			)
		}
		for _, f := range faults {
			if f.code == codeClient && s.Flavor == testmysql.MariaDB {
				f.sql = strings.Replace(f.sql, "REPLICATION CLIENT", "BINLOG MONITOR", 1) // what it is there
			}
			exec(f.sql)
			d := diagnose()
			if got := codes(d); !slices.Equal(got, []string{f.code}) || d.Safe() != f.safe {
				t.Errorf("after %s: safe %v, problems %v", f.sql, d.Safe(), d.Problems)
				continue
			}
			at := slices.IndexFunc(d.Problems, func(p Problem) bool { return p.Code == f.code })
			if len(d.Problems[at].SQL) == 0 {
				t.Errorf("no SQL mends %s", f.sql)
			}
			exec(d.Problems[at].SQL...)
			healthy("after mending " + f.code)
			if strings.HasPrefix(f.sql, "REVOKE") && strings.Contains(f.sql, "d.*") {
				// As before: the SQL is of the one table.
				exec("GRANT SELECT, INSERT, UPDATE, DELETE ON d.* TO "+account, "REVOKE ALL PRIVILEGES ON d.a FROM "+account)
			}
		}

		// Nobody writes: then nobody needs to be able to.
		exec("REVOKE INSERT, UPDATE, DELETE ON d.* FROM "+account, "SET GLOBAL read_only = 1")
		purpose.Writes = false
		healthy("without writing")
		exec("SET GLOBAL read_only = 0")

		// What the account may not see reads as missing; the grant that is named mends it.
		exec("REVOKE SELECT ON d.* FROM " + account)
		d := diagnose()
		if got := codes(d); !slices.Equal(got, []string{codeMissing}) || !strings.Contains(d.Problems[0].Mend, "GRANT SELECT ON `d`.`a` TO "+account) {
			t.Errorf("without SELECT: %+v", d.Problems)
		}
		exec("GRANT SELECT ON `d`.`a` TO " + account)
		healthy("after the grant")
		exec("GRANT SELECT ON d.* TO " + account)

		tables = "d.keyless"
		d = diagnose()
		if got := codes(d); !slices.Equal(got, []string{codeRefused}) || d.Safe() || len(d.Tables) != 1 || d.Tables[0].Refusal == "" {
			t.Errorf("a table without a key: %+v, %+v", d.Problems, d.Tables)
		}
		tables = "d.*"
		if d = diagnose(); len(codes(d)) != 0 || !d.Safe() || len(d.Tables) != 2 {
			t.Errorf("a pattern over all tables: %+v, %+v", d.Problems, d.Tables)
		}
		hazard := func(table, ddl, code, text string) {
			t.Helper()
			exec(ddl)
			defer exec("DROP TABLE d.`" + table + "`")
			tables = "d.a,d." + table
			d := diagnose()
			if got := codes(d); !slices.Equal(got, []string{code}) || !strings.Contains(d.Problems[0].Text, text) || d.Safe() != d.Problems[0].Warning {
				t.Errorf("%s: safe %v, %+v", ddl, d.Safe(), d.Problems)
			}
			// By a pattern it is shown, and keeps from nothing.
			tables = "d.a," + "d." + table[:1] + "*"
			if d = diagnose(); !d.Safe() || len(d.Tables) != 2 || code == codeRefused && !strings.Contains(d.Tables[1].Refusal, text) {
				t.Errorf("%s by a pattern: %+v, %+v", ddl, d.Problems, d.Tables)
			}
		}
		if s.Flavor == testmysql.MariaDB { // MySQL 9.7 logs cascades
			hazard("x_child", "CREATE TABLE d.x_child (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES d.a (id) ON DELETE CASCADE)", codeRefused, "which the log does not show")
			hazard("x_versioned", "CREATE TABLE d.x_versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", codeRefused, "ersion")
		}
		hazard("x_engine", "CREATE TABLE d.x_engine (id INT PRIMARY KEY) ENGINE = MyISAM", codeRefused, "MyISAM")
		unordered := map[string]string{testmysql.MariaDB: "utf8mb4_uca1400_ai_ci", testmysql.MySQL: "gb18030_chinese_ci"}[s.Flavor]
		hazard("x_fuzzy", "CREATE TABLE d.x_fuzzy (v VARCHAR(10) PRIMARY KEY) COLLATE "+unordered, codeRefused, unordered)
		hazard("x_enum", "CREATE TABLE d.x_enum (v ENUM('a', 'b') PRIMARY KEY)", codeOneRead, "one SELECT")
		tables = "d.a,d.y_large"
		exec("CREATE TABLE d.y_large (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)", "INSERT INTO d.y_large (v) VALUES (REPEAT('v', 3000000))", "ANALYZE TABLE d.y_large")
		if d = diagnose(); !slices.Equal(codes(d), []string{codeMemory}) || !d.Safe() || !strings.Contains(d.Problems[0].Text, "d.y_large") {
			t.Errorf("tables larger than memory: %+v", d.Problems)
		}
		exec("DROP TABLE d.y_large")
		tables = "d.a"

		cfg.Password = "wrong"
		if d = diagnose(); !slices.Equal(codes(d), []string{codeLogin}) || d.Safe() || strings.Contains(d.Problems[0].Error(), "wrong") {
			t.Errorf("with a wrong password: %+v", d.Problems)
		}
		cfg.Password = "pass"

		closeAll(admin)
		s.Stop()
		s.Start("--skip-log-bin")
		if d = diagnose(); !slices.Equal(codes(d), []string{"log_bin"}) || d.Safe() {
			t.Errorf("without a binlog: %+v", d.Problems)
		}
		s.Stop()
		patterns, _ := schema.ParsePatterns(tables)
		if _, err := Diagnose(t.Context(), cfg, patterns, purpose); err == nil {
			t.Error("no error although the source is down")
		}
		s.Start()
	}, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
}

// closeAll drops the idle sessions, so that the server can end.
func closeAll(db *sql.DB) { db.SetMaxIdleConns(0) }
