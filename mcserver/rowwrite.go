package mcserver

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/item"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// insertAttempts bounds how often a row is looked for and inserted because another client was faster.
const insertAttempts = 5

// writable tells that rows can be written at all.
func (s *Server) writable() bool { return s.writer != nil }

// writeRow does what w asks for to a row. The connection is parked meanwhile, so its answers stay in order.
func (s *session) writeRow(w *writeRequest, value []byte) {
	switch {
	case !s.server.writable():
		s.refuseWrite(w.noreply, errNoWriting)
		return
	case w.cmd == cmdFlushAll:
		s.flushRows(w)
		return
	case w.meta.stale || w.meta.dropValue:
		s.refuseWrite(w.noreply, errStale)
		return
	}
	// What w and value point to is gone when the job runs.
	own := make([]byte, 0, len(w.key)+len(w.meta.args)+len(value))
	own = append(append(append(own, w.key...), w.meta.args...), value...)
	k, a := len(w.key), len(w.key)+len(w.meta.args)
	w.key, w.meta.args, value = own[:k:k], own[k:a:a], own[a:]
	if w.isMeta() {
		w.meta.key = w.key
	}
	cmd := s.cmd
	s.park(func(ctx context.Context) {
		s.cmd = cmd
		s.requestOf(w, value)
		c := rowChange{session: s, q: s.request, cmd: w.cmd}
		err := c.run(ctx)
		switch {
		case err != nil:
			s.answerRowError(w, err)
		case s.at == nil:
			s.refuseWrite(w.noreply, errNoWriting)
		default:
			s.answerWrite(w, &c.res)
		}
	})
}

// answerRowError answers a write that has failed.
func (s *session) answerRowError(w *writeRequest, err error) {
	if r := (*RefusedError)(nil); errors.As(err, &r) {
		if s.asPlugin() && s.pluginRefused(w, r) {
			return
		}
		// The Writer logs what the database refuses, and the rest is the client's.
		s.failure = serverErrorLine(err)
		if s.frame.active {
			s.count.add(s.cmd, resultServerError)
			s.binaryAnswer(statusNotStored, s.failure[len(serverErrorPrefix):])
			return
		}
	} else {
		s.failed(err)
	}
	s.answerError(w)
}

// touchAndFind is find for gat, and for mg with T: it gives the row a new expiry and shows it.
func (s *session) touchAndFind(ctx context.Context, key []byte) outcome {
	exptime := s.request.Exptime
	if s.r.form == formMeta {
		exptime = int64(s.meta.exptime)
	}
	c := rowChange{session: s, q: item.Request{Key: key, Touch: true, Exptime: exptime}, cmd: cmdTouch, show: true}
	start := len(s.r.out)
	if err := c.change(ctx, key); err != nil {
		s.r.out = s.r.out[:start]
		s.r.found = false
		if r := (*RefusedError)(nil); errors.As(err, &r) {
			s.failure = serverErrorLine(err)
			return outcomeFailed
		}
		return s.failed(err)
	}
	return s.r.outcome()
}

// rowChange is one change of one row.
type rowChange struct {
	*session
	q    item.Request
	cmd  command
	show bool // the row is to be shown as it is found
	res  item.Result

	b    *binding
	key  []byte              // the value of the key column
	set  []schema.Assignment // what the value of a set is in the columns
	cas  uint64              // the row's new number, 0 without a cas column
	kind schema.ChangeKind
}

// run finds the container that the key names and makes the change.
func (c *rowChange) run(ctx context.Context) error {
	s := c.session
	cs := s.server.containers.Load()
	s.searched = false
	s.follow(cs)
	name, key := splitKey(c.q.Key, cs.options.TableMapDelimiter)
	if name != nil && s.asPlugin() && !c.stores() {
		// In delete, incr and decr the plugin takes the name for a part of the key.
		name, key = nil, c.q.Key
	}
	if name != nil {
		switch s.switchTo(ctx, name) {
		case outcomeMiss:
			c.res.Status = item.NotFound
			return nil
		case outcomeFailed:
			return &RefusedError{Err: errors.New(s.failure[len(serverErrorPrefix):])}
		}
		if len(key) == 0 {
			return refusedf("no key stands behind the container's name")
		}
	}
	if s.at == nil {
		return nil
	}
	return c.change(ctx, key)
}

