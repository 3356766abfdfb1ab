package app

import (
	"context"
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/hsserver"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/mcserver"
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
	// Of several sources none is written to before it is followed.
	var first *sqltext.Config
	if len(d.sources) == 1 {
		first = d.sources[0]
	}
	return writeback.New(first, cfg)
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

// Changes implements hsserver.Writer.
func (w hsWriter) Changes(ctx context.Context, changes []*schema.Change, answer func(i, rows int, id uint64, err error)) {
	w.writer.Changes(ctx, changes, func(i, rows int, id uint64, err error) { answer(i, rows, id, w.translate(changes[i].Def, err)) })
}

// Begin implements hsserver.Writer.
func (w hsWriter) Begin(ctx context.Context, changes []*schema.Change, ended func([]hsserver.Result)) bool {
	return w.writer.Begin(ctx, changes, func(results []writeback.Result) {
		out := make([]hsserver.Result, len(results))
		for i, r := range results {
			out[i] = hsserver.Result{Rows: r.Rows, ID: r.ID, Err: w.translate(changes[i].Def, r.Err)}
		}
		ended(out)
	})
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

// mcWriter gives the writer's errors the types of the memcached port.
type mcWriter struct {
	writer *writeback.Writer
	router *router.Router
}

var (
	_ mcserver.Writer = mcWriter{}
	_ mcserver.Tx     = (*writeback.Tx)(nil)
)

// Change implements mcserver.Writer.
func (w mcWriter) Change(ctx context.Context, c *schema.Change) (rows int, err error) {
	rows, _, err = w.writer.Change(ctx, c)
	return rows, w.translate(c.Def, err)
}

// Transact implements mcserver.Writer.
func (w mcWriter) Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx mcserver.Tx) error) error {
	_, err := w.writer.Transact(ctx, def, kind, func(tx *writeback.Tx) error { return fn(tx) })
	return w.translate(def, err)
}

// translate gives an error its type. What the server says is passed on as it is.
func (w mcWriter) translate(def *schema.Table, err error) error {
	if r := (*writeback.Refused)(nil); errors.As(err, &r) {
		return &mcserver.RefusedError{Duplicate: r.Number == writeback.NumberDuplicate, Err: r.Err}
	}
	if errors.Is(err, writeback.ErrChanged) {
		w.router.Forget(def.Schema, def.Name)
		return mcserver.ErrChanged
	}
	return err
}

// writes is the part of the status.
func (d *daemon) writes() admin.Writes {
	st := d.writer.Stats()
	w := admin.Writes{AckTimeouts: st.Timeouts, FencedTables: st.Fenced}
	for _, c := range st.Changes {
		switch c.Outcome {
		case writeback.OutcomeDone:
			w.Done += c.N
		case writeback.OutcomeRefused:
			w.Refused += c.N
		case writeback.OutcomeUncertain:
			w.Uncertain += c.N
		default:
			w.Failed += c.N
		}
	}
	return w
}

var (
	descWrites       = desc("writes_total", "Writes by kind and by how they ended.", "kind", "outcome")
	descGroups       = desc("write_groups_total", "Commits of grouped writes.")
	descGrouped      = desc("write_grouped_total", "Writes in these commits.")
	descMerged       = desc("write_merged_total", "Grouped writes that were carried out with others in one statement.")
	descTransactions = desc("write_transactions_total", "Commits of writes that first search their rows.")
	descAlone        = desc("write_alone_total", "Writes that were taken out of their group because of a lock.")
	descDeadlocks    = desc("write_deadlocks_total", "Deadlocks that the database reported to writes, tried again or not.")
	descLockWaits    = desc("write_lock_waits_total", "Waits for locks of others that took too long.")
	descAsked        = desc("write_position_queries_total", "Commits after which the database was asked for its position.")
	descAckWait      = desc("write_ack_wait_seconds", "Time from the commit until it was applied.")
	descAckTimeouts  = desc("write_ack_timeouts_total", "Commits that were answered before they were applied.")
	descFenced       = desc("write_fenced_tables", "Tables that the database answers for until a commit is applied.")
)

// writerCollector turns the writer's counts into metrics.
type writerCollector struct{ w *writeback.Writer }

// Describe implements prometheus.Collector.
func (writerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descWrites, descGroups, descGrouped, descMerged, descTransactions, descAlone, descDeadlocks, descLockWaits, descAsked, descAckWait,
		descAckTimeouts, descFenced,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c writerCollector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	st := c.w.Stats()
	for _, n := range st.Changes {
		counter(descWrites, n.N, n.Kind, n.Outcome)
	}
	counter(descGroups, st.Groups)
	counter(descGrouped, st.Grouped)
	counter(descMerged, st.Merged)
	counter(descTransactions, st.Transactions)
	counter(descAlone, st.Alone)
	counter(descDeadlocks, st.Deadlocks)
	counter(descLockWaits, st.LockWaits)
	counter(descAsked, st.Asked)
	counter(descAckTimeouts, st.Timeouts)
	ch <- prometheus.MustNewConstMetric(descFenced, prometheus.GaugeValue, float64(st.Fenced))
	buckets := map[float64]uint64{}
	sum := uint64(0)
	for i, n := range st.Waits {
		sum += n
		if i < len(st.WaitBounds) {
			buckets[st.WaitBounds[i].Seconds()] = sum
		}
	}
	ch <- prometheus.MustNewConstHistogram(descAckWait, sum, st.Waited.Seconds(), buckets)
}
