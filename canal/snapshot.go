package canal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Sizes of the pieces in which a table is read. Larger ones read a little faster; each piece is memory, and time during
// which the cache's lock is held while it is installed.
const (
	chunkBytes = 2 << 20 // aimed at
	// chunkMost cuts a piece off in which rows turn out to be much larger than those before.
	chunkMost  = 8 << 20
	chunkLeast = 512 << 10 // where rows are small for want of memory
	// packetRoom is what a row may take beyond its size in memory on its way from the server.
	packetRoom  = 64 << 10
	chunkTime   = 75 * time.Millisecond // aimed at
	maxChunk    = 50_000                // rows
	reportEvery = 10 * time.Second
	// xaDelay is how long after an XA COMMIT in the log its changes may still be invisible to a SELECT on MariaDB, which
	// does not commit them in the engine under the lock that orders other commits. It takes microseconds.
	xaDelay = 3 * time.Second
)

// attempt is one try at loading one table: its definition, then all its rows beside the stream.
type attempt struct {
	f       *Follower
	t       *table
	cancel  context.CancelCauseFunc
	started time.Time

	def    *schema.Table
	target Target
	// attached is the sequence number after which the stream gives all changes to target.
	attached    uint64
	done, total uint64
	reported    time.Time
}

// refusal is the end of a load because the table can't be kept.
type refusal struct {
	reason string
	// recheck is when to try again, for a reason that can go away without a trace in the log; 0 for others.
	recheck time.Duration
	// sink is set for a reason of the Sink, for which the tries become rarer.
	sink bool
}

func (r *refusal) Error() string { return r.reason }

// run loads the table. nil means that it is live.
func (a *attempt) run(ctx context.Context) error {
	if err := a.define(ctx); err != nil {
		return err
	}
	if err := a.attach(ctx); err != nil {
		return err
	}
	a.f.log.Debug("loading table", "table", a.t.name.String(), "rows_about", a.total)
	var err error
	_, hot := a.target.(HotTarget)
	switch {
	case hot:
		err = a.beginHot(ctx)
	case !chunkable(a.def):
		err = a.copyWhole(ctx)
	default:
		err = a.copyChunks(ctx)
	}
	if err != nil {
		return a.judge(err)
	}
	return a.goLive("database")
}

// goLive ends a load whose content is complete. from is where that came from, for the log.
func (a *attempt) goLive(from string) error {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	if a.t.attempt != a {
		return errSuperseded
	}
	if err := a.target.Live(); err != nil {
		return a.judge(err)
	}
	a.t.phase, a.t.liveSince = phaseLive, time.Now()
	a.f.counts.loads.Add(1)
	what := "table is live"
	if _, hot := a.target.(HotTarget); hot {
		what = "table is hot"
	}
	a.f.log.Info(what, "table", a.t.name.String(), "rows", a.done, "seconds", time.Since(a.started).Seconds(), "from", from)
	return nil
}

// judge turns errors that another try would meet again into refusals.
func (a *attempt) judge(err error) error {
	if l, ok := a.target.(Limited); ok && errors.Is(err, sqltext.ErrTooLarge) {
		err = l.TooLarge()
	}
	if errors.Is(err, ErrRefused) {
		return &refusal{reason: err.Error(), recheck: recheckSink, sink: true}
	}
	if denied(err) {
		return &refusal{reason: fmt.Sprintf("its rows cannot be read: %v", err), recheck: recheckPrivilege}
	}
	switch sqltext.ServerCode(err) {
	case mysql.ER_NO_SUCH_TABLE, mysql.ER_BAD_FIELD_ERROR, mysql.ER_KEY_DOES_NOT_EXITS, mysql.ER_TABLE_DEF_CHANGED:
		return fmt.Errorf("its definition has changed meanwhile: %w", err)
	}
	return err
}

