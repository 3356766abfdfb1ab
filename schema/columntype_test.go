package schema

import (
	"bytes"
	"strings"
	"testing"
)

func TestColumnTypes(t *testing.T) {
	tests := []struct {
		flavor, text string
		want         Column
	}{
		{FlavorMySQL, "int", Column{Kind: KindInt, Bytes: 4, Scale: -1}},
		{FlavorMariaDB, "int(11)", Column{Kind: KindInt, Bytes: 4, Scale: -1}},
		{FlavorMySQL, "bigint(25) unsigned zerofill", Column{Kind: KindInt, Bytes: 8, Unsigned: true, Zerofill: 25, Scale: -1}},
		{FlavorMySQL, "tinyint(1)", Column{Kind: KindInt, Bytes: 1, Scale: -1}},
		{FlavorMySQL, "decimal(10,2) unsigned zerofill", Column{Kind: KindDecimal, Precision: 10, Scale: 2, Unsigned: true, Zerofill: 11}},
		{FlavorMySQL, "decimal(12,0) unsigned zerofill", Column{Kind: KindDecimal, Precision: 12, Unsigned: true, Zerofill: 12}},
		{FlavorMySQL, "float", Column{Kind: KindFloat, Bytes: 4, Scale: -1}},
		{FlavorMySQL, "float unsigned zerofill", Column{Kind: KindFloat, Bytes: 4, Unsigned: true, Zerofill: 12, Scale: -1}},
		{FlavorMySQL, "double(12,4)", Column{Kind: KindDouble, Bytes: 8, Precision: 12, Scale: 4}},
		{FlavorMySQL, "year", Column{Kind: KindYear, Length: 4, Scale: -1}},
		{FlavorMariaDB, "year(2)", Column{Kind: KindYear, Length: 2, Scale: -1}},
		{FlavorMySQL, "datetime(6)", Column{Kind: KindDatetime, Fraction: 6, Scale: -1}},
		{FlavorMariaDB, "datetime /* mariadb-5.3 */", Column{Kind: KindDatetime, Scale: -1}},
		{FlavorMariaDB, "time(3) /* mariadb-5.3 */", Column{Fraction: 3, Scale: -1}},
		{FlavorMariaDB, "varchar(10) /*M!100301 COMPRESSED*/", Column{Scale: -1}},
		{FlavorMariaDB, "blob /*M!100301 COMPRESSED*/", Column{Scale: -1}},
		{FlavorMySQL, "char(0)", Column{Kind: KindChar, Scale: -1}},
		{FlavorMySQL, "bit(10)", Column{Kind: KindBit, Length: 10, Scale: -1}},
		{FlavorMySQL, "vector(4)", Column{Kind: KindVector, Length: 16, Bytes: 4, Scale: -1}},
		{FlavorMariaDB, "vector(4)", Column{Kind: KindVector, Length: 16, Scale: -1}},
		{FlavorMySQL, "json", Column{Kind: KindJSON, Bytes: 4, Scale: -1}},
		{FlavorMySQL, "geomcollection", Column{Kind: KindGeometry, Bytes: 4, Scale: -1}},
		{FlavorMariaDB, "uuid", Column{Kind: KindUUID, Scale: -1}},
		{FlavorMySQL, "uuid", Column{Scale: -1}},
		{FlavorMariaDB, "uuid /* old */", Column{Scale: -1}},
		{FlavorMySQL, "enum('a(b','c)d')", Column{Kind: KindEnum, Scale: -1}},
		{FlavorMySQL, "set('/*','x')", Column{Kind: KindSet, Scale: -1}},
		{FlavorMySQL, "somethingnew(3)", Column{Scale: -1}},
		{FlavorMySQL, "decimal(x)", Column{Scale: -1}},
		{FlavorMySQL, "int(", Column{Kind: KindInt, Bytes: 4, Scale: -1}},
		{FlavorMySQL, "", Column{Scale: -1}},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			var c Column
			c.setType(test.text, test.flavor)
			test.want.TypeText = test.text
			if c.Kind != test.want.Kind || c.Kind != KindUnsupported && !sameColumn(&c, &test.want) {
				t.Errorf("got %+v, want %+v", c, test.want)
			}
		})
	}
}

func sameColumn(a, b *Column) bool {
	return a.TypeText == b.TypeText && a.Bytes == b.Bytes && a.Length == b.Length && a.Zerofill == b.Zerofill && a.Precision == b.Precision &&
		a.Scale == b.Scale && a.Fraction == b.Fraction && a.Unsigned == b.Unsigned
}

func TestLabelTexts(t *testing.T) {
	labels, err := labelTexts(`enum('a','b,c','d''e','','x\\y','n\nl','z\0','(',x'ff00')`)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for _, l := range labels {
		got = append(got, l.text)
	}
	want := "a|b,c|d'e||x\\y|n\nl|z\x00|(|\xff\x00"
	if string(bytes.Join(got, []byte("|"))) != want || !labels[8].raw || labels[0].raw {
		t.Errorf("got %q, want %q", bytes.Join(got, []byte("|")), want)
	}
	for _, broken := range []string{"enum('a", "enum('a'x)", "enum(a)", "enum(x'f')", "enum('a'", "set(x)"} {
		if got, err := labelTexts(broken); err == nil && len(got) > 0 {
			t.Errorf("%s: %v", broken, got)
		}
	}
}

