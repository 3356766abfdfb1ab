package app

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/mcserver"
)

// settings turns the containers of the configuration file into those of mcserver.
func settings(cfg *config.Serve) (mcserver.Settings, error) {
	var s mcserver.Settings
	for _, c := range cfg.Containers {
		s.Containers = append(s.Containers, mcserver.Container{
			Name: c.Name, Schema: c.Schema, Table: c.Table, KeyColumns: c.KeyColumns, ValueColumns: c.ValueColumns,
			FlagsColumn: c.FlagsColumn, CASColumn: c.CASColumn, ExpiryColumn: c.ExpiryColumn, UniqueIndex: c.UniqueIndex, Place: c.Place,
		})
	}
	if p := cfg.Policies; p != nil {
		s.Policies = new(mcserver.Policies)
		for _, e := range []struct {
			name   string
			policy *mcserver.Policy
		}{{p.Get, &s.Policies.Get}, {p.Set, &s.Policies.Set}, {p.Delete, &s.Policies.Delete}, {p.Flush, &s.Policies.Flush}} {
			if e.name == "" {
				continue
			}
			policy, err := mcserver.ParsePolicy(e.name)
			if err != nil {
				return s, fmt.Errorf("policies: %w", err)
			}
			*e.policy = policy
		}
	}
	if o := cfg.Options; o != nil {
		s.Options = &mcserver.Options{Separator: o.Separator, TableMapDelimiter: o.TableMapDelimiter}
	}
	return s, s.Validate()
}

// findContainers reads what the source says about containers, and adds what the configuration file says.
func (d *daemon) findContainers(ctx context.Context) (mcserver.ContainerSet, error) {
	pool := d.pool.Load()
	conn, err := pool.Get(ctx)
	if err != nil {
		return mcserver.ContainerSet{}, err
	}
	defer pool.Put(conn)
	set, err := mcserver.LoadContainers(ctx, conn)
	if err != nil {
		return mcserver.ContainerSet{}, fmt.Errorf("read containers from the source: %w", err)
	}
	set.Add(*d.settings.Load())
	return set, nil
}

// memcachedConfig is what the memcached port is made of.
func (d *daemon) memcachedConfig() (mcserver.Config, error) {
	cfg := mcserver.Config{
		Reader: mcReader{d.router, d.mcReads, &aging{d.follower, d.fresh}}, FindContainers: d.findContainers, Info: d.memcachedInfo, Logger: d.logger,
		MaxItemBytes: int(d.cfg.MemcachedItemSize), Writer: mcWriter{d.writer, d.router}, FlushContainers: d.cfg.MemcachedFlush,
	}
	if d.cfg.MemcachedCompat == config.CompatStrict {
		cfg.Compat = mcserver.CompatStrict
	}
	if d.items != nil {
		cfg.Items = d.items
	}
	path := d.cfg.MemcachedAuthFile
	if path == "" {
		return cfg, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return cfg, fmt.Errorf("--memcached-auth-file: %w", err)
	}
	defer f.Close()
	if cfg.Users, err = mcserver.ReadUsers(f); err != nil {
		return cfg, fmt.Errorf("--memcached-auth-file: %s: %w", path, err)
	}
	return cfg, nil
}

// memcachedInfo gives the figures that `stats` shows and mcserver does not count itself.
func (d *daemon) memcachedInfo() mcserver.Info {
	info := mcserver.Info{MemoryUsed: d.store.Used(), MemoryLimit: d.store.MemoryLimit()}
	for _, t := range d.store.Tables() {
		info.Rows += uint64(t.Len())
	}
	if d.items != nil {
		it := d.items.Stats()
		info.Items = mcserver.ItemsInfo{
			Items: it.Items, Bytes: it.Bytes, Used: it.Used, Limit: it.Limit, Total: it.Total, Evictions: it.Evictions,
			EvictedUnfetched: it.EvictedUnfetched, Reclaimed: it.Reclaimed, ExpiredUnfetched: it.ExpiredUnfetched,
		}
	}
	if d.mcListener == nil {
		return info
	}
	st := d.mcListener.Stats()
	info.OpenConnections, info.MaxConnections, info.Threads = st.Open, st.MaxConns, st.Loops
	info.AcceptedConnections, info.RejectedConnections = st.Accepted, st.Closed[netserver.CauseConnLimit.String()]
	if a, ok := d.mcListener.Addr().(*net.TCPAddr); ok {
		info.Port = a.Port
	}
	info.BytesRead, info.BytesWritten = st.BytesIn, st.BytesOut
	return info
}
