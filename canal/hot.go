package canal

import (
	"context"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// HotTarget is a Target that a Sink gives for a table of which it keeps single rows only. It takes the table's changes and
// no snapshot: Live follows Load as soon as the definition is certain, and Install is not called. BeginRead and EndRead
// tell when a row that was read for a client may be kept beside the changes.
type HotTarget interface {
	Target
	// Hot marks the kind.
	Hot()
}

// FollowHot begins to follow a table that the patterns do not name, and reports whether it was not followed before. What
// happens to it is what happens to any table: a Load follows, statements in the log suspend it, it is refused where it
// can't be kept. When it turns out not to be there any more it is forgotten after Sink.Remove. It may be called at any
// time, also before Run.
func (f *Follower) FollowHot(schemaName, tableName string) bool {
	t, isNew := f.tables.add(schema.Name{Schema: schemaName, Table: tableName})
	if !isNew {
		return false
	}
	t.mu.Lock()
	t.asked = true
	if t.phase == phaseUnknown {
		t.phase = phaseSuspended
		t.due = time.Now()
		f.cfg.Sink.Suspend(t.name.Schema, t.name.Table, "waits for its definition")
	}
	t.mu.Unlock()
	f.requestLoad(t)
	return true
}

// Forget ends the following of a table that FollowHot began, with Sink.Remove. Other tables stay.
func (f *Follower) Forget(schemaName, tableName string) {
	t := f.tables.find(schema.Name{Schema: schemaName, Table: tableName})
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked || t.gone {
		return
	}
	t.gone, t.wanted = true, false
	if t.attempt != nil {
		t.attempt.cancel(errSuperseded)
	}
	t.end()
	t.phase = phaseAbsent
	f.tables.remove(t)
	f.log.Debug("table is not followed any more", "table", t.name.String())
	f.cfg.Sink.Remove(t.name.Schema, t.name.Table)
}

// beginHot makes certain that reads which begin from now on see everything that is older than the target.
func (a *attempt) beginHot(ctx context.Context) error {
	era := a.f.era.Load()
	return a.f.withConn(ctx, func(c *sqltext.Conn) error {
		m, err := a.low(ctx, c)
		if err == nil {
			a.f.reads.see(sight{era: era, seq: m.seq, version: m.version, at: time.Now()})
		}
		return err
	})
}

// filters are the options by which the source leaves schemas out of its log.
func (f *Follower) filters() (filters string) {
	f.state.set(func(s *state) {
		if s.source != nil {
			filters = s.source.filters
		}
	})
	return filters
}