// change makes the change to the row of a key of the session's container.
func (c *rowChange) change(ctx context.Context, key []byte) error {
	return c.withBinding(ctx, func(b *binding) error {
		if err := c.begin(b, key); err != nil || c.key == nil {
			return err
		}
		return c.make(ctx)
	})
}

// withBinding has something done with what the session's container is bound to, again when the table is another one meanwhile.
func (s *session) withBinding(ctx context.Context, do func(b *binding) error) error {
	for attempt := 0; ; attempt++ {
		b, err := s.binding()
		if err != nil {
			if b, err = s.server.reopen(ctx, s.at); err != nil {
				return err
			}
		}
		if err = do(b); !errors.Is(err, ErrChanged) || attempt == reopenAttempts {
			return err
		}
		if _, err := s.server.reopen(ctx, s.at); err != nil {
			return err
		}
	}
}

// stores tells that the command is one of those that have a value.
func (c *rowChange) stores() bool {
	switch c.cmd {
	case cmdSet, cmdAdd, cmdReplace, cmdAppend, cmdPrepend, cmdCAS, cmdMetaSet:
		return true
	}
	return false
}

// joins tells that the value is joined to the one that is there.
func (c *rowChange) joins() bool {
	return c.stores() && (c.q.Mode == item.Append || c.q.Mode == item.Prepend)
}

// deletes tells that the row is to go.
func (c *rowChange) deletes() bool { return c.cmd == cmdDelete || c.cmd == cmdMetaDelete }

// arithmetic tells that a number is added or taken off.
func (c *rowChange) arithmetic() bool {
	return c.cmd == cmdIncr || c.cmd == cmdDecr || c.cmd == cmdMetaArithmetic
}

// creates tells that a row is made where there is none.
func (c *rowChange) creates() bool {
	return c.stores() && !c.q.Compare && (c.q.Mode == item.Set || c.q.Mode == item.Add || c.joins() && c.q.Create) || c.arithmetic() && c.q.Create
}

// begin prepares the change for a binding. Without an error and with no key set, the result stands: no row can have it.
func (c *rowChange) begin(b *binding, key []byte) error {
	c.b, c.key, c.set, c.cas, c.res = b, nil, nil, 0, item.Result{Left: -1}
	c.r.b, c.r.key = b, key
	if b.noWriting != nil {
		return &RefusedError{Err: b.noWriting, own: true}
	}
	col := &b.def.Columns[b.key]
	value, ok := b.keyValue(key, &c.scratch)
	switch {
	case ok:
	case c.creates():
		return refusedf("key does not fit column %q, which is %s", col.Name, col.TypeText)
	default:
		c.missing()
		return nil
	}
	if c.creates() && col.AutoIncrement && number(value) == 0 {
		return refusedf("0 in column %q asks for the next number", col.Name)
	}
	if c.q.GiveCAS && b.cas < 0 {
		return refusedf("container has no cas column to keep a number in")
	}
	if b.exp < 0 && (c.cmd == cmdTouch || c.q.Touch && !c.stores()) {
		return refusedf("container has no expiry column")
	}
	if b.cas >= 0 && c.cmd != cmdTouch {
		c.cas = c.q.NewCAS
		if !c.q.GiveCAS {
			c.cas = c.server.nextCAS()
		}
	}
	if c.stores() {
		c.res.Length = len(c.q.Value)
		// An append to a row does not need the fields of a whole value.
		if set, err := b.split(c.q.Value); err == nil {
			c.set = set
		} else if !c.joins() || c.q.Create {
			return err
		}
	}
	c.key = bytes.Clone(value)
	return nil
}

// missing is the result where there is no row.
func (c *rowChange) missing() {
	c.res.Status = item.NotFound
	if c.stores() && !c.q.Compare {
		c.res.Status = item.NotStored
	}
}

// make makes the change: as one statement, which is committed together with others, where that can mean the same; else in
// a transaction that locks the row first.
func (c *rowChange) make(ctx context.Context) error {
	if done, err := c.makeAtOnce(ctx); done {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := c.transact(ctx)
		// It was not there, and then it was: somebody else has inserted it, or another unique key refuses it.
		if r := (*RefusedError)(nil); !errors.As(err, &r) || !r.Duplicate || attempt == insertAttempts {
			return err
		}
	}
}

