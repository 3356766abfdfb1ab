package schema_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// source is a server with a schema of its own.
type source struct {
	*sqltext.Conn
	t      *testing.T
	schema string
	cfg    *sqltext.Config
}

func onSources(t *testing.T, f func(t *testing.T, s source)) {
	for _, server := range testmysql.Servers(t) {
		t.Run(server.Flavor, func(t *testing.T) {
			cfg, err := sqltext.ParseDSN(server.DSN)
			if err != nil {
				t.Fatal(err)
			}
			s := source{t: t, schema: server.Schema(t), cfg: cfg}
			s.Conn = s.connect(cfg)
			s.exec("USE " + schema.QuoteName(s.schema))
			f(t, s)
		})
	}
}

func (s source) connect(cfg *sqltext.Config) *sqltext.Conn {
	s.t.Helper()
	c, err := sqltext.Dial(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func (s source) exec(sql string) {
	s.t.Helper()
	if err := s.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%.300s: %v", sql, err)
	}
}

func (s source) one(sql string) string {
	s.t.Helper()
	var got string
	if err := s.Query(s.t.Context(), sql, func(v [][]byte) error { got = string(v[0]); return nil }); err != nil {
		s.t.Fatalf("%.300s: %v", sql, err)
	}
	return got
}

func (s source) load(table string) *schema.Table {
	s.t.Helper()
	def, err := schema.Load(s.t.Context(), s, s.Flavor(), s.schema, table)
	if err != nil {
		s.t.Fatal(err)
	}
	return def
}

func (s source) mariadb() bool { return s.Flavor() == schema.FlavorMariaDB }

func TestLoadNames(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		for _, name := range []string{"a b-c", "select", "t.1", "表", "we`ird", "it's", `q"uo"te`, `back\slash`, "100%_", "größe", "x,y", "A*?"} {
			columns := []string{"id", "i d", "se`lect", "ü", "x.y", "键", "%s", "it's", `b\n`}
			var ddl []string
			for _, c := range columns {
				ddl = append(ddl, schema.QuoteName(c)+" INT")
			}
			ddl[0] += " PRIMARY KEY"
			index := "in`dex 表"
			s.exec("CREATE TABLE " + schema.QuoteName(name) + " (" + strings.Join(ddl, ", ") + ", KEY " + schema.QuoteName(index) + " (`ü`, `se``lect`))")
			def := s.load(name)
			if def.Schema != s.schema || def.Name != name || def.Refusal != "" || def.Key != 0 || def.Flavor != s.Flavor() || def.Engine != "InnoDB" {
				t.Errorf("%s: %+v", name, def)
			}
			var got []string
			for _, c := range def.Columns {
				got = append(got, c.Name)
			}
			if !slices.Equal(got, columns) {
				t.Errorf("%s: columns %q, want %q", name, got, columns)
			}
			if i := def.IndexByName(index); i != 1 || !slices.Equal(def.Indexes[i].Parts, []schema.Part{{Column: 3}, {Column: 2}}) {
				t.Errorf("%s: indexes %+v", name, def.Indexes)
			}
			if n, err := schema.EstimateRows(t.Context(), s, s.schema, name); err != nil || n > 1 {
				t.Errorf("%s: estimate %d, %v", name, n, err)
			}
		}
	})
}

