package rowcodec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/schema"
)

// wide is a table with a column for each way to decode, and its table map.
func wide() (*schema.Table, *replication.TableMapEvent) {
	labels := func(n int) (l [][]byte) {
		for i := range n {
			l = append(l, fmt.Appendf(nil, "m%d", i))
		}
		return l
	}
	type column struct {
		c    schema.Column
		t    byte
		meta uint16
	}
	columns := []column{
		{schema.Column{Kind: schema.KindInt, Bytes: 4}, mysql.MYSQL_TYPE_LONG, 0},
		{schema.Column{Kind: schema.KindInt, Bytes: 3, Unsigned: true, Zerofill: 8}, mysql.MYSQL_TYPE_INT24, 0},
		{schema.Column{Kind: schema.KindInt, Bytes: 8}, mysql.MYSQL_TYPE_LONGLONG, 0},
		{schema.Column{Kind: schema.KindDecimal, Precision: 31, Scale: 11}, mysql.MYSQL_TYPE_NEWDECIMAL, 31<<8 | 11},
		{schema.Column{Kind: schema.KindFloat, Bytes: 4, Scale: -1}, mysql.MYSQL_TYPE_FLOAT, 4},
		{schema.Column{Kind: schema.KindFloat, Bytes: 4, Scale: 3, Zerofill: 12}, mysql.MYSQL_TYPE_FLOAT, 4},
		{schema.Column{Kind: schema.KindDouble, Bytes: 8, Scale: -1}, mysql.MYSQL_TYPE_DOUBLE, 8},
		{schema.Column{Kind: schema.KindDouble, Bytes: 8, Scale: 30}, mysql.MYSQL_TYPE_DOUBLE, 8},
		{schema.Column{Kind: schema.KindYear, Length: 4}, mysql.MYSQL_TYPE_YEAR, 0},
		{schema.Column{Kind: schema.KindYear, Length: 2}, mysql.MYSQL_TYPE_YEAR, 0},
		{schema.Column{Kind: schema.KindDate}, mysql.MYSQL_TYPE_DATE, 0},
		{schema.Column{Kind: schema.KindTime, Fraction: 3}, mysql.MYSQL_TYPE_TIME2, 3},
		{schema.Column{Kind: schema.KindDatetime, Fraction: 6}, mysql.MYSQL_TYPE_DATETIME2, 6},
		{schema.Column{Kind: schema.KindTimestamp, Fraction: 1}, mysql.MYSQL_TYPE_TIMESTAMP2, 1},
		{schema.Column{Kind: schema.KindTime}, mysql.MYSQL_TYPE_TIME, 0},
		{schema.Column{Kind: schema.KindDatetime}, mysql.MYSQL_TYPE_DATETIME, 0},
		{schema.Column{Kind: schema.KindTimestamp}, mysql.MYSQL_TYPE_TIMESTAMP, 0},
		{schema.Column{Kind: schema.KindChar, Length: 100, MaxBytes: 400}, mysql.MYSQL_TYPE_STRING, 0xee90},
		{schema.Column{Kind: schema.KindBinary, Length: 8, MaxBytes: 8}, mysql.MYSQL_TYPE_STRING, 0xfe08},
		{schema.Column{Kind: schema.KindVarchar, Length: 20, MaxBytes: 80}, mysql.MYSQL_TYPE_VARCHAR, 80},
		{schema.Column{Kind: schema.KindVarbinary, Length: 300, MaxBytes: 300}, mysql.MYSQL_TYPE_VARCHAR, 300},
		{schema.Column{Kind: schema.KindText, Bytes: 1}, mysql.MYSQL_TYPE_BLOB, 1},
		{schema.Column{Kind: schema.KindBlob, Bytes: 3}, mysql.MYSQL_TYPE_BLOB, 3},
		{schema.Column{Kind: schema.KindBlob, Bytes: 4}, mysql.MYSQL_TYPE_BLOB, 4},
		{schema.Column{Kind: schema.KindEnum, Members: labels(3)}, mysql.MYSQL_TYPE_STRING, 0xf701},
		{schema.Column{Kind: schema.KindEnum, Members: labels(300)}, mysql.MYSQL_TYPE_STRING, 0xf702},
		{schema.Column{Kind: schema.KindSet, Members: labels(40)}, mysql.MYSQL_TYPE_STRING, 0xf808},
		{schema.Column{Kind: schema.KindBit, Length: 11}, mysql.MYSQL_TYPE_BIT, 1<<8 | 3},
		{schema.Column{Kind: schema.KindJSON, Bytes: 4}, mysql.MYSQL_TYPE_JSON, 4},
		{schema.Column{Kind: schema.KindGeometry, Bytes: 4}, mysql.MYSQL_TYPE_GEOMETRY, 4},
		{schema.Column{Kind: schema.KindVector, Bytes: 4, Length: 16, MaxBytes: 16}, mysql.MYSQL_TYPE_VECTOR, 4},
		{schema.Column{Kind: schema.KindVector, Length: 16, MaxBytes: 16}, mysql.MYSQL_TYPE_VARCHAR, 16},
		{schema.Column{Kind: schema.KindUUID}, mysql.MYSQL_TYPE_STRING, 0xfe10},
		{schema.Column{Kind: schema.KindInet4}, mysql.MYSQL_TYPE_STRING, 0xfe04},
		{schema.Column{Kind: schema.KindInet6}, mysql.MYSQL_TYPE_STRING, 0xfe10},
	}
	def := &schema.Table{Schema: "s", Name: "t", Key: -1}
	tm := &replication.TableMapEvent{Schema: []byte("s"), Table: []byte("t"), ColumnCount: uint64(len(columns))}
	for i, c := range columns {
		c.c.Name = fmt.Sprintf("c%d", i)
		c.c.Nullable = true
		def.Columns = append(def.Columns, c.c)
		tm.ColumnType = append(tm.ColumnType, c.t)
		tm.ColumnMeta = append(tm.ColumnMeta, c.meta)
	}
	tm.NullBitmap = bytes.Repeat([]byte{0xff}, (len(columns)+7)/8)
	return def, tm
}

