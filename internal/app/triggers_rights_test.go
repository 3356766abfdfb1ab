package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestTriggersRights: the rights that docs/TRIGGERS.md names are enough; for each one that is missing there is one line with
// the GRANT, and nothing is left on the server that could fail the application's writes.
func TestTriggersRights(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor, "--event-scheduler=ON", "--log-bin-trust-function-creators=1")
			client(t, s, examples+"sources.sql")
			db := s.DB(t)
			run := func(q string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			run("INSERT INTO app.users (id, uname, email) VALUES (1, 'Ann', 'ann@x')")
			run("INSERT INTO app.scores (game_id, user_id, points) VALUES (7, 1, 10)")
			run("INSERT INTO app.sessions VALUES ('s1', 1, 'in', FROM_UNIXTIME(2000000000))")
			users := 0
			as := func(grants ...string) string {
				t.Helper()
				users++
				user := fmt.Sprintf("u%d", users)
				run("CREATE USER " + user + "@'127.0.0.1' IDENTIFIED BY 'w'")
				for _, g := range grants {
					run("GRANT " + g + " TO " + user + "@'127.0.0.1'")
				}
				return strings.Replace(s.DSN, "root:test@", user+":w@", 1)
			}
			left := func() (objects string) {
				t.Helper()
				err := db.QueryRowContext(t.Context(), "SELECT CONCAT_WS(' ', (SELECT GROUP_CONCAT(TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE TRIGGER_NAME LIKE 'bc%'),"+
					" (SELECT GROUP_CONCAT(EVENT_NAME) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'bc_cache'),"+
					" (SELECT GROUP_CONCAT(ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'bc_cache'),"+
					" (SELECT GROUP_CONCAT(TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'bc_cache'))").Scan(&objects)
				if err != nil {
					t.Fatal(err)
				}
				return objects
			}
			do := func(action, spec, dsn string, more ...string) (int, string) {
				t.Helper()
				code, _, errs := command(t, append([]string{"triggers", action, spec, "--source", dsn}, more...)...)
				return code, errs
			}
			refused := func(what, spec, dsn string, want ...string) {
				t.Helper()
				code, errs := do("install", spec, dsn)
				if code != 1 || strings.Count(errs, "\n") != 1 || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(errs, w) }) || left() != "" {
					t.Errorf("%s: code %d, %q, want %q; left on the server: %s", what, code, errs, want, left())
				}
			}
			const session, board = examples + "session.yaml", examples + "leaderboard.yaml"
			full := as("SELECT, TRIGGER ON app.*", "ALL ON bc_cache.*")
			for _, spec := range []string{examples + "user_card.yaml", examples + "user_profile.yaml", session, board} {
				for _, action := range [][]string{{"install"}, {"install", "--measure", "off"}, {"verify", "--repair"}, {"uninstall", "--drop-table"}, {"uninstall"}} {
					if code, errs := do(action[0], spec, full, action[1:]...); code != 0 {
						t.Errorf("%v %s with the rights of the manual: %s", action, spec, errs)
					}
				}
				if l := left(); l != "" {
					t.Errorf("%s: uninstall leaves %s", spec, l)
				}
			}
			refused("nothing", session, as(), "session.yaml:4: source: there is no base table app.sessions", "GRANT SELECT, TRIGGER ON `app`.`sessions` TO")
			refused("no SELECT", board, as("ALL ON bc_cache.*"), "leaderboard.yaml:3: the server refuses this (error 1142)", "GRANT SELECT ON the table scores TO `u3`@`127.0.0.1`")
			refused("no schema", session, as("SELECT, TRIGGER ON app.*"), "create database `bc_cache`", "GRANT ALL PRIVILEGES ON `bc_cache`.* TO `u4`@`127.0.0.1`")
			refused("some columns", examples+"user_card.yaml", as("TRIGGER ON app.*", "SELECT (id, uname, email, status) ON app.users", "ALL ON bc_cache.*"), "SELECT on all columns of app.users")
			refused("no TRIGGER", session, as("SELECT ON app.*", "ALL ON bc_cache.*"), "create trigger `app`.`bc_session_sessions_ad`", "GRANT TRIGGER ON `app`.`sessions` TO `u6`@`127.0.0.1`")
			all := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "EVENT", "CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE", "TRIGGER", "CREATE TEMPORARY TABLES"}
			for _, missing := range []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "EVENT", "CREATE ROUTINE", "CREATE TEMPORARY TABLES"} {
				rest := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == missing })
				dsn := as("SELECT, TRIGGER ON app.*", strings.Join(rest, ", ")+" ON bc_cache.*")
				specs := []string{session, board}
				if missing == "CREATE TEMPORARY TABLES" {
					specs = specs[1:]
				}
				for _, spec := range specs {
					refused("no "+missing, spec, dsn, "GRANT "+missing, " ON `bc_cache`.* TO ", fmt.Sprintf("`u%d`@`127.0.0.1`", users))
				}
			}

			// Bodies of procedures are for the account that made them, and for this right.
			bodies := "SHOW_ROUTINE ON *.*"
			if flavor == testmysql.MariaDB {
				bodies = "SELECT ON mysql.proc"
			}
			// Who may not see the triggers must not take the tables from under them.
			if code, errs := do("install", session, full); code != 0 {
				t.Fatal(errs)
			}
			before := left()
			blind := as("SELECT ON app.*", "ALL ON bc_cache.*", bodies)
			if code, errs := do("uninstall", session, blind, "--drop-table"); code != 1 || !strings.Contains(errs, "GRANT TRIGGER ON `app`.`sessions` TO") || left() != before {
				t.Errorf("uninstall without TRIGGER: %d %q, left %s", code, errs, left())
			}
			blind = as("SELECT, TRIGGER ON app.*", "SELECT, DROP, ALTER ROUTINE ON bc_cache.*", bodies)
			if code, errs := do("uninstall", session, blind, "--drop-table"); code != 1 || !strings.Contains(errs, "GRANT EVENT ON `bc_cache`.* TO") || left() != before {
				t.Errorf("uninstall without EVENT: %d %q, left %s", code, errs, left())
			}
			run("INSERT INTO app.sessions VALUES ('s2', 1, 'in', NULL)")
			if code, errs := do("uninstall", session, full, "--drop-table"); code != 0 || left() != "" {
				t.Errorf("uninstall: %d %q, left %s", code, errs, left())
			}

			// The plugin's tables.
			run("CREATE DATABASE IF NOT EXISTS bc_cache")
			for _, grants := range [][]string{nil, {"SELECT ON innodb_memcache.*"}, {"SELECT, INSERT ON innodb_memcache.*"}} {
				dsn := as(append(grants, "SELECT, TRIGGER ON app.*", "ALL ON bc_cache.*")...)
				code, errs := do("install", session, dsn, "--register", "row")
				if code != 1 || !strings.Contains(errs, "GRANT CREATE, ALTER, SELECT, INSERT, DELETE ON innodb_memcache.* TO") || strings.Count(errs, "\n") != 1 || left() != "" {
					t.Errorf("register with %v: %d %q, left %s", grants, code, errs, left())
				}
				if grants == nil { // from here on there are tables
					if code, errs := do("install", board, s.DSN, "--register", "row"); code != 0 {
						t.Fatal(errs)
					}
					if code, errs := do("uninstall", board, s.DSN, "--drop-table"); code != 0 {
						t.Fatal(errs)
					}
				}
			}
			registrar := as("SELECT, TRIGGER ON app.*", "ALL ON bc_cache.*", "ALTER, SELECT, INSERT, DELETE ON innodb_memcache.*")
			if code, errs := do("install", session, registrar, "--register", "row"); code != 0 {
				t.Errorf("register without CREATE, with the tables there: %s", errs)
			}
			// An account that may not touch the row says so, and goes on.
			if code, errs := do("uninstall", session, as("SELECT, TRIGGER ON app.*", "ALL ON bc_cache.*", "SELECT ON innodb_memcache.*", bodies), "--drop-table"); code != 0 ||
				!strings.Contains(errs, "if it has a row session, delete it") || left() != "" {
				t.Errorf("uninstall without rights on the containers: %d %q, left %s", code, errs, left())
			}
		})
	}
}
