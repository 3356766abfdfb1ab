package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/internal/state"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

const (
	// saveEvery is the least time between two images, and the longest before the first.
	saveEvery = time.Minute
	// firstSaveCheck is how often it is asked whether everything is there for the first image.
	firstSaveCheck = 500 * time.Millisecond
	// saveShare bounds the share of time that is spent on images: one that takes a second is followed by 30 without.
	saveShare = 30
	// saveIdle is how many times as long as it has worked a background image pauses after each piece.
	saveIdle = 4
	// lastSave bounds the image that is written at the end.
	lastSave = 2 * time.Second
	// savePiece is how much of a table is copied at a time.
	savePiece = 256 << 10
)

// keeper saves the tables in a folder for the next start.
type keeper struct {
	dir      *state.Dir
	store    *cache.Store
	follower *canal.Follower
	// ready reports that everything that is to be kept is there.
	ready  func() bool
	logger *slog.Logger

	saved, failed atomic.Uint64
	lastAt        atomic.Int64 // Unix seconds of the last image, 0 for none
	savedAt       contentMark  // of the last image
}

// contentMark stands for what the tables hold: while it is the same they are.
type contentMark struct{ seq, revision uint64 }

// openState takes the folder, and reads what was saved there last. Nothing usable is no error.
func openState(path string, logger *slog.Logger) (*state.Dir, *canal.Saved, error) {
	dir, err := state.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--state-dir: %w", err)
	}
	image, err := dir.Load()
	switch {
	case errors.Is(err, state.ErrNone):
		return dir, nil, nil
	case err != nil:
		logger.Warn("the saved state is not used: tables are loaded", "dir", path, "err", err)
		return dir, nil, nil
	}
	saved := &canal.Saved{Low: savePoint(image.Meta, image.Meta.Low), High: savePoint(image.Meta, image.Meta.High)}
	for _, t := range image.Tables {
		saved.Tables = append(saved.Tables, canal.SavedTable{
			Def: t.Def, Same: func(def *schema.Table) bool { return state.SameDef(def, t.Def) },
			Read: t.Read,
		})
	}
	return dir, saved, nil
}

func savePoint(m state.Meta, p state.Place) canal.SavePoint {
	return canal.SavePoint{Flavor: m.Flavor, Identity: m.Identity, GTID: p.GTID, File: p.File, Pos: p.Pos, Origins: p.Origins, Made: p.Made}
}

func place(s canal.SavePoint) state.Place {
	return state.Place{GTID: s.GTID, File: s.File, Pos: s.Pos, Origins: s.Origins, Made: s.Made}
}

// run saves the tables once all are there, and now and then from then on, until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	for latest := time.Now().Add(saveEvery); !k.ready() && time.Now().Before(latest); {
		if !pause(ctx, firstSaveCheck) {
			return nil
		}
	}
	for wait := time.Duration(0); pause(ctx, wait); {
		begun := time.Now()
		k.save(ctx, saveIdle)
		wait = max(saveEvery, saveShare*time.Since(begun)/(saveIdle+1))
	}
	return nil
}

// pause reports whether ctx has outlasted it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// last saves the tables at the end, if that does not take long.
func (k *keeper) last() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSave)
	defer cancel()
	k.save(ctx, 0)
}

// save writes an image, and pauses after each piece idle times as long as that has taken.
func (k *keeper) save(ctx context.Context, idle int) {
	at := contentMark{k.follower.Position().Seq, k.store.Revision()}
	if k.lastAt.Load() != 0 && at == k.savedAt {
		return // nothing has changed
	}
	if k.follower.Restoring() {
		// The image that is there has tables that one of now would lack.
		return
	}
	begun := time.Now()
	tables, rows, err := k.image(ctx, idle)
	switch {
	case err != nil && ctx.Err() != nil:
		k.logger.Info("state not saved: it would have taken too long", "seconds", time.Since(begun).Seconds())
	case err != nil:
		k.failed.Add(1)
		k.logger.Warn("state not saved; the one before stays", "err", err)
	case tables > 0:
		k.saved.Add(1)
		k.savedAt = at
		k.lastAt.Store(time.Now().Unix())
		k.logger.Debug("state saved", "tables", tables, "rows", rows, "seconds", time.Since(begun).Seconds())
	}
}

// errMovedOn ends an image during which everything was loaded anew.
var errMovedOn = errors.New("the source's log was given up meanwhile")

// image writes all live tables. Without any it leaves the image that is there.
func (k *keeper) image(ctx context.Context, idle int) (tables int, rows uint64, err error) {
	low := k.follower.SavePoint()
	var live []*cache.Generation
	for _, t := range k.store.Tables() {
		if g := t.Content(); g != nil {
			live = append(live, g)
		}
	}
	if low.Identity == "" || low.File == "" || len(live) == 0 {
		return 0, 0, nil // without its place in the log nobody could tell whether that is still the same log
	}
	round, err := k.dir.Begin()
	if err != nil {
		return 0, 0, err
	}
	for _, g := range live {
		n, err := saveTable(ctx, round, g, idle)
		switch {
		case errors.Is(err, cache.ErrStale):
			continue // it is being loaded anew
		case err != nil:
			return 0, 0, errors.Join(err, round.Abort())
		}
		tables++
		rows += n
	}
	high := k.follower.SavePoint()
	if high.Epoch != low.Epoch || high.Identity != low.Identity {
		return 0, 0, errors.Join(errMovedOn, round.Abort())
	}
	meta := state.Meta{Flavor: low.Flavor, Identity: low.Identity, Low: place(low), High: place(high)}
	if err := round.Commit(meta); err != nil {
		return 0, 0, errors.Join(err, round.Abort())
	}
	return tables, rows, nil
}

func saveTable(ctx context.Context, round *state.Round, g *cache.Generation, idle int) (rows uint64, err error) {
	w, err := round.Table(g.Def())
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			w.Drop()
		}
	}()
	var piece cache.Copy
	var after rowcodec.Row
	for more := true; more; {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		begun := time.Now()
		if more, err = g.CopyRows(&piece, after, savePiece); err != nil {
			return 0, err
		}
		for _, row := range piece.Rows {
			if err := w.Add(row); err != nil {
				return 0, err
			}
		}
		rows += uint64(len(piece.Rows))
		if n := len(piece.Rows); n > 0 {
			after = append(after[:0], piece.Rows[n-1]...)
		}
		if idle > 0 && more {
			pause(ctx, time.Duration(idle)*time.Since(begun))
		}
	}
	return rows, w.Close()
}
