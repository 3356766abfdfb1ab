package triggers

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// naming gives a column the name by which it is reached in one place of the SQL.
type naming = func(Ref) string

// tableRef names columns in a SELECT, where the source table is called s.
func (d *Design) tableRef(r Ref) string {
	if r.Alias == "" {
		return "s." + schema.QuoteName(r.Column)
	}
	return r.Alias + "." + schema.QuoteName(r.Column)
}

// rowRef names columns in a trigger: NEW or OLD.
func rowRef(row string) naming {
	return func(r Ref) string { return row + "." + schema.QuoteName(r.Column) }
}

func quote(n schema.Name) string { return schema.QuoteName(n.Schema) + "." + schema.QuoteName(n.Table) }

// cache is the cache table, quoted; beside is a helper's name in the same schema.
func (d *Design) cache() string { return quote(d.Spec.Cache) }

func (d *Design) beside(table string) string {
	return quote(schema.Name{Schema: d.Spec.Cache.Schema, Table: table})
}

func indent(by int, text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat("  ", by))
}

// from is the FROM clause: the source and its joins. Joins are all outer ones; members asks for the partners of inner ones,
// so that rows that have lost theirs can be found by the same clause.
func (d *Design) from(name naming) string {
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s AS s", quote(d.Spec.Source))
	for _, j := range d.Spec.Joins {
		var on []string
		for _, o := range j.On {
			on = append(on, j.Alias+"."+schema.QuoteName(o.Column)+" = "+name(o.Equals))
		}
		fmt.Fprintf(&b, "\nLEFT JOIN %s AS %s ON %s", quote(j.Table), j.Alias, strings.Join(on, " AND "))
	}
	return b.String()
}

// member is the condition under which a source row is cached, always true or false; empty where all are.
func (d *Design) member(name naming) string {
	var all []string
	if d.when != nil {
		all = append(all, "("+d.when.render(name)+") IS TRUE")
	}
	for _, j := range d.Spec.Joins {
		if j.Inner {
			all = append(all, j.Alias+"."+schema.QuoteName(j.On[0].Column)+" IS NOT NULL")
		}
	}
	return strings.Join(all, " AND ")
}

func and(conditions ...string) string {
	var all []string
	for _, c := range conditions {
		if c != "" {
			all = append(all, c)
		}
	}
	return strings.Join(all, " AND ")
}

// DefinitionQuery is the SELECT of what the cache table should hold: k, its other columns but cas, and as id1, id2 and so
// on the key of the source row, or the group.
func (d *Design) DefinitionQuery() string {
	if d.Spec.Query != "" {
		q := "SELECT q.k, q.v"
		if f := d.Spec.Flags; f != nil {
			q += fmt.Sprintf(", %d AS flags", *f)
		}
		return q + "\nFROM (\n" + d.Spec.Query + "\n) AS q"
	}
	q := "SELECT " + d.selected(d.tableRef)
	for i, c := range d.identity() {
		q += fmt.Sprintf(", s.%s AS id%d", schema.QuoteName(c.Name), i+1)
	}
	q += "\n" + d.from(d.tableRef)
	if m := d.member(d.tableRef); m != "" {
		q += "\nWHERE " + m
	}
	if d.grouped() {
		q += "\nGROUP BY " + d.groupColumns("s.")
	}
	return q
}

func (d *Design) groupColumns(prefix string) string {
	var all []string
	for _, g := range d.Spec.Group {
		all = append(all, prefix+schema.QuoteName(g))
	}
	return strings.Join(all, ", ")
}

// Compared is a column of the cache table that must be what DefinitionQuery says.
type Compared struct {
	// Name is quoted for SQL where it has to be.
	Name string
	// Text is true where the values are compared as UTF-8 texts, byte by byte.
	Text bool
}

// Columns are the columns of the cache table that follow from the source, without k.
func (d *Design) Columns() []Compared {
	var all []Compared
	for _, c := range d.columns {
		if !c.volatile {
			all = append(all, Compared{c.column(), c.definition == textColumn})
		}
	}
	return all
}

// Expires tells whether the cache table has a column exp, and whether it follows from the source.
func (d *Design) Expires() (has, follows bool) {
	for _, c := range d.columns {
		if c.name == "exp" {
			return true, !c.volatile
		}
	}
	return false, false
}

// DueKey is the key of a mark m of a group, as an expression over id1, id2 and so on; empty where marks are of rows.
func (d *Design) DueKey() string {
	if !d.grouped() {
		return ""
	}
	return d.key.render(func(r Ref) string {
		return "m." + strings.Replace(d.groupRef(r), "p", "id", 1)
	})
}

// IdentityColumns is the number of columns id1, id2 and so on.
func (d *Design) IdentityColumns() int { return len(d.identity()) }

// selected is the list of k and the stored columns.
func (d *Design) selected(name naming) string {
	list := d.key.render(name) + " AS k"
	for _, c := range d.columns {
		list += ", " + c.expr.render(name) + " AS " + c.column()
	}
	return list
}

// column is the column's name, quoted where it is the user's.
func (c cached) column() string {
	switch c.name {
	case "v", "flags", "exp":
		return c.name
	}
	return schema.QuoteName(c.name)
}

// casFirst and casNext are the values of a new row's cas and of a changed one's.
func (d *Design) casFirst() string {
	if d.Spec.CAS == "unique" {
		return "UUID_SHORT()"
	}
	return "1"
}

func (d *Design) casNext(qualified bool) string {
	switch {
	case d.Spec.CAS == "unique":
		return "UUID_SHORT()"
	case qualified:
		return schema.QuoteName(d.Spec.Cache.Table) + ".cas + 1"
	}
	return "cas + 1"
}

