package app

import (
	"context"
	"errors"
	"strconv"

	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/hsserver"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// newWriter makes the writer, which waits for the follower unless commits are to be answered at once.
func (d *daemon) newWriter() *writeback.Writer {
	cfg := writeback.Config{Fence: d.router, Logger: d.logger}
	if d.cfg.WriteAck == config.AckApplied {
		cfg.Applied = applied{d.follower}
	}
	return writeback.New(d.source, cfg)
}

// applied tells the writer how far the follower has come.
type applied struct{ *canal.Follower }

var (
	_ writeback.Applied = applied{}
	_ writeback.Fencer  = (*router.Router)(nil)
)

// MergeGTIDs implements writeback.Applied.
func (applied) MergeGTIDs(a, b string) (string, error) { return canal.MergeGTIDs(a, b) }

// Epoch implements writeback.Applied.
func (a applied) Epoch() uint64 { return a.Position().Version >> 48 }

// hsWriter gives the writer's errors the words of the HandlerSocket protocol.
type hsWriter struct {
	writer *writeback.Writer
	router *router.Router
}

var (
	_ hsserver.Writer = hsWriter{}
	_ hsserver.Tx     = (*writeback.Tx)(nil)
)

// Change implements hsserver.Writer.
func (w hsWriter) Change(ctx context.Context, c *schema.Change) (rows int, id uint64, err error) {
	rows, id, err = w.writer.Change(ctx, c)
	return rows, id, w.translate(c.Def, err)
}

// Transact implements hsserver.Writer.
func (w hsWriter) Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx hsserver.Tx) error) (rows int, err error) {
	rows, err = w.writer.Transact(ctx, def, kind, func(tx *writeback.Tx) error { return fn(tx) })
	return rows, w.translate(def, err)
}

// translate gives an error its answer.
func (w hsWriter) translate(def *schema.Table, err error) error {
	if err == nil {
		return nil
	}
	if r := (*writeback.Refused)(nil); errors.As(err, &r) {
		return &hsserver.WriteError{Text: strconv.Itoa(r.Number), Err: err}
	}
	if errors.Is(err, writeback.ErrChanged) {
		w.router.Forget(def.Schema, def.Name)
		return hsserver.ErrChanged
	}
	for _, known := range []struct {
		err     error
		text    string
		request bool
	}{
		{writeback.ErrUncertain, "uncertain", false},
		{writeback.ErrReadOnly, "readonly", false},
		{writeback.ErrTooLarge, "toolarge", true},
		{writeback.ErrNoNumber, "modop", true},
		{writeback.ErrNoKey, "nokey", true},
	} {
		if errors.Is(err, known.err) {
			return &hsserver.WriteError{Text: known.text, Request: known.request, Err: err}
		}
	}
	return err
}
