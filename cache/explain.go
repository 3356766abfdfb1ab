package cache

import (
	"fmt"
	"slices"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Origin says how a row came into memory.
type Origin uint8

// The origins. Two bits of a row's head hold those of full tables.
const (
	// OriginStream: by an event of the log.
	OriginStream Origin = iota
	// OriginSnapshot: read from the database when the table was loaded.
	OriginSnapshot
	// OriginSaved: from the state that an earlier process had saved.
	OriginSaved
	// OriginMended: read from the database when a comparison had found a difference.
	OriginMended
	// OriginHot: read from the database for a client, or changed by the log since.
	OriginHot
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
	case OriginHot:
		return "hot"
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

// Explain looks up the row of a whole row-identity key of a live or hot table. The error is ErrStale, wrapped, where the
// table is neither, or that of a key that is none.
func (t *Table) Explain(key [][]byte) (e Explanation, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var enc keyEncoder
	var prefix []byte
	switch g, hot := t.gen, t.hot; {
	case t.State() == StateLive:
		e.Def, enc = g.def, g.keyEnc
	case t.State() == StateHot:
		e.Def, enc, prefix = hot.def, hot.enc, hot.prefix(nil)
	default:
		return e, fmt.Errorf("%s: %w", t.fullName, ErrStale)
	}
	if parts := e.Def.Indexes[e.Def.Key].Parts; len(key) != len(parts) {
		return e, fmt.Errorf("%s: %d values for the %d columns of %s", t.fullName, len(key), len(parts), e.Def.Indexes[e.Def.Key].Name)
	}
	bytes, err := enc.AppendValues(prefix, key)
	if err != nil {
		return e, fmt.Errorf("%s: %w", t.fullName, err)
	}
	if t.hot != nil {
		e.Row, e.Version, e.Found = t.hot.rows.get(bytes)
		e.Origin = OriginHot
		return e, nil
	}
	g := t.gen
	if id, ok := g.key.get(bytes); ok {
		row, version := g.log.get(id)
		e.Found, e.Row, e.Version, e.Origin = true, slices.Clone(row), version, g.log.origin(id)
	}
	return e, nil
}