func TestLoadNoTable(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE a (id INT PRIMARY KEY)")
		s.exec("CREATE VIEW v AS SELECT * FROM a")
		for _, name := range []string{"nosuch", "v", "", "A", "a ", "ä", "a\x00", "\xff", "😀", "a' OR '1'='1", "a`"} {
			def, err := schema.Load(t.Context(), s, s.Flavor(), s.schema, name)
			if !errors.Is(err, schema.ErrNoTable) || def != nil {
				t.Errorf("%q: %v, %v", name, def, err)
			}
		}
		for _, name := range []string{"nosuch", "", "information_schema\xff"} {
			if _, err := schema.Load(t.Context(), s, s.Flavor(), name, "a"); !errors.Is(err, schema.ErrNoTable) {
				t.Errorf("schema %q: %v", name, err)
			}
		}
		if _, err := schema.Load(t.Context(), s, s.Flavor(), "information_schema", "TABLES"); !errors.Is(err, schema.ErrNoTable) {
			t.Errorf("a system view: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := schema.Load(ctx, s, s.Flavor(), s.schema, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// TestLoadFoldedNames has a server that keeps names in lower case: the log has them so, too.
func TestLoadFoldedNames(t *testing.T) {
	server := testmysql.Private(t, testmysql.MariaDB, "--lower-case-table-names=1")
	cfg, err := sqltext.ParseDSN(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	s := source{t: t, schema: "folded", cfg: cfg}
	s.Conn = s.connect(cfg)
	s.exec("CREATE DATABASE Folded")
	s.exec("CREATE TABLE Folded.User (id INT PRIMARY KEY)")
	for _, names := range [][2]string{{"folded", "user"}, {"FOLDED", "User"}} {
		def, err := schema.Load(t.Context(), s, s.Flavor(), names[0], names[1])
		if err != nil || def.FullName() != "folded.user" {
			t.Errorf("%v: %+v, %v", names, def, err)
		}
	}
	if _, err := schema.Load(t.Context(), s, s.Flavor(), "folded", "userr"); !errors.Is(err, schema.ErrNoTable) {
		t.Errorf("another name: %v", err)
	}
}

func TestLoadIndexes(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		ddl := "CREATE TABLE a (a INT, b VARCHAR(50) NOT NULL, c INT NOT NULL, d TEXT, e BLOB, p POINT NOT NULL," +
			" KEY late (a), UNIQUE KEY u2 (a, b), KEY pre (b(10), d(5), e(7)), UNIQUE KEY u1 (c, b), PRIMARY KEY (c, a), FULLTEXT KEY ft (d), SPATIAL KEY sp (p)"
		if s.mariadb() {
			ddl += ", KEY hidden (c) IGNORED, UNIQUE KEY hashed (e))"
		} else {
			ddl += ", KEY hidden (c) INVISIBLE, KEY des (a DESC, b), KEY fn ((a + 1), c))"
		}
		s.exec(ddl)
		def := s.load("a")
		var order []string
		var prefix string
		for _, index := range def.Indexes {
			order = append(order, index.Name)
			if index.Name == "pre" {
				prefix = fmt.Sprint(index.Parts)
			}
			unique := strings.HasPrefix(index.Name, "u") || index.Name == "PRIMARY" || index.Name == "hashed"
			tree := index.Name != "ft" && index.Name != "sp" && index.Name != "hashed"
			if index.Unique != unique || index.BTree != tree || index.Hidden != (index.Name == "hidden") {
				t.Errorf("%+v", index)
			}
		}
		var want []string
		if err := s.Query(t.Context(), "SHOW INDEX FROM a", func(v [][]byte) error {
			if string(v[3]) == "1" {
				want = append(want, string(v[2]))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(order, want) || order[0] != "PRIMARY" || len(order) < 8 {
			t.Errorf("order %q, want %q", order, want)
		}
		if prefix != "[{1 10 false} {3 5 false} {4 7 false}]" {
			t.Errorf("prefix index %s", prefix)
		}
		if !s.mariadb() {
			if parts := def.Indexes[def.IndexByName("des")].Parts; !parts[0].Desc || parts[1].Desc {
				t.Errorf("descending index %+v", parts)
			}
			if parts := def.Indexes[def.IndexByName("fn")].Parts; parts[0].Column != -1 || parts[1].Column != 2 {
				t.Errorf("functional index %+v", parts)
			}
		}
		if def.Key != 0 {
			t.Errorf("key %d", def.Key)
		}
	})
}

func TestLoadKeyAndRefusals(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE parent (id INT PRIMARY KEY, k INT, KEY (k))")
		hidden := "its foreign key `fk``1` has ON DELETE CASCADE, which the log does not show"
		if !s.mariadb() {
			if s.one("SELECT VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME = 'innodb_native_foreign_keys'") == "OFF" {
				hidden = ""
			}
		}
		tests := []struct {
			flavor, ddl string
			key         string // of the index that tells rows apart
			refusal     string // what the text must hold; empty: no refusal
		}{
			{"", "(id INT PRIMARY KEY, a INT NOT NULL UNIQUE)", "PRIMARY", ""},
			{"", "(id INT, a INT NOT NULL, UNIQUE KEY n (id), UNIQUE KEY u (a))", "u", ""},
			{"", "(id INT, a INT NOT NULL, UNIQUE KEY n (a, id))", "", "neither a primary key"},
			{"", "(id INT)", "", "neither a primary key"},
			{"", "(id INT NOT NULL, KEY (id))", "", "neither a primary key"},
			{"", "(k TEXT, PRIMARY KEY (k(10)))", "", "only the first characters"},
			{"", "(k TEXT, v INT NOT NULL, PRIMARY KEY (k(10)), UNIQUE KEY u (v))", "u", ""},
			{"", "(f FLOAT PRIMARY KEY)", "PRIMARY", "is a FLOAT"},
			{"", "(d DOUBLE PRIMARY KEY)", "PRIMARY", ""},
			{"", "(id INT PRIMARY KEY) ENGINE=MyISAM", "PRIMARY", "engine is MyISAM"},
			{"", "(id INT PRIMARY KEY) ENGINE=MEMORY", "", "engine is MEMORY"},
			{"", "(id INT PRIMARY KEY, p INT, CONSTRAINT `fk``1` FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)", "PRIMARY", hidden},
			{"", "(id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE RESTRICT ON UPDATE NO ACTION)", "PRIMARY", ""},
			{"", "(id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3", "PRIMARY", ""},
			{schema.FlavorMariaDB, "(id INT PRIMARY KEY, a VARCHAR(100) COMPRESSED)", "PRIMARY", `column "a" has the type varchar(100) /*M!100301 COMPRESSED*/`},
			{schema.FlavorMariaDB, "(id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "PRIMARY", "system-versioned"},
			{schema.FlavorMariaDB, "(b BLOB NOT NULL, UNIQUE KEY h (b))", "", "neither a primary key"},
			{schema.FlavorMariaDB, "(id INT, s DATE, e DATE, PERIOD FOR p (s, e), PRIMARY KEY (id, p WITHOUT OVERLAPS))", "PRIMARY", ""},
			{schema.FlavorMariaDB, "(id INT PRIMARY KEY, u UUID, i INET6, j JSON)", "PRIMARY", ""},
			{schema.FlavorMySQL, "(id INT PRIMARY KEY, j JSON, v VECTOR(3))", "PRIMARY", ""},
			{schema.FlavorMySQL, "(id INT INVISIBLE PRIMARY KEY, a INT)", "PRIMARY", ""},
		}
		for _, test := range tests {
			if test.flavor != "" && test.flavor != s.Flavor() {
				continue
			}
			s.exec("CREATE TABLE a " + test.ddl)
			def := s.load("a")
			key := ""
			if def.Key >= 0 {
				key = def.Indexes[def.Key].Name
			}
			if key != test.key || (def.Refusal == "") != (test.refusal == "") ||
				!strings.Contains(def.Refusal, test.refusal) || strings.Contains(def.Refusal, "neither") != strings.Contains(test.refusal, "neither") {
				t.Errorf("%s: key %q, refusal %q; want %q, %q", test.ddl, key, def.Refusal, test.key, test.refusal)
			}
			s.exec("DROP TABLE a")
		}
	})
}

func TestLoadGeneratedKey(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		if s.mariadb() {
			t.Skip("MariaDB makes no keys")
		}
		s.exec("SET SESSION sql_generate_invisible_primary_key = ON")
		s.exec("CREATE TABLE a (v INT)")
		s.exec("CREATE TABLE b (v INT)")
		s.exec("ALTER TABLE b ADD COLUMN u INT NOT NULL UNIQUE")
		def := s.load("a")
		mend := "ALTER TABLE " + schema.QuoteName(s.schema) + ".`a` ALTER COLUMN my_row_id SET VISIBLE"
		if def.Key != -1 || !strings.Contains(def.Refusal, mend) {
			t.Fatalf("key %d, refusal %q", def.Key, def.Refusal)
		}
		s.exec(mend)
		if def := s.load("a"); def.Key != 0 || def.Refusal != "" {
			t.Errorf("after the advice: key %d, refusal %q", def.Key, def.Refusal)
		}
		if def := s.load("b"); def.Key < 1 || def.Refusal != "" {
			t.Errorf("with a unique index: key %d, refusal %q", def.Key, def.Refusal)
		}
	})
}

// TestLoadSystemTable: the server changes its statistics without writing that to the log.
func TestLoadSystemTable(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		def, err := schema.Load(t.Context(), s, s.Flavor(), "mysql", "innodb_table_stats")
		if err != nil || !strings.Contains(def.Refusal, "system table") {
			t.Fatalf("refusal %q, error %v", def.Refusal, err)
		}
	})
}

