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

// Install puts rows of a snapshot into the table, which must be loading. The snapshot is known to contain all changes up to
// the version low, which the rows get, and none beyond high, which must have come to Apply: a row whose key Apply has put
// or deleted with a higher version than low is left out, since what Apply said is newer. A row that is none that the log
// knows of that time gives ErrGap. The rows are copied. After an error the table is suspended and the Generation stale.
func (g *Generation) Install(rows []rowcodec.Row, low, high uint64) error {
	return g.install(rows, nil, low, high)
}

// InstallKeyed is Install of rows whose keys have been made: that takes as long as the rest, which is all that is left to
// do under the table's lock.
func (g *Generation) InstallKeyed(k *Keyed, low, high uint64) error {
	return g.install(k.rows, k, low, high)
}

func (g *Generation) install(rows []rowcodec.Row, keyed *Keyed, low, high uint64) error {
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
	var key []byte
	for i, row := range rows {
		if most > 0 && len(row) > most {
			return fail(g.TooLarge())
		}
		if keyed != nil {
			key = keyed.at(i)
		} else {
			var err error
			if g.after, err = g.keyEnc.AppendRow(g.after[:0], row); err != nil {
				return fail(fmt.Errorf("key of a row: %w", err))
			}
			key = g.after
		}
		if len(g.check.pasts) > 0 {
			if err := g.checkRead(key, row, low, high); err != nil {
				return fail(err)
			}
		}
		if len(g.marks) > 0 && g.marks[string(key)] > low {
			continue
		}
		id, err := g.log.put(row, low, g.origin)
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
	if len(rows) > 0 {
		g.check.last = append(g.check.last[:0], key...)
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
	g.check.forget() // what came before this call is no matter either
}
