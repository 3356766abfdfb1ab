package rowcodec

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

func makeRow(values ...any) Row {
	var b Builder
	for _, v := range values {
		if v == nil {
			b.Null()
		} else {
			b.Add([]byte(v.(string)))
		}
	}
	return b.AppendRow(nil)
}

func TestKeyEncoderIntegers(t *testing.T) {
	table := &schema.Table{
		Schema: "s", Name: "t",
		Columns: []schema.Column{
			{Name: "a", Kind: schema.KindInt, Bytes: 4},
			{Name: "b", Kind: schema.KindInt, Bytes: 2, Unsigned: true},
			{Name: "n", Kind: schema.KindInt, Bytes: 1, Nullable: true},
		},
		Indexes: []schema.Index{
			{Name: "PRIMARY", BTree: true, Parts: []schema.Part{{Column: 0}}},
			{Name: "ab", BTree: true, Parts: []schema.Part{{Column: 0}, {Column: 1, Desc: true}}},
			{Name: "n", BTree: true, Parts: []schema.Part{{Column: 2}}},
			{Name: "nd", BTree: true, Parts: []schema.Part{{Column: 2, Desc: true}}},
		},
	}
	for _, c := range []struct {
		index, width int
		row          Row
		want         string
	}{
		{0, 4, makeRow("0", "0", nil), "\x80\x00\x00\x00"},
		{0, 4, makeRow("-1", "0", nil), "\x7f\xff\xff\xff"},
		{0, 4, makeRow("-2147483648", "0", nil), "\x00\x00\x00\x00"},
		{0, 4, makeRow("2147483647", "0", nil), "\xff\xff\xff\xff"},
		{1, 6, makeRow("1", "258", nil), "\x80\x00\x00\x01\xfe\xfd"},
		{2, 0, makeRow("1", "0", nil), "\x00"},
		{2, 0, makeRow("1", "0", "-128"), "\x01\x00"},
		{3, 0, makeRow("1", "0", nil), "\xff"},
		{3, 0, makeRow("1", "0", "-128"), "\xfe\xff"},
	} {
		e, err := NewKeyEncoder(table, c.index)
		if err != nil {
			t.Fatal(err)
		}
		if e.FixedWidth() != c.width {
			t.Errorf("index %d: width %d, want %d", c.index, e.FixedWidth(), c.width)
		}
		got, err := e.AppendRow([]byte("dst"), c.row)
		if err != nil || string(got) != "dst"+c.want {
			t.Errorf("index %d, row %x: %x, %v; want %x", c.index, c.row, got, err, c.want)
		}
	}
	e, err := NewKeyEncoder(table, 1)
	if err != nil {
		t.Fatal(err)
	}
	if e.Parts() != 2 {
		t.Errorf("%d parts, want 2", e.Parts())
	}
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{"1"}, "\x80\x00\x00\x01"},
		{[]string{"1.4x", "258"}, "\x80\x00\x00\x01\xfe\xfd"},
		{[]string{"99999999999", "-5"}, "\xff\xff\xff\xff\xff\xff"},
	} {
		var values [][]byte
		for _, v := range c.values {
			values = append(values, []byte(v))
		}
		got, err := e.AppendValues([]byte("dst"), values)
		if err != nil || string(got) != "dst"+c.want {
			t.Errorf("%q: %x, %v; want %x", c.values, got, err, c.want)
		}
	}
	if got, err := e.AppendValues([]byte("dst"), [][]byte{[]byte("1"), []byte("1.2.3")}); !errors.Is(err, ErrPass) || string(got) != "dst" {
		t.Errorf("uncertain value: %q, %v; want ErrPass", got, err)
	}
	if got, err := e.AppendValues([]byte("dst"), [][]byte{nil, nil, nil}); err == nil || errors.Is(err, ErrPass) || string(got) != "dst" {
		t.Errorf("three values for two parts: %q, %v; want an error that is not ErrPass", got, err)
	}
	for _, row := range []Row{makeRow(nil, "1", "1"), makeRow("x", "1", "1"), makeRow("", "1", "1"), makeRow("2147483648", "1", "1"), makeRow("1", "-1", "1")} {
		if got, err := e.AppendRow([]byte("dst"), row); err == nil || string(got) != "dst" {
			t.Errorf("row %q: %x, %v; want an error and dst as it was", row, got, err)
		}
	}
}

