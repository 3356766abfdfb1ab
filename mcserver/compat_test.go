package mcserver_test

import (
	"fmt"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
)

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
				{"delete x\r\n", "NOT_FOUND\r\n"},
				{"set a 0 2147483648 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"},
				{"touch a 5\r\nmg a v\r\nmn\r\ngat 5 a\r\nms a 1\r\n", "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
				{"flush_all 10\r\n", "OK\r\n"},
				{"get a\r\n", "END\r\n"},
			} {
				if got := c.ask(t, tt.in); got != tt.want && tt.want != "" {
					t.Errorf("%.60q: got %q, want %q", tt.in, got, tt.want)
				}
			}
			f.want(t, "SELECT CONCAT(v, f, c > 1, e > UNIX_TIMESTAMP() + 2591000, other IS NULL) FROM @demo WHERE k = 'a'", "wx6111")
			f.want(t, "SELECT COUNT(*) FROM @must", "0")
			f.want(t, "SELECT COUNT(*) FROM @demo", "1")
			f.want(t, "SELECT GROUP_CONCAT(id, ':', n ORDER BY id) FROM @num", "3:-56,4:-1")
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
