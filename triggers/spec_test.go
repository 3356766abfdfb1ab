package triggers

import (
	"strings"
	"testing"
)

// TestParseSpecErrors: each fault is one line that names the place and says what would be right.
func TestParseSpecErrors(t *testing.T) {
	const ok = "name: x\nsource: a.b\nkey: \"{id}\"\nvalue: {column: v}\n"
	if _, err := ParseSpec("s.yaml", []byte(ok)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ spec, want string }{
		{"", "s.yaml: the file is empty"},
		{"a: [", "s.yaml:1: not YAML"},
		{"- a", "s.yaml:1: the file: want keys with values"},
		{ok + "colour: red\n", `s.yaml:5: unknown key "colour"; known in the file: name,`},
		{ok + "name: y\n", "s.yaml:5: name stands here for the second time"},
		{"source: a.b\n", "s.yaml: name is missing"},
		{"name: 1x\n", `s.yaml:1: name: "1x": want a letter`},
		{"name: x\nsource: b\n", `s.yaml:2: "b" is no table: want schema.table`},
		{"name: x\n", "s.yaml: source is missing"},
		{"name: x\nsource: a.b\n", "s.yaml: key is missing"},
		{"name: x\nsource: a.b\nkey: {id}\n", "s.yaml:3: want one text; one that begins with a brace needs quotes"},
		{"name: x\nsource: a.b\nkey: a b{id}\n", "s.yaml:3: key: ' ' can't stand in a key"},
		{"name: x\nsource: a.b\nkey: \"{a}{b}\"\n", "s.yaml:3: key: {b} follows a column directly"},
		{"name: x\nsource: a.b\nkey: \"{a|b64}\"\n", "s.yaml:3: key: {a|b64}: the form is text, hex or sha2"},
		{"name: x\nsource: a.b\nkey: \"{a\"\n", "is not closed"},
		{"name: x\nsource: a.b\nkey: \"{id}\"\n", "want value, or with group totals"},
		{"name: x\nsource: a.b\nkey: \"{id}\"\nvalue: {column: a, json: {b: c}}\n", "s.yaml:4: value is given as column already"},
		{"name: x\nsource: a.b\nkey: \"{id}\"\nvalue: {separator: x}\n", "s.yaml:4: value: want one of column, join, json and sql"},
		{ok + "when: \"{a} = NOW()\"\n", "s.yaml:5: NOW is not the same for every session"},
		{ok + "when: \"{a} < CURRENT_TIMESTAMP\"\n", "CURRENT_TIMESTAMP is not the same"},
		{ok + "when: \"{a} = UNIX_TIMESTAMP( )\"\n", "UNIX_TIMESTAMP() is not the same at every time"},
		{ok + "when: \"FROM_UNIXTIME({a}) > 1\"\n", "depends on each session's time_zone"},
		{ok + "when: \"{a} IN (SELECT 1)\"\n", "an expression can't hold a query"},
		{ok + "when: \"{a} = (TABLE a.one)\"\n", "an expression can't hold a query"},
		{ok + "when: \"{a} = NEXT VALUE FOR a.s\"\n", "an expression can't hold a query"},
		{ok + "when: \"a.f ({a}) = 1\"\n", "f: a stored function may read tables"},
		{ok + "when: \"RAND\\n() < {a}\"\n", "RAND is not the same for every session"},
		{ok + "when: \"UNIX_TIMESTAMP(\\n) < {a}\"\n", "UNIX_TIMESTAMP() is not the same at every time"},
		{ok + "when: \"DAYNAME({a}) = 'Monday'\"\n", "lc_time_names"},
		{ok + "when: \"DATE_FORMAT({a}, '%d %b') = 'x'\"\n", "lc_time_names"},
		{"name: x\nsource: \"a.b\\nDROP TABLE x\"\n", "is no table: want schema.table"},
		{ok + "cache: \"a.b\\n; DROP TABLE x\"\n", "is no table: want schema.table"},
		{ok + "when: \"{a} = @x\"\n", `'@' can't stand in an expression`},
		{ok + "when: \"1; DROP TABLE t\"\n", `';' can't stand in an expression`},
		{ok + "when: \"1) OR (1\"\n", "the parenthesis at byte 2 closes nothing"},
		{ok + "when: \"(1\"\n", "a parenthesis is not closed"},
		{ok + "when: \"1 -- x\"\n", "comments can't stand in an expression"},
		{ok + "when: \"1 /* x */\"\n", "comments can't stand in an expression"},
		{ok + "when: \"{a} = 'x\"\n", "a string is not closed"},
		{ok + "when: \"`a` = 1\"\n", "columns stand in braces"},
		{ok + "flags: -1\n", `s.yaml:5: flags: "-1": want a number`},
		{ok + "cas: yes\n", `s.yaml:5: "yes" is unknown: want counter or unique`},
		{ok + "purge: 1 minute\n", "s.yaml:5: purge deletes expired rows: it needs expiry"},
		{ok + "expiry: {seconds: 5}\npurge: soon\n", `s.yaml:6: "soon" is no interval`},
		{ok + "expiry: {seconds: 0}\n", `s.yaml:5: "0": want a number from 1`},
		{ok + "expiry: {seconds: 5, column: x}\n", "give one of column, sql and seconds"},
		{ok + "definer: me\n", `s.yaml:5: definer: "me": want account@host`},
		{ok + "definer: \"a`b@c\"\n", "want account@host"},
		{ok + "every: 1 day\n", "s.yaml:5: every has no meaning here"},
		{ok + "on_error: ignore\n", `"ignore" is unknown: want fail or tolerate`},
		{ok + "joins: [{table: a.c, as: s, on: {id: x}}]\n", `as: "s" can't be used`},
		{ok + "joins: [{table: a.c, as: c1}]\n", "a join needs table, as and on"},
		{ok + "group: [v]\n", "with group the value is sql or json"},
		{"name: x\nsource: a.b\nkey: \"{id}\"\ngroup: [id]\nvalue: {sql: \"COUNT(*)\"}\n", "s.yaml:4: every is missing"},
		{"name: x\nsource: a.b\nkey: \"{id}\"\ngroup: [id]\ntotals: {n: sum v}\n", "s.yaml:5: totals need one count"},
		{"name: x\nsource: a.b\nkey: \"{id}\"\ngroup: [id]\ntotals: {n: avg v}\n", `totals: "avg v": want count, sum column`},
		{"name: x\nsource: a.b\nkey: \"{id}\"\ngroup: [id]\ntotals: {rest: count}\n", `totals: "rest" can't be a column's name here`},
		{"name: x\nsource: a.b\nkey: \"{id}\"\ntotals: {n: count}\n", "totals need group"},
		{"name: x\nquery: SELECT 1\n", "s.yaml:2: every is missing"},
		{"name: x\nquery: DELETE FROM t\nevery: 1 day\n", "s.yaml:2: query: want one SELECT"},
		{"name: x\nquery: SELECT 1\nevery: 1 day\nkey: x\n", "s.yaml:4: key has no meaning with query"},
	} {
		_, err := ParseSpec("s.yaml", []byte(c.spec))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q:\n  %v\n  want %q", c.spec, err, c.want)
		}
	}
}

