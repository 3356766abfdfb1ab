package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
)

const (
	// mostLooked is how many rows of an index are looked up one by one, from its beginning to its end.
	mostLooked = 300
	// mostProbes is how many rows have keys beside theirs asked for.
	mostProbes = 5
	// few is the limit of a range that is not a walk over everything.
	few = 3
	// heavy is the size of rows of which few are asked for.
	heavy = 100_000
)

// walker asks one index of one table over HandlerSocket.
type walker struct {
	c      *comparer
	hs     *handlerSocket
	layout *layout
	index  *index
	rows   []row
	asked  int
}

// question is one find and the rows that the server has for it, in order.
type question struct {
	what string
	line []byte
	want [][][]byte
}

// open opens the index, and tells whether it can be had at all.
func (w *walker) open() (bool, error) {
	names := make([]string, len(w.layout.visible))
	for i, at := range w.layout.visible {
		names[i] = w.layout.columns[at].name
	}
	t := w.layout.table
	answer, err := w.hs.ask([]byte("P"), []byte("1"), []byte(t.Schema), []byte(t.Table), []byte(w.index.name), []byte(strings.Join(names, ",")))
	if err != nil {
		return false, err
	}
	return string(answer[0]) == "0", nil
}

func (w *walker) find(op string, key [][]byte, limit int, want [][][]byte) question {
	line := fmt.Appendf(nil, "1\t%s\t%d", op, len(key))
	for _, k := range key {
		line = append(append(line, '\t'), escape(k)...)
	}
	line = fmt.Appendf(line, "\t%d\n", limit)
	return question{what: fmt.Sprintf("%s %q limit %d", op, key, limit), line: line, want: want}
}

// waitMemory asks for the first row until memory has it by this index, which it builds beside.
func (w *walker) waitMemory(ctx context.Context) error {
	first := w.find("=", w.key(w.rows[0], 1), 1, nil)
	for deadline := time.Now().Add(w.c.runner.Settle); ; time.Sleep(pollEvery) {
		before, err := w.c.runner.status(ctx)
		if err != nil {
			return err
		}
		if err := w.hs.pipeline(first.line, 1, func(int, [][]byte) error { return nil }); err != nil {
			return err
		}
		after, err := w.c.runner.status(ctx)
		if err != nil {
			return err
		}
		if after.Reads.HandlerSocket.Memory > before.Reads.HandlerSocket.Memory {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("memory does not come to have the index")
		}
	}
}

// key gives the first n key values of a row.
func (w *walker) key(r row, n int) [][]byte {
	key := make([][]byte, n)
	for i := range n {
		key[i] = r.values[w.index.parts[i].column]
	}
	return key
}

// shown are some rows as they are compared, from the row at from on in steps of step, at most limit.
func (w *walker) shown(from, step, limit int) [][][]byte {
	var out [][][]byte
	for i := from; i >= 0 && i < len(w.rows) && len(out) < limit; i += step {
		out = append(out, w.layout.shown(w.rows[i].values))
	}
	return out
}

// all asks for rows that are there: everything forwards and backwards, each key, and what stands around it.
func (w *walker) all() error {
	n := len(w.rows)
	if n == 0 {
		return nil
	}
	// A search by a part of the value finds what has that part; only whole values are asked for.
	parts := slices.IndexFunc(w.index.parts, func(p part) bool { return p.prefix > 0 })
	if parts < 0 {
		parts = len(w.index.parts)
	}
	if parts == 0 {
		return nil
	}
	questions := []question{w.find("<=", w.key(w.rows[n-1], 1), 1_000_000, w.shown(n-1, -1, n))}
	large := w.heavy()
	if !large {
		questions = append(questions, w.find(">=", w.key(w.rows[0], 1), 1_000_000, w.shown(0, 1, n)))
	}
	for i := 0; i < n; i += max(1, n/mostLooked) {
		for k := 1; k <= parts; k++ {
			rank := w.rows[i].ranks[k-1]
			first, last := i, i
			for first > 0 && w.rows[first-1].ranks[k-1] == rank {
				first--
			}
			for last < n-1 && w.rows[last+1].ranks[k-1] == rank {
				last++
			}
			key := w.key(w.rows[i], k)
			questions = append(questions, w.find("=", key, 100_000, w.shown(first, 1, last-first+1)))
			if !large && (i%7 == 0 || n < 50) {
				questions = append(questions,
					w.find(">=", key, few, w.shown(first, 1, few)), w.find(">", key, few, w.shown(last+1, 1, few)),
					w.find("<=", key, few, w.shown(last, -1, few)), w.find("<", key, few, w.shown(first-1, -1, few)))
			}
		}
	}
	return w.check(questions)
}

