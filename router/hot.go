package router

import (
	"context"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/headroom"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Hot follows tables of which single rows are kept, and knows what reads of the database have seen. Its methods are
// called from any goroutine.
type Hot interface {
	// Want tells of a table that clients use and that is not in the store. It must be quick, and may call the Router's
	// Store, not the Router.
	Want(schemaName, table string)
	// BeginRead is called before a row of a hot table is read. ok is false when the row can't be kept. The SELECT, if it
	// begins afterwards, sees everything up to version; end is called when it has ended, with the label of the connection
	// that it came over. end calls done once, maybe at once, with true when everything has been applied that the SELECT may
	// have seen, and with false when that can't be known.
	BeginRead(schemaName, table string) (version uint64, end func(server string, done func(applied bool)), ok bool)
}

// want tells Hot of a table that is not in the store.
func (t *Table) want() {
	if t.router.hot != nil && t.inMemory() == nil {
		t.router.hot.Want(t.name.Schema, t.name.Table)
	}
}

// searchHot answers a search for the row of a key of a hot table, by a SELECT that all share who ask for the key at the
// time. done is false for all other searches; emit has not been called then.
func (t *Table) searchHot(ctx context.Context, c *Counters, s *schema.Search, emit func(row rowcodec.Row) bool) (done bool, err error) {
	if t.router.hot == nil || t.fenced() {
		return false, nil // memory, and reads that are under way, may lack what a client was told is there
	}
	ct := t.inMemory()
	if ct == nil {
		t.want()
		return false, nil
	}
	read, start := ct.BeginRead(s, func(row rowcodec.Row, _ uint64) bool { return emit(row) })
	switch start {
	case cache.HotPlain:
		return false, nil
	case cache.HotChanged:
		return true, ErrChanged
	case cache.HotFound:
		c.addMemory(1)
		return true, nil
	case cache.HotLead:
		if !t.router.read(t.name, ct, read, s) {
			read.Finish(nil, ErrClosed, 0, false)
		}
	}
	select {
	case <-read.Done():
	case <-ctx.Done():
		err := context.Cause(ctx)
		c.addDatabase(err)
		return true, err
	}
	row, changed, err := read.Answer()
	if changed {
		return true, ErrChanged
	}
	if err := t.asked(c, s.Def, err); err != nil {
		return true, err
	}
	if row != nil {
		headroom.Want(len(row)) // for the answer
		emit(row)
	}
	return true, nil
}

// read has the SELECT made for which read stands, in a goroutine: it outlives the caller's context, since others may wait
// for it too. false says that the Router is closed.
func (r *Router) read(name schema.Name, ct *cache.Table, read *cache.HotRead, s *schema.Search) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return false
	}
	// The caller's search changes after its answer. All columns are read, for the row to be kept.
	own := &schema.Search{Def: s.Def, Index: s.Index, Op: s.Op, Values: make([][]byte, len(s.Values)), Limit: 1}
	for i, v := range s.Values {
		if v != nil {
			own.Values[i] = append([]byte{}, v...)
		}
	}
	r.wg.Go(func() {
		version, end, known := r.hot.BeginRead(ct.Ident().Schema, ct.Ident().Table)
		var row rowcodec.Row
		from, err := r.db.SearchFrom(r.ctx, own, func(found rowcodec.Row) bool {
			if row = found; len(row) <= rowcodec.OwnRow {
				row = append(rowcodec.Row{}, found...)
			}
			return false
		})
		if read.Finish(row, err, version, known && from.Snapshot) {
			end(from.Server, read.Publish)
		}
	})
	return true
}
