package mcserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// What is written must be read as it was written: what a column would keep as something else is refused. Where the
// database refuses it by itself, in the strict mode that it is written in, its own text is the answer.

// bindWriting finds out whether rows can be written through the binding.
func (b *binding) bindWriting(c *Container) {
	b.noWriting = b.whyNoWriting(c)
	b.single = true
	for i := range b.def.Indexes {
		if i != b.index && b.def.Indexes[i].Unique {
			b.single = false
		}
	}
}

func (b *binding) whyNoWriting(c *Container) error {
	if engine := b.def.Engine; !strings.EqualFold(engine, "InnoDB") && !strings.EqualFold(engine, "RocksDB") {
		return fmt.Errorf("engine of %s is %s: rows are written where transactions lock them, in InnoDB and RocksDB", b.def.FullName(), engine)
	}
	mapped := []int{b.key}
	for _, v := range b.value {
		mapped = append(mapped, v.column)
		col := &b.def.Columns[v.column]
		if !pluginValueType(col.Kind) {
			return fmt.Errorf("value column %q is %s: only CHAR, VARCHAR, TEXT, BINARY, VARBINARY, BLOB and integers can be written", col.Name, col.TypeText)
		}
	}
	for _, i := range []int{b.flags, b.cas, b.exp} {
		if i >= 0 {
			mapped = append(mapped, i)
		}
	}
	seen := map[int]bool{}
	for _, i := range mapped {
		col := &b.def.Columns[i]
		switch {
		case seen[i]:
			return fmt.Errorf("column %q has two meanings in container %q: it can't be written", col.Name, c.Name)
		case col.Generated:
			return fmt.Errorf("column %q is computed: it can't be written", col.Name)
		}
		seen[i] = true
	}
	if b.cas >= 0 && b.def.Columns[b.cas].Bytes < 8 {
		col := &b.def.Columns[b.cas]
		return fmt.Errorf("cas column %q is %s: BIGINT is needed for writing", col.Name, col.TypeText)
	}
	return nil
}

// refusedf makes a RefusedError.
func refusedf(format string, args ...any) error {
	return &RefusedError{Err: fmt.Errorf(format, args...), own: true}
}

// field makes the value of a column of a client's text; nil is NULL, which the empty text is where a number is kept.
func (b *binding) field(v valueColumn, text []byte) ([]byte, error) {
	col := &b.def.Columns[v.column]
	switch col.Kind {
	case schema.KindInt:
		if len(text) == 0 {
			return nil, nil
		}
		k := newKeyCheck(col)
		if _, fit := k.integer(text, false); fit == fitsNothing {
			return nil, refusedf("value for column %q is no whole number", col.Name)
		}
		return text, nil
	case schema.KindBinary:
		if len(text) < col.Length {
			return nil, refusedf("value for column %q is shorter than its %d bytes, to which it would be filled up", col.Name, col.Length)
		}
	case schema.KindChar:
		if bytes.HasSuffix(text, []byte{' '}) {
			return nil, refusedf("value for column %q ends with a blank, which CHAR does not keep", col.Name)
		}
	case schema.KindVarchar, schema.KindText:
		// The servers cut blanks at the end without an error.
		if !bytes.HasSuffix(text, []byte{' '}) {
			break
		}
		kept, err := rowcodec.Convert(nil, col, text)
		if err == nil && len(kept) < len(text) && bytes.HasPrefix(text, kept) && len(bytes.TrimLeft(text[len(kept):], " ")) == 0 {
			return nil, refusedf("value is too long for column %q", col.Name)
		}
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// split makes the columns' values of a client's value. Every column needs its field.
func (b *binding) split(value []byte) ([]schema.Assignment, error) {
	if b.strict {
		return b.pluginSplit(value)
	}
	fields := [][]byte{value}
	if len(b.value) > 1 {
		if fields = bytes.Split(value, []byte(b.separator)); len(fields) != len(b.value) {
			return nil, refusedf("value has %d fields for %d columns", len(fields), len(b.value))
		}
	}
	set := make([]schema.Assignment, 0, len(fields)+4)
	for i, v := range b.value {
		text, err := b.field(v, fields[i])
		if err != nil {
			return nil, err
		}
		set = append(set, schema.Assignment{Column: v.column, Value: text})
	}
	return set, nil
}

// joined makes the one column that an append or a prepend changes: the last or the first of the value.
func (b *binding) joined(row rowcodec.Row, more []byte, front bool) (schema.Assignment, error) {
	v := b.value[len(b.value)-1]
	if front {
		v = b.value[0]
	}
	if len(b.value) > 1 && bytes.Contains(more, []byte(b.separator)) {
		return schema.Assignment{}, refusedf("what is joined to one of several columns can't hold their separator")
	}
	was := v.text(row)
	text := make([]byte, 0, len(was)+len(more))
	if front {
		text = append(append(text, more...), was...)
	} else {
		text = append(append(text, was...), more...)
	}
	text, err := b.field(v, text)
	return schema.Assignment{Column: v.column, Value: text}, err
}

// number returns the column that incr and decr work on, and what it holds; NULL is 0. Of several columns it is the one of
// the number that the row's flags are, as for the plugin, or else the first.
func (b *binding) number(row rowcodec.Row, flags uint32) (column int, n uint64, ok bool) {
	v := b.numbered(flags)
	text, null := row.Value(v.column)
	if null {
		return v.column, 0, true
	}
	for len(text) > 1 && text[0] == '0' {
		text = text[1:]
	}
	n, ok = parseUint(text)
	return v.column, n, ok
}

// setFlags adds flags to set, where they are kept. Over 31 bits they stand in a signed column of 32 as negative numbers.
func (b *binding) setFlags(set []schema.Assignment, flags uint32) []schema.Assignment {
	if b.flags < 0 {
		return set
	}
	n := int64(flags)
	if col := &b.def.Columns[b.flags]; !col.Unsigned && col.Bytes == 4 {
		n = int64(int32(flags))
	}
	return append(set, schema.Assignment{Column: b.flags, Value: strconv.AppendInt(nil, n, 10)})
}

func (b *binding) setExpiry(set []schema.Assignment, exp int64) []schema.Assignment {
	if b.exp < 0 {
		return set
	}
	return append(set, schema.Assignment{Column: b.exp, Value: strconv.AppendInt(nil, exp, 10)})
}

// setCAS adds the row's new number. In a signed column those over 63 bits are negative.
func (b *binding) setCAS(set []schema.Assignment, cas uint64) []schema.Assignment {
	if b.cas < 0 {
		return set
	}
	text := strconv.AppendUint(nil, cas, 10)
	if !b.def.Columns[b.cas].Unsigned {
		text = strconv.AppendInt(nil, int64(cas), 10)
	}
	return append(set, schema.Assignment{Column: b.cas, Value: text})
}

// nextCAS gives a number that no row has had: the time in microseconds, which goes on after a restart and after a row was
// deleted, with bits that tell servers apart which write at the same time.
func (s *Server) nextCAS() uint64 {
	for {
		last := s.lastCAS.Load()
		next := max(uint64(time.Now().UnixMicro())<<12|rand.Uint64N(1<<12), last+1)
		if s.lastCAS.CompareAndSwap(last, next) {
			return next
		}
	}
}

// sameColumns tells that two rows hold the same in these columns.
func sameColumns(a, b rowcodec.Row, columns []int) bool {
	for _, c := range columns {
		x, xNull := a.Value(c)
		y, yNull := b.Value(c)
		if xNull != yNull || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}