func FuzzDecode(f *testing.F) {
	def, tm := wide()
	nulls := (len(def.Columns) + 7) / 8
	zero := make([]byte, nulls+200)
	f.Add(uint8(EventInsert), false, zero)
	f.Add(uint8(EventUpdate), true, append(append(bytes.Clone(zero), 1, 0), zero...))
	f.Add(uint8(EventDelete), false, bytes.Repeat([]byte{0xff}, nulls))
	f.Add(uint8(EventInsert), false, append(make([]byte, nulls), bytes.Repeat([]byte{1}, 300)...))
	// All NULL but the JSON column.
	onlyJSON := bytes.Repeat([]byte{0xff}, nulls)
	onlyJSON[28/8] &^= 1 << (28 % 8)
	f.Add(uint8(EventInsert), false, append(onlyJSON, 14, 0, 0, 0, 2, 2, 0, 12, 0, 5, 1, 0, 12, 10, 0, 1, 'x', 0))
	present := bytes.Repeat([]byte{0xff}, nulls)
	f.Fuzz(func(t *testing.T, kind uint8, partial bool, body []byte) {
		d, err := NewDecoder(def, tm)
		if err != nil {
			t.Fatal(err)
		}
		var arena Arena
		changes := 0
		err = d.Decode(EventKind(kind%3), present, present, body, partial, &arena, func(c Change) error {
			changes++
			for _, row := range []Row{c.Before, c.After} {
				if row == nil {
					continue
				}
				if row.Columns() != len(def.Columns) {
					t.Fatalf("%d columns", row.Columns())
				}
				for i := range row.Columns() {
					row.Value(i)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrImage) {
			t.Fatal(err)
		}
		if changes > len(body) || arena.Size() > 400*(len(body)+1) {
			t.Fatalf("%d bytes became %d changes and %d bytes", len(body), changes, arena.Size())
		}
		if !partial {
			checkCut(t, d, EventKind(kind%3), present, body)
		}
	})
}

// checkCut compares images whose long values are cut off with the whole ones.
func checkCut(t *testing.T, d *Decoder, kind EventKind, present, body []byte) {
	for _, most := range []int{5, 5000} {
		checkCutAt(t, d, kind, present, body, most)
	}
}

func checkCutAt(t *testing.T, d *Decoder, kind EventKind, present, body []byte, most int) {
	t.Helper()
	decode := func(body []byte) (rows []Row, err error) {
		err = d.Decode(kind, present, present, body, false, new(Arena), func(c Change) error {
			rows = append(rows, c.Before, c.After)
			return nil
		})
		return rows, err
	}
	cut, err := d.Cut([]byte("head"), bytes.NewReader(body), most, len(body))
	if err != nil || !bytes.HasPrefix(cut, []byte("head")) || len(cut) > len(body)+4 {
		t.Fatalf("%d bytes were cut to %d: %v", len(body), len(cut), err)
	}
	want, wantErr := decode(body)
	got, err := decode(cut[4:])
	if len(got) != len(want) || (err == nil) != (wantErr == nil) {
		t.Fatalf("%d rows, %v; cut %d rows, %v", len(want), wantErr, len(got), err)
	}
	for i, row := range want {
		if row == nil {
			continue
		}
		for c := range row.Columns() {
			v, null := row.Value(c)
			short, shortNull := got[i].Value(c)
			whole := bytes.Equal(v, short) && null == shortNull
			if whole {
				continue
			}
			if d.columns[c].op != opBytes || len(short) < min(most+1, keyBytes) || !bytes.HasPrefix(v, short) || null != shortNull {
				t.Fatalf("column %d: %q became %q", c, v, short)
			}
			if len(got[i]) <= most {
				t.Fatalf("a row of %d bytes became one of %d", len(row), len(got[i]))
			}
		}
	}
	if half := len(cut) / 2; half > 4 && wantErr == nil {
		less, err := d.Cut(nil, bytes.NewReader(body), most, half)
		if err != ErrOver || len(less) > half+8*len(d.columns)+100 {
			t.Fatalf("%d bytes are kept where %d may be: %v", len(less), half, err)
		}
	}
}

// FuzzDecoderShape feeds table maps of any content.
func FuzzDecoderShape(f *testing.F) {
	def, tm := wide()
	f.Add(tm.ColumnType, []byte{0, 1}, tm.NullBitmap, []byte{0xff}, []byte{0xff}, []byte{63, 1, 2}, []byte("ab"))
	f.Fuzz(func(t *testing.T, types, meta, nullable, unsigned, visible, collations, names []byte) {
		m := &replication.TableMapEvent{
			Schema: tm.Schema, Table: tm.Table, ColumnType: types, ColumnMeta: tm.ColumnMeta, NullBitmap: nullable,
			SignednessBitmap: unsigned, VisibilityBitmap: visible,
		}
		if len(meta) > 2 {
			m.ColumnMeta = nil
			for i := 0; i+1 < len(meta); i += 2 {
				m.ColumnMeta = append(m.ColumnMeta, binary.LittleEndian.Uint16(meta[i:]))
			}
		}
		for i, c := range collations {
			m.DefaultCharset = append(m.DefaultCharset, uint64(c))
			if i%2 == 0 {
				m.EnumSetColumnCharset = append(m.EnumSetColumnCharset, uint64(c))
				m.PrimaryKey = append(m.PrimaryKey, uint64(c))
			}
		}
		for i := range names {
			m.ColumnName = append(m.ColumnName, names[:i])
			m.EnumStrValue = append(m.EnumStrValue, [][]byte{names[i:]})
		}
		d, err := NewDecoder(def, m)
		if err != nil && !errors.Is(err, ErrShape) {
			t.Fatal(err)
		}
		if err == nil && !d.Matches(m) {
			t.Fatal("a decoder does not match its own map")
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{jsonSmallArray, 2, 0, 12, 0, jsonInt16, 1, 0, jsonString, 10, 0, 1, 'x'})
	f.Add([]byte{jsonSmallObject, 1, 0, 13, 0, 11, 0, 1, 0, jsonDouble, 0, 0, 'k', 'v'})
	f.Add([]byte{jsonSmallArray, 1, 0, 7, 0, jsonSmallArray, 0, 0})
	f.Add([]byte{jsonOpaque, mysql.MYSQL_TYPE_NEWDECIMAL, 4, 3, 2, 0x81, 10})
	f.Add([]byte{jsonOpaque, mysql.MYSQL_TYPE_TIME, 8, 1, 2, 3, 4, 5, 6, 7, 0xff})
	f.Add([]byte{jsonOpaque, mysql.MYSQL_TYPE_DATETIME, 8, 0, 0, 0, 0, 0, 0, 0, 0x80})
	f.Fuzz(func(t *testing.T, doc []byte) {
		text, err := appendJSON(nil, doc)
		if err != nil {
			if !errors.Is(err, errJSON) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%x became %q", doc, text)
		}
		if len(text) > 12*len(doc)+100 {
			t.Fatalf("%d bytes became %d", len(doc), len(text))
		}
	})
}

// FuzzUnpack feeds the unpacking of MariaDB's compressed events.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{1, 3, 0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27})
	f.Add([]byte{4, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		got, err := d.unpack(b)
		if err == nil && len(got) > 1100*len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(got))
		}
	})
}

func TestUnpack(t *testing.T) {
	var d Decoder
	b := []byte{1, 3, 0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27}
	if got, err := d.unpack(b); err != nil || string(got) != "abc" {
		t.Fatalf("%q, %v", got, err)
	}
	b[1] = 2
	if _, err := d.unpack(b); err == nil {
		t.Error("more than the length says is taken")
	}
	b[1] = 4
	if _, err := d.unpack(b); err == nil {
		t.Error("less than the length says is taken")
	}
}

func TestCaptureOfBrokenHeads(t *testing.T) {
	for n := range 12 {
		if err := Capture(&replication.RowsEvent{Version: 2}, make([]byte, n)); err == nil {
			t.Errorf("%d bytes are taken for an event", n)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	def, tm := wide()
	d, err := NewDecoder(def, tm)
	if err != nil {
		t.Fatal(err)
	}
	n := len(def.Columns)
	present := bytes.Repeat([]byte{0xff}, (n+7)/8)
	lacking := bytes.Clone(present)
	lacking[1] = 0xfe
	nulls := bytes.Repeat([]byte{0xff}, (n+7)/8)
	truncated := make([]byte, (n+7)/8+2)
	tests := []struct {
		name               string
		kind               EventKind
		present1, present2 []byte
		body               []byte
		partial            bool
	}{
		{"column left out of an insert", EventInsert, lacking, nil, nulls, false},
		{"column left out of the second image", EventUpdate, present, lacking, append(bytes.Clone(nulls), nulls...), false},
		{"bitmap too short", EventInsert, present[:1], nil, nulls, false},
		{"no second image", EventUpdate, present, present, nulls, false},
		{"value ends early", EventInsert, present, nil, truncated, false},
		{"NULL bits end early", EventInsert, present, nil, nulls[:1], false},
		{"partial JSON", EventUpdate, present, present, append(append(bytes.Clone(nulls), 1, 1), nulls...), true},
		{"unknown options", EventUpdate, present, present, append(append(bytes.Clone(nulls), 2, 0), nulls...), true},
		{"no options", EventUpdate, present, present, nulls, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var arena Arena
			err := d.Decode(test.kind, test.present1, test.present2, test.body, test.partial, &arena, func(Change) error {
				t.Error("a change came out")
				return nil
			})
			if !errors.Is(err, ErrImage) {
				t.Errorf("error %v, want ErrImage", err)
			}
		})
	}
}

// TestNumberTexts has the texts that the servers gave for some values; random values are compared on the servers.
func TestNumberTexts(t *testing.T) {
	for _, test := range []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{math.Copysign(0, -1), "-0"},
		{0.1, "0.1"},
		{1e-5, "0.00001"},
		{1e10, "10000000000"},
		{1e14, "100000000000000"},
		{1e15, "1e15"},
		{1.2345678901234568e20, "1.2345678901234568e20"},
		{math.MaxFloat64, "1.7976931348623157e308"},
		{5e-324, "5e-324"},
		{1e-15, "0.000000000000001"},
		{1e-16, "1e-16"},
		{-1e-14, "-0.00000000000001"},
		{123456.5, "123456.5"},
		{math.Inf(1), "0"},
		{math.NaN(), "0"},
		{1234567890123456.8, "1234567890123456.8"},
	} {
		if got := string(appendDouble(nil, test.f)); got != test.want {
			t.Errorf("%g: %s, want %s", test.f, got, test.want)
		}
	}
	for _, test := range []struct {
		f    float32
		want string
	}{{3.1415926, "3.14159"}, {123456.7, "123457"}, {16777217, "16777200"}, {1e-7, "0.0000001"}, {1e20, "1e20"}, {0.36666667, "0.366667"}} {
		if got := string(appendFloat(nil, test.f)); got != test.want {
			t.Errorf("%g: %s, want %s", test.f, got, test.want)
		}
	}
	for _, test := range []struct {
		f        float64
		decimals int
		want     string
	}{{1234.567, 3, "1234.567"}, {5, 2, "5.00"}, {5.5, 0, "6"}, {-0.0004, 3, "-0.000"}, {3746.9337108858026, 20, "3746.93371088580260000000"}} {
		if got := string(appendFixed(nil, test.f, test.decimals)); got != test.want {
			t.Errorf("%g with %d digits: %s, want %s", test.f, test.decimals, got, test.want)
		}
	}
}

// userDecoder is a decoder for user(id INT, uname VARCHAR(64), email VARCHAR(128), add_time DATETIME) and the body of an
// event with so many rows.
func userDecoder(tb testing.TB, rows int) (d *Decoder, present, body []byte) {
	tb.Helper()
	def := &schema.Table{Schema: "app", Name: "user", Columns: []schema.Column{
		{Name: "id", Kind: schema.KindInt, Bytes: 4},
		{Name: "uname", Kind: schema.KindVarchar, Length: 64, MaxBytes: 256, Nullable: true},
		{Name: "email", Kind: schema.KindVarchar, Length: 128, MaxBytes: 512, Nullable: true},
		{Name: "add_time", Kind: schema.KindDatetime, Nullable: true},
	}}
	tm := &replication.TableMapEvent{
		Schema: []byte("app"), Table: []byte("user"), ColumnCount: 4,
		ColumnType: []byte{mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_DATETIME2},
		ColumnMeta: []uint16{0, 256, 512, 0}, NullBitmap: []byte{0xe},
	}
	d, err := NewDecoder(def, tm)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range rows {
		name := fmt.Sprintf("user_%d", i)
		mail := name + "@example.com"
		body = append(body, 0)
		body = binary.LittleEndian.AppendUint32(body, uint32(i))
		body = binary.LittleEndian.AppendUint16(body, uint16(len(name)))
		body = append(body, name...)
		body = binary.LittleEndian.AppendUint16(body, uint16(len(mail)))
		body = append(body, mail...)
		body = append(body, 0x99, 0xa5, 0x44, 0x31, 0x05) // 2020-01-02 03:04:05
	}
	return d, []byte{0xf}, body
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	d, present, body := userDecoder(t, 100)
	var arena Arena
	rows := 0
	count := func(Change) error { rows++; return nil }
	decode := func() {
		arena.Reset()
		if err := d.Decode(EventInsert, present, nil, body, false, &arena, count); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		decode() // the arena grows to its size
	}
	if n := testing.AllocsPerRun(100, decode); n != 0 {
		t.Errorf("%v allocations for 100 rows", n)
	}
	rows = 0
	var last Row
	err := d.Decode(EventInsert, present, nil, body, false, &arena, func(c Change) error { last = c.After; return nil })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range last.Columns() {
		v, _ := last.Value(i)
		got = append(got, string(v))
	}
	if want := "99 user_99 user_99@example.com 2020-01-02 03:04:05"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkDecode(b *testing.B) {
	const rows = 1000
	d, present, body := userDecoder(b, rows)
	var arena Arena
	nothing := func(Change) error { return nil }
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		arena.Reset()
		if err := d.Decode(EventInsert, present, nil, body, false, &arena, nothing); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/image")
}

func BenchmarkMatches(b *testing.B) {
	def, tm := wide()
	d, err := NewDecoder(def, tm)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !d.Matches(tm) {
			b.Fatal("no match")
		}
	}
}