// heavyRows reports rows so large that each answer takes long.
func heavyRows(rows []row) bool {
	size := 0
	for _, r := range rows {
		for _, v := range r.values {
			size += len(v)
		}
	}
	return size > heavy*len(rows)
}

func (w *walker) heavy() bool {
	return heavyRows(w.rows)
}

// check asks all questions at once, as a client that pipelines.
func (w *walker) check(questions []question) error {
	w.asked += len(questions)
	var out []byte
	for _, q := range questions {
		out = append(out, q.line...)
	}
	return w.hs.pipeline(out, len(questions), func(i int, answer [][]byte) error {
		q := questions[i]
		if string(answer[0]) != "0" {
			return fmt.Errorf("%s: %q", q.what, answer)
		}
		var found [][][]byte
		for values := range slices.Chunk(answer[2:], len(w.layout.visible)) {
			r := make([][]byte, len(values))
			for i, v := range values {
				r[i] = unescape(v)
			}
			found = append(found, r)
		}
		if !slices.EqualFunc(found, q.want, equalRows) {
			return fmt.Errorf("%s: the answer is %s, the server has %s", q.what, excerpt(found), excerpt(q.want))
		}
		return nil
	})
}

func excerpt(rows [][][]byte) string {
	text := fmt.Sprintf("%d rows %q", len(rows), rows)
	if len(text) > 1500 {
		text = text[:1500] + "..."
	}
	return text
}

// absent asks for keys that may not be there: beside those of rows, and those that there were at the scenario's mark.
func (w *walker) absent(ctx context.Context) error {
	p := w.index.parts[0]
	col := &w.layout.columns[p.column]
	if p.prefix > 0 || w.heavy() {
		return nil
	}
	seen := map[string]bool{}
	var probes [][]byte
	add := func(v []byte) {
		// A key is put into its column before it is looked for, where CHAR loses trailing blanks; a comparison in SQL keeps them.
		blanks := col.kind == "char" && bytes.HasSuffix(v, []byte(" "))
		if v != nil && !seen[string(v)] && len(v) < 200 && !blanks {
			seen[string(v)] = true
			probes = append(probes, bytes.Clone(v))
		}
	}
	for i := 0; i < len(w.rows); i += max(1, len(w.rows)/mostProbes) {
		for _, v := range col.neighbours(w.rows[i].values[p.column]) {
			add(v)
		}
	}
	for _, v := range w.c.runner.remembered[w.layout.table.Schema+"."+w.layout.table.Table][*col] {
		add(v)
	}
	var questions []question
	for _, v := range probes {
		literal := col.literal(v)
		if literal == "" {
			continue
		}
		name := quoteName(col.name)
		less, more := fmt.Sprintf("%s < %s", name, literal), fmt.Sprintf("%s > %s", name, literal)
		if col.nullable { // IS NULL finds zero dates in columns that are not
			less = fmt.Sprintf("(%s OR %s IS NULL)", less, name)
		}
		earlier, later := less, more
		if p.desc {
			earlier, later = more, less
		}
		same := fmt.Sprintf("%s = %s", name, literal)
		for _, ask := range []struct {
			op, where string
			backwards bool
		}{
			{"=", same, false},
			{">", later, false},
			{"<=", earlier + " OR " + same, true},
		} {
			var want [][][]byte
			err := w.c.query(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d", w.columnList(), w.layout.name(), ask.where,
				w.layout.whole(w.index, ask.backwards), few), func(values [][]byte) {
				r := make([][]byte, len(values))
				for i, v := range values {
					r[i] = bytes.Clone(v)
				}
				want = append(want, r)
			})
			if sqltext.ServerCode(err) != 0 {
				break // not a value of the column's
			}
			if err != nil {
				return err
			}
			questions = append(questions, w.find(ask.op, [][]byte{v}, few, want))
		}
	}
	if len(questions) == 0 {
		return nil
	}
	if err := w.check(questions); err != nil {
		return fmt.Errorf("a key that may not be there: %w", err)
	}
	return nil
}

