package install

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/triggers"
)

// Cost is how long a transaction of one write takes at the median, without and with the triggers.
type Cost struct {
	Writes        int // measured on each side
	Without, With time.Duration
}

// String is the cost on one line.
func (c Cost) String() string {
	return fmt.Sprintf("a single-row write took %s without and %s with the triggers (%+.0f %%; medians of %d inserts and deletes on a copy of the table)",
		c.Without.Round(time.Microsecond), c.With.Round(time.Microsecond), 100*(c.With.Seconds()/c.Without.Seconds()-1), c.Writes)
}

// warmUp are rounds that do not count.
const warmUp = 10

// sampleRows are the rows of a source that are copied for measuring.
const sampleRows = 100

// ErrNoRows says that there is nothing to measure with: the source table is empty.
var ErrNoRows = errors.New("the source table is empty")

// Measure inserts and deletes rows in two empty copies of the source table, one without and one with the triggers of the
// design. The copies lie in the cache table's schema and are gone at the end.
func (s *Session) Measure(ctx context.Context, d *triggers.Design, rounds int) (c Cost, err error) {
	if d.Spec.Query != "" {
		return c, errors.New("a query has no triggers")
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	scratch := *d.Spec
	scratch.Name = "probe_" + hex.EncodeToString(id[:])
	scratch.Source = schema.Name{Schema: d.Spec.Cache.Schema, Table: scratch.Name + "_source"}
	scratch.Cache = schema.Name{Schema: d.Spec.Cache.Schema, Table: scratch.Name}
	quoted := func(n schema.Name) string { return schema.QuoteName(n.Schema) + "." + schema.QuoteName(n.Table) }
	beside := func(suffix string) string {
		return quoted(schema.Name{Schema: scratch.Source.Schema, Table: scratch.Name + suffix})
	}
	source, plain, sample := quoted(scratch.Source), beside("_plain"), beside("_rows")
	var objects []triggers.Object
	defer func() {
		ctx := context.WithoutCancel(ctx)
		drop := []string{"DROP TABLE IF EXISTS " + source, "DROP TABLE IF EXISTS " + plain, "DROP TABLE IF EXISTS " + sample}
		for i := range objects {
			drop = append(drop, objects[i].Drop())
		}
		for _, st := range drop {
			err = errors.Join(err, s.exec(ctx, st))
		}
	}()
	catalog, err := s.Catalog(ctx, &triggers.Spec{Source: d.Spec.Source, Joins: d.Spec.Joins})
	if err != nil {
		return c, err
	}
	var columns []string
	for _, col := range catalog.Tables[d.Spec.Source].Columns {
		if !col.Generated {
			columns = append(columns, schema.QuoteName(col.Name))
		}
	}
	list := strings.Join(columns, ", ")
	for _, st := range []string{
		"CREATE TABLE " + source + " LIKE " + quoted(d.Spec.Source),
		"CREATE TABLE " + plain + " LIKE " + quoted(d.Spec.Source),
		"CREATE TABLE " + sample + " LIKE " + quoted(d.Spec.Source),
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s LIMIT %d", sample, list, list, quoted(d.Spec.Source), sampleRows),
	} {
		if err := s.exec(ctx, st); err != nil {
			return c, err
		}
	}
	var rows int
	if err := s.one(ctx, "SELECT COUNT(*) FROM "+sample, nil, &rows); err != nil {
		return c, err
	}
	if rows == 0 {
		return c, ErrNoRows
	}
	own := *catalog.Tables[d.Spec.Source]
	own.Parents = nil
	catalog.Tables[scratch.Source] = &own
	probe, err := triggers.NewDesign(&scratch, catalog)
	if err != nil {
		return c, err
	}
	for _, o := range probe.Objects {
		if o.Kind == triggers.KindTable || o.Kind == triggers.KindTrigger && o.On == scratch.Source {
			objects = append(objects, o)
			if err := s.exec(ctx, o.Create); err != nil {
				return c, err
			}
		}
	}
	slices.Reverse(objects)
	// In turns, so that what else the machine does falls on both sides.
	var times [2][]time.Duration
	for i := range rounds + warmUp {
		for side, table := range []string{plain, source} {
			for _, st := range []string{
				fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s LIMIT 1 OFFSET %d", table, list, list, sample, i%rows), "DELETE FROM " + table,
			} {
				begun := time.Now()
				if err := s.exec(ctx, st); err != nil {
					return c, err
				}
				if i >= warmUp {
					times[side] = append(times[side], time.Since(begun))
				}
			}
		}
	}
	for _, t := range times {
		slices.Sort(t)
	}
	n := len(times[0])
	return Cost{n, times[0][n/2], times[1][n/2]}, nil
}
