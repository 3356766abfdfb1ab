package rowcodec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// keyKind is a type of column, and random values for it as SQL.
type keyKind struct {
	ddl    string
	column schema.Column
	value  func(r *rand.Rand) string
	// prefixes are lengths to index, for the types that allow it.
	prefixes []int
	// flavor is the only one that has the type, or empty.
	flavor string
}

func members(labels ...string) [][]byte {
	var all [][]byte
	for _, l := range labels {
		all = append(all, []byte(l))
	}
	return all
}

func integers(bits int, unsigned bool) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		v := r.Uint64() >> (64 - bits) >> r.IntN(bits)
		if unsigned {
			return strconv.FormatUint(v, 10)
		}
		return strconv.FormatInt(int64(v>>1)*int64(1-2*r.IntN(2)), 10)
	}
}

func decimals(whole, fraction int, sign bool) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		var b strings.Builder
		if sign && r.IntN(2) == 0 {
			b.WriteByte('-')
		}
		for range r.IntN(whole + 1) {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		b.WriteString("0.0"[:1+2*r.IntN(2)])
		if s := b.String(); fraction == 0 || !strings.Contains(s, ".") {
			return s
		}
		for range r.IntN(fraction) {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
}

func doubles(r *rand.Rand) string {
	var f float64
	switch r.IntN(5) {
	case 0:
		f = math.Float64frombits(r.Uint64())
	case 1:
		f = r.NormFloat64()
	case 2:
		f = float64(r.IntN(5) - 2)
	case 3:
		f = math.Trunc(r.NormFloat64()*1e4) / 100
	default:
		f = r.NormFloat64() * 1e16
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = math.Copysign(0, -1)
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}

func datetimes(from, to, fraction int, zero bool) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		if zero && r.IntN(20) == 0 {
			return "'0000-00-00'"
		}
		if zero && r.IntN(20) == 0 {
			return fmt.Sprintf("'%04d-%02d-00'", r.IntN(10000), r.IntN(13))
		}
		s := fmt.Sprintf("'%04d-%02d-%02d %02d:%02d:%02d", from+r.IntN(to-from), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
		if fraction > 0 {
			s += fmt.Sprintf(".%06d", r.IntN(1000000))[:1+fraction]
		}
		return s + "'"
	}
}

func times(fraction int) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		s := fmt.Sprintf("'%s%d:%02d:%02d", []string{"", "-"}[r.IntN(2)], r.IntN(1+r.IntN(838)), r.IntN(60), r.IntN(60))
		if r.IntN(3) == 0 {
			s = []string{"'-00:00:00", "'00:00:00", "'-00:00:01", "'838:59:58", "'-838:59:58"}[r.IntN(5)]
		}
		if fraction > 0 {
			s += fmt.Sprintf(".%06d", r.IntN(1000000))[:1+fraction]
		}
		return s + "'"
	}
}

// texts picks from a sample of texts that collations like to take as equal.
func texts(name string, most int) func(r *rand.Rand) string {
	cs := lookupCharset(name)
	sample := sampleTexts(cs, false, rand.New(rand.NewPCG(*orderSeed, 4)), 400)
	return func(r *rand.Rand) string {
		return fmt.Sprintf("x'%x'", cs.prefix(sample[r.IntN(len(sample))], most))
	}
}

func bytesUpTo(most int) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		v := make([]byte, r.IntN(most+1))
		for i := range v {
			v[i] = []byte{0, 1, 2, 0x20, 0x7f, 0xfe, 0xff, byte(r.IntN(256))}[r.IntN(8)]
		}
		return fmt.Sprintf("x'%x'", v)
	}
}

func textKind(ddl string, kind schema.Kind, length int, cs, collation string, prefixes ...int) keyKind {
	return keyKind{
		ddl:      fmt.Sprintf("%s CHARACTER SET %s COLLATE %s", ddl, cs, collation),
		column:   schema.Column{Kind: kind, Length: length, Bytes: 2, Charset: cs, Collation: collation},
		value:    texts(cs, 8),
		prefixes: prefixes,
	}
}

