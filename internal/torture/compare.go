package torture

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/internal/sqltext"
)

type comparer struct {
	runner *Runner
	conn   *sql.Conn
	raw    *sqltext.Conn
}

func (c *comparer) exists(ctx context.Context, t CachedTable) (bool, error) {
	var n int
	err := c.conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.TABLES
		WHERE BINARY TABLE_SCHEMA=? AND BINARY TABLE_NAME=? AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED')`, t.Schema, t.Table).Scan(&n)
	return n > 0, err
}

func (c *comparer) compare(ctx context.Context, t CachedTable, states map[string]tableStatus) (Verdict, error) {
	v := Verdict{Table: t}
	exists, err := c.exists(ctx, t)
	if err != nil {
		return v, err
	}
	hs, err := dialHandlerSocket(c.runner.HandlerSocket)
	if err != nil {
		return v, err
	}
	defer hs.conn.Close()
	if !exists {
		answer, err := hs.ask([]byte("P"), []byte("0"), []byte(t.Schema), []byte(t.Table), []byte("PRIMARY"), nil)
		if err == nil && string(answer[0]) == "0" {
			err = errors.New("gone from the server, but it opens")
		}
		v.State = "gone"
		return v, err
	}
	info := states[t.Schema+"."+t.Table]
	expected := t.refusal[c.runner.Flavor]
	if info.State == "refused" {
		v.State, v.Reason = "refused", info.Reason
		switch {
		case expected == "":
			return v, fmt.Errorf("refused, which is not expected here: %s", info.Reason)
		case !strings.Contains(info.Reason, expected):
			return v, fmt.Errorf("refused because of %q, expected is %q", info.Reason, expected)
		}
		return v, c.compareDatabase(ctx, hs, t)
	}
	if c.runner.Hot && info.State == "" {
		v.State = "pass" // nobody has asked for it as it is now
		return v, c.compareHot(ctx, hs, t)
	}
	if expected != "" {
		return v, fmt.Errorf("it is %s, not refused because of %q", info.State, expected)
	}
	if c.runner.Hot {
		v.State = "hot"
		return v, c.compareHot(ctx, hs, t)
	}
	v.State = "live"
	return v, c.compareLive(ctx, hs, t, info)
}

// compareDatabase looks at a refused table: its rows come from the database, right or not at all.
func (c *comparer) compareDatabase(ctx context.Context, hs *handlerSocket, t CachedTable) error {
	layout, err := c.layout(ctx, t)
	if err != nil {
		return err
	}
	index := layout.index("PRIMARY")
	// The text of a FLOAT is not its value, so that rows are not found by it.
	float := func(p part) bool { return layout.columns[p.column].kind == "float" }
	if index == nil || index.prefix() || slices.ContainsFunc(index.parts, float) {
		return nil
	}
	before, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	rows, err := c.ranked(ctx, layout, index)
	if err != nil {
		return err
	}
	w := walker{c: c, hs: hs, layout: layout, index: index, rows: rows}
	opened, err := w.open()
	if err != nil || !opened {
		return err
	}
	if err := w.all(); err != nil {
		return fmt.Errorf("refused, and answered by the database: %w", err)
	}
	after, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	if n := after.Reads.HandlerSocket.Memory - before.Reads.HandlerSocket.Memory; n != 0 {
		return fmt.Errorf("refused, and %d answers came from memory", n)
	}
	return nil
}

func (c *comparer) compareLive(ctx context.Context, hs *handlerSocket, t CachedTable, info tableStatus) error {
	layout, err := c.layout(ctx, t)
	if err != nil {
		return err
	}
	if layout.index(t.Index) == nil {
		return errors.New("no usable key and not refused")
	}
	for _, index := range layout.indexes {
		if err := c.compareIndex(ctx, hs, t, layout, index, info); err != nil {
			return fmt.Errorf("index %s: %w", index.name, err)
		}
	}
	if err := c.compareMemcached(ctx, layout); err != nil {
		return fmt.Errorf("memcached: %w", err)
	}
	return nil
}

