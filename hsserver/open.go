package hsserver

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// openIndex is one open index id: the names it was opened with, and what they mean in the table's definition.
type openIndex struct {
	schema, table, index, columns, filters string
	bytes                                  int // of maxOpenBytes

	t   Table
	def *schema.Table // what the following belongs to
	pos int           // in def.Indexes
	// columns of an answer and columns that filters can name, as positions in def.Columns.
	columnAt, filterAt []int
	// needed are both, each once: what a search has to bring.
	needed []int
	// head is the beginning of each answer.
	head []byte
	// comparers are those of filterAt, made when they are first used; none before the first.
	comparers []comparer
}

// columnBytes is what one column of an open index costs beside its name: its positions, and its place in answers.
const columnBytes = 32

// open carries out P: <id> <schema> <table> <index> <columns> [<filter columns>].
func (s *session) open(t *tokens, out []byte) []byte {
	id := t.number()
	ix := &openIndex{schema: string(t.next()), table: string(t.next())}
	index, columns, filters := t.next(), t.next(), t.next()
	if id > maxIndexID {
		s.count.limits[limitID].Add(1)
		return append(out, failID...)
	}
	ix.bytes = len(ix.schema) + len(ix.table) + len(index) + len(columns) + len(filters)
	for _, list := range [][]byte{columns, filters} {
		if len(list) > 0 {
			ix.bytes += columnBytes * (1 + strings.Count(string(list), ","))
		}
	}
	ix.bytes += openIndexBytes
	before := 0
	if old := s.ids.get(id); old != nil {
		before = old.bytes
	}
	grown := ix.bytes - before
	if all := &s.server.openBytes; s.openBytes+grown > maxOpenBytes ||
		s.openBytes+grown > freeOpenBytes && all.Load()+int64(grown) > maxAllOpenBytes {
		s.count.limits[limitOpen].Add(1)
		return append(out, failColumn...)
	}
	ix.index, ix.columns, ix.filters = string(index), string(columns), string(filters)
	if table, ok := s.server.cfg.Reader.Lookup(ix.schema, ix.table); ok {
		if def := table.Def(); def != nil {
			ix.t = table
			if _, ok := table.(Preparer); !ok || ix.isKey(def) {
				return s.opened(id, ix, def, out)
			}
			s.park(func(_ context.Context, out []byte) []byte { return s.opened(id, ix, def, out) })
			return out
		}
	}
	if ix.schema == "" || ix.table == "" {
		return append(out, failTable...)
	}
	s.park(func(ctx context.Context, out []byte) []byte {
		def, f := s.find(ctx, ix)
		if f != "" {
			return append(out, f...)
		}
		return s.opened(id, ix, def, out)
	})
	return out
}

// openIndexBytes is what an open index costs beside its names and columns.
const openIndexBytes = 256

// find asks for the table of ix and returns its definition. The failure is failTable when there is no such table, else
// failDatabase. It is called from parked jobs.
func (s *session) find(ctx context.Context, ix *openIndex) (*schema.Table, failure) {
	table, err := s.server.cfg.Reader.Open(ctx, ix.schema, ix.table)
	if err == nil {
		if def := table.Def(); def != nil {
			ix.t = table
			s.run.uses(table)
			return def, ""
		}
		err = errors.New("it has no definition")
	}
	if errors.Is(err, schema.ErrNoTable) {
		return nil, failTable
	}
	if ctx.Err() == nil {
		s.server.warn("table can't be looked up", s.conn, err, "table", ix.schema+"."+ix.table)
	}
	return nil, failDatabase
}

// opened makes ix the open index of that id.
func (s *session) opened(id uint32, ix *openIndex, def *schema.Table, out []byte) []byte {
	if f := ix.resolve(def); f != "" {
		return append(out, f...)
	}
	grown := ix.bytes
	if old := s.ids.get(id); old != nil {
		grown -= old.bytes
	}
	s.openBytes += grown
	s.server.openBytes.Add(int64(grown))
	s.ids.set(id, ix)
	s.run.uses(ix.t)
	if p, ok := ix.t.(Preparer); ok && ix.pos != def.Key {
		p.Prepare(def, ix.pos)
	}
	return append(out, done...)
}

// isKey tells whether ix names the index that rows are kept by, which needs no preparation.
func (ix *openIndex) isKey(def *schema.Table) bool {
	pos, ok := indexPosition(def, ix.index)
	return !ok || pos == def.Key
}

