package cache

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// errAudited says that the table is being compared already.
var errAudited = errors.New("the table is being compared already")

// DifferenceKind says how a row in memory and the source's differ.
type DifferenceKind uint8

const (
	// Missing: the source has the row, memory has not.
	Missing DifferenceKind = iota
	// Extra: memory has the row, the source has not.
	Extra
	// Altered: both have the row, with different values.
	Altered
)

// String returns the kind's name in reports and metrics.
func (k DifferenceKind) String() string {
	switch k {
	case Missing:
		return "missing"
	case Extra:
		return "extra"
	case Altered:
		return "altered"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// Difference is a row that memory has otherwise than the source.
type Difference struct {
	Kind DifferenceKind
	// Memory and Source are copies of the row; nil where there is none.
	Memory, Source rowcodec.Row
	// Version is that of the row in memory; 0 where there is none.
	Version uint64
	// Mended is set by Mend when it has changed the row.
	Mended bool
}

// Row is the row of either side, for its key.
func (d *Difference) Row() rowcodec.Row {
	if d.Source != nil {
		return d.Source
	}
	return d.Memory
}

// Span says which rows of a table are compared.
type Span struct {
	// Key are the values of a whole row-identity key; the span is then that row alone.
	Key [][]byte
	// After and Until bound the span by rows: it begins behind the first and ends with the second. Nil for no bound.
	After, Until rowcodec.Row
}

// BeginAudit has the table, which must be live, remember what is deleted from now on, so that Compare can tell a row that
// was deleted lately from one that is missing. The caller must call PurgeMarks now and then, and EndAudit at the end. One
// audit at a time.
func (g *Generation) BeginAudit() error {
	if err := g.enter("compare"); err != nil {
		return err
	}
	defer g.table.unlock()
	switch {
	case g.table.State() != StateLive:
		return fmt.Errorf("compare %s: %w", g.table.fullName, ErrStale)
	case g.audited:
		return fmt.Errorf("compare %s: %w", g.table.fullName, errAudited)
	}
	g.audited = true
	return nil
}

// EndAudit ends what BeginAudit began. On a stale Generation it does nothing.
func (g *Generation) EndAudit() {
	if g.enter("compare") != nil {
		return
	}
	defer g.table.unlock()
	g.audited = false
	g.dropMarks()
	g.countMemory()
}

// Compare compares the rows of a span with those that a SELECT gave for it. All changes up to the version seen must be in
// what was selected, and all changes that may be in it must have been applied. Rows that changed after seen are passed
// over: they need not agree. An audit must have begun before the SELECT.
func (g *Generation) Compare(span Span, rows []rowcodec.Row, seen uint64) ([]Difference, error) {
	t := g.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gen != g || !g.audited {
		return nil, fmt.Errorf("compare %s: %w", t.fullName, ErrStale)
	}
	a := audit{Generation: g, seen: seen}
	err := a.span(span, rows)
	if errors.Is(err, errUnordered) {
		a.found = nil
		err = a.step(span, rows, false)
	}
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", t.fullName, err)
	}
	return a.found, nil
}

// errUnordered says that rows of a span have not come in the order of their keys: it can't be cut into steps.
var errUnordered = errors.New("rows out of order")

// auditStep is how many rows are looked up by their keys where one of them is not what the walk has come to.
const auditStep = 256

// audit is one comparison. The table's lock is held for reading.
type audit struct {
	*Generation
	seen  uint64
	key   []byte   // of the row at hand
	last  []byte   // of the row before
	ids   []uint32 // of the rows that both have, of the step at hand
	found []Difference
}

// span compares a span. Almost always memory has the same rows in the same order: a walk over the index finds that out
// without a key being made or looked up. Where it does not, the rows of that step are taken one by one.
func (a *audit) span(span Span, rows []rowcodec.Row) error {
	if span.Key != nil {
		return a.step(span, rows, true)
	}
	tree := a.Generation.key
	c, end, err := a.bounds(span)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n, next := min(len(rows), auditStep), c
		same := 0
		for ; same < n && next != end && !next.atEnd(); same++ {
			if have, _ := a.log.get(tree.id(next)); string(have) != string(rows[same]) {
				break
			}
			next = tree.next(next)
		}
		last := len(rows) == n
		if same == n && (!last || next == end || next.atEnd()) {
			span.After, rows, c = rows[n-1], rows[n:], next
			if last {
				return nil
			}
			continue
		}
		step := Span{After: span.After, Until: rows[n-1]}
		if last {
			step.Until = span.Until
		}
		if err := a.step(step, rows[:n], true); err != nil {
			return err
		}
		if last {
			return nil
		}
		span.After, rows = rows[n-1], rows[n:]
		if c, _, err = a.bounds(span); err != nil {
			return err
		}
	}
	return a.step(span, nil, true)
}

