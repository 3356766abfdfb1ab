package install

import (
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestDesignErrors: what does not fit the server's tables is refused with the line of the spec, before anything is made.
func TestDesignErrors(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "CREATE TABLE app.odd (id INT NOT NULL PRIMARY KEY, up INT, big VARCHAR(100) CHARACTER SET utf8mb4 NOT NULL UNIQUE, ts TIMESTAMP NULL, b BIT(3), dbl DOUBLE, CONSTRAINT up FOREIGN KEY (up) REFERENCES app.odd (id) ON DELETE CASCADE) ENGINE = InnoDB",
			"CREATE TABLE app.mem (id INT NOT NULL PRIMARY KEY) ENGINE = MEMORY", "CREATE TABLE app.nokey (id INT)")
		const users, odd, items = "name: x\nsource: app.users\n", "name: x\nsource: app.odd\n", "name: x\nsource: app.items\n"
		const value = "value: {column: id}\n"
		for _, c := range []struct{ spec, want string }{
			{"name: x\nsource: app.nowhere\nkey: \"{id}\"\n" + value, "s.yaml:2: source: there is no base table"},
			{"name: x\nsource: app.mem\nkey: \"{id}\"\n" + value, "s.yaml:2: source: the engine of"},
			{users + "key: \"{no}\"\n" + value, `s.yaml:3: key: {no}: ` + f.app + `.users has no column "no"`},
			{users + "key: \"{email|text}\"\n" + value, "s.yaml:3: key: {email} can be NULL"},
			{users + "key: \"{uname}\"\n" + value, "s.yaml:3: key: {uname} is text, and keys are without blanks"},
			{users + "key: \"{uname|text}\"\n" + value, "s.yaml:3: key: the key can have 256 bytes, memcached allows 250"},
			{users + "key: \"{uname|sha2}\"\n" + value, "s.yaml:3: key: several rows of"},
			{users + "key: \"{uname|text}:{id}\"\n" + value, "{uname|text} is not at the key's end"},
			{users + "key: fixed\n" + value, "the key names no column"},
			{users + "key: \"{id}\"\nvalue: {column: last_see}\n", `s.yaml:4: {last_see}: `},
			{users + "key: \"{id}\"\nvalue:\n  join:\n    - id\n    - plan.title\n", "s.yaml:7: {plan.title}: no join is called plan"},
			{users + "key: \"{id}\"\n" + value + "when: \"{id} = NO_SUCH({id})\"\n", "s.yaml:5: the server refuses this (error "},
			{users + "key: \"{id}\"\n" + value + "when: \"{id} = = 1\"\n", "s.yaml:5: the server refuses this (error 1064)"},
			{users + "key: \"{id}\"\nvalue: {sql: \"COUNT({id}\"}\n", "s.yaml:4: a parenthesis is not closed"},
			{users + "joins: [{table: app.plans, as: plan, on: {title: uname}}]\nkey: \"{id}\"\n" + value, "on must cover a unique key"},
			{users + "joins: [{table: app.plans, as: plan, on: {nr: plan_id}}]\nkey: \"{id}\"\n" + value, `has no column "nr"`},
			{items + "joins: [{table: app.owners, as: o, on: {id: owner_id}}]\nkey: \"{shop}:{no}\"\nvalue: {column: title}\n", "s.yaml:3: join o: foreign key owner_tenant"},
			{odd + "key: \"{id}\"\nvalue: {column: ts}\n", "s.yaml:4: ts is timestamp: its text depends on each session's time_zone"},
			{odd + "key: \"{id}\"\nvalue: {column: b}\n", "s.yaml:4: b is bit(3)"},
			{odd + "key: \"{big|hex}\"\nvalue: {column: dbl}\n", "the key can have 800 bytes"},
			{odd + "key: \"{id}\"\nvalue: {column: dbl}\n", "source: foreign key up of " + f.app + ".odd points to the table itself"},
			{items + "key: \"{shop}:{no}\"\nvalue: {json: {r: raw}}\n", `s.yaml:4: raw is varbinary(20): write "HEX({raw})"`},
			{items + "key: \"{shop}:{no}\"\nvalue: {column: title}\nexpiry: {column: title}\n", "s.yaml:5: expiry: title is varchar(60)"},
			{items + "group: [shop]\nkey: \"{shop}\"\ntotals: {n: count, q: sum qty}\n", "s.yaml:5: totals: foreign key item_"},
			{items + "group: [owner_id]\nkey: \"{owner_id}\"\nvalue: {sql: \"COUNT(*)\"}\nevery: 1 day\n", "can be NULL"},
			{"name: x\nsource: app.payments\ngroup: [shop, day]\nkey: \"{shop}\"\ntotals: {n: count}\n", "s.yaml:4: key: {day} is missing"},
			{"name: x\nsource: app.payments\ngroup: [shop]\nkey: \"{shop}:{day}\"\ntotals: {n: count}\n", "s.yaml:4: key: {day} is no column of group"},
			{"name: x\nsource: app.payments\ngroup: [shop]\nkey: \"{shop}\"\ntotals: {n: count, d: sum day}\n", "s.yaml:5: totals: day is date"},
			{"name: x\nsource: app.nokey\ngroup: [id]\nkey: \"{id}\"\ntotals: {n: count}\n", "s.yaml:4: key: {id} can be NULL"},
			{"name: x\nquery: SELECT 1 AS a\nevery: 1 day\n", "s.yaml:2: the server refuses this (error 1054)"},
			{"name: x\nquery: SELECT 1 AS k, 2 AS v; DROP TABLE t\nevery: 1 day\n", "s.yaml:2: the server refuses this (error 1064)"},
		} {
			spec, err := parseLocal(f, c.spec)
			if err == nil {
				_, err = f.session.Design(t.Context(), spec)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\n  %v\n  want %q", c.spec, err, c.want)
			}
		}
		f.want(t, "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '"+f.app+"'", "0")
	})
}
