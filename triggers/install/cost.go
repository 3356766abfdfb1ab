package install

import (
	"context"
	"crypto/rand"
	"database/sql"
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
	if err := s.mayDrop(ctx, d.Spec.Cache.Schema); err != nil {
		return c, err
	}
	// As long as the lock is held, somebody is measuring; a mark without one is what a killed process has left.
	var got sql.NullInt64
	if err := s.one(ctx, "SELECT GET_LOCK(?, 0)", []any{probeLock(scratch.Cache)}, &got); err != nil || got.Int64 != 1 {
		return c, errors.Join(errors.New("no lock for measuring"), err)
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, s.dropProbe(ctx, scratch.Cache), s.exec(ctx, "DO RELEASE_LOCK(?)", probeLock(scratch.Cache)))
	}()
	if err := s.exec(ctx, "CREATE TABLE "+beside(probeMark)+" (one INT NOT NULL PRIMARY KEY) ENGINE = InnoDB COMMENT = '"+probeComment+"'"); err != nil {
		return c, err
	}
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
			if err := s.exec(ctx, o.Create); err != nil {
				return c, err
			}
		}
	}
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

// The table that is made before a measurement's others and goes after them.
const (
	probeMark    = "_mark"
	probeComment = "binlogcache: measuring"
)

func probeLock(probe schema.Name) string { return "binlogcache " + probe.String() }

// dropProbe drops the tables of a measurement, and with them their triggers.
func (s *Session) dropProbe(ctx context.Context, probe schema.Name) error {
	for _, suffix := range []string{"_source", "_plain", "_rows", "_due", "_fill", "", probeMark} {
		table := triggers.Object{Kind: triggers.KindTable, Name: schema.Name{Schema: probe.Schema, Table: probe.Table + suffix}}
		if err := s.exec(ctx, table.Drop()); err != nil {
			return err
		}
	}
	return nil
}

// sweep drops what killed processes have left of their measurements in a schema.
func (s *Session) sweep(ctx context.Context, schemaName string) error {
	var left []schema.Name
	err := s.rows(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_COMMENT = ?", []any{schemaName, probeComment},
		func(v [][]byte) error {
			if name, ok := strings.CutSuffix(string(v[0]), probeMark); ok && strings.HasPrefix(name, "probe_") {
				left = append(left, schema.Name{Schema: schemaName, Table: name})
			}
			return nil
		})
	for _, probe := range left {
		var got sql.NullInt64
		if err = s.one(ctx, "SELECT GET_LOCK(?, 0)", []any{probeLock(probe)}, &got); err != nil {
			break
		}
		if got.Int64 != 1 {
			continue
		}
		err = errors.Join(s.dropProbe(ctx, probe), s.exec(ctx, "DO RELEASE_LOCK(?)", probeLock(probe)))
		if err != nil {
			break
		}
	}
	if code(err) != 0 {
		return fmt.Errorf("drop what an earlier measurement has left: %w", err)
	}
	return err
}
