package app

import (
	"fmt"
	"slices"
	"time"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/schema"
)

var _ admin.Reporter = (*daemon)(nil)

// Status implements admin.Reporter.
func (d *daemon) Status() admin.Status {
	f := d.follower.Status()
	st := admin.Status{
		Version: Version(),
		UptimeS: int64(time.Since(d.begun).Seconds()),
		Source: admin.SourceStatus{
			Flavor: f.Flavor, Version: f.ServerVersion, Address: f.Address, Connected: f.Connected, Trouble: f.Trouble,
			Tried: f.Tried, Candidates: f.Candidates, Failovers: f.Failovers,
		},
		Applied: admin.Position{GTID: f.Applied.GTID, File: f.Applied.File, Pos: f.Applied.Pos, Seq: f.Applied.Seq},
		Lag:     admin.Lag{EventAgeMS: milliseconds(f.EventAge), HeartbeatAgeMS: milliseconds(f.HeartbeatAge), BehindMS: milliseconds(f.Behind), Stale: d.fresh.stale.Load()},
		Reads:   admin.Reads{HandlerSocket: reads(d.hsReads), Memcached: reads(d.mcReads)},
		Writes:  d.writes(),
		Memory:  admin.Memory{Limit: int64(d.cfg.Memory), Used: d.store.Used()},

		Verification: d.verification(),
	}
	if d.items != nil {
		it := d.items.Stats()
		st.Memory.Used += it.Used
		st.Items = &admin.ItemsStatus{Items: it.Items, Bytes: it.Bytes, Used: it.Used, Limit: it.Limit, Evictions: it.Evictions}
	}
	for _, t := range d.store.Tables() {
		s := t.Status()
		st.Tables = append(st.Tables, admin.TableStatus{
			Name: s.Name, Mode: s.Mode.String(), State: s.State.String(), Reason: s.Reason, Rows: int64(s.Rows),
			IndexBytes: s.IndexBytes, RowBytes: s.RowBytes, SnapshotDoneRows: s.SnapshotDone, SnapshotTotalRows: s.SnapshotTotal,
		})
	}
	return st
}

func reads(c *router.Counters) admin.ReadCounts {
	n := c.Counts()
	return admin.ReadCounts{Memory: n.Memory, Database: n.Database}
}

// milliseconds is nil for an age that is not known.
func milliseconds(age time.Duration) *int64 {
	if age == 0 {
		return nil
	}
	ms := age.Milliseconds()
	return &ms
}

// NotReady implements admin.Reporter.
func (d *daemon) NotReady() []string {
	var reasons []string
	if d.draining.Load() {
		return []string{"stopping"}
	}
	f := d.follower.Status()
	switch {
	case f.Flavor == "":
		reasons = append(reasons, "the source "+f.Tried+" has not been reached yet: "+f.Trouble)
	case !f.Surveyed:
		reasons = append(reasons, "the source's tables are being listed")
	}
	if d.fresh.stale.Load() {
		reasons = append(reasons, "memory is older than --max-staleness="+d.cfg.MaxStaleness.String()+": the database answers"+because(f.Trouble))
	}
	if !d.containersRead.Load() {
		reasons = append(reasons, "the memcached containers have not been read from the source yet")
	}
	exact := d.patterns.Exact()
	for _, name := range exact {
		if d.store.Table(name) == nil {
			reasons = append(reasons, "table "+name.String()+" is not there")
		}
	}
	for _, t := range d.store.Tables() {
		s := t.Status()
		if s.Mode == cache.ModeHot && !d.patterns.Match(t.Ident().Schema, t.Ident().Table) {
			continue // nobody has asked for it to be there
		}
		switch s.State {
		case cache.StateLive, cache.StateHot:
		case cache.StateRefused:
			// It stays so until somebody changes it, and the database answers. Who named it wants to know.
			if slices.ContainsFunc(exact, func(n schema.Name) bool { return n == t.Ident() }) {
				reasons = append(reasons, "table "+s.Name+" cannot be kept in memory"+because(s.Reason))
			}
		default:
			reasons = append(reasons, fmt.Sprintf("table %s is %s (%d of about %d rows)%s", s.Name, s.State, s.SnapshotDone, s.SnapshotTotal, because(s.Reason)))
		}
	}
	return reasons
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