// define reads the definition and waits until the stream has come to a place where the table has it. Whatever may
// change the table between cancels the attempt: the statement's event comes after the point that the definition is
// known to include.
func (a *attempt) define(ctx context.Context) error {
	f := a.f
	var end coordinate
	err := f.withConn(ctx, func(c *sqltext.Conn) error {
		if err := f.pos.waitPlace(ctx, coordinate{}); err != nil {
			return err
		}
		if err := waitVisible(ctx, c, f.pos.mark()); err != nil {
			return err
		}
		var err error
		if a.def, err = schema.Load(ctx, c, c.Flavor(), a.t.name.Schema, a.t.name.Table); err != nil {
			return err
		}
		if a.def.Refusal == "" {
			// Only for people's eyes: an error here is none.
			a.total, _ = schema.EstimateRows(ctx, c, a.def.Schema, a.def.Name)
		}
		end, _, err = logEnd(ctx, c)
		return err
	})
	if err != nil {
		return a.judge(err)
	}
	f.hook(hookDefined, a.t.name)
	if err := f.pos.waitPlace(ctx, end); err != nil {
		return err
	}
	if a.def.Refusal != "" {
		return &refusal{reason: a.def.Refusal}
	}
	if filters := f.filters(); a.t.asked && filters != "" {
		// Tables of the patterns were checked when the source was inspected.
		return &refusal{reason: "the source leaves schemas out of its binlog (" + filters + ")"}
	}
	return nil
}

// attach opens the Target and leads the table's changes to it, between two transactions.
func (a *attempt) attach(ctx context.Context) error {
	if err := a.f.gate.take(ctx); err != nil {
		return err
	}
	defer a.f.gate.release()
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	if a.t.attempt != a {
		return errSuperseded
	}
	target, err := a.f.cfg.Sink.Load(a.t.name.Schema, a.t.name.Table, a.def)
	switch {
	case errors.Is(err, ErrRefused):
		return a.judge(err)
	case err != nil:
		return &refusal{reason: err.Error()}
	}
	a.target = target
	a.t.phase = phaseLoading
	a.attached = a.f.pos.mark().seq
	_, a.t.hot = target.(HotTarget)
	a.t.attached = a.attached
	a.t.feed.Store(&feed{target: target, def: a.def})
	if name := (schema.Name{Schema: a.def.Schema, Table: a.def.Name}); name != a.t.name {
		a.f.tables.alias(name, a.t)
	}
	target.Progress(0, a.total)
	return nil
}

// low gives a point of the applied order whose effects a SELECT that begins afterwards on c sees: the low mark of what
// it reads. All changes after it go to the target.
func (a *attempt) low(ctx context.Context, c *sqltext.Conn) (mark, error) {
	for {
		m := a.f.pos.mark()
		if err := waitVisible(ctx, c, m); err != nil {
			return mark{}, err
		}
		// See xaDelay: XA transactions are given time to be seen. Those after the start of the load go to the target, so
		// a lower mark does as well; for those before there is only waiting.
		wait, before := a.t.xaPending(a.attached)
		if wait > 0 {
			if err := sleep(ctx, wait); err != nil {
				return mark{}, err
			}
			continue
		}
		if before > 0 && before <= m.seq {
			m.version -= m.seq - (before - 1)
			m.seq = before - 1
		}
		return m, nil
	}
}

// noteXA records the XA COMMIT of changes of the table.
func (t *table) noteXA(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneXA()
	t.xa = append(t.xa, xaCommit{seq, time.Now()})
}

func (t *table) pruneXA() {
	n := 0
	for n < len(t.xa) && time.Since(t.xa[n].at) > xaDelay {
		n++
	}
	t.xa = t.xa[n:]
}

// xaPending says how long to wait for XA transactions up to attached to be seen for certain, and the sequence number of
// the first later one that may not be; 0 for none.
func (t *table) xaPending(attached uint64) (wait time.Duration, first uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneXA()
	for _, x := range t.xa {
		if x.seq <= attached {
			wait = max(wait, xaDelay-time.Since(x.at)+time.Millisecond)
		} else if first == 0 {
			first = x.seq
		}
	}
	return wait, first
}

