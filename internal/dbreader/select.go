package dbreader

import (
	"strconv"

	"github.com/binlogcache/binlogcache/schema"
)

// appendSelect appends the search as a SELECT.
//
// Values of several parts become one term for each part that may decide:
//
//	(a, b) after (1, 2)   ->   a > 1 OR a = 1 AND b > 2
//
// which the optimizers read as ranges of the index; they don't do that with row values. NULLs stand before all values.
func (p *plan) appendSelect(dst []byte) []byte {
	def := p.s.Def
	dst = append(dst, "SELECT "...)
	first := true
	for i, wanted := range p.columns {
		if !wanted {
			continue
		}
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		dst = append(dst, schema.QuoteName(def.Columns[i].Name)...)
	}
	if first {
		dst = append(dst, '1')
	}
	dst = append(dst, " FROM "...)
	dst = append(dst, schema.QuoteName(def.Schema)...)
	dst = append(dst, '.')
	dst = append(dst, schema.QuoteName(def.Name)...)
	if !p.index.Hidden {
		dst = append(dst, " FORCE INDEX ("...)
		dst = append(dst, schema.QuoteName(p.index.Name)...)
		dst = append(dst, ')')
	}
	dst = p.appendWhere(dst)
	dst = p.appendOrder(dst)
	return p.appendLimit(dst)
}

// up reports the direction of the walk.
func (p *plan) up() bool {
	return p.s.Op == schema.OpEQ || p.s.Op == schema.OpGT || p.s.Op == schema.OpGE
}

func (p *plan) appendWhere(dst []byte) []byte {
	where := " WHERE "
	if p.s.Op == schema.OpEQ {
		dst = append(dst, where...)
		return p.appendEqual(dst, len(p.values))
	}
	start := len(dst)
	last := len(p.values) - 1
	for i := range p.values {
		strict := i < last || p.s.Op == schema.OpGT || p.s.Op == schema.OpLT
		verdict := p.decides(i, strict)
		switch {
		case verdict == never:
			continue
		case verdict == always && i == 0:
			return dst[:start] // all rows
		}
		dst = append(dst, where...)
		where = " OR "
		if i > 0 {
			dst = p.appendEqual(dst, i)
			if verdict == always {
				continue
			}
			dst = append(dst, " AND "...)
		}
		dst = p.appendBeyond(dst, i, strict)
	}
	if len(dst) == start {
		dst = append(dst, " WHERE 1 = 0"...) // beyond NULL, with nothing beyond it
	}
	return dst
}

// appendExpr appends what the index holds of a part.
func (p *plan) appendExpr(dst []byte, part schema.Part) []byte {
	name := schema.QuoteName(p.s.Def.Columns[part.Column].Name)
	if part.Prefix == 0 {
		return append(dst, name...)
	}
	dst = append(dst, "LEFT("...)
	dst = append(dst, name...)
	return appendPrefix(dst, part)
}

func (p *plan) appendValue(dst []byte, i int) []byte {
	part := p.index.Parts[i]
	if part.Prefix == 0 {
		return append(dst, p.values[i].sql...)
	}
	dst = append(dst, "LEFT("...)
	dst = append(dst, p.values[i].sql...)
	return appendPrefix(dst, part)
}

func appendPrefix(dst []byte, part schema.Part) []byte {
	dst = append(dst, ", "...)
	dst = strconv.AppendInt(dst, int64(part.Prefix), 10)
	return append(dst, ')')
}

// appendEqual appends that the first n parts equal the values.
func (p *plan) appendEqual(dst []byte, n int) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, " AND "...)
		}
		dst = p.appendExpr(dst, p.index.Parts[i])
		if p.values[i].null {
			dst = append(dst, " IS NULL"...)
			continue
		}
		dst = append(dst, " = "...)
		dst = p.appendValue(dst, i)
	}
	return dst
}

// verdict is what can be said of a comparison without looking at rows.
type verdict uint8

const (
	depends verdict = iota
	always
	never
)

// larger reports whether going on in the walk's direction means larger values of part i.
func (p *plan) larger(i int) bool { return p.up() != p.index.Parts[i].Desc }

// decides tells whether part i can be beyond its value, in the walk's direction; or at it, unless strict.
func (p *plan) decides(i int, strict bool) verdict {
	if !p.values[i].null {
		return depends
	}
	switch {
	case p.larger(i) && !strict:
		return always
	case !p.larger(i) && strict:
		return never
	}
	return depends
}

// appendBeyond appends that part i is beyond its value; or at it, unless strict.
func (p *plan) appendBeyond(dst []byte, i int, strict bool) []byte {
	part := p.index.Parts[i]
	larger := p.larger(i)
	if p.values[i].null {
		dst = p.appendExpr(dst, part)
		if larger {
			return append(dst, " IS NOT NULL"...)
		}
		return append(dst, " IS NULL"...)
	}
	// Below every value is NULL.
	orNull := !larger && p.s.Def.Columns[part.Column].Nullable
	if orNull {
		dst = append(dst, '(')
	}
	dst = p.appendExpr(dst, part)
	switch {
	case larger && strict:
		dst = append(dst, " > "...)
	case larger:
		dst = append(dst, " >= "...)
	case strict:
		dst = append(dst, " < "...)
	default:
		dst = append(dst, " <= "...)
	}
	dst = p.appendValue(dst, i)
	if orNull {
		dst = append(dst, " OR "...)
		dst = p.appendExpr(dst, part)
		dst = append(dst, " IS NULL)"...)
	}
	return dst
}

func (p *plan) appendOrder(dst []byte) []byte {
	if p.single() {
		return dst
	}
	by := " ORDER BY "
	for _, part := range p.order[p.fixed():] {
		dst = append(dst, by...)
		by = ", "
		dst = p.appendExpr(dst, part)
		if part.Desc == p.up() {
			dst = append(dst, " DESC"...)
		}
	}
	return dst
}

// fixed is the number of first parts that are the same in all rows. The optimizers don't always see that by themselves.
func (p *plan) fixed() int {
	if p.s.Op == schema.OpEQ {
		return len(p.values)
	}
	last := len(p.values) - 1
	for i := range p.values {
		strict := i < last || p.s.Op == schema.OpGT || p.s.Op == schema.OpLT
		if p.decides(i, strict) == never {
			continue // it equals its value
		}
		if i == last && p.values[i].null && !p.larger(i) {
			return i + 1 // IS NULL
		}
		return i
	}
	return 0
}

func (p *plan) appendLimit(dst []byte) []byte {
	if p.s.Limit <= 0 && p.s.Offset <= 0 {
		return dst
	}
	dst = append(dst, " LIMIT "...)
	dst = appendCount(dst, p.s.Limit)
	if p.s.Offset > 0 {
		dst = append(dst, " OFFSET "...)
		dst = strconv.AppendInt(dst, int64(p.s.Offset), 10)
	}
	return dst
}

// appendCount appends a limit; SQL has no word for none.
func appendCount(dst []byte, limit int) []byte {
	if limit <= 0 {
		return append(dst, "18446744073709551615"...)
	}
	return strconv.AppendInt(dst, int64(limit), 10)
}
