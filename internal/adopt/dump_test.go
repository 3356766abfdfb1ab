package adopt

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

// rows are the values of a table, NULL as a word.
func rows(table [][][]byte) string {
	var b strings.Builder
	for _, row := range table {
		for i, v := range row {
			if i > 0 {
				b.WriteString(",")
			}
			if v == nil {
				b.WriteString("NULL")
			} else {
				fmt.Fprintf(&b, "%q", v)
			}
		}
		b.WriteString(";")
	}
	return b.String()
}

const dumpHead = "USE innodb_memcache;\nINSERT INTO config_options VALUES ('separator','|');\n" +
	"INSERT INTO cache_policies VALUES ('p','innodb_only','innodb_only','innodb_only','innodb_only');\n"

// TestReadDump reads forms that the tools do not write, and what they write only of odd values.
func TestReadDump(t *testing.T) {
	const plain = `"a","s","t","k","v","0","0","0","PRIMARY";`
	tests := []struct{ name, dump, want string }{
		{"several rows", "INSERT INTO `containers` VALUES ('a','s','t','k','v','0','0','0','PRIMARY'),\n('b','s','t','k','v','0','0','0','u');", plain + `"b","s","t","k","v","0","0","0","u";`},
		{"columns in another order", "INSERT INTO containers (unique_idx_name_on_key, expire_time_column, `cas_column`, FLAGS, value_columns, key_columns, db_table, db_schema, name) VALUES ('PRIMARY','0',NULL,'0','v','k','t','s','a')", `"a","s","t","k","v","0",NULL,"0","PRIMARY";`},
		{"columns in the table's order", "CREATE TABLE containers (db_schema varchar(250), name varchar(50), more int, db_table varchar(250), key_columns varchar(250), value_columns varchar(250), flags varchar(250), cas_column varchar(250), expire_time_column varchar(250), unique_idx_name_on_key varchar(250), PRIMARY KEY (name)); INSERT INTO containers VALUES ('s','a',1,'t','k','v','0','0','0','PRIMARY')", plain},
		{"names with a schema", "INSERT INTO `innodb_memcache`.`containers` VALUES ('a','s','t','k','v','0','0','0','PRIMARY'); INSERT INTO innodb_memcache.containers VALUES ('b','s','t','k','v','0','0','0','PRIMARY'); INSERT INTO innodb_memcache . containers VALUES ('c','s','t','k','v','0','0','0','PRIMARY')", plain + `"b","s","t","k","v","0","0","0","PRIMARY";"c","s","t","k","v","0","0","0","PRIMARY";`},
		{"another schema's table", "USE other; INSERT INTO containers VALUES (1, 'x'); USE innodb_memcache; INSERT INTO containers VALUES ('a','s','t','k','v','0','0','0','PRIMARY')", plain},
		{"escapes", `INSERT INTO containers VALUES ('a\'b''c\"\\\0\n\r\t\Z\b\%','s','t','k',"v'",'0','0','0','PRIMARY')`, `"a'b'c\"\\\x00\n\r\t\x1a\b%","s","t","k","v'","0","0","0","PRIMARY";`},
		{"bytes in hexadecimal", "INSERT INTO containers VALUES (0x61,X'73',x'74',_latin1 'k',_binary 0x76,_utf8mb4'0',_binary X'30',0,'PRIMARY')", plain},
		{"comments everywhere", "-- one\n# two\n/* three ; ' */ INSERT/**/INTO /*!40000 containers */ VALUES -- four\n('a','s','t',/* ' */'k','v','0','0','0','PRIMARY')/*!50001 ;*/", plain},
		{"replaced by a second dump", "INSERT INTO containers VALUES ('z','s','t','k','v','0','0','0','PRIMARY'); DROP TABLE containers; CREATE TABLE containers (name varchar(50), db_schema varchar(250), db_table varchar(250), key_columns varchar(250), value_columns varchar(250), flags varchar(250), cas_column varchar(250), expire_time_column varchar(250), unique_idx_name_on_key varchar(250)); REPLACE INTO containers VALUES ('a','s','t','k','v','0','0','0','PRIMARY')", plain},
		{"delimiters", "DELIMITER ;;\nCREATE TRIGGER x BEFORE INSERT ON y FOR EACH ROW BEGIN INSERT INTO containers VALUES (1); END ;;\nDELIMITER ;\nINSERT INTO containers VALUES ('a','s','t','k','v','0','0','0','PRIMARY')", plain},
		{"ignore", "INSERT LOW_PRIORITY IGNORE INTO containers VALUES ('a','s','t','k','v','0','0','0','PRIMARY')", plain},
		{"sandbox mark", "/*M!999999\\- enable the sandbox mode */ \nINSERT INTO containers VALUES ('a','s','t','k','v','0','0','0','PRIMARY')", plain},
	}
	for _, test := range tests {
		inv, err := ReadDump(strings.NewReader(dumpHead+test.dump+";\n"), "d")
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := rows(inv.Tables.Containers); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
		if len(inv.Tables.Options) != 1 || rows(inv.Tables.Policies) != `"innodb_only","innodb_only","innodb_only","innodb_only";` {
			t.Errorf("%s: options %s, policies %s", test.name, rows(inv.Tables.Options), rows(inv.Tables.Policies))
		}
	}
}