func TestLoadSequence(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		if !s.mariadb() {
			t.Skip("MySQL has no sequences")
		}
		s.exec("CREATE SEQUENCE q")
		if def := s.load("q"); !strings.Contains(def.Refusal, "sequence") {
			t.Errorf("refusal %q", def.Refusal)
		}
	})
}

// TestLoadWithSelectRight: the cascades must be seen by a user with no right but SELECT, to whom MariaDB's catalog shows
// no foreign keys; and labels, which the catalog may spoil, must be right.
func TestLoadWithSelectRight(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE parent (id INT PRIMARY KEY)")
		s.exec("CREATE TABLE child (id INT PRIMARY KEY, p INT, e ENUM('😀','?','é') CHARACTER SET utf8mb4, w SET('é','b','c','d','e','f','g','h','i','j') CHARACTER SET ucs2," +
			" FOREIGN KEY (p) REFERENCES parent (id) ON UPDATE CASCADE)")
		user := "'" + s.schema[max(0, len(s.schema)-30):] + "'@'%'"
		s.exec("CREATE USER " + user + " IDENTIFIED BY 'x'")
		t.Cleanup(func() {
			// The test's context is over by now.
			if err := s.Exec(context.Background(), "DROP USER "+user); err != nil {
				t.Error(err)
			}
		})
		s.exec("GRANT SELECT ON " + schema.QuoteName(s.schema) + ".* TO " + user)
		cfg := *s.cfg
		cfg.User, cfg.Password = s.schema[max(0, len(s.schema)-30):], "x"
		limited := s.connect(&cfg)
		root := s.load("child")
		def, err := schema.Load(t.Context(), limited, s.Flavor(), s.schema, "child")
		if err != nil {
			t.Fatal(err)
		}
		if def.Refusal != root.Refusal || s.mariadb() && !strings.Contains(def.Refusal, "ON UPDATE CASCADE") {
			t.Errorf("refusal %q, with all rights %q", def.Refusal, root.Refusal)
		}
		if got := fmt.Sprintf("%q", def.Columns[2].Members); got != `["😀" "?" "é"]` {
			t.Errorf("labels %s", got)
		}
		if m := def.Columns[3].Members; len(m) != 10 || string(m[0]) != "\x00\xe9" || string(m[9]) != "\x00j" {
			t.Errorf("labels %q", m)
		}
		names, err := schema.List(t.Context(), limited, mustPatterns(t, schema.QuoteName(s.schema)+".*"))
		if err != nil || len(names) != 2 {
			t.Errorf("list %v, %v", names, err)
		}
		if n, err := schema.EstimateRows(t.Context(), limited, s.schema, "child"); err != nil || n > 1 {
			t.Errorf("estimate %d, %v", n, err)
		}
	})
}

