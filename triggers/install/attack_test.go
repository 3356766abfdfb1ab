package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/triggers"
)

// attackTables have what the examples' tables do not: collations, unsigned numbers, moments, awkward names.
var attackTables = []string{
	"CREATE TABLE app.words (id INT NOT NULL PRIMARY KEY AUTO_INCREMENT, word VARCHAR(20) NOT NULL, bits VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '', " +
		"pin INT(6) ZEROFILL NOT NULL DEFAULT 0, units INT UNSIGNED NOT NULL DEFAULT 0, huge BIGINT UNSIGNED NOT NULL DEFAULT 0, " +
		"KEY word (word), KEY bits (bits), KEY pin (pin)) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci",
	"CREATE TABLE app.moments (at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, id INT NOT NULL PRIMARY KEY, day DATETIME, hour TIME, big BIGINT, note TEXT, doc TEXT, UNIQUE KEY at (at)) ENGINE = InnoDB",
	"CREATE TABLE app.west (code VARCHAR(200) CHARACTER SET latin1 NOT NULL PRIMARY KEY, short VARCHAR(60) CHARACTER SET latin1 NOT NULL, UNIQUE KEY short (short)) ENGINE = InnoDB",
}

// parseDesign works a spec out; its text is about app.
func (f *fixture) parseDesign(t *testing.T, text string) *triggers.Design {
	t.Helper()
	d, err := f.session.Design(t.Context(), f.parse(t, "s.yaml", text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return d
}

// TestHostileSpecs: what would break the application's writes, or mean something else in another session, is refused
// before anything is installed.
func TestHostileSpecs(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, attackTables...)
		const words, moments = "name: x\nsource: app.words\nkey: \"{id}\"\n", "name: x\nsource: app.moments\nkey: \"{id}\"\n"
		for _, c := range []struct{ spec, want string }{
			// Not for a row: CREATE TRIGGER takes it, and then every write to the source fails.
			{words + "value: {sql: \"COUNT(*)\"}\n", "s.yaml:4: the server refuses this (error 1111)"},
			{words + "value: {sql: \"CONCAT({word}, MAX({id}))\"}\n", "s.yaml:4: the server refuses this (error 1111)"},
			{words + "value: {sql: \"ROW_NUMBER() OVER ()\"}\n", "s.yaml:4: the server refuses this"},
			{words + "value: {sql: \"{id}, 1\"}\n", "s.yaml:4: the server refuses this"},
			{words + "value: {column: id}\nexpiry: {sql: \"MAX({id})\"}\n", "s.yaml:5: the server refuses this (error 1111)"},
			// Any row of the group would do.
			{"name: x\nsource: app.words\ngroup: [pin]\nkey: \"{pin}\"\nvalue: {sql: \"CONCAT({word}, COUNT(*))\"}\nevery: 1 day\n", "s.yaml:5: the server refuses this"},
			// The session's time zone.
			{moments + "value: {sql: \"DATE({at})\"}\n", "s.yaml:4: {at} is timestamp"},
			{moments + "value: {column: id}\nwhen: \"{at} > '2024-01-01'\"\n", "s.yaml:5: {at} is timestamp"},
			{moments + "value: {sql: \"DATE_FORMAT({hour}, '%d %H')\"}\n", "s.yaml:4: {hour} is time: a date of it is today's"},
			{moments + "value: {column: id}\nwhen: \"CAST({hour} AS DATETIME) > '2024-01-01'\"\n", "s.yaml:5: {hour} is time: a date of it is today's"},
			{moments + "value: {sql: \"UNIX_TIMESTAMP({day})\"}\n", "s.yaml:4: UNIX_TIMESTAMP depends on each session's time_zone"},
			{"name: x\nsource: app.moments\nkey: \"{at|sha2}\"\nvalue: {column: id}\n", "s.yaml:3: key: {at|sha2} is for"},
			// Longer as UTF-8 than in the column.
			{"name: x\nsource: app.west\nkey: \"{code|text}\"\nvalue: {column: code}\n", "s.yaml:3: key: the key can have"},
			// Other texts, one group for the server, two keys.
			{"name: x\nsource: app.words\ngroup: [word]\nkey: \"{word|hex}\"\ntotals: {n: count}\n", "s.yaml:3: group: word compares by utf8mb4_general_ci"},
		} {
			spec, err := parseLocal(f, c.spec)
			if err == nil {
				spec.Cache.Schema = f.app
				_, err = f.session.Design(t.Context(), spec)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s\n  %v\n  want %q", c.spec, err, c.want)
			}
		}
		for _, good := range []string{
			moments + "value: {sql: \"CONCAT(UNIX_TIMESTAMP({at}), TIMESTAMPDIFF(SECOND, '1970-01-01', {day}))\"}\nwhen: \"{at} IS NOT NULL\"\n",
			moments + "value: {sql: \"CONCAT(TIME_FORMAT({hour}, '%H'), TIME_TO_SEC({hour}), CAST({hour} AS CHAR))\"}\nwhen: \"{hour} > '12:00'\"\n",
			"name: x\nsource: app.words\ngroup: [bits]\nkey: \"w:{bits|text}\"\nvalue: {sql: \"CONCAT({bits}, COUNT(*))\"}\nevery: 1 day\n",
			"name: x\nsource: app.west\nkey: \"{short|text}\"\nvalue: {column: code}\n",
		} {
			f.parseDesign(t, good)
		}
	})
}

