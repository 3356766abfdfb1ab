package triggers

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// SessionSettings are the statements that a session runs before it creates anything. Modes and character set are frozen
// into triggers, procedures and events.
func SessionSettings() []string {
	return []string{
		"SET NAMES utf8mb4 COLLATE utf8mb4_bin",
		"SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		// CREATE TRIGGER waits for open transactions on its table, and everybody else waits behind it: give up soon.
		"SET SESSION lock_wait_timeout = 5",
	}
}

// Statements are all statements that install the design, without delimiters, in their order. Run twice they do no harm.
func (d *Design) Statements() []string {
	all := SessionSettings()
	for i := range d.Objects {
		o := &d.Objects[i]
		if o.Kind != KindSchema && o.Kind != KindTable {
			all = append(all, o.Drop())
		}
		all = append(all, o.Create)
	}
	return append(all, d.afterwards()...)
}

// afterwards fills the table when everything is there.
func (d *Design) afterwards() []string {
	var all []string
	if p := d.FillProcedure(); p != "" {
		// Anew, because rows may have changed while there was no trigger, or another one.
		all = append(all, "DELETE FROM "+d.FillTable(), "CALL "+p+"(500, NULL)")
	}
	switch p := d.RefreshProcedure(); {
	case d.Spec.Query != "":
		all = append(all, "CALL "+p+"()")
	case p != "":
		all = append(all, "CALL "+p+"(NULL)")
	}
	return all
}

// UninstallStatements remove everything: events first, so that nothing works on what is being removed; the cache table only
// when data is true. Run twice they do no harm.
func (d *Design) UninstallStatements(data bool) []string {
	all := []string{"SET SESSION lock_wait_timeout = 5"}
	for _, kind := range []Kind{KindEvent, KindTrigger, KindProcedure, KindTable} {
		for i := range d.Objects {
			if o := &d.Objects[i]; o.Kind == kind && (data || !o.Data) {
				all = append(all, o.Drop())
			}
		}
	}
	return all
}

// PromoteStatements make the events of a replica work that has become the writable server: they arrive there switched off.
func (d *Design) PromoteStatements() []string {
	var all []string
	for i := range d.Objects {
		if o := &d.Objects[i]; o.Kind == KindEvent {
			all = append(all, "ALTER EVENT "+o.Quoted()+" ENABLE")
		}
	}
	return all
}

// Script is one file for the servers' command-line clients: everything that Statements has, with comments.
func (d *Design) Script() string {
	var b strings.Builder
	s := d.Spec
	if s.Query != "" {
		fmt.Fprintf(&b, "-- %s: an event computes %s every %s.\n", s.Name, s.Cache, s.Every)
	} else {
		fmt.Fprintf(&b, "-- %s: triggers on %s keep %s.\n", s.Name, s.Source, s.Cache)
	}
	fmt.Fprintf(&b, "-- Made by: binlogcache triggers generate --spec %s\n", oneLine(filepath.Base(s.Path)))
	b.WriteString("-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.\n")
	notes := d.Notes
	if s.Query == "" {
		notes = append(slices.Clone(notes), "Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.")
	}
	for _, o := range d.Objects {
		if o.Kind == KindEvent {
			notes = append(slices.Clone(notes), "Events need event_scheduler = ON (MariaDB: OFF by default). On a replica they are off; after a fail-over: ALTER EVENT ... ENABLE.")
			break
		}
	}
	for _, n := range notes {
		b.WriteString("-- " + oneLine(n) + "\n")
	}
	b.WriteString("\n")
	for _, st := range SessionSettings() {
		b.WriteString(st + ";\n")
	}
	title := map[Kind]string{
		KindTable: "What is read, and what the procedures remember.", KindProcedure: "Procedures that fill and refresh.", KindTrigger: "Triggers.", KindEvent: "Events.",
	}
	delimiter := d.delimiter()
	last := KindSchema
	for i := range d.Objects {
		o := &d.Objects[i]
		body := o.Kind != KindSchema && o.Kind != KindTable
		if o.Kind != last && title[o.Kind] != "" {
			fmt.Fprintf(&b, "\n-- %s\n", title[o.Kind])
		} else if body {
			b.WriteString("\n")
		}
		last = o.Kind
		if !body {
			b.WriteString(o.Create + ";\n")
			continue
		}
		fmt.Fprintf(&b, "%s;\nDELIMITER %[2]s\n%[3]s%[2]s\nDELIMITER ;\n", o.Drop(), delimiter, o.Create)
	}
	b.WriteString("\n-- What is there already.\n")
	for _, st := range d.afterwards() {
		b.WriteString(st + ";\n")
	}
	return b.String()
}

// delimiter is one that is in no statement.
func (d *Design) delimiter() string {
	for _, c := range []string{"//", "$$", "||", "%%"} {
		if !slices.ContainsFunc(d.Objects, func(o Object) bool { return strings.Contains(o.Create, c) }) {
			return c
		}
	}
	return "//END//"
}

// List puts statements into a file for the command-line client, for statements without blocks.
func List(statements []string) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(s + ";\n")
	}
	return b.String()
}
