package app

import (
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// sink gives the follower's work to the cache, and news of changed definitions to the router.
type sink struct {
	store  *cache.Store
	router *router.Router
	// containersChanged is told when the tables that describe memcached containers have changed.
	containersChanged func()
}

var _ canal.Sink = (*sink)(nil)

func (s *sink) table(schemaName, table string) *cache.Table {
	return s.store.Add(schemaName, table, cache.ModeFull)
}

func (s *sink) Load(schemaName, table string, def *schema.Table) (canal.Target, error) {
	g, err := s.table(schemaName, table).Load(def)
	if err != nil {
		return nil, err
	}
	return target{g}, nil
}

var _ canal.Restorer = target{}

// target tells the follower that a table which does not fit into memory need not be tried at once again.
type target struct{ *cache.Generation }

func (t target) Apply(changes []rowcodec.Change, version uint64) error {
	return refusedByMemory(t.Generation.Apply(changes, version))
}

func (t target) Install(rows []rowcodec.Row, version, low uint64) error {
	return refusedByMemory(t.Generation.Install(rows, version, low))
}

func (t target) Live() error { return refusedByMemory(t.Generation.Live()) }

func refusedByMemory(err error) error {
	if errors.Is(err, cache.ErrMemory) {
		return fmt.Errorf("%w: %w: raise --memory", canal.ErrRefused, err)
	}
	return err
}

func (s *sink) Suspend(schemaName, table, reason string) { s.table(schemaName, table).Suspend(reason) }

func (s *sink) Refuse(schemaName, table, reason string) { s.table(schemaName, table).Refuse(reason) }

func (s *sink) Remove(schemaName, table string) {
	s.store.Remove(schema.Name{Schema: schemaName, Table: table})
}

func (s *sink) SchemaChanged(schemaName, table string) {
	switch {
	case schemaName == "":
		s.router.ForgetAll()
	default:
		s.router.Forget(schemaName, table)
	}
	if schemaName == "" || schemaName == "innodb_memcache" {
		s.containersChanged()
	}
}