// TestGroupsByBytes: texts that differ at their end only by blanks are one group, and have one key; numbers keep their zeros.
func TestGroupsByBytes(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, attackTables...)
		f.exec(t, "INSERT INTO app.words (word, bits, pin) VALUES ('w', 'a', 7), ('w', 'a ', 7), ('w', 'A', 8)")
		var designs []*triggers.Design
		for _, spec := range []string{
			"name: total_bits\nsource: app.words\ngroup: [bits]\nkey: \"{bits|hex}\"\ntotals: {n: count}\n",
			"name: group_bits\nsource: app.words\ngroup: [bits]\nkey: \"b:{bits|text}\"\nvalue: {sql: \"COUNT(*)\"}\nevery: 1 day\n",
			"name: group_pin\nsource: app.words\ngroup: [pin]\nkey: \"{pin}\"\nvalue: {sql: \"COUNT(*)\"}\nevery: 1 day\n",
			"name: total_pin\nsource: app.words\ngroup: [pin]\nkey: \"p{pin}\"\ntotals: {n: count}\n",
		} {
			d := f.parseDesign(t, spec)
			f.install(t, d)
			designs = append(designs, d)
		}
		f.exec(t, "INSERT INTO app.words (word, bits, pin) VALUES ('x', 'a', 9), ('x', 'a  ', 7), ('x', 'b ', 123456)", "UPDATE app.words SET bits = 'b' WHERE pin = 8",
			"DELETE FROM app.words WHERE bits = 'a' LIMIT 1")
		for _, d := range designs {
			f.check(t, d)
		}
		f.want(t, "SELECT GROUP_CONCAT(k, '=', n ORDER BY k) FROM app.total_bits", "61=3,62=2")
		f.want(t, "SELECT GROUP_CONCAT(k, '=', v ORDER BY k) FROM app.group_bits", "b:a=3,b:b=2")
		f.want(t, "SELECT GROUP_CONCAT(k ORDER BY k) FROM app.group_pin", f.value(t, "SELECT GROUP_CONCAT(DISTINCT CONCAT(pin, '') ORDER BY pin) FROM app.words"))
	})
}