// TestReadDumpErrors: each error says what is wrong, and in which line.
func TestReadDumpErrors(t *testing.T) {
	long := strings.Repeat("x", maxToken+1)
	tests := []struct{ dump, want string }{
		{"", "d: no statement of a dump"},
		{"hello world", "d:1: the file ends inside of a statement"},
		{"SET x = 1;", "d: no statement of a dump"},
		{"<?xml version=\"1.0\"?>\n<mysqldump>;", "no statement of a dump"},
		{"CREATE TABLE a (id int);\nINSERT INTO a VALUES (1);", "d: the table innodb_memcache.containers is not in it"},
		{"USE innodb_memcache;\n\nINSERT INTO containers VALUES\n('a','s',", "d:4: INSERT INTO containers: value 3: the file ends inside of a statement"},
		{"INSERT INTO containers VALUES ('a", "d:1: INSERT INTO containers: value 1: the file ends inside of a statement"},
		{"INSERT INTO containers /* no end", "d:1: the file ends inside"},
		{"INSERT INTO containers VALUES ('a','s');", "a row has 2 values for 9 columns"},
		{"INSERT INTO containers VALUES (1,2,3,4,5,6,7,8,9,10);", "more than the 9 values"},
		{"INSERT INTO containers (name) VALUES ('a');", "no value for the column db_schema"},
		{"INSERT INTO containers (name, 'x') VALUES ('a');", "a column's name is expected"},
		{"INSERT INTO containers (name VALUES ('a');", "the list of columns cannot be read"},
		{"INSERT INTO containers SELECT 1;", "VALUES is expected"},
		{"INSERT INTO containers VALUES 1;", "a row in parentheses is expected"},
		{"INSERT INTO containers VALUES (NOW(),1,2,3,4,5,6,7,8);", `value 1: "NOW" is no literal`},
		{"INSERT INTO containers VALUES (,1);", `value 1: "," is no literal`},
		{"INSERT INTO containers VALUES (0xzz,1);", "no bytes in hexadecimal digits"},
		{"INSERT INTO containers VALUES (_utf8 (,1);", "is no literal"},
		{"INSERT INTO containers VALUES (1 2);", "a comma is expected behind value 1"},
		{"INSERT INTO containers VALUES (1,2,3,4,5,6,7,8,9) ON DUPLICATE KEY UPDATE name = 1;", "a comma or the end is expected"},
		{"\n\nINSERT INTO containers VALUES ('" + long + "',1);", "d:3: INSERT INTO containers: value 1: a value or name here is longer"},
		{"INSERT INTO containers VALUES (" + long + ",1);", "value 1: a value or name here is longer"},
		{"CREATE TABLE innodb_memcache.containers (name);", "the definition of innodb_memcache.containers cannot be read"},
		{"DELIMITER " + long + "\n", "longer than"},
		{"DELIMITER \n", "is no delimiter"},
	}
	for _, test := range tests {
		_, err := ReadDump(strings.NewReader(test.dump), "d")
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%.100q: %.300v, want %q", test.dump, err, test.want)
		}
	}
	many := "USE innodb_memcache; INSERT INTO config_options VALUES ('a','b')" + strings.Repeat(",('a','b')", maxRows) + ";"
	if _, err := ReadDump(strings.NewReader(many), "d"); err == nil || !strings.Contains(err.Error(), "more than 20000 rows") {
		t.Errorf("many rows: %v", err)
	}
	if _, err := ReadDump(strings.NewReader("\x1f\x8bnot gzip"), "d"); err == nil || !strings.HasPrefix(err.Error(), "d: ") {
		t.Errorf("a broken gzip file: %v", err)
	}
}

