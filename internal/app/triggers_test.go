package app

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/testmysql"
)

const examples = "../../triggers/examples/"

// command runs binlogcache with arguments and returns the exit code and both outputs.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd, err := config.Parse(args, func(string) (string, bool) { return "", false })
	if err != nil {
		return config.ExitUsage, "", err.Error()
	}
	var out, errs bytes.Buffer
	code = Run(t.Context(), cmd, &out, &errs)
	return code, out.String(), errs.String()
}

// mustRun wants exit code 0.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := command(t, args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// client feeds a file to the server's own command-line client.
func client(t *testing.T, s testmysql.Server, path string) {
	t.Helper()
	socket, err := os.ReadFile(filepath.Join(s.Dir, "socket-path"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.Dir, "bin", "sql"), "--socket="+strings.TrimSpace(string(socket)), "-uroot")
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
}

// daemonOn starts a daemon and waits until it is ready.
func daemonOn(t *testing.T, dsn, tables string) *daemon {
	t.Helper()
	cfg, err := config.Parse([]string{
		"serve", "--source", dsn, "--tables", tables, "--handlersocket-read", "127.0.0.1:0", "--handlersocket-write", "off",
		"--memcached", "127.0.0.1:0", "--admin", "off",
	}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(t.Context(), cfg.(*config.Serve), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("daemon: %v", err)
		}
	})
	eventually(t, "the daemon is ready", func() string { return strings.Join(d.NotReady(), "; ") })
	return d
}

// eventually waits until f returns an empty text.
func eventually(t *testing.T, what string, f func() string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		reason := f()
		if reason == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 30 s: %s", what, reason)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// get reads one key; found is false for a miss.
func get(t *testing.T, address, key string) (value string, found bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "get %s\r\nquit\r\n", key); err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(conn); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(answer.String(), "\r\n")
	if head == "END" {
		return "", false
	}
	value, ok := strings.CutSuffix(rest, "\r\nEND\r\n")
	if !ok || !strings.HasPrefix(head, "VALUE ") {
		t.Fatalf("get %s: %q", key, answer.String())
	}
	return value, true
}

// TestTriggersToMemcached goes the whole way on both flavours: the examples' files through the server's own client, source
// table, trigger, cache table, binlog, memory, memcached get.
func TestTriggersToMemcached(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor, "--event-scheduler=ON", "--local-infile=ON")
			db := s.DB(t)
			run := func(q string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			client(t, s, examples+"sources.sql")
			run("INSERT INTO app.plans VALUES (1, 'free'), (2, 'gold')")
			run("INSERT INTO app.users (id, uname, email, plan_id) VALUES (1, 'Ann', 'ann@x', 1), (2, 'Bob|by', NULL, 2)")
			run("INSERT INTO app.scores (game_id, user_id, points) VALUES (7, 1, 10), (7, 2, 30), (7, 1, 25)")
			run("INSERT INTO app.sessions VALUES ('s1', 1, 'in', FROM_UNIXTIME(2000000000)), ('s2', 2, 'out', FROM_UNIXTIME(1000000000))")
			names := []string{"user_card", "user_profile", "leaderboard", "session"}
			for range 2 { // twice does no harm
				for _, n := range names {
					client(t, s, examples+n+".sql")
				}
			}
			// What the client has installed is what the generator makes: nothing is left to do but to register.
			for _, n := range names {
				register := "row"
				if n == "session" {
					register = "off" // later, with the daemon running
				}
				out := mustRun(t, "triggers", "install", "--spec", examples+n+".yaml", "--source", s.DSN, "--register", register)
				if strings.Contains(out, "create ") || strings.Contains(out, "replace ") {
					t.Errorf("%s after its file: %s", n, out)
				}
			}
			tables := "bc_cache." + strings.Join(names, ",bc_cache.")
			d := daemonOn(t, s.DSN, tables)
			address := d.mcListener.Addr().String()
			want := func(key, value string) {
				t.Helper()
				eventually(t, key+" is "+value, func() string {
					v, found := get(t, address, key)
					if found && v == value || !found && value == "" {
						return ""
					}
					return fmt.Sprintf("%q, found %v", v, found)
				})
			}
			object := `{"id": 1, "name": "Ann", "mail": "ann@x"}`
			if flavor == testmysql.MySQL {
				object = `{"id": 1, "mail": "ann@x", "name": "Ann"}`
			}
			want("@@user_card.user:1", object)
			want("@@user_profile.2", `Bob\|by||gold`)
			want("@@leaderboard.top:7:1", "1|35")
			want("@@leaderboard.top:7:2", "2|30")
			mustRun(t, "triggers", "install", "--spec", examples+"session.yaml", "--source", s.DSN, "--register", "row")
			want("@@session.s1", "in")
			want("@@session.s2", "") // expired

			run("UPDATE app.plans SET title = 'silver' WHERE id = 2")
			want("@@user_profile.2", `Bob\|by||silver`)
			run("UPDATE app.users SET status = 'gone' WHERE id = 1")
			want("@@user_card.user:1", "")
			run("UPDATE app.users SET status = 'active' WHERE id = 1")
			want("@@user_card.user:1", object)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "UPDATE app.users SET uname = 'rolled back'"); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			loadData(t, db)
			want("@@user_profile.12", "load|l@x|free")
			want("@@user_card.user:1", object)
			run("DELETE FROM app.users WHERE id = 1") // its session goes by the foreign key
			want("@@session.s1", "")
			want("@@user_card.user:1", "")

			for _, n := range names {
				out := mustRun(t, "triggers", "verify", "--spec", examples+n+".yaml", "--source", s.DSN, "--memcached", address,
					"--handlersocket", d.listeners[0].server.Addr().String())
				if !strings.Contains(out, "0 missing, 0 stale, 0 of no source row") || strings.Count(out, ": 0 missing, 0 different") != 2 {
					t.Errorf("%s: %s", n, out)
				}
			}
			// A container over another table: memory holds something else.
			run("UPDATE innodb_memcache.containers SET value_columns = 'k' WHERE name = 'user_card'")
			run("ALTER TABLE innodb_memcache.containers COMMENT = 'again'")
			want("@@user_card.user:2", "user:2")
			if code, out, _ := command(t, "triggers", "verify", examples+"user_card.yaml", "--source", s.DSN, "--memcached", address); code != 1 || !strings.Contains(out, "user:2: differs in memory") {
				t.Errorf("another container: %d, %s", code, out)
			}
			for range 2 {
				for _, n := range names {
					mustRun(t, "triggers", "uninstall", "--spec", examples+n+".yaml", "--source", s.DSN, "--drop-table")
				}
			}
			left := 0
			for _, q := range []string{
				"SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_NAME LIKE 'bc%'", "SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'bc_cache'",
				"SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'bc_cache'", "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'bc_cache'",
				"SELECT COUNT(*) FROM innodb_memcache.containers",
			} {
				if err := db.QueryRowContext(t.Context(), q).Scan(&left); err != nil || left != 0 {
					t.Errorf("%s: %d, %v", q, left, err)
				}
			}
		})
	}
}

