package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// Codes of hazards of tables.
const (
	codeWrite    = "privilege.write"
	codeReadOnly = "read_only"
	codeMemory   = "memory"
	codeOneRead  = "table.one_read"
)

// grantTables is how many tables are named one by one in the SQL that lets the account write; more get a GRANT for their schema.
const grantTables = 10

// writing looks at whether the account may change the tables that clients read.
func (d *Diagnosis) writing(ctx context.Context, c *sqltext.Conn, defs []*schema.Table) error {
	lacking := map[[2]string][]string{} // schema and privileges: tables
	var order [][2]string
	for _, def := range defs {
		missing, err := lacksWrites(ctx, c, def)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			continue
		}
		key := [2]string{def.Schema, strings.Join(missing, ", ")}
		if lacking[key] == nil {
			order = append(order, key)
		}
		lacking[key] = append(lacking[key], def.Name)
	}
	for _, key := range order {
		tables := lacking[key]
		p := Problem{
			Code: codeWrite, Mend: "or switch writing off with --handlersocket-write off, where clients are not to write",
			Text: fmt.Sprintf("clients cannot write to %s.%s: the account lacks %s on it", key[0], tables[0], key[1]),
		}
		if n := len(tables) - 1; n > 0 {
			p.Text = fmt.Sprintf("clients cannot write to %s.%s and %d more tables: the account lacks %s on them", key[0], tables[0], n, key[1])
		} else {
			p.Table, p.Warning = key[0]+"."+tables[0], true
		}
		if len(tables) > grantTables {
			tables = []string{"*"}
		}
		for _, table := range tables {
			if table != "*" {
				table = schema.QuoteName(table)
			}
			p.SQL = append(p.SQL, "GRANT "+key[1]+" ON "+schema.QuoteName(key[0])+"."+table+" TO "+d.Account)
		}
		d.Problems = append(d.Problems, p)
	}
	return nil
}

// lacksWrites names the privileges for changing a table that the account lacks. Each is tried by having a statement
// explained, which takes the privileges that the statement takes, and changes nothing.
func lacksWrites(ctx context.Context, c *sqltext.Conn, def *schema.Table) (missing []string, err error) {
	name := schema.QuoteName(def.Schema) + "." + schema.QuoteName(def.Name)
	column := schema.QuoteName(def.Columns[plainColumn(def)].Name)
	for _, try := range []struct{ privilege, sql string }{
		{"INSERT", "INSERT INTO " + name + " () VALUES ()"},
		{"UPDATE", "UPDATE " + name + " SET " + column + " = DEFAULT WHERE FALSE"},
		{"DELETE", "DELETE FROM " + name + " WHERE FALSE"},
	} {
		err := c.Exec(ctx, "EXPLAIN "+try.sql)
		switch {
		case denied(err):
			missing = append(missing, try.privilege)
		case err != nil && (sqltext.ServerCode(err) == 0 || c.Broken()):
			return nil, err
		}
	}
	return missing, nil
}

// plainColumn is a column that a statement may set.
func plainColumn(def *schema.Table) int {
	return max(slices.IndexFunc(def.Columns, func(c schema.Column) bool { return !c.Generated }), 0)
}

// readOnly looks at whether the source takes writes at all.
func (d *Diagnosis) readOnly(ctx context.Context, c *sqltext.Conn) error {
	on := false
	err := c.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'read_only'", func(v [][]byte) error {
		on = string(v[1]) != "OFF"
		return nil
	})
	if err != nil || !on {
		return err
	}
	s := &source{flavor: d.Flavor}
	d.Problems = append(d.Problems, Problem{
		Code: codeReadOnly, Text: "the source has read_only=ON: clients cannot write",
		SQL: []string{s.setGlobal("read_only", "OFF")}, Mend: "or, where it is meant to be a replica, name its own source, or switch writing off with --handlersocket-write off",
	})
	return nil
}

// EstimateBytes of MySQL would be a day old otherwise.
const freshFigures = "SET SESSION information_schema_stats_expiry = 0"

// memory compares what the server thinks that the tables take with what there is for them.
func (d *Diagnosis) memory(ctx context.Context, c *sqltext.Conn, defs []*schema.Table, memory int64) error {
	if d.Flavor == schema.FlavorMySQL {
		if err := c.Exec(ctx, freshFigures); err != nil {
			return err
		}
	}
	var sum int64
	var largest string
	var most int64
	for _, def := range defs {
		if def.Refusal != "" {
			continue
		}
		size, err := schema.EstimateBytes(ctx, c, def.Schema, def.Name)
		if err != nil {
			return err
		}
		sum += size
		if size > most {
			most, largest = size, def.Schema+"."+def.Name
		}
	}
	if sum > memory {
		d.Problems = append(d.Problems, Problem{
			Code: codeMemory,
			Text: fmt.Sprintf("the tables take about %d MiB on the source, the largest is %s with %d MiB, and %d MiB are left to them in memory: those that do not fit are kept hot", sum>>20, largest, most>>20, memory>>20),
			Mend: "raise --memory, or name fewer tables",
		})
	}
	return nil
}

// oneRead tells of a table that is loaded by a single SELECT.
func oneRead(def *schema.Table) (Problem, bool) {
	if def.Refusal != "" || chunkable(def) {
		return Problem{}, false
	}
	name := def.Schema + "." + def.Name
	return Problem{
		Code: codeOneRead, Table: name, Warning: true,
		Text: "table " + name + " is loaded by one SELECT, since its key " + def.Indexes[def.Key].Name + " can't be read in pieces: a lost connection begins it anew",
	}, true
}