// repeated gives a text again and again, for n bytes in all.
type repeated struct {
	text string
	n    int
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && r.n > 0 {
		c := copy(p[n:], r.text[r.at:])
		r.at = (r.at + c) % len(r.text)
		n += c
		r.n -= c
	}
	return n, nil
}

// TestReadDumpMemory: whatever large things a dump holds, little of it is kept.
func TestReadDumpMemory(t *testing.T) {
	const size = 16 << 20
	for name, parts := range map[string][]io.Reader{
		"a row":           {strings.NewReader("INSERT INTO x VALUES ('"), &repeated{text: "abc\\'''x", n: size}, strings.NewReader("');")},
		"many rows":       {strings.NewReader("INSERT INTO x VALUES (1)"), &repeated{text: ",(1,'ab;c')", n: size / 11 * 11}, strings.NewReader(";")},
		"a comment":       {strings.NewReader("/*"), &repeated{text: "comment", n: size}, strings.NewReader("*/")},
		"a line":          {strings.NewReader("-- "), &repeated{text: "comment", n: size}, strings.NewReader("\n")},
		"a definition":    {strings.NewReader("CREATE TABLE x ("), &repeated{text: "a int, ", n: size}, strings.NewReader("b int);")},
		"a word":          {strings.NewReader("CREATE "), &repeated{text: "abc", n: size}, strings.NewReader(";")},
		"many statements": {&repeated{text: "CREATE TABLE x (a int);INSERT INTO x VALUES (1);", n: size / 4 / 48 * 48}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := io.MultiReader(append(append([]io.Reader{strings.NewReader(dumpHead)}, parts...), strings.NewReader("INSERT INTO containers VALUES ('a','s','t','k','v','0','0','0','PRIMARY');"))...)
			inv, err := ReadDump(in, "d")
			if err != nil || len(inv.Tables.Containers) != 1 {
				t.Errorf("%v, %+v", err, inv)
			}
		})
	}
	t.Cleanup(func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.Sys > 256<<20 {
			t.Errorf("%d MiB were taken from the system", m.Sys>>20)
		}
	})
}

func FuzzReadDump(f *testing.F) {
	f.Add([]byte(dumpHead + "INSERT INTO `containers` VALUES ('a','s','t','k','v','0',NULL,0x30,_latin1 'PRIMARY'),('b','','','','','','','','');"))
	f.Add([]byte("-- MySQL dump 10.13\n-- Server version\t8.0.36\n-- Host: localhost    Database: innodb_memcache\n/*!40101 SET NAMES utf8 */;\nDELIMITER ;;\nx 'y;;' ;;\nDELIMITER ;\nCREATE TABLE `containers` (`name` varchar(50));"))
	f.Add([]byte("/*M!999999\\- enable the sandbox mode */ \nCREATE TABLE s.t (`k` int, PRIMARY KEY (`k`)); INSERT INTO innodb_memcache.containers (`name`, `x`) VALUES (\"a\", X'61');"))
	f.Fuzz(func(t *testing.T, text []byte) {
		inv, err := ReadDump(bytes.NewReader(text), "d")
		if err != nil {
			return
		}
		p, err := NewPlan(inv, testOptions)
		if err != nil {
			return
		}
		load(t, p.Config())
	})
}

