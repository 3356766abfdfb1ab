package schema_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

// TestLiteralsOnServers puts values in by a literal, finds them by a literal, and compares what comes back: each bit of a
// value must go through, under every sql_mode.
func TestLiteralsOnServers(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		values := []struct {
			ddl    string
			values []string
		}{
			{"INT", []string{"-5", "0", "2147483647"}},
			{"BIGINT UNSIGNED", []string{"18446744073709551615"}},
			{"INT(8) ZEROFILL", []string{"00000042"}},
			{"DECIMAL(65,30)", []string{"-99999999999999999999999999999999999.999999999999999999999999999999"}},
			{"DOUBLE", []string{"-1.7976931348623157e308", "0.1", "5e-324"}},
			{"YEAR", []string{"2024"}},
			{"DATE", []string{"2024-02-29", "0000-00-00", "2024-00-00"}},
			{"DATETIME(6)", []string{"2024-02-29 23:59:59.000001"}},
			{"TIMESTAMP(3) NULL", []string{"2024-02-29 23:59:59.001"}},
			{"TIME(6)", []string{"-838:59:58.999999"}},
			{"BIT(64)", []string{"\x80\x00\x00\x00\x00\x00\x00\x27"}},
			{"BIT(10)", []string{"\x02\x01"}},
			{"VARCHAR(50)", []string{"", "'; DROP TABLE a; -- ", "\\", "\x00\x1a\n", "é😀", `"`}},
			{"VARCHAR(50) CHARACTER SET latin1 COLLATE latin1_bin", []string{"\xe9\xff'\\", ""}},
			{"VARCHAR(50) CHARACTER SET gbk COLLATE gbk_bin", []string{"\xbf\x5c", "'"}},
			{"VARCHAR(50) CHARACTER SET ucs2 COLLATE ucs2_bin", []string{"\x00'\x8a\x9e"}},
			{"VARCHAR(50) CHARACTER SET utf16le COLLATE utf16le_bin", []string{"'\x00\x5c\x00"}},
			{"VARBINARY(50)", []string{"\x00\xff'\\\x27", ""}},
			{"BINARY(4)", []string{"\x00\xff\x00\x00"}},
			{"BLOB", []string{"\xbf\x27\x00"}},
			{"ENUM('a','it''s','é') CHARACTER SET latin1", []string{"it's", "\xe9"}},
			{"SET('x','y')", []string{"x,y", ""}},
		}
		if s.mariadb() {
			values = append(values, []struct {
				ddl    string
				values []string
			}{
				{"UUID", []string{"123e4567-e89b-12d3-a456-426614174000"}},
				{"INET6", []string{"::ffff:1.2.3.4", "2001:db8::1"}},
				{"INET4", []string{"1.2.3.4"}},
			}...)
		}
		for _, mode := range []string{"", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES"} {
			for i, v := range values {
				name := fmt.Sprintf("a%d_%d", i, len(mode))
				s.exec("CREATE TABLE " + name + " (id INT PRIMARY KEY, v " + v.ddl + ")")
				c := &s.load(name).Columns[1]
				s.exec("SET sql_mode = '" + mode + "'")
				for id, want := range v.values {
					literal := string(schema.AppendLiteral(nil, c, []byte(want)))
					s.exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, id, literal))
					rows := 0
					err := s.Query(t.Context(), fmt.Sprintf("SELECT v FROM %s WHERE v = %s AND id = %d", name, literal, id), func(got [][]byte) error {
						rows++
						if !bytes.Equal(got[0], []byte(want)) {
							t.Errorf("%s, mode %q: %q by %s became %q", v.ddl, mode, want, literal, got[0])
						}
						return nil
					})
					if err != nil || rows != 1 {
						t.Errorf("%s, mode %q: %q by %s finds %d rows, %v", v.ddl, mode, want, literal, rows, err)
					}
				}
				s.exec(fmt.Sprintf("INSERT INTO %s VALUES (100, %s)", name, schema.AppendLiteral(nil, c, nil)))
				s.exec("SET sql_mode = ''")
			}
		}
	})
}
