package triggers

import (
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// Catalog is what a server says about the tables of a spec. It is made by triggers/install, or by hand in tests.
type Catalog struct {
	// Tables holds the source, the joined tables, and every table from whose rows cascades of foreign keys reach them.
	Tables map[schema.Name]*Table
	// Others holds, for names of a spec that are no base tables, what they are: "VIEW", "SEQUENCE".
	Others map[schema.Name]string
}

// Table is one table of a Catalog.
type Table struct {
	*schema.Table
	// JSON names the columns that MariaDB declares as JSON, which are texts with a check there.
	JSON map[string]bool
	// Expressions holds the generated columns' expressions, as the server prints them.
	Expressions map[string]string
	// Parents are the table's own foreign keys.
	Parents []ForeignKey
}

// ForeignKey is a constraint of a child table.
type ForeignKey struct {
	Name   string
	Parent schema.Name
	// Columns of the child and of the parent, pair by pair.
	Columns, ParentColumns []string
	// OnDelete and OnUpdate are the rules as information_schema spells them: CASCADE, SET NULL, RESTRICT, NO ACTION.
	OnDelete, OnUpdate string
}

// cascades tells whether a rule changes the child's rows.
func cascades(rule string) bool { return rule != "RESTRICT" && rule != "NO ACTION" }

// rowKey returns the columns of the key that tells the table's rows apart, nil where it has none.
func (t *Table) rowKey() []*schema.Column {
	if t.Key < 0 {
		return nil
	}
	var columns []*schema.Column
	for _, p := range t.Indexes[t.Key].Parts {
		columns = append(columns, &t.Columns[p.Column])
	}
	return columns
}

// dependsOn tells whether a column is one of the given ones, or is generated from one, over any number of steps.
func (t *Table) dependsOn(column string, columns []string) bool {
	if slices.Contains(columns, column) {
		return true
	}
	e := t.Expressions[column]
	return e != "" && slices.ContainsFunc(t.Columns, func(c schema.Column) bool {
		return c.Name != column && strings.Contains(e, schema.QuoteName(c.Name)) && t.dependsOn(c.Name, columns)
	})
}

// unique tells whether at most one row has given values in these columns.
func (t *Table) unique(columns map[string]bool) bool {
	for _, i := range t.Indexes {
		if !i.Unique {
			continue
		}
		covered := true
		for _, p := range i.Parts {
			covered = covered && p.Column >= 0 && p.Prefix == 0 && columns[t.Columns[p.Column].Name]
		}
		if covered {
			return true
		}
	}
	return false
}

// indexed tells whether an index begins with the column.
func (t *Table) indexed(column string) bool {
	for _, i := range t.Indexes {
		if p := i.Parts[0]; i.BTree && p.Column >= 0 && t.Columns[p.Column].Name == column {
			return true
		}
	}
	return false
}