func loadData(t *testing.T, db *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.tsv")
	if err := os.WriteFile(path, []byte("11\tload\tl@x\t2\n12\tload\tl@x\t1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mysql.RegisterLocalFile(path)
	defer mysql.DeregisterLocalFile(path)
	if _, err := db.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE '"+path+"' INTO TABLE app.users (id, uname, email, plan_id)"); err != nil {
		t.Fatal(err)
	}
}

// TestTriggersCommand: what the command prints and how it ends, on a server whose settings are in the way.
func TestTriggersCommand(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor, "--event-scheduler=OFF")
			client(t, s, examples+"sources.sql")
			db := s.DB(t)
			for _, q := range []string{
				"INSERT INTO app.users (uname, status) SELECT CONCAT('u', a.n * 40 + b.n), 'active' FROM " +
					"(WITH RECURSIVE q AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 39) SELECT n FROM q) a, (WITH RECURSIVE q AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 39) SELECT n FROM q) b",
				"CREATE USER weak@localhost IDENTIFIED BY 'w'", "CREATE USER weak@'127.0.0.1' IDENTIFIED BY 'w'",
				"CREATE DATABASE bc_cache", "GRANT ALL ON bc_cache.* TO weak@'127.0.0.1'", "GRANT ALL ON app.* TO weak@'127.0.0.1'",
			} {
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			weak := strings.Replace(s.DSN, "root:test@", "weak:w@", 1)
			card := []string{"--spec", examples + "user_card.yaml", "--source"}
			fails := func(code int, want string, args ...string) {
				t.Helper()
				got, out, errs := command(t, append([]string{"triggers"}, args...)...)
				if got != code || !strings.Contains(errs, want) || strings.Count(errs, "\n") > 1 {
					t.Errorf("%v: code %d, %q %q; want %d, %q", args, got, out, errs, code, want)
				}
			}
			fails(1, "error 1419", append([]string{"install"}, append(card, weak)...)...)
			fails(1, "log_bin_trust_function_creators = 1", append([]string{"install", "--dry-run"}, append(card, weak)...)...)
			// An account with a role may have SUPER by it: then the server says that it has not, and nothing is left.
			word := "TO"
			if flavor == testmysql.MariaDB {
				word = "FOR"
			}
			for _, q := range []string{"CREATE ROLE sales", "GRANT sales TO weak@'127.0.0.1'", "SET DEFAULT ROLE sales " + word + " weak@'127.0.0.1'"} {
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			fails(1, "SET GLOBAL log_bin_trust_function_creators = 1", append([]string{"install", "--measure", "off"}, append(card, weak)...)...)
			var left int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'bc_cache'").Scan(&left); err != nil || left != 0 {
				t.Errorf("%d tables are left after error 1419, %v", left, err)
			}
			fails(1, "event_scheduler is OFF", "install", "--spec", examples+"leaderboard.yaml", "--source", s.DSN)
			fails(1, "no such file", "install", "--spec", "nowhere.yaml", "--source", s.DSN)
			fails(2, "say what to do", "--spec", "x")
			fails(2, "--spec is missing", "install")
			fails(2, "--source is missing", "install", "--spec", "x")
			fails(2, "--dry-run belongs to install and uninstall", append([]string{"verify", "--dry-run"}, append(card, s.DSN)...)...)
			bad := filepath.Join(t.TempDir(), "bad.yaml")
			if err := os.WriteFile(bad, []byte("name: bad\nsource: app.users\nkey: \"{id}\"\nvalue:\n  sql: \"NO_SUCH_FUNCTION({uname})\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			fails(1, "bad.yaml:4: the server refuses this", "install", "--spec", bad, "--source", s.DSN)

			script := mustRun(t, append([]string{"triggers", "generate"}, append(card, s.DSN)...)...)
			if golden, err := os.ReadFile(examples + "user_card.sql"); err != nil || script != string(golden) {
				t.Errorf("generate: %v\n%s", err, script)
			}
			lines := strings.Split(strings.TrimSpace(mustRun(t, append([]string{"triggers", "generate", "--statements"}, append(card, s.DSN)...)...)), "\n")
			if len(lines) < 10 || slices.ContainsFunc(lines, func(l string) bool { return !strings.HasPrefix(l, `"`) || strings.Contains(l, "DELIMITER") }) {
				t.Errorf("statements: %q", lines)
			}
			out := mustRun(t, append([]string{"triggers", "generate", "--print", "uninstall"}, append(card, s.DSN)...)...)
			const table = "DROP TABLE IF EXISTS `bc_cache`.`user_card`;\n"
			if !strings.Contains(out, "DROP TRIGGER IF EXISTS `app`.`bc_user_card_users_ai`;\n") || strings.Contains(out, table) {
				t.Errorf("uninstall: %s", out)
			}
			out = mustRun(t, append([]string{"triggers", "generate", "--print", "uninstall", "--drop-table"}, append(card, s.DSN)...)...)
			if !strings.Contains(out, table) {
				t.Errorf("uninstall with the table: %s", out)
			}
			fails(2, "--drop-table belongs to --print uninstall", append([]string{"generate", "--drop-table"}, append(card, s.DSN)...)...)
			out = mustRun(t, "triggers", "generate", "--print", "promote", "--spec", examples+"session.yaml", "--source", s.DSN)
			if out != "ALTER EVENT `bc_cache`.`bc_session_purge` ENABLE;\n" {
				t.Errorf("promote: %s", out)
			}

			out = mustRun(t, append([]string{"triggers", "install", "--dry-run"}, append(card, s.DSN)...)...)
			if !strings.Contains(out, "create   trigger   `app`.`bc_user_card_users_ai`") || !strings.Contains(out, "nothing was changed") {
				t.Errorf("dry run: %s", out)
			}
			out = mustRun(t, append([]string{"triggers", "install", "--register", "yaml"}, append(card, s.DSN)...)...)
			if !strings.Contains(out, "cost: a single-row write took ") || !strings.Contains(out, "  - name: user_card\n") {
				t.Errorf("install: %s", out)
			}
			t.Log(out)
			out = mustRun(t, append([]string{"triggers", "verify"}, append(card, s.DSN)...)...)
			if !strings.Contains(out, "1600 rows, 1600 wanted (compared by sums)") {
				t.Errorf("verify: %s", out)
			}
			if _, err := db.ExecContext(t.Context(), "UPDATE bc_cache.user_card SET v = 'x' WHERE k = 'user:3'"); err != nil {
				t.Fatal(err)
			}
			fails(1, "1 rows are wrong", append([]string{"verify"}, append(card, s.DSN)...)...)
			mustRun(t, append([]string{"triggers", "verify", "--repair"}, append(card, s.DSN)...)...)
			mustRun(t, append([]string{"triggers", "verify", "--rows"}, append(card, s.DSN)...)...)

			// The rows may be right still when a trigger has gone with a table that was copied.
			if _, err := db.ExecContext(t.Context(), "DROP TRIGGER app.bc_user_card_users_au"); err != nil {
				t.Fatal(err)
			}
			fails(1, "lost or changed, or not for this account to see: trigger `app`.`bc_user_card_users_au`;", append([]string{"verify"}, append(card, s.DSN)...)...)
			mustRun(t, append([]string{"triggers", "install", "--measure", "off"}, append(card, s.DSN)...)...)
			mustRun(t, append([]string{"triggers", "verify"}, append(card, s.DSN)...)...)
			for _, q := range []string{"CREATE USER looks@'127.0.0.1' IDENTIFIED BY 'w'", "GRANT SELECT ON app.* TO looks@'127.0.0.1'", "GRANT SELECT ON bc_cache.* TO looks@'127.0.0.1'"} {
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			out = mustRun(t, append([]string{"triggers", "verify"}, append(card, strings.Replace(s.DSN, "root:test@", "looks:w@", 1))...)...)
			if !strings.Contains(out, "they were not looked at") {
				t.Errorf("verify by an account that may only read: %s", out)
			}
		})
	}
}
