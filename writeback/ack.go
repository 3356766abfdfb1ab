package writeback

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// mark is what has to be applied before a change may be answered.
type mark struct {
	gtids string
	known bool   // gtids is all
	epoch uint64 // of Applied, at the commit
	on    *server
}

// mark gives the mark of a commit: its own transaction where the server told it, else everything that the server has
// executed. A change that changed nothing has no transaction, but it has seen those of others, which our readers need not
// have seen yet.
func (w *Writer) mark(ctx context.Context, on *server, c *sqltext.Conn, gtid string, committed bool) mark {
	if !committed || w.cfg.Applied == nil {
		return mark{}
	}
	m := mark{gtids: gtid, known: true, epoch: w.cfg.Applied.Epoch(), on: on}
	if gtid != "" {
		return m
	}
	w.stats.asked.Add(1)
	var err error
	if m.gtids, err = executed(ctx, c); err != nil {
		w.log.Debug("executed set not read", "err", err)
		m.known = false
	}
	return m
}

func executed(ctx context.Context, c *sqltext.Conn) (gtids string, err error) {
	sql := "SELECT REPLACE(@@global.gtid_executed, '\n', '')"
	if c.Flavor() == schema.FlavorMariaDB {
		sql = "SELECT @@global.gtid_binlog_pos"
	}
	err = c.Query(ctx, sql, func(v [][]byte) error {
		gtids = string(v[0])
		return nil
	})
	return gtids, err
}

// acknowledge returns when what until stands for has been applied, or when that takes too long: then readers of the tables
// are answered by the database until it has been. The error is that of a commit on a server that is not the one any more.
func (w *Writer) acknowledge(until mark, tables []*schema.Table) error {
	if w.cfg.Applied == nil {
		return nil
	}
	if !until.known {
		w.fenceUncertain(tables)
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.ctx, w.cfg.AckTimeout)
	err := w.cfg.Applied.WaitApplied(ctx, until.gtids)
	cancel()
	w.stats.waitedFor(time.Since(began))
	if err == nil {
		return nil
	}
	if w.server.Load() != until.on {
		w.fenceUncertain(tables)
		return uncertain(errTurned)
	}
	w.stats.timeouts.Add(1)
	w.late.log(w.log, slog.LevelWarn, "commit not applied in time: the database answers for the table until it is",
		"table", tables[0].FullName(), "waited", time.Since(began).Round(time.Millisecond).String(), "err", err)
	w.fence(until, tables)
	return nil
}

// fences are the tables whose readers are kept from memory.
type fences struct {
	mu     sync.Mutex
	tables map[schema.Name]*fence
}

// fence is one such table. A goroutine of its own lifts it.
type fence struct {
	gtids   string // to be applied
	unknown bool   // what is to be applied has to be asked for first
	epoch   uint64 // of the last change of these
}

func (f *fences) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tables)
}

// fence keeps readers of the tables from memory until that has been applied.
func (w *Writer) fence(until mark, tables []*schema.Table) {
	w.keepFrom(tables, until.epoch, func(f *fence) {
		merged, err := w.cfg.Applied.MergeGTIDs(f.gtids, until.gtids)
		if err != nil {
			f.unknown = true
			return
		}
		f.gtids = merged
	})
}

// fenceUncertain does so until everything that the server has executed, when it can be asked again, has been applied.
func (w *Writer) fenceUncertain(tables []*schema.Table) {
	if w.cfg.Applied != nil {
		w.keepFrom(tables, w.cfg.Applied.Epoch(), func(f *fence) { f.unknown = true })
	}
}

func (w *Writer) keepFrom(tables []*schema.Table, epoch uint64, add func(*fence)) {
	if w.cfg.Fence == nil {
		return
	}
	w.fences.mu.Lock()
	defer w.fences.mu.Unlock()
	for _, def := range tables {
		name := schema.Name{Schema: def.Schema, Table: def.Name}
		f := w.fences.tables[name]
		if f == nil {
			f = &fence{}
			w.fences.tables[name] = f
			lift := w.cfg.Fence.Fence(def)
			w.wg.Go(func() { w.keepFence(name, f, lift) })
		}
		if f.epoch != epoch {
			f.gtids = "" // everything was loaded anew since those
		}
		f.epoch = epoch
		add(f)
	}
}

// fenceStep is how long a fence waits at a time before it looks whether what it waits for can still come.
const fenceStep = 2 * time.Second

// keepFence lifts a fence when everything has been applied that it stands for.
func (w *Writer) keepFence(name schema.Name, f *fence, lift func()) {
	defer lift()
	for w.ctx.Err() == nil {
		w.fences.mu.Lock()
		if f.gtids == "" && !f.unknown {
			delete(w.fences.tables, name)
			w.fences.mu.Unlock()
			return
		}
		gtids, unknown, epoch := f.gtids, f.unknown, f.epoch
		f.gtids, f.unknown = "", false
		w.fences.mu.Unlock()
		if !w.passed(gtids, unknown, epoch) {
			w.fences.mu.Lock()
			merged, err := w.cfg.Applied.MergeGTIDs(gtids, f.gtids)
			f.gtids, f.unknown = merged, f.unknown || unknown || err != nil
			w.fences.mu.Unlock()
		}
	}
}

// passed waits a while until all of that is applied.
func (w *Writer) passed(gtids string, unknown bool, epoch uint64) bool {
	ctx, cancel := context.WithTimeout(w.ctx, fenceStep)
	defer cancel()
	if unknown {
		now, err := w.executedNow(ctx)
		if err == nil && now != "" {
			gtids, err = w.cfg.Applied.MergeGTIDs(gtids, now)
		}
		if err != nil {
			<-ctx.Done() // the next try is not to come at once
			return false
		}
	}
	err := w.cfg.Applied.WaitApplied(ctx, gtids)
	if err == nil {
		return true
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	// Everything was loaded anew since: the tables are as the source is, whether it has those transactions or lost them.
	return !unknown && w.cfg.Applied.Epoch() != epoch
}

func (w *Writer) executedNow(ctx context.Context) (string, error) {
	s := w.server.Load()
	c, err := s.get(ctx, s.single)
	if err != nil {
		return "", err
	}
	defer s.single.Put(c)
	return executed(ctx, c)
}
