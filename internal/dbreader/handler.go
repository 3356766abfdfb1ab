package dbreader

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// alias is the name of the open table within its session.
const alias = "`binlogcache_walk`"

// needsInvisible reports that a wanted column is invisible: HANDLER gives those of SELECT *.
func (p *plan) needsInvisible() bool {
	for i, wanted := range p.columns {
		if wanted && p.s.Def.Columns[i].Invisible {
			return true
		}
	}
	return false
}

// readHandler runs the search as HANDLER statements, by which the server does what the HandlerSocket plugin does: it
// stores the values in the columns of the index and walks it from there. It reads what is committed, without locks.
//
// The table stays open, and safe from DDL, for the time of the search only. done is false for a partitioned table: the
// servers walk its partitions out of order.
func (p *plan) readHandler(ctx context.Context, c *sqltext.Conn, out *rows) (done bool, err error) {
	def := p.s.Def
	table := schema.QuoteName(def.Schema) + "." + schema.QuoteName(def.Name)
	if err := c.Exec(ctx, "HANDLER "+table+" OPEN AS "+alias); err != nil {
		return false, err
	}
	defer func() {
		if c.Broken() {
			return
		}
		if closeErr := c.Exec(ctx, "HANDLER "+alias+" CLOSE"); closeErr != nil {
			c.Close()
			if err == nil && !done {
				err = closeErr
			}
		}
	}()
	partitioned, err := p.checkOpened(ctx, c)
	if err != nil || partitioned {
		return false, err
	}
	visible := make([]int, 0, len(def.Columns))
	for i := range def.Columns {
		if !def.Columns[i].Invisible {
			visible = append(visible, i)
		}
	}
	changed := func() error { return fmt.Errorf("%w: other columns than before", ErrTableChanged) }
	column := func(i int, name []byte) error {
		// The columns come by position, so they must be those that the search means.
		if i >= len(visible) || def.Columns[visible[i]].Name != string(name) {
			return changed()
		}
		return nil
	}
	err = c.StreamNamed(ctx, string(p.appendHandlerRead(nil)), column, func(f sqltext.Fields) error {
		if f.Len() != len(visible) {
			return changed()
		}
		return out.handled(f)
	})
	return err == nil || errors.Is(err, errStop), err
}

// checkOpened looks at the open table: whether it is partitioned, and whether the index is the one that the search
// means. HANDLER would take another one of the same name.
func (p *plan) checkOpened(ctx context.Context, c *sqltext.Conn) (partitioned bool, err error) {
	def := p.s.Def
	where := "TABLE_SCHEMA = " + nameLiteral(def.Schema) + " AND TABLE_NAME = " + nameLiteral(def.Name)
	var parts []schema.Part
	err = c.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, IFNULL(SUB_PART, 0), IFNULL(COLLATION, 'A') = 'D',"+
		" (SELECT COUNT(PARTITION_NAME) FROM information_schema.PARTITIONS WHERE "+where+")"+
		" FROM information_schema.STATISTICS WHERE "+where+" AND INDEX_NAME = "+nameLiteral(p.index.Name)+" ORDER BY SEQ_IN_INDEX",
		func(v [][]byte) error {
			if string(v[0]) != def.Schema || string(v[1]) != def.Name {
				return nil // the catalog may know no case where the server's names do
			}
			partitioned = partitioned || string(v[5]) != "0"
			prefix, err := strconv.Atoi(string(v[3]))
			if err != nil {
				return fmt.Errorf("length of an index part: %w", err)
			}
			parts = append(parts, schema.Part{Column: def.ColumnIndex(string(v[2])), Prefix: prefix, Desc: string(v[4]) == "1"})
			return nil
		})
	if err == nil && !slices.Equal(parts, p.index.Parts) {
		err = fmt.Errorf("%w: index %s is another one than before", ErrTableChanged, p.index.Name)
	}
	return partitioned, err
}

// handled takes a row that has all visible columns.
func (r *rows) handled(f sqltext.Fields) error {
	r.builder.Reset()
	for i, wanted := range r.columns {
		switch {
		case r.s.Def.Columns[i].Invisible:
			r.builder.Null()
		case wanted:
			if err := r.add(&f); err != nil {
				return err
			}
		default:
			if !f.Skip(1) {
				return sqltext.ErrMalformed
			}
			r.builder.Null()
		}
	}
	return r.finish()
}

func (p *plan) appendHandlerRead(dst []byte) []byte {
	dst = append(dst, "HANDLER "+alias+" READ "...)
	dst = append(dst, schema.QuoteName(p.index.Name)...)
	dst = append(dst, [...]string{schema.OpEQ: " = ", schema.OpGT: " > ", schema.OpGE: " >= ", schema.OpLT: " < ", schema.OpLE: " <= "}[p.s.Op]...)
	sep := byte('(')
	for i, v := range p.s.Values {
		dst = append(dst, sep)
		sep = ','
		switch o := &p.values[i]; {
		case o.null:
			dst = append(dst, "NULL"...)
		case o.converted, p.isAddress(i):
			dst = append(dst, o.sql...)
		default:
			// Without a character set the bytes are stored as they are, as the plugin stores them.
			dst = append(dst, "_binary x'"...)
			dst = hex.AppendEncode(dst, v)
			dst = append(dst, '\'')
		}
	}
	dst = append(dst, ") LIMIT "...)
	if p.s.Offset > 0 {
		dst = strconv.AppendInt(dst, int64(p.s.Offset), 10)
		dst = append(dst, ", "...)
	}
	return appendCount(dst, p.s.Limit)
}

// isAddress reports that value i belongs to a column of MariaDB's types of fixed binary form, for which a text without
// character set would be that form itself.
func (p *plan) isAddress(i int) bool {
	switch p.s.Def.Columns[p.index.Parts[i].Column].Kind {
	case schema.KindUUID, schema.KindInet4, schema.KindInet6:
		return true
	}
	return false
}

// nameLiteral is a name as a literal of the catalog's character set.
func nameLiteral(name string) string {
	return "_utf8mb3 x'" + hex.EncodeToString([]byte(name)) + "'"
}
