package canal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// memSink is a Sink that keeps rows in maps and holds the follower to its contract.
type memSink struct {
	mu      sync.Mutex
	tables  map[string]*memTable
	changed []string // SchemaChanged
	events  []string // what happened, for messages
	// onApply, where it is not nil, is called with the rows of a live table after each Apply, under the lock.
	onApply func(t *memTable)
	// mostRow is the largest row that is kept, 0 for no limit; onChanges, where it is not nil, is given what comes to Apply.
	mostRow   int
	onChanges func(t *memTable, changes []rowcodec.Change)
	broken    []string // breaches of the contract
}

type memTable struct {
	name   string
	state  string // loading, live, suspended, refused
	reason string
	def    *schema.Table
	gen    int
	rows   map[string]memRow
	marks  map[string]uint64
	purged uint64
	last   uint64 // version of the last Apply
}

type memRow struct {
	row     []byte
	version uint64
}

type memTarget struct {
	s   *memSink
	t   *memTable
	gen int
}

func newMemSink() *memSink { return &memSink{tables: map[string]*memTable{}} }

func (s *memSink) breach(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

func (s *memSink) note(format string, args ...any) {
	s.events = append(s.events, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (s *memSink) table(schemaName, table string) *memTable {
	name := schemaName + "." + table
	t := s.tables[name]
	if t == nil {
		t = &memTable{name: name}
		s.tables[name] = t
	}
	t.gen++
	t.rows, t.marks = nil, nil
	return t
}

func (s *memSink) Load(schemaName, table string, def *schema.Table) (Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(schemaName, table)
	t.state, t.def, t.purged, t.reason = "loading", def, 0, ""
	t.rows, t.marks = map[string]memRow{}, map[string]uint64{}
	s.note("load %s", t.name)
	return &memTarget{s, t, t.gen}, nil
}

func (s *memSink) Suspend(schemaName, table, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(schemaName, table)
	t.state, t.reason = "suspended", reason
	s.note("suspend %s: %s", t.name, reason)
}

func (s *memSink) Refuse(schemaName, table, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(schemaName, table)
	t.state, t.reason = "refused", reason
	s.note("refuse %s: %s", t.name, reason)
}

func (s *memSink) Remove(schemaName, table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table(schemaName, table)
	delete(s.tables, schemaName+"."+table)
	s.note("remove %s.%s", schemaName, table)
}

func (s *memSink) SchemaChanged(schemaName, table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, schemaName+"."+table)
}

func (t *memTable) key(r rowcodec.Row) string {
	var key []byte
	for _, part := range t.def.Indexes[t.def.Key].Parts {
		v, _ := r.Value(part.Column)
		key = fmt.Appendf(key, "%d:%s", len(v), v)
	}
	return string(key)
}

var errMemStale, errMemGap = errors.New("stale"), errors.New("gap")

func (m *memTarget) Apply(changes []rowcodec.Change, version uint64) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	t := m.t
	if t.gen != m.gen {
		return errMemStale
	}
	if version <= t.last {
		m.s.breach("%s: version %d after %d", t.name, version, t.last)
	}
	t.last = version
	if m.s.onChanges != nil {
		m.s.onChanges(t, changes)
	}
	live := t.state == "live"
	for _, c := range changes {
		if c.Before != nil {
			key := t.key(c.Before)
			if have, ok := t.rows[key]; live && (!ok || !bytes.Equal(have.row, c.Before)) {
				return fmt.Errorf("%w: before-image of %q", errMemGap, key)
			}
			delete(t.rows, key)
			t.marks[key] = version
		}
		if c.After != nil {
			key := t.key(c.After)
			if _, ok := t.rows[key]; live && ok {
				return fmt.Errorf("%w: insert of %q", errMemGap, key)
			}
			t.rows[key] = memRow{bytes.Clone(c.After), version}
			t.marks[key] = version
		}
	}
	if live && m.s.onApply != nil {
		m.s.onApply(t)
	}
	return nil
}

func (m *memTarget) MostRow() int { return m.s.mostRow }

func (m *memTarget) TooLarge() error {
	return fmt.Errorf("%w: %s has a row of more than %d bytes", ErrRefused, m.t.name, m.s.mostRow)
}

func (m *memTarget) Install(rows []rowcodec.Row, low, _ uint64) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	t := m.t
	if t.gen != m.gen {
		return errMemStale
	}
	if t.state != "loading" {
		m.s.breach("%s: install while %s", t.name, t.state)
	}
	if low < t.purged {
		m.s.breach("%s: install with low %d after the marks up to %d were purged", t.name, low, t.purged)
	}
	for _, r := range rows {
		key := t.key(r)
		if t.marks[key] > low {
			continue
		}
		t.rows[key] = memRow{bytes.Clone(r), low}
	}
	return nil
}

