package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

var (
	// ErrNotLive is given by Audit for a table that has no complete content, or whose content was given up meanwhile.
	ErrNotLive = errors.New("the table is not live")
	// ErrKey is wrapped by what is wrong with AuditOptions.Key.
	ErrKey = errors.New("not a whole key of the table")
)

// Piece is a stretch of a table as the source had it, for comparing with the Target's content.
type Piece struct {
	// Rows are all rows of the source in the stretch, in the order of the key. They are valid during the call only.
	Rows []rowcodec.Row
	// Key is the key that was asked for; else the stretch begins behind After's key, or with the first row where that is
	// nil, and ends with Until's, or with the last row.
	Key          [][]byte
	After, Until rowcodec.Row
	// Seen is the version up to which all changes are in Rows. Later ones may be. What may be in Rows has been applied.
	Seen uint64
}

// AuditOptions say what Audit reads.
type AuditOptions struct {
	// Key are the values of a whole row-identity key, to read that row alone; nil for the whole table.
	Key [][]byte
	// Rows is the size of the pieces; 0 means 2,000.
	Rows int
	// Begin is called once, before anything is read, with the Target that judge will get; nil for nothing.
	Begin func(t Target) error
}

const defaultAuditRows = 2000

// Audit reads a live table beside the stream, as a load does: without locks, piece by piece, each bracketed by two places
// of the log. judge is called for each piece when the stream has come to the second one; Target is the one that the
// table has now, and Def its definition. The error is judge's, ErrNotLive when the table is not live, or hot, or ceases to
// be live, or that of the source.
func (f *Follower) Audit(ctx context.Context, name schema.Name, o AuditOptions, judge func(t Target, def *schema.Table, p *Piece) error) error {
	t := f.tables.find(name)
	var fd *feed
	if t != nil {
		t.mu.Lock()
		if t.phase == phaseLive && !t.hot {
			fd = t.feed.Load()
		}
		t.mu.Unlock()
	}
	if fd == nil {
		return fmt.Errorf("%s: %w", name, ErrNotLive)
	}
	if o.Rows <= 0 {
		o.Rows = defaultAuditRows
	}
	if o.Begin != nil {
		if err := o.Begin(fd.target); err != nil {
			return err
		}
	}
	a := &auditing{f: f, attempt: &attempt{f: f, t: t, def: fd.def}, feed: fd, judge: judge, options: o}
	var err error
	switch {
	case o.Key != nil:
		err = a.one(ctx)
	case chunkable(fd.def):
		err = a.chunks(ctx)
	default:
		err = a.whole(ctx)
	}
	if errors.Is(err, sqltext.ErrTooLarge) {
		// The change that made it so large is on its way, and ends the table.
		return fmt.Errorf("%s: %w: %w", name, ErrNotLive, err)
	}
	if err != nil && ctx.Err() == nil && t.feed.Load() != fd {
		// Whatever it was, this is why.
		return fmt.Errorf("%s: %w", name, ErrNotLive)
	}
	return err
}

// auditing is one run of Audit.
type auditing struct {
	f       *Follower
	attempt *attempt // for reading as a load does
	feed    *feed
	judge   func(t Target, def *schema.Table, p *Piece) error
	options AuditOptions

	last rowcodec.Row // of the piece before
}

// give waits until the stream has come to the piece's high mark, and has it judged.
func (a *auditing) give(ctx context.Context, ch *chunk, final bool) error {
	if err := a.f.pos.waitPlace(ctx, ch.high); err != nil {
		return err
	}
	p := &Piece{Rows: ch.rows, Key: a.options.Key, After: a.last, Seen: ch.low.version}
	if !final {
		p.Until = slices.Clone(ch.rows[len(ch.rows)-1])
	}
	a.last = p.Until
	if a.attempt.t.feed.Load() != a.feed {
		return ErrNotLive
	}
	return a.judge(a.feed.target, a.feed.def, p)
}

func (a *auditing) chunks(ctx context.Context) error {
	reader := newChunkReader(a.feed.def, a.options.Rows, a.options.Rows, a.feed.target)
	return a.attempt.pieces(ctx, reader, func(ctx context.Context, ch *chunk) error { return a.give(ctx, ch, ch.last) })
}

// whole reads the table with one SELECT. A connection that is lost is the end of it.
func (a *auditing) whole(ctx context.Context) error {
	reader := newChunkReader(a.feed.def, a.options.Rows, a.options.Rows, a.feed.target)
	ch := &chunk{}
	pool := a.f.pool.Load()
	c, err := pool.Get(ctx)
	if err != nil {
		return err
	}
	defer pool.Put(c)
	if ch.low, err = a.attempt.low(ctx, c); err != nil {
		return err
	}
	err = reader.streamOrdered(ctx, c, ch, func() (err error) {
		if ch.high.file == "" { // the SELECT has begun to answer: it sees nothing later
			if ch.high, err = a.f.endOfLog(ctx); err != nil {
				return err
			}
		}
		if err := a.give(ctx, ch, false); err != nil {
			return err
		}
		ch.reset()
		return nil
	})
	if err == nil && ch.high.file == "" {
		ch.high, err = a.f.endOfLog(ctx)
	}
	if err != nil {
		return err
	}
	return a.give(ctx, ch, true)
}

// one reads the row of one key.
func (a *auditing) one(ctx context.Context) error {
	def := a.feed.def
	parts := def.Indexes[def.Key].Parts
	if len(a.options.Key) != len(parts) {
		return fmt.Errorf("%w: %d values for the %d columns of %s", ErrKey, len(a.options.Key), len(parts), def.Indexes[def.Key].Name)
	}
	reader := newChunkReader(def, 1, 1, a.feed.target)
	sql := []byte(reader.columns + " WHERE ")
	for i, part := range parts {
		column := &def.Columns[part.Column]
		if a.options.Key[i] == nil {
			return fmt.Errorf("%w: %s is never NULL", ErrKey, column.Name)
		}
		value, err := rowcodec.Convert(nil, column, a.options.Key[i])
		if err != nil {
			return fmt.Errorf("%w: column %s: %w", ErrKey, column.Name, err)
		}
		if i > 0 {
			sql = append(sql, " AND "...)
		}
		sql = append(sql, schema.QuoteName(column.Name)+" = "...)
		sql = schema.AppendLiteral(sql, column, value)
	}
	ch := &chunk{}
	err := a.f.withConn(ctx, func(c *sqltext.Conn) (err error) {
		ch.reset()
		if ch.low, err = a.attempt.low(ctx, c); err != nil {
			return err
		}
		if err := reader.run(ctx, c, string(sql), func(f sqltext.Fields) error { return reader.take(f, ch) }); err != nil {
			return err
		}
		ch.high, _, err = logEnd(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	return a.give(ctx, ch, true)
}

// Between calls do between two transactions, while nothing is given to the table's target, provided that this is still
// the one that Audit showed. version is that of the last transaction that was applied. After an error of do the table is
// loaded anew.
func (f *Follower) Between(ctx context.Context, name schema.Name, target Target, do func(version uint64) error) error {
	t := f.tables.find(name)
	if t == nil {
		return fmt.Errorf("%s: %w", name, ErrNotLive)
	}
	if err := f.gate.take(ctx); err != nil {
		return err
	}
	defer f.gate.release()
	if now := t.feed.Load(); now == nil || now.target != target {
		return fmt.Errorf("%s: %w", name, ErrNotLive)
	}
	err := do(f.pos.mark().version)
	if err != nil {
		f.reload(t, err.Error())
	}
	return err
}
