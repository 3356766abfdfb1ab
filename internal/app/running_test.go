package app

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// running is a daemon in this process.
type running struct {
	*daemon
	t *testing.T
	// stop ends the daemon in order. It may be called twice.
	stop func()
	log  *logBuffer
}

// logBuffer keeps what the daemon logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// runDaemon follows the tables and waits until all are live. The daemon ends with the test, or before.
func runDaemon(t *testing.T, dsn, tables string, change ...func(*config.Serve)) running {
	t.Helper()
	source, err := config.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Serve{Sources: []config.DSN{source}, Tables: strings.Split(tables, ","), Memory: 1 << 30, LogFormat: "text"}
	for _, c := range change {
		c(cfg)
	}
	log := &logBuffer{}
	d, err := newDaemon(t.Context(), cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	r := running{d, t, stop, log}
	r.eventually("the tables are live", func() bool { return len(d.NotReady()) == 0 })
	return r
}

func (r running) eventually(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within a minute: %s; not ready: %q", what, r.NotReady())
		}
	}
}

// generation is the present content of a table, for damaging it.
func (r running) generation(name schema.Name) *cache.Generation {
	r.t.Helper()
	g := r.store.Table(name).Content()
	if g == nil {
		r.t.Fatalf("%s is not live", name)
	}
	return g
}

// rows are all rows of a live table in memory, by the first column.
func (r running) rows(name schema.Name) map[string]rowcodec.Row {
	r.t.Helper()
	t := r.store.Table(name)
	def := t.Def()
	all := map[string]rowcodec.Row{}
	outcome := t.Search(&schema.Search{Def: def, Index: def.Key, Op: schema.OpGE}, func(row rowcodec.Row, _ uint64) bool {
		key, _ := row.Value(0)
		all[string(key)] = append(rowcodec.Row{}, row...)
		return true
	})
	if outcome != cache.Served {
		r.t.Fatalf("%s: %v", name, outcome)
	}
	return all
}

func (r running) verify(request admin.VerifyRequest) *admin.VerifyResult {
	r.t.Helper()
	var result *admin.VerifyResult
	err := r.Verify(r.t.Context(), request, func(l admin.VerifyLine) error {
		result = l.Result
		return nil
	})
	if err != nil || result == nil {
		r.t.Fatalf("result %v, error %v", result, err)
	}
	return result
}

func textRow(values ...string) rowcodec.Row {
	var b rowcodec.Builder
	for _, v := range values {
		b.Add([]byte(v))
	}
	return b.AppendRow(nil)
}

// rowOf is the row of a key in memory.
func (r running) rowOf(table string, key ...string) rowcodec.Row {
	r.t.Helper()
	name, err := exactName(table)
	if err != nil {
		r.t.Fatal(err)
	}
	values := make([][]byte, len(key))
	for i := range key {
		values[i] = []byte(key[i])
	}
	x, err := r.store.Table(name).Explain(values)
	if err != nil || !x.Found {
		r.t.Fatalf("%s %q: found %v, error %v", table, key, x.Found, err)
	}
	return x.Row
}