// makeAtOnce makes the change as one statement. Not done: it takes a transaction.
func (c *rowChange) makeAtOnce(ctx context.Context) (done bool, err error) {
	b := c.b
	if b.strict {
		return c.pluginAtOnce(ctx)
	}
	change := &schema.Change{Def: b.def, Index: b.index, Key: [][]byte{c.key}}
	switch {
	case c.q.Compare || c.joins() || !c.stores() && !c.deletes():
		return false, nil
	case c.deletes():
		change.Kind = schema.ChangeDelete
	case c.q.Mode == item.Set && b.single:
		change.Kind, change.Set = schema.ChangeUpsert, c.newRow(c.q.Exptime)
	case c.q.Mode == item.Add:
		change.Kind, change.Key, change.Set = schema.ChangeInsert, nil, c.newRow(c.q.Exptime)
	case c.q.Mode == item.Replace && b.exp < 0:
		change.Kind, change.Set = schema.ChangeUpdate, c.newRow(c.q.Exptime)[1:]
	default:
		return false, nil
	}
	rows, err := c.server.writer.Change(ctx, change)
	if r := (*RefusedError)(nil); errors.As(err, &r) && (change.Kind == schema.ChangeUpsert || r.Duplicate) {
		// An add has to see whether the row is over. A set may have been refused as the insert that it would not
		// have been, for want of a default, say.
		return false, nil
	}
	switch {
	case err != nil:
	case rows == 0:
		c.missing()
	default:
		c.res.CAS = c.cas
	}
	return true, err
}

// newRow gives the columns of a row that is stored as a whole, the key first.
func (c *rowChange) newRow(exptime int64) []schema.Assignment {
	set := append([]schema.Assignment{{Column: c.b.key, Value: c.key}}, c.set...)
	set = c.b.setFlags(set, c.q.Flags)
	set = c.b.setExpiry(set, item.Expires(exptime, c.r.time()))
	return c.b.setCAS(set, c.cas)
}

// transact makes the change in a transaction.
func (c *rowChange) transact(ctx context.Context) error {
	b := c.b
	switch {
	case c.deletes():
		c.kind = schema.ChangeDelete
	case c.stores() && c.creates():
		c.kind = schema.ChangeUpsert
	default:
		c.kind = schema.ChangeUpdate
	}
	search := schema.Search{Def: b.def, Index: b.index, Values: [][]byte{c.key}, Columns: b.columns, Limit: 1}
	start := len(c.r.out)
	var refused error // by what the row holds, before anything was changed
	err := c.server.writer.Transact(ctx, b.def, c.kind, func(tx Tx) error {
		c.res = item.Result{Left: -1, Length: len(c.q.Value)}
		c.r.out = c.r.out[:start]
		c.r.found, c.r.expired, refused = false, false, nil
		found := false
		err := tx.Search(&search, func(row rowcodec.Row) error {
			found = true
			it, live := c.r.read(row, 0)
			if live || b.strict { // for the plugin a row is there until somebody deletes it
				var change *schema.Change
				if change, refused = c.live(row, it); change == nil || refused != nil {
					return nil
				}
				return tx.Change(change, row)
			}
			c.r.expired = true
			var set []schema.Assignment
			if set, refused = c.gone(); set == nil || refused != nil {
				return nil
			}
			return tx.Change(&schema.Change{Kind: schema.ChangeUpdate, Def: b.def, Set: set[1:]}, row)
		})
		if found || err != nil {
			return err
		}
		var set []schema.Assignment
		if set, refused = c.gone(); set == nil || refused != nil {
			return nil
		}
		return tx.Insert(&schema.Change{Kind: schema.ChangeInsert, Def: b.def, Set: set})
	})
	if err == nil {
		err = refused
	}
	return err
}

// gone is what is done where there is no row, or one whose time is over: the result is the row to make, nil for none.
func (c *rowChange) gone() ([]schema.Assignment, error) {
	switch {
	case !c.creates():
		c.missing()
		return nil, nil
	case c.b.strict:
		return c.pluginGone()
	case c.arithmetic():
		if len(c.b.value) > 1 {
			return nil, refusedf("one number is no value for several columns")
		}
		c.numberIs(c.q.Initial)
		c.q.Flags = 0
		c.set = []schema.Assignment{{Column: c.b.value[0].column, Value: strconv.AppendUint(nil, c.q.Initial, 10)}}
		c.expires(item.Expires(c.q.CreateExptime, c.r.time()))
		c.res.CAS = c.cas
		return c.newRow(c.q.CreateExptime), nil
	case c.joins():
		c.res.CAS = c.cas
		return c.newRow(c.q.CreateExptime), nil
	}
	c.res.CAS = c.cas
	return c.newRow(c.q.Exptime), nil
}