func keyKinds() []keyKind {
	kinds := []keyKind{
		{ddl: "YEAR", column: schema.Column{Kind: schema.KindYear}, value: func(r *rand.Rand) string { return []string{"0", strconv.Itoa(1901 + r.IntN(255))}[min(1, r.IntN(20))] }},
		{ddl: "DATE", column: schema.Column{Kind: schema.KindDate}, value: datetimes(0, 10000, 0, true)},
		{ddl: "DOUBLE", column: schema.Column{Kind: schema.KindDouble, Scale: -1}, value: doubles},
		{ddl: "INT(7) ZEROFILL", column: schema.Column{Kind: schema.KindInt, Bytes: 4, Unsigned: true, Zerofill: 7}, value: integers(32, true)},
		{ddl: "DECIMAL(8,2) ZEROFILL", column: schema.Column{Kind: schema.KindDecimal, Precision: 8, Scale: 2, Unsigned: true, Zerofill: 9}, value: decimals(5, 2, false)},
		{
			ddl:    "ENUM('b','a','Ä','z','c')",
			column: schema.Column{Kind: schema.KindEnum, Members: members("b", "a", "Ä", "z", "c"), Charset: "utf8mb4", Collation: "utf8mb4_bin"},
			value:  func(r *rand.Rand) string { return []string{"'no'", "'a'", "'b'", "'c'", "'z'", "'Ä'"}[r.IntN(6)] },
		},
		{
			ddl:    "SET('b','a','Ä','z','c','d','e','f','g')",
			column: schema.Column{Kind: schema.KindSet, Members: members("b", "a", "Ä", "z", "c", "d", "e", "f", "g"), Charset: "utf8mb4", Collation: "utf8mb4_bin"},
			value:  func(r *rand.Rand) string { return strconv.Itoa(r.IntN(512)) },
		},
		{ddl: "BINARY(3)", column: schema.Column{Kind: schema.KindBinary, Length: 3}, value: bytesUpTo(3), prefixes: []int{2}},
		{ddl: "VARBINARY(8)", column: schema.Column{Kind: schema.KindVarbinary, Length: 8}, value: bytesUpTo(8), prefixes: []int{3}},
		{ddl: "BLOB", column: schema.Column{Kind: schema.KindBlob, Bytes: 2}, value: bytesUpTo(8), prefixes: []int{5}},
		{
			ddl: "UUID", column: schema.Column{Kind: schema.KindUUID, TypeText: "uuid"}, flavor: testmysql.MariaDB,
			value: func(r *rand.Rand) string {
				u := make([]byte, 16)
				for i := range u {
					u[i] = []byte{0, 0x7f, 0x80, 0xff, byte(r.IntN(256))}[r.IntN(5)]
				}
				u[6] = byte(r.IntN(10)<<4 | r.IntN(16))
				return "'" + string(appendUUID(nil, u)) + "'"
			},
		},
		{
			ddl: "INET6", column: schema.Column{Kind: schema.KindInet6}, flavor: testmysql.MariaDB,
			value: func(r *rand.Rand) string {
				a := make([]byte, 16)
				for i := range a {
					a[i] = byte(r.IntN(256) * r.IntN(2))
				}
				if r.IntN(4) == 0 {
					copy(a, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}[:r.IntN(13)])
				}
				return "'" + string(appendInet6(nil, a)) + "'"
			},
		},
		{
			ddl: "INET4", column: schema.Column{Kind: schema.KindInet4}, flavor: testmysql.MariaDB,
			value: func(r *rand.Rand) string {
				return fmt.Sprintf("'%d.%d.%d.%d'", r.IntN(256), r.IntN(3), r.IntN(256), r.IntN(256))
			},
		},
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_general_ci", 1, 3),
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_unicode_ci", 3),
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_bin", 3),
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb3", "utf8mb3_general_ci", 2),
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "latin1", "latin1_swedish_ci", 3),
		textKind("CHAR(8)", schema.KindChar, 8, "utf8mb4", "utf8mb4_unicode_520_ci", 3),
		textKind("CHAR(8)", schema.KindChar, 8, "latin1", "latin1_german1_ci", 3),
		textKind("TEXT", schema.KindText, 0, "utf8mb4", "utf8mb4_general_ci", 3, 20),
		textKind("TEXT", schema.KindText, 0, "ascii", "ascii_general_ci", 3),
	}
	for _, k := range []keyKind{
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_0900_ai_ci", 3),
		textKind("CHAR(8)", schema.KindChar, 8, "utf8mb4", "utf8mb4_0900_ai_ci", 3),
		textKind("CHAR(8)", schema.KindChar, 8, "utf8mb4", "utf8mb4_0900_bin", 3),
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_0900_as_cs", 3),
		textKind("TEXT", schema.KindText, 0, "utf8mb4", "utf8mb4_0900_ai_ci", 4),
	} {
		k.flavor = testmysql.MySQL
		kinds = append(kinds, k)
	}
	for _, k := range []keyKind{
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_nopad_bin", 3),
		textKind("CHAR(8)", schema.KindChar, 8, "utf8mb4", "utf8mb4_nopad_bin", 3),
		textKind("CHAR(8)", schema.KindChar, 8, "latin1", "latin1_swedish_nopad_ci", 3),
		textKind("TEXT", schema.KindText, 0, "utf8mb4", "utf8mb4_general_nopad_ci", 4),
		textKind("VARCHAR(8)", schema.KindVarchar, 8, "utf8mb4", "utf8mb4_unicode_nopad_ci", 4),
	} {
		k.flavor = testmysql.MariaDB
		kinds = append(kinds, k)
	}
	for _, size := range []struct {
		ddl   string
		bytes int
	}{{"TINYINT", 1}, {"SMALLINT", 2}, {"MEDIUMINT", 3}, {"INT", 4}, {"BIGINT", 8}} {
		kinds = append(kinds,
			keyKind{ddl: size.ddl, column: schema.Column{Kind: schema.KindInt, Bytes: size.bytes}, value: integers(8*size.bytes, false)},
			keyKind{ddl: size.ddl + " UNSIGNED", column: schema.Column{Kind: schema.KindInt, Bytes: size.bytes, Unsigned: true}, value: integers(8*size.bytes, true)})
	}
	for _, d := range [][2]int{{1, 0}, {3, 3}, {4, 1}, {9, 0}, {10, 2}, {18, 5}, {19, 4}, {30, 30}, {36, 0}, {65, 30}} {
		kinds = append(kinds, keyKind{
			ddl:    fmt.Sprintf("DECIMAL(%d,%d)", d[0], d[1]),
			column: schema.Column{Kind: schema.KindDecimal, Precision: d[0], Scale: d[1]}, value: decimals(d[0]-d[1], d[1], true),
		})
	}
	for f := range 7 {
		kinds = append(kinds,
			keyKind{ddl: fmt.Sprintf("DATETIME(%d)", f), column: schema.Column{Kind: schema.KindDatetime, Fraction: f}, value: datetimes(0, 10000, f, true)},
			keyKind{ddl: fmt.Sprintf("TIMESTAMP(%d)", f), column: schema.Column{Kind: schema.KindTimestamp, Fraction: f}, value: datetimes(1971, 2038, f, false)},
			keyKind{ddl: fmt.Sprintf("TIME(%d)", f), column: schema.Column{Kind: schema.KindTime, Fraction: f}, value: times(f)})
	}
	for _, n := range []int{1, 8, 10, 33, 64} {
		kinds = append(kinds, keyKind{ddl: fmt.Sprintf("BIT(%d)", n), column: schema.Column{Kind: schema.KindBit, Length: n}, value: integers(n, true)})
	}
	for i := range kinds {
		kinds[i].column.Nullable = true
		if c := kinds[i].column; c.Kind == schema.KindEnum || c.Kind == schema.KindSet {
			kinds[i].ddl += " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
		}
	}
	return kinds
}