func TestUnsupportedKeys(t *testing.T) {
	text := func(cs, collation string) schema.Column {
		return schema.Column{Kind: schema.KindVarchar, Length: 9, Charset: cs, Collation: collation}
	}
	for _, c := range []struct {
		column schema.Column
		part   schema.Part
		reason string
	}{
		{schema.Column{Kind: schema.KindFloat}, schema.Part{}, "FLOAT"},
		{schema.Column{Kind: schema.KindDouble, Scale: 2}, schema.Part{}, "DOUBLE"},
		{schema.Column{Kind: schema.KindJSON, TypeText: "json"}, schema.Part{}, "json"},
		{schema.Column{Kind: schema.KindGeometry, TypeText: "point"}, schema.Part{Prefix: 25}, "point"},
		{schema.Column{Kind: schema.KindVector, TypeText: "vector(3)"}, schema.Part{}, "vector"},
		{schema.Column{Kind: schema.KindYear, Length: 2, TypeText: "year(2)"}, schema.Part{}, "year(2)"},
		{schema.Column{Kind: schema.KindUUID, TypeText: "uuid /* old */"}, schema.Part{}, "uuid"},
		{schema.Column{Kind: schema.KindInt, Bytes: 4}, schema.Part{Column: -1}, "expression"},
		{schema.Column{Kind: schema.KindEnum, Members: members("a", "")}, schema.Part{}, "empty"},
		{schema.Column{Kind: schema.KindEnum}, schema.Part{}, "members"},
		{schema.Column{Kind: schema.KindSet, Members: members("a", ""), Charset: "latin1"}, schema.Part{}, "empty"},
		{schema.Column{Kind: schema.KindSet, Members: members("a", "b"), Charset: "utf16"}, schema.Part{}, "character set"},
		{schema.Column{Kind: schema.KindText, Bytes: 2, Charset: "utf8mb4", Collation: "utf8mb4_bin"}, schema.Part{}, "whole"},
		{schema.Column{Kind: schema.KindBlob, Bytes: 2}, schema.Part{}, "whole"},
		{text("utf8mb4", "utf8mb4_uca1400_ai_ci"), schema.Part{}, "utf8mb4_uca1400_ai_ci"},
		{text("utf8mb4", "utf8mb4_uca1400_nopad_ai_ci"), schema.Part{}, "utf8mb4_uca1400_nopad_ai_ci"},
		{text("utf16", "utf16_bin"), schema.Part{}, "character set"},
		{text("gbk", "gbk_chinese_ci"), schema.Part{}, "character set"},
		{text("latin1", "latin1_german2_ci"), schema.Part{}, "latin1_german2_ci"},
		{text("latin1", "utf8mb4_bin"), schema.Part{}, "does not belong"},
		{text("latin1", ""), schema.Part{}, "collation"},
		{schema.Column{Kind: schema.KindChar, Length: 9, Charset: "utf8mb4", Collation: "utf8mb4_unicode_nopad_ci"}, schema.Part{}, "CHAR"},
	} {
		_, err := NewKeyEncoder(keyTable(c.column, c.part), 0)
		if !errors.Is(err, ErrUnsupportedKey) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%+v: %v; want an unsupported key because of %q", c.column, err, c.reason)
		}
		if c.part == (schema.Part{}) {
			if _, err := NewColumnEncoder(keyTable(c.column, c.part), 0); !errors.Is(err, ErrUnsupportedKey) {
				t.Errorf("%+v: column encoder: %v", c.column, err)
			}
		}
	}
	alias := keyTable(text("utf8mb4", "utf8mb4_0900_ai_ci"), schema.Part{})
	if _, err := NewKeyEncoder(alias, 0); err != nil {
		t.Error(err)
	}
	alias.Flavor = schema.FlavorMariaDB
	hash := keyTable(schema.Column{Kind: schema.KindInt, Bytes: 4}, schema.Part{})
	hash.Indexes[0].BTree = false
	for i, table := range []*schema.Table{alias, hash, {Name: "t"}} {
		if _, err := NewKeyEncoder(table, 0); !errors.Is(err, ErrUnsupportedKey) {
			t.Errorf("table %d: %v", i, err)
		}
	}
}

