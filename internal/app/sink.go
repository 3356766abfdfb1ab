package app

import (
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// sink gives the follower's work to the cache, and news of changed definitions to the router.
type sink struct {
	store  *cache.Store
	router *router.Router
	hot    *hotTables // nil: --hot off
	// containersChanged is told when the tables that describe memcached containers have changed.
	containersChanged func()
}

var _ canal.Sink = (*sink)(nil)

func (s *sink) table(schemaName, table string) *cache.Table {
	return s.store.Add(schemaName, table, s.hot.mode(schemaName, table))
}

func (s *sink) Load(schemaName, table string, def *schema.Table) (canal.Target, error) {
	t := s.table(schemaName, table)
	s.hot.again(t)
	if t.Mode() == cache.ModeHot {
		g, err := t.LoadHot(def)
		if err != nil {
			return nil, refusedByMemory(err)
		}
		return hotTarget{g, s.hot.tooLargeReason(t.Ident())}, nil
	}
	g, err := t.Load(def)
	if err != nil {
		return nil, err
	}
	return target{g, t, s.hot}, nil
}

var (
	_ canal.Restorer = target{}
	_ canal.Limited  = target{}
	_ canal.Limited  = hotTarget{}
)

// target turns the errors of memory into what the follower understands: a table which does not fit is kept hot from its
// next load on, or need not be tried at once again.
type target struct {
	*cache.Generation
	table *cache.Table
	hot   *hotTables
}

func (t target) Apply(changes []rowcodec.Change, version uint64) error {
	return t.settle(t.Generation.Apply(changes, version))
}

func (t target) Install(rows []rowcodec.Row, low, high uint64) error {
	return t.settle(t.Generation.Install(rows, low, high))
}

// Prepare implements canal.Restorer.
func (t target) Prepare(rows []rowcodec.Row) (install func(low, high uint64) error) {
	keyed := t.Key(rows)
	return func(low, high uint64) error { return t.settle(t.InstallKeyed(keyed, low, high)) }
}

func (t target) Redefine(def *schema.Table) error {
	return t.settle(t.Generation.Redefine(def))
}

func (t target) TooLarge() error { return t.settle(t.Generation.TooLarge()) }

func (t target) Live() error { return t.settle(t.Generation.Live()) }

func (t target) settle(err error) error {
	if errors.Is(err, cache.ErrMemory) && t.hot.demote(t.table) {
		return err
	}
	return refusedByMemory(err)
}

func refusedByMemory(err error) error {
	if errors.Is(err, cache.ErrMemory) {
		return fmt.Errorf("%w: %w: raise --memory", canal.ErrRefused, err)
	}
	return err
}

// hotTarget is the content of a table of which single rows are kept.
type hotTarget struct {
	*cache.HotGeneration
	reason string
}

var _ canal.HotTarget = hotTarget{}

func (t hotTarget) Live() error { return t.HotGeneration.Live(t.reason) }

// Redefine is for the indexes of full tables: hot ones are loaded anew.
func (hotTarget) Redefine(*schema.Table) error {
	return errors.New("a hot table takes no other definition")
}

// Install, TooLarge, PieceDone and Progress are for snapshots, of which there is none.
func (hotTarget) Install([]rowcodec.Row, uint64, uint64) error {
	return errors.New("a hot table takes no snapshot")
}

func (hotTarget) TooLarge() error                { return errors.New("a hot table takes no snapshot") }
func (hotTarget) PieceDone(uint64, uint64) error { return nil }
func (hotTarget) Progress(uint64, uint64)        {}

func (s *sink) Suspend(schemaName, table, reason string) { s.table(schemaName, table).Suspend(reason) }

func (s *sink) Refuse(schemaName, table, reason string) { s.table(schemaName, table).Refuse(reason) }

func (s *sink) Remove(schemaName, table string) {
	s.store.Remove(schema.Name{Schema: schemaName, Table: table})
	s.hot.removed(schemaName, table)
}

func (s *sink) Redefine(schemaName, table string) { s.table(schemaName, table).Redefining() }

func (s *sink) SchemaChanged(schemaName, table string) {
	switch {
	case schemaName == "":
		s.router.ForgetAll()
	default:
		s.router.Forget(schemaName, table)
	}
	if schemaName == "" || schemaName == mcserver.ConfigSchema {
		s.containersChanged()
	}
}
