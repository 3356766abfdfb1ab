package torture

import (
	"context"
	"errors"
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

// Warm opens the tables and reads their rows until the cache answers from memory, so that changes meet kept rows. It
// returns how many rows memory has answered. Tables that are not there, that can't be kept or that stay in motion are
// left as they are.
func (r *Runner) Warm(ctx context.Context, tables []CachedTable) (fromMemory int, err error) {
	r.warmed = map[string][][][]byte{}
	err = r.with(ctx, func(c *comparer) error {
		for _, t := range tables {
			n, err := c.warm(ctx, t)
			if err != nil {
				return fmt.Errorf("warm %s.%s: %w", t.Schema, t.Table, err)
			}
			fromMemory += n
		}
		return nil
	})
	return fromMemory, err
}

// hotWalker opens the index of a table by which it is asked; nil where that can't be asked for whole keys.
func (c *comparer) hotWalker(ctx context.Context, hs *handlerSocket, t CachedTable) (*walker, error) {
	layout, err := c.layout(ctx, t)
	if err != nil {
		return nil, err
	}
	index := layout.index(t.Index)
	if index == nil || index.prefix() || slices.ContainsFunc(index.parts, func(p part) bool { return p.column < 0 }) {
		return nil, nil
	}
	rows, err := c.ranked(ctx, layout, index)
	if err != nil {
		return nil, err
	}
	w := &walker{c: c, hs: hs, layout: layout, index: index, rows: rows}
	opened, err := w.open()
	if err == nil && !opened {
		err = errors.New("does not open")
	}
	return w, err
}

func (c *comparer) warm(ctx context.Context, t CachedTable) (fromMemory int, err error) {
	if exists, err := c.exists(ctx, t); err != nil || !exists {
		return 0, err
	}
	hs, err := dialHandlerSocket(c.runner.HandlerSocket)
	if err != nil {
		return 0, err
	}
	defer hs.conn.Close()
	w, err := c.hotWalker(ctx, hs, t)
	if err != nil || w == nil {
		return 0, nil // a table in motion
	}
	var keys [][][]byte
	for _, row := range w.rows[:min(len(w.rows), warmRows)] {
		if key := w.key(row, len(w.index.parts)); !slices.ContainsFunc(key, func(v []byte) bool { return v == nil }) {
			keys = append(keys, key)
		}
	}
	c.runner.warmed[t.Schema+"."+t.Table] = keys
	for deadline := time.Now().Add(warmTime); ; {
		before, err := c.runner.status(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := w.lookUp(keys); err != nil {
			return 0, err
		}
		after, err := c.runner.status(ctx)
		if err != nil {
			return 0, err
		}
		fromMemory = int(after.Reads.HandlerSocket.Memory - before.Reads.HandlerSocket.Memory)
		state := ""
		for _, s := range after.Tables {
			if s.Name == t.Schema+"."+t.Table {
				state = s.State
			}
		}
		if fromMemory == len(keys) || state == "refused" || state == "hot" && fromMemory == 0 && t.Index != "PRIMARY" || time.Now().After(deadline) {
			return fromMemory, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// lookUp asks for whole keys and returns all rows that are found.
func (w *walker) lookUp(keys [][][]byte) (found [][][]byte, err error) {
	var lines []byte
	for _, key := range keys {
		lines = append(lines, w.find("=", key, 100, nil).line...)
	}
	err = w.hs.pipeline(lines, len(keys), func(i int, answer [][]byte) error {
		if string(answer[0]) != "0" {
			return fmt.Errorf("find %q: %q", keys[i], answer)
		}
		for values := range slices.Chunk(answer[2:], len(w.layout.visible)) {
			r := make([][]byte, len(values))
			for i, v := range values {
				r[i] = unescape(v)
			}
			found = append(found, r)
		}
		return nil
	})
	return found, err
}

// compareHot looks up every key that was made hot, and walks over all rows of the server.
func (c *comparer) compareHot(ctx context.Context, hs *handlerSocket, t CachedTable) error {
	w, err := c.hotWalker(ctx, hs, t)
	if err != nil || w == nil {
		return err
	}
	has := map[string]bool{}
	for _, row := range w.rows {
		has[fmt.Sprintf("%q", w.layout.shown(row.values))] = true
	}
	if keys := c.runner.warmed[t.Schema+"."+t.Table]; len(keys) > 0 && len(keys[0]) == len(w.index.parts) {
		found, err := w.lookUp(keys)
		if err != nil {
			return err
		}
		for _, row := range found {
			if !has[fmt.Sprintf("%q", row)] {
				return fmt.Errorf("a key that was hot gives the row %q, which the server has not", row)
			}
		}
	}
	// Twice: the first walk may make rows hot.
	for range 2 {
		if err := w.all(); err != nil {
			return err
		}
	}
	return nil
}