// TestUnsignedTotals: until filling has come to a group its totals are too low; a row that leaves must not make the
// application's write fail for it.
func TestUnsignedTotals(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, attackTables...)
		f.exec(t, "INSERT INTO app.words (id, word, units, huge) VALUES (1, 'w', 100, 18446744073709551615), (2, 'w', 50, 18446744073709551615)")
		d := f.parseDesign(t, "name: sums\nsource: app.words\ngroup: [pin]\nkey: \"{pin}\"\ntotals: {n: count, units: sum units, huge: sum huge}\n")
		steps, err := f.session.Plan(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.session.Apply(t.Context(), d, steps); err != nil {
			t.Fatal(err)
		}
		f.exec(t, "INSERT INTO app.words (id, word, units, huge) VALUES (3, 'w', 1, 1), (4, 'w', 1, 1)", "DELETE FROM app.words WHERE id = 1",
			"UPDATE app.words SET units = 3, huge = 18446744073709551614 WHERE id = 2")
		if err := f.session.Fill(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		f.want(t, "SELECT CONCAT(n, ' ', units, ' ', huge) FROM app.sums", "3 5 18446744073709551616")
		f.check(t, d)
	})
}

// TestTolerantKeys: a row that can't be computed goes under its old key, too, and can be deleted.
func TestTolerantKeys(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, attackTables...)
		d := f.parseDesign(t, "name: tol\nsource: app.moments\nkey: \"{id}\"\nvalue: {column: big}\nwhen: \"{big} * 4 > 0\"\non_error: tolerate\nevery: 1 day\n")
		f.install(t, d)
		const over = "9223372036854775807" // four times that is out of range
		f.exec(t, "INSERT INTO app.moments (id, at, big) VALUES (1, '2024-01-01', 5), (3, '2024-01-02', "+over+")", "UPDATE app.moments SET id = 2, big = "+over+" WHERE id = 1")
		f.want(t, "SELECT GROUP_CONCAT(k) FROM app.tol", "NULL")
		f.want(t, "SELECT GROUP_CONCAT(id1 ORDER BY id1) FROM app.tol_due", "2,3")
		f.exec(t, "UPDATE app.moments SET big = 6 WHERE id = 2")
		if err := f.session.Refresh(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		f.want(t, "SELECT GROUP_CONCAT(k, '=', v) FROM app.tol", "2=6")
		f.exec(t, "DELETE FROM app.moments")
		f.want(t, "SELECT COUNT(*) FROM app.tol", "0")
	})
}

// TestOrphansOfInstalling: triggers come one after the other, and a client may die between; what writers do then leaves
// no row behind.
func TestOrphansOfInstalling(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		d := f.design(t, "../examples/user_card.yaml")
		f.exec(t, "INSERT INTO app.users (id, uname) VALUES (1, 'old'), (2, 'old'), (3, 'old'), (4, 'old')")
		steps, err := f.session.Plan(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			// Everything up to this step, then the client is gone; writers go on.
			if err := f.session.Make(t.Context(), steps[i:i+1]); err != nil {
				t.Fatal(err)
			}
			if steps[i].Object.Kind == triggers.KindTrigger {
				f.exec(t, fmt.Sprintf("INSERT INTO app.users (id, uname) VALUES (%d00, 'n')", i),
					"UPDATE app.users SET uname = CONCAT(uname, 'x')", "UPDATE app.users SET id = id + 1000000 WHERE id % 100 = 0", "DELETE FROM app.users WHERE uname LIKE 'n%'")
			}
		}
		f.install(t, d)
		f.check(t, d)

		// A version with other keys: those of the old one go, although the client died when filling had ended.
		text := "name: user_card\nsource: app.users\nkey: card:{id}\nvalue:\n  json: {id: id, name: uname, mail: email}\nwhen: \"{status} = 'active'\"\n"
		second := f.parseDesign(t, text)
		if steps, err = f.session.Plan(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		if _, err := f.session.Apply(t.Context(), second, steps); err != nil {
			t.Fatal(err)
		}
		if err := f.session.Fill(t.Context(), second, nil); err != nil {
			t.Fatal(err)
		}
		f.install(t, second)
		f.check(t, second)
		f.want(t, "SELECT COUNT(*) FROM app.user_card WHERE k LIKE 'user:%'", "0")
	})
}