// chunk is a piece of a table with the bracket in which it holds: a SELECT saw everything up to low, and nothing beyond
// high. reached is the version at which the stream had come there; 0 before.
type chunk struct {
	arena   rowcodec.Arena
	rows    []rowcodec.Row
	low     mark
	high    coordinate
	reached uint64
	last    bool // of the table
}

func (ch *chunk) reset() {
	ch.arena.Reset()
	clear(ch.rows) // large rows have memory of their own
	ch.rows = ch.rows[:0]
}

// copyChunks installs the table's pieces.
func (a *attempt) copyChunks(ctx context.Context) error {
	reader := newChunkReader(a.def, a.f.cfg.ChunkRows, a.f.mostRows, a.target)
	return a.pieces(ctx, reader, func(ctx context.Context, ch *chunk) error {
		if err := a.install(ctx, ch); err != nil {
			return err
		}
		return a.target.PieceDone(ch.low.version, ch.reached) // the lows of later chunks are not lower
	})
}

// pieces reads the table in the order of its key, a piece per SELECT, and has each one used. While one piece gets its high
// mark and is used, which takes until the stream has come there, the next is read.
func (a *attempt) pieces(ctx context.Context, reader *chunkReader, use func(ctx context.Context, ch *chunk) error) error {
	group, ctx := errgroup.WithContext(ctx)
	free := make(chan *chunk, 2)
	free <- &chunk{}
	free <- &chunk{}
	full := make(chan *chunk)
	group.Go(func() error {
		defer close(full)
		return a.readChunks(ctx, reader, free, full)
	})
	group.Go(func() error {
		for ch := range full {
			var err error
			if ch.high, err = a.f.endOfLog(ctx); err != nil {
				return err
			}
			ch.reached = 0
			if err := use(ctx, ch); err != nil {
				return err
			}
			free <- ch
		}
		return nil
	})
	return group.Wait()
}

// install puts a piece into the target when the stream has reached its high mark.
func (a *attempt) install(ctx context.Context, ch *chunk) error {
	a.f.hook(hookChunkRead, a.t.name)
	if err := a.f.pos.waitPlace(ctx, ch.high); err != nil {
		return err
	}
	if ch.reached == 0 {
		ch.reached = a.f.pos.mark().version
	}
	if len(ch.rows) > 0 {
		if err := a.target.Install(ch.rows, ch.low.version, ch.reached); err != nil {
			return err
		}
	}
	a.done += uint64(len(ch.rows))
	a.target.Progress(a.done, max(a.total, a.done))
	if a.reported.IsZero() {
		a.reported = a.started
	}
	if time.Since(a.reported) >= reportEvery {
		a.reported = time.Now()
		a.f.log.Info("loading table", "table", a.t.name.String(), "rows", a.done, "rows_about", max(a.total, a.done))
	}
	return nil
}