// upsertRow writes one cache row from the values of a trigger's row.
func (d *Design) upsertRow(name naming) string {
	columns, values, updates := "k", d.key.render(name), ""
	for _, c := range d.columns {
		v := c.expr.render(name)
		columns += ", " + c.column()
		values += ",\n        " + v
		if updates != "" {
			updates += ",\n  "
		}
		updates += c.column() + " = " + v
	}
	if d.Spec.CAS != "" {
		columns += ", cas"
		values += ",\n        " + d.casFirst()
		updates += ",\n  cas = " + d.casNext(false)
	}
	return fmt.Sprintf("INSERT INTO %s (%s)\nVALUES (%s)\nON DUPLICATE KEY UPDATE\n  %s;", d.cache(), columns, values, updates)
}

// upsertSelect writes the cache rows of the source rows that fit where. They are read with shared locks.
func (d *Design) upsertSelect(name naming, where string) string {
	columns, picked, updates := "k", "d.k", ""
	for _, c := range d.columns {
		columns += ", " + c.column()
		picked += ", d." + c.column()
		if updates != "" {
			updates += ", "
		}
		updates += c.column() + " = d." + c.column()
	}
	if d.Spec.CAS != "" {
		columns += ", cas"
		picked += ", " + d.casFirst()
		updates += ", cas = " + d.casNext(true)
	}
	return fmt.Sprintf("INSERT INTO %s (%s)\nSELECT %s FROM (\n  SELECT %s\n  %s\n  WHERE %s\n  LOCK IN SHARE MODE\n) AS d\nON DUPLICATE KEY UPDATE %s;",
		d.cache(), columns, picked, d.selected(name), indent(1, d.from(name)), and(where, d.member(name)), updates)
}

// deleteSelect deletes the cache rows of the source rows that fit where.
func (d *Design) deleteSelect(where string) string {
	return fmt.Sprintf("DELETE c FROM %s AS c JOIN (\n  SELECT %s AS k\n  %s\n  WHERE %s\n  LOCK IN SHARE MODE\n) AS d ON d.k = c.k;",
		d.cache(), d.key.render(d.tableRef), indent(1, d.from(d.tableRef)), where)
}

// deleteLeavers deletes the cache rows of those source rows that fit where and are not to be cached any more.
func (d *Design) deleteLeavers(where string) string {
	return d.deleteSelect(and(where, "NOT ("+d.member(d.tableRef)+")"))
}

func (d *Design) deleteKey(name naming) string {
	return fmt.Sprintf("DELETE FROM %s WHERE k = %s;", d.cache(), d.key.render(name))
}

// same compares the given columns of OLD and NEW: byte by byte where a collation could call different texts equal.
func (d *Design) same(columns []Ref) string {
	var all []string
	for _, r := range columns {
		o, n := rowRef("OLD")(r), rowRef("NEW")(r)
		c, err := d.column(r)
		if err == nil && c.Charset != "" || err == nil && c.Kind == schema.KindJSON {
			o, n = "CAST("+o+" AS BINARY)", "CAST("+n+" AS BINARY)"
		}
		all = append(all, o+" <=> "+n)
	}
	return strings.Join(all, " AND ")
}

// changed is true where one of the columns differs between OLD and NEW.
func (d *Design) changed(columns []Ref) string {
	if len(columns) == 1 {
		return "NOT (" + d.same(columns) + ")"
	}
	return "NOT (\n    " + strings.ReplaceAll(d.same(columns), " AND ", "\n    AND ") + "\n  )"
}

// used are the columns that a cache row depends on, those by which joins find their partners included.
func (d *Design) used() []Ref {
	all := []Expr{d.key}
	if d.when != nil {
		all = append(all, d.when)
	}
	for _, c := range d.columns {
		all = append(all, c.expr)
	}
	for _, j := range d.Spec.Joins {
		for _, o := range j.On {
			all = append(all, column(o.Equals), column(Ref{j.Alias, o.Column}))
		}
	}
	return refs(all...)
}

// ownUsed are those of the source table.
func (d *Design) ownUsed() []Ref {
	var own []Ref
	for _, r := range d.used() {
		if r.Alias == "" {
			own = append(own, r)
		}
	}
	return own
}

// beyond writes the conditions that a key of several columns is beyond lo, or not beyond hi: variables <prefix>1 and so on.
func beyond(columns []*schema.Column, prefix, op string) string {
	var cases []string
	for i := range columns {
		var all []string
		for j := range i {
			all = append(all, fmt.Sprintf("s.%s = %s%d", schema.QuoteName(columns[j].Name), prefix, j+1))
		}
		last := op
		if i < len(columns)-1 {
			last = strings.TrimSuffix(op, "=")
		}
		all = append(all, fmt.Sprintf("s.%s %s %s%d", schema.QuoteName(columns[i].Name), last, prefix, i+1))
		cases = append(cases, strings.Join(all, " AND "))
	}
	return strings.Join(cases, " OR ")
}

// displayWidth is what MariaDB shows of whole numbers and MySQL does not.
var displayWidth = regexp.MustCompile(`int\([0-9]+\)`)

// typeOf is a column's type for a variable or another table's column of the same values.
func typeOf(c *schema.Column) string {
	if c.Charset == "" && strings.Contains(c.TypeText, "zerofill") {
		return c.TypeText // the width says how many noughts there are
	}
	if c.Charset == "" {
		return displayWidth.ReplaceAllString(c.TypeText, "int")
	}
	return c.TypeText + " CHARACTER SET " + c.Charset + " COLLATE " + c.Collation
}