// TestUninstallWithoutTables: what is installed can be taken off when the spec has changed since, or the source has not the
// columns any more. Until then its writes fail.
func TestUninstallWithoutTables(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		count := func(want string) {
			t.Helper()
			f.want(t, "SELECT (SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '"+f.app+"') + (SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = '"+
				f.app+"') + (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = '"+f.app+"') + (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+
				f.app+"' AND TABLE_COMMENT LIKE 'binlogcache%')", want)
		}
		const head = "name: off\nsource: app.users\nkey: \"{id}\"\n"
		joined := head + "joins: [{table: app.plans, as: plan, on: {id: plan_id}}]\nvalue: {join: [uname, plan.title]}\non_error: tolerate\nevery: 1 day\n"
		plain := head + "value: {column: uname}\n"
		f.install(t, f.parseDesign(t, joined))
		count("12")
		f.install(t, f.parseDesign(t, plain)) // events of the older version go, too
		f.want(t, "SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = '"+f.app+"'", "0")
		f.install(t, f.parseDesign(t, joined))
		f.exec(t, "ALTER TABLE app.users DROP COLUMN uname")
		for range 2 {
			if _, err := f.session.Uninstall(t.Context(), f.parse(t, "s.yaml", plain), false); err != nil {
				t.Fatal(err)
			}
		}
		count("1")
		if _, err := f.session.Uninstall(t.Context(), f.parse(t, "s.yaml", plain), true); err != nil {
			t.Fatal(err)
		}
		count("0")
		f.exec(t, "INSERT INTO app.users (id) VALUES (1)", "INSERT INTO app.plans VALUES (1, 'x')")
	})
}

// TestNameClash: two specs whose objects would have the same names do not take each other's.
func TestNameClash(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "CREATE TABLE app.c (id INT NOT NULL PRIMARY KEY) ENGINE = InnoDB", "CREATE TABLE app.b_c LIKE app.c")
		f.install(t, f.parseDesign(t, "name: a\nsource: app.b_c\nkey: \"{id}\"\nvalue: {column: id}\n"))
		_, err := f.session.Plan(t.Context(), f.parseDesign(t, "name: a_b\nsource: app.c\nkey: \"{id}\"\nvalue: {column: id}\n"))
		if err == nil || strings.Count(err.Error(), "belongs to another spec") != 3 {
			t.Errorf("triggers: %v", err)
		}
		// A cache table where another spec wants a helper.
		f.install(t, f.parseDesign(t, "name: z_fill\nsource: app.c\nkey: \"{id}\"\nvalue: {column: id}\n"))
		_, err = f.session.Plan(t.Context(), f.parseDesign(t, "name: z\nsource: app.c\nkey: \"{id}\"\nvalue: {column: id}\n"))
		if err == nil || !strings.Contains(err.Error(), "`z_fill` is there and belongs to another spec") {
			t.Errorf("tables: %v", err)
		}
	})
}

