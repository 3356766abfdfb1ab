package torture

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// warmRows is the largest number of rows of a table that are made hot.
	warmRows = 300
	// warmTime bounds the wait for them, which a table that keeps changing may not come to.
	warmTime = 3 * time.Second
)

// warmTable is what was made hot of a table.
type warmTable struct {
	keys [][][]byte // rows with all columns; those of key name them
	key  []string   // the index's columns
}

// Warm opens the tables and reads their rows until the cache answers from memory, so that changes meet kept rows. It
// returns how many rows memory has answered. Tables that are not there, that can't be kept or that stay in motion are
// left as they are.
func (r *Runner) Warm(ctx context.Context, tables []CachedTable) (fromMemory int, err error) {
	c, err := r.comparer(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	r.warmed = map[CachedTable]*warmTable{}
	for _, t := range tables {
		n, err := c.warm(ctx, t)
		if err != nil {
			return fromMemory, fmt.Errorf("warm %s.%s: %w", t.Schema, t.Table, err)
		}
		fromMemory += n
	}
	return fromMemory, nil
}

func (c *comparer) warm(ctx context.Context, t CachedTable) (fromMemory int, err error) {
	if exists, err := c.exists(ctx, t); err != nil || !exists {
		return 0, err
	}
	table, err := c.read(ctx, t)
	if err != nil || slices.Contains(table.key, -1) {
		return 0, nil // no key to look rows up by
	}
	hs, err := dialHandlerSocket(c.runner.HandlerSocket)
	if err != nil {
		return 0, err
	}
	defer hs.conn.Close()
	if err := hs.open(t, table.columns); err != nil {
		return 0, err
	}
	w := &warmTable{}
	for _, k := range table.key {
		w.key = append(w.key, table.columns[k])
	}
	rows := table.rows[:min(len(table.rows), warmRows)]
	for _, row := range rows {
		if !slices.ContainsFunc(table.key, func(k int) bool { return row[k] == nil }) {
			key := make([][]byte, len(table.key))
			for i, k := range table.key {
				key[i] = row[k]
			}
			w.keys = append(w.keys, key)
		}
	}
	c.runner.warmed[t] = w
	places := make([]int, len(table.key))
	for i := range places {
		places[i] = i
	}
	for deadline := time.Now().Add(warmTime); ; {
		before, err := c.runner.status(ctx)
		if err != nil {
			return 0, err
		}
		for _, key := range w.keys {
			if _, err := hs.find("=", "1", key, places, len(table.columns)); err != nil {
				return 0, err
			}
		}
		after, err := c.runner.status(ctx)
		if err != nil {
			return 0, err
		}
		fromMemory = int(after.Reads.HandlerSocket.Memory - before.Reads.HandlerSocket.Memory)
		i := slices.IndexFunc(after.Tables, func(s tableStatus) bool { return s.Name == t.Schema+"."+t.Table })
		if fromMemory == len(w.keys) || i >= 0 && after.Tables[i].State == "refused" || i >= 0 && after.Tables[i].State == "hot" && fromMemory == 0 && t.Index != "PRIMARY" ||
			time.Now().After(deadline) {
			return fromMemory, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// compareHot looks up every row of the server, and every key that was made hot.
func (c *comparer) compareHot(ctx context.Context, hs *handlerSocket, t CachedTable) error {
	table, err := c.read(ctx, t)
	if err != nil {
		return err
	}
	if slices.Contains(table.key, -1) {
		return nil // an index over columns that SELECT * does not show
	}
	if err := hs.open(t, table.columns); err != nil {
		return err
	}
	w := c.runner.warmed[t]
	if w != nil && slices.EqualFunc(w.key, table.key, func(name string, k int) bool { return name == table.columns[k] }) {
		has := map[string]bool{}
		for _, row := range table.rows {
			has[fmt.Sprintf("%q", row)] = true
		}
		places := make([]int, len(table.key))
		for i := range places {
			places[i] = i
		}
		for _, key := range w.keys {
			found, err := hs.find("=", "100", key, places, len(table.columns))
			if err != nil {
				return err
			}
			for _, row := range found {
				if !has[fmt.Sprintf("%q", row)] {
					return fmt.Errorf("key %q gives the row %q, which the server has not", key, row)
				}
			}
		}
	}
	// Twice: the first look may make rows hot.
	for range 2 {
		if _, err := lookups(hs, table.rows, table.key, len(table.columns)); err != nil {
			return err
		}
	}
	return nil
}