// resolve finds what the names mean in def. On a failure ix is left as it was.
func (ix *openIndex) resolve(def *schema.Table) failure {
	pos, ok := indexPosition(def, ix.index)
	if !ok || !walkable(&def.Indexes[pos]) {
		return failIndex
	}
	columnAt, ok := columnPositions(def, ix.columns)
	if !ok {
		return failColumn
	}
	filterAt, ok := columnPositions(def, ix.filters)
	if !ok {
		return failColumn
	}
	ix.def, ix.pos, ix.columnAt, ix.filterAt = def, pos, columnAt, filterAt
	ix.needed = make([]int, 0, len(columnAt)+len(filterAt))
	seen := make([]bool, len(def.Columns))
	for _, list := range [][]int{columnAt, filterAt} {
		for _, c := range list {
			if !seen[c] {
				seen[c] = true
				ix.needed = append(ix.needed, c)
			}
		}
	}
	ix.head = strconv.AppendInt(append(ix.head[:0], "0\t"...), int64(len(columnAt)), 10)
	ix.comparers = nil
	return ""
}

// current makes ix fit the definition that its table has now.
func (ix *openIndex) current(def *schema.Table) failure {
	if ix.def == def {
		return ""
	}
	// An index of that name over other columns is not the one that was opened.
	if pos, ok := indexPosition(def, ix.index); !ok || !sameParts(ix.def, ix.pos, def, pos) || ix.resolve(def) != "" {
		return failID
	}
	return ""
}

// sameParts reports that two indexes are over the same columns, by their names and in the same way.
func sameParts(a *schema.Table, i int, b *schema.Table, j int) bool {
	return slices.EqualFunc(a.Indexes[i].Parts, b.Indexes[j].Parts, func(p, q schema.Part) bool {
		if p.Prefix != q.Prefix || p.Desc != q.Desc || (p.Column < 0) != (q.Column < 0) {
			return false
		}
		return p.Column < 0 || a.Columns[p.Column].Name == b.Columns[q.Column].Name
	})
}

// indexPosition finds an index by its name. Without one it is the primary key; a name that begins with a digit is a
// position.
func indexPosition(def *schema.Table, name string) (int, bool) {
	if name == "" {
		name = "PRIMARY"
	}
	if name[0] < '0' || name[0] > '9' {
		i := def.IndexByName(name)
		return i, i >= 0
	}
	n := 0
	for i := 0; i < len(name) && '0' <= name[i] && name[i] <= '9'; i++ {
		if n = n*10 + int(name[i]-'0'); n >= len(def.Indexes) {
			return 0, false
		}
	}
	return n, true
}

// walkable reports that rows can be found over the index in its order.
func walkable(ix *schema.Index) bool {
	if !ix.BTree {
		return false
	}
	for i := range ix.Parts {
		if ix.Parts[i].Column < 0 { // an expression
			return false
		}
	}
	return true
}

// columnPositions finds the columns of a list of names.
func columnPositions(def *schema.Table, list string) ([]int, bool) {
	if list == "" {
		return nil, true
	}
	at := make([]int, 0, 1+strings.Count(list, ","))
	for name := range strings.SplitSeq(list, ",") {
		c := def.ColumnIndex(name)
		if c < 0 {
			return nil, false
		}
		at = append(at, c)
	}
	return at, true
}

// indexIDs are the open ids of a connection. Clients count them from 0, so the first few have a place of their own.
type indexIDs struct {
	low  []*openIndex
	high map[uint32]*openIndex
}

const lowIDs = 64

// get returns nil for an id that is not open.
func (ids *indexIDs) get(id uint32) *openIndex {
	if id < uint32(len(ids.low)) {
		return ids.low[id]
	}
	return ids.high[id]
}

func (ids *indexIDs) set(id uint32, ix *openIndex) {
	if id >= lowIDs {
		if ids.high == nil {
			ids.high = make(map[uint32]*openIndex)
		}
		ids.high[id] = ix
		return
	}
	for uint32(len(ids.low)) <= id {
		ids.low = append(ids.low, nil)
	}
	ids.low[id] = ix
}

// comparer orders the values of one column as the server does.
type comparer struct {
	made bool
	enc  *rowcodec.KeyEncoder // nil: it can't be done here
}

// comparer returns the encoder whose keys compare as the values of a filter column do, nil where that can't be done.
func (ix *openIndex) comparer(field int) *rowcodec.KeyEncoder {
	if ix.comparers == nil {
		ix.comparers = make([]comparer, len(ix.filterAt))
	}
	c := &ix.comparers[field]
	if !c.made {
		c.made = true
		// As the key of an index over that column alone.
		def := *ix.def
		def.Indexes = []schema.Index{{Name: "filter", BTree: true, Parts: []schema.Part{{Column: ix.filterAt[field]}}}}
		def.Key = -1
		if enc, err := rowcodec.NewKeyEncoder(&def, 0); err == nil {
			c.enc = enc
		}
	}
	return c.enc
}
