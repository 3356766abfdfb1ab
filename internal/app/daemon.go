package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	// retryInterval is the pause before the source is asked again for what could not be read.
	retryInterval = time.Second
	// writeWorkers is the number of writes that can wait for a commit together on one port, which makes large groups of
	// them. They only wait.
	writeWorkers = 1024
	// minWaiting is the least that the connections of one port may hold of half requests and of answers that nobody takes,
	// together; with a large --memory it is a quarter of that. Two of the largest answers fit into it.
	minWaiting = 256 << 20
)

// serve is the main job: it runs until ctx ends.
func serve(ctx context.Context, cfg *config.Serve, stderr io.Writer) error {
	logger := newLogger(stderr, cfg.LogLevel, cfg.LogFormat)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	d, err := newDaemon(ctx, cfg, logger)
	if err != nil {
		return err
	}
	d.hangup = hangup
	logger.Info("starting", "version", Version(), "config", cfg)
	limiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heap sync.WaitGroup
	heap.Go(func() { d.limitHeap(limiting) })
	defer heap.Wait()
	defer stop()
	return d.run(ctx)
}

// daemon is one running cache.
type daemon struct {
	cfg      *config.Serve
	logger   *slog.Logger
	sources  []*sqltext.Config // candidates, in order
	patterns schema.Patterns
	begun    time.Time

	store    *cache.Store
	items    *cache.Items                 // nil when the memcached port is off
	pool     atomic.Pointer[sqltext.Pool] // for what is neither following nor reading: the containers
	database *dbreader.Reader
	router   *router.Router
	hot      *hotTables // nil: --hot off
	follower *canal.Follower
	fresh    *freshness
	writer   *writeback.Writer

	hsReads, mcReads *router.Counters
	memcached        *mcserver.Server
	listeners        []listener
	mcListener       *netserver.Server // nil when switched off
	adminListener    net.Listener      // nil when switched off
	admin            *admin.Server
	verifier         *verify.Verifier
	keeper           *keeper // nil without a folder for the state

	settings        atomic.Pointer[mcserver.Settings] // of the file
	hangup          <-chan os.Signal                  // asks for reload; nil: nobody does
	containersStale chan struct{}                     // holds one token when containers are to be read again
	containersRead  atomic.Bool
	draining        atomic.Bool
	// stopped is closed when the daemon begins to stop: what was asked for over the admin port ends then.
	stopped chan struct{}
}

// newDaemon builds all parts and takes the addresses. Nothing runs yet; on an error nothing is left.
func newDaemon(ctx context.Context, cfg *config.Serve, logger *slog.Logger) (*daemon, error) {
	var sources []*sqltext.Config
	for _, dsn := range cfg.Sources {
		source, err := sqltext.ParseDSN(dsn.Reveal())
		if err != nil {
			return nil, fmt.Errorf("--source: %w", err)
		}
		sources = append(sources, source)
	}
	patterns, err := schema.ParsePatterns(strings.Join(cfg.Tables, ","))
	if err != nil {
		return nil, fmt.Errorf("--tables: %w", err)
	}
	d := &daemon{
		cfg: cfg, logger: logger, sources: sources, patterns: patterns, begun: time.Now(),
		hsReads: new(router.Counters), mcReads: new(router.Counters), containersStale: make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	fromFile, err := settings(cfg)
	if err != nil {
		return nil, err
	}
	d.settings.Store(&fromFile)
	d.fresh = newFreshness(cfg.MaxStaleness, logger)
	tables := tableMemory(cfg)
	if !cfg.Memcached.Off() {
		d.items = cache.NewItems(cache.ItemsConfig{MemoryLimit: int64(cfg.MemcachedMemory)})
	}
	storeConfig := cache.Config{MemoryLimit: tables, Logger: logger}
	routerConfig := router.Config{Stale: &d.fresh.stale, Logger: logger}
	if cfg.Hot {
		storeConfig.HotBytes = tables / hotShare
	}
	d.store = cache.New(storeConfig)
	d.pool.Store(sqltext.NewPool(sources[0], 1, logger))
	// Of several sources none is asked before it is followed; a single one answers at once.
	var first *sqltext.Config
	if len(sources) == 1 {
		first = labelled(sources[0])
	}
	d.database = dbreader.New(first, dbreader.Config{Logger: logger})
	if cfg.Hot {
		d.hot = &hotTables{store: d.store, patterns: patterns, logger: logger, most: hotTablesMost, idle: hotIdle}
		routerConfig.Hot = d.hot
	}
	routerConfig.Store, routerConfig.Database = d.store, d.database
	d.router = router.New(routerConfig)
	var saved *canal.Saved
	if cfg.StateDir != "" {
		d.keeper = &keeper{store: d.store, ready: func() bool { return len(d.NotReady()) == 0 }, logger: logger}
		if d.keeper.dir, saved, err = openState(cfg.StateDir, logger); err != nil {
			return nil, err
		}
	}
	d.follower, err = canal.New(canal.Config{
		Source: sources[0], Fallbacks: sources[1:], Led: d.useSource, Tables: patterns, Saved: saved, Logger: logger,
		ProveEvery: d.fresh.every, Proved: d.fresh.prove, MaxTransactionBytes: transactionBytes(int64(cfg.Memory)),
		WatchSchema: mcserver.ConfigSchema, Watched: d.readContainersAgain,
		Sink: &sink{store: d.store, router: d.router, hot: d.hot, containersChanged: d.readContainersAgain},
	})
	if err != nil {
		return nil, errors.Join(err, d.closeState())
	}
	if d.keeper != nil {
		d.keeper.follower = d.follower
	}
	if d.hot != nil {
		d.hot.follower = d.follower
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
	memcached, err := d.memcachedConfig()
	if err != nil {
		return err
	}
	d.memcached = mcserver.New(memcached)
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
		{"memcached", d.cfg.Memcached, d.memcached, 0, writeWorkers, mcserver.Refusal},
	} {
		if l.address.Off() {
			continue
		}
		s, err := netserver.New(netserver.Config{Name: l.name, Listen: l.address.String(), Option: "--" + l.name, Protocol: l.protocol, MaxInput: l.maxInput, Workers: l.workers, MaxWaiting: max(int64(d.cfg.Memory)/4, minWaiting), Refusal: []byte(l.refusal), Logger: d.logger})
		if err != nil {
			return err
		}
		if err := s.Listen(ctx); err != nil {
			return err
		}
		hs, _ := l.protocol.(*hsserver.Server)
		d.listeners = append(d.listeners, listener{l.name, s, hs})
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
	followPart.start(base, cancel, d.fresh.run)
	followPart.start(base, cancel, d.keepContainers)
	followPart.start(base, cancel, d.reloadOnSignal)
	followPart.start(base, cancel, d.verifier.Run)
	if d.keeper != nil {
		followPart.start(base, cancel, d.keeper.run)
	}
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
	if d.keeper != nil {
		d.keeper.last()
	}
	err := d.close()
	adminPart.end()
	if asked.Err() == nil { // a part gave up
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
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
	d.pool.Load().Close()
	return errors.Join(append(errs, d.closeState())...)
}

// closeState lets other processes use the folder of the state.
func (d *daemon) closeState() error {
	if d.keeper == nil {
		return nil
	}
	return d.keeper.dir.Close()
}

// listener is one port of a protocol.
type listener struct {
	name   string
	server *netserver.Server
	hs     *hsserver.Server // nil: the port speaks another protocol
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
