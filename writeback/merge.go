package writeback

import (
	"bytes"
	"context"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// Statements of one group that differ in their values only are made one, which costs the server a quarter: it is parsed,
// planned and logged once, and there is one answer to send. Inserts become one INSERT of several rows, and updates by a
// whole number one UPDATE with a CASE for each column. What that one does is what they do, or it is undone and they are
// sent as they are: when it fails, and when it has not found all rows, which the statement after it checks.

const (
	// maxMerged is the number of changes in one statement. The server looks through the values of an UPDATE for each row.
	maxMerged = 128
	// minCases is the least number of updates that are worth a check.
	minCases = 3
	// maxCases is the largest number of columns that merged updates set, and caseBytes how much longer each makes a text.
	maxCases, caseBytes = 32, 34
	// maxOpen is how many statements are looked through for one that a change can join.
	maxOpen = 8
)

// span is a part of a statement.
type span struct{ from, to int }

func (s span) of(sql []byte) []byte { return sql[s.from:s.to] }

// form says what a change's statement has in common with others.
type form struct {
	kind mergeKind
	// values are those of an insert, without the parentheses.
	values span
	// The rest is that of an update: the place of SET, the values, the place of WHERE, the key and its index.
	set    int
	cases  []span
	where  int
	index  int
	key    int64
	unique bool // a column of a unique key is set
}

type mergeKind uint8

const (
	mergeNot mergeKind = iota
	mergeValues
	mergeCases
)

// longer is how much longer than the statement the change can make a merged one.
func (f *form) longer() int { return len(f.cases) * caseBytes }

// mergeable finds out whether an update, or an addition, can be merged, whose statement f has the places of.
func (f *form) mergeable(c *schema.Change) bool {
	index := &c.Def.Indexes[c.Index]
	if len(f.cases) == 0 || len(f.cases) > maxCases || len(index.Parts) != 1 || index.Hidden || index.Parts[0].Prefix > 0 {
		return false
	}
	part := index.Parts[0].Column
	if part < 0 || c.Def.Columns[part].Kind != schema.KindInt {
		return false
	}
	var ok bool
	if f.key, ok = wholeNumber(c.Key[0]); !ok {
		return false
	}
	f.index = c.Index
	for i, a := range c.Set {
		add := c.Kind == schema.ChangeAdd
		if !lastOnly(c.Set, i) || add && a.Value == nil || !add && keeps(c.Def, c.Index, c.Key, a) {
			continue
		}
		column := &c.Def.Columns[a.Column]
		if a.Column == part || !sameType(column, a.Value) || add && column.Kind != schema.KindInt {
			return false
		}
		f.unique = f.unique || inUniqueKey(c.Def, a.Column)
	}
	return true
}

// sameType reports that the value's literal has the one type that all literals for that column have, so that a CASE of them
// gives each as it is. Numbers with fractions, for one, could be rounded by it.
func sameType(column *schema.Column, v []byte) bool {
	if v == nil {
		return column.Nullable
	}
	switch column.Kind {
	case schema.KindInt:
		_, ok := wholeNumber(v)
		return ok
	case schema.KindDate, schema.KindTime, schema.KindDatetime, schema.KindTimestamp:
		literal := schema.AppendLiteral(nil, column, v)
		return literal[0] == '\''
	case schema.KindChar, schema.KindVarchar, schema.KindText, schema.KindBinary, schema.KindVarbinary, schema.KindBlob:
		return true
	}
	return false
}

// wholeNumber reads a number that has no other spelling.
func wholeNumber(v []byte) (int64, bool) {
	if !isWhole(v) || v[0] == '0' && len(v) > 1 || v[0] == '-' && (len(v) == 1 || v[1] == '0') {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

func inUniqueKey(def *schema.Table, column int) bool {
	for i := range def.Indexes {
		for _, p := range def.Indexes[i].Parts {
			// Expressions, whose column is negative, can be of any column.
			if def.Indexes[i].Unique && (p.Column == column || p.Column < 0) {
				return true
			}
		}
	}
	return false
}

// alike reports that the statements of two changes differ in their values only.
func alike(a, b *item) bool {
	f, g := &a.form, &b.form
	if f.kind != g.kind || a.def != b.def {
		return false
	}
	if f.kind == mergeValues {
		return bytes.Equal(a.sql[:f.values.from], b.sql[:g.values.from]) && bytes.Equal(a.sql[f.values.to:], b.sql[g.values.to:])
	}
	if f.index != g.index || len(f.cases) != len(g.cases) {
		return false
	}
	atA, atB := 0, 0
	for i := range f.cases {
		if !bytes.Equal(a.sql[atA:f.cases[i].from], b.sql[atB:g.cases[i].from]) {
			return false
		}
		atA, atB = f.cases[i].to, g.cases[i].to
	}
	return bytes.Equal(a.sql[atA:f.where], b.sql[atB:g.where])
}

// step is one statement of a group's text, or the check of the one before it.
type step struct {
	items []*item
	check bool
	keys  map[int64]struct{} // of a merged update, while it is arranged
	short bool               // it did not find all its rows
}

// placed is the last place of a unit's changes.
type placed struct {
	step int
	key  int64
}

// arrange makes the statements of changes. The changes of one unit keep their order: where they are in one statement, it
// does not matter, or is the order in which the server takes the rows.
func (w *Writer) arrange(items []*item) []step {
	if len(items) == 1 {
		return []step{{items: items}}
	}
	for _, it := range items {
		it.unit.last = placed{step: -1}
	}
	var steps []step
	var open []int // steps that others may join
	for _, it := range items {
		kind := it.form.kind
		if it.apart || kind != mergeNot && w.unmerged.has(it.def) {
			kind = mergeNot
		}
		at := -1
		if kind != mergeNot {
			for _, i := range open {
				if steps[i].takes(it, i) {
					at = i
					break
				}
			}
		}
		if at < 0 {
			at = len(steps)
			steps = append(steps, step{})
			if kind != mergeNot {
				open = append(open, at)
				open = open[max(0, len(open)-maxOpen):]
			}
		}
		steps[at].add(it)
		it.unit.last = placed{step: at, key: it.form.key}
	}
	return checked(steps)
}

// takes reports that a change may join the step at that place.
func (s *step) takes(it *item, at int) bool {
	if len(s.items) >= maxMerged || it.unit.last.step > at || !alike(s.items[0], it) {
		return false
	}
	if it.form.kind == mergeValues {
		return true // the server inserts them in this order
	}
	if _, there := s.keys[it.form.key]; there {
		return false
	}
	// The server takes the rows by their key. What one of them does to another one is by unique keys.
	return it.unit.last.step < at || !it.form.unique || it.form.key > it.unit.last.key
}

func (s *step) add(it *item) {
	s.items = append(s.items, it)
	if it.form.kind == mergeCases {
		if s.keys == nil {
			s.keys = map[int64]struct{}{}
		}
		s.keys[it.form.key] = struct{}{}
	}
}

// checked puts checks behind merged updates, and takes those apart that are not worth it.
func checked(steps []step) []step {
	out := make([]step, 0, len(steps)+2)
	for _, s := range steps {
		switch {
		case s.items[0].form.kind != mergeCases || len(s.items) == 1:
			out = append(out, s)
		case len(s.items) < minCases:
			for i := range s.items {
				out = append(out, step{items: s.items[i : i+1]})
			}
		default:
			out = append(out, s, step{items: s.items, check: true})
		}
	}
	return out
}

// itemsOf gives the changes of steps.
func itemsOf(steps []step) []*item {
	var items []*item
	for _, s := range steps {
		if !s.check {
			items = append(items, s.items...)
		}
	}
	return items
}

// appendSQL appends the statement.
func (s *step) appendSQL(dst []byte) []byte {
	first := s.items[0]
	switch {
	case s.check:
		// A query for one value that finds two is an error. That of a DO would be dropped by MariaDB.
		dst = append(dst, "SET @binlogcache_check = IF(ROW_COUNT() = "...)
		dst = strconv.AppendInt(dst, int64(len(s.items)), 10)
		return append(dst, ", 0, (SELECT 1 UNION ALL SELECT 2))"...)
	case len(s.items) == 1:
		return append(dst, first.sql...)
	case first.form.kind == mergeValues:
		dst = append(dst, first.sql[:first.form.values.to]...)
		for _, it := range s.items[1:] {
			dst = append(dst, "), ("...)
			dst = append(dst, it.form.values.of(it.sql)...)
		}
		return append(dst, first.sql[first.form.values.to:]...)
	}
	return s.appendCases(dst)
}

// appendCases appends a merged update. Without the hint the server may read a small table from end to end, and wait for
// the locks of other rows.
func (s *step) appendCases(dst []byte) []byte {
	first := s.items[0]
	index := &first.def.Indexes[first.form.index]
	key := schema.QuoteName(first.def.Columns[index.Parts[0].Column].Name)
	dst = append(dst, first.sql[:first.form.set]...)
	dst = append(dst, " FORCE INDEX ("...)
	dst = append(dst, schema.QuoteName(index.Name)...)
	dst = append(dst, ')')
	at := first.form.set
	for i, value := range first.form.cases {
		dst = append(dst, first.sql[at:value.from]...)
		at = value.to
		dst = append(dst, "CASE "...)
		dst = append(dst, key...)
		for _, it := range s.items {
			dst = append(dst, " WHEN "...)
			dst = strconv.AppendInt(dst, it.form.key, 10)
			dst = append(dst, " THEN "...)
			dst = append(dst, it.form.cases[i].of(it.sql)...)
		}
		dst = append(dst, " END"...)
	}
	dst = append(dst, first.sql[at:first.form.where]...)
	dst = append(dst, " WHERE "...)
	dst = append(dst, key...)
	sep := " IN ("
	for _, it := range s.items {
		dst = append(dst, sep...)
		dst = strconv.AppendInt(dst, it.form.key, 10)
		sep = ","
	}
	return append(dst, ')')
}

// answered takes the server's answer to the statement.
func (s *step) answered(r sqltext.Changed) {
	switch {
	case s.check:
	case len(s.items) == 1:
		s.items[0].rows, s.items[0].insertID = r.Rows, r.InsertID
	default:
		s.short = s.items[0].form.kind == mergeCases && r.Rows != uint64(len(s.items))
		for _, it := range s.items {
			it.rows, it.insertID = 1, 0
		}
	}
}

// locked gives the changes of the statement whose rows somebody else has locked; where it can't tell, it gives none, and
// they are not merged again.
func (s *step) locked(ctx context.Context, c *sqltext.Conn) []*item {
	if len(s.items) == 1 {
		return s.items
	}
	var locked []*item
	for _, it := range s.items {
		it.apart = true
		if it.form.kind != mergeCases {
			continue
		}
		table := it.sql[len("UPDATE "):it.form.set]
		found := false
		err := c.Query(ctx, "SELECT 1 FROM "+string(table)+string(it.sql[it.form.where:])+" FOR UPDATE SKIP LOCKED", func([][]byte) error {
			found = true
			return nil
		})
		if err != nil { // a server that does not know how to skip
			return nil
		}
		if !found {
			locked = append(locked, it)
		}
	}
	return locked
}

// parted keeps changes, and for a while all of their table, from being merged again.
func (w *Writer) parted(items []*item) {
	for _, it := range items {
		it.apart = true
	}
	w.unmerged.add(items[0].def)
}

// countMerged counts the changes that were carried out with others in one statement.
func (w *Writer) countMerged(steps []step) {
	for _, s := range steps {
		if len(s.items) > 1 && !s.check {
			w.stats.merged.Add(uint64(len(s.items)))
		}
	}
}
