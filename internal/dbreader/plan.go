package dbreader

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/headroom"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// plan is a search made ready for SQL.
type plan struct {
	s     *schema.Search
	index *schema.Index
	// order is the index's parts and then those of the clustered key that it does not hold whole: the order in which
	// InnoDB keeps the entries.
	order []schema.Part
	// values stand for s.Values.
	values []operand
	// columns tells for each column of the definition whether it is wanted.
	columns []bool
	// walk is true where a HANDLER statement serves better than a SELECT.
	walk bool
}

// operand is a request value as an SQL literal.
type operand struct {
	null bool
	// converted is true when sql stands for what the column would hold, false when it is the request's own text.
	converted bool
	sql       []byte
}

func newPlan(s *schema.Search) (*plan, error) {
	def := s.Def
	if s.Index < 0 || s.Index >= len(def.Indexes) {
		return nil, fmt.Errorf("%w: %s has no index %d", ErrBadSearch, def.FullName(), s.Index)
	}
	p := &plan{s: s, index: &def.Indexes[s.Index]}
	name := def.FullName() + " index " + p.index.Name
	if len(s.Values) == 0 || len(s.Values) > len(p.index.Parts) {
		return nil, fmt.Errorf("%w: %s: %d values for %d parts", ErrBadSearch, name, len(s.Values), len(p.index.Parts))
	}
	if !p.index.BTree {
		return nil, fmt.Errorf("%w: %s is no B-tree", ErrUnsupportedIndex, name)
	}
	for _, part := range p.index.Parts {
		if part.Column < 0 {
			return nil, fmt.Errorf("%w: %s holds an expression", ErrUnsupportedIndex, name)
		}
	}
	p.columns = make([]bool, len(def.Columns))
	for i := range p.columns {
		p.columns[i] = s.Columns == nil
	}
	for _, column := range s.Columns {
		if column < 0 || column >= len(def.Columns) {
			return nil, fmt.Errorf("%w: %s has no column %d", ErrBadSearch, def.FullName(), column)
		}
		p.columns[column] = true
	}
	p.makeOrder()
	return p, p.makeValues()
}

// makeOrder sets order, and walk where the order needs it.
func (p *plan) makeOrder() {
	def := p.s.Def
	p.order = append(p.order, p.index.Parts...)
	clustered := def.IndexByName("PRIMARY")
	if clustered < 0 {
		clustered = def.Key
	}
	if clustered < 0 {
		// Equal keys are in the order of a row number that SQL can't name.
		p.walk = !p.single()
	} else if clustered != p.s.Index {
		whole := make(map[int]bool, len(p.order))
		for _, part := range p.order {
			if part.Prefix == 0 {
				whole[part.Column] = true
			}
		}
		for _, part := range def.Indexes[clustered].Parts {
			if part.Column >= 0 && !whole[part.Column] {
				p.order = append(p.order, part)
			}
		}
	}
	// The optimizers don't use hidden indexes, nor the first characters of a column for looking up or sorting by an
	// expression.
	p.walk = p.walk || p.index.Hidden
	for _, part := range p.order {
		p.walk = p.walk || part.Prefix > 0
	}
	// Nor does MySQL's read ranges backwards where the index has parts of both directions.
	if !p.up() {
		for _, part := range p.order {
			p.walk = p.walk || part.Desc != p.order[0].Desc
		}
	}
}

// single reports that at most one row answers the search.
func (p *plan) single() bool {
	if p.s.Op != schema.OpEQ || !p.index.Unique || len(p.s.Values) != len(p.index.Parts) {
		return false
	}
	for i, part := range p.index.Parts {
		if p.s.Values[i] == nil && p.s.Def.Columns[part.Column].Nullable {
			return false
		}
	}
	return true
}

func (p *plan) makeValues() error {
	for i, v := range p.s.Values {
		c := &p.s.Def.Columns[p.index.Parts[i].Column]
		if v == nil && c.Nullable {
			p.values = append(p.values, operand{null: true})
			continue
		}
		sql, err := literal(c, v)
		if err != nil && !errors.Is(err, rowcodec.ErrPass) {
			return err
		}
		if err != nil {
			p.walk = true
			if v == nil {
				v = []byte{} // stored, it becomes the zero value, as NULL would
			}
			sql = schema.AppendLiteral(nil, c, v)
		}
		p.values = append(p.values, operand{converted: err == nil, sql: sql})
	}
	return nil
}

// literal gives a request value as a literal that compares with column c as the stored values do.
func literal(c *schema.Column, v []byte) ([]byte, error) {
	text, err := rowcodec.Convert([]byte{}, c, v) // never nil, which would be NULL
	if err != nil {
		return nil, err
	}
	switch c.Kind {
	case schema.KindEnum, schema.KindSet:
		// Labels compare as texts, but are stored and ordered as numbers.
		n, ok := memberNumber(c, text)
		if !ok {
			return nil, rowcodec.ErrPass
		}
		return strconv.AppendUint(nil, n, 10), nil
	case schema.KindDouble:
		// With an exponent it is a DOUBLE; without one it would be a DECIMAL.
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return nil, rowcodec.ErrPass
		}
		return strconv.AppendFloat(nil, f, 'e', -1, 64), nil
	}
	return schema.AppendLiteral(nil, c, text), nil
}

// memberNumber is the number by which the server keeps the canonical text of an ENUM or SET.
func memberNumber(c *schema.Column, text []byte) (n uint64, ok bool) {
	if c.Kind == schema.KindEnum {
		for i, m := range c.Members {
			if string(m) == string(text) {
				return uint64(i) + 1, true
			}
		}
		return 0, len(text) == 0
	}
	for i, m := range c.Members {
		if len(text) < len(m) || string(text[:len(m)]) != string(m) {
			continue
		}
		switch rest := text[len(m):]; {
		case len(rest) == 0:
			return n | 1<<i, true
		case rest[0] == ',':
			n |= 1 << i
			text = rest[1:]
		}
	}
	return n, len(text) == 0
}

// errStop ends a statement whose rows nobody wants any more.
var errStop = errors.New("rows no longer wanted")

// read runs the search. visible tells that rows have been given.
func (p *plan) read(ctx context.Context, c *sqltext.Conn, emit func(rowcodec.Row) bool) (visible bool, err error) {
	out := &rows{plan: p, emit: emit}
	done := false
	if p.walk && !p.needsInvisible() {
		done, err = p.readHandler(ctx, c, out)
	}
	if !done && err == nil {
		err = c.Stream(ctx, string(p.appendSelect(nil)), out.selected)
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	return out.given, err
}

// rows makes rows of what the server sends.
type rows struct {
	*plan
	emit    func(rowcodec.Row) bool
	given   bool
	builder rowcodec.Builder
	row     []byte
}

// selected takes a row that has the wanted columns only.
func (r *rows) selected(f sqltext.Fields) error {
	r.builder.Reset()
	for _, wanted := range r.columns {
		if !wanted {
			r.builder.Null()
			continue
		}
		if err := r.add(&f); err != nil {
			return err
		}
	}
	return r.finish()
}

func (r *rows) add(f *sqltext.Fields) error {
	v, null, ok := f.Next()
	switch {
	case !ok:
		return sqltext.ErrMalformed
	case null:
		r.builder.Null()
	default:
		r.builder.Add(v)
	}
	return nil
}

func (r *rows) finish() error {
	row := r.builder.Finish(r.row)
	if len(row) <= rowcodec.OwnRow {
		r.row = row
	}
	r.given = true
	headroom.Want(len(row)) // for the answer
	if !r.emit(row) {
		return errStop
	}
	return nil
}