// TestOddTexts: literals outside of the BMP, line ends in names, long names; sums of long texts.
func TestOddTexts(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, attackTables...)
		long := strings.Repeat("é", 64)
		f.exec(t, "CREATE TABLE app.`"+long+"` (n INT NOT NULL, `i``d` INT NOT NULL, `a b//;` LONGTEXT, twice INT AS (n * 2) VIRTUAL, thrice INT AS (n * 3) STORED, PRIMARY KEY (n, `i``d`), CONSTRAINT `up` CHECK (n > 0)) ENGINE = InnoDB PARTITION BY HASH (n) PARTITIONS 3")
		f.exec(t, "ALTER TABLE app.`"+long+"` CHANGE `i``d` `ï \"d` INT NOT NULL")
		spec := "name: odd\nsource: app." + long + "\ngroup: [n]\nkey: 'k''\\\"`;:{n}'\nvalue:\n  sql: |\n    CONCAT('\U0001F600;//$$', '\\\\', \"x'y\", ';\n    DELIMITER $$\n    ', COALESCE(GROUP_CONCAT({a b//;} ORDER BY {twice}), 'ü'), MAX({thrice}))\nevery: 1 day\n"
		d := f.parseDesign(t, spec)
		f.install(t, d)
		for _, st := range f.install(t, f.parseDesign(t, spec)) {
			if st.Action != ActionKeep {
				t.Errorf("again: %s", st)
			}
		}
		for _, o := range d.Objects {
			if len([]rune(o.Name.Table)) > 64 {
				t.Errorf("%s has more than 64 characters", o.Name.Table)
			}
		}
		f.exec(t, "INSERT INTO app.`"+long+"` (n, `ï \"d`, `a b//;`) VALUES (1, 1, REPEAT('x', 3000)), (1, 2, NULL), (2, 1, NULL)", "DELETE FROM app.`"+long+"` WHERE n = 2",
			"INSERT INTO app.`"+long+"` (n, `ï \"d`, `a b//;`) VALUES (1, 3, REPEAT('y', 3000))")
		f.check(t, d)
		f.want(t, "SELECT CONCAT(k, ' ', LENGTH(v)) FROM app.odd", "k'\\\"`;:1 6030")
		// A new session compares long texts as the event computes them.
		f.session = f.open(t)
		f.check(t, d)
	})
}

// TestOddSessions: what a session's modes, character set and isolation are makes no difference, nor how rows come and go, on
// a partitioned table of other character sets with generated columns.
func TestOddSessions(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "CREATE TABLE app.parts (id INT NOT NULL, code VARCHAR(30) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL, name VARCHAR(40) CHARACTER SET latin1, bin VARBINARY(20), "+
			"raw TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, twice INT AS (id * 2) VIRTUAL, shout VARCHAR(40) CHARACTER SET latin1 AS (UPPER(name)) STORED, kind ENUM('x', 'ä') DEFAULT 'ä', "+
			"PRIMARY KEY (id, code)) ENGINE = InnoDB PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
			"CREATE TABLE app.other (id INT NOT NULL PRIMARY KEY, name VARCHAR(40)) ENGINE = InnoDB", "INSERT INTO app.other VALUES (1, 'öther'), (2, NULL), (12, 'x')",
			"INSERT INTO app.parts (id, code, name, bin, raw) VALUES (1, 'é€', 'ann|a\\\\b', x'00ff', REPEAT('ü', 5000)), (2, 'b', NULL, NULL, NULL)")
		var designs []*triggers.Design
		for _, spec := range []string{
			"name: parts_join\nsource: app.parts\nkey: \"p:{id}:{code|text}\"\nvalue: {join: [name, raw, twice, shout, kind], separator: \"|\"}\nwhen: \"{name} <> 'hidden' OR {name} IS NULL\"\n",
			"name: parts_json\nsource: app.parts\nkey: \"{id}:{code|hex}\"\nvalue: {json: {n: name, \"a'b\\\"\": \"HEX({bin})\", s: shout, t: twice, k: kind}}\ncas: unique\n",
			"name: parts_bin\nsource: app.parts\nkey: \"{id}:{code|sha2}\"\nvalue: {column: bin}\ncas: counter\n",
		} {
			d := f.parseDesign(t, spec)
			f.install(t, d)
			designs = append(designs, d)
		}
		file := filepath.Join(t.TempDir(), "rows.tsv")
		if err := os.WriteFile(file, []byte("3\tc\tcäsar\n11\td\t\\N\n2\tb\tagain\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		mysql.RegisterLocalFile(file)
		defer mysql.DeregisterLocalFile(file)
		f.exec(t, "SET GLOBAL local_infile = ON")
		for i, session := range []string{
			"SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE', NAMES latin1, SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
			"SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION', time_zone = '-11:00', SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
			"SET SESSION sql_mode = 'TRADITIONAL', NAMES utf8mb4 COLLATE utf8mb4_general_ci, autocommit = 0",
		} {
			s := f.open(t)
			for j, st := range []string{
				strings.Replace(strings.Replace(session, "NAMES", "character_set_client = 'utf8mb4'; SET NAMES", 1), ", SESSION TRANSACTION", "; SET SESSION TRANSACTION", 1),
				"LOAD DATA LOCAL INFILE '" + file + "' REPLACE INTO TABLE app.parts CHARACTER SET utf8mb4 (id, code, name)",
				"UPDATE app.parts p JOIN app.other o ON o.id = p.id SET p.name = CONCAT('j', o.name), o.name = 'both'",
				"REPLACE INTO app.parts (id, code, name, bin) VALUES (1, 'x', 'a\"q''r', 'bin')",
				"INSERT INTO app.parts (id, code, name) VALUES (3, 'C', 'dup'), (5, 'e', 'new') ON DUPLICATE KEY UPDATE name = CONCAT(name, '+'), kind = 'x'",
				fmt.Sprintf("UPDATE app.parts SET id = id + 9, code = CONCAT(code, '%d') WHERE id < 4 ORDER BY id DESC", i),
				"UPDATE app.parts SET name = 'hidden' WHERE id = 5", "DELETE app.parts FROM app.parts JOIN app.other ON app.other.id = app.parts.id WHERE app.parts.id = 12", "UPDATE app.parts SET bin = NULL, name = UPPER(name)",
				"COMMIT", "START TRANSACTION", "DELETE FROM app.parts", "ROLLBACK",
			} {
				for one := range strings.SplitSeq(st, "; ") {
					if err := s.exec(t.Context(), f.local(one)); err != nil {
						t.Fatalf("%d.%d %s: %v", i, j, one, err)
					}
				}
			}
			for _, d := range designs {
				f.check(t, d)
			}
		}
		f.want(t, "SELECT COUNT(*) > 5 FROM app.parts_bin", "1")
		// Partitions that are dropped take their rows with them; no trigger sees that, verifying does.
		f.exec(t, "ALTER TABLE app.parts DROP PARTITION p0")
		r, err := f.session.Verify(t.Context(), designs[2], false)
		if err != nil || r.Orphans == 0 {
			t.Errorf("after DROP PARTITION: %+v, %v", r, err)
		}
		for _, d := range designs {
			r, err := f.session.Verify(t.Context(), d, true)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.session.Repair(t.Context(), d, r, nil); err != nil {
				t.Fatal(err)
			}
			f.check(t, d)
		}
	})
}

