package mcserver_test

import (
	"io"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
)

// manualTables are what the plugin's script and the examples of MySQL's manual make, chapters "Setting Up the InnoDB memcached
// Plugin" and "InnoDB memcached Multiple get and Range Query Support".
var manualTables = []string{
	"INSERT INTO innodb_memcache.cache_policies VALUES ('cache_policy', 'innodb_only', 'innodb_only', 'innodb_only', 'innodb_only')",
	"INSERT INTO innodb_memcache.config_options VALUES ('separator', '|'), ('table_map_delimiter', '.')",
	"INSERT INTO innodb_memcache.containers VALUES ('aaa', 'test', 'demo_test', 'c1', 'c2', 'c3', 'c4', 'c5', 'PRIMARY')",
	"CREATE DATABASE IF NOT EXISTS test",
	"CREATE TABLE test.demo_test (c1 VARCHAR(32), c2 VARCHAR(1024), c3 INT, c4 BIGINT UNSIGNED, c5 INT, PRIMARY KEY (c1)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"INSERT INTO test.demo_test VALUES ('AA', 'HELLO, HELLO', 8, 0, 0)",
	"CREATE TABLE test.city (city_id VARCHAR(32), name VARCHAR(1024), state VARCHAR(1024), country VARCHAR(2), flags INT, cas BIGINT UNSIGNED, expiry INT, PRIMARY KEY (city_id)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"INSERT INTO test.city VALUES ('B', 'BANGALORE', 'BANGALORE', 'IN', 0, 1, 0), ('C', 'CHENNAI', 'TAMIL NADU', 'IN', 0, 0, 0), ('D', 'DELHI', 'DELHI', 'IN', 0, 0, 0), ('H', 'HYDERABAD', 'TELANGANA', 'IN', 0, 0, 0), ('M', 'MUMBAI', 'MAHARASHTRA', 'IN', 0, 0, 0)",
	"INSERT INTO innodb_memcache.containers (name, db_schema, db_table, key_columns, value_columns, flags, cas_column, expire_time_column, unique_idx_name_on_key) VALUES ('city', 'test', 'city', 'city_id', 'name|state|country', 'flags', 'cas', 'expiry', 'PRIMARY')",
}

// manualSession is what the manual's telnet says and is told, byte for byte.
var manualSession = []struct{ in, out string }{
	{"get AA\r\n", "VALUE AA 8 12\r\nHELLO, HELLO\r\nEND\r\n"},
	{"set BB 10 0 16\r\nGOODBYE, GOODBYE\r\n", "STORED\r\n"},
	{"get BB\r\n", "VALUE BB 10 16\r\nGOODBYE, GOODBYE\r\nEND\r\n"},
	{"get @@aaa\r\n", "VALUE @@aaa 0 14\r\ntest/demo_test\r\nEND\r\n"},
	{"get @@aaa.AA\r\n", "VALUE @@aaa.AA 8 12\r\nHELLO, HELLO\r\nEND\r\n"},
	{"get @@aaa.AA BB\r\n", "VALUE @@aaa.AA 8 12\r\nHELLO, HELLO\r\nVALUE BB 10 16\r\nGOODBYE, GOODBYE\r\nEND\r\n"},
	{"get @@city\r\n", "VALUE @@city 0 9\r\ntest/city\r\nEND\r\n"},
	{"get B\r\n", "VALUE B 0 22\r\nBANGALORE|BANGALORE|IN\r\nEND\r\n"},
	{"get B C D H M\r\n", "VALUE B 0 22\r\nBANGALORE|BANGALORE|IN\r\nVALUE C 0 21\r\nCHENNAI|TAMIL NADU|IN\r\nVALUE D 0 14\r\nDELHI|DELHI|IN\r\nVALUE H 0 22\r\nHYDERABAD|TELANGANA|IN\r\nVALUE M 0 21\r\nMUMBAI|MAHARASHTRA|IN\r\nEND\r\n"},
	{"get @>D\r\n", "VALUE H 0 22\r\nHYDERABAD|TELANGANA|IN\r\nVALUE M 0 21\r\nMUMBAI|MAHARASHTRA|IN\r\nEND\r\n"},
	{"get @>=C@<H\r\n", "VALUE C 0 21\r\nCHENNAI|TAMIL NADU|IN\r\nVALUE D 0 14\r\nDELHI|DELHI|IN\r\nEND\r\n"},
	{"get @<=C\r\n", "VALUE B 0 22\r\nBANGALORE|BANGALORE|IN\r\nVALUE C 0 21\r\nCHENNAI|TAMIL NADU|IN\r\nEND\r\n"},
}

// TestManual has the manual's sessions with the demo container and the city table, in both modes.
func TestManual(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, flavor)
			for _, compat := range []mcserver.Compat{mcserver.CompatSafe, mcserver.CompatStrict} {
				t.Run(compat.String(), func(t *testing.T) {
					s.exec(t, "DROP DATABASE IF EXISTS innodb_memcache", "DROP DATABASE IF EXISTS test")
					s.exec(t, append(append([]string(nil), pluginTables...), manualTables...)...)
					server := mcserver.New(mcserver.Config{Reader: s.newReader(t, nil), Compat: compat, FindContainers: s.load, Writer: s.newWriter(t)})
					set, err := s.load(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if problems, err := server.SetContainers(t.Context(), set); err != nil || len(problems) > 0 {
						t.Fatal(problems, err)
					}
					f := rowFixture{source: s, schema: "test", addr: listen(t, server)}
					c := f.dial(t)
					for _, step := range manualSession {
						if _, err := io.WriteString(c.conn, step.in); err != nil {
							t.Fatal(err)
						}
						got := make([]byte, len(step.out))
						if _, err := io.ReadFull(c.in, got); err != nil || string(got) != step.out {
							t.Fatalf("%q: got %q, want %q (%v)", step.in, got, step.out, err)
						}
					}
					if err := c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
						t.Fatal(err)
					}
					if rest, err := c.in.Peek(1); err == nil {
						t.Errorf("more than was asked for: %q", rest)
					}
					f.want(t, "SELECT CONCAT_WS(' ', c2, c3, c4 > 0, c5) FROM @demo_test WHERE c1 = 'BB'", "GOODBYE, GOODBYE 10 1 0")
				})
			}
		})
	}
}
