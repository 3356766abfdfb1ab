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
			"CREATE USER "+account+" IDENTIFIED BY 'pass'", "GRANT SELECT ON d.* TO "+account,
			"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+account)
		cfg, err := sqltext.ParseDSN(s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Password = "c@che", "pass"
		tables := "d.a"
		diagnose := func() *Diagnosis {
			t.Helper()
			patterns, err := schema.ParsePatterns(tables)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			d, err := Diagnose(ctx, cfg, patterns)
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
		}

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
		if _, err := Diagnose(t.Context(), cfg, patterns); err == nil {
			t.Error("no error although the source is down")
		}
		s.Start()
	}, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
}

// closeAll drops the idle sessions, so that the server can end.
func closeAll(db *sql.DB) { db.SetMaxIdleConns(0) }
