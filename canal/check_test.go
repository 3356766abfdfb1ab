package canal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// TestMain fails when goroutines of the follower or its syncer are left after all tests.
func TestMain(m *testing.M) {
	testmysql.Apart("canal")
	code := m.Run()
	if code == 0 {
		if left := leftGoroutines(); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

func leftGoroutines() (left string) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left = ""
		buffer := make([]byte, 4<<20)
		for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
			if !strings.Contains(stack, "canal.TestMain") &&
				(strings.Contains(stack, "binlogcache/canal.") || strings.Contains(stack, "go-mysql")) {
				left += stack + "\n\n"
			}
		}
		if left == "" || time.Now().After(deadline) {
			return left
		}
	}
}

func TestProblems(t *testing.T) {
	good := map[string]string{"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "gtid_mode": "ON", "binlog_row_metadata": "FULL"}
	patterns := func(text string) schema.Patterns {
		p, err := schema.ParsePatterns(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name, value string
		flavor      string
		filters     string
		tables      string
		fatal       bool
		want        string // in the text; empty: no problem
	}{
		{"log_bin", "ON", schema.FlavorMySQL, "", "a.b", false, ""},
		{"log_bin", "OFF", schema.FlavorMySQL, "", "a.b", true, "--log-bin"},
		{"binlog_format", "MIXED", schema.FlavorMySQL, "", "a.b", true, "SET PERSIST binlog_format = 'ROW'"},
		{"binlog_format", "STATEMENT", schema.FlavorMariaDB, "", "a.b", true, "SET GLOBAL binlog_format = 'ROW'"},
		{"binlog_row_image", "MINIMAL", schema.FlavorMySQL, "", "a.b", true, "binlog_row_image = 'FULL'"},
		{"gtid_mode", "OFF", schema.FlavorMySQL, "", "a.b", true, "ON_PERMISSIVE"},
		{"gtid_mode", "", schema.FlavorMariaDB, "", "a.b", false, ""},
		{"binlog_row_metadata", "MINIMAL", schema.FlavorMySQL, "", "a.b", false, "binlog_row_metadata = 'FULL'"},
		{"binlog_row_value_options", "PARTIAL_JSON", schema.FlavorMySQL, "", "a.b", false, "binlog_row_value_options = ''"},
		{"log_bin", "ON", schema.FlavorMySQL, "binlog_ignore_db=x,y", "a.b", false, "binlog_ignore_db"},
		{"log_bin", "ON", schema.FlavorMySQL, "binlog_ignore_db=x,a", "a.b", true, "binlog_ignore_db"},
		{"log_bin", "ON", schema.FlavorMySQL, "binlog_ignore_db=x", "a.*", true, "binlog_ignore_db"},
		{"log_bin", "ON", schema.FlavorMySQL, "binlog_do_db=a", "a.b", true, "binlog_do_db"},
	} {
		s := &source{flavor: c.flavor, vars: map[string]string{}, filters: c.filters}
		for k, v := range good {
			s.vars[k] = v
		}
		s.vars[c.name] = c.value
		problems := s.problems(patterns(c.tables))
		switch {
		case c.want == "" && len(problems) > 0, c.want != "" && len(problems) != 1:
			t.Errorf("%s=%s: %v", c.name, c.value, problems)
		case c.want == "":
		case problems[0].Fatal != c.fatal || !strings.Contains(problems[0].Error(), c.want) || strings.Contains(problems[0].Error(), "\n"):
			t.Errorf("%s=%s: %+v", c.name, c.value, problems[0])
		}
	}
}

func TestCheck(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE nokey (v INT)")
		user := fmt.Sprintf("'check%d'@'127.0.0.1'", rand.Uint32())
		r.exec("CREATE USER " + user + " IDENTIFIED BY 'pass'")
		defer r.exec("DROP USER " + user)
		cfg, err := sqltext.ParseDSN(s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Password = strings.Split(user, "'")[1], "wrong"
		check := func(tables string) []string {
			t.Helper()
			patterns, err := schema.ParsePatterns(tables)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			problems, err := Check(ctx, cfg, patterns)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, p := range problems {
				t.Log(p)
				texts = append(texts, p.Error())
			}
			return texts
		}
		expect := func(got []string, want ...string) {
			t.Helper()
			if len(got) != len(want) {
				t.Errorf("problems %q, wanted %q", got, want)
				return
			}
			for i := range want {
				if !strings.Contains(got[i], want[i]) {
					t.Errorf("problem %q, wanted %q", got[i], want[i])
				}
			}
		}
		a := r.schema + ".a"
		expect(check(a), "refuses the login")
		cfg.Password = "pass"
		expect(check(a), "REPLICATION CLIENT")
		r.exec("GRANT REPLICATION CLIENT ON *.* TO " + user)
		expect(check(a), "REPLICATION SLAVE", "no table "+a)
		r.exec("GRANT REPLICATION SLAVE ON *.* TO " + user)
		expect(check(a+","+r.schema+".x*"), "no table "+a, "no table that the account may see")
		r.exec("GRANT SELECT ON " + r.schema + ".* TO " + user)
		expect(check(a))
		expect(check(a+","+r.schema+".nokey,"+r.schema+".missing"), "nokey cannot be kept", "no table "+r.schema+".missing")
		expect(check(r.schema + ".*"))

		// Run says the same at its start.
		r.exec("REVOKE REPLICATION SLAVE ON *.* FROM " + user)
		patterns, _ := schema.ParsePatterns(a)
		for _, wrong := range []string{"pass", "wrong"} {
			cfg.Password = wrong
			f, err := New(Config{Source: cfg, Tables: patterns, Sink: newMemSink()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			err = f.Run(ctx)
			cancel()
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), ": ") {
				t.Errorf("Run with password %q: %v", wrong, err)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{Sink: newMemSink()}); err == nil {
		t.Error("without a source")
	}
}
