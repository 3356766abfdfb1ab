package mcserver_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
)

// deviations are the recordings of the plugin that docs/PROTOCOLS.md lists as answered otherwise, with CompatSafe and with
// CompatStrict.
func deviations(t *testing.T) (safe, strict map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("../docs/PROTOCOLS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### safe and strict\n")
	first, second, split := strings.Cut(section, "\n`strict` differs from the plugin in these:\n")
	if !found || !split {
		t.Fatal("docs/PROTOCOLS.md has lost its tables of what safe and strict do otherwise")
	}
	name := regexp.MustCompile("`([a-z0-9-]+)`")
	listed := func(table string) map[string]bool {
		names := map[string]bool{}
		for line := range strings.Lines(table) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "| ") {
				continue
			}
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for _, m := range name.FindAllStringSubmatch(cells[len(cells)-1], -1) {
				names[m[1]] = true
			}
		}
		return names
	}
	safe, strict = listed(first), listed(second)
	for n := range strict {
		safe[n] = true
	}
	return safe, strict
}

// TestDeviations holds the list for users against what the tests play.
func TestDeviations(t *testing.T) {
	safe, strict := deviations(t)
	if len(strict) == 0 {
		t.Error("no recordings are listed for strict")
	}
	for n := range safe {
		if _, err := os.Stat("../testdata/dialogues/innodb-memcached/" + n + ".dialogue"); err != nil {
			t.Errorf("docs/PROTOCOLS.md lists %s: %v", n, err)
		}
		if otherwise[n] == "" && writtenOtherwise[n] == "" {
			t.Errorf("docs/PROTOCOLS.md lists %s, which is answered as by the plugin", n)
		}
	}
	for _, played := range []map[string]string{otherwise, writtenOtherwise} {
		for n := range played {
			if !safe[n] {
				t.Errorf("docs/PROTOCOLS.md does not list %s", n)
			}
		}
	}
}