// buildAtOnce is the number of rows from which the cache builds a secondary index beside: until then the database answers.
const buildAtOnce = 20_000

func (c *comparer) compareIndex(ctx context.Context, hs *handlerSocket, t CachedTable, layout *layout, index *index, info tableStatus) error {
	rows, err := c.ranked(ctx, layout, index)
	if err != nil {
		return err
	}
	if info.Rows != uint64(len(rows)) {
		return fmt.Errorf("the cache counts %d rows, the server %d", info.Rows, len(rows))
	}
	w := walker{c: c, hs: hs, layout: layout, index: index, rows: rows}
	opened, err := w.open()
	if err != nil {
		return err
	}
	if !opened {
		if index.name == t.Index {
			return errors.New("does not open")
		}
		return nil
	}
	late := index.name != layout.identity().name && len(rows) > buildAtOnce
	if late && !slices.Contains(t.database, index.name) {
		// A walk by the database over so many rows takes longer than a read may.
		if err := w.waitMemory(ctx); err != nil {
			return err
		}
	}
	before, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	if err := w.all(); err != nil {
		return err
	}
	after, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	fromDatabase := after.Reads.HandlerSocket.Database - before.Reads.HandlerSocket.Database
	switch {
	case slices.Contains(t.database, index.name):
		if fromDatabase == 0 {
			return errors.New("it was to be answered by the database, and was not")
		}
	case fromDatabase != 0 && !late:
		return fmt.Errorf("%d answers came from the database", fromDatabase)
	case w.asked > 0 && !late && after.Reads.HandlerSocket.Memory <= before.Reads.HandlerSocket.Memory:
		return errors.New("no answer is counted as from memory")
	}
	return w.absent(ctx)
}

// column is what the oracle needs to know of a column.
type column struct {
	name, kind, typeText, charset, collation string
	length                                   int // in characters
	hidden, nullable                         bool
}

// part is one column of an index.
type part struct {
	column int // in layout.columns, -1 for an expression
	prefix int
	desc   bool
}

type index struct {
	name   string
	unique bool
	parts  []part
}

func (x *index) prefix() bool {
	return slices.ContainsFunc(x.parts, func(p part) bool { return p.prefix > 0 })
}

// layout is a table as the oracle has read it from the server, by other queries than the product's.
type layout struct {
	table   CachedTable
	columns []column
	indexes []*index // those that can be walked in order
	visible []int    // columns that SELECT * shows, by which rows are compared
}

func (l *layout) index(name string) *index {
	for _, x := range l.indexes {
		if x.name == name {
			return x
		}
	}
	return nil
}

func (l *layout) name() string { return quoteName(l.table.Schema) + "." + quoteName(l.table.Table) }

// identity is the key that tells rows apart, whose order is that of rows that are equal in another index.
func (l *layout) identity() *index {
	for _, x := range l.indexes {
		whole := x.unique && !slices.ContainsFunc(x.parts, func(p part) bool {
			return p.prefix > 0 || l.columns[p.column].nullable
		})
		if whole {
			return x
		}
	}
	return &index{}
}

// term is a part of an index in SQL.
func (l *layout) term(p part) string {
	name := quoteName(l.columns[p.column].name)
	if p.prefix > 0 {
		return fmt.Sprintf("LEFT(%s,%d)", name, p.prefix)
	}
	return name
}

// order is the ORDER BY list of parts, forwards or backwards.
func (l *layout) order(parts []part, backwards bool) string {
	terms := make([]string, len(parts))
	for i, p := range parts {
		terms[i] = l.term(p)
		if p.desc != backwards {
			terms[i] += " DESC"
		}
	}
	return strings.Join(terms, ",")
}

// whole is the order of an index's entries: its parts and then those of the key that tells rows apart.
func (l *layout) whole(x *index, backwards bool) string {
	return l.order(append(slices.Clone(x.parts), l.identity().parts...), backwards)
}