func (m *memTarget) PieceDone(low, _ uint64) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.t.gen != m.gen {
		return errMemStale
	}
	m.t.purged = max(m.t.purged, low)
	for key, v := range m.t.marks {
		if v <= low {
			delete(m.t.marks, key)
		}
	}
	return nil
}

func (m *memTarget) Live() error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.t.gen != m.gen {
		return errMemStale
	}
	m.t.state = "live"
	m.s.note("live %s", m.t.name)
	return nil
}

func (s *memSink) Redefine(schemaName, table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[schemaName+"."+table]
	if t == nil || t.state != "live" {
		s.breach("%s.%s: redefined while it is not live", schemaName, table)
		return
	}
	t.reason = "redefining"
	s.note("redefine %s", t.name)
}

func (m *memTarget) Redefine(def *schema.Table) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.t.gen != m.gen {
		return errMemStale
	}
	m.t.def, m.t.reason = def, ""
	m.s.note("redefined %s", m.t.name)
	return nil
}

func (m *memTarget) Progress(uint64, uint64) {}

// state gives a table's state, "none" for one that the sink does not have.
func (s *memSink) state(name string) (state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[name]
	if t == nil {
		return "none", ""
	}
	return t.state, t.reason
}

// loadsOf counts Load calls for a table.
func (s *memSink) loadsOf(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if strings.HasSuffix(e, "load "+name) {
			n++
		}
	}
	return n
}

// rig is a server, a follower of tables on it and a sink.
type rig struct {
	t      *testing.T
	server testmysql.Server
	schema string
	conn   *sqltext.Conn
	sink   *memSink
	f      *Follower
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func flavors(t *testing.T, run func(t *testing.T, s testmysql.Server)) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

// private runs a test on a server of its own of each flavor, beside other tests.
func private(t *testing.T, run func(t *testing.T, s testmysql.Server), options ...string) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			run(t, testmysql.Private(t, flavor, options...))
		})
	}
}

func dial(t *testing.T, s testmysql.Server) *sqltext.Conn {
	t.Helper()
	cfg, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqltext.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newRig makes a schema and runs the setup statements in it; start follows.
func newRig(t *testing.T, s testmysql.Server, setup ...string) *rig {
	t.Helper()
	r := &rig{t: t, server: s, schema: s.Schema(t), sink: newMemSink()}
	r.conn = dial(t, s)
	r.exec("USE " + r.schema)
	for _, sql := range setup {
		r.exec(sql)
	}
	return r
}

func (r *rig) exec(sql string) {
	r.t.Helper()
	if err := r.conn.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatalf("%.200s: %v", sql, err)
	}
}

