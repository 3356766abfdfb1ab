package app

import (
	"context"
	"errors"

	"github.com/binlogcache/binlogcache/hsserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// boundTable is a router's table with the counters of one protocol, and that protocol's word for a changed definition.
type boundTable struct {
	*router.Table
	counters *router.Counters
	changed  error
}

var (
	_ hsserver.Table    = boundTable{}
	_ hsserver.Viewer   = hsReader{}
	_ hsserver.Preparer = boundTable{}
)

func (t boundTable) translate(err error) error {
	if errors.Is(err, router.ErrChanged) {
		return t.changed
	}
	return err
}

// SearchMemory implements the protocols' Table.
func (t boundTable) SearchMemory(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error) {
	served, err = t.Table.SearchMemory(t.counters, s, emit)
	return served, t.translate(err)
}

// SearchDatabase implements the protocols' Table.
func (t boundTable) SearchDatabase(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) error {
	return t.translate(t.Table.SearchDatabase(ctx, t.counters, s, emit))
}

// ViewMemory implements the protocols' Viewer.
func (t boundTable) ViewMemory(fn func(search func(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error))) {
	t.Table.ViewMemory(t.counters, func(search router.SearchFunc) {
		fn(func(s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (bool, error) {
			served, err := search(s, emit)
			return served, t.translate(err)
		})
	})
}

// hsReader finds tables for the HandlerSocket protocol.
type hsReader struct {
	router   *router.Router
	counters *router.Counters
}

var _ hsserver.Reader = hsReader{}

func (r hsReader) Lookup(schemaName, table string) (hsserver.Table, bool) {
	t, ok := r.router.Lookup(schemaName, table)
	if !ok {
		return nil, false
	}
	return boundTable{t, r.counters, hsserver.ErrChanged}, true
}

func (r hsReader) Open(ctx context.Context, schemaName, table string) (hsserver.Table, error) {
	t, err := r.router.Open(ctx, schemaName, table)
	if err != nil {
		return nil, err
	}
	return boundTable{t, r.counters, hsserver.ErrChanged}, nil
}

// NewView implements hsserver.Viewer.
func (r hsReader) NewView() hsserver.View { return &hsView{counters: r.counters} }

// hsView is a router's view for the HandlerSocket protocol.
type hsView struct {
	view     router.View
	counters *router.Counters
	tables   []*router.Table // memory for Hold
}

func (v *hsView) Hold(tables []hsserver.Table) {
	for _, t := range tables {
		v.tables = append(v.tables, t.(boundTable).Table)
	}
	v.view.Hold(v.tables...)
	clear(v.tables)
	v.tables = v.tables[:0]
}

func (v *hsView) Def(t hsserver.Table) *schema.Table { return v.view.Def(t.(boundTable).Table) }

func (v *hsView) SearchMemory(t hsserver.Table, s *schema.Search, emit func(row rowcodec.Row, version uint64) bool) (served bool, err error) {
	b := t.(boundTable)
	served, err = v.view.SearchMemory(b.Table, s, emit)
	return served, b.translate(err)
}

func (v *hsView) Release() { v.view.Release(v.counters) }
