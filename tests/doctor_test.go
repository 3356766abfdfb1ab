package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// doctor runs the command and returns what it printed and its exit code.
func doctor(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"doctor"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestDoctor: what is found is printed for people and for programs, and the exit code says whether serve would work.
func TestDoctor(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".t (id INT PRIMARY KEY, s TEXT, FULLTEXT KEY words (s))")
			mustExec(t, db, "CREATE TABLE "+schema+".keyless (v INT)")

			out, errs, code := doctor(t, "--source", s.DSN, "--tables", schema+".t")
			if code != 0 || errs != "" {
				t.Errorf("exit code %d, %s", code, errs)
			}
			for _, want := range []string{"source   ", s.Flavor, "account 'root'@", "table    " + schema + ".t can be kept, by its key PRIMARY", "words"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if strings.Contains(out, "root:test") {
				t.Errorf("the password is shown:\n%s", out)
			}

			// A saved state from before what is left of the log.
			var kept int
			if err := db.QueryRowContext(t.Context(), "SELECT @@binlog_expire_logs_seconds").Scan(&kept); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "manifest"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for age, want := range map[time.Duration]bool{0: false, 10 * 365 * 24 * time.Hour: kept > 0} {
				at := time.Now().Add(-age)
				if err := os.Chtimes(filepath.Join(dir, "manifest"), at, at); err != nil {
					t.Fatal(err)
				}
				out, _, code = doctor(t, "--source", s.DSN, "--tables", schema+".t", "--state-dir", dir)
				if code != 0 || strings.Contains(out, "the next start loads all tables") != want {
					t.Errorf("a state of %v, the log is kept for %d s: exit code %d\n%s", age, kept, code, out)
				}
			}

			out, errs, code = doctor(t, "--source", s.DSN, "--tables", schema+".keyless,"+schema+".none", "--json")
			if code != 1 || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, %s", code, errs)
			}
			var result struct {
				OK      bool
				Sources []struct {
					OK       bool
					Flavor   string
					Findings []struct{ Severity, Code, Table, Text string }
					Tables   []struct{ Name, Refusal string }
				}
			}
			if err := json.Unmarshal([]byte(out), &result); err != nil {
				t.Fatalf("%v in\n%s", err, out)
			}
			codes := map[string]string{}
			if result.OK || len(result.Sources) != 1 || result.Sources[0].OK || result.Sources[0].Flavor != s.Flavor {
				t.Fatalf("result %+v", result)
			}
			for _, f := range result.Sources[0].Findings {
				if f.Severity == "error" {
					codes[f.Table] = f.Code
				}
			}
			if len(codes) != 2 || codes[schema+".keyless"] != "table.refused" || codes[schema+".none"] != "table.missing" {
				t.Errorf("errors %v", codes)
			}
			if tables := result.Sources[0].Tables; len(tables) != 1 || tables[0].Refusal == "" {
				t.Errorf("tables %+v", tables)
			}
		})
	}
	out, errs, code := doctor(t, "--source", "root:secret@tcp("+freeAddress(t)+")/", "--tables", "a.b")
	if code != 1 || !strings.Contains(out, "refused") || strings.Contains(out+errs, "secret") {
		t.Errorf("a source that is down: exit code %d\n%s%s", code, out, errs)
	}
}