func mustPatterns(t *testing.T, text string) schema.Patterns {
	t.Helper()
	p, err := schema.ParsePatterns(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestList(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		for _, name := range []string{"b1", "a2", "a1", "A1", "t.1"} {
			s.exec("CREATE TABLE " + schema.QuoteName(name) + " (id INT PRIMARY KEY)")
		}
		s.exec("CREATE VIEW av AS SELECT * FROM a1")
		q := schema.QuoteName(s.schema)
		for pattern, want := range map[string]string{
			q + ".*":               "A1 a1 a2 b1 t.1",
			q + ".a?":              "a1 a2",
			q + ".b1," + q + ".b*": "b1",
			q + ".`t.1`":           "t.1",
			q + ".nosuch":          "",
		} {
			names, err := schema.List(t.Context(), s, mustPatterns(t, pattern))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range names {
				if n.Schema != s.schema {
					t.Errorf("%s: %v", pattern, n)
				}
				got = append(got, n.Table)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %q", pattern, got, want)
			}
		}
		all, err := schema.List(t.Context(), s, mustPatterns(t, "*.*"))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all, func(n schema.Name) bool { return n.Schema == "mysql" || n.Schema == "sys" }) {
			t.Errorf("the server's own schemas are listed: %v", all)
		}
	})
}

