package adopt

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

// site is a server with what a site of the plugin has on it.
type site struct {
	testmysql.Server
	conn *sqltext.Conn
}

// newSite starts a server of its own: the names of the plugin's tables are fixed.
func newSite(t *testing.T, flavor string) site {
	t.Helper()
	s := site{Server: testmysql.Private(t, flavor)}
	text, err := os.ReadFile("../../testdata/migration/plugin-site.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB(t).ExecContext(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	cfg, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	if s.conn, err = sqltext.Dial(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.conn.Close)
	return s
}

func (s site) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.DB(t).ExecContext(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// inventory is what ReadServer finds.
func (s site) inventory(t *testing.T) *Inventory {
	t.Helper()
	inv, err := ReadServer(t.Context(), s.conn, "a server", s.Flavor, s.conn.ServerVersion())
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// dump runs the server's own tool.
func (s site) dump(t *testing.T, args ...string) []byte {
	t.Helper()
	socket, err := os.ReadFile(filepath.Join(s.Dir, "socket-path"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.Dir, "bin", "mysqldump"), append([]string{"-S", strings.TrimSpace(string(socket)), "-uroot"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("mysqldump %q: %v\n%s", args, err, &stderr)
	}
	return out
}

var testOptions = Options{Account: Account{"cache", "127.0.0.1"}, Address: "tcp(127.0.0.1:3306)/"}

func mustPlan(t *testing.T, inv *Inventory, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(inv, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// load has the file read as serve --config reads it.
func load(t *testing.T, file string) *config.Serve {
	t.Helper()
	path := filepath.Join(t.TempDir(), "binlogcache.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, err := config.Parse([]string{"serve", "--config", path}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v in\n%s", err, file)
	}
	return cmd.(*config.Serve)
}

// has tells that there is a note about a container with all the texts.
func has(p *Plan, container string, kind Kind, texts ...string) bool {
	for _, n := range p.Notes() {
		found := n.Container == container && n.Kind == kind
		for _, text := range texts {
			found = found && strings.Contains(n.Text, text)
		}
		if found {
			return true
		}
	}
	return false
}

// TestServer adopts the manual's containers and odd ones from servers, and from dumps that their own tools make.
func TestServer(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, flavor)
			p := mustPlan(t, s.inventory(t), testOptions)
			if len(p.Left()) > 0 {
				t.Errorf("left out: %+v", p.Left())
			}
			serve := load(t, p.Config())
			if got := strings.Join(serve.Tables, " "); got != "test.demo_test test.multicol test.city" {
				t.Errorf("tables %q", got)
			}
			if o, pol := serve.Options, serve.Policies; *o != (config.ContainerOptions{Separator: "|", TableMapDelimiter: "."}) || pol.Get != "innodb_only" || pol.Flush != "innodb_only" {
				t.Errorf("options %+v, policies %+v", o, pol)
			}
			want := config.Container{
				Name: "default", Schema: "test", Table: "city", KeyColumns: []string{"city_id"}, ValueColumns: []string{"name", "state", "country"},
				FlagsColumn: "flags", CASColumn: "cas", ExpiryColumn: "expiry", UniqueIndex: "PRIMARY",
			}
			if len(serve.Containers) != 3 {
				t.Fatalf("containers %+v", serve.Containers)
			}
			got := serve.Containers[2]
			if got.Place = ""; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			for _, n := range []struct {
				container string
				kind      Kind
				text      string
			}{
				{"", Must, "variables are not known"},
				{"", Strict, "flush_all"},
				{"aaa", Differs, `flags column "c3" is int`},
				{"aaa", Strict, `expiry column "c5"`},
				{"bbb", Strict, `needs 3 fields, parted by "|"`},
				{"default", Strict, "founded: outside the mapping"},
			} {
				if !has(p, n.container, n.kind, n.text) {
					t.Errorf("no note of %q %s: %s", n.container, n.kind, n.text)
				}
			}
			t.Run("dumps", func(t *testing.T) { s.testDumps(t) })
			t.Run("odd", func(t *testing.T) { s.testOdd(t) })
		})
	}
}

// testDumps: every form that the server's own tool gives a dump leads to the same configuration.
func (s site) testDumps(t *testing.T) {
	s.exec(t, "CREATE TRIGGER test.tr BEFORE INSERT ON test.city FOR EACH ROW BEGIN SET NEW.founded = 1; SET NEW.name = CONCAT(NEW.name, ';'); END")
	s.exec(t, "CREATE TABLE test.blobs (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO test.blobs VALUES (1, CONCAT(REPEAT(0x00270a5c, 50000), 'INSERT INTO `containers` VALUES (1);'))")
	defer s.exec(t, "DROP TRIGGER test.tr; DROP TABLE test.blobs")
	inv := s.inventory(t)
	inv.Triggers, inv.Bytes = nil, nil // what a dump does not tell
	want := mustPlan(t, inv, testOptions)
	quiet := []string{}
	if s.Flavor == testmysql.MySQL {
		quiet = []string{"--set-gtid-purged=OFF"}
	}
	config := func(t *testing.T, dump []byte) string {
		t.Helper()
		inv, err := ReadDump(bytes.NewReader(dump), "a dump")
		if err != nil {
			t.Fatal(err)
		}
		inv.From = want.inv.From
		return mustPlan(t, inv, testOptions).Config()
	}
	for _, args := range [][]string{
		{"--databases", "innodb_memcache", "test"},
		{"--databases", "test", "innodb_memcache", "--hex-blob", "--complete-insert", "--skip-extended-insert"},
		{"--all-databases", "--single-transaction", "--routines", "--events"},
		{"--databases", "innodb_memcache", "test", "--skip-comments", "--skip-add-drop-table", "--skip-lock-tables", "--skip-quote-names"},
		{"--databases", "innodb_memcache", "test", "--replace", "--default-character-set=latin1"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			dump := s.dump(t, append(quiet, args...)...)
			if got := config(t, dump); got != want.Config() {
				t.Errorf("got\n%s\nwant\n%s", got, want.Config())
			}
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			if _, err := w.Write(dump); err != nil || w.Close() != nil {
				t.Fatal(err)
			}
			if got := config(t, packed.Bytes()); got != want.Config() {
				t.Error("packed it gives something else")
			}
		})
	}
	// Two dumps of one schema each, which say in a comment only which that is, or not at all.
	for _, arg := range []string{"--comments", "--compact"} {
		both := append(s.dump(t, append(quiet, arg, "innodb_memcache")...), s.dump(t, append(quiet, arg, "--no-data", "test")...)...)
		if got := config(t, both); got != want.Config() {
			t.Errorf("%s: got\n%s\nwant\n%s", arg, got, want.Config())
		}
	}
	// MariaDB's tool then leaves out the engine and the character set.
	inv, err := ReadDump(bytes.NewReader(s.dump(t, append(quiet, "--databases", "innodb_memcache", "test", "--skip-opt")...)), "a dump")
	if err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, inv, testOptions)
	if n := len(load(t, p.Config()).Containers); n != 3 || has(p, "aaa", Must, "cannot be ordered") || s.Flavor == testmysql.MariaDB && !has(p, "aaa", Must, "leaves out the character set") {
		t.Errorf("%d containers\n%s", n, p.Report())
	}
	// Without the tables' definitions the containers are the same, and what can't be told is said.
	inv, err = ReadDump(bytes.NewReader(s.dump(t, append(quiet, "innodb_memcache")...)), "a dump")
	if err != nil {
		t.Fatal(err)
	}
	if inv.Flavor != s.Flavor || !strings.HasPrefix(inv.Version, "1") && !strings.HasPrefix(inv.Version, "9") {
		t.Errorf("the dump is of %s %s", inv.Flavor, inv.Version)
	}
	p = mustPlan(t, inv, testOptions)
	if !has(p, "bbb", Must, "definition of test.multicol is not known") || len(load(t, p.Config()).Containers) != 3 {
		t.Errorf("without definitions:\n%s", p.Config())
	}
	if err := inv.ReadDefinitions(t.Context(), s.conn, s.Flavor); err != nil {
		t.Fatal(err)
	}
	if p = mustPlan(t, inv, testOptions); !has(p, "default", Differs, "its triggers (1) fire") {
		t.Errorf("with the server's definitions: %+v", p.Notes())
	}
}

