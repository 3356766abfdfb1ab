package triggers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// cascade collects what the trigger of one parent table has to do before a row of it is deleted.
type cascade struct {
	table   schema.Name
	keys    []string // names of the foreign keys
	touched string   // which source rows
	back    string   // the same by NEW
	changes string   // for rows that stay, with NULL in columns
	goes    string   // for rows that vanish
	again   string   // for rows that are there all the same when a row of table comes back
}

// parents adds the triggers for cascades of foreign keys. The server changes the source's rows then without running their
// triggers, so the triggers of the parent, before it changes, do the work for the children. They do no harm where the
// server runs the children's triggers as well (MySQL 9.7 with enable_cascade_triggers).
func (d *Design) parents(catalog *Catalog) error {
	var deletes []*cascade
	var seen []schema.Name
	for _, fk := range d.base.Parents {
		if slices.Contains(seen, fk.Parent) {
			continue
		}
		seen = append(seen, fk.Parent)
		var cut, clear, move []ForeignKey
		for _, k := range d.base.Parents {
			if k.Parent != fk.Parent {
				continue
			}
			used := slices.ContainsFunc(d.ownUsed(), func(r Ref) bool { return d.base.dependsOn(r.Column, k.Columns) })
			switch {
			case k.OnDelete == "CASCADE":
				cut = append(cut, k)
			case cascades(k.OnDelete) && used:
				clear = append(clear, k)
			}
			if cascades(k.OnUpdate) && used {
				move = append(move, k)
			}
		}
		if len(cut)+len(clear)+len(move) == 0 {
			continue
		}
		if d.delta() {
			return d.Spec.errorf("totals", "totals: foreign key %s of %s lets the server change rows without triggers (ON DELETE %s, ON UPDATE %s): use a value with every instead of totals",
				fk.Name, d.Spec.Source, fk.OnDelete, fk.OnUpdate)
		}
		if fk.Parent == d.Spec.Source {
			return d.Spec.errorf("source", "source: foreign key %s of %s points to the table itself and cascades: no trigger sees how far; use a query with every", fk.Name, d.Spec.Source)
		}
		for _, k := range append(slices.Clone(clear), move...) {
			for _, r := range d.ownUsed() {
				if !slices.Contains(k.Columns, r.Column) && d.base.dependsOn(r.Column, k.Columns) {
					return d.Spec.errorf("source", "source: foreign key %s lets the server change %s, of which the column %s is generated, without any trigger: use an expression instead of the generated column, or a query with every",
						k.Name, strings.Join(k.Columns, ", "), r.Column)
				}
			}
		}
		d.move(fk.Parent, move)
		if len(cut)+len(clear) == 0 {
			continue
		}
		add := func(table schema.Name, match func(k ForeignKey, row string) string) error {
			c := d.cascade(table, cut, clear, match)
			for _, other := range deletes {
				if other.table != table {
					continue
				}
				if other.changes != "" || c.changes != "" {
					return d.Spec.errorf("source", "source: a delete in %s reaches %s on several ways: use a query with every", table, d.Spec.Source)
				}
				other.keys, other.goes, other.again = append(other.keys, c.keys...), other.goes+"\n"+c.goes, other.again+"\n"+c.again
				other.touched, other.back = "("+other.touched+" OR "+c.touched+")", "("+other.back+" OR "+c.back+")"
				return nil
			}
			deletes = append(deletes, c)
			return nil
		}
		if err := add(fk.Parent, func(k ForeignKey, row string) string { return fkMatch("s", k, row) }); err != nil {
			return err
		}
		for _, k := range append(slices.Clone(cut), clear...) {
			if catalog.Tables[k.Parent] == nil {
				return d.Spec.errorf("source", "source: %s, which foreign key %s points to, can't be seen: grant SELECT on it", k.Parent, k.Name)
			}
		}
		up := func(table schema.Name, where func(alias, row string) string) error {
			return add(table, func(k ForeignKey, row string) string { return reach("s", k, row, where) })
		}
		if err := d.ancestors(catalog, append(slices.Clone(cut), clear...), []schema.Name{d.Spec.Source, fk.Parent}, up); err != nil {
			return err
		}
	}
	for _, c := range deletes {
		body := c.changes
		if c.goes != "" {
			body = strings.TrimPrefix(body+"\n"+c.goes, "\n")
		}
		d.trigger(c.table, "BEFORE", "DELETE", fmt.Sprintf("By foreign key the server changes or deletes rows of %s then, without their triggers (%s).",
			d.Spec.Source, strings.Join(c.keys, ", ")), d.toleratePartner(c.touched, body))
		if !d.grouped() {
			d.trigger(c.table, "AFTER", "INSERT", fmt.Sprintf("REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of %s as they were then.", d.Spec.Source),
				d.toleratePartner(c.back, c.again))
		}
	}
	return nil
}