func (w *walker) columnList() string {
	names := make([]string, len(w.layout.visible))
	for i, at := range w.layout.visible {
		names[i] = quoteName(w.layout.columns[at].name)
	}
	return strings.Join(names, ",")
}

func (c *column) integer() bool { return strings.HasSuffix(c.kind, "int") }

// text reports a type of characters whose ASCII letters are single bytes.
func (c *column) text() bool {
	switch c.charset {
	case "ucs2", "utf16", "utf16le", "utf32", "big5", "gbk", "gb18030", "sjis", "cp932":
		return false
	}
	return c.kind == "char" || c.kind == "varchar"
}

// literal is a value of the column in SQL; empty for types of which only values that are there are asked for.
func (c *column) literal(v []byte) string {
	switch {
	case c.integer(), c.kind == "decimal":
		return string(v)
	case c.text():
		return hexLiteral(c.charset, v) + " COLLATE " + c.collation
	case c.kind == "varbinary":
		return hexLiteral("binary", v)
	case c.kind == "date", c.kind == "datetime", c.kind == "timestamp", c.kind == "time":
		return "'" + string(v) + "'"
	}
	return ""
}

// neighbours are values beside v that the column could have.
func (c *column) neighbours(v []byte) (out [][]byte) {
	switch {
	case v == nil:
	case c.integer():
		n, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil:
		case n == 0:
			out = append(out, []byte("1"))
		case n > 0:
			out = append(out, strconv.AppendInt(nil, n-1, 10))
		default:
			out = append(out, strconv.AppendInt(nil, n+1, 10))
		}
		if err == nil && n >= 0 && n < 100 && !strings.Contains(c.typeText, "zerofill") {
			out = append(out, strconv.AppendInt(nil, n+1, 10))
		}
	case c.text():
		out = append(out, bytes.ToUpper(v), bytes.ToLower(v), []byte("~"), []byte{})
		if n := len(v); n > 1 && v[n-1] < 0x80 {
			out = append(out, v[:n-1])
		}
		if len(v)+2 <= c.length { // bytes: at least as many as characters
			for _, more := range []string{"a", " ", "  ", "\x01", "!"} {
				out = append(out, append(bytes.Clone(v), more...))
			}
		}
		out = slices.DeleteFunc(out, func(w []byte) bool { return !ascii(w) && !ascii(v) && len(w) != len(v) || len(w) > c.length })
	case c.kind == "varbinary":
		if len(v)+1 <= c.length {
			out = append(out, append(bytes.Clone(v), 0))
		}
		if len(v) > 0 {
			out = append(out, v[:len(v)-1])
		}
	}
	return out
}

func ascii(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x80 }) }

// Remember reads keys of the tables as they are now, which Judge asks for later, when they may be gone. Tables that do not
// exist yet are passed over.
func (r *Runner) Remember(ctx context.Context, tables []CachedTable) error {
	r.remembered = map[string]map[column][][]byte{}
	return r.with(ctx, func(c *comparer) error {
		for _, t := range tables {
			layout, err := c.layout(ctx, t)
			if err == nil && len(layout.indexes) > 0 {
				err = c.remember(ctx, layout)
			}
			if err != nil && sqltext.ServerCode(err) == 0 {
				return err
			}
		}
		return nil
	})
}

func (c *comparer) remember(ctx context.Context, l *layout) error {
	keys := map[column][][]byte{}
	c.runner.remembered[l.table.Schema+"."+l.table.Table] = keys
	return c.query(ctx, fmt.Sprintf("SELECT * FROM %s ORDER BY %s LIMIT %d", l.name(), l.order(l.indexes[0].parts, false), mostProbes), func(v [][]byte) {
		at := 0
		for _, col := range l.columns {
			if col.hidden {
				continue
			}
			if at < len(v) && v[at] != nil {
				keys[col] = append(keys[col], bytes.Clone(v[at]))
			}
			at++
		}
	})
}

// with runs do with connections of its own.
func (r *Runner) with(ctx context.Context, do func(c *comparer) error) error {
	cfg, err := sqltext.ParseDSN(r.DSN)
	if err != nil {
		return err
	}
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	raw, err := sqltext.Dial(ctx, cfg)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	err = do(&comparer{runner: r, conn: conn, raw: raw})
	raw.Close()
	return errors.Join(err, conn.Close())
}
