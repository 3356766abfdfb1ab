package mcserver

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/item"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Compat chooses between safe behaviour and the plugin's own quirks.
type Compat uint8

const (
	// CompatSafe gives the plugin's answers except where they would be wrong or lose data.
	CompatSafe Compat = iota
	// CompatStrict gives the plugin's answers, and makes of rows what it makes of them, also where that cuts values or
	// sets columns to NULL. What it does not copy is listed in docs/PROTOCOLS.md.
	CompatStrict
)

// String returns "safe" or "strict".
func (c Compat) String() string {
	if c == CompatStrict {
		return "strict"
	}
	return "safe"
}

// ParseCompat is the inverse of String.
func ParseCompat(s string) (Compat, error) {
	switch s {
	case "safe":
		return CompatSafe, nil
	case "strict":
		return CompatStrict, nil
	}
	return 0, fmt.Errorf("memcached compat mode %q: safe or strict", s)
}

// What follows is what the plugin does with commands and rows, for CompatStrict.

// pluginHas tells the commands that the plugin's memcached has: it is one of before touch and the meta protocol.
func pluginHas(c command) bool {
	switch c {
	case cmdTouch, cmdGAT, cmdGATS, cmdMetaGet, cmdMetaSet, cmdMetaDelete, cmdMetaArithmetic, cmdMetaNoop, cmdMetaDebug:
		return false
	}
	return true
}

// pluginMonth is where its times begin to be Unix times: memcached still takes this one as a time from now.
const pluginMonth = item.RelativeSeconds

// pluginExpires is item.Expires.
func pluginExpires(exptime, now int64) int64 {
	if exptime <= 0 || exptime >= pluginMonth {
		return max(exptime, 0)
	}
	return now + exptime
}

// pluginExptime is the error line for a time that the plugin does not take; empty for none.
func pluginExptime(text []byte) string {
	exptime, err := strconv.ParseInt(string(text), 10, 32)
	switch {
	case err != nil:
		return errBadFormat
	case exptime < 0:
		return errPluginExptime
	}
	return ""
}

// pluginSplit is split: each run of separator bytes ends a field, so that empty ones vanish, but for one at the beginning.
// Columns without a field become NULL, and fields without a column are dropped.
func (b *binding) pluginSplit(value []byte) ([]schema.Assignment, error) {
	fields := [][]byte{value}
	if len(b.value) > 1 {
		fields = fields[:0]
		if len(value) > 0 && bytes.IndexByte([]byte(b.separator), value[0]) >= 0 {
			fields = append(fields, nil)
		}
		for len(value) > 0 {
			end := bytes.IndexAny(value, b.separator)
			if end < 0 {
				end = len(value)
			}
			if end > 0 {
				fields = append(fields, value[:end])
			}
			value = value[min(end+1, len(value)):]
		}
	}
	set := make([]schema.Assignment, len(b.value), len(b.def.Columns))
	for i, v := range b.value {
		set[i].Column = v.column
		if i < len(fields) && fields[i] != nil {
			var err error
			if set[i].Value, err = b.pluginField(v, fields[i]); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// pluginField is field: of a text the characters for which there is room are kept, and of a number the bits.
func (b *binding) pluginField(v valueColumn, text []byte) ([]byte, error) {
	col := &b.def.Columns[v.column]
	if col.Kind != schema.KindInt {
		kept, err := rowcodec.Convert(nil, col, text)
		if err != nil || kept == nil {
			return text, nil //nolint:nilerr // the database decides
		}
		return kept, nil
	}
	digits, negative := leadingDigits(text)
	if len(digits) == 0 {
		return nil, refusedf("value for column %q is no whole number", col.Name)
	}
	shift := 64 - 8*col.Bytes
	if col.Unsigned {
		n := clampUint(digits)
		if negative {
			n = -n
		}
		return strconv.AppendUint(nil, n<<shift>>shift, 10), nil
	}
	n := int64(min(clampUint(digits), math.MaxInt64))
	if negative {
		n = -n
	}
	return strconv.AppendInt(nil, n<<shift>>shift, 10), nil
}

// leadingDigits returns the number at the beginning of a text as strtoll reads it.
func leadingDigits(text []byte) (digits []byte, negative bool) {
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n], negative
}

// clampUint reads digits, too many as the largest number.
func clampUint(digits []byte) uint64 {
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil && len(digits) > 0 {
		return math.MaxUint64
	}
	return n
}

// numbered returns the value column that flags number, or else the first.
func (b *binding) numbered(flags uint32) valueColumn {
	if int64(flags) < int64(len(b.value)) {
		return b.value[flags]
	}
	return b.value[0]
}

// nullOthers sets all columns to NULL that set leaves out, but for the key and what is to stay: the plugin makes whole rows.
func (b *binding) nullOthers(set []schema.Assignment, stay ...int) []schema.Assignment {
	given := map[int]bool{b.key: true}
	for _, a := range set {
		given[a.Column] = true
	}
	for _, i := range stay {
		given[i] = true
	}
	for i := range b.def.Columns {
		if !given[i] && !b.def.Columns[i].Generated {
			set = append(set, schema.Assignment{Column: i})
		}
	}
	return set
}

// pluginJoin is what append and prepend make of a row: the column that the request's flags number is joined, flags and time
// are the request's.
func (c *rowChange) pluginJoin(row rowcodec.Row) ([]schema.Assignment, error) {
	b, v := c.b, c.b.numbered(c.q.Flags)
	front := c.q.Mode == item.Prepend
	if b.def.Columns[v.column].Kind == schema.KindInt && !front {
		return nil, refusedf("column %q is a number", b.def.Columns[v.column].Name)
	}
	text := append(bytes.Clone(v.text(row)), c.q.Value...)
	if front {
		text = append(bytes.Clone(c.q.Value), v.text(row)...)
	}
	text, err := b.pluginField(v, text)
	if err != nil {
		return nil, err
	}
	exp := int64(0)
	if c.q.Exptime != 0 {
		exp = c.r.time() + c.q.Exptime // also beyond the 30 days
	}
	set := b.setFlags([]schema.Assignment{{Column: v.column, Value: text}}, c.q.Flags)
	return b.nullOthers(b.setCAS(b.setExpiry(set, exp), c.cas)), nil
}

// pluginLongNumber is the length from which on a value is no number for the plugin.
const pluginLongNumber = 127

// pluginCount is what incr and decr make of a row. The digits at its beginning count, the amount has 32 bits, and so have
// the numbers when it is looked whether there is enough to take off.
func (c *rowChange) pluginCount(row rowcodec.Row, flags uint32) (set []schema.Assignment, n uint64, ok bool) {
	b, v := c.b, c.b.numbered(flags)
	text := v.text(row)
	if len(text) >= pluginLongNumber {
		return nil, 0, false
	}
	digits, _ := leadingDigits(text)
	n = clampUint(digits)
	switch delta := int32(c.q.Delta); {
	case !c.q.Decrement:
		n += uint64(int64(delta))
	case delta > int32(n):
		n = 0
	default:
		n -= uint64(int64(delta))
	}
	set = b.setCAS([]schema.Assignment{{Column: v.column, Value: strconv.AppendUint(nil, n, 10)}}, c.cas)
	return b.nullOthers(set, b.flags, b.exp), n, true
}
