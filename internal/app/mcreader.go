package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// mcReader finds tables for the memcached protocols.
type mcReader struct {
	router   *router.Router
	counters *router.Counters
	age      *aging
}

var _ mcserver.Reader = mcReader{}

func (r mcReader) Open(ctx context.Context, schemaName, table string) (mcserver.Table, error) {
	t, err := r.router.Open(ctx, schemaName, table)
	if err != nil {
		return nil, unavailable(err)
	}
	return agedTable{boundTable{t, r.counters, mcserver.ErrChanged}, r.age}, nil
}

// aging is what tells how old memory is.
type aging struct {
	follower *canal.Follower
	fresh    *freshness
}

// agedTable is a boundTable that knows how old its answers are.
type agedTable struct {
	boundTable
	age *aging
}

var (
	_ mcserver.Table  = agedTable{}
	_ mcserver.Viewer = agedTable{}
	_ mcserver.Aged   = agedTable{}
)

// MemoryAge implements mcserver.Aged.
func (t agedTable) MemoryAge() (age time.Duration, known bool) {
	age = t.age.follower.Behind()
	return age, age > 0
}

// WantAge implements mcserver.Aged.
func (t agedTable) WantAge(bound time.Duration) { t.age.fresh.want(bound) }

// SearchNewest implements mcserver.Aged.
func (t agedTable) SearchNewest(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) error {
	return unavailable(t.translate(t.Table.SearchNewest(ctx, t.counters, s, emit)))
}

// Trace implements mcserver.Aged.
func (t agedTable) Trace(def *schema.Table, row rowcodec.Row, version uint64) mcserver.Trace {
	tr := mcserver.Trace{Origin: "unknown"}
	if o, ok := t.Table.Origin(def, row, version); ok {
		tr.Origin = strings.ReplaceAll(o.String(), " ", "-")
	}
	if c, ok := t.age.follower.Commit(version); ok {
		tr.Applied = c.Applied
	}
	return tr
}

// unavailable makes an error mcserver.ErrUnavailable where it says that the database can't be asked. The text stays.
func unavailable(err error) error {
	if errors.Is(err, dbreader.ErrUnavailable) || errors.Is(err, dbreader.ErrTimeLimit) {
		return unavailableError{err}
	}
	return err
}

type unavailableError struct{ error }

func (e unavailableError) Unwrap() error        { return e.error }
func (e unavailableError) Is(target error) bool { return target == mcserver.ErrUnavailable }
