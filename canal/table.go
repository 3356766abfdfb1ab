package canal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// ErrRefused is for a Sink and its Targets to wrap: the table can't be kept as it is, and loading it again would come to
// the same. The table is refused, and tried again after a while or when its definition changes.
var ErrRefused = errors.New("the table cannot be kept")

// Sink receives the tables. Calls for one table come one after the other; those for different tables may overlap. The
// methods must not call the Follower, whose locks are held.
type Sink interface {
	// Load begins a table's content anew, empty; Targets given before must not change it any more. The table does not
	// answer until Target.Live. An error means that the table can't be kept: Refuse follows with its text. One that wraps
	// ErrRefused may go away without a change of the definition, and the table is tried again after a while.
	Load(schemaName, table string, def *schema.Table) (Target, error)
	// Suspend says that the content may be wrong from now on; a Load follows. It is also how the Sink first hears of a
	// table.
	Suspend(schemaName, table, reason string)
	// Refuse says that the table can't be kept until its definition changes.
	Refuse(schemaName, table, reason string)
	// Remove says that there is no such table any more.
	Remove(schemaName, table string)
	// Redefine says that the indexes of a table that is live may have changed, and neither rows nor columns: its Target
	// takes changes as before, and the table does not answer until Target.Redefine. A Suspend or Refuse may come instead.
	Redefine(schemaName, table string)
	// SchemaChanged says that definitions may have changed: of one table, of all of a schema where table is empty, of all
	// where both are. It is called before the change counts as applied.
	SchemaChanged(schemaName, table string)
}

// Target takes the content of one table, from one Load to the next Load, Suspend, Refuse or Remove of it. After that, and
// after an error, its methods are still called now and then: they do nothing but return an error. An error while
// the Target is the present one has the table suspended and loaded anew, or refused when it wraps ErrRefused. Apply may
// come at the same time as one of the other methods. The memory of rows belongs to the caller again when a method has
// returned.
type Target interface {
	// Apply applies all changes that one transaction made to the table, in order, for readers at once. The error may be
	// that they do not fit the content (a gap in the log).
	Apply(changes []rowcodec.Change, version uint64) error
	// Install puts rows that a SELECT has read, which saw all changes up to the version low and none beyond high. A row
	// whose key was put or deleted by an Apply with a version above low is passed over: the event knows better.
	Install(rows []rowcodec.Row, low, high uint64) error
	// PieceDone says that such a SELECT has given no more rows up to the last one installed, in the order of the key, or of
	// the whole table where that was not the order; and that no Install with a lower low will come. The error may be that
	// the rows do not agree with what came to Apply.
	PieceDone(low, high uint64) error
	// Live says that the content is complete.
	Live() error
	// Redefine ends what Sink.Redefine began: def is the definition from now on. Its columns, and the columns of its key, are
	// those of the definition before.
	Redefine(def *schema.Table) error
	// Progress tells how many of about so many rows have been read; total may turn out too small.
	Progress(done, total uint64)
}

// Limited is a Target that keeps no rows beyond a size. Rows of events that are larger may be cut off when they come to
// Apply, so that they are still too large.
type Limited interface {
	// MostRow is the largest row that is kept, in bytes; 0 for no limit. It is called under way, from any goroutine.
	MostRow() int
	// TooLarge says that the table has a row that is larger, and gives the error of a method that was given one.
	TooLarge() error
}

// mostRow is the largest row that a target keeps, 0 for no limit.
func mostRow(t Target) int {
	if l, ok := t.(Limited); ok {
		return l.MostRow()
	}
	return 0
}

// table is one followed table. Its mu is held during calls of the Sink for it, so that they come in order; who holds it
// takes no other lock but those of the Sink.
type table struct {
	name schema.Name

	// feed is where changes go; nil while the table does not take any. Only between transactions does one become another
	// (attempt.attach), so a transaction sees one feed or none.
	feed atomic.Pointer[feed]

	mu sync.Mutex
	// phase is what the Sink was told last.
	phase phase
	// attempt is the load under way, or nil.
	attempt *attempt
	// wanted asks for a load at the time due.
	wanted bool
	due    time.Time
	pace   pace
	// liveSince is when the last load ended well; sinkWait is how long the last refusal by the Sink was to last.
	liveSince time.Time
	sinkWait  time.Duration
	// hot is set while the content is that of a HotTarget, which takes the changes after attached.
	hot      bool
	attached uint64
	// asked marks a table of FollowHot, which is no table of the patterns and may be forgotten; gone, one that was.
	asked, gone bool
	// redefine counts the statements that may have changed the indexes of the live table, and asks for the definition while
	// it is not 0. redefining is set while that is being read.
	redefine   int
	redefining bool
	// xa are the XA transactions of the last seconds that changed the table (MariaDB only).
	xa []xaCommit
}

type phase uint8

const (
	phaseUnknown phase = iota
	phaseSuspended
	phaseLoading
	phaseLive
	phaseRefused
	phaseAbsent
)

// feed is a Target with what the stream needs to fill it. Another definition makes another feed.
type feed struct {
	target Target
	def    *schema.Table
	// decoder is the one for the last table map; the stream's own.
	decoder *rowcodec.Decoder
}

// same reports that two feeds lead to the same content; their definitions may differ in indexes.
func (fd *feed) same(other *feed) bool { return fd != nil && other != nil && fd.target == other.target }