// TestStrictWrites has CompatStrict do what was read of the plugin and no recording shows, beside those that do.
func TestStrictWrites(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			city := mcserver.Container{Name: "city", Table: "city", KeyColumns: []string{"k"}, ValueColumns: []string{"a", "b", "n"}, FlagsColumn: "f", ExpiryColumn: "e"}
			small := mcserver.Container{Name: "small", Table: "small", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
			num := mcserver.Container{Name: "num", Table: "num", KeyColumns: []string{"id"}, ValueColumns: []string{"n"}}
			must := mcserver.Container{Name: "must", Table: "must", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
			f := newFixture(t, s, mcserver.Config{Compat: mcserver.CompatStrict}, []string{
				"demo (k VARCHAR(32) PRIMARY KEY, v VARCHAR(200), f INT, c BIGINT UNSIGNED, e INT, other VARCHAR(9) DEFAULT 'd') DEFAULT CHARSET=latin1",
				"city (k VARCHAR(32) PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), n INT, f INT, e INT) DEFAULT CHARSET=latin1",
				"small (k VARCHAR(4) PRIMARY KEY, v VARCHAR(5)) DEFAULT CHARSET=utf8mb4",
				"num (id INT PRIMARY KEY, n TINYINT)",
				"must (k VARCHAR(4) PRIMARY KEY, v VARCHAR(5), other INT NOT NULL)",
			}, demo, city, small, num, must)
			f.exec(t, "INSERT INTO "+f.schema+".demo VALUES ('a', '7x', 0, 1, 0, 'keep')", "INSERT INTO "+f.schema+".must VALUES ('a', 'v', 1)",
				"INSERT INTO "+f.schema+".city VALUES ('p', 'x', 'y', 3, 1, 0)")
			c := f.dial(t)
			for _, tt := range []struct{ in, want string }{
				// Amounts have 32 bits, and what follows the digits is no matter.
				{"incr a 4294967297\r\n", "8\r\n"},
				{"incr a 4294967295\r\n", "7\r\n"},
				{"decr a 9\r\n", "0\r\n"},
				{"set a 5 0 130\r\n" + string(make([]byte, 130)) + "\r\n", "STORED\r\n"},
				{"incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
				{"set a 5 0 1\r\nx\r\n", "STORED\r\n"},
				{"prepend a 6 2592001 1\r\nw\r\n", "STORED\r\n"},
				{"gets a\r\n", ""}, // its cas is what the test below asks the table for
				{"append none 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
				// The column that the flags number is joined, and the others are lost.
				{"append @@city.p 1 0 1\r\n!\r\n", "STORED\r\n"},
				{"get p\r\n", "VALUE p 1 4\r\n|y!|\r\nEND\r\n"},
				{"append p 2 0 1\r\n4\r\n", "NOT_STORED\r\n"},
				{"set q 0 0 9\r\n|||b|300x\r\n", "STORED\r\n"},
				{"get q\r\n", "VALUE q 0 6\r\n|b|300\r\nEND\r\n"},
				{"set q 0 0 0\r\n\r\n", "STORED\r\n"},
				{"get q\r\n", "VALUE q 0 2\r\n||\r\nEND\r\n"},
				// Keys and values are cut to what fits, by characters.
				{"set @@small.abcdef 0 0 12\r\n\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\r\n", "STORED\r\n"},
				{"get abcdXY\r\n", "VALUE abcdXY 0 10\r\n\u00e4\u00e4\u00e4\u00e4\u00e4\r\nEND\r\n"},
				{"set @@num.3abc 0 0 4\r\n200x\r\n", "STORED\r\n"},
				{"get @@num.+03\r\n", "VALUE @@num.+03 0 3\r\n-56\r\nEND\r\n"},
				{"set 4 0 0 2\r\n-1\r\n", "STORED\r\n"},
				{"set 4 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
				// What the database refuses has no words.
				{"set @@must.b 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
				{"set a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
				{"incr a 1\r\n", "SERVER_ERROR failed to store item\r\n"},
				{"delete @@must.a\r\ndelete a\r\n", "NOT_FOUND\r\nDELETED\r\n"},
				// A number is the key's first digits, but never one that the column can't hold.
				{"get @@num.x\r\nset 2147483648 0 0 1\r\n1\r\nget 2147483648 -2147483648\r\ndelete x\r\n", "END\r\nNOT_STORED\r\nEND\r\nNOT_FOUND\r\n"},
				{"set 5 0 0 1\r\n1\r\nset 6 0 0 3\r\n-12\r\nincr 6 15\r\nset 6 0 0 3\r\n120\r\nincr 6 8\r\nget 6\r\n", "STORED\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nSTORED\r\nSERVER_ERROR failed to store item\r\nVALUE 6 0 3\r\n120\r\nEND\r\n"},
				{"prepend 5 0 0 1\r\n2\r\nreplace 5 0 0 2\r\n+7\r\nget 5\r\ndelete 5\r\ndelete 6\r\n", "STORED\r\nSTORED\r\nVALUE 5 0 1\r\n7\r\nEND\r\nDELETED\r\nDELETED\r\n"},
				// The values of what is not taken never run as commands.
				{"set @@demo.a 0 2147483648 9\r\nflush_all\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"},
				{"set a 0 -1 9 noreply\r\nflush_all\r\nms a 9\r\nflush_all\r\n", "ERROR\r\n"},
				{"touch a 5\r\nmg a v\r\nmn\r\ngat 5 a\r\nms a\r\n", "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
				// A row is there whatever its time says, with all that it holds.
				{"bind city\r\nset late 2 5000000 9\r\none|two|3\r\nget late\r\nincr late 4\r\nadd late 0 0 1\r\nx\r\nget late\r\n", "SUCCEED\r\nSTORED\r\nEND\r\n7\r\nNOT_STORED\r\nEND\r\n"},
				{"bind demo\r\nset over 1 5000000 1\r\nx\r\ncas over 0 0 1 0\r\ny\r\nappend over 0 0 1\r\n!\r\nget over\r\n", "SUCCEED\r\nSTORED\r\nEXISTS\r\nSTORED\r\nVALUE over 0 2\r\nx!\r\nEND\r\n"},
				{"delete over\r\n", "DELETED\r\n"},
				// Any spelling finds the row, and becomes its key.
				{"set SPELL 0 0 1\r\n1\r\nincr Spell 1\r\n", "STORED\r\n2\r\n"},
				{"add spell 0 0 1\r\nx\r\nreplace spelL 0 0 1\r\n4\r\n", "NOT_STORED\r\nSTORED\r\n"},
				// Text that is no text of the column is not kept as another one.
				{"set @@small.ill 0 0 2\r\n\xc3(\r\nget ill\r\n", "NOT_STORED\r\nEND\r\n"},
				{"bind demo\r\n", "SUCCEED\r\n"},
			} {
				if got := c.ask(t, tt.in); got != tt.want && tt.want != "" {
					t.Errorf("%.60q: got %q, want %q", tt.in, got, tt.want)
				}
			}
			f.want(t, "SELECT CONCAT(v, f, c > 1, e > UNIX_TIMESTAMP() + 2591000, other IS NULL) FROM @demo WHERE k = 'a'", "wx6111")
			f.want(t, "SELECT COUNT(*) FROM @must", "0")
			f.want(t, "SELECT CONCAT(a IS NULL, b IS NULL, n, f, e) FROM @city WHERE k = 'late'", "11725000000")
			f.want(t, "SELECT GROUP_CONCAT(k ORDER BY k) FROM @demo", "a,spelL")
			f.want(t, "SELECT GROUP_CONCAT(id, ':', n ORDER BY id) FROM @num", "3:-56,4:-1")
			if got, want := c.ask(t, "flush_all 10\r\nget a spelL\r\n"), "OK\r\nEND\r\n"; got != want {
				t.Errorf("flush_all: got %q, want %q", got, want)
			}
			f.want(t, "SELECT COUNT(*) FROM @demo", "0")
			f.want(t, "SELECT k FROM @small", "abcd")
		})
	}
}

// TestFlushTable empties the tables of containers for which that is allowed, and no others.
func TestFlushTable(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			kept := mcserver.Container{Name: "kept", Table: "kept", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
			f := newFixture(t, s, mcserver.Config{FlushContainers: []string{"demo"}}, []string{
				"demo (k VARCHAR(32) PRIMARY KEY, v VARCHAR(200), f INT, c BIGINT UNSIGNED, e INT)", "kept (k VARCHAR(32) PRIMARY KEY, v VARCHAR(200))",
			}, demo, kept)
			f.exec(t, "INSERT INTO "+f.schema+".demo (k, v) VALUES ('a', 'x'), ('b', 'y')", "INSERT INTO "+f.schema+".kept VALUES ('a', 'x')")
			c := f.dial(t)
			for _, tt := range []struct{ in, want string }{
				{"get @@kept\r\n", fmt.Sprintf("VALUE @@kept 0 %d\r\n%s/kept\r\nEND\r\n", len(f.schema)+5, f.schema)},
				{"flush_all\r\n", "SERVER_ERROR flush_all of a table is not allowed\r\n"},
				{"bind demo\r\n", "SUCCEED\r\n"},
				{"flush_all 10\r\n", "SERVER_ERROR flush_all of a table can't be delayed\r\n"},
				{"get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"},
				{"flush_all noreply\r\nget a b\r\n", "END\r\n"},
			} {
				if got := c.ask(t, tt.in); got != tt.want {
					t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
				}
			}
			f.want(t, "SELECT COUNT(*) FROM @demo", "0")
			f.want(t, "SELECT COUNT(*) FROM @kept", "1")
		})
	}
}
