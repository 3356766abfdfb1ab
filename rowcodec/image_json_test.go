package rowcodec_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomJSON is an SQL expression for a JSON document.
func randomJSON(r *rand.Rand, depth int) string {
	text := randomText("ab é😀\"\\\x01\x1f\n\t\x7f/", 20)
	switch n := r.IntN(20); {
	case n < 4 && depth > 0:
		var parts []string
		for range r.IntN(6) {
			parts = append(parts, text(r), randomJSON(r, depth-1))
		}
		return "JSON_OBJECT(" + strings.Join(parts, ", ") + ")"
	case n < 8 && depth > 0:
		var parts []string
		for range r.IntN(6) {
			parts = append(parts, randomJSON(r, depth-1))
		}
		return "JSON_ARRAY(" + strings.Join(parts, ", ") + ")"
	case n < 10:
		return "CAST(" + randomDouble(r) + " AS DOUBLE)"
	case n == 10:
		return randomInt(64, false)(r)
	case n == 11:
		return "CAST(" + randomInt(64, true)(r) + " AS UNSIGNED)"
	case n == 12:
		return []string{"CAST('true' AS JSON)", "CAST('false' AS JSON)", "NULL", "CAST('null' AS JSON)", "CAST('1.0' AS JSON)"}[r.IntN(5)]
	case n == 13:
		return "CAST(" + randomDecimal(40, 20, false)(r) + " AS DECIMAL(40,20))"
	case n == 14:
		return "CAST(" + randomDatetime(r) + " AS DATETIME(6))"
	case n == 15:
		return "CAST('" + randomDate(r) + "' AS DATE)"
	case n == 16:
		return "CAST(" + randomTime(r) + " AS TIME(6))"
	case n == 17:
		return "CAST(" + hexed(randomBytes(r, 90)) + " AS BINARY)"
	}
	return text(r)
}

func TestJSONAgreesWithSelect(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		if s.mariadb() {
			t.Skip("JSON is a LONGTEXT here, covered by the types")
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		nested := func(open, closing string, n int) string {
			return "'" + strings.Repeat(open, n) + strings.Repeat(closing, n) + "'"
		}
		documents := []string{
			`'{"b": 1, "a": [1, 2.50, "x", null, true, {"k": "v"}], "cc": 18446744073709551615, "": 0}'`, "'[]'", "'{}'", "'null'", "'0'", "'-1'",
			"'32767'", "'32768'", "'65535'", "'65536'", "'-32769'", "'2147483648'", "'4294967296'", "'-9223372036854775808'", "'18446744073709551615'",
			"'12345678901234567890123'", "'1.0'", "'-0.0'", "'1e100'", "'1e15'", "'1e16'", "'1e14'", "'1e-7'", "'123456789.5'", "'0.1'",
			"JSON_ARRAY(CAST(1.10 AS DECIMAL(10,2)), CAST(0 AS DECIMAL(10,0)), CAST(-5 AS DECIMAL(65,0)))",
			"JSON_ARRAY(CAST('0000-00-00' AS DATE), CAST('-10:11:12' AS TIME), CAST('-00:00:00.000001' AS TIME(6)), CAST('838:59:59' AS TIME))",
			"JSON_ARRAY(ST_GeomFromText('POINT(1 2)'), b'101', CAST(x'' AS BINARY), YEAR('2020-01-01'))",
			"JSON_OBJECT('long', REPEAT('x', 70000), 'n', 70000, 'm', 70000.5)", "JSON_ARRAY(REPEAT(x'00ff', 100), REPEAT('é', 200), REPEAT('x', 16384))",
			"JSON_ARRAY(JSON_OBJECT('long', REPEAT('y', 66000)), 5, 70000, -70000, 3000000000)",
			nested("[", "]", 100), nested(`{"a":[`, "]}", 50),
			"(SELECT JSON_ARRAYAGG(n) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<1000) SELECT n*97 AS n FROM c) q)",
			"(SELECT JSON_OBJECTAGG(n, n) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<1000) SELECT n FROM c) q)",
			"NULL",
		}
		for range 300 {
			documents = append(documents, "JSON_EXTRACT(JSON_ARRAY("+randomJSON(r, 4)+"), '$[0]')")
		}
		s.exec("CREATE TABLE j (id INT PRIMARY KEY, j JSON, notnull JSON NOT NULL) CHARACTER SET utf8mb4")
		def := s.load("j")
		query := "SELECT id, j, notnull FROM j ORDER BY id"
		var first, second [][][]byte
		events := s.record(func() {
			for id, document := range documents {
				s.exec(fmt.Sprintf("INSERT IGNORE INTO j VALUES (%d, %s, %s)", id, document, document))
			}
			first = s.rows(query)
			// A value that is changed in place may leave the document with gaps and in another order.
			s.exec("UPDATE j SET j = JSON_SET(j, '$[0]', 'x', '$.a', 2, '$[2]', 1.5), notnull = JSON_REMOVE(notnull, '$[1]', '$.b')")
			second = s.rows(query)
		})
		changes := s.decode(def, events)
		if len(first) != len(documents) || len(changes) < len(first) {
			t.Fatalf("%d documents, %d rows, %d changes", len(documents), len(first), len(changes))
		}
		compare := newComparer(t, def)
		for i := range first {
			compare.same(documents[i], changes[i].After, first[i])
		}
		// The server writes no image where nothing changed; the others come in the order of the key.
		at := len(first)
		for i := range second {
			if same(first[i], second[i]) {
				continue
			}
			if at == len(changes) {
				t.Fatalf("no change of row %d", i)
			}
			compare.same(documents[i], changes[at].Before, first[i])
			compare.same(documents[i], changes[at].After, second[i])
			at++
		}
	})
}

func same(a, b [][]byte) bool {
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) || string(a[i]) != string(b[i]) {
			return false
		}
	}
	return true
}