func TestColumnEncoder(t *testing.T) {
	table := &schema.Table{Columns: []schema.Column{
		{Name: "a", Kind: schema.KindInt, Bytes: 2},
		{Name: "b", Kind: schema.KindVarchar, Length: 5, Nullable: true, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"},
	}}
	a, err := NewColumnEncoder(table, 0)
	if err != nil || a.FixedWidth() != 2 {
		t.Fatalf("width %d, %v", a.FixedWidth(), err)
	}
	b, err := NewColumnEncoder(table, 1)
	if err != nil || b.FixedWidth() != 0 {
		t.Fatalf("width %d, %v", b.FixedWidth(), err)
	}
	row, err := b.AppendRow(nil, makeRow("1", "Ann"))
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[string]int{"ann": 0, "ANN  ": 0, "ann\t": 1, "anm": 1, "ano": -1} {
		key, err := b.AppendValues(nil, [][]byte{[]byte(v)})
		if err != nil || bytes.Compare(row, key) != want {
			t.Errorf("Ann with %q: %d, %v; want %d", v, bytes.Compare(row, key), err, want)
		}
	}
	if _, err := NewColumnEncoder(table, 2); !errors.Is(err, ErrUnsupportedKey) {
		t.Errorf("column 2: %v", err)
	}
}

// TestPadding lists texts in order, equal ones on a line.
func TestPadding(t *testing.T) {
	for collation, lines := range map[string][][]string{
		"utf8mb4_general_ci": {
			{"\x00"},
			{"\t"},
			{"\x1f "},
			{" \x1f!"},
			{"  \x1f!"},
			{"", " ", "   "},
			{"  !"},
			{" !"},
			{"!"},
			{"a\x00"},
			{"a\t", "A\t "},
			{"a  \t"},
			{"a", "A ", "á  "},
			{"a  b"},
			{"a b"},
			{"ab"},
			{"ｱ"},
			{"\ufffd", "😀"},
		},
		"utf8mb4_bin":        {{"\t"}, {""}, {"A\t"}, {"A", "A "}, {"A!"}, {"a\t"}, {"a", "a  "}, {"a~"}, {"á"}, {"ｱ"}, {"😀"}},
		"utf8mb4_unicode_ci": {{"\t"}, {"", " ", "\x01"}, {"a\t"}, {"a", "A ", "a\x01 "}, {"a b"}, {"ab\t"}, {"ab", "AB"}},
		"utf8mb4_0900_ai_ci": {{"", "\x01"}, {"\t"}, {" "}, {"  "}, {"a", "á"}, {"a "}, {"ab"}},
		"utf8mb4_nopad_bin":  {{""}, {"\x00"}, {"\x00\x00"}, {"\x01"}, {"\x02"}, {" "}, {"a"}, {"a\x00"}, {"a "}, {"😀"}},
		"latin1_swedish_ci":  {{"\t"}, {"", "  "}, {"a\t"}, {"a", "A", "\xe0 "}, {"a!"}, {"z"}, {"\xe5"}, {"\xe4", "\xe6", "\xc4"}, {"\xf6"}},
		"binary":             {{""}, {"\x00"}, {"\x00\x00"}, {"\x01"}, {" "}, {"\xff"}, {"\xff\x00"}, {"\xff\xff"}},
	} {
		c, err := lookupCollation(collation)
		if err != nil {
			t.Fatal(err)
		}
		var last []byte
		for _, line := range lines {
			var first []byte
			for i, v := range line {
				key, err := c.order.appendKey(nil, []byte(v))
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = key
				} else if !bytes.Equal(first, key) {
					t.Errorf("%s: %q and %q differ: %x, %x", collation, line[0], v, first, key)
				}
			}
			if last != nil && bytes.Compare(last, first) >= 0 {
				t.Errorf("%s: %q is not above the one before: %x, %x", collation, line[0], last, first)
			}
			last = first
		}
	}
}