// session opens another connection in the schema.
func (r *rig) session() *sqltext.Conn {
	r.t.Helper()
	c := dial(r.t, r.server)
	if err := c.Exec(r.t.Context(), "USE "+r.schema); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// start follows all tables of the schema; change may alter the configuration and the follower.
func (r *rig) start(change func(cfg *Config), prepare func(f *Follower)) {
	r.t.Helper()
	patterns, err := schema.ParsePatterns(r.schema + ".*")
	if err != nil {
		r.t.Fatal(err)
	}
	source, err := sqltext.ParseDSN(r.server.DSN)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := Config{Source: source, Tables: patterns, Sink: r.sink}
	if os.Getenv("CANAL_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if change != nil {
		change(&cfg)
	}
	if r.f, err = New(cfg); err != nil {
		r.t.Fatal(err)
	}
	if prepare != nil {
		prepare(r.f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		r.err = r.f.Run(ctx)
	}()
	r.t.Cleanup(r.stop)
}

// stop ends the follower, which must not take long, and looks for breaches of the sink's contract.
func (r *rig) stop() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	begin := time.Now()
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.t.Errorf("Run has not ended")
		return
	}
	if took := time.Since(begin); took > 5*time.Second {
		r.t.Errorf("Run took %v to end", took)
	}
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
	for _, b := range r.sink.broken {
		r.t.Errorf("contract: %s", b)
	}
	if r.t.Failed() {
		r.t.Logf("status: %+v", r.f.Status())
		for _, e := range r.sink.events {
			r.t.Log(e)
		}
	}
}

// executed is what the server has done by now.
func (r *rig) executed() string {
	r.t.Helper()
	sql := "SELECT @@global.gtid_executed"
	if r.conn.Flavor() == schema.FlavorMariaDB {
		sql = "SELECT @@gtid_binlog_pos"
	}
	var set string
	err := r.conn.Query(r.t.Context(), sql, func(v [][]byte) error {
		set = string(v[0])
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return set
}

// settle waits until the follower has applied everything and no table is between states, for good.
func (r *rig) settle() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	if err := r.f.WaitApplied(ctx, r.executed()); err != nil {
		r.fail("wait: %v", err)
	}
	// Tables that the log has just told of are looked for in the background.
	names, err := schema.List(ctx, r.conn, r.f.cfg.Tables)
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		pending := ""
		for _, n := range names {
			if state, _ := r.sink.state(n.String()); state == "none" {
				pending = n.String() + " is not known"
			}
		}
		r.sink.mu.Lock()
		for name, t := range r.sink.tables {
			if t.state != "live" && t.state != "refused" {
				pending = name + " is " + t.state
			}
		}
		r.sink.mu.Unlock()
		if pending == "" {
			return
		}
		select {
		case <-ctx.Done():
			r.fail("not settled: %s", pending)
		case <-r.ended:
			r.fail("ended: %v", r.err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (r *rig) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Logf("status: %+v", r.f.Status())
	r.sink.mu.Lock()
	for _, e := range r.sink.events {
		r.t.Log(e)
	}
	r.sink.mu.Unlock()
	r.t.Fatalf(format, args...)
}

// same compares live tables with the server.
func (r *rig) same(tables ...string) {
	r.t.Helper()
	r.settle()
	for _, name := range tables {
		r.compare(name)
	}
}

func (r *rig) compare(name string) {
	r.t.Helper()
	full := r.schema + "." + name
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	t := r.sink.tables[full]
	if t == nil || t.state != "live" {
		r.t.Fatalf("%s is not live: %+v", full, t)
	}
	reader := newChunkReader(t.def, 1, 1, nil)
	var ch chunk
	if err := r.conn.Stream(r.t.Context(), reader.columns, func(f sqltext.Fields) error { return reader.take(f, &ch) }); err != nil {
		r.t.Fatal(err)
	}
	wrong := 0
	for _, row := range ch.rows {
		have, ok := t.rows[t.key(row)]
		if !ok || !bytes.Equal(have.row, row) {
			if wrong++; wrong < 5 {
				r.t.Errorf("%s: row %q is %q", full, row, have.row)
			}
		}
	}
	if len(ch.rows) != len(t.rows) || wrong > 0 {
		r.t.Errorf("%s: %d rows here, %d on the server, %d differ", full, len(t.rows), len(ch.rows), wrong)
	}
}