func TestForeignKeys(t *testing.T) {
	keys, err := foreignKeys("CREATE TABLE `t``(` (\n  `id` int NOT NULL COMMENT ') FOREIGN KEY (a) REFERENCES x ON DELETE CASCADE, it''s \\' so',\n" +
		"  `FOREIGN` int DEFAULT NULL /*!80023 INVISIBLE */,\n  `on\n  CONSTRAINT ``x`` FOREIGN KEY` int,\n" +
		"  `g` int GENERATED ALWAYS AS (concat(_utf8mb4'FOREIGN KEY (',`id`)) VIRTUAL,\n" +
		"  CONSTRAINT `f``1` FOREIGN KEY (`a`,`b`) REFERENCES `p` (`x`,`y`) ON DELETE CASCADE ON UPDATE SET NULL,\n" +
		"  CONSTRAINT `f2` FOREIGN KEY (`a`) REFERENCES `s`.`ON` (`CASCADE`),\n" +
		"  CONSTRAINT f3 FOREIGN KEY (a) REFERENCES p (x) ON UPDATE RESTRICT ON DELETE set default,\n" +
		"  CHECK (`a` > 0)\n) ENGINE=InnoDB COMMENT='FOREIGN KEY (x) REFERENCES y ON DELETE CASCADE'")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		got = append(got, k.name+": "+strings.Join(k.actions, ", "))
	}
	want := "f`1: ON DELETE CASCADE, ON UPDATE SET NULL|f2: |f3: ON DELETE SET DEFAULT"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	for _, broken := range []string{"", "CREATE TABLE t (id int", "CREATE TABLE t (`id int)", "CREATE TABLE t (id int /* x )"} {
		if keys, err := foreignKeys(broken); err == nil {
			t.Errorf("%q: %v", broken, keys)
		}
	}
}

func FuzzCatalogTexts(f *testing.F) {
	f.Add("enum('a','b,c','d''e',x'ff')")
	f.Add("CREATE TABLE `t` (`a` int /*!80023 INVISIBLE */, CONSTRAINT `x` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE)")
	f.Fuzz(func(t *testing.T, text string) {
		var c Column
		c.setType(text, FlavorMySQL)
		c.setType(text, FlavorMariaDB)
		if labels, err := labelTexts(text); err == nil && len(labels) > len(text) {
			t.Error("more labels than bytes")
		}
		if keys, err := foreignKeys(text); err == nil && len(keys) > len(text) {
			t.Error("more keys than bytes")
		}
	})
}

func TestLiterals(t *testing.T) {
	column := func(k Kind, charset string) *Column { return &Column{Kind: k, Charset: charset} }
	tests := []struct {
		c    *Column
		v    string
		want string
	}{
		{column(KindInt, ""), "-5", "-5"},
		{column(KindInt, ""), "00042", "00042"},
		{column(KindInt, ""), "5 OR 1=1", "_latin1 x'35204f5220313d31'"},
		{column(KindInt, ""), "", "_latin1 x''"},
		{column(KindDouble, ""), "-1.5e-300", "-1.5e-300"},
		{column(KindDouble, ""), "1e", "_latin1 x'3165'"},
		{column(KindDecimal, ""), ".5", ".5"},
		{column(KindDecimal, ""), "--5", "_latin1 x'2d2d35'"},
		{column(KindBit, ""), "\x01\x02", "258"},
		{column(KindBit, ""), "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"},
		{column(KindBit, ""), "\x01\xff\xff\xff\xff\xff\xff\xff\xff", "x'01ffffffffffffffff'"},
		{column(KindDatetime, ""), "2020-01-02 03:04:05.6", "'2020-01-02 03:04:05.6'"},
		{column(KindDatetime, ""), "2020'", "_latin1 x'3230323027'"},
		{column(KindInet6, ""), "::ffff:1.2.3.4", "'::ffff:1.2.3.4'"},
		{column(KindVarchar, "utf8mb4"), "é'\\", "_utf8mb4 x'c3a9275c'"},
		{column(KindVarchar, "latin1"), "", "_latin1 x''"},
		{column(KindEnum, "ucs2"), "\x00a", "_ucs2 x'0061'"},
		{column(KindText, "x' OR"), "a", "x'61'"},
		{column(KindVarbinary, ""), "\x00'", "x'0027'"},
		{column(KindJSON, ""), "[1]", "_utf8mb4 x'5b315d'"},
	}
	for _, test := range tests {
		if got := string(AppendLiteral([]byte("="), test.c, []byte(test.v))); got != "="+test.want {
			t.Errorf("kind %d, %q: %s, want =%s", test.c.Kind, test.v, got, test.want)
		}
	}
	if got := string(AppendLiteral(nil, column(KindInt, ""), nil)); got != "NULL" {
		t.Errorf("nil: %s", got)
	}
}

// FuzzLiteral checks that a literal is made of one token's characters, whatever the value.
func FuzzLiteral(f *testing.F) {
	f.Add(uint8(KindInt), "utf8mb4", []byte("1'; DROP TABLE t; --"))
	f.Add(uint8(KindDate), "latin1", []byte("2020-01-01"))
	f.Fuzz(func(t *testing.T, kind uint8, charset string, v []byte) {
		got := string(AppendLiteral(nil, &Column{Kind: Kind(kind), Charset: charset}, v))
		if v == nil {
			return
		}
		body := got
		if before, quoted, ok := strings.Cut(got, "'"); ok {
			inside, after, closed := strings.Cut(quoted, "'")
			if !closed || after != "" || strings.ContainsAny(inside, "\\'\"`") || strings.ContainsAny(before, "'\"`;\\-/*#(") {
				t.Fatalf("%q", got)
			}
			return
		}
		if strings.Trim(body, "0123456789.eE+-") != "" || strings.Contains(body, "--") {
			t.Fatalf("%q", got)
		}
	})
}
