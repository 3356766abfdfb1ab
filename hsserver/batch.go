package hsserver

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/binlogcache/binlogcache/schema"
)

// Writes that a client has sent one after the other, without waiting, are handed to the Writer together: it can commit
// them together, where each by itself would wait for the disk. They are those of one row each; whatever else comes ends
// the batch, and is carried out after it.

const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20 // of their lines
)

// batch is the writes that wait for what follows them in the input.
type batch struct {
	writes []batched
	bytes  int
}

// batched is one write, or a request between writes whose answer is known.
type batched struct {
	ix     *openIndex
	change *schema.Change
	answer string
}

func (b *batch) full() bool { return len(b.writes) >= maxBatch || b.bytes >= maxBatchBytes }

// mayJoin reports that a line looks like the write of one row: an insert, or a modification by equality without offset, IN
// list, filters and question mark. It does not change the line.
func mayJoin(line []byte) bool {
	t := tokens{rest: line}
	if c := first(t.next()); c < '0' || c > '9' {
		return false
	}
	op := t.next()
	if string(op) == "+" {
		return true
	}
	n := t.number()
	if string(op) != "=" || n > maxKeyValues {
		return false
	}
	for range n {
		t.next()
	}
	t.next()
	if t.number() != 0 {
		return false
	}
	modify := t.next()
	return modification(modify) && (len(modify) < 2 || modify[1] != '?')
}

// addToBatch keeps the request at hand for the batch, where it can be part of one.
func (s *session) addToBatch(ix *openIndex) bool {
	def := ix.t.Def()
	if def == nil {
		return false
	}
	c := s.change(ix, def)
	if c == nil {
		return false
	}
	for i := range c.Set {
		c.Set[i].Value = bytes.Clone(c.Set[i].Value) // NULL stays nil
	}
	key := make([][]byte, len(c.Key))
	for i, v := range c.Key {
		key[i] = bytes.Clone(v)
	}
	c.Key = key
	s.batch.writes = append(s.batch.writes, batched{ix: ix, change: c})
	return true
}

// take gives the batch and begins a new one.
func (b *batch) take() []batched {
	writes := b.writes
	*b = batch{}
	return writes
}

// awaitBatch begins a batch that nothing follows, where no worker is needed to wait for its end.
func (s *session) awaitBatch() {
	s.parked = true
	all := s.batch.take()
	changes := make([]*schema.Change, 0, len(all))
	for i := range all {
		if all[i].change != nil {
			changes = append(changes, all[i].change)
		}
	}
	s.conn.Await(func(ctx context.Context, resume func(bool, func(context.Context, []byte) []byte)) {
		if !s.server.cfg.Writer.Begin(ctx, changes, func(results []Result) {
			retry := func(r Result) bool { return errors.Is(r.Err, ErrChanged) }
			resume(!slices.ContainsFunc(results, retry), func(ctx context.Context, out []byte) []byte {
				return s.answerBatch(ctx, all, results, out)
			})
		}) {
			resume(false, func(ctx context.Context, out []byte) []byte { return s.writeBatch(ctx, all, out) })
		}
	})
}

// answerBatch appends the answers of a batch that was carried out.
func (s *session) answerBatch(ctx context.Context, all []batched, results []Result, out []byte) []byte {
	for i := range all {
		if all[i].change == nil {
			out = append(out, all[i].answer...)
			continue
		}
		r, start := results[0], len(out)
		results = results[1:]
		out = s.countFailure(s.batchAnswer(ctx, &all[i], r.Rows, r.ID, r.Err, out), start)
	}
	return out
}

// writeBatch carries a batch out and appends its answers. It is called from parked jobs.
func (s *session) writeBatch(ctx context.Context, all []batched, out []byte) []byte {
	for len(all) > 0 {
		if all[0].change == nil {
			out = append(out, all[0].answer...)
			all = all[1:]
			continue
		}
		n := 0
		var changes []*schema.Change
		for n < len(all) && all[n].change != nil {
			changes = append(changes, all[n].change)
			n++
		}
		s.server.cfg.Writer.Changes(ctx, changes, func(i, rows int, id uint64, err error) {
			start := len(out)
			out = s.countFailure(s.batchAnswer(ctx, &all[i], rows, id, err, out), start)
		})
		all = all[n:]
	}
	return out
}

// batchAnswer appends the answer to a write of a batch. A write that was made for an older definition is tried again.
func (s *session) batchAnswer(ctx context.Context, b *batched, rows int, id uint64, err error, out []byte) []byte {
	for range maxTries {
		if err == nil {
			return appendChanged(out, b.change, rows, id)
		}
		if !errors.Is(err, ErrChanged) {
			break
		}
		def, f := s.definition(ctx, b.ix, err)
		if f != "" {
			return append(out, f...)
		}
		c, ok := b.change.For(def)
		if !ok {
			return append(out, failID...)
		}
		b.change = c
		s.server.cfg.Writer.Changes(ctx, []*schema.Change{c}, func(_, n int, made uint64, failure error) { rows, id, err = n, made, failure })
	}
	return s.writeFailed(ctx, b.ix, err, out)
}
