package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/hsserver"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/verify"
	"github.com/binlogcache/binlogcache/writeback"
)

const (
	// drainTimeout bounds the answers to requests that were received before the end; with the rest of the stop it stays
	// below the 10 s after which service managers kill.
	drainTimeout = 6 * time.Second
	// gcPercent keeps the heap's head room small: what is on it are mostly rows and indexes, which hold no pointers and cost
	// the collector next to nothing. A GOGC in the environment counts more.
	gcPercent = 25
	// retryInterval is the pause before the source is asked again for what could not be read.
	retryInterval = time.Second
	// writeWorkers is the number of writes that can wait for a commit together on one port, which makes large groups of
	// them. They only wait.
	writeWorkers = 1024
)

// serve is the main job: it runs until ctx ends.
func serve(ctx context.Context, cfg *config.Serve, stderr io.Writer) error {
	logger := newLogger(stderr, cfg.LogLevel, cfg.LogFormat)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	d, err := newDaemon(ctx, cfg, logger)
	if err != nil {
		return err
	}
	logger.Info("starting", "version", Version(), "config", cfg)
	return d.run(ctx)
}

// daemon is one running cache.
type daemon struct {
	cfg      *config.Serve
	logger   *slog.Logger
	source   *sqltext.Config
	patterns schema.Patterns
	begun    time.Time

	store    *cache.Store
	pool     *sqltext.Pool // for what is neither following nor reading: the containers
	database *dbreader.Reader
	router   *router.Router
	follower *canal.Follower
	writer   *writeback.Writer

	hsReads, mcReads *router.Counters
	memcached        *mcserver.Server
	listeners        []listener
	mcListener       *netserver.Server // nil when switched off
	adminListener    net.Listener      // nil when switched off
	admin            *admin.Server
	verifier         *verify.Verifier

	settings        mcserver.Settings
	containersStale chan struct{} // holds one token when containers are to be read again
	containersRead  atomic.Bool
	draining        atomic.Bool
	// stopped is closed when the daemon begins to stop: what was asked for over the admin port ends then.
	stopped chan struct{}
}

// newDaemon builds all parts and takes the addresses. Nothing runs yet; on an error nothing is left.
func newDaemon(ctx context.Context, cfg *config.Serve, logger *slog.Logger) (*daemon, error) {
	source, err := sqltext.ParseDSN(cfg.Sources[0].Reveal())
	if err != nil {
		return nil, fmt.Errorf("--source: %w", err)
	}
	patterns, err := schema.ParsePatterns(strings.Join(cfg.Tables, ","))
	if err != nil {
		return nil, fmt.Errorf("--tables: %w", err)
	}
	d := &daemon{
		cfg: cfg, logger: logger, source: source, patterns: patterns, begun: time.Now(),
		hsReads: new(router.Counters), mcReads: new(router.Counters), containersStale: make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	if d.settings, err = settings(cfg); err != nil {
		return nil, err
	}
	d.store = cache.New(cache.Config{MemoryLimit: int64(cfg.Memory), Logger: logger})
	d.pool = sqltext.NewPool(source, 1, logger)
	d.database = dbreader.New(source, dbreader.Config{Logger: logger})
	d.router = router.New(router.Config{Store: d.store, Database: d.database, Logger: logger})
	d.follower, err = canal.New(canal.Config{
		Source: source, Tables: patterns, Logger: logger,
		Sink: &sink{store: d.store, router: d.router, containersChanged: d.readContainersAgain},
	})
	if err != nil {
		return nil, err
	}
	d.verifier = verify.New(verify.Config{Comparer: comparer{d.store, d.follower}, Rate: cfg.VerifyRate, Logger: logger})
	d.writer = d.newWriter()
	if err := d.listen(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.readContainersAgain()
	return d, nil
}

// listen takes all addresses, so that one that is taken shows before anything else is done.
func (d *daemon) listen(ctx context.Context) error {
	reader := hsReader{d.router, d.hsReads}
	d.memcached = mcserver.New(mcserver.Config{
		Reader: mcReader{d.router, d.mcReads}, FindContainers: d.findContainers, Info: d.memcachedInfo, Logger: d.logger,
	})
	for _, l := range []struct {
		name     string
		address  config.Address
		protocol netserver.Protocol
		maxInput int
		workers  int
		refusal  string
	}{
		{"handlersocket-read", d.cfg.HandlerSocketRead, hsserver.New(hsserver.Config{Reader: reader, Secret: d.cfg.HandlerSocketSecret.Reveal(), Logger: d.logger}), hsserver.MaxLineBytes, 0, ""},
		{"handlersocket-write", d.cfg.HandlerSocketWrite, hsserver.New(hsserver.Config{Reader: reader, Writer: hsWriter{d.writer, d.router}, Secret: d.cfg.HandlerSocketSecretWrite.Reveal(), Writable: true, Logger: d.logger}), hsserver.MaxLineBytes, writeWorkers, ""},
		{"memcached", d.cfg.Memcached, d.memcached, 0, 0, mcserver.Refusal},
	} {
		if l.address.Off() {
			continue
		}
		s, err := netserver.New(netserver.Config{Name: l.name, Listen: l.address.String(), Option: "--" + l.name, Protocol: l.protocol, MaxInput: l.maxInput, Workers: l.workers, Refusal: []byte(l.refusal), Logger: d.logger})
		if err != nil {
			return err
		}
		if err := s.Listen(ctx); err != nil {
			return err
		}
		d.listeners = append(d.listeners, listener{l.name, s})
		if l.protocol == netserver.Protocol(d.memcached) {
			d.mcListener = s
		}
	}
	if d.cfg.Admin.Off() {
		return nil
	}
	l, err := netserver.Listen(ctx, d.cfg.Admin.String(), "--admin")
	if err != nil {
		return err
	}
	d.adminListener = l
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), admin.NewCollector(d), newCollector(d), writerCollector{d.writer})
	d.admin = admin.New(d, d, registry, d.logger)
	return nil
}

