package hsserver

import (
	"bytes"
	"slices"

	"github.com/binlogcache/binlogcache/schema"
)

// Finds that a client has sent one after the other, without waiting, are a run: what arrived together is answered from one
// state of each table. The tables are held in memory from the first find to the last, which also costs less than to
// take each find's lock. A run ends before a request that is no find, before a find that memory can't answer at once, when
// the output is full, and at these bounds, for changes of the tables wait meanwhile.
const (
	// maxRunWork bounds the finds of a run, the rows that they look at and the values of their IN lists: about a millisecond.
	// One more find, of inlineRows and inlineBytes at the most, can be begun below it.
	maxRunWork = 4096
	// maxRunTables and maxRunAhead, in bytes of input, bound the search for the tables of a run.
	maxRunTables = 16
	maxRunAhead  = 64 << 10
)

// run is the finds at hand that see one state.
type run struct {
	view   View    // nil before the first run, and where the Reader is no Viewer
	held   bool    // view holds tables
	tables []Table // that view was asked to hold
	work   int     // done, of maxRunWork

	first   Table  // that the session opened an index of
	several bool   // it has opened indexes of others, too
	ahead   []byte // the input behind the request at hand; not valid after Serve
}

// uses notes that the session has an index of a table open.
func (r *run) uses(t Table) {
	if r.first == nil {
		r.first = t
	}
	r.several = r.several || r.first != t
}

// joinRun makes the find at hand, over ix, part of a run, if others come with it.
func (s *session) joinRun(ix *openIndex) {
	r := &s.run
	if r.held {
		if r.work < maxRunWork && slices.Contains(r.tables, ix.t) {
			return
		}
		s.endRun()
	}
	if len(r.ahead) == 0 || r.ahead[0] < '0' || r.ahead[0] > '9' {
		return // as most often: the client waits for the answer
	}
	r.tables = append(r.tables[:0], ix.t)
	if r.several {
		s.tablesAhead()
	}
	s.hold()
}

// tablesAhead adds the tables of the requests that follow, as far as those look like finds.
func (s *session) tablesAhead() {
	r := &s.run
	for in := r.ahead[:min(len(r.ahead), maxRunAhead)]; len(r.tables) < maxRunTables; {
		n := bytes.IndexByte(in, '\n')
		if n < 0 {
			break
		}
		line := tokens{rest: in[:n]}
		in = in[n+1:]
		id := line.next()
		if c := first(id); c < '0' || c > '9' || first(line.rest) == '+' {
			break
		}
		if ix := s.ids.get(number(id)); ix != nil && !slices.Contains(r.tables, ix.t) {
			r.tables = append(r.tables, ix.t)
		}
	}
}

// hold begins a run over the tables of the run and reports whether that could be done.
func (s *session) hold() bool {
	r := &s.run
	if r.view == nil {
		v, ok := s.server.cfg.Reader.(Viewer)
		if !ok {
			return false
		}
		r.view = v.NewView()
	}
	r.held, r.work = true, 0
	r.view.Hold(r.tables)
	return true
}

// endRun lets the tables of a run go on, if there is one.
func (s *session) endRun() {
	if r := &s.run; r.held {
		r.held = false
		r.view.Release()
		clear(r.tables)
	}
}

// definitionInMemory returns the definition that a search in memory is to be made for, nil when memory has no answer.
func (s *session) definitionInMemory(t Table) *schema.Table {
	if s.run.held {
		return s.run.view.Def(t)
	}
	return t.Def()
}

// searchOnce runs the search at hand in memory.
func (s *session) searchOnce() (served bool, err error) {
	r, t := &s.run, s.answer.ix.t
	if !r.held {
		return t.SearchMemory(&s.search, s.emit)
	}
	r.work += 1 + max(s.search.Offset, 0)
	return r.view.SearchMemory(t, &s.search, s.emit)
}