// cascade works out what a delete does to the source rows that match.
func (d *Design) cascade(table schema.Name, cut, clear []ForeignKey, matchRow func(k ForeignKey, row string) string) *cascade {
	all := append(slices.Clone(clear), cut...)
	match := func(k ForeignKey) string { return matchRow(k, "OLD") }
	back := anyOf(all, func(k ForeignKey) string { return matchRow(k, "NEW") })
	c := &cascade{table: table, touched: anyOf(all, match), back: back}
	for _, k := range all {
		c.keys = append(c.keys, k.Name)
	}
	if !d.grouped() {
		c.again = d.upsertSelect(d.tableRef, back)
	}
	if len(clear) > 0 {
		c.changes = d.childrenChange(clear, match, func(ForeignKey, int) string { return "NULL" })
	}
	if len(cut) > 0 {
		c.goes = d.childrenGo(anyOf(cut, match))
	}
	return c
}

// move adds the trigger for new values in the columns that foreign keys point to.
func (d *Design) move(parent schema.Name, keys []ForeignKey) {
	if len(keys) == 0 {
		return
	}
	var same, names []string
	for _, k := range keys {
		names = append(names, k.Name)
		for _, c := range k.ParentColumns {
			if s := "OLD." + schema.QuoteName(c) + " <=> NEW." + schema.QuoteName(c); !slices.Contains(same, s) {
				same = append(same, s)
			}
		}
	}
	body := d.childrenChange(keys, func(k ForeignKey) string { return fkMatch("s", k, "OLD") }, func(k ForeignKey, i int) string {
		if k.OnUpdate != "CASCADE" {
			return "NULL"
		}
		return "NEW." + schema.QuoteName(k.ParentColumns[i])
	})
	d.trigger(parent, "BEFORE", "UPDATE", fmt.Sprintf("By foreign key the server changes rows of %s then, without their triggers (%s).", d.Spec.Source, strings.Join(names, ", ")),
		d.toleratePartner(anyOf(keys, func(k ForeignKey) string { return fkMatch("s", k, "OLD") }), ifThen("NOT ("+strings.Join(same, " AND ")+")", body)))
}

// ancestors follows cascades upwards from the parent at the end of path: add is called for each table whose rows take rows
// of that parent with them, with the condition on the parent's rows, written for their alias.
func (d *Design) ancestors(catalog *Catalog, keys []ForeignKey, path []schema.Name, add func(table schema.Name, where func(alias, row string) string) error) error {
	parent := catalog.Tables[path[len(path)-1]]
	if parent == nil {
		return nil
	}
	for _, up := range parent.Parents {
		moves := slices.ContainsFunc(keys, func(k ForeignKey) bool {
			return slices.ContainsFunc(up.Columns, func(c string) bool { return slices.Contains(k.ParentColumns, c) })
		})
		if moves && (cascades(up.OnUpdate) || cascades(up.OnDelete) && up.OnDelete != "CASCADE") {
			return d.Spec.errorf("source", "source: changes of %s reach %s through several foreign keys (%s the last): use a query with every", up.Parent, d.Spec.Source, up.Name)
		}
		if up.OnDelete != "CASCADE" {
			continue
		}
		if slices.Contains(path, up.Parent) {
			return d.Spec.errorf("source", "source: foreign key %s makes a circle of cascades: no trigger sees how far; use a query with every", up.Name)
		}
		if err := add(up.Parent, func(alias, row string) string { return fkMatch(alias, up, row) }); err != nil {
			return err
		}
		higher := func(table schema.Name, where func(alias, row string) string) error {
			return add(table, func(alias, row string) string { return reach(alias, up, row, where) })
		}
		if err := d.ancestors(catalog, []ForeignKey{up}, append(slices.Clone(path), up.Parent), higher); err != nil {
			return err
		}
	}
	return nil
}

