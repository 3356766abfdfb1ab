package adopt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

// Password stands in the file and in the grants where the account's password has to be put.
const Password = "CHANGE-ME"

// Config is the configuration file for serve --config, with what there is to be known in comments: the rights, containers
// that are left out, and the notes.
func (p *Plan) Config() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by binlogcache adopt from %s.", comment(p.inv.From))
	line("# Then: binlogcache doctor --config FILE looks at the server, binlogcache serve --config FILE serves.")
	line("#")
	line("# The account, to be made on the server (binlogcache adopt --print grants prints this as a script):")
	for _, s := range p.Grants() {
		line("#   %s;", comment(s))
	}
	line("")
	line("# Put the account's password here, or leave the line out and set BINLOGCACHE_SOURCE.")
	line("source: %s", scalar(p.options.Account.User+":"+Password+"@"+p.options.Address))
	for _, s := range p.settings {
		line("")
		if s.comment != "" {
			line("# %s", s.comment)
		}
		if len(s.values) == 1 {
			line("%s: %s", s.key, scalar(s.values[0]))
			continue
		}
		line("%s:", s.key)
		for _, v := range s.values {
			line("  - %s", scalar(v))
		}
	}
	if len(p.adopted) > 0 {
		p.printContainers(line)
	}
	line("")
	for _, l := range strings.Split(strings.TrimSuffix(p.Report(), "\n"), "\n") {
		line("%s", strings.TrimRight("# "+l, " "))
	}
	return b.String()
}

func (p *Plan) printContainers(line func(string, ...any)) {
	o := p.set.Policies
	line("")
	line("policies:")
	line("  get: %s", o.Get)
	line("  set: %s", o.Set)
	line("  delete: %s", o.Delete)
	line("  flush: %s", o.Flush)
	if p.optionsFit {
		line("options:")
		line("  separator: %s", scalar(p.set.Options.Separator))
		line("  table_map_delimiter: %s", scalar(p.set.Options.TableMapDelimiter))
	}
	line("")
	line("# Keys without @@ ask the container %q. These take the place of rows of innodb_memcache.containers of the same name.", comment(p.defaultName()))
	line("containers:")
	for i := range p.adopted {
		c := &p.adopted[i]
		line("  - name: %s", scalar(c.Name))
		line("    schema: %s", scalar(c.Schema))
		line("    table: %s", scalar(c.Table))
		line("    key_columns: %s", scalar(c.KeyColumns[0]))
		var values []string
		for _, v := range c.ValueColumns {
			values = append(values, scalar(v))
		}
		line("    value_columns: [%s]", strings.Join(values, ", "))
		for _, x := range []struct{ key, column string }{
			{"flags_column", c.FlagsColumn}, {"cas_column", c.CASColumn}, {"expiry_column", c.ExpiryColumn}, {"unique_index", c.UniqueIndex},
		} {
			if x.column != "" {
				line("    %s: %s", x.key, scalar(x.column))
			}
		}
	}
}

// defaultName is the container that connections begin with.
func (p *Plan) defaultName() string {
	for i := range p.adopted {
		if p.adopted[i].Name == "default" {
			return "default"
		}
	}
	return p.adopted[0].Name
}

// Report tells what was left out and what will be otherwise, for people.
func (p *Plan) Report() string {
	var b strings.Builder
	for i, l := range p.left {
		if i == 0 {
			b.WriteString("Left out:\n")
		}
		fmt.Fprintf(&b, "  container %q: %s", l.Name, comment(l.Reason))
		if l.Broken {
			b.WriteString(" (the plugin could not use it either)")
		}
		b.WriteString("\n")
	}
	if len(p.left) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("What is otherwise than with the plugin. [must]: to be done or known first. [strict]: as the plugin did it\n" +
		"with memcached-compat: strict. [differs]: in both modes.\n")
	printNotes(&b, p.notes, "")
	for i := range p.adopted {
		c := &p.adopted[i]
		fmt.Fprintf(&b, "container %q, %s.%s:\n", c.Name, comment(c.Schema), comment(c.Table))
		if !printNotes(&b, p.notes, c.Name) {
			b.WriteString("  nothing\n")
		}
	}
	return b.String()
}

// printNotes prints those of one container, those that have to be known first at the top.
func printNotes(b *strings.Builder, notes []Note, container string) bool {
	some := false
	for _, kind := range []Kind{Must, Differs, Strict} {
		for _, n := range notes {
			if n.Container == container && n.Kind == kind {
				fmt.Fprintf(b, "  %-9s %s\n", "["+string(n.Kind)+"]", comment(n.Text))
				some = true
			}
		}
	}
	return some
}

// Grants is the SQL that makes the account and gives it what it needs, without semicolons.
func (p *Plan) Grants() []string {
	account := p.options.Account.sql()
	sql := []string{
		"CREATE USER " + account + " IDENTIFIED BY " + quoteText(Password),
		"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO " + account,
	}
	if p.memcached && len(p.inv.Tables.Containers) > 0 && (!p.optionsFit || p.keepsRows()) {
		sql = append(sql, "GRANT SELECT ON "+mcserver.ConfigSchema+".* TO "+account)
	}
	rights := "SELECT"
	if p.writes() {
		rights = "SELECT, INSERT, UPDATE, DELETE"
	}
	seen := make(map[string]bool)
	grant := func(rights, on string) {
		if !seen[on] {
			seen[on] = true
			sql = append(sql, "GRANT "+rights+" ON "+on+" TO "+account)
		}
	}
	for i := range p.adopted {
		c := &p.adopted[i]
		grant(rights, schema.QuoteName(c.Schema)+"."+schema.QuoteName(c.Table))
	}
	if p.handlerSocket {
		rights = "SELECT, INSERT, UPDATE, DELETE"
	}
	patterns, _ := schema.ParsePatterns(strings.Join(p.options.Tables, ","))
	for _, n := range patterns.Exact() {
		grant(rights, schema.QuoteName(n.Schema)+"."+schema.QuoteName(n.Table))
	}
	for _, t := range p.options.Tables {
		if name, ok := strings.CutSuffix(t, ".*"); ok && !strings.ContainsAny(name, "*?`") {
			grant(rights, schema.QuoteName(name)+".*")
		}
	}
	return sql
}

// keepsRows tells that a container stays in the plugin's own table.
func (p *Plan) keepsRows() bool {
	return slices.ContainsFunc(p.left, func(l Left) bool { return l.Reason == notUTF8 })
}

// comment is a text that stays on its line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\u2028' || r == '\u2029' || r == '\u0085' || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// plainScalar is what YAML reads as the same text without quotes, for every reader.
var plainScalar = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.$/-]*$`)

// scalar is a text as a YAML scalar. What is not UTF-8 does not come here but in values that were checked before.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "y", "n":
	default: // off is an address
		if plainScalar.MatchString(s) {
			return s
		}
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