// TestSurrogates: MariaDB stores them. Where their weight is not known, the row says so.
func TestSurrogates(t *testing.T) {
	for collation, known := range map[string]bool{"utf8mb4_bin": true, "utf8mb4_general_ci": true, "utf8mb4_swedish_ci": true, "utf8mb4_unicode_ci": true, "utf8mb4_0900_ai_ci": false} {
		e, err := NewKeyEncoder(keyTable(schema.Column{Kind: schema.KindVarchar, Length: 9, Charset: "utf8mb4", Collation: collation}, schema.Part{}), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.AppendRow(nil, makeRow("a\xed\xa0\x80"))
		if known && err != nil || !known && !errors.Is(err, ErrUnsupportedKey) {
			t.Errorf("%s: %v", collation, err)
		}
	}
}

func TestKeySuccessor(t *testing.T) {
	for _, c := range []struct {
		prefix, want string
		ok           bool
	}{
		{"", "", false}, {"\xff\xff", "", false}, {"a", "b", true}, {"a\xff", "b", true}, {"\x00", "\x01", true}, {"ab\xfe\xff", "ab\xff", true},
	} {
		prefix := []byte(c.prefix)
		got, ok := KeySuccessor(prefix)
		if string(got) != c.want || ok != c.ok || string(prefix) != c.prefix {
			t.Errorf("%q: %q, %v; want %q, %v", c.prefix, got, ok, c.want, c.ok)
		}
	}
}

func FuzzKeyText(f *testing.F) {
	names := []string{
		"utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_nopad_bin", "utf8mb4_swedish_ci",
		"utf8mb4_unicode_520_ci", "utf8mb3_general_ci", "utf8mb4_general_nopad_ci", "utf8mb4_ja_0900_as_cs_ks", "utf8mb4_zh_0900_as_cs", "latin1_swedish_ci", "latin1_bin", "ascii_general_ci", "binary",
	}
	for i := range names {
		f.Add(byte(i), []byte("a \t b"), []byte("A  "))
		f.Add(byte(i), []byte("ch\uffffß\xed\xa0\x80"), []byte("\x00\xff\xfe"))
		f.Add(byte(i), []byte("日本か\u3099"), []byte("😀\xf0\x9f"))
	}
	f.Fuzz(func(t *testing.T, which byte, a, b []byte) {
		name := names[int(which)%len(names)]
		c, err := lookupCollation(name)
		if err != nil {
			t.Fatal(err)
		}
		ka, err := c.order.appendKey([]byte("dst"), a)
		if string(ka[:3]) != "dst" || err != nil && len(ka) != 3 {
			t.Fatalf("%s %q: dst became %q, %v", name, a, ka, err)
		}
		kb, errB := c.order.appendKey(nil, b)
		if err != nil || errB != nil {
			if c.charset.length == nil || c.charset == asciiCharset || c.charset.wellFormed(a) && c.charset.wellFormed(b) && !hasSurrogate(a) && !hasSurrogate(b) {
				t.Fatalf("%s %q, %q: %v, %v", name, a, b, err, errB)
			}
			return
		}
		ka = ka[3:]
		if !bytes.Equal(ka, kb) && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			t.Fatalf("%s %q, %q: a key is a prefix of the other: %x, %x", name, a, b, ka, kb)
		}
		blank, err := c.order.appendKey(nil, append(bytes.Clone(a), ' '))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Compare(ka, blank); c.pad && got != 0 || !c.pad && got >= 0 {
			t.Fatalf("%s %q: %d with a blank more", name, a, got)
		}
		if c.equal(a, b) && !bytes.Equal(ka, kb) {
			t.Fatalf("%s %q, %q: equal as labels, keys %x, %x", name, a, b, ka, kb)
		}
	})
}

// FuzzRequest gives any bytes as a request for columns of all kinds.
func FuzzRequest(f *testing.F) {
	type target struct {
		column  schema.Column
		encoder *KeyEncoder // nil where keys are not supported
	}
	var targets []target
	add := func(c schema.Column, seeds ...string) {
		p := schema.Part{}
		if c.Kind == schema.KindText || c.Kind == schema.KindBlob {
			p.Prefix = 3
		}
		e, err := NewKeyEncoder(keyTable(c, p), 0)
		if err != nil && c.Collation != "" {
			f.Fatal(err)
		}
		for _, v := range seeds {
			f.Add(byte(len(targets)), []byte(v))
		}
		targets = append(targets, target{c, e})
	}
	seen := make(map[string]bool)
	for _, k := range convertKinds {
		seeds := convertValues[k.values]
		if seen[k.values] {
			seeds = seeds[len(seeds)-1:]
		}
		seen[k.values] = true
		add(k.column, seeds...)
	}
	for _, k := range keyKinds() {
		add(k.column, "123e4567-e89b-12d3-a456-426614174000", "2001:db8::1")
	}
	f.Fuzz(func(t *testing.T, which byte, v []byte) {
		c, e := &targets[int(which)%len(targets)].column, targets[int(which)%len(targets)].encoder
		text, err := Convert([]byte("dst"), c, v)
		if string(text[:3]) != "dst" || err != nil && (len(text) != 3 || !errors.Is(err, ErrPass)) {
			t.Fatalf("%+v %q: dst became %q, %v", c, v, text, err)
		}
		if e != nil {
			// A row may hold anything.
			if out, err := e.AppendRow([]byte("dst"), makeRow(string(v))); string(out[:3]) != "dst" || err != nil && len(out) != 3 {
				t.Fatalf("%+v %q: dst became %q, %v", c, v, out, err)
			}
			key, errValue := e.AppendValues([]byte("dst"), [][]byte{v})
			if string(key[:3]) != "dst" || (err == nil) != (errValue == nil) || errValue != nil && !errors.Is(errValue, ErrPass) {
				t.Fatalf("%+v %q: conversion %q, %v but key %q, %v", c, v, text, err, key, errValue)
			}
			if err == nil {
				stored, err := e.AppendRow(nil, makeRow(string(text[3:])))
				if err != nil || !bytes.Equal(stored, key[3:]) {
					t.Fatalf("%+v %q: key %x, but %x, %v for what is stored, %q", c, v, key[3:], stored, err, text[3:])
				}
			}
		}
		if err != nil {
			return
		}
		again, err := Convert(nil, c, text[3:])
		if err != nil || !bytes.Equal(again, text[3:]) {
			t.Fatalf("%+v %q: converted to %q, and that to %q, %v", c, v, text[3:], again, err)
		}
	})
}