// step compares a span row by row. ordered has it give errUnordered when the rows do not come in the order of their keys.
func (a *audit) step(span Span, rows []rowcodec.Row, ordered bool) error {
	a.ids, a.key = a.ids[:0], a.key[:0]
	if span.After != nil {
		var err error
		if a.key, err = a.keyEnc.AppendRow(a.key, span.After); err != nil {
			return fmt.Errorf("key of a bound: %w", err)
		}
	}
	for _, row := range rows {
		a.key, a.last = a.last, a.key
		if err := a.row(row); err != nil {
			return err
		}
		if ordered && bytes.Compare(a.last, a.key) >= 0 {
			return errUnordered
		}
	}
	return a.rest(span)
}

// bounds returns the places in the index where a span of rows begins, and before which it ends.
func (a *audit) bounds(span Span) (c, end cursor, err error) {
	tree := a.Generation.key
	c, end = tree.seek(nil), tree.end()
	for _, bound := range []struct {
		row rowcodec.Row
		at  *cursor
	}{{span.After, &c}, {span.Until, &end}} {
		if bound.row == nil {
			continue
		}
		key, err := a.keyEnc.AppendRow(nil, bound.row)
		if err != nil {
			return c, end, fmt.Errorf("key of a bound: %w", err)
		}
		*bound.at = new(scratch).seekAfter(tree, key)
	}
	return c, end, nil
}

// row looks a row of the source up.
func (a *audit) row(row rowcodec.Row) (err error) {
	if a.key, err = a.keyEnc.AppendRow(a.key[:0], row); err != nil {
		return fmt.Errorf("key of a row: %w", err)
	}
	id, ok := a.Generation.key.get(a.key)
	if !ok {
		if a.marks[string(a.key)] <= a.seen {
			a.found = append(a.found, Difference{Kind: Missing, Source: slices.Clone(row)})
		}
		return nil
	}
	a.ids = append(a.ids, id)
	if have, version := a.log.get(id); version <= a.seen && string(have) != string(row) {
		a.found = append(a.found, Difference{Kind: Altered, Memory: slices.Clone(have), Source: slices.Clone(row), Version: version})
	}
	return nil
}

// rest finds the rows of the span that only memory has.
func (a *audit) rest(span Span) error {
	var ids []uint32
	tree := a.Generation.key
	if span.Key != nil {
		key, err := a.keyEnc.AppendValues(nil, span.Key)
		if err != nil {
			return err
		}
		if id, ok := tree.get(key); ok {
			ids = append(ids, id)
		}
	} else {
		c, end, err := a.bounds(span)
		if err != nil {
			return err
		}
		for ; c != end && !c.atEnd(); c = tree.next(c) {
			ids = append(ids, tree.id(c))
		}
	}
	if len(ids) == len(a.ids) {
		return nil // each of them was looked up
	}
	both := make(map[uint32]struct{}, len(a.ids))
	for _, id := range a.ids {
		both[id] = struct{}{}
	}
	for _, id := range ids {
		if _, ok := both[id]; ok {
			continue
		}
		if have, version := a.log.get(id); version <= a.seen {
			a.found = append(a.found, Difference{Kind: Extra, Memory: slices.Clone(have), Version: version})
		}
	}
	return nil
}

// Mend makes rows agree with the source that Compare found otherwise, as of the version seen, and that have not changed
// since. The caller must see to it that no change is being applied. version is the one up to which all is applied. An
// audit must be under way, since before Compare. After an error the table is suspended and the Generation stale.
func (g *Generation) Mend(differences []Difference, seen, version uint64) (err error) {
	if err := g.enter("mend"); err != nil {
		return err
	}
	t := g.table
	defer t.unlock()
	defer t.store.revision.Add(1)
	g.origin = OriginMended
	for i := range differences {
		d := &differences[i]
		if g.before, err = g.keyEnc.AppendRow(g.before[:0], d.Row()); err != nil {
			break
		}
		id, ok := g.key.get(g.before)
		if ok && g.log.version(id) > seen || !ok && g.marks[string(g.before)] > seen {
			continue
		}
		change := rowcodec.Change{After: d.Source}
		if ok {
			row, _ := g.log.get(id)
			change.Before = slices.Clone(row)
		}
		if err = g.change(&change, version, true); err != nil {
			break
		}
		d.Mended = true
	}
	if err == nil {
		return g.settle()
	}
	err = fmt.Errorf("mend %s: %w", t.fullName, err)
	t.move(StateSuspended, err.Error())
	return err
}
