package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/binlogcache/binlogcache/schema"
)

// Redefining says of a live table that its indexes may have changed on the server: searches pass until
// Generation.Redefine, and the definition is not vouched for. Changes are applied as before. A table that is not live is
// left as it is.
func (t *Table) Redefining() {
	t.mu.Lock()
	defer t.unlock()
	if t.State() == StateLive {
		t.redefining.Store(true)
	}
}

// Vouched reports that Def is what the server has, as far as the follower has come: not for a table whose state does not
// say so, nor between Redefining and Redefine.
func (t *Table) Vouched() bool {
	switch t.State() {
	case StateLive, StateLoading, StateHot:
		return !t.redefining.Load()
	}
	return false
}

// Redefine gives a live table another definition, with the same columns and a row-identity key over the same ones. Rows
// stay, and so do indexes that are as they were; others are dropped, and built again when they are asked for, or at once
// where they had been asked for under that name. Searches made for the old definition are told that it has changed.
func (g *Generation) Redefine(def *schema.Table) error {
	large, err := g.redefine(def)
	for _, ix := range large {
		g.table.store.background(func(ctx context.Context) { g.build(ctx, ix) })
	}
	return err
}

func (g *Generation) redefine(def *schema.Table) (large []*secondary, err error) {
	if err := g.enter("redefine"); err != nil {
		return nil, err
	}
	t := g.table
	defer t.unlock()
	old := g.def
	switch {
	case t.State() != StateLive:
		return nil, fmt.Errorf("redefine %s: %w", t.fullName, errors.New("the table is not live"))
	case def.Key < 0 || def.Key >= len(def.Indexes) || !old.SameColumns(def) || !slices.Equal(old.Indexes[old.Key].Parts, def.Indexes[def.Key].Parts):
		return nil, fmt.Errorf("redefine %s: %w", t.fullName, errors.New("other columns, or another key"))
	}
	indexes := make([]*secondary, len(def.Indexes))
	for i, ix := range g.indexes {
		if ix == nil {
			continue
		}
		at := def.IndexByName(ix.name)
		if at >= 0 && at != def.Key && sameIndex(&old.Indexes[i], &def.Indexes[at]) {
			indexes[at] = ix
			continue
		}
		if ix.tree != nil {
			ix.tree.release()
			ix.tree, ix.complete = nil, false // a builder that is at it finds no tree
		}
		ix.countMemory(t)
	}
	g.def, g.indexes = def, indexes
	t.def.Store(def)
	t.redefining.Store(false)
	t.store.revision.Add(1)
	large = g.buildWanted()
	return large, g.settle()
}

// sameIndex reports that the entries of one index are those of the other.
func sameIndex(a, b *schema.Index) bool {
	return slices.Equal(a.Parts, b.Parts) && a.BTree == b.BTree
}

// buildWanted makes the indexes that were asked for, as far as the definition has them, and returns those that are to be
// built in the background. The table's lock is held for writing.
func (g *Generation) buildWanted() (large []*secondary) {
	t := g.table
	for name := range t.wanted {
		at := g.def.IndexByName(name)
		if at < 0 {
			delete(t.wanted, name)
			continue
		}
		ix := g.startIndex(at)
		switch {
		case ix == nil:
		case g.log.rows > buildAtOnceRows:
			large = append(large, ix)
		default:
			if _, err := g.fill(ix, noRow); err != nil {
				ix.fail(t, err)
			} else {
				ix.complete = true
			}
		}
	}
	return large
}