func (c *comparer) layout(ctx context.Context, t CachedTable) (*layout, error) {
	l := &layout{table: t}
	err := c.query(ctx, fmt.Sprintf(`SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COALESCE(CHARACTER_SET_NAME,''), COALESCE(COLLATION_NAME,''),
		COALESCE(CHARACTER_MAXIMUM_LENGTH,0), EXTRA FROM information_schema.COLUMNS WHERE BINARY TABLE_SCHEMA=%s AND BINARY TABLE_NAME=%s
		ORDER BY ORDINAL_POSITION`, hexLiteral("binary", []byte(t.Schema)), hexLiteral("binary", []byte(t.Table))), func(v [][]byte) {
		col := column{
			name: string(v[0]), kind: strings.ToLower(string(v[1])), typeText: string(v[2]), charset: string(v[4]), collation: string(v[5]),
			length: number(v[6]), hidden: strings.Contains(strings.ToUpper(string(v[7])), "INVISIBLE"),
			nullable: string(v[3]) == "YES",
		}
		if !col.hidden && !strings.ContainsAny(col.name, ",\t\n") {
			l.visible = append(l.visible, len(l.columns))
		}
		l.columns = append(l.columns, col)
	})
	if err != nil {
		return nil, err
	}
	usable := true
	err = c.query(ctx, "SHOW INDEX FROM "+l.name(), func(v [][]byte) {
		const nonUnique, keyName, seq, columnName, collation, subPart, indexType = 1, 2, 3, 4, 5, 7, 10
		if string(v[seq]) == "1" {
			l.indexes = append(l.indexes, &index{name: string(v[keyName]), unique: string(v[nonUnique]) == "0"})
			usable = true
		}
		x := l.indexes[len(l.indexes)-1]
		at := slices.IndexFunc(l.columns, func(col column) bool { return v[columnName] != nil && col.name == string(v[columnName]) })
		if at < 0 || string(v[indexType]) != "BTREE" {
			usable = false
		}
		if !usable {
			x.name = ""
		}
		x.parts = append(x.parts, part{column: at, prefix: number(v[subPart]), desc: string(v[collation]) == "D"})
	})
	l.indexes = slices.DeleteFunc(l.indexes, func(x *index) bool { return x.name == "" })
	return l, err
}

// row is a row of the server with its places in the order of an index.
type row struct {
	values [][]byte // of layout.columns, hidden ones included
	ranks  []int    // by the first part, the first two, and so on: equal for rows that are equal so far
}

// ranked reads the rows in the order of an index.
func (c *comparer) ranked(ctx context.Context, l *layout, x *index) ([]row, error) {
	terms := make([]string, 0, len(l.columns)+len(x.parts))
	for _, col := range l.columns {
		terms = append(terms, quoteName(col.name))
	}
	for n := range x.parts {
		terms = append(terms, "DENSE_RANK() OVER (ORDER BY "+l.order(x.parts[:n+1], false)+")")
	}
	var rows []row
	err := c.query(ctx, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", strings.Join(terms, ","), l.name(), l.whole(x, false)), func(v [][]byte) {
		r := row{ranks: make([]int, len(x.parts))}
		for _, value := range v[:len(l.columns)] {
			r.values = append(r.values, bytes.Clone(value))
		}
		for n := range x.parts {
			r.ranks[n] = number(v[len(l.columns)+n])
		}
		rows = append(rows, r)
	})
	return rows, err
}

// shown are the values that are compared.
func (l *layout) shown(values [][]byte) [][]byte {
	out := make([][]byte, len(l.visible))
	for i, at := range l.visible {
		out[i] = values[at]
	}
	return out
}

// query gives the bytes that the server sends, without conversion of character sets; nil is NULL.
func (c *comparer) query(ctx context.Context, query string, take func(values [][]byte)) error {
	return c.raw.Query(ctx, query, func(values [][]byte) error {
		take(values)
		return nil
	})
}

// equalRows tells NULL (nil) from the empty text.
func equalRows(a, b [][]byte) bool {
	return slices.EqualFunc(a, b, func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) })
}

func number(b []byte) int {
	n := 0
	for _, c := range b {
		n = 10*n + int(c-'0')
	}
	return n
}

func hexLiteral(charset string, v []byte) string { return fmt.Sprintf("_%s X'%X'", charset, v) }
