package mcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/binlogcache/binlogcache/schema"
)

// containers are the containers that are known, with everything that holds for all of them. It is immutable, except
// that each container follows its table.
type containers struct {
	byName   map[string]*container
	inOrder  []*container
	first    *container // where connections begin; nil when there is none
	policies Policies
	options  Options
	// places are where each kind of operation goes.
	places [numOperations]place
	// configured are the names of all containers that the last set had, also of those that were left out; what refresh
	// finds is not among them. It is shared with the containers before.
	configured map[string]bool
}

// SetContainers puts a set of containers to use in place of the ones before. Each is checked against its table; what
// can't be used is told in the result, after the set's own problems. An error means that a table could not be looked
// at, because the database could not be asked; nothing is changed then.
//
// A container that can't be used stays known, and reads through it are answered with an error until its table is back.
// Only a container of the plugin's own table that has never been usable and whose row is wrong (it has a NULL, or does
// not fit the table it names) is left out, because for the plugin, too, such a row is as good as none: its name finds
// nothing. Once the row is right, the name is found as a new one.
//
// The default is the container named "default", or else the first one, among those that are usable or once were. It is
// chosen by the first set in which one is usable, and again when a set has other names; a problem that comes or goes
// moves it no more. Connections that have chosen a container by its name stay with that name, also when it is in the set
// no longer: they get an error then. The others are always at the default.
func (s *Server) SetContainers(ctx context.Context, set ContainerSet) ([]Problem, error) {
	return s.ReadContainers(ctx, func(context.Context) (*ContainerSet, error) { return &set, nil })
}

// ReadContainers is SetContainers of what read gives; nil leaves everything as it is. Nothing else that was read of the
// source's description is put to use from before read is called until the end, so what was read earlier never takes the
// place of what was read later.
func (s *Server) ReadContainers(ctx context.Context, read func(ctx context.Context) (*ContainerSet, error)) ([]Problem, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	set, err := read(ctx)
	if err != nil || set == nil {
		return nil, err
	}
	now := s.containers.Load()
	next := &containers{
		byName: make(map[string]*container), policies: set.Policies, options: set.Options.withDefaults(),
		configured: make(map[string]bool),
	}
	problems := append([]Problem(nil), set.Problems...)
	for i := range set.Containers {
		c, err := s.open(ctx, &set.Containers[i], next.options)
		if err != nil {
			return nil, err
		}
		next.configured[c.Name] = true
		if err := c.problem(); err != nil {
			problems = append(problems, Problem{Container: c.Name, Reason: err.Error()})
		}
		next.take(c, now)
	}
	for i := range set.barred {
		b := &set.barred[i]
		c := s.newContainer(&b.Container, next.options)
		next.configured[c.Name] = true
		c.barred = errors.New(b.reason)
		c.wrongRow = b.wrongRow
		next.take(c, now)
	}
	if now != nil && now.first != nil && now.first.used.Load() && maps.Equal(now.configured, next.configured) {
		next.first = next.byName[now.first.Name]
	}
	if next.first == nil {
		next.first = next.choose()
	}
	next.places = s.placesOf(next)
	s.containers.Store(next)
	return problems, nil
}

// take makes c known, unless it is to be left out. now is the set before; nil for none.
func (cs *containers) take(c *container, now *containers) {
	if now != nil {
		if before := now.byName[c.Name]; before != nil && before.used.Load() {
			c.used.Store(true)
		}
	}
	if !c.used.Load() && c.isWrongRow() {
		return
	}
	cs.byName[c.Name] = c
	cs.inOrder = append(cs.inOrder, c)
}

// choose returns the default by the plugin's rule. When no container has ever been usable it is the one that would be
// the default if all were, so that connections are told its problem.
func (cs *containers) choose() *container {
	var first *container
	better := func(c *container) bool {
		switch {
		case first == nil:
			return true
		case c.used.Load() != first.used.Load():
			return c.used.Load()
		}
		return c.Name == defaultContainer
	}
	for _, c := range cs.inOrder {
		if better(c) {
			first = c
		}
	}
	return first
}

func (s *Server) newContainer(cfg *Container, options Options) *container {
	return &container{Container: *cfg, options: options, compat: s.compat, logger: s.logger}
}

// open makes a container and binds it to its table. What does not fit is the container's problem; an error means that
// the database could not be asked.
func (s *Server) open(ctx context.Context, cfg *Container, options Options) (*container, error) {
	c := s.newContainer(cfg, options)
	// Problems at this point are the caller's to report, so nothing is logged yet.
	c.logger = slog.New(slog.DiscardHandler)
	_, err := s.reopen(ctx, c)
	if err != nil && c.problem() == nil {
		return nil, fmt.Errorf("container %q: %w", c.Name, err)
	}
	c.logger = s.logger
	return c, nil
}

// reopen asks for c's table and binds c to it.
func (s *Server) reopen(ctx context.Context, c *container) (*binding, error) {
	if c.barred != nil {
		return nil, c.barred
	}
	table, err := s.reader.Open(ctx, c.Schema, c.Table)
	if errors.Is(err, schema.ErrNoTable) {
		c.fail(fmt.Errorf("there is no base table %s.%s", c.Schema, c.Table))
		return nil, c.problem()
	}
	if err != nil {
		return nil, err
	}
	return c.rebind(table)
}

// refresh looks on the source for a container that isn't known, and puts new ones to use. It returns the containers in
// use after that.
func (s *Server) refresh(ctx context.Context, name []byte) (*containers, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	now := s.containers.Load()
	if now == nil || now.byName[string(name)] != nil || !s.mayRefresh() {
		return now, nil
	}
	set, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	s.refreshed.Store(time.Now().UnixNano())
	next := &containers{
		byName: maps.Clone(now.byName), inOrder: append([]*container(nil), now.inOrder...), first: now.first,
		policies: now.policies, options: now.options, configured: now.configured,
	}
	for i := range set.Containers {
		if next.byName[set.Containers[i].Name] != nil {
			continue
		}
		c, err := s.open(ctx, &set.Containers[i], next.options)
		if err != nil {
			return nil, err
		}
		next.take(c, now)
		if err := c.problem(); err == nil {
			s.logger.Info("container found", "container", c.Name, "table", c.Schema+"."+c.Table)
		} else if next.byName[c.Name] == c {
			s.logger.Warn("container found that can't be used", "container", c.Name, "err", err)
		}
	}
	// What is new does not become the default of connections, unless there was none that has been usable.
	if now.first == nil || !now.first.used.Load() {
		next.first = next.choose()
	}
	next.places = s.placesOf(next)
	s.containers.Store(next)
	return next, nil
}

// mayRefresh tells that the source may be asked for a container that isn't known.
func (s *Server) mayRefresh() bool {
	return s.find != nil && time.Now().UnixNano()-s.refreshed.Load() >= int64(refreshInterval)
}

// gone stands for a container that a connection has chosen and that is in the set no longer.
func (s *Server) gone(c *container) *container {
	g := s.newContainer(&c.Container, c.options)
	g.barred = fmt.Errorf("container %q is no longer known", c.Name)
	return g
}