// live is what is done to a row that is there; nil for nothing.
func (c *rowChange) live(row rowcodec.Row, it shown) (*schema.Change, error) {
	b := c.b
	if b.strict {
		return c.pluginLive(row, it)
	}
	if c.stores() && c.q.Mode == item.Add {
		c.res.Status = item.NotStored
		return nil, nil
	}
	if c.q.Compare {
		same, err := c.compare(row, it)
		if err != nil {
			return nil, err
		}
		if !same {
			c.res.Status = item.Exists
			return nil, nil
		}
	}
	change := &schema.Change{Kind: schema.ChangeUpdate, Def: b.def}
	c.expires(it.exp)
	switch {
	case c.deletes():
		change.Kind = schema.ChangeDelete
	case c.cmd == cmdTouch:
		it.exp = item.Expires(c.q.Exptime, c.r.time())
		change.Set = b.setExpiry(nil, it.exp)
		c.touched, c.res.CAS = it, it.cas
		if c.show {
			c.r.found = true
			c.r.write(row, it)
		}
	case c.arithmetic():
		column, n, ok := b.number(row, it.flags)
		if !ok {
			c.res.Status = item.NotNumber
			return nil, nil
		}
		switch {
		case !c.q.Decrement:
			n += c.q.Delta // past the largest number it goes on from 0, as the protocol says
		case n < c.q.Delta:
			n = 0
		default:
			n -= c.q.Delta
		}
		c.numberIs(n)
		change.Set = []schema.Assignment{{Column: column, Value: strconv.AppendUint(nil, n, 10)}}
		if c.q.Touch {
			exp := item.Expires(c.q.Exptime, c.r.time())
			change.Set = b.setExpiry(change.Set, exp)
			c.expires(exp)
		}
		change.Set = b.setCAS(change.Set, c.cas)
		c.res.CAS = c.cas
	case c.joins():
		// Flags and expiry stay, as memcached leaves them.
		a, err := b.joined(row, c.q.Value, c.q.Mode == item.Prepend)
		if err != nil {
			return nil, err
		}
		if c.res.Length = b.valueLen(row) + len(c.q.Value); c.res.Length > c.q.MaxBytes {
			c.res.Status = item.TooLarge
			return nil, nil
		}
		change.Set = b.setCAS([]schema.Assignment{a}, c.cas)
		c.res.CAS = c.cas
	default:
		change.Set = c.newRow(c.q.Exptime)[1:] // the key's spelling stays
		c.res.CAS = c.cas
	}
	return change, nil
}

// numberIs makes n the result of an arithmetic.
func (c *rowChange) numberIs(n uint64) {
	c.res.Number = n
	c.res.Length = len(strconv.AppendUint(nil, n, 10))
}

// expires makes that the result's time.
func (c *rowChange) expires(exp int64) {
	if c.res.Left = -1; exp != 0 {
		c.res.Left = exp - c.r.time()
	}
}

// compare tells that the locked row is the one whose number the client has. Without a cas column that is the version of
// the row in memory: it must be the client's, and the row must be in the database what it is in memory.
func (c *rowChange) compare(row rowcodec.Row, it shown) (same bool, err error) {
	b := c.b
	if b.cas >= 0 {
		return it.cas == c.q.CAS, nil
	}
	if c.q.CAS == 0 {
		return false, refusedf("0 is the cas of rows that were not read from memory: it can't be compared")
	}
	search := schema.Search{Def: b.def, Index: b.index, Values: [][]byte{c.key}, Columns: b.columns, Limit: 1}
	served, err := b.table.SearchMemory(&search, func(known rowcodec.Row, version uint64) bool {
		same = version == c.q.CAS && sameColumns(known, row, b.columns)
		return false
	})
	if err == nil && !served {
		err = refusedf("row is not in memory: without a cas column its cas can't be compared")
	}
	return same, err
}
