package schema

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// columnRefusals names the columns that a row in memory could not hold.
func (t *Table) columnRefusals() (refusals []string) {
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Kind == KindUnsupported {
			refusals = append(refusals, fmt.Sprintf("column %q has the type %s, which is not supported", c.Name, c.TypeText))
		}
	}
	return refusals
}

// virtualColumn is a column that is computed by who reads it.
type virtualColumn struct{ name, expression string }

// bySession are functions whose values depend on settings of the session: time_zone, lc_time_names, default_week_format.
var bySession = regexp.MustCompile(`(?i)\b(date_format|time_format|dayname|monthname|str_to_date|from_unixtime|unix_timestamp|week|yearweek|format)\s*\(`)

// virtualRefusals names the virtual columns that are not the same for every session. The log has their values as the
// writer's session computes them; the database shows what the reader's does. A TIMESTAMP is such a value in any expression.
func (t *Table) virtualRefusals(virtual []virtualColumn) (refusals []string) {
	for _, v := range virtual {
		reason := ""
		if m := bySession.FindStringSubmatch(v.expression); m != nil {
			reason = strings.ToLower(m[1]) + "()"
		}
		for i := range t.Columns {
			if c := &t.Columns[i]; c.Kind == KindTimestamp && strings.Contains(v.expression, QuoteName(c.Name)) {
				reason = fmt.Sprintf("%q, a TIMESTAMP", c.Name)
			}
		}
		if reason != "" {
			refusals = append(refusals, fmt.Sprintf("its virtual column %q depends on the session by %s; make it STORED", v.name, reason))
		}
	}
	return refusals
}

// chooseKey sets t.Key, or says why there is none that serves.
func (t *Table) chooseKey() (refusals []string) {
	generated, partial := false, false
	for i := range t.Indexes {
		index := &t.Indexes[i]
		if !index.Unique || !index.BTree {
			continue
		}
		if t.isGeneratedKey(index) {
			generated = true
			continue
		}
		whole, nullable := true, false
		for _, part := range index.Parts {
			if part.Column < 0 || part.Prefix > 0 {
				whole = false
				continue
			}
			nullable = nullable || t.Columns[part.Column].Nullable
		}
		partial = partial || !whole && index.Name == "PRIMARY"
		if whole && !nullable {
			t.Key = i
			break
		}
	}
	if t.Key >= 0 {
		for _, part := range t.Indexes[t.Key].Parts {
			if c := &t.Columns[part.Column]; c.Kind == KindFloat {
				refusals = append(refusals, fmt.Sprintf("column %q of its key %s is a FLOAT, whose text does not tell all values apart",
					c.Name, t.Indexes[t.Key].Name))
			}
		}
		return refusals
	}
	switch {
	case generated:
		return []string{fmt.Sprintf("its primary key is the generated invisible column %s; make it an ordinary one with ALTER TABLE %s ALTER COLUMN %s SET VISIBLE",
			generatedKey, t.quoted(), generatedKey)}
	case partial:
		return []string{"its primary key holds only the first characters of a column, and it has no unique index over whole NOT NULL columns"}
	default:
		return []string{"it has neither a primary key nor a unique index over whole NOT NULL columns"}
	}
}

// isGeneratedKey tells MySQL's generated invisible primary key (sql_generate_invisible_primary_key) from others.
func (t *Table) isGeneratedKey(index *Index) bool {
	if index.Name != "PRIMARY" || len(index.Parts) != 1 || index.Parts[0].Column < 0 {
		return false
	}
	c := &t.Columns[index.Parts[0].Column]
	return c.Name == generatedKey && c.Invisible && c.AutoIncrement
}

// cascades names the foreign keys by which the engine changes rows of this table without writing that to the log.
func (t *Table) cascades(ctx context.Context, q Querier) (refusals []string, err error) {
	var create string
	err = q.Query(ctx, "SHOW CREATE TABLE "+t.quoted(), func(v [][]byte) error {
		create = string(v[1])
		return nil
	})
	if err != nil {
		return nil, err
	}
	keys, err := foreignKeys(create)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if len(key.actions) > 0 {
			refusals = append(refusals, fmt.Sprintf("its foreign key %s has %s, which the log does not show",
				QuoteName(key.name), strings.Join(key.actions, " and ")))
		}
	}
	if len(refusals) == 0 {
		return nil, nil
	}
	logged, err := cascadesLogged(ctx, q, t.Flavor)
	if err != nil || logged {
		return nil, err
	}
	return refusals, nil
}

// cascadesLogged reports that the server carries out the actions of foreign keys above the engine, where they are
// logged like any other change: MySQL from 9.6 on, unless innodb_native_foreign_keys is ON.
func cascadesLogged(ctx context.Context, q Querier, flavor string) (logged bool, err error) {
	if flavor != FlavorMySQL {
		return false, nil
	}
	err = q.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'", func(v [][]byte) error {
		logged = string(v[1]) == "OFF"
		return nil
	})
	return logged, err
}

// EstimateBytes returns what the server thinks that the rows of a table take on its disk; 0 where it does not say.
func EstimateBytes(ctx context.Context, q Querier, schemaName, tableName string) (size int64, err error) {
	err = q.Query(ctx, "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+nameLiteral(schemaName)+" AND TABLE_NAME = "+nameLiteral(tableName),
		func(v [][]byte) error {
			if v[0] == nil {
				return nil
			}
			size, err = strconv.ParseInt(string(v[0]), 10, 64)
			return err
		})
	if err != nil {
		return 0, fmt.Errorf("estimate the size of %s.%s: %w", schemaName, tableName, err)
	}
	return size, nil
}

// EstimateRows returns the optimizer's estimate of the number of rows of a table: for showing progress, not for truth.
func EstimateRows(ctx context.Context, q Querier, schemaName, tableName string) (uint64, error) {
	var rows uint64
	// TABLE_ROWS of information_schema can be a day old on MySQL; a plan is made from the engine's present figures.
	err := q.Query(ctx, "EXPLAIN FORMAT=TRADITIONAL SELECT * FROM "+QuoteName(schemaName)+"."+QuoteName(tableName),
		func(v [][]byte) error {
			// MySQL has two more columns (partitions, filtered) than MariaDB.
			at := 8
			if len(v) > 10 {
				at = 9
			}
			if len(v) <= at {
				return fmt.Errorf("EXPLAIN gives %d columns", len(v))
			}
			rows = 0
			for _, digit := range v[at] {
				if digit < '0' || digit > '9' {
					break
				}
				rows = rows*10 + uint64(digit-'0')
			}
			return nil
		})
	if err != nil {
		return 0, fmt.Errorf("estimate rows of %s.%s: %w", schemaName, tableName, err)
	}
	return rows, nil
}
