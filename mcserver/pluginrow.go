package mcserver

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/binlogcache/binlogcache/internal/item"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// What the plugin makes of rows, for CompatStrict. It writes whole rows below SQL: what a request does not give is NULL, also
// in a row that is there, and what does not fit is cut. A row is there until it is deleted, whatever its time is.

// pluginMonth is where times begin to be Unix times. memcached still takes this one as a time from now.
const pluginMonth = item.RelativeSeconds

// pluginExpires is item.Expires.
func pluginExpires(exptime, now int64) int64 {
	if exptime <= 0 || exptime >= pluginMonth {
		return max(exptime, 0)
	}
	return now + exptime
}

// pluginSplit is split: a run of separator bytes ends a field, so that empty ones vanish and later ones move; only where the
// first byte is the separator's first is there an empty field, which is NULL. So are columns without a field; fields without
// a column are dropped.
func (b *binding) pluginSplit(value []byte) (set []schema.Assignment, err error) {
	fields := [][]byte{value}
	if len(b.value) > 1 {
		fields = fields[:0]
		if len(value) > 0 && value[0] == b.separator[0] {
			fields = append(fields, nil)
		}
		isSeparator := func(c byte) bool { return strings.IndexByte(b.separator, c) >= 0 }
		for from := 0; from < len(value); {
			to := from
			for to < len(value) && !isSeparator(value[to]) {
				to++
			}
			if to > from {
				fields = append(fields, value[from:to])
			}
			from = to + 1
		}
	}
	set = make([]schema.Assignment, len(b.value), len(b.def.Columns))
	for i, v := range b.value {
		set[i].Column = v.column
		if len(b.value) > 1 && (i >= len(fields) || fields[i] == nil) {
			continue
		}
		if set[i].Value, err = b.pluginField(v, fields[i]); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// pluginField is field: of a text the characters for which there is room are kept, of a number the digits at its beginning
// and the bits for which there is room. Text that is ill-formed in the column's character set is left for the database to
// refuse: it can't be kept in a way that is anybody's.
func (b *binding) pluginField(v valueColumn, text []byte) ([]byte, error) {
	col := &b.def.Columns[v.column]
	switch col.Kind {
	case schema.KindInt:
		return pluginInteger(col, text)
	case schema.KindBinary:
		if len(text) > col.Length {
			text = text[:col.Length]
		}
		return b.field(v, text)
	}
	kept, err := rowcodec.Convert(nil, col, text)
	if err == nil && len(kept) < len(text) && bytes.HasPrefix(text, kept) {
		text = kept
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// pluginInteger reads an integer as strtoll and strtoull do, and cuts it to the column's bits.
func pluginInteger(col *schema.Column, text []byte) ([]byte, error) {
	digits, negative := leadingDigits(text)
	if len(digits) == 0 {
		return nil, refusedf("value for column %q is no whole number", col.Name)
	}
	shift := 64 - 8*col.Bytes
	u, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		u = math.MaxUint64 // they are too many
	}
	if col.Unsigned {
		if negative && err == nil {
			u = -u
		}
		return strconv.AppendUint(nil, u<<shift>>shift, 10), nil
	}
	n := int64(min(u, math.MaxInt64))
	if negative {
		if n = -n; u > math.MaxInt64 {
			n = math.MinInt64
		}
	}
	return strconv.AppendInt(nil, n<<shift>>shift, 10), nil
}

// leadingDigits returns the number at the beginning of a text.
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

// numbered returns the value column that flags number, or else the first.
func (b *binding) numbered(flags uint32) valueColumn {
	if int64(flags) < int64(len(b.value)) {
		return b.value[flags]
	}
	return b.value[0]
}

// pluginWhole completes set to a whole row, but for the columns that are to stay. A column that can't be NULL keeps a row
// that does not give it from being written, whether it has a default or not.
func (b *binding) pluginWhole(set []schema.Assignment, stay ...int) ([]schema.Assignment, error) {
	given := make([]bool, len(b.def.Columns))
	for _, a := range set {
		given[a.Column] = true
	}
	for _, i := range stay {
		if i >= 0 {
			given[i] = true
		}
	}
	for i := range b.def.Columns {
		if !given[i] && !b.def.Columns[i].Generated {
			set = append(set, schema.Assignment{Column: i})
		}
	}
	for _, a := range set {
		if col := &b.def.Columns[a.Column]; a.Value == nil && !col.Nullable {
			return nil, refusedf("column %q would become NULL, which it can't be", col.Name)
		}
	}
	return set, nil
}

// pluginRow is newRow.
func (c *rowChange) pluginRow(exptime int64) ([]schema.Assignment, error) {
	set := append([]schema.Assignment{{Column: c.b.key, Value: c.key}}, c.set...)
	set = c.b.setExpiry(c.b.setFlags(set, c.q.Flags), pluginExpires(exptime, c.r.time()))
	return c.b.pluginWhole(c.b.setCAS(set, c.cas))
}

// pluginAtOnce is makeAtOnce.
func (c *rowChange) pluginAtOnce(ctx context.Context) (done bool, err error) {
	b := c.b
	change := &schema.Change{Def: b.def, Index: b.index, Key: [][]byte{c.key}}
	switch {
	case c.deletes() && !c.q.Compare:
		change.Kind = schema.ChangeDelete
	case c.q.Compare, c.joins(), !c.stores(), c.q.Mode == item.Set && !b.single:
		return false, nil
	case c.q.Mode == item.Add:
		change.Kind, change.Key = schema.ChangeInsert, nil
	case c.q.Mode == item.Replace:
		change.Kind = schema.ChangeUpdate
	default:
		// A number is spelled in one way only.
		change.Kind, change.Rekey = schema.ChangeUpsert, b.def.Columns[b.key].Kind != schema.KindInt
	}
	if c.stores() {
		if change.Set, err = c.pluginRow(c.q.Exptime); err != nil {
			return true, err
		}
	}
	rows, err := c.server.writer.Change(ctx, change)
	if r := (*RefusedError)(nil); errors.As(err, &r) && r.Duplicate && change.Kind == schema.ChangeInsert {
		rows, err = 0, nil
	}
	switch {
	case err != nil:
	case rows == 0:
		c.missing()
	default:
		c.res.CAS = c.cas
	}
	return true, err
}

// pluginGone is gone, for what creates a row. One that is made for a number has no time.
func (c *rowChange) pluginGone() ([]schema.Assignment, error) {
	exptime := c.q.Exptime
	if c.arithmetic() {
		c.numberIs(c.q.Initial)
		var err error
		if c.set, err = c.b.pluginSplit(strconv.AppendUint(nil, c.q.Initial, 10)); err != nil {
			return nil, err
		}
		exptime = 0
	}
	c.res.CAS = c.cas
	return c.pluginRow(exptime)
}

// pluginLive is live. Without a cas column the row's number is 0.
func (c *rowChange) pluginLive(row rowcodec.Row, it shown) (change *schema.Change, err error) {
	if c.q.Compare && it.cas != c.q.CAS {
		c.res.Status = item.Exists
		return nil, nil
	}
	change = &schema.Change{Kind: schema.ChangeUpdate, Def: c.b.def}
	switch {
	case c.deletes():
		change.Kind = schema.ChangeDelete
		return change, nil
	case c.arithmetic():
		change.Set, err = c.pluginCount(row, it.flags)
	case c.joins():
		change.Set, err = c.pluginJoin(row)
	default:
		change.Set, err = c.pluginRow(c.q.Exptime)
	}
	if err != nil || change.Set == nil {
		return nil, err
	}
	c.res.CAS = c.cas
	return change, nil
}

// pluginJoin is what append and prepend make of a row: the column that the request's flags number is joined, flags and time
// are the request's, and the latter is from now even beyond the 30 days.
func (c *rowChange) pluginJoin(row rowcodec.Row) ([]schema.Assignment, error) {
	b, v := c.b, c.b.numbered(c.q.Flags)
	was, front := v.text(row), c.q.Mode == item.Prepend
	if len(was)+len(c.q.Value) > c.q.MaxBytes {
		c.res.Status = item.TooLarge
		return nil, nil
	}
	if col := &b.def.Columns[v.column]; col.Kind == schema.KindInt && !front {
		return nil, refusedf("column %q is a number, to which nothing can be appended", col.Name)
	}
	text := append(bytes.Clone(was), c.q.Value...)
	if front {
		text = append(bytes.Clone(c.q.Value), was...)
	}
	text, err := b.pluginField(v, text)
	if err != nil {
		return nil, err
	}
	exp := c.q.Exptime
	if exp != 0 {
		exp += c.r.time()
	}
	set := b.setFlags([]schema.Assignment{{Column: b.key, Value: c.key}, {Column: v.column, Value: text}}, c.q.Flags)
	return b.pluginWhole(b.setCAS(b.setExpiry(set, exp), c.cas))
}

// pluginLongNumber is the length from which on a value is no number for the plugin.
const pluginLongNumber = 127

// pluginCount is what incr and decr make of a row. The digits at its beginning count, the amount has 32 bits with a sign, and
// so have the numbers when it is looked whether there is enough to take off. Negative numbers, of which the plugin makes huge
// ones, and numbers that the column can't hold are refused.
func (c *rowChange) pluginCount(row rowcodec.Row, flags uint32) ([]schema.Assignment, error) {
	b, v := c.b, c.b.numbered(flags)
	text := v.text(row)
	n, ok := uint64(0), len(text) < pluginLongNumber
	if digits, negative := leadingDigits(text); ok && len(digits) > 0 {
		n, ok = parseUint(digits)
		ok = ok && !negative
	}
	if !ok {
		c.res.Status = item.NotNumber
		return nil, nil
	}
	switch delta := int32(c.q.Delta); {
	case !c.q.Decrement:
		n += uint64(int64(delta))
	case delta > int32(n):
		n = 0
	default:
		n -= uint64(int64(delta))
	}
	c.numberIs(n)
	set := []schema.Assignment{{Column: b.key, Value: c.key}, {Column: v.column, Value: strconv.AppendUint(nil, n, 10)}}
	return b.pluginWhole(b.setCAS(set, c.cas), b.flags, b.exp)
}
