package cache

import (
	"errors"
	"fmt"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// Keyed are rows with the keys that they have in a Generation.
type Keyed struct {
	rows []rowcodec.Row
	err  error  // of a row's key
	keys []byte // one after the other
	ends []int  // of each in keys
}

// Key makes the keys of rows, which are not copied, for InstallKeyed. It may be called at any time, beside all other
// methods.
func (g *Generation) Key(rows []rowcodec.Row) *Keyed {
	k := &Keyed{rows: rows}
	t := g.table
	t.mu.RLock()
	if t.gen != g {
		t.mu.RUnlock()
		return k // which nobody will install
	}
	enc := g.keyEnc
	t.mu.RUnlock()
	t.store.pool.fetch()
	k.ends = make([]int, 0, len(rows))
	k.keys = make([]byte, 0, len(rows)*enc.FixedWidth())
	for _, row := range rows {
		if k.keys, k.err = enc.AppendRow(k.keys, row); k.err != nil {
			break
		}
		k.ends = append(k.ends, len(k.keys))
	}
	return k
}

// at returns the key of row i.
func (k *Keyed) at(i int) []byte {
	start := 0
	if i > 0 {
		start = k.ends[i-1]
	}
	return k.keys[start:k.ends[i]]
}

// Install puts rows of a snapshot into the table, which must be loading. version is what they get; low is the version up
// to which the snapshot is known to contain all changes: a row whose key Apply has put or deleted with a higher version
// is left out, since what Apply said is newer. The rows are copied. After an error the table is suspended and the
// Generation stale.
func (g *Generation) Install(rows []rowcodec.Row, version, low uint64) error {
	return g.install(rows, nil, version, low)
}

// InstallKeyed is Install of rows whose keys have been made: that takes as long as the rest, which is all that is left to
// do under the table's lock.
func (g *Generation) InstallKeyed(k *Keyed, version, low uint64) error {
	return g.install(k.rows, k, version, low)
}

func (g *Generation) install(rows []rowcodec.Row, keyed *Keyed, version, low uint64) error {
	if err := g.enter("install into"); err != nil {
		return err
	}
	t := g.table
	defer t.unlock()
	fail := func(err error) error {
		err = fmt.Errorf("install into %s: %w", t.fullName, err)
		t.move(StateSuspended, err.Error())
		return err
	}
	if t.State() != StateLoading {
		return fail(errors.New("the table is live"))
	}
	if keyed != nil && keyed.err != nil {
		return fail(fmt.Errorf("key of a row: %w", keyed.err))
	}
	g.origin = OriginSnapshot
	if g.restored {
		g.origin = OriginSaved
	}
	most, size := g.MostRow(), 0
	for i, row := range rows {
		if most > 0 && len(row) > most {
			return fail(g.TooLarge())
		}
		var key []byte
		if keyed != nil {
			key = keyed.at(i)
		} else {
			var err error
			if g.after, err = g.keyEnc.AppendRow(g.after[:0], row); err != nil {
				return fail(fmt.Errorf("key of a row: %w", err))
			}
			key = g.after
		}
		if len(g.marks) > 0 && g.marks[string(key)] > low {
			continue
		}
		id, err := g.log.put(row, version, g.origin)
		if err != nil {
			return fail(err)
		}
		size += rowHeadBytes + len(row)
		old, replaced := g.key.put(key, id)
		switch {
		case !replaced:
		case g.log.version(old) > low:
			g.key.put(key, old)
			g.log.remove(id)
		default:
			g.log.remove(old)
		}
	}
	g.log.compact(size)
	return g.settle()
}

// Restored says that the rows that Install will put come from the state that an earlier process has saved. On a stale
// Generation it does nothing.
func (g *Generation) Restored() {
	if g.enter("restore") != nil {
		return
	}
	defer g.table.unlock()
	g.restored = true
}