// xaCommit remembers when an XA transaction was applied. See attempt.low.
type xaCommit struct {
	seq uint64
	at  time.Time
}

// Loads of one table are paced: loadBurst of them at once, then loadRate a second, and never more time spent on loads that
// came to nothing than left to others.
const (
	loadBurst = 10
	loadRate  = 2.0
	// longestPause bounds the wait after a load that was thrown away.
	longestPause = 30 * time.Second
)

// pace is a bucket of tokens, and the failures since the last success.
type pace struct {
	tokens   float64
	filled   time.Time
	failures int
}

// wait takes a token and says how long the next load has to wait; wasted is what the last one had taken when it was cut
// off.
func (p *pace) wait(now time.Time, wasted time.Duration) time.Duration {
	if p.filled.IsZero() {
		p.tokens = loadBurst
	} else {
		p.tokens = min(loadBurst, p.tokens+now.Sub(p.filled).Seconds()*loadRate)
	}
	p.filled = now
	p.tokens--
	wait := min(wasted, longestPause)
	if p.tokens < 0 {
		wait = max(wait, time.Duration(-p.tokens/loadRate*float64(time.Second)))
	}
	if p.failures > 0 {
		b := backoff{failures: p.failures - 1}
		wait = max(wait, b.next())
	}
	return min(wait, longestPause)
}

// suspend ends what is under way for a table and tells the Sink. The caller asks for a load when the cause has been
// counted as applied (requestLoad).
func (f *Follower) suspend(t *table, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.suspendLocked(t, reason)
}

// suspendChanged is suspend for a table that may not be what it was: one that is refused need not wait to be tried again.
func (f *Follower) suspendChanged(t *table, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == phaseRefused {
		t.wanted, t.sinkWait = false, 0
	}
	f.suspendLocked(t, reason)
}

func (f *Follower) suspendLocked(t *table, reason string) {
	if t.gone {
		return
	}
	if t.phase == phaseRefused && t.wanted {
		return // it has no content, and the time of the next try stands
	}
	t.feed.Store(nil)
	t.redefine = 0
	var wasted time.Duration
	if t.attempt != nil {
		wasted = time.Since(t.attempt.started)
		t.attempt.cancel(errSuperseded)
		t.attempt = nil
		f.counts.loadsCutOff.Add(1)
	}
	if !t.wanted {
		t.due = time.Now().Add(t.pace.wait(time.Now(), wasted))
	}
	if t.phase == phaseAbsent {
		return // it is looked for again; until then there is nothing to suspend
	}
	level := slog.LevelInfo
	if t.phase == phaseSuspended || t.phase == phaseUnknown {
		level = slog.LevelDebug // nothing is lost by it
	}
	f.log.Log(context.Background(), level, "table suspended", "table", t.name.String(), "reason", reason)
	t.phase = phaseSuspended
	f.cfg.Sink.Suspend(t.name.Schema, t.name.Table, reason)
}

// requestLoad asks for the load of tables that were suspended or are new.
func (f *Follower) requestLoad(tables ...*table) {
	if len(tables) == 0 {
		return
	}
	for _, t := range tables {
		t.mu.Lock()
		t.wanted = !t.gone
		t.mu.Unlock()
	}
	f.wakeLoader()
}

// reload is suspend and requestLoad for a cause that is not in the log.
func (f *Follower) reload(t *table, reason string) {
	f.suspend(t, reason)
	f.requestLoad(t)
}

// loading reports that a load of the table is under way.
func (t *table) loading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attempt != nil
}

// registry holds the followed tables. Those of the patterns are never taken out: one that is gone may come back.
type registry struct {
	mu     sync.RWMutex
	tables map[schema.Name]*table
	// changes counts additions, for the stream's own cache of names.
	changes atomic.Uint64
}

// find returns the table of that name, or nil.
func (r *registry) find(name schema.Name) *table {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tables[name]
}

// add returns the table of that name and whether it is new.
func (r *registry) add(name schema.Name) (t *table, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tables[name]; t != nil {
		return t, false
	}
	t = &table{name: name}
	r.tables[name] = t
	r.changes.Add(1)
	return t, true
}

// alias gives a table a second name: the server's own spelling where names are compared without case.
func (r *registry) alias(name schema.Name, t *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tables[name] == nil {
		r.tables[name] = t
		r.changes.Add(1)
	}
}

// remove takes a table out, with all its names. The table's mu may be held.
func (r *registry) remove(t *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.tables {
		if other == t {
			delete(r.tables, name)
		}
	}
	r.changes.Add(1)
}

// all returns the tables, each once, in no order.
func (r *registry) all() []*table {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*table, 0, len(r.tables))
	for name, t := range r.tables {
		if t.name == name {
			all = append(all, t)
		}
	}
	return all
}

// backoff gives growing pauses with jitter between tries of something that fails.
type backoff struct{ failures int }

const (
	firstPause = 50 * time.Millisecond
	mostPause  = 5 * time.Second
)

func (b *backoff) next() time.Duration {
	pause := min(firstPause<<min(b.failures, 10), mostPause)
	b.failures++
	return jitter(pause)
}

// retry runs do until it succeeds, ends with an error that again refuses, or ctx ends.
func retry(ctx context.Context, do func() error, again func(error) bool) error {
	var b backoff
	for {
		err := do()
		if err == nil || ctx.Err() != nil || !again(err) {
			return err
		}
		if err := sleep(ctx, b.next()); err != nil {
			return err
		}
	}
}
