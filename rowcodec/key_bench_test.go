package rowcodec

import (
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

// keyTable is a table with one index over one column.
func keyTable(c schema.Column, p schema.Part) *schema.Table {
	c.Name = "c"
	return &schema.Table{
		Schema: "s", Name: "t", Columns: []schema.Column{c},
		Indexes: []schema.Index{{Name: "k", Parts: []schema.Part{p}, BTree: true}},
	}
}

var benchKeys = []struct {
	name   string
	column schema.Column
	value  string
}{
	{"int", schema.Column{Kind: schema.KindInt, Bytes: 4}, "-1234567"},
	{"bigint", schema.Column{Kind: schema.KindInt, Bytes: 8}, "1234567890123456789"},
	{"decimal", schema.Column{Kind: schema.KindDecimal, Precision: 12, Scale: 2}, "-1234567.89"},
	{"double", schema.Column{Kind: schema.KindDouble, Scale: -1}, "0.12345"},
	{"datetime6", schema.Column{Kind: schema.KindDatetime, Fraction: 6}, "2024-01-02 03:04:05.678901"},
	{"enum", schema.Column{Kind: schema.KindEnum, Members: [][]byte{[]byte("small"), []byte("big")}, Charset: "latin1", Collation: "latin1_swedish_ci"}, "big"},
	{"binary", schema.Column{Kind: schema.KindBinary, Length: 16}, "0123456789abcdef"},
	{"latin1_swedish_ci", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "latin1", Collation: "latin1_swedish_ci"}, "user name 1234567890"},
	{"utf8mb4_bin", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_bin"}, "user name 1234567890"},
	{"utf8mb4_general_ci", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"}, "user name 1234567890"},
	{"utf8mb4_general_ci/letters", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"}, "Größe über äöü é"},
	{"utf8mb4_unicode_ci", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_unicode_ci"}, "user name 1234567890"},
	{"utf8mb4_unicode_ci/letters", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_unicode_ci"}, "Größe über äöü é"},
	{"utf8mb4_0900_ai_ci", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}, "user name 1234567890"},
	{"utf8mb4_0900_ai_ci/letters", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}, "Größe über äöü é"},
	{"utf8mb4_0900_as_cs", schema.Column{Kind: schema.KindVarchar, Length: 40, Charset: "utf8mb4", Collation: "utf8mb4_0900_as_cs"}, "user name 1234567890"},
}

// TestKeyAllocations: keys that are usual are made without allocation.
func TestKeyAllocations(t *testing.T) {
	for _, b := range benchKeys {
		e, err := NewKeyEncoder(keyTable(b.column, schema.Part{}), 0)
		if err != nil {
			t.Fatal(err)
		}
		var rb Builder
		rb.Add([]byte(b.value))
		row := Row(rb.AppendRow(nil))
		values := [][]byte{[]byte(b.value)}
		dst := make([]byte, 0, 512)
		for name, f := range map[string]func() ([]byte, error){
			"AppendRow":    func() ([]byte, error) { return e.AppendRow(dst, row) },
			"AppendValues": func() ([]byte, error) { return e.AppendValues(dst, values) },
		} {
			if n := testing.AllocsPerRun(100, func() {
				if _, err := f(); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s of %s: %v allocations", name, b.name, n)
			}
		}
	}
}

func BenchmarkAppendRow(b *testing.B) {
	for _, c := range benchKeys {
		b.Run(c.name, func(b *testing.B) {
			e, err := NewKeyEncoder(keyTable(c.column, schema.Part{}), 0)
			if err != nil {
				b.Fatal(err)
			}
			var rb Builder
			rb.Add([]byte(c.value))
			row := Row(rb.AppendRow(nil))
			dst := make([]byte, 0, 512)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.AppendRow(dst, row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendValues(b *testing.B) {
	for _, c := range benchKeys {
		b.Run(c.name, func(b *testing.B) {
			e, err := NewKeyEncoder(keyTable(c.column, schema.Part{}), 0)
			if err != nil {
				b.Fatal(err)
			}
			values := [][]byte{[]byte(c.value)}
			dst := make([]byte, 0, 512)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.AppendValues(dst, values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