// checkIndexes makes a table with columns of those kinds and the indexes, and compares its order with that of the keys.
// Columns can be NULL where unknown says so.
func checkIndexes(t *testing.T, s *session, r *rand.Rand, kinds []keyKind, indexes [][]schema.Part, unknown bool, size int) {
	t.Helper()
	var ddl, list []string
	for i, k := range kinds {
		name := fmt.Sprintf("c%d", i)
		ddl = append(ddl, name+" "+k.ddl+[]string{" NOT NULL", " NULL"}[oneIf(unknown)])
		switch k.column.Kind {
		case schema.KindInt, schema.KindDecimal, schema.KindDouble, schema.KindYear:
			list = append(list, "CONCAT("+name+",'')") // the driver would make its own text of them
		default:
			list = append(list, name)
		}
	}
	for i, parts := range indexes {
		var index []string
		for _, p := range parts {
			part := fmt.Sprintf("c%d", p.Column)
			if p.Prefix > 0 {
				part += fmt.Sprintf("(%d)", p.Prefix)
			}
			index = append(index, part+[]string{"", " DESC"}[oneIf(p.Desc)])
		}
		ddl = append(ddl, fmt.Sprintf("KEY k%d (%s)", i, strings.Join(index, ",")))
	}
	s.exec("DROP TABLE IF EXISTS t")
	s.exec("CREATE TABLE t (" + strings.Join(append(ddl, "id INT PRIMARY KEY"), ", ") + ")")
	table := s.load("t")
	var inserts []string
	for i := range size {
		var values []string
		for _, k := range kinds {
			v := k.value(r)
			if unknown && r.IntN(8) == 0 {
				v = "NULL"
			}
			values = append(values, v)
		}
		inserts = append(inserts, strings.Join(append(values, strconv.Itoa(i)), ","))
	}
	s.insert("t", inserts)
	values := s.query("SELECT " + strings.Join(list, ",") + ", id FROM t ORDER BY id")
	for i := range indexes {
		checkIndex(t, s, table, table.IndexByName(fmt.Sprintf("k%d", i)), values)
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func checkIndex(t *testing.T, s *session, table *schema.Table, index int, values [][][]byte) {
	t.Helper()
	encoder, err := NewKeyEncoder(table, index)
	if err != nil {
		t.Fatal(err)
	}
	parts := table.Indexes[index].Parts
	keys := make([][]byte, len(values))
	var b Builder
	for id, row := range values {
		b.Reset()
		for _, v := range row {
			if v == nil {
				b.Null()
			} else {
				b.Add(v)
			}
		}
		if keys[id], err = encoder.AppendRow(nil, b.AppendRow(nil)); err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		if w := encoder.FixedWidth(); w > 0 && w != len(keys[id]) {
			t.Fatalf("%q: key %x, but width %d", row, keys[id], w)
		}
		// What the column holds is a request that finds it.
		var request [][]byte
		for _, p := range parts {
			request = append(request, row[p.Column])
		}
		for n := range len(request) + 1 {
			prefix, err := encoder.AppendValues([]byte("x"), request[:n])
			if err != nil {
				// Dates that are half zero are the servers' to judge.
				if !errors.Is(err, ErrPass) || !bytes.Contains(bytes.Join(request, nil), []byte("00")) {
					t.Fatalf("%q: %v", request[:n], err)
				}
				break
			}
			if !bytes.HasPrefix(keys[id], prefix[1:]) || n == len(request) && len(prefix)-1 != len(keys[id]) {
				t.Fatalf("%q: key %x, request %x", request[:n], keys[id], prefix[1:])
			}
		}
	}
	var order []int
	s.exec("HANDLER t OPEN")
	for _, row := range s.query(fmt.Sprintf("HANDLER t READ %s FIRST LIMIT %d", table.Indexes[index].Name, len(values)+1)) {
		id, err := strconv.Atoi(string(row[len(row)-1]))
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, id)
	}
	s.exec("HANDLER t CLOSE")
	var equal []string
	for _, p := range parts {
		c := table.Columns[p.Column]
		a, b := "a."+c.Name, "b."+c.Name
		if p.Prefix > 0 {
			a, b = fmt.Sprintf("LEFT(%s,%d)", a, p.Prefix), fmt.Sprintf("LEFT(%s,%d)", b, p.Prefix)
		}
		if c.Kind == schema.KindChar {
			a, b = "TRIM(TRAILING ' ' FROM "+a+")", "TRIM(TRAILING ' ' FROM "+b+")"
		}
		equal = append(equal, a+" <=> "+b)
	}
	checkOrder(t, keys, order, s.same(strings.Join(equal, " AND ")), func(i int) string { return fmt.Sprintf("%q", values[i]) })
}

// TestKeysOfAllKinds compares, for each kind of column, the order of the encoded keys with that of the servers' indexes.
func TestKeysOfAllKinds(t *testing.T) {
	for _, server := range testmysql.Servers(t) {
		t.Run(server.Flavor, func(t *testing.T) {
			s := newSession(t, server)
			for _, k := range keyKinds() {
				if k.flavor != "" && k.flavor != server.Flavor {
					continue
				}
				var indexes [][]schema.Part
				if k.column.Kind != schema.KindText && k.column.Kind != schema.KindBlob {
					indexes = append(indexes, []schema.Part{{}}, []schema.Part{{Desc: true}})
				}
				for _, n := range k.prefixes {
					indexes = append(indexes, []schema.Part{{Prefix: n}}, []schema.Part{{Prefix: n, Desc: true}})
				}
				t.Run(k.ddl, func(t *testing.T) {
					s := s.in(t)
					checkIndexes(t, s, rand.New(rand.NewPCG(*orderSeed, 2)), []keyKind{k}, indexes, true, 300)
					checkIndexes(t, s, rand.New(rand.NewPCG(*orderSeed, 3)), []keyKind{k}, indexes[:1], false, 100)
				})
			}
		})
	}
}

// TestCompositeKeys does so for indexes over several columns.
func TestCompositeKeys(t *testing.T) {
	for _, server := range testmysql.Servers(t) {
		t.Run(server.Flavor, func(t *testing.T) {
			s := newSession(t, server)
			var all []keyKind
			for _, k := range keyKinds() {
				if k.flavor == "" || k.flavor == server.Flavor {
					all = append(all, k)
				}
			}
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, *orderSeed))
				var kinds []keyKind
				var parts []schema.Part
				for i := range 2 + r.IntN(2) {
					k := all[r.IntN(len(all))]
					few := make([]string, 4) // so that parts are often equal
					for i := range few {
						few[i] = k.value(r)
					}
					value := k.value
					k.value = func(r *rand.Rand) string {
						if r.IntN(3) == 0 {
							return value(r)
						}
						return few[r.IntN(len(few))]
					}
					p := schema.Part{Column: i, Desc: r.IntN(2) == 0}
					if len(k.prefixes) > 0 && (k.column.Kind == schema.KindText || k.column.Kind == schema.KindBlob || r.IntN(2) == 0) {
						p.Prefix = k.prefixes[r.IntN(len(k.prefixes))]
					}
					kinds, parts = append(kinds, k), append(parts, p)
				}
				name := make([]string, len(kinds))
				for i := range kinds {
					name[i] = strings.Fields(kinds[i].ddl)[0]
				}
				t.Run(fmt.Sprintf("%d %s", seed, strings.Join(name, ",")), func(t *testing.T) {
					checkIndexes(t, s.in(t), r, kinds, [][]schema.Part{parts}, r.IntN(2) == 0, 300)
				})
			}
		})
	}
}
