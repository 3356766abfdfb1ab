package dbreader

import (
	"context"
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// SearchLocked gives the rows of s to row, in the order of Search, within the transaction that is open on c, and locks
// them against changes by others until its end. All rows are read, whatever row makes of them, because the connection has
// to stay in step; an error of row ends the search, and may cost the connection.
//
// Other than Search it can't walk an index as the server would, so a value that only the server can convert is compared
// as a string literal, and rows of equal keys of a table without key come in any order.
func SearchLocked(ctx context.Context, c *sqltext.Conn, s *schema.Search, row func(row rowcodec.Row) error) error {
	p, err := newPlan(s)
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	failed := error(nil)
	out := &rows{plan: p, emit: func(r rowcodec.Row) bool {
		failed = row(r)
		return failed == nil
	}}
	sql := append(p.appendSelect(nil), " FOR UPDATE"...)
	err = c.Stream(ctx, string(sql), out.selected)
	if failed != nil && errors.Is(err, errStop) {
		return failed
	}
	return err
}

// AppendOne appends the WHERE clause that finds the one row whose values of a unique index are these. ok is false, and dst
// comes back as it was, where there may be more than one such row, or where only a walk of the index finds it right.
func AppendOne(dst []byte, def *schema.Table, index int, values [][]byte) (out []byte, ok bool) {
	p, err := newPlan(&schema.Search{Def: def, Index: index, Op: schema.OpEQ, Values: values})
	if err != nil || !p.single() {
		return dst, false
	}
	for i := range p.values {
		if !p.values[i].converted || p.index.Parts[i].Prefix > 0 {
			return dst, false
		}
	}
	return p.appendWhere(dst), true
}
