package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/demo"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/triggers"
	"github.com/binlogcache/binlogcache/triggers/install"
)

// runDemo gives the guided tour with a daemon in this process.
func runDemo(ctx context.Context, d *config.Demo, stdout io.Writer) error {
	return demo.Run(ctx, demo.Options{
		Flavor: d.Flavor, Rows: d.Rows, Once: d.Once, Dir: d.Dir, Keep: d.Keep, Out: stdout,
		Start: startDemoDaemon, InstallTriggers: installTriggers,
	})
}

// demoDaemon is the daemon of the tour.
type demoDaemon struct {
	*daemon
	stop context.CancelFunc
	wg   sync.WaitGroup
	err  error // of run, valid after wg
}

func startDemoDaemon(ctx context.Context, a demo.Addresses, failed func(error)) (demo.Daemon, error) {
	cfg, err := config.Parse([]string{
		"serve", "--source", a.Source, "--tables", demo.Schema + ".*", "--handlersocket-read", a.HandlerSocket,
		"--handlersocket-write", a.WritePort, "--memcached", a.Memcached, "--admin", a.Admin, "--memory", "16GiB",
	}, func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, err
	}
	serve := cfg.(*config.Serve)
	serve.Containers = []config.Container{{
		Name: demo.Container, Schema: demo.Schema, Table: demo.Table,
		KeyColumns: []string{"id"}, ValueColumns: []string{"uname", "email", "add_time"}, Place: "demo",
	}}
	inner, err := newDaemon(ctx, serve, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &demoDaemon{daemon: inner, stop: stop}
	d.wg.Go(func() {
		if d.err = inner.run(ctx); d.err != nil {
			failed(d.err)
		}
	})
	return d, nil
}

// Snapshot implements demo.Daemon. The container's table must be bound before the tour asks for keys.
func (d *demoDaemon) Snapshot(table string) (demo.Snapshot, bool) {
	schemaName, table, _ := strings.Cut(table, ".")
	t := d.store.Table(schema.Name{Schema: schemaName, Table: table})
	if t == nil {
		return demo.Snapshot{}, false
	}
	st := t.Status()
	live := st.State == cache.StateLive && len(d.NotReady()) == 0
	done := st.SnapshotDone
	if live {
		done = uint64(st.Rows)
	}
	s := demo.Snapshot{Done: done, Total: st.SnapshotTotal, Live: live}
	if st.State == cache.StateRefused {
		s.Trouble = st.Reason
	}
	return s, true
}

// Close implements demo.Daemon.
func (d *demoDaemon) Close() error {
	d.stop()
	d.wg.Wait()
	if d.err != nil {
		return fmt.Errorf("daemon: %w", d.err)
	}
	return nil
}

// installTriggers implements demo.Options.InstallTriggers.
func installTriggers(ctx context.Context, source string, text []byte) error {
	spec, err := triggers.ParseSpec("demo", text)
	if err != nil {
		return err
	}
	session, err := install.Open(ctx, source)
	if err != nil {
		return err
	}
	defer session.Close()
	design, err := session.Design(ctx, spec)
	if err != nil {
		return err
	}
	steps, err := session.Plan(ctx, design)
	if err != nil {
		return err
	}
	if _, err := session.Apply(ctx, design, steps); err != nil {
		return err
	}
	if err := session.Complete(ctx, design, nil); err != nil {
		return err
	}
	return session.Register(ctx, design)
}