func TestLoadColumns(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE a (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, inv INT INVISIBLE DEFAULT 5, v INT AS (inv + 1) VIRTUAL, st INT AS (inv + 2) STORED," +
			" d DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, c CHAR(10) CHARACTER SET latin1 COLLATE latin1_bin, u VARCHAR(10) CHARACTER SET utf8mb3," +
			" m VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci NOT NULL, b VARBINARY(9), t TEXT CHARACTER SET ucs2, be ENUM('a') CHARACTER SET binary)")
		def := s.load("a")
		c := func(name string) schema.Column { return def.Columns[def.ColumnIndex(name)] }
		check := func(what string, ok bool) {
			t.Helper()
			if !ok {
				t.Errorf("%s: %+v", what, def.Columns)
			}
		}
		check("auto increment", c("id").AutoIncrement && c("id").Unsigned && !c("id").Nullable && !c("d").AutoIncrement)
		check("invisible", c("inv").Invisible && !c("id").Invisible && c("inv").Nullable)
		check("generated", c("v").Generated && c("st").Generated && !c("d").Generated && !c("inv").Generated)
		check("latin1", c("c").Charset == "latin1" && c("c").Collation == "latin1_bin" && c("c").CollationID == 47 && c("c").MaxBytes == 10)
		check("utf8mb3", c("u").Charset == "utf8mb3" && c("u").Collation == "utf8mb3_general_ci" && c("u").CollationID == 33 && c("u").MaxBytes == 30)
		check("utf8mb4", c("m").Charset == "utf8mb4" && c("m").CollationID == 246 && c("m").MaxBytes == 40 && c("m").Length == 10)
		check("binary", c("b").Charset == "" && c("b").Collation == "" && c("b").MaxBytes == 9)
		check("ucs2", c("t").Charset == "ucs2" && c("t").CollationID == 35)
		check("binary enum", c("be").Charset == "binary" && c("be").CollationID == 63 && len(c("be").Members) == 1)
	})
}

func TestEstimateRows(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
		s.exec("INSERT INTO a (v) VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
		for range 7 {
			s.exec("INSERT INTO a (v) SELECT v FROM a")
		}
		s.exec("ANALYZE TABLE a")
		n, err := schema.EstimateRows(t.Context(), s, s.schema, "a")
		if err != nil || n < 500 || n > 2000 {
			t.Errorf("estimate %d for 1024 rows, %v", n, err)
		}
		if _, err := schema.EstimateRows(t.Context(), s, s.schema, "nosuch"); err == nil {
			t.Error("an estimate for no table")
		}
	})
}