// TestSizes: the memory that is planned is enough for the tables and for the plugin's own.
func TestSizes(t *testing.T) {
	for _, test := range []struct {
		bytes  int64
		option string
		get    string
		want   string // memory, memcached-memory
	}{
		{0, "", "innodb_only", "1073741824 67108864"},
		{1 << 30, "", "innodb_only", "2147483648 67108864"},
		{5 << 30, "-m 512", "innodb_only", "10737418240 67108864"},
		{0, "-m 512", "cache_only", "1073741824 536870912"},
		{0, "-m 4096", "cache_only", "5368709120 4294967296"},
	} {
		inv := newInventory("x")
		inv.HasTables = true
		inv.Variables["daemon_memcached_option"] = test.option
		row := func(v ...string) [][]byte {
			var r [][]byte
			for _, x := range v {
				r = append(r, []byte(x))
			}
			return r
		}
		inv.Tables.Containers = [][][]byte{row("a", "s", "t", "k", "v", "0", "0", "0", "PRIMARY")}
		inv.Tables.Policies = [][][]byte{row(test.get, "innodb_only", "innodb_only", "innodb_only")}
		inv.Tables.Options = [][][]byte{row("separator", "|")}
		inv.Bytes[schema.Name{Schema: "s", Table: "t"}] = test.bytes
		serve := load(t, mustPlan(t, inv, testOptions).Config())
		if got := fmt.Sprint(int64(serve.Memory), " ", int64(serve.MemcachedMemory)); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestDaemonOptions(t *testing.T) {
	for text, want := range map[string]daemonOptions{
		"":                                    {},
		"-p11222 -m128 -c64 -U0 -vvv -I2m -S": {port: "11222", memory: 128 << 20, conns: "64", udp: "0", item: 2 << 20, sasl: true},
		"-p 11222 -l 10.0.0.1,10.0.0.2 -M -C": {port: "11222", hosts: []string{"10.0.0.1", "10.0.0.2"}, noEvict: true, noCAS: true},
		"-s /tmp/mc.sock -a 0700 -t 8":        {socket: "/tmp/mc.sock"},
		"-vp1":                                {port: "1"},
		"-p":                                  {others: []string{"-p"}},
		"-p99999 -mx -I0 --port=1 -Z x":       {others: []string{"-p99999", "-mx", "-I0", "--port=1", "-Z", "x"}},
	} {
		got := parseDaemonOptions(text)
		if strings.Contains(text, "--port") { // by kind, not in order
			if len(got.others) != len(want.others) {
				t.Errorf("%q: %+v", text, got)
			}
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"": "127.0.0.1:11211 true", "-p1": "127.0.0.1:1 true", "-l 10.0.0.1": "10.0.0.1:11211 false", "-l 0.0.0.0 -p 2": ":2 false",
		"-l [::1]:5": "[::1]:5 false", "-l ::1": "[::1]:11211 false", "-s /x": "unix:/x false",
	} {
		o := parseDaemonOptions(text)
		if address, guess := o.address(); fmt.Sprint(address, " ", guess) != want {
			t.Errorf("%q: %s %v, want %s", text, address, guess, want)
		}
	}
}

func TestVariables(t *testing.T) {
	vars := make(Variables)
	err := vars.Read(strings.NewReader("Variable_name\tValue\ninnodb_api_trx_level\t0\nport\t3306\ndaemon_memcached_option\t-p11222 -l 10.0.0.1\n"), "f")
	if err != nil || !reflect.DeepEqual(vars, Variables{"innodb_api_trx_level": "0", "daemon_memcached_option": "-p11222 -l 10.0.0.1"}) {
		t.Errorf("%v, %q", err, vars)
	}
	vars = make(Variables)
	err = vars.Read(strings.NewReader("[client]\ndaemon_memcached_option = no\n# x\n[mysqld-8.0]\nloose-daemon_memcached_option = \"-p11223\"\r\n!includedir /etc\n"+
		"innodb-api-enable-binlog\n[mariadb]\nhandlersocket_port=9997\n[mysqldump]\nhandlersocket_port_wr = 1\n"), "f")
	want := Variables{"daemon_memcached_option": "-p11223", "innodb_api_enable_binlog": "ON", "handlersocket_port": "9997"}
	if err != nil || !reflect.DeepEqual(vars, want) {
		t.Errorf("%v, %q", err, vars)
	}
	for text, want := range map[string]string{"\n[x": "f:2: group", "a\n" + strings.Repeat("x", maxVariableLine+1): "f:2: line longer"} {
		if err := vars.Read(strings.NewReader(text), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPlannedSettings: what the plugins' variables become.
func TestPlannedSettings(t *testing.T) {
	inv := newInventory("x")
	inv.Variables = Variables{
		"daemon_memcached_option": "-p11222 -I 2m -S -c 500", "daemon_memcached_w_batch_size": "32", "daemon_memcached_r_batch_size": "1",
		"innodb_api_trx_level": "0", "innodb_api_enable_binlog": "OFF",
		"handlersocket_port": "9997", "handlersocket_port_wr": "/run/hs.sock", "handlersocket_address": "", "handlersocket_plain_secret": "se: \"c'r # et",
	}
	o := testOptions
	o.Tables = []string{"shop.*", "app.user", "*.x"}
	p := mustPlan(t, inv, o)
	serve := load(t, p.Config())
	if got := fmt.Sprint(serve.Memcached, serve.HandlerSocketRead, serve.HandlerSocketWrite, serve.Tables, int64(serve.MemcachedItemSize)); got != "127.0.0.1:11222 127.0.0.1:9997 unix:/run/hs.sock [shop.* app.user *.x] 2097152" {
		t.Errorf("got %s", got)
	}
	if got := serve.HandlerSocketSecret.Reveal(); got != "se: \"c'r # et" {
		t.Errorf("secret %q", got)
	}
	for _, text := range []string{"listened on every address", "SASL", "innodb_api_enable_binlog is OFF", "plain memcached"} {
		if !has(p, "", Must, text) {
			t.Errorf("no note: %s\n%s", text, p.Report())
		}
	}
	for _, text := range []string{"trx_level is 0", "w_batch_size is 32", "-c 500", "UDP", "HandlerSocket writes"} {
		if !has(p, "", Differs, text) {
			t.Errorf("no note: %s\n%s", text, p.Report())
		}
	}
	grants := strings.Join(p.Grants(), "\n")
	for _, text := range []string{"ON `shop`.* TO 'cache'@'127.0.0.1'", "GRANT SELECT, INSERT, UPDATE, DELETE ON `app`.`user`"} {
		if !strings.Contains(grants, text) {
			t.Errorf("no %s in\n%s", text, grants)
		}
	}
	inv.Variables = Variables{"handlersocket_port": "9998"}
	serve = load(t, mustPlan(t, inv, testOptions).Config())
	if !serve.Memcached.Off() || serve.HandlerSocketWrite.String() != "127.0.0.1:9999" {
		t.Errorf("HandlerSocket alone: %v %v", serve.Memcached, serve.HandlerSocketWrite)
	}
}

// TestScalars: whatever a text is, the file's reader reads the same.
func TestScalars(t *testing.T) {
	for _, s := range []string{
		"a", "off", "no", "null", "NULL", "~", "", " ", "a b", "a: b", "a #b", "- a", "[a]", "{a}", "*a", "&a", "!a", "%a", "@a", "`a`", "|", ">", "?", "'", "\"", "\\",
		"1", "1_000", "0x1f", "1e3", ".", "..", ".5", "2026-01-01", "=", "<<", "ä", "日本", "😀", "a\u0085b", "a\u2028b", "\ufeffa", "\t", "a\x01b", "a\x00b", "a\x7fb", "\u00a0", "\u200b", "e\u0301",
	} {
		file := "source: a@tcp(b)/\noptions:\n  separator: " + scalar(s) + "\n"
		if got := load(t, file).Options.Separator; got != s {
			t.Errorf("%q: %s reads as %q", s, scalar(s), got)
		}
	}
}

// TestOddRows: what can't stand in a configuration file stays out of it.
func TestOddRows(t *testing.T) {
	for _, test := range []struct {
		row, separator, delimiter string
		left                      string // the reason
		must                      string // a note
	}{
		{"'\xff','s','t','k','v','0','0','0','u'", "|", ".", "its row is not UTF-8", ""},
		{"'a','s','t\xff','k','v','0','0','0','u'", "|", ".", "its row is not UTF-8", ""},
		{"'a','s','t','','v','0','0','0','u'", "|", ".", "exactly one column", ""},
		{"'a','','t','k','v','0','0','0','u'", "|", ".", "schema: missing", ""},
		{"'','s','t','k','v','0','0','0','u'", "|", ".", "name: missing", ""},
		{"'a','s','t','k','v','0','0','0','u'", "\xa7", ".", "", "is not UTF-8, as a file has to be"},
		{"'a','s','t','k','v','0','0','0','u'", `\n`, ".", "", "a line end can't be a separator"},
		{"'a','s','t','k','v','0','0','0','u'", "|", "@", "", "options.table_map_delimiter"},
		{"'a\n[x]: #','s\n','t\"','k: ','v#','0','','','u'", ": #", ":", "", "is not known"},
	} {
		dump := "INSERT INTO config_options VALUES ('separator','" + test.separator + "'),('table_map_delimiter','" + test.delimiter + "');" +
			"INSERT INTO cache_policies VALUES ('p','innodb_only','innodb_only','innodb_only','innodb_only');INSERT INTO containers VALUES (" + test.row + ");"
		inv, err := ReadDump(strings.NewReader(dump), "d")
		if err != nil {
			t.Errorf("%q: %v", test.row, err)
			continue
		}
		p := mustPlan(t, inv, testOptions)
		serve := load(t, p.Config())
		switch left := p.Left(); {
		case test.left != "" && (len(left) != 1 || !strings.Contains(left[0].Reason, test.left) || len(serve.Containers) != 0):
			t.Errorf("%q: left out %+v", test.row, left)
		case test.left == "" && len(serve.Containers) != 1:
			t.Errorf("%q: left out %+v", test.row, left)
		}
		found := has(p, "", Must, test.must)
		for _, c := range serve.Containers {
			found = found || has(p, c.Name, Must, test.must)
		}
		if !found {
			t.Errorf("%q: no note %q\n%s", test.row, test.must, p.Report())
		}
	}
}
