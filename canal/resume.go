package canal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// SavePoint is a place of the source's log up to which everything is applied, in a form that outlives the process.
type SavePoint struct {
	// Flavor is the source's; empty before it was reached. Identity tells it from other servers.
	Flavor, Identity string
	// GTID is the set of applied transactions. File and Pos are the place in that server's log; File is empty where it is
	// not known.
	GTID string
	File string
	Pos  uint64
	// Origins is, on MariaDB, the last transaction of each domain and server, in the form of gtid_binlog_state.
	Origins string
	// Made is when the server made that file, in Unix seconds by its clock; 0 where that is not known.
	Made uint32
	// Epoch changes when everything is loaded anew: places of different epochs don't belong together.
	Epoch uint16
}

// SavePoint gives the present one.
func (f *Follower) SavePoint() SavePoint {
	s := f.pos.savePoint()
	f.state.set(func(st *state) {
		if st.source != nil {
			s.Flavor, s.Identity = st.source.flavor, st.source.identity
		}
	})
	return s
}

// Saved is what an earlier process has kept of its tables: the rows of each table as they were at places between Low and
// High, one by one.
type Saved struct {
	Low, High SavePoint
	Tables    []SavedTable
}

// SavedTable is the saved content of one table.
type SavedTable struct {
	Def *schema.Table
	// Same reports that a definition is the one with which the rows were kept.
	Same func(def *schema.Table) bool
	// Read gives all rows to prepare, some at a time, and calls use, which that returns, for one piece while prepare has
	// the next. Rows are valid until use has returned. What it has given must not be used when it returns an error.
	Read func(prepare func(rows []rowcodec.Row) (use func() error)) error
}

// Restorer is a Target that wants to know that its rows are saved ones.
type Restorer interface {
	// Restored comes before the first Install of rows that an earlier process had saved.
	Restored()
	// Prepare does beforehand what of Install needs no order, and gives what does the rest. It is called beside all other
	// methods; rows are valid until install has returned.
	Prepare(rows []rowcodec.Row) (install func(low, high uint64) error)
}

// resumption is a Saved that is to be used with the first connection to the source.
type resumption struct {
	saved *Saved
	low   gtidSet
	high  gtidSet
	state binlogState
}

func newResumption(s *Saved) (*resumption, error) {
	r := &resumption{saved: s}
	var err error
	if s.Low.Flavor == "" || s.Low.Flavor != s.High.Flavor || s.Low.Identity != s.High.Identity {
		return nil, errors.New("the saved state does not say of which server it is")
	}
	if r.low, err = parseGTIDs(s.Low.Flavor, s.Low.GTID); err == nil {
		r.high, err = parseGTIDs(s.Low.Flavor, s.High.GTID)
	}
	if err == nil {
		r.state, err = parseBinlogState(s.Low.Origins)
	}
	if err != nil {
		return nil, fmt.Errorf("the saved state's place in the log: %w", err)
	}
	return r, nil
}

// source is what is known of the server that was followed.
func (r *resumption) source() *source {
	return &source{flavor: r.saved.Low.Flavor, identity: r.saved.Low.Identity}
}

// take puts the follower where the saved state was taken, as if it had been following all the time.
func (r *resumption) take(f *Follower) {
	at := coordinate{r.saved.Low.File, r.saved.Low.Pos}
	f.pos.reset(r.low, r.state, at, at)
	for _, t := range r.saved.Tables {
		if name := (schema.Name{Schema: t.Def.Schema, Table: t.Def.Name}); f.cfg.Tables.Match(name.Schema, name.Table) {
			f.tables.add(name)
		}
	}
}