// TestDefiner: a definer that is not there would make every write fail.
func TestDefiner(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		const spec = "name: def\nsource: app.users\nkey: \"{id}\"\nvalue: {column: id}\n"
		err := f.session.Ready(t.Context(), f.parseDesign(t, spec+"definer: nobody@nowhere\n"))
		if err == nil || !strings.Contains(err.Error(), "s.yaml:5: there is no account") {
			t.Errorf("no such account: %v", err)
		}
		if err := f.session.Ready(t.Context(), f.parseDesign(t, spec+"definer: root@localhost\n")); err != nil {
			t.Error(err)
		}
	})
}

// TestLockWaits: filling meets writers that hold their rows for long.
func TestLockWaits(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "INSERT INTO app.users (id, uname) VALUES (1, 'a'), (2, 'b')")
		d := f.design(t, "../examples/user_card.yaml")
		steps, err := f.session.Plan(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.session.Apply(t.Context(), d, steps); err != nil {
			t.Fatal(err)
		}
		holder := f.open(t)
		for _, st := range []string{"START TRANSACTION", "UPDATE app.users SET uname = 'c' WHERE id = 1"} {
			if err := holder.exec(t.Context(), f.local(st)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.session.exec(t.Context(), "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := f.session.Fill(ctx, d, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("filling under a lock: %v", err)
		}
		if err := holder.exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		again := f.open(t)
		if err := again.Fill(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		f.session = again
		f.check(t, d)
		f.want(t, "SELECT COUNT(*) FROM app.user_card WHERE v LIKE '%\"c\"%'", "1")
	})
}