// reach is the condition on a child's rows that they belong to rows of the parent that fit where.
func reach(child string, fk ForeignKey, row string, where func(alias, row string) string) string {
	alias := "p1"
	if child != "s" {
		var n int
		_, _ = fmt.Sscanf(child, "p%d", &n)
		alias = fmt.Sprintf("p%d", n+1)
	}
	var own, theirs []string
	for i := range fk.Columns {
		own = append(own, child+"."+schema.QuoteName(fk.Columns[i]))
		theirs = append(theirs, alias+"."+schema.QuoteName(fk.ParentColumns[i]))
	}
	left := own[0]
	if len(own) > 1 {
		left = "(" + strings.Join(own, ", ") + ")"
	}
	return fmt.Sprintf("%s IN (SELECT %s FROM %s AS %s WHERE %s)", left, strings.Join(theirs, ", "), quote(fk.Parent), alias, where(alias, row))
}

func fkMatch(alias string, fk ForeignKey, row string) string {
	var all []string
	for i := range fk.Columns {
		all = append(all, alias+"."+schema.QuoteName(fk.Columns[i])+" = "+row+"."+schema.QuoteName(fk.ParentColumns[i]))
	}
	return strings.Join(all, " AND ")
}

// anyOf is true for rows that match by one of the keys.
func anyOf(keys []ForeignKey, match func(ForeignKey) string) string {
	var all []string
	for _, k := range keys {
		all = append(all, match(k))
	}
	if len(all) == 1 {
		return all[0]
	}
	return "(" + strings.Join(all, " OR ") + ")"
}

// childrenGo is for source rows that are about to vanish.
func (d *Design) childrenGo(where string) string {
	if d.grouped() {
		return d.markSelect(where, "tries = 0")
	}
	return d.deleteSelect(where)
}

// childrenChange is for source rows whose columns are about to change by some keys: value gives the new value of a key's
// column. A row may match by several keys.
func (d *Design) childrenChange(keys []ForeignKey, match func(ForeignKey) string, value func(k ForeignKey, i int) string) string {
	after := func(r Ref) string {
		name := d.tableRef(r)
		if r.Alias != "" {
			return name
		}
		for _, k := range keys {
			switch i := slices.Index(k.Columns, r.Column); {
			case i < 0:
			case len(keys) == 1:
				name = value(k, i)
			default:
				name = fmt.Sprintf("IF(%s, %s, %s)", match(k), value(k, i), name)
			}
		}
		return name
	}
	where := anyOf(keys, match)
	if d.grouped() {
		marks := d.markSelect(where, "tries = 0")
		var id []string
		for _, g := range d.Spec.Group {
			id = append(id, after(Ref{Column: g}))
		}
		if moved := strings.Join(id, ", "); moved != identityColumns(d.identity()) {
			marks += fmt.Sprintf("\nINSERT INTO %s (%s)\nSELECT DISTINCT %s\n%s\nWHERE %s\nON DUPLICATE KEY UPDATE tries = 0;",
				d.MarkTable(), ids("id", len(id)), moved, d.from(d.tableRef), where)
		}
		return marks
	}
	text := d.upsertSelect(after, where)
	if d.key.render(after) != d.key.render(d.tableRef) || d.member(after) != d.member(d.tableRef) || len(d.Spec.Joins) > 0 && d.member(d.tableRef) != "" {
		text = d.deleteSelect(where) + "\n" + text
	}
	return text
}