// restore begins to fill the tables from what was saved, in goroutines that Run waits for, and asks for the load of all
// others. It is called before the stream begins at the place Low, so that no change passes the tables by. end is the log's
// end, up to which they must come before they answer.
func (f *Follower) restore(ctx context.Context, r *resumption, end coordinate) {
	if r.saved.Low.Made != 0 {
		f.made[r.saved.Low.File] = r.saved.Low.Made
	}
	var attempts []*attempt
	var contents []SavedTable
	for _, content := range r.saved.Tables {
		t := f.tables.find(schema.Name{Schema: content.Def.Schema, Table: content.Def.Name})
		if t == nil {
			continue
		}
		a, err := f.attachSaved(ctx, t, content)
		if err != nil {
			f.log.Info("saved rows are not used", "table", t.name.String(), "reason", err.Error())
			continue
		}
		attempts, contents = append(attempts, a), append(contents, content)
	}
	f.restores.Store(int32(len(attempts)))
	for _, t := range f.tables.all() {
		if !t.loading() {
			f.requestLoad(t)
		}
	}
	if f.wildcards {
		f.beginList()
	}
	slots := make(chan struct{}, f.cfg.Loads)
	for i, a := range attempts {
		f.restoring.Go(func() {
			defer f.restores.Add(-1)
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			a.t.mu.Lock()
			a.cancel = cancel
			a.t.mu.Unlock()
			f.settle(ctx, a, a.fill(ctx, contents[i], r.high, end))
			f.wakeLoader()
		})
	}
}

// Restoring reports that tables are being filled from what an earlier process has saved.
func (f *Follower) Restoring() bool { return f.restores.Load() > 0 }

// attachSaved opens the Target of a table whose definition is still the saved one.
func (f *Follower) attachSaved(ctx context.Context, t *table, content SavedTable) (*attempt, error) {
	a := &attempt{f: f, t: t, cancel: func(error) {}, started: time.Now(), def: content.Def}
	err := f.withConn(ctx, func(c *sqltext.Conn) error {
		def, err := schema.Load(ctx, c, c.Flavor(), t.name.Schema, t.name.Table)
		switch {
		case err != nil:
			return err
		case def.Refusal != "":
			return errors.New(def.Refusal)
		case !content.Same(def):
			return errors.New("the table's definition is another one now")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.attempt, t.wanted = a, false
	t.mu.Unlock()
	if err := a.attach(ctx); err != nil {
		t.mu.Lock()
		t.attempt = nil
		t.mu.Unlock()
		return nil, err
	}
	return a, nil
}

// fill installs the saved rows beside the stream, which begins at Low. When the stream has come to High they are of one
// state, and when it has come to the end of the log they are as new as those that a load would have read.
func (a *attempt) fill(ctx context.Context, content SavedTable, high gtidSet, end coordinate) error {
	prepare := func(rows []rowcodec.Row) (install func(low, high uint64) error) {
		return func(low, high uint64) error { return a.target.Install(rows, low, high) }
	}
	if r, ok := a.target.(Restorer); ok {
		r.Restored()
		prepare = r.Prepare
	}
	// All changes after the attachment go to the target, and win over the saved rows.
	low := versionOf(a.f.pos.epochNow(), a.attached)
	err := content.Read(func(rows []rowcodec.Row) (use func() error) {
		install := prepare(rows)
		return func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := install(low, math.MaxUint64); err != nil {
				return err
			}
			a.done += uint64(len(rows))
			a.target.Progress(a.done, max(a.total, a.done))
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("saved rows: %w", a.judge(err))
	}
	if err := a.target.PieceDone(math.MaxUint64, math.MaxUint64); err != nil { // nothing more will be installed
		return err
	}
	a.f.log.Debug("saved rows are in memory", "table", a.t.name.String(), "rows", a.done, "seconds", time.Since(a.started).Seconds(),
		"place", a.f.pos.mark().at.String(), "end", end.String())
	if err := a.f.pos.waitSet(ctx, high); err != nil {
		return err
	}
	if err := a.f.pos.waitPlace(ctx, end); err != nil {
		return err
	}
	return a.goLive("saved state")
}
