package app

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/mcserver"
)

// The description of containers is read when the log tells of a change, and again after these times: the log can be
// faster than the commit's becoming visible. The last one is the pause from then on, for what the log does not show: privileges, changes
// without a log, prepared transactions that are committed.
var containerLooks = []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second}

// readContainersAgain asks keepContainers for a fresh look.
func (d *daemon) readContainersAgain() {
	select {
	case d.containersStale <- struct{}{}:
	default:
	}
}

// keepContainers puts the containers to use as soon as the source can be asked, and again whenever their description has
// changed.
func (d *daemon) keepContainers(ctx context.Context) error {
	if d.mcListener == nil {
		d.containersRead.Store(true)
		return nil
	}
	keep := containerKeeper{daemon: d}
	pause := time.Duration(0)
	looks := 0
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-d.containersStale:
			looks, asked = 0, true
		case <-time.After(pause):
		}
		err := keep.look(ctx, asked)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause = containerLooks[min(looks, len(containerLooks)-1)]
			looks++
			d.containersRead.Store(true)
		case keep.failed:
			pause = retryInterval
		default:
			pause = retryInterval
			d.logger.Warn("containers can't be read", "err", err)
		}
		keep.failed = err != nil
	}
}

// containerKeeper is what keepContainers remembers between looks.
type containerKeeper struct {
	*daemon
	// set is what is in use, inUse tells that there is one, problems are those that were logged.
	set      mcserver.ContainerSet
	inUse    bool
	problems []mcserver.Problem
	// none tells that the last set had no containers, failed that the last look failed.
	none, failed bool
}

// look reads the description and puts it to use if it has changed. asked does so in any case: the containers' tables may have.
func (k *containerKeeper) look(ctx context.Context, asked bool) error {
	var set mcserver.ContainerSet
	same := false
	problems, err := k.memcached.ReadContainers(ctx, func(ctx context.Context) (*mcserver.ContainerSet, error) {
		var err error
		if set, err = k.findContainers(ctx); err != nil {
			return nil, err
		}
		if same = k.inUse && !asked && reflect.DeepEqual(set, k.set); same {
			return nil, nil
		}
		return &set, nil
	})
	if err != nil || same {
		return err
	}
	if k.inUse && !reflect.DeepEqual(set, k.set) {
		k.logger.Info("the description of containers has changed", "containers", len(set.Containers))
	}
	for _, p := range problems {
		if !slices.Contains(k.problems, p) {
			k.logger.Warn("container can't be used", "problem", p.String())
		}
	}
	k.set, k.inUse, k.problems = set, true, problems
	before := k.none
	k.none = len(k.memcached.Containers()) == 0
	if k.none && !before {
		// Who expects rows must be able to see why there are none. It is said once, not at every look.
		k.logger.Info("no memcached containers: the port is a plain memcached; to read tables name some in the file, or GRANT SELECT ON innodb_memcache.* where the source has them")
	}
	return nil
}

// reloadOnSignal reads the file's part of the containers again when the process is told to by SIGHUP, until ctx ends.
func (d *daemon) reloadOnSignal(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.hangup:
			d.reload()
		}
	}
}

// reload reads the configuration again and takes containers, policies and options from it. When something is wrong with it
// everything stays as it is.
func (d *daemon) reload() {
	cfg, err := d.cfg.Reload()
	if err != nil {
		d.logger.Error("the configuration is not read again: everything stays as it is", "err", err)
		return
	}
	s, err := settings(cfg)
	if err != nil {
		d.logger.Error("the configuration is not read again: everything stays as it is", "err", err)
		return
	}
	if other := d.cfg.Differences(cfg); len(other) > 0 {
		d.logger.Warn("only containers, policies and options are read again; other changes need a restart", "changed", strings.Join(other, ","))
	}
	d.settings.Store(&s)
	d.logger.Info("configuration read again", "containers", len(s.Containers))
	d.readContainersAgain()
}
