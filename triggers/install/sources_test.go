package install

import (
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/triggers"
)

// TestSourcesThatCannotBe: what triggers can't follow is refused, with its place in the spec.
func TestSourcesThatCannotBe(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t,
			"CREATE VIEW app.people AS SELECT id, uname FROM app.users",
			"CREATE TABLE app.tree (id INT NOT NULL PRIMARY KEY, up INT, note VARCHAR(20), FOREIGN KEY (up) REFERENCES app.tree (id) ON DELETE CASCADE) ENGINE = InnoDB",
			"CREATE TABLE app.nulls (id INT NOT NULL PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES app.nulls (id) ON DELETE SET NULL) ENGINE = InnoDB",
			"CREATE TABLE app.a (id INT NOT NULL PRIMARY KEY, b INT) ENGINE = InnoDB",
			"CREATE TABLE app.b (id INT NOT NULL PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES app.a (id) ON DELETE CASCADE) ENGINE = InnoDB",
			"ALTER TABLE app.a ADD FOREIGN KEY (b) REFERENCES app.b (id) ON DELETE CASCADE",
			"CREATE TABLE app.made (id INT NOT NULL PRIMARY KEY, plan INT, twice INT AS (plan * 2) VIRTUAL, four INT AS (twice * 2) VIRTUAL, FOREIGN KEY (plan) REFERENCES app.plans (id) ON DELETE SET NULL) ENGINE = InnoDB",
			"CREATE TABLE app.zoned (id INT NOT NULL PRIMARY KEY, day DATETIME, name VARCHAR(20) AS (DAYNAME(day)) VIRTUAL, kept VARCHAR(20) AS (UPPER(DAYOFWEEK(day))) VIRTUAL) ENGINE = InnoDB",
			"CREATE TABLE app.heap (id INT NOT NULL PRIMARY KEY) ENGINE = MEMORY",
			"CREATE TABLE app.nokey (id INT) ENGINE = InnoDB",
		)
		if err := f.session.exec(t.Context(), f.local("CREATE TEMPORARY TABLE app.brief (id INT NOT NULL PRIMARY KEY) ENGINE = InnoDB")); err != nil {
			t.Fatal(err)
		}
		const head, tail = "name: x\nsource: app.", "\nkey: \"{id}\"\nvalue: {column: id}\n"
		for _, c := range []struct{ spec, want string }{
			{head + "people" + tail, "s.yaml:2: source: app.people is a view"},
			{head + "users\njoins:\n  - {table: app.people, as: p, on: {id: id}}" + tail, "s.yaml:3: joins: app.people is a view"},
			{head + "brief" + tail, "s.yaml:2: source: there is no base table app.brief"},
			{head + "tree" + tail, "s.yaml:2: source: foreign key "},
			{head + "tree" + tail, "points to the table itself and cascades"},
			{head + "nulls\nkey: \"{id}\"\nvalue: {column: up}\n", "points to the table itself and cascades"},
			{head + "a" + tail, "makes a circle of cascades"},
			{head + "made\nkey: \"{id}\"\nvalue: {column: twice}\n", "lets the server change plan, of which the column twice is generated"},
			{head + "made\nkey: \"{id}\"\nvalue: {column: id}\nwhen: \"{four} > 4\"\n", "of which the column four is generated"},
			{head + "zoned\nkey: \"{id}\"\nvalue: {column: name}\n", "s.yaml:2: source: the virtual column \"name\" depends on the session by dayname(); make it STORED"},
			{head + "heap" + tail, "s.yaml:2: source: the engine of app.heap is MEMORY"},
			{head + "nokey" + tail, "can be NULL"},
		} {
			spec, err := parseLocal(f, c.spec)
			if err == nil {
				spec.Cache.Schema = f.app
				_, err = f.session.Design(t.Context(), spec)
			}
			if want := f.local(c.want); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "s.yaml:") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s\n  %v\n  want %q", c.spec, err, want)
			}
		}
		// Where the spec does not use what a key to the table itself changes, nothing is refused.
		f.parseDesign(t, head+"nulls"+tail)
		f.parseDesign(t, head+"made"+tail)
		f.parseDesign(t, head+"zoned\nkey: \"{id}\"\nvalue: {column: kept}\n")
	})
}

