package tests

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestProof: verify and explain ask the daemon, and the exit code tells what came of it. That differences are found is
// shown where memory can be damaged, in internal/app.
func TestProof(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MySQL)
	schema := s.Schema(t)
	db := s.DB(t)
	mustExec(t, db, "CREATE TABLE "+schema+".t (id INT PRIMARY KEY, v TEXT)")
	mustExec(t, db, "INSERT INTO "+schema+".t VALUES (1, 'a'), (2, NULL)")
	d := start(t, s.DSN, schema+".t").waitReady()
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exit code %d, want %d: %s%s", args, got, code, &out, &errs)
		}
		return out.String(), errs.String()
	}
	verify := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		return run(code, append([]string{"verify"}, args...)...)
	}
	admin := strings.TrimPrefix(d.base, "http://")
	if out, _ := verify(0, "--admin", admin); out != "2 rows of 1 tables compared: 0 differences, 0 of them mended\n" {
		t.Errorf("%q", out)
	}
	var result struct {
		Tables int
		Rows   int
	}
	out, _ := verify(0, "--admin", admin, "--table", schema+".t", "--key", "2", "--json")
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Tables != 1 || result.Rows != 1 {
		t.Errorf("%v in %q", err, out)
	}
	if out, errs := verify(1, "--admin", admin, "--table", schema+".none"); !strings.Contains(out, "skipped") || strings.Count(errs, "\n") != 1 {
		t.Errorf("an unknown table: %q, %q", out, errs)
	}
	if _, errs := verify(1, "--admin", admin, "--table", schema+".t", "--key", "1", "--key", "2"); !strings.Contains(errs, "2 values for the 1 columns of PRIMARY") {
		t.Errorf("a key of too many values: %q", errs)
	}
	if _, errs := verify(1, "--admin", freeAddress(t)); !strings.Contains(errs, "does not answer") {
		t.Errorf("no daemon: %q", errs)
	}
	verify(2, "--key", "1")

	out, _ = run(0, "explain", schema+".t:1", "--admin", admin)
	for _, want := range []string{"table      " + schema + ".t, live (full)", "column     v = \"a\"", "origin     snapshot", "version "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, _ = run(0, "explain", schema+".t", "--key", "3", "--admin", admin); !strings.Contains(out, "row        none") {
		t.Errorf("an absent row:\n%s", out)
	}
	if _, errs := run(1, "explain", schema+".none:3", "--admin", admin); !strings.Contains(errs, "does not know the table") || strings.Count(errs, "\n") != 1 {
		t.Errorf("an unknown table: %q", errs)
	}
}