// testOdd: what the plugin passed over, could not use or did in its own way.
func (s site) testOdd(t *testing.T) {
	s.exec(t, `CREATE TABLE test.odd (id BIGINT NOT NULL, k VARCHAR(40) CHARACTER SET latin1 NOT NULL, c CHAR(10), d DATETIME, n TINYINT, C5 INT, big BLOB, PRIMARY KEY (id), UNIQUE KEY u (k), KEY plain (c));
		CREATE TABLE test.keyless (k VARCHAR(20), v TEXT, UNIQUE KEY u (k));
		CREATE TABLE test.`+"`od d`"+` (k INT PRIMARY KEY, v TEXT);
		INSERT INTO innodb_memcache.containers VALUES
		('0null', 'test', 'odd', 'k', 'c', '0', NULL, '0', 'u'),
		('case', 'test', 'odd', 'k', 'c', 'flags', '0', 'c5', 'u'),
		('date', 'test', 'odd', 'id', 'd', '0', '', '0', 'PRIMARY'),
		('gone', 'test', 'gone', 'k', 'v', '0', '0', '0', 'PRIMARY'),
		('keyless', 'test', 'keyless', 'k', 'v', '0', '0', '0', 'u'),
		('noindex', 'test', 'odd', 'k', 'c', '0', '0', '0', 'PRIMARY'),
		('notunique', 'test', 'odd', 'c', 'c', '0', '0', '0', 'plain'),
		('smallcas', 'test', 'odd', 'k', 'big', 'n', 'n', '0', 'u'),
		('space', 'test', 'od d', 'k', 'v', '0', '0', '0', 'PRIMARY'),
		('with.dot', 'test', 'odd', 'k', 'big', '0', '0', '0', 'u'),
		('with_dot', 'test', 'odd', 'k', 'big', '0', '0', '0', 'u')`)
	p := mustPlan(t, s.inventory(t), testOptions)
	left := map[string]string{}
	for _, l := range p.Left() {
		if l.Broken != (l.Name != "gone") {
			t.Errorf("%s: broken %v", l.Name, l.Broken)
		}
		left[l.Name] = l.Reason
	}
	for name, text := range map[string]string{
		"0null": "cas_column is NULL", "gone": "no base table", "noindex": `index "PRIMARY" is not over column "k" alone`, "notunique": "is not unique",
	} {
		if !strings.Contains(left[name], text) {
			t.Errorf("%s: left out because of %q, want %q", name, left[name], text)
		}
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("left out, too: %q", left)
	}
	serve := load(t, p.Config())
	names := map[string]config.Container{}
	for _, c := range serve.Containers {
		names[c.Name] = c
	}
	if len(names) != 10 || names["with_dot_"].Table != "odd" {
		t.Errorf("containers %v", names)
	}
	if c := names["case"]; c.FlagsColumn != "" || c.CASColumn != "" || c.ExpiryColumn != "" {
		t.Errorf("columns that are none are used: %+v", c)
	}
	if tables := strings.Join(serve.Tables, " "); !strings.Contains(tables, "test.`od d`") || strings.Contains(tables, "keyless") {
		t.Errorf("tables %q", tables)
	}
	for _, n := range []struct {
		container string
		kind      Kind
		text      string
	}{
		{"case", Differs, `expire_time_column is "c5", which is no column of test.odd: the plugin used none, and so does the file. If "C5" was meant`},
		{"case", Differs, `flags is "flags", which is no column`},
		{"case", Strict, `value column "c" is char(10)`},
		{"case", Strict, "longer than the 40 characters"},
		{"date", Differs, `value column "d" is datetime`},
		{"date", Must, "it can be read only: value column"},
		{"date", Strict, `no whole number in the range of column "id"`},
		{"date", Strict, "the row's version as its cas"},
		{"keyless", Must, "cannot be kept in memory"},
		{"smallcas", Must, "it can be read only"},
		{"with_dot_", Differs, `it was called "with.dot"`},
	} {
		if !has(p, n.container, n.kind, n.text) {
			t.Errorf("no note of %q %s: %s\n%s", n.container, n.kind, n.text, p.Report())
		}
	}
	// The daemon's own rules take what was planned.
	set := mcserver.Settings{}
	for _, c := range serve.Containers {
		set.Containers = append(set.Containers, mcserver.Container{
			Name: c.Name, Schema: c.Schema, Table: c.Table, KeyColumns: c.KeyColumns, ValueColumns: c.ValueColumns,
			FlagsColumn: c.FlagsColumn, CASColumn: c.CASColumn, ExpiryColumn: c.ExpiryColumn, UniqueIndex: c.UniqueIndex,
		})
	}
	if err := set.Validate(); err != nil {
		t.Error(err)
	}
	// Without policies the plugin used none.
	s.exec(t, "DELETE FROM innodb_memcache.cache_policies")
	p = mustPlan(t, s.inventory(t), testOptions)
	if !has(p, "", Must, "the plugin did not use any container: table innodb_memcache.cache_policies is missing or empty") || len(load(t, p.Config()).Containers) != 0 {
		t.Errorf("without policies:\n%s", p.Config())
	}
}

// TestNothing: a server without the plugins has nothing to adopt.
func TestNothing(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		cfg, err := sqltext.ParseDSN(s.DSN)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := sqltext.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		inv, err := ReadServer(t.Context(), conn, "a server", s.Flavor, conn.ServerVersion())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewPlan(inv, testOptions); err == nil || !strings.Contains(err.Error(), "a server: nothing to adopt") {
			t.Errorf("%s: %v", s.Flavor, err)
		}
	}
}

var _ schema.Querier = (*sqltext.Conn)(nil)
