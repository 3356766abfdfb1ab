package hsserver

import "github.com/binlogcache/binlogcache/schema"

// request is a parsed line that begins with an index id.
type request struct {
	kind   requestKind
	op     schema.Op
	values [maxKeyValues][]byte
	n      int // of values

	limit, offset uint32 // limit is at least 1
	in            [][]byte
	inColumn      uint32
	hasIn         bool
	beyond        limit // why parse has failed, if that was it
	filters       []filter
	modify        []byte // empty: it only finds

	// What a write sets, in the order of the opened columns.
	set     [][]byte
	missing bool // an insert has fewer values than it says
	change  schema.ChangeKind
	before  bool // the rows as they were before are wanted

	detached []byte // the memory of values that had to outlive the input
}

type requestKind uint8

const (
	kindFind    requestKind = iota
	kindInsert              // +
	kindSQL                 // S, which was never made
	kindUnknown             // no operator
)

// filter is one condition on a row.
type filter struct {
	ends  bool // W: the first row that fails ends the command
	op    filterOp
	field int    // position among the filter columns
	value []byte // nil: NULL
	key   []byte // value in the form that comparer compares
}

// parse reads a request as far as it can be without a table. The order of the checks is the plugin's.
func (r *request) parse(t *tokens, ix *openIndex) failure {
	r.kind, r.op = operator(t.next())
	n := t.number()
	r.set, r.missing, r.beyond = r.set[:0], false, limitNone
	if r.kind == kindInsert {
		if n > maxInsertValues {
			return failManyValues
		}
		r.n = 0
		r.parseInsert(t, int(n), len(ix.columnAt))
	} else {
		if n > maxKeyValues {
			return failManyValues
		}
		r.n = int(n)
		for i := range r.n {
			r.values[i] = t.value()
		}
	}
	r.limit = max(t.number(), 1)
	r.offset = t.number()
	r.hasIn, r.in, r.filters, r.modify = false, r.in[:0], r.filters[:0], nil
	if t.more() {
		if f := r.parseOptions(t, ix); f != "" {
			return f
		}
	}
	switch {
	case r.kind == kindUnknown:
		return failOperator
	case n == 0:
		return failNoValues
	}
	return ""
}

// parseInsert reads the n values of an insert; those beyond the opened columns don't count.
func (r *request) parseInsert(t *tokens, n, columns int) {
	for range n {
		if !t.more() {
			r.missing = true
			return
		}
		if v := t.value(); len(r.set) < columns {
			r.set = append(r.set, v)
		}
	}
}

// parseSet reads the values of a modification.
func (r *request) parseSet(t *tokens, columns int) {
	for t.more() && len(r.set) < columns {
		r.set = append(r.set, t.value())
	}
}

func operator(tok []byte) (requestKind, schema.Op) {
	switch string(tok) {
	case "=":
		return kindFind, schema.OpEQ
	case ">":
		return kindFind, schema.OpGT
	case ">=":
		return kindFind, schema.OpGE
	case "<":
		return kindFind, schema.OpLT
	case "<=":
		return kindFind, schema.OpLE
	case "+":
		return kindInsert, 0
	case "S":
		return kindSQL, 0
	}
	return kindUnknown, 0
}

// parseOptions reads what follows the offset: an IN list, filters, a modification.
func (r *request) parseOptions(t *tokens, ix *openIndex) failure {
	tok := t.next()
	if first(tok) == '@' {
		r.hasIn = true
		r.inColumn = t.number()
		count := t.number()
		if count == 0 || count > maxInValues {
			if count > 0 {
				r.beyond = limitInValues
			}
			return failInValues
		}
		for range count {
			r.in = append(r.in, t.text())
		}
		tok = t.next()
	}
	for first(tok) == 'F' || first(tok) == 'W' {
		f := filter{ends: tok[0] == 'W', op: filterOperator(t.next())}
		field := t.number()
		f.value = t.value()
		if len(tok) > 1 || len(r.filters) == maxFilters {
			if len(tok) == 1 {
				r.beyond = limitFilters
			}
			return failFilterType
		}
		if int64(field) >= int64(len(ix.filterAt)) {
			return failFilterField
		}
		f.field = int(field)
		r.filters = append(r.filters, f)
		tok = t.next()
	}
	r.modify = tok
	return ""
}

// first returns the first byte of a token, 0 for an empty one.
func first(tok []byte) byte {
	if len(tok) == 0 {
		return 0
	}
	return tok[0]
}

// detach copies the values out of the connection's input, so that the request can wait.
func (r *request) detach() {
	size := 0
	for _, v := range r.values[:r.n] {
		size += len(v)
	}
	for _, v := range r.in {
		size += len(v)
	}
	for i := range r.filters {
		size += len(r.filters[i].value)
	}
	for _, v := range r.set {
		size += len(v)
	}
	if cap(r.detached) < size || cap(r.detached) > maxKeptRequest {
		r.detached = make([]byte, 0, size)
	}
	buf := r.detached[:0]
	keep := func(v *[]byte) {
		if len(*v) > 0 { // else it is NULL or empty, and must stay what it is
			start := len(buf)
			buf = append(buf, *v...)
			*v = buf[start:len(buf):len(buf)]
		}
	}
	for i := range r.values[:r.n] {
		keep(&r.values[i])
	}
	for i := range r.in {
		keep(&r.in[i])
	}
	for i := range r.filters {
		keep(&r.filters[i].value)
	}
	for i := range r.set {
		keep(&r.set[i])
	}
	r.detached = buf
}

// maxKeptRequest bounds what a connection keeps of a large request for the next one.
const maxKeptRequest = 64 << 10

// shrink lets go of the memory of a large request, which a quiet connection would hold on to. That of the input is held by
// the values.
func (r *request) shrink() {
	clear(r.values[:])
	clear(r.in[:cap(r.in)])
	clear(r.filters[:cap(r.filters)])
	clear(r.set[:cap(r.set)])
	r.modify = nil
	if cap(r.in) > maxKeptRequest/16 {
		r.in = nil
	}
	if cap(r.detached) > maxKeptRequest {
		r.detached = nil
	}
}