// TestExpressions: columns are found outside of strings only, and are written as asked.
func TestExpressions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{a}", "NEW.`a`"},
		{"IF({a} > 1, '{b}', \"it''s {c}\")", "IF(NEW.`a` > 1, '{b}', \"it''s {c}\")"},
		{"CONCAT({x y}, '\\'', {z})", "CONCAT(NEW.`x y`, '\\'', NEW.`z`)"},
		{"UNIX_TIMESTAMP({a})", "UNIX_TIMESTAMP(NEW.`a`)"},
		{"CONCAT('a\n\\\n\\\\\n',\n{a})", "CONCAT('a\\n\\n\\\\\\n',\nNEW.`a`)"},
	} {
		e, err := parseExpr(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := e.render(rowRef("NEW")); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
	const query = "SELECT -- don't\n '\n' AS `'k\n`, /* ' */ \"\n\" # it's\n, '\n'"
	if got, want := escapeQuery(query), "SELECT -- don't\n '\\n' AS `'k\n`, /* ' */ \"\\n\" # it's\n, '\\n'"; got != want {
		t.Errorf("query: %q, want %q", got, want)
	}
	if got := literal("a'b\\c\nd"); got != `'a\'b\\c\nd'` {
		t.Errorf("literal: %s", got)
	}
}

// TestIdent: names of up to 64 characters stay, longer ones are cut and stay different.
func TestIdent(t *testing.T) {
	long := strings.Repeat("n", 64)
	if ident(long) != long {
		t.Error("64 characters were cut")
	}
	a, b := ident(long+"a"), ident(long+"b")
	if len(a) != 64 || len(b) != 64 || a == b {
		t.Errorf("%s, %s", a, b)
	}
}

// FuzzParseSpec: no panic, and an expression that is taken holds no statement's end outside of strings.
func FuzzParseSpec(f *testing.F) {
	f.Add("name: x\nsource: a.b\nkey: \"{id}\"\nvalue: {sql: \"CONCAT({a}, ';')\"}\nwhen: \"{b} = 1\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec("f", []byte(text))
		if err != nil || s.When == nil {
			return
		}
		var outside strings.Builder
		for sql, i := s.When.Expr.render(func(Ref) string { return "c" }), 0; i < len(sql); i++ {
			if sql[i] == '\'' || sql[i] == '"' {
				n, err := quoted(sql[i:])
				if err != nil {
					t.Fatalf("%q: %v", sql, err)
				}
				i += n - 1
				continue
			}
			outside.WriteByte(sql[i])
		}
		if strings.ContainsAny(outside.String(), ";@`") {
			t.Errorf("%q", outside.String())
		}
	})
}