// TestGeneratedKeys: keys and groups of generated columns, virtual and stored, on partitioned tables; a temporary table of the
// source's name changes nothing.
func TestGeneratedKeys(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		notNull := " NOT NULL"
		if server.Flavor == testmysql.MariaDB {
			notNull = "" // its generated columns can always be NULL: they are refused as keys
		}
		f.exec(t,
			"CREATE TABLE app.gen (id INT NOT NULL, n INT, name VARCHAR(20), v INT AS (id + 1000) VIRTUAL, s VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin AS (LOWER(name)) STORED, "+
				"parity INT AS (n % 3) VIRTUAL, PRIMARY KEY (id)) ENGINE = InnoDB PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
			"CREATE TABLE app.codes (id INT NOT NULL PRIMARY KEY, raw VARCHAR(20), code VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin AS (CONCAT('c', id)) STORED"+notNull+
				", half INT AS (id DIV 2) STORED"+notNull+", UNIQUE KEY code (code), KEY half (half)) ENGINE = InnoDB",
			"INSERT INTO app.gen (id, n, name) VALUES (1, 1, 'Ann'), (2, NULL, NULL), (15, 3, 'Bob')",
			"INSERT INTO app.codes (id, raw) VALUES (1, 'a'), (2, 'b')",
		)
		var designs []*triggers.Design
		specs := []string{
			"name: g_row\nsource: app.gen\nkey: \"{id}\"\nvalue: {join: [v, s, parity]}\nwhen: \"{parity} IS NULL OR {parity} <> 2\"\n",
			"name: g_json\nsource: app.gen\nkey: \"{id}\"\nvalue: {json: {v: v, s: s, p: \"{parity} + 1\"}}\ncas: counter\n",
			"name: c_row\nsource: app.codes\nkey: \"k:{code|text}\"\nvalue: {column: raw}\n",
			"name: c_total\nsource: app.codes\ngroup: [half]\nkey: \"{half}\"\ntotals: {n: count, ids: sum id}\n",
			"name: c_group\nsource: app.codes\ngroup: [half]\nkey: \"{half}\"\nvalue: {sql: \"GROUP_CONCAT({code} ORDER BY {id})\"}\nevery: 1 day\n",
		}
		if notNull == "" {
			for _, spec := range specs[2:] {
				if _, err := f.session.Design(t.Context(), f.parse(t, "s.yaml", spec)); err == nil || !strings.HasPrefix(err.Error(), "s.yaml:") ||
					!strings.Contains(err.Error(), "there use the columns that it is generated from") {
					t.Errorf("%s\n%v", spec, err)
				}
			}
			specs = specs[:2]
		}
		for _, spec := range specs {
			d := f.parseDesign(t, spec)
			f.install(t, d)
			designs = append(designs, d)
		}
		s := f.open(t)
		for _, st := range []string{
			"INSERT INTO app.gen (id, n, name) VALUES (3, 5, 'x'), (20, 6, 'Y') ON DUPLICATE KEY UPDATE n = 1", "UPDATE app.gen SET n = n + 1, name = CONCAT(name, 'Z')",
			"UPDATE app.gen SET id = id + 20 WHERE id < 3", "REPLACE INTO app.gen (id, n, name) VALUES (3, 2, 'r'), (15, 7, NULL)", "DELETE FROM app.gen WHERE id = 20",
			"INSERT INTO app.codes (id, raw) VALUES (3, 'c'), (4, 'd'), (5, 'e')", "UPDATE app.codes SET id = id + 7 WHERE id < 3", "DELETE FROM app.codes WHERE id = 4",
			"REPLACE INTO app.codes (id, raw) VALUES (5, 'again')", "INSERT INTO app.codes (id, raw) VALUES (3, 'odku') ON DUPLICATE KEY UPDATE id = 30",
			"CREATE TEMPORARY TABLE app.codes (id INT, raw VARCHAR(20))", "INSERT INTO app.codes VALUES (99, 'temporary')", "DROP TEMPORARY TABLE app.codes",
		} {
			if err := s.exec(t.Context(), f.local(st)); err != nil {
				t.Fatalf("%s: %v", st, err)
			}
			for _, d := range designs {
				f.check(t, d)
			}
		}
		if notNull == "" {
			return
		}
		f.want(t, "SELECT GROUP_CONCAT(k ORDER BY k) FROM app.c_row", "k:c30,k:c5,k:c8,k:c9")
		f.want(t, "SELECT GROUP_CONCAT(CONCAT(k, '=', v) ORDER BY k) FROM app.c_group", "15=c30,2=c5,4=c8,c9")
	})
}

// TestDefinerRights: what the definer may not do would fail every write to the source: it is found before, and taken back.
func TestDefinerRights(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		user := f.app + "_d"
		user = user[max(0, len(user)-30):]
		account := "`" + user + "`@`localhost`"
		f.exec(t, "CREATE USER "+account)
		t.Cleanup(func() {
			if _, err := server.DB(t).Exec("DROP USER " + account); err != nil {
				t.Error(err)
			}
		})
		d := f.parseDesign(t, "name: def\nsource: app.items\nkey: \"{shop}:{no}\"\nvalue: {column: title}\non_error: tolerate\nevery: 1 second\ndefiner: "+user+"@localhost\n")
		refused := func(want string) {
			t.Helper()
			steps, err := f.session.Plan(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.session.Apply(t.Context(), d, steps)
			if err == nil || !strings.HasPrefix(err.Error(), "s.yaml:7: ") || !strings.Contains(err.Error(), f.local(want)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, want)
			}
			if o := f.objects(t); o != "0 0 0 0" {
				t.Errorf("%s objects are left", o)
			}
		}
		for _, step := range []struct{ want, grant string }{
			{"GRANT EXECUTE ON `app`.* TO " + account, "EXECUTE ON app.*"},
			{"GRANT SELECT ON `app`.`items` TO " + account, "SELECT ON app.items"},
			{" ON `app`.* TO " + account, "SELECT, INSERT ON app.*"},
			{"GRANT UPDATE ON `app`.* TO " + account, "UPDATE ON app.*"},
			{"GRANT DELETE ON `app`.* TO " + account, "DELETE ON app.*"},
			{"GRANT TRIGGER ON `app`.`items`", "TRIGGER ON app.*"},
		} {
			refused(strings.ReplaceAll(step.want, "`app`", "`"+f.app+"`"))
			f.exec(t, "GRANT "+step.grant+" TO "+account)
		}
		f.install(t, d)
		f.exec(t, "INSERT INTO app.items (shop, no, title) VALUES (1, 1, 'x'), (1, 2, 'y')", "DELETE FROM app.items WHERE no = 2")
		if err := f.session.Refresh(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		f.check(t, d)
		if _, err := f.session.Uninstall(t.Context(), d.Spec, true); err != nil {
			t.Fatal(err)
		}
		if o := f.objects(t); o != "0 0 0 0" {
			t.Errorf("%s objects are left", o)
		}
	})
}