// readChunks gives the table's pieces to full, in order, without their high marks. When a connection is lost it goes on after
// the last piece that was whole, with the same target: the stream has gone on meanwhile, or takes up where it was.
func (a *attempt) readChunks(ctx context.Context, reader *chunkReader, free <-chan *chunk, full chan<- *chunk) error {
	for more := true; more; {
		var ch *chunk
		select {
		case ch = <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := a.f.withConn(ctx, func(c *sqltext.Conn) (err error) {
			if ch.low, err = a.low(ctx, c); err != nil {
				return err
			}
			more, err = reader.read(ctx, c, ch)
			return err
		})
		if err != nil {
			return err
		}
		ch.last = !more
		select {
		case full <- ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// copyWhole reads the table with one SELECT, for keys by whose values a SELECT can't go on. It all has one low mark, and
// one high mark taken when the SELECT has begun to answer.
func (a *attempt) copyWhole(ctx context.Context) error {
	ch := &chunk{}
	reader := newChunkReader(a.def, a.f.cfg.ChunkRows, a.f.mostRows, a.target)
	err := a.f.withConn(ctx, func(c *sqltext.Conn) (err error) {
		// A lost connection starts it all over: rows that are there already are put again.
		a.done = 0
		ch.reset()
		ch.high, ch.reached = coordinate{}, 0
		if ch.low, err = a.low(ctx, c); err != nil {
			return err
		}
		return reader.stream(ctx, c, ch, func() error {
			if ch.high.file == "" {
				if ch.high, err = a.f.endOfLog(ctx); err != nil {
					return err
				}
			}
			if err := a.install(ctx, ch); err != nil {
				return err
			}
			ch.reset()
			return nil
		})
	})
	if err != nil {
		return err
	}
	// The last rows; and a change of the definition since shows before this place.
	if ch.high, err = a.f.endOfLog(ctx); err != nil {
		return err
	}
	if err := a.install(ctx, ch); err != nil {
		return err
	}
	return a.target.PieceDone(ch.low.version, ch.reached)
}

// chunkReader makes the SELECTs of one table and takes their rows.
type chunkReader struct {
	def     *schema.Table
	columns string // SELECT ... FROM ...
	builder rowcodec.Builder
	// limit is the number of rows of the next piece, at most most.
	limit, most int
	// mostRow is the largest row that is wanted, in bytes, 0 for no limit; mostBytes is where a piece is cut off.
	mostRow, mostBytes int
	// after is the key of the last row read, nil at the start.
	after [][]byte
}

// errEnough ends a SELECT whose rows are larger than expected.
var errEnough = errors.New("chunk is full")

// newChunkReader reads rows for a target, which may be nil.
func newChunkReader(def *schema.Table, limit, most int, target Target) *chunkReader {
	sql := "SELECT "
	for i := range def.Columns {
		if i > 0 {
			sql += ", "
		}
		sql += schema.QuoteName(def.Columns[i].Name)
	}
	sql += " FROM " + schema.QuoteName(def.Schema) + "." + schema.QuoteName(def.Name)
	r := &chunkReader{def: def, columns: sql, limit: min(limit, most), most: most, mostBytes: chunkMost}
	if r.mostRow = mostRow(target); r.mostRow > 0 {
		r.mostBytes = min(chunkMost, max(r.mostRow/2, chunkLeast))
	}
	return r
}

// run runs a SELECT of rows. One that is larger than wanted gives sqltext.ErrTooLarge.
func (r *chunkReader) run(ctx context.Context, c *sqltext.Conn, sql string, row func(f sqltext.Fields) error) error {
	most := 0
	if r.mostRow > 0 {
		most = r.mostRow + packetRoom
	}
	return c.StreamMost(ctx, sql, most, row)
}

// chunkable reports that rows can be read in the order of the key, going on after a given row by literals of its key.
// ENUM, SET and BIT compare with literals in another way than the index orders them, and YEAR takes 0 for 2000; such keys
// are rare.
func chunkable(def *schema.Table) bool {
	for _, part := range def.Indexes[def.Key].Parts {
		switch def.Columns[part.Column].Kind {
		case schema.KindInt, schema.KindDecimal, schema.KindDate, schema.KindTime, schema.KindDatetime, schema.KindTimestamp,
			schema.KindChar, schema.KindVarchar, schema.KindBinary, schema.KindVarbinary:
		default:
			return false
		}
	}
	return true
}

// read reads the next piece. more is false when it was the last.
func (r *chunkReader) read(ctx context.Context, c *sqltext.Conn, ch *chunk) (more bool, err error) {
	ch.reset()
	begin := time.Now()
	limit := r.limit
	err = r.run(ctx, c, r.sql(limit), func(f sqltext.Fields) error {
		if ch.arena.Size() > r.mostBytes {
			return errEnough
		}
		return r.take(f, ch)
	})
	cut := errors.Is(err, errEnough)
	if err != nil && !cut {
		return false, err
	}
	n := len(ch.rows)
	r.adapt(n, ch.arena.Size(), time.Since(begin))
	if n > 0 {
		key := r.def.Indexes[r.def.Key].Parts
		r.after = r.after[:0]
		for _, part := range key {
			v, _ := ch.rows[n-1].Value(part.Column)
			r.after = append(r.after, append([]byte{}, v...))
		}
	}
	return cut || n == limit, nil
}

// adapt chooses the size of the next piece.
func (r *chunkReader) adapt(rows, size int, took time.Duration) {
	if rows == 0 {
		return
	}
	switch {
	case took > 2*chunkTime:
		r.limit /= 2
	case took < chunkTime/2 && rows == r.limit:
		r.limit *= 2
	}
	r.limit = min(r.limit, min(chunkBytes, r.mostBytes)/max(size/rows, 1), r.most)
	r.limit = max(r.limit, 1)
}

func (r *chunkReader) take(f sqltext.Fields, ch *chunk) error {
	r.builder.Reset()
	for range r.def.Columns {
		v, null, ok := f.Next()
		switch {
		case !ok:
			return sqltext.ErrMalformed
		case null:
			r.builder.Null()
		default:
			r.builder.Add(v)
		}
	}
	ch.rows = append(ch.rows, ch.arena.Row(&r.builder))
	return nil
}

// sql is the SELECT of the next rows in the order of the key; of all with a limit of 0.
func (r *chunkReader) sql(limit int) string {
	index := &r.def.Indexes[r.def.Key]
	b := append([]byte(r.columns), " FORCE INDEX ("+schema.QuoteName(index.Name)+")"...)
	if r.after != nil {
		b = append(b, " WHERE "...)
		// (a > x) OR (a = x AND b > y) ...: the servers make ranges of the index of it, other than of (a, b) > (x, y).
		for last := range index.Parts {
			if last > 0 {
				b = append(b, " OR "...)
			}
			b = append(b, '(')
			for i := range last + 1 {
				part := index.Parts[i]
				column := &r.def.Columns[part.Column]
				if i > 0 {
					b = append(b, " AND "...)
				}
				b = append(b, schema.QuoteName(column.Name)...)
				switch {
				case i < last:
					b = append(b, " = "...)
				case part.Desc:
					b = append(b, " < "...)
				default:
					b = append(b, " > "...)
				}
				b = schema.AppendLiteral(b, column, r.after[i])
			}
			b = append(b, ')')
		}
	}
	b = append(b, " ORDER BY "...)
	for i, part := range index.Parts {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, schema.QuoteName(r.def.Columns[part.Column].Name)...)
		if part.Desc {
			b = append(b, " DESC"...)
		}
	}
	if limit > 0 {
		b = fmt.Appendf(b, " LIMIT %d", limit)
	}
	return string(b)
}

// stream reads the whole table and calls flush whenever a piece is full; the rows of the last one are left in ch.
func (r *chunkReader) stream(ctx context.Context, c *sqltext.Conn, ch *chunk, flush func() error) error {
	return r.streamSQL(ctx, c, r.columns, ch, flush)
}

// streamOrdered is stream in the order of the key.
func (r *chunkReader) streamOrdered(ctx context.Context, c *sqltext.Conn, ch *chunk, flush func() error) error {
	return r.streamSQL(ctx, c, r.sql(0), ch, flush)
}

func (r *chunkReader) streamSQL(ctx context.Context, c *sqltext.Conn, sql string, ch *chunk, flush func() error) error {
	return r.run(ctx, c, sql, func(f sqltext.Fields) error {
		if err := r.take(f, ch); err != nil {
			return err
		}
		if ch.arena.Size() < min(chunkBytes, r.mostBytes) && len(ch.rows) < r.most {
			return nil
		}
		return flush()
	})
}
