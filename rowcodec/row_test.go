package rowcodec

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// build makes a row of values; nil is NULL.
func build(values ...[]byte) Row {
	var b Builder
	for _, v := range values {
		if v == nil {
			b.Null()
		} else {
			b.Add(v)
		}
	}
	return Row(b.AppendRow(nil))
}

func checkRow(t *testing.T, row Row, values [][]byte) {
	t.Helper()
	if row.Columns() != len(values) {
		t.Fatalf("%d columns, want %d", row.Columns(), len(values))
	}
	plain := true
	for i, want := range values {
		got, null := row.Value(i)
		if null != (want == nil) || !bytes.Equal(got, want) {
			t.Errorf("column %d: %.60q (NULL: %v), want %.60q (NULL: %v)", i, got, null, want, want == nil)
		}
		if null && got != nil {
			t.Errorf("column %d: NULL with a value", i)
		}
		if cap(got) != len(got) {
			t.Errorf("column %d: an append would write into the row", i)
		}
		for _, c := range want {
			plain = plain && c >= 0x10
		}
	}
	if row.Plain() != plain {
		t.Errorf("plain: %v, want %v", row.Plain(), plain)
	}
}

func TestRow(t *testing.T) {
	text := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	columns := func(n int) (values [][]byte) {
		for i := range n {
			v := fmt.Appendf(nil, "value %d", i)
			if i%3 == 0 {
				v = nil
			}
			values = append(values, v)
		}
		return values
	}
	tests := map[string][][]byte{
		"no columns":         nil,
		"NULL":               {nil},
		"empty":              {{}},
		"empty and NULL":     {{}, nil, {}, nil},
		"NULLs at both ends": {nil, text(3), nil},
		"one byte, most":     {text(100), nil, text(27)},
		"two bytes, least":   {text(100), nil, text(28), nil},
		"two bytes, most":    {text(32000), {}, text(767)},
		"four bytes, least":  {text(32000), nil, text(768), {}},
		"four bytes":         {text(70000), nil, text(5), text(1 << 20)},
		"30 columns":         columns(30),
		"31 columns":         columns(31),
		"32 columns":         columns(32),
		"4096 columns":       columns(4096),
		"not plain, first":   {{0x0f}, text(20)},
		"not plain, last":    {text(20), {0}},
		"just plain":         {bytes.Repeat([]byte{0x10}, 40), bytes.Repeat([]byte{0xff}, 40)},
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) { checkRow(t, build(values...), values) })
	}
}

// TestRowPlainAtEachPlace moves one low byte over all places, as the test looks at eight bytes at once.
func TestRowPlainAtEachPlace(t *testing.T) {
	for n := range 40 {
		for at := range n {
			for _, low := range []byte{0, 1, 0x0f} {
				v := bytes.Repeat([]byte{0x10, 0x80, 0xf0, 0x7f, 0xff}, 8)[:n]
				if !isPlain(v) {
					t.Fatalf("%x is not plain", v)
				}
				v[at] = low
				if isPlain(v) {
					t.Fatalf("%x is plain", v)
				}
			}
		}
	}
}

func TestBuilderIsReused(t *testing.T) {
	var b Builder
	b.Add([]byte("first"))
	b.Null()
	first := Row(b.AppendRow(nil))
	b.Reset()
	if b.Len() != 0 {
		t.Fatalf("%d values after Reset", b.Len())
	}
	b.SetBuffer(append(b.Buffer(), "sec"...))
	b.SetBuffer(append(b.Buffer(), "ond"...))
	b.End()
	b.Add(nil) // an empty value, not NULL
	if b.Len() != 2 {
		t.Fatalf("%d values", b.Len())
	}
	second := Row(b.AppendRow(nil))
	checkRow(t, first, [][]byte{[]byte("first"), nil})
	checkRow(t, second, [][]byte{[]byte("second"), {}})
	prefixed := b.AppendRow([]byte("before"))
	if string(prefixed[:6]) != "before" || !bytes.Equal(prefixed[6:], second) {
		t.Error("AppendRow does not append")
	}
}

func TestArena(t *testing.T) {
	var a Arena
	var rows []Row
	var values [][]byte
	size := 0
	for i := range 3000 {
		v := bytes.Repeat([]byte{byte(i)}, i%300)
		if i == 1500 {
			v = make([]byte, 3*arenaMost)
		}
		var b Builder
		b.Add(v)
		rows, values = append(rows, a.Row(&b)), append(values, v)
		size += len(rows[i])
	}
	if a.Size() != size {
		t.Errorf("size %d, want %d", a.Size(), size)
	}
	for i := range rows {
		if got, _ := rows[i].Value(0); !bytes.Equal(got, values[i]) {
			t.Fatalf("row %d was overwritten", i)
		}
		if cap(rows[i]) != len(rows[i]) {
			t.Fatalf("row %d: an append would write into the next", i)
		}
	}
	a.Reset()
	if a.Size() != 0 || cap(a.chunk) == 0 {
		t.Errorf("after Reset: size %d, chunk of %d", a.Size(), cap(a.chunk))
	}
	var b Builder
	large := bytes.Repeat([]byte("large"), arenaMost)
	fill := func(v []byte) {
		b.Reset()
		b.Null()
		b.Add([]byte("before"))
		b.Add(v)
		b.Add([]byte("after"))
	}
	fill(large)
	want := Row(b.AppendRow(nil))
	first := a.Row(&b)
	fill(bytes.ToUpper(large))
	if n := testing.AllocsPerRun(1, func() { a.Row(&b) }); n > 2 {
		t.Errorf("%v allocations for a large row that is there already", n)
	}
	if !bytes.Equal(first, want) || first.Check(4) != nil || cap(first) != len(first) || a.Size() < len(first) {
		t.Error("a large row is another one in the arena, or was overwritten")
	}
	a.Reset()
	if cap(a.chunk) > arenaMost {
		t.Error("the memory of one huge row is kept")
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte("a\x00b"), byte(0), uint8(2))
	f.Add(bytes.Repeat([]byte("ab"), 200), byte('b'), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, separator byte, nulls uint8) {
		values := bytes.Split(text, []byte{separator})
		for i := range values {
			if nulls > 0 && i%int(nulls) == 0 {
				values[i] = nil
			}
		}
		if len(values) > 65535 {
			return
		}
		checkRow(t, build(values...), values)
	})
}