// run serves until ctx ends, or a part can't go on, and then stops everything in order: not ready, no new connections,
// answers to what was received, follower, pools, admin.
func (d *daemon) run(ctx context.Context) error {
	asked := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What outlives ctx while the parts are stopped one after the other.
	base := context.WithoutCancel(ctx)
	var adminPart, followPart, servePart part
	if d.admin != nil {
		adminPart.start(base, cancel, func(ctx context.Context) error { return d.admin.Run(ctx, d.adminListener) })
	}
	followPart.start(base, cancel, d.follower.Run)
	followPart.start(base, cancel, d.checkSource)
	followPart.start(base, cancel, d.keepContainers)
	followPart.start(base, cancel, d.verifier.Run)
	for _, l := range d.listeners {
		servePart.start(base, cancel, l.server.Run)
	}
	<-ctx.Done()
	d.draining.Store(true)
	close(d.stopped)
	d.logger.Info("stopping", "cause", context.Cause(ctx))

	drain, stop := context.WithTimeout(base, drainTimeout)
	defer stop()
	var wg sync.WaitGroup
	for _, l := range d.listeners {
		wg.Go(func() {
			if err := l.server.Shutdown(drain); err != nil {
				d.logger.Warn("requests were cut off", "listener", l.name, "err", err)
			}
		})
	}
	wg.Wait()
	servePart.end()
	followPart.end()
	err := d.close()
	adminPart.end()
	if asked.Err() == nil { // a part gave up
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// checkSource tries, once the source can be reached, what the follower and the tables need. A table that was named in full
// and can't be kept is a reason not to start: its user asked for it.
func (d *daemon) checkSource(ctx context.Context) error {
	for {
		problems, err := canal.Check(ctx, d.source, d.patterns)
		if err == nil {
			var fatal []error
			for _, p := range problems {
				if p.Fatal || p.Table != "" {
					fatal = append(fatal, p)
				} else {
					d.logger.Warn("source", "problem", p.Error())
				}
			}
			return errors.Join(fatal...)
		}
		d.logger.Debug("source not checked yet", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryInterval):
		}
	}
}

// close frees what newDaemon has made; nothing of it runs any more.
func (d *daemon) close() error {
	var errs []error
	for _, l := range d.listeners {
		errs = append(errs, l.server.Close())
	}
	d.writer.Close()
	d.store.Close()
	d.router.Close()
	d.database.Close()
	d.pool.Close()
	return errors.Join(errs...)
}

// listener is one port of a protocol.
type listener struct {
	name   string
	server *netserver.Server
}

// part is some goroutines that are stopped together.
type part struct {
	wg   sync.WaitGroup
	stop []context.CancelFunc
}

// start runs f in a goroutine. An error of f is a reason to stop everything.
func (p *part) start(ctx context.Context, fail context.CancelCauseFunc, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	p.stop = append(p.stop, cancel)
	p.wg.Go(func() {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			fail(err)
		}
	})
}

// end stops the goroutines and waits for them.
func (p *part) end() {
	for _, stop := range p.stop {
		stop()
	}
	p.wg.Wait()
}
