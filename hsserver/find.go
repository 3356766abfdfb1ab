package hsserver

import (
	"context"
	"errors"
	"slices"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// exec carries out a request on an open index.
func (s *session) exec(id uint32, t *tokens, out []byte) []byte {
	ix := s.ids.get(id)
	if ix == nil {
		return append(out, failID...)
	}
	r := &s.req
	if f := r.parse(t, ix); f != "" {
		if r.beyond != limitNone {
			s.count.limits[r.beyond].Add(1)
		}
		return append(out, f...)
	}
	if r.kind != kindFind || len(r.modify) > 0 {
		return s.write(ix, t, out)
	}
	s.count.finds.Add(1)
	s.joinRun(ix)
	out, outcome := s.findInMemory(ix, out, true)
	if outcome == answered {
		return out
	}
	s.parkFind(ix, outcome)
	return out
}

// parkFind lets a worker answer the find that could not be answered at once. (It is apart from exec because what its job
// changes would be allocated for every find there.)
func (s *session) parkFind(ix *openIndex, outcome outcome) {
	s.count.parked.Add(1)
	s.req.detach()
	s.park(func(ctx context.Context, out []byte) []byte {
		if outcome == tooLong {
			out, outcome = s.findInMemory(ix, out, false)
		}
		if outcome != answered {
			out = s.findInDatabase(ctx, ix, out)
		}
		s.shrink()
		return out
	})
}

// answer collects the rows of a find.
type answer struct {
	ix      *openIndex
	filters []filter
	out     []byte
	start   int // where the rows begin in out

	rows    int  // appended
	limit   int  // of rows
	skip    int  // rows to leave out that pass the filters
	visited int  // rows looked at
	ended   bool // nothing more is wanted
	inAt    int  // position in the IN list

	inline  bool    // the bounds of inline answers hold
	over    bool    // they were passed
	failure failure // what went wrong

	keys, rowKey []byte // memory of filter keys
}

// outcome says how far a find has come.
type outcome uint8

const (
	answered outcome = iota // the answer is complete, be it a failure
	pass                    // only the database can answer
	tooLong                 // memory can answer, but not at once
)

// maxTries bounds how often names are resolved again for one request while the table's definition keeps changing.
const maxTries = 3

// findInMemory answers from memory what memory can answer. Unless it did, out is returned as it was.
func (s *session) findInMemory(ix *openIndex, out []byte, inline bool) ([]byte, outcome) {
	start := len(out)
	for range maxTries {
		def := s.definitionInMemory(ix.t)
		if def == nil {
			return out, pass
		}
		if f := s.begin(ix, def, out, inline); f != "" {
			return append(out, f...), answered
		}
		a := &s.answer
		if a.over {
			return out, tooLong
		}
		served, err := s.searchMemory()
		a.out, out = nil, a.out // as it has grown
		switch {
		case err != nil && errors.Is(err, ErrChanged):
			out = out[:start]
			continue
		case a.failure != "":
			return append(out[:start], a.failure...), answered
		case a.over:
			return out[:start], tooLong
		case err != nil || !served:
			return out[:start], pass
		}
		s.count.rows.Add(uint64(a.rows))
		return append(out, '\n'), answered
	}
	return out, pass
}

// begin makes the search of the request at hand for the table's definition def, and the beginning of the answer.
func (s *session) begin(ix *openIndex, def *schema.Table, out []byte, inline bool) failure {
	if f := ix.current(def); f != "" {
		return f
	}
	r, a := &s.req, &s.answer
	if r.n > len(def.Indexes[ix.pos].Parts) {
		return failKeyParts
	}
	if len(r.filters) > 0 {
		var f failure
		if a.keys, f = prepareFilters(r.filters, ix, a.keys); f != "" {
			return f
		}
	}
	a.ix, a.filters = ix, r.filters
	a.out = append(out, ix.head...)
	a.start = len(a.out)
	a.rows, a.visited, a.limit, a.skip = 0, 0, int(r.limit), int(r.offset)
	a.inline, a.over, a.failure = inline, false, ""
	a.ended = r.limit+r.offset < r.limit // wraps at 32 bits: no rows
	s.search = schema.Search{Def: def, Index: ix.pos, Op: r.op, Values: r.values[:r.n], Columns: ix.needed}
	if !r.hasIn && len(r.filters) == 0 {
		s.search.Limit, s.search.Offset = a.limit, a.skip
		a.skip = 0
		if inline && s.search.Offset > inlineRows {
			a.over = !a.ended
		}
	}
	if inline && len(r.in) > inlineValues {
		a.over = !a.ended
	}
	return ""
}

// searchMemory runs the search, or the searches of an IN list, which see one state.
func (s *session) searchMemory() (served bool, err error) {
	if s.answer.ended {
		return true, nil
	}
	if !s.req.hasIn {
		return s.searchOnce()
	}
	if !s.run.held {
		s.run.tables = append(s.run.tables[:0], s.answer.ix.t)
		if s.hold() {
			defer s.endRun()
		}
	}
	for s.firstInValue(); ; {
		if served, err := s.searchOnce(); err != nil || !served {
			return served, err
		}
		if !s.nextInValue() {
			return true, nil
		}
	}
}

// firstInValue makes the search that of the first value of the IN list, for one row.
func (s *session) firstInValue() {
	s.search.Limit = 1
	s.answer.inAt = 0
	s.takeInValue()
}

// nextInValue makes the search that of the next value, unless nothing more is wanted.
func (s *session) nextInValue() bool {
	s.answer.inAt++
	if s.answer.ended || s.answer.inAt >= len(s.req.in) {
		return false
	}
	s.takeInValue()
	return true
}

// takeInValue puts a value of the list in its place. A place that is not that of a key value just repeats the search.
func (s *session) takeInValue() {
	if r := &s.req; r.inColumn < uint32(r.n) {
		r.values[r.inColumn] = r.in[s.answer.inAt]
	}
}

// emitRow takes one row of the search and reports whether more are wanted.
func (s *session) emitRow(row rowcodec.Row, _ uint64) bool {
	a := &s.answer
	a.visited++
	s.run.work++
	if a.inline && (a.visited > inlineRows || len(a.out)-a.start > inlineBytes) {
		a.over, a.ended = true, true
		return false
	}
	if len(a.filters) > 0 {
		switch a.filter(row) {
		case filterSkip:
			return true
		case filterEnd:
			a.ended = true
			return false
		case filterError:
			a.failure, a.ended = failFilterField, true
			return false
		}
	}
	if a.skip > 0 {
		a.skip--
		return true
	}
	a.out = appendRow(a.out, row, a.ix.columnAt)
	a.rows++
	if len(a.out)-a.start > maxAnswerBytes || a.rows > maxAnswerRows {
		a.failure, a.ended = failTooLarge, true
		s.count.limits[limitAnswer].Add(1)
		return false
	}
	if a.rows >= a.limit {
		a.ended = true
		return false
	}
	return true
}

// largeValue is from where on the room for a value is made at once.
const largeValue = 64 << 10

// appendRow appends the columns of one row.
func appendRow(out []byte, row rowcodec.Row, columns []int) []byte {
	plain := row.Plain()
	for _, c := range columns {
		out = append(out, '\t')
		v, null := row.Value(c)
		if len(v) >= largeValue {
			// Growing step by step would leave several times the value to the collector.
			room := len(v) / 16
			if plain {
				room = len(v) / 64 // for what comes behind
			}
			out = slices.Grow(out, len(v)+room)
		}
		switch {
		case null:
			out = append(out, nullByte)
		case plain:
			out = append(out, v...)
		default:
			out = appendEscaped(out, v)
		}
	}
	return out
}

// findInDatabase answers from the database. It is called from parked jobs.
func (s *session) findInDatabase(ctx context.Context, ix *openIndex, out []byte) []byte {
	start := len(out)
	var err error
	for range maxTries {
		def, f := s.definition(ctx, ix, err)
		if f != "" {
			return append(out, f...)
		}
		if f := s.begin(ix, def, out, false); f != "" {
			return append(out, f...)
		}
		a := &s.answer
		err = s.searchDatabase(ctx)
		a.out, out = nil, a.out
		if a.failure != "" {
			return append(out[:start], a.failure...)
		}
		if err == nil {
			s.count.rows.Add(uint64(a.rows))
			return append(out, '\n')
		}
		out = out[:start]
		if !errors.Is(err, ErrChanged) {
			break
		}
	}
	if ctx.Err() == nil {
		s.server.warn("find can't be answered", s.conn, err, "table", ix.schema+"."+ix.table)
	}
	return append(out, failDatabase...)
}

// definition gives the definition of an open index's table, asking for it where it is not known or err says that it is
// out of date.
func (s *session) definition(ctx context.Context, ix *openIndex, err error) (*schema.Table, failure) {
	if def := ix.t.Def(); def != nil && err == nil {
		return def, ""
	}
	def, f := s.find(ctx, ix)
	if f == failTable {
		f = failID
	}
	return def, f
}

func (s *session) searchDatabase(ctx context.Context) error {
	a := &s.answer
	if a.ended {
		return nil
	}
	if !s.req.hasIn {
		return a.ix.t.SearchDatabase(ctx, &s.search, s.emitStored)
	}
	for s.firstInValue(); ; {
		if err := a.ix.t.SearchDatabase(ctx, &s.search, s.emitStored); err != nil {
			return err
		}
		if !s.nextInValue() {
			return nil
		}
	}
}
