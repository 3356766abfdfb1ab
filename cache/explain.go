package cache

import (
	"fmt"
	"slices"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Origin says how a row came into memory.
type Origin uint8

// The origins. Two bits of a row's head hold them.
const (
	// OriginStream: by an event of the log.
	OriginStream Origin = iota
	// OriginSnapshot: read from the database when the table was loaded.
	OriginSnapshot
	// OriginSaved: from the state that an earlier process had saved.
	OriginSaved
	// OriginMended: read from the database when a comparison had found a difference.
	OriginMended
)

// String returns the origin's name for people.
func (o Origin) String() string {
	switch o {
	case OriginStream:
		return "stream"
	case OriginSnapshot:
		return "snapshot"
	case OriginSaved:
		return "saved state"
	case OriginMended:
		return "repair"
	default:
		return fmt.Sprintf("origin(%d)", uint8(o))
	}
}

// Explanation is what memory knows of the row of a key.
type Explanation struct {
	// Def is the definition of the table, shared.
	Def *schema.Table
	// Found tells that there is a row; then Row is a copy of it.
	Found   bool
	Row     rowcodec.Row
	Version uint64
	Origin  Origin
}

// Explain looks up the row of a whole row-identity key of a live table. The error is ErrStale, wrapped, where the table is
// not live, or that of a key that is none.
func (t *Table) Explain(key [][]byte) (e Explanation, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.State() != StateLive {
		return e, fmt.Errorf("%s: %w", t.fullName, ErrStale)
	}
	g := t.gen
	if parts := g.def.Indexes[g.def.Key].Parts; len(key) != len(parts) {
		return e, fmt.Errorf("%s: %d values for the %d columns of %s", t.fullName, len(key), len(parts), g.def.Indexes[g.def.Key].Name)
	}
	e.Def = g.def
	bytes, err := g.keyEnc.AppendValues(nil, key)
	if err != nil {
		return e, fmt.Errorf("%s: %w", t.fullName, err)
	}
	if id, ok := g.key.get(bytes); ok {
		row, version := g.log.get(id)
		e.Found, e.Row, e.Version, e.Origin = true, slices.Clone(row), version, g.log.origin(id)
	}
	return e, nil
}
