package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// adopt runs the command and returns what it printed and its exit code.
func adopt(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"adopt"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// adopted is a private server with a site of the plugin that a daemon serves as adopt says.
type adopted struct {
	testmysql.Server
	config string // the file
	*daemon
}

// adoptSite makes the plugin's site of docs/MIGRATION.md on a server, adopts it, makes the account that adopt prints, and
// starts serve with the file that it prints, neither changed in anything but the address of the listeners.
func adoptSite(t *testing.T, flavor string) adopted {
	t.Helper()
	s := testmysql.Private(t, flavor)
	db := s.DB(t)
	text, err := os.ReadFile("../testdata/migration/plugin-site.sql")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, string(text))
	mustExec(t, db, "CREATE TABLE test.kv (k INT PRIMARY KEY, v CHAR(20), f INT UNSIGNED)")
	mustExec(t, db, "INSERT INTO test.kv WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, CONCAT('value ', i), i FROM n")
	mustExec(t, db, "INSERT INTO test.city VALUES ('two words', 'X', 'X', 'X', 0, 0, 0, 0)")
	mustExec(t, db, "INSERT INTO innodb_memcache.containers VALUES ('kv', 'test', 'kv', 'k', 'v', 'f', '0', '0', 'PRIMARY')")
	a := adopted{Server: s, config: filepath.Join(t.TempDir(), "binlogcache.yaml")}
	grants, errs, code := adopt(t, "--source", s.DSN, "--print", "grants")
	if code != 0 || errs != "" {
		t.Fatalf("grants: exit code %d, %s", code, errs)
	}
	mustExec(t, db, grants)
	file, errs, code := adopt(t, "--source", s.DSN)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	if strings.Contains(file, "root") || strings.Contains(file, ":test@") {
		t.Errorf("the account of adopt is shown:\n%s", file)
	}
	if err := os.WriteFile(a.config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a.daemon = startServe(t, binary, "--config", a.config).waitReady()
	return a
}

// TestAdopt: what adopt prints works as it is, and --check finds what differs and nothing else.
func TestAdopt(t *testing.T) {
	t.Parallel()
	sites := map[string]adopted{}
	for _, flavor := range testmysql.Flavors() {
		a := adoptSite(t, flavor)
		sites[flavor] = a
		if out, errs, code := doctor(t, "--config", a.config); code != 0 {
			t.Errorf("%s: doctor: exit code %d\n%s%s", flavor, code, out, errs)
		}
		c := openMC(t, a.memcached)
		eventually(t, "containers", func() error {
			if got := c.ask("get @@aaa.AA\r\n"); got != "VALUE @@aaa.AA 8 12\r\nHELLO, HELLO\r\nEND\r\n" {
				return fmt.Errorf("%s: got %q", flavor, got)
			}
			return nil
		})
		c = openMC(t, a.memcached)
		c.must("VALUE 1 0 15\r\nBANGALORE|BG|IN\r\nEND\r\n", "get 1\r\n")
		c.must("VALUE @@bbb.UK 0 17\r\n63000000|243610|L\r\nEND\r\n", "get @@bbb.UK\r\n")
		c.must("STORED\r\nSTORED\r\nDELETED\r\n", "set @@aaa.new 1 0 3\r\nabc\r\nadd @@bbb.FR 0 0 17\r\n68000000|643801|R\r\ndelete @@aaa.new\r\n")
		st := a.status()
		if len(st.Tables) != 4 || st.Reads.Memcached.Memory == 0 {
			t.Errorf("%s: status %+v", flavor, st)
		}
		for _, table := range st.Tables {
			if table.State != "live" {
				t.Errorf("%s: table %+v", flavor, table)
			}
		}
	}
	t.Run("check", func(t *testing.T) { checkAdopted(t, sites[testmysql.MariaDB], sites[testmysql.MySQL]) })
	t.Run("memcached", func(t *testing.T) { checkAgainstMemcached(t, sites[testmysql.MySQL]) })
	t.Run("errors", func(t *testing.T) {
		dsn := sites[testmysql.MySQL].DSN
		for _, test := range []struct {
			args []string
			code int
			want string
		}{
			{nil, 2, "nothing to read"},
			{[]string{"--source", dsn, "--sample", "3"}, 2, "--sample belongs to --check"},
			{[]string{"--dump", "x", "--check", "127.0.0.1:1"}, 2, "give --source"},
			{[]string{"--source", dsn, "--check", "127.0.0.1:11211"}, 2, "are both 127.0.0.1:11211"},
			{[]string{"--source", dsn, "--account", "@x"}, 2, "has no name"},
			{[]string{"--source", dsn, "--tables", "x"}, 2, "is no table"},
			{[]string{"--source", dsn, "--check", freeAddress(t), "--memcached", freeAddress(t)}, 1, "the plugin's port: dial"},
			{[]string{"--source", "root:wrong@" + dsn[strings.Index(dsn, "@")+1:]}, 1, "--source: "},
			{[]string{"--dump", filepath.Join(t.TempDir(), "none.sql")}, 1, "no such file"},
			{[]string{"--dump", "adopt_test.go"}, 1, "adopt_test.go"},
			{[]string{"--source", dsn, "--variables", "none.cnf"}, 1, "no such file"},
		} {
			out, errs, code := adopt(t, test.args...)
			if code != test.code || !strings.Contains(errs, test.want) || strings.Count(errs, "\n") != 1 || out != "" || strings.Contains(errs, "wrong") {
				t.Errorf("%q: exit code %d, %s%s", test.args, code, out, errs)
			}
		}
	})
}

// checkAdopted compares two daemons over two servers whose rows are alike at first.
func checkAdopted(t *testing.T, old, now adopted) {
	check := func(code int, args ...string) string {
		t.Helper()
		out, errs, got := adopt(t, append([]string{"--source", now.DSN, "--check", old.memcached, "--memcached", now.memcached}, args...)...)
		if got != code {
			t.Errorf("exit code %d, want %d\n%s%s", got, code, out, errs)
		}
		return out
	}
	// The writes of TestAdopt have numbers of their own as cas.
	for _, s := range []adopted{old, now} {
		mustExec(t, s.DB(t), "UPDATE test.multicol SET c4 = 7")
		mustExec(t, s.DB(t), "INSERT INTO test.demo_test VALUES ('last', 'x', 0, 0, 0)")
		c := openMC(t, s.memcached)
		eventually(t, "the last write", func() error {
			if got := c.ask("get @@aaa.last\r\n"); got == "END\r\n" {
				return fmt.Errorf("got %q", got)
			}
			return nil
		})
	}
	want := "container \"aaa\": 2 keys read, 0 differ\ncontainer \"bbb\": 3 keys read, 0 differ\n" +
		"container \"default\": 2 keys read, 0 differ; 1 more cannot stand in a request\ncontainer \"kv\": 300 keys read, 0 differ"
	if out := check(0); !strings.Contains(out, want) {
		t.Errorf("got\n%s", out)
	}
	if out := check(0, "--sample", "20"); !strings.Contains(out, "container \"kv\": 20 keys read, 0 differ") {
		t.Errorf("a sample of 20:\n%s", out)
	}
	// Gone, another value, other flags, another cas; and a difference that vanishes is none.
	mustExec(t, old.DB(t), "DELETE FROM test.kv WHERE k = 7")
	mustExec(t, old.DB(t), "UPDATE test.kv SET v = 'other' WHERE k = 8")
	mustExec(t, old.DB(t), "UPDATE test.kv SET f = 4000000000 WHERE k = 9")
	mustExec(t, old.DB(t), "UPDATE test.demo_test SET c4 = 99 WHERE c1 = 'AA'")
	mustExec(t, now.DB(t), "UPDATE test.kv SET v = 'moved' WHERE k = 10")
	mustExec(t, old.DB(t), "UPDATE test.city SET name = 'Mumbai' WHERE city_id = '2'")
	moved := time.AfterFunc(700*time.Millisecond, func() {
		if _, err := old.DB(t).Exec("UPDATE test.kv SET v = 'moved' WHERE k = 10"); err != nil {
			t.Error(err)
		}
	})
	defer moved.Stop()
	out := check(1)
	for _, want := range []string{
		"container \"aaa\": 2 keys read, 1 differ\n   key \"@@aaa.AA\": the plugin has \"HELLO, HELLO\" with the flags 8 and the cas 99; here has \"HELLO, HELLO\" with the flags 8 and the cas 0\n",
		"container \"bbb\": 3 keys read, 0 differ",
		"container \"default\": 2 keys read, 1 differ", "key \"2\": the plugin has \"Mumbai|TN|IN\"",
		"container \"kv\": 300 keys read, 3 differ",
		"key \"@@kv.7\": the plugin has nothing; here has \"value 7\" with the flags 7",
		"key \"@@kv.8\": the plugin has \"other\" with the flags 8; here has \"value 8\"",
		"key \"@@kv.9\": the plugin has \"value 9\" with the flags 4000000000; here",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// checkAgainstMemcached compares with memcached itself, filled by hand as the plugin would answer.
func checkAgainstMemcached(t *testing.T, now adopted) {
	mustExec(t, now.DB(t), "DELETE FROM innodb_memcache.containers WHERE name <> 'kv'")
	program, err := exec.LookPath("memcached")
	if err != nil {
		t.Fatal("memcached is not installed: scripts/install-deps.sh does that")
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(program, "-s", socket, "-U", "0", "-u", "root")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its error is the kill
	})
	eventually(t, "memcached", func() error { _, err := os.Stat(socket); return err })
	old := openMCOn(t, "unix", socket)
	for i := 1; i <= 300; i++ {
		value := fmt.Sprintf("value %d", i)
		if i == 10 {
			value = "moved"
		}
		if i%2 == 0 {
			value = fmt.Sprintf("%-20s", value)
		}
		for _, key := range []string{fmt.Sprintf("@@kv.%d", i), fmt.Sprint(i)} {
			old.must("STORED\r\n", "set %s %d 0 %d\r\n%s\r\n", key, i, len(value), value)
		}
	}
	args := []string{"--source", now.DSN, "--check", "unix:" + socket, "--memcached", now.memcached}
	// The daemon's default is still its own; in this configuration it is kv.
	out, errs, code := adopt(t, args...)
	if code != 1 || !strings.Contains(out, "container \"kv\": 300 keys read, 100 differ, 100 are alike but for the blanks") || !strings.Contains(errs, "the answers differ") {
		t.Errorf("another default: exit code %d\n%s%s", code, out, errs)
	}
	mustExec(t, now.DB(t), "INSERT INTO innodb_memcache.containers VALUES ('default', 'test', 'demo_test', 'c1', 'c2', '0', '0', '0', 'PRIMARY')")
	old.must("STORED\r\n", "set AA 0 0 1\r\nx\r\n")
	out, errs, code = adopt(t, args...)
	if code != 1 || !strings.Contains(out, "container \"kv\": 300 keys read, 0 differ, 150 are alike but for the blanks") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
