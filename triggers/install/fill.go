package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/triggers"
)

// The rows, or groups, of one transaction of filling, and the transactions of one call.
const (
	fillChunk  = 500
	fillChunks = 4
)

// Fill copies what is there already, from where an earlier filling stopped. progress is told how many rows or groups are
// done, of about how many; it may be nil. Writers go on meanwhile.
func (s *Session) Fill(ctx context.Context, d *triggers.Design, progress func(done, total int64)) error {
	if d.FillProcedure() == "" {
		return s.refresh(ctx, d, "()", progress)
	}
	total := s.estimate(ctx, d)
	for {
		err := s.locked(ctx, "filling", func() error {
			return s.exec(ctx, fmt.Sprintf("CALL %s(%d, %d)", d.FillProcedure(), fillChunk, fillChunks))
		})
		if err != nil {
			_ = s.exec(ctx, "ROLLBACK")
			return fmt.Errorf("fill %s: %w (what is done stays done: install again goes on from there)", d.Spec.Cache, err)
		}
		var finished int
		var chunks int64
		// No row: the event that counts anew has begun at this moment.
		err = s.one(ctx, "SELECT finished, steps FROM "+d.FillTable()+" WHERE one = 1", nil, &finished, &chunks)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		done := chunks * fillChunk
		if len(d.Spec.Group) > 0 {
			done = chunks
		}
		if finished != 0 && !d.Spec.Tolerant && len(d.Spec.Group) == 0 {
			// The last chunk was not full.
			if err := s.one(ctx, "SELECT COUNT(*) FROM "+cacheTable(d), nil, &done); err != nil {
				return err
			}
			total = done
		}
		if progress != nil {
			progress(done, max(total, done))
		}
		if finished != 0 {
			break
		}
	}
	return s.drain(ctx, d, progress)
}

// estimate is the server's guess of the number of source rows.
func (s *Session) estimate(ctx context.Context, d *triggers.Design) int64 {
	var n sql.NullInt64
	if len(d.Spec.Group) > 0 {
		return 0
	}
	_ = s.one(ctx, "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		[]any{d.Spec.Source.Schema, d.Spec.Source.Table}, &n)
	return n.Int64
}

// Due counts the rows or groups that wait to be computed.
func (s *Session) Due(ctx context.Context, d *triggers.Design) (int64, error) {
	if d.MarkTable() == "" {
		return 0, nil
	}
	var n int64
	return n, s.one(ctx, "SELECT COUNT(*) FROM "+d.MarkTable(), nil, &n)
}

// drain computes what is marked, until nothing is or nothing moves any more: what others hold is left to the event.
func (s *Session) drain(ctx context.Context, d *triggers.Design, progress func(done, total int64)) error {
	before := int64(-1)
	var first int64
	for {
		due, err := s.Due(ctx, d)
		if err != nil || due == 0 || due == before {
			return err
		}
		first = max(first, due)
		if progress != nil {
			progress(first-due, first)
		}
		before = due
		if err := s.refresh(ctx, d, "(1000)", nil); err != nil {
			return err
		}
	}
}

// Refresh computes what is due, or runs the query.
func (s *Session) Refresh(ctx context.Context, d *triggers.Design) error {
	switch {
	case d.Spec.Query != "":
		return s.refresh(ctx, d, "()", nil)
	case d.RefreshProcedure() != "":
		return s.drain(ctx, d, nil)
	}
	return nil
}

func (s *Session) refresh(ctx context.Context, d *triggers.Design, arguments string, progress func(done, total int64)) error {
	// The event may be at work: then the procedure would do nothing.
	var got sql.NullInt64
	if err := s.one(ctx, "SELECT GET_LOCK("+d.RefreshLock()+", 60)", nil, &got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return fmt.Errorf("compute %s: the event has been at work for a minute; try again later", d.Spec.Cache)
	}
	defer func() { _ = s.exec(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+d.RefreshLock()+")") }()
	err := s.locked(ctx, "computing", func() error { return s.exec(ctx, "CALL "+d.RefreshProcedure()+arguments) })
	if err != nil {
		_ = s.exec(ctx, "ROLLBACK") // fails only with the connection
		err = fmt.Errorf("compute %s: %w", d.Spec.Cache, err)
	}
	if err == nil && progress != nil {
		progress(1, 1)
	}
	return err
}
