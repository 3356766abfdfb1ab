package schema_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

// TestParseCreate compares what the text of SHOW CREATE TABLE says with what the server's catalog does.
func TestParseCreate(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		tests := []struct{ flavor, ddl string }{
			{"", "(id INT PRIMARY KEY, a INT NOT NULL UNIQUE)"},
			{"", "(c1 VARCHAR(32), c2 VARCHAR(1024), c3 INT, c4 BIGINT UNSIGNED, c5 INT, PRIMARY KEY (c1)) ENGINE = INNODB"},
			{"", "(`a``b` INT(6) ZEROFILL, `,` DECIMAL(10,2) UNSIGNED NOT NULL DEFAULT '1.00' COMMENT 'a '', ) (\\\\', `PRIMARY KEY` DOUBLE(8,3), `)` FLOAT, KEY `(` (`a``b`), PRIMARY KEY (`,`))"},
			{"", "(id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, inv INT INVISIBLE DEFAULT 5, v INT AS (inv + 1) VIRTUAL, st INT AS (inv + 2) STORED," +
				" d DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), ts TIMESTAMP NULL, ti TIME(6), y YEAR, da DATE)"},
			{"", "(id INT PRIMARY KEY, c CHAR(10) CHARACTER SET latin1 COLLATE latin1_bin, u VARCHAR(10) CHARACTER SET utf8mb3," +
				" m VARCHAR(10) COLLATE utf8mb4_unicode_520_ci NOT NULL, b VARBINARY(9), f BINARY(4), t TEXT CHARACTER SET ucs2, lt LONGTEXT, mb MEDIUMBLOB," +
				" be ENUM('a)','b,''') CHARACTER SET binary, se SET('x','y') DEFAULT 'x,y', bi BIT(17), g GEOMETRY, gb CHAR(3) CHARACTER SET gbk) CHARACTER SET utf8mb4"},
			{"", "(k VARCHAR(20) PRIMARY KEY, v TEXT) CHARACTER SET latin1"},
			{"", "(k VARCHAR(20) PRIMARY KEY, v TEXT) CHARACTER SET utf8mb3"},
			{"", "(k VARCHAR(20) PRIMARY KEY, v TEXT CHARACTER SET latin1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT='ENGINE=MyISAM, (`'"},
			{"", "(id INT, s TEXT, v INT NOT NULL, KEY p (s(10)), UNIQUE KEY u (v), FULLTEXT KEY ft (s))"},
			{"", "(id INT)"},
			{"", "(f FLOAT PRIMARY KEY)"},
			{"", "(id INT PRIMARY KEY) ENGINE=MyISAM"},
			{"", "(id INT PRIMARY KEY, d TIMESTAMP NULL, w VARCHAR(20) AS (CONCAT(d, '')) VIRTUAL)"},
			{"", "(id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id), CONSTRAINT ch CHECK (p > 0 OR p IS NULL))"},
			{"", "(id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"},
			{schema.FlavorMySQL, "(a INT, b VARCHAR(50), c INT PRIMARY KEY, KEY hidden (c) INVISIBLE, KEY des (a DESC, b(3)), KEY fn ((a + 1), c), j JSON, v VECTOR(3))"},
			{schema.FlavorMariaDB, "(a INT, e BLOB NOT NULL, c INT PRIMARY KEY, KEY hidden (c) IGNORED, UNIQUE KEY hashed (e), u UUID, i INET6, j JSON)"},
			{schema.FlavorMariaDB, "(id INT PRIMARY KEY, a VARCHAR(100) COMPRESSED)"},
			{schema.FlavorMariaDB, "(id INT PRIMARY KEY) WITH SYSTEM VERSIONING"},
			{schema.FlavorMariaDB, "(id INT PRIMARY KEY, s DATE, e DATE, PERIOD FOR p (s, e))"},
		}
		s.exec("CREATE TABLE parent (id INT PRIMARY KEY)")
		for _, test := range tests {
			if test.flavor != "" && test.flavor != s.Flavor() {
				continue
			}
			s.exec("DROP TABLE IF EXISTS a")
			s.exec("CREATE TABLE a " + test.ddl)
			var text string
			if err := s.Query(t.Context(), "SHOW CREATE TABLE a", func(v [][]byte) error { text = string(v[1]); return nil }); err != nil {
				t.Fatal(err)
			}
			want := s.load("a")
			got, err := schema.ParseCreate(s.Flavor(), text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if got.Refusal == "" != (want.Refusal == "") {
				t.Errorf("%s\nrefusal %q, want %q", text, got.Refusal, want.Refusal)
			}
			got.Schema, got.Name, got.Refusal, want.Refusal = want.Schema, want.Name, "", ""
			for i := range want.Columns {
				c := &want.Columns[i]
				c.CollationID, c.Members = 0, nil
				if i < len(got.Columns) && !reflect.DeepEqual(got.Columns[i], *c) {
					t.Errorf("%s\ncolumn %+v\nwant   %+v", text, got.Columns[i], *c)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s\ngot  %+v\nwant %+v", text, got, want)
			}
		}
	})
}

func TestParseCreateErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "not closed"},
		{"CREATE TABLE a", "not closed"},
		{"CREATE TABLE a (", "not closed"},
		{"CREATE TABLE a (`id` int", "not closed"},
		{"CREATE TABLE a ()", "no columns"},
		{"CREATE TABLE a (`id` int, `e` date, PERIOD FOR `p` (`id`, `e`), PRIMARY KEY (`id`, `p` WITHOUT OVERLAPS))", "unknown column \"p\""},
		{"CREATE TABLE a (,)", "empty definition"},
		{"CREATE TABLE a (`id`)", "no type"},
		{"CREATE TABLE a (`id` 'x')", "no type"},
		{"CREATE TABLE a (KEY `k` (`id`))", "no columns"},
		{"CREATE TABLE a (`id` int, KEY `k` (`ix`))", "unknown column"},
		{"CREATE TABLE a (`id` int, KEY (`id`))", "cannot be read"},
		{"CREATE TABLE a (`id` int, KEY `k` (`id`(x)))", "prefix"},
		{"CREATE TABLE a (`id` int, KEY `k` ())", "no columns"},
		{"CREATE TABLE a (`id` int COMMENT 'x)", "quote is not closed"},
		{"CREATE TABLE a (`id` int /* )", "comment at byte"},
	} {
		if _, err := schema.ParseCreate(schema.FlavorMySQL, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}

func FuzzParseCreate(f *testing.F) {
	f.Add("CREATE TABLE `a` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `v` varchar(10) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'x',\n  PRIMARY KEY (`id`),\n  KEY `f` ((`id` + 1),`v`(3) DESC) USING HASH\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4")
	f.Add("CREATE TABLE a (`g` int GENERATED ALWAYS AS (`b` + 1) VIRTUAL /*!80023 INVISIBLE */, UNIQUE KEY `u` (`g`))")
	f.Add("CREATE TABLE a (`e` enum('a','b'')') COLLATE x, CONSTRAINT `c` FOREIGN KEY (`e`) REFERENCES `p` (`x`) ON DELETE SET NULL)")
	f.Fuzz(func(t *testing.T, text string) {
		def, err := schema.ParseCreate(schema.FlavorMariaDB, text)
		if err == nil && len(def.Columns) == 0 {
			t.Error("a table without columns")
		}
	})
}
