package router

import (
	"context"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// SearchNewest is SearchDatabase by a SELECT of the caller's own that begins now: memory does not answer, and neither does a
// SELECT that began earlier for somebody else. Its row may be newer than what memory shows afterwards. That of a hot
// table is read a second time, for memory to keep it.
func (t *Table) SearchNewest(ctx context.Context, c *Counters, s *schema.Search, emit func(row rowcodec.Row) bool) error {
	if s.Def != t.Def() {
		return ErrChanged
	}
	t.Prepare(s.Def, s.Index)
	t.warm(s)
	_, err := t.router.db.SearchFrom(ctx, s, emit)
	return t.asked(c, s.Def, err)
}

// warm has the row of a key of a hot table read, where memory does not have it, and does not wait for it.
func (t *Table) warm(s *schema.Search) {
	if t.router.hot == nil || t.fenced() {
		return
	}
	ct := t.inMemory()
	if ct == nil {
		t.want()
		return
	}
	read, start := ct.BeginRead(s, func(rowcodec.Row, uint64) bool { return false })
	if start == cache.HotLead && !t.router.read(t.name, ct, read, s) {
		read.Finish(nil, ErrClosed, 0, false)
	}
}

// Origin tells how the row of that version came into memory; row was found by a search for the definition def. ok is
// false when memory has another version of it by now, or none.
func (t *Table) Origin(def *schema.Table, row rowcodec.Row, version uint64) (o cache.Origin, ok bool) {
	ct := t.stored()
	if ct == nil || ct.Def() != def {
		return o, false
	}
	parts := def.Indexes[def.Key].Parts
	key := make([][]byte, len(parts))
	for i, p := range parts {
		key[i], _ = row.Value(p.Column)
	}
	x, err := ct.Explain(key)
	return x.Origin, err == nil && x.Found && x.Version == version
}
