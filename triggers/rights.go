package triggers

import (
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// RightsStatements use each right on the sources and on the tables of the design that its triggers, procedures and events
// need of their definer. They are for PREPARE, which checks rights and does nothing; the tables must be there.
func (d *Design) RightsStatements() []string {
	all := []string{"SELECT q.k FROM (\n" + d.DefinitionQuery() + "\n) AS q"}
	helper := func(table, column string) {
		all = append(all, fmt.Sprintf("INSERT INTO %s (%s) VALUES (1)", table, column),
			fmt.Sprintf("UPDATE %s SET %s = 1", table, column), fmt.Sprintf("DELETE FROM %s WHERE %s = 1", table, column))
	}
	helper(d.cache(), "k")
	switch {
	case d.Spec.Query != "":
		all = append(all, "CREATE TEMPORARY TABLE "+d.beside(ident(d.Spec.Cache.Table+"_new"))+" (k INT NOT NULL PRIMARY KEY)")
	case !d.grouped():
		all = append(all, strings.TrimSuffix(d.upsertSelect(d.tableRef, "FALSE"), ";")) // with shared locks
	}
	if t := d.FillTable(); t != "" {
		helper(t, "one")
	}
	if t := d.MarkTable(); t != "" {
		helper(t, "tries")
	}
	return all
}

// RightsProcedure is a procedure that prepares RightsStatements with the rights of the spec's definer. fire is for the time
// when the triggers are there: then it looks at them as well, which takes TRIGGER on their tables. It goes after its call.
func (d *Design) RightsProcedure(fire bool) Object {
	scratch := &Design{Spec: d.Spec}
	var body []string
	for _, st := range d.RightsStatements() {
		body = append(body, "PREPARE bc_rights FROM "+literal(st)+";", "DEALLOCATE PREPARE bc_rights;")
	}
	for _, o := range d.Objects {
		if fire && o.Kind == KindTrigger {
			body = append(body, "SHOW CREATE TRIGGER "+quote(o.Name)+";")
		}
	}
	scratch.procedure("bc_"+d.Spec.Name+"_rights", "", strings.Join(body, "\n"))
	return scratch.Objects[0]
}

// Candidates are the triggers that any version of the spec may have on the given tables, and its procedures and events, by
// name: what an account may not see has to be asked for.
func (s *Spec) Candidates(tables ...schema.Name) []Object {
	var all []Object
	for _, t := range tables {
		for _, short := range []string{"ai", "au", "ad", "bu", "bd"} {
			all = append(all, Object{Kind: KindTrigger, Name: schema.Name{Schema: t.Schema, Table: ident("bc_" + s.Name + "_" + t.Table + "_" + short)}, On: t})
		}
	}
	for _, job := range []string{"fill", "refresh"} {
		all = append(all, Object{Kind: KindProcedure, Name: schema.Name{Schema: s.Cache.Schema, Table: ident("bc_" + s.Name + "_" + job)}})
	}
	if !s.Every.IsZero() || !s.Purge.IsZero() {
		for _, job := range []string{"refresh", "purge", "recount"} {
			all = append(all, Object{Kind: KindEvent, Name: schema.Name{Schema: s.Cache.Schema, Table: ident("bc_" + s.Name + "_" + job)}})
		}
	}
	return all
}
