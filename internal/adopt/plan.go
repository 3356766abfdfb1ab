package adopt

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

// Options say what the plan is made for.
type Options struct {
	// Account is that of the cache on the server.
	Account Account
	// Address is where the cache reaches the server: the part of a DSN from the network on, "tcp(127.0.0.1:3306)/".
	Address string
	// Tables are patterns of more tables that are to be cached in full, for HandlerSocket clients.
	Tables []string
}

// Account is an account of the database.
type Account struct{ User, Host string }

// sql is the account as GRANT wants it.
func (a Account) sql() string { return quoteText(a.User) + "@" + quoteText(a.Host) }

func quoteText(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
}

// Plan is what becomes of a site.
type Plan struct {
	inv     *Inventory
	options Options
	set     mcserver.ContainerSet
	// settings are the keys of the configuration file beside the containers.
	settings []setting
	adopted  []adopted
	left     []Left
	notes    []Note
	tables   []string
	// optionsFit tells that the separator and the delimiter can stand in a file.
	optionsFit bool
	// memcached and handlerSocket tell which protocols clients of the site speak.
	memcached, handlerSocket bool
}

// setting is one key of the configuration file. The value is a scalar, or several.
type setting struct {
	key     string
	values  []string
	comment string
}

// adopted is a container of the plan.
type adopted struct {
	mcserver.Container
	// from is its name in the plugin's table.
	from string
	// def is nil where it is not known. exam is that of the container of the file, and means nothing without def.
	def  *schema.Table
	exam mcserver.Examination
}

// Left is a container that is not in the configuration.
type Left struct {
	Name, Reason string
	// Broken tells that the plugin could not use it either.
	Broken bool
}

// notUTF8 is the reason of containers that stay in the plugin's table.
const notUTF8 = "its row is not UTF-8, as a configuration file has to be: leave it in innodb_memcache.containers, where it is found when the account may read that"

// Kind says what a note is about.
type Kind string

// The kinds of notes.
const (
	// Must is something to be done before clients move.
	Must Kind = "must"
	// Differs is another behaviour than the plugin's.
	Differs Kind = "differs"
	// Strict is one that --memcached-compat strict takes back.
	Strict Kind = "strict"
)

// Note is one thing that is otherwise than with the plugin.
type Note struct {
	// Container is empty for what holds for all.
	Container string
	Kind      Kind
	Text      string
}

// nothingError says that there is no trace of either plugin.
type nothingError struct{ from string }

func (e nothingError) Error() string {
	return e.from + ": nothing to adopt: no rows in innodb_memcache.containers that this account may read, and no variables of the InnoDB memcached plugin or of HandlerSocket"
}

// NewPlan decides what becomes of each part of the inventory. The error says that there is none.
func NewPlan(inv *Inventory, o Options) (*Plan, error) {
	p := &Plan{inv: inv, options: o, set: inv.Tables.Set()}
	p.memcached = inv.HasTables || inv.Variables.has("daemon_memcached_")
	p.handlerSocket = inv.Variables.has("handlersocket_")
	if len(inv.Tables.Containers) == 0 && !inv.Variables.has("daemon_memcached_") && !p.handlerSocket {
		return nil, nothingError{inv.From}
	}
	if p.memcached {
		p.planContainers()
		p.planMemcached()
	}
	p.planTables()
	p.planListeners()
	return p, nil
}

// Left are the containers that are not in the configuration.
func (p *Plan) Left() []Left { return p.left }

// Notes are what will be otherwise, for all containers first.
func (p *Plan) Notes() []Note { return p.notes }

// Tables are the patterns of tables that are cached in full.
func (p *Plan) Tables() []string { return p.tables }

func (p *Plan) note(kind Kind, format string, args ...any) {
	p.notes = append(p.notes, Note{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (p *Plan) add(key, comment string, values ...string) {
	p.settings = append(p.settings, setting{key: key, values: values, comment: comment})
}

// planContainers makes the containers of the file.
func (p *Plan) planContainers() {
	for _, problem := range p.set.Problems {
		if problem.Container == "" {
			p.note(Must, "the plugin did not use any container: %s", strings.TrimPrefix(problem.Reason, "no container is used: "))
			continue
		}
		p.left = append(p.left, Left{Name: problem.Container, Reason: problem.Reason, Broken: true})
	}
	options := mcserver.Settings{Options: &p.set.Options}
	switch err := options.Validate(); {
	case err != nil:
		p.note(Must, "%s, so the options are not in the file: leave them in innodb_memcache.config_options, and let the account read that", comment(err.Error()))
	case !utf8.ValidString(p.set.Options.Separator + p.set.Options.TableMapDelimiter):
		p.note(Must, "separator or table_map_delimiter is not UTF-8, as a file has to be: leave them in innodb_memcache.config_options, and let the account read that")
	default:
		p.optionsFit = true
	}
	names := make(map[string]bool)
	for i := range p.set.Containers {
		names[p.set.Containers[i].Name] = true
	}
	for i := range p.set.Containers {
		c := &p.set.Containers[i]
		a, reason, broken := p.adopt(c, names)
		if reason != "" {
			p.left = append(p.left, Left{Name: c.Name, Reason: reason, Broken: broken})
			continue
		}
		p.adopted = append(p.adopted, a)
	}
}

// adopt makes a container of the file out of a plugin's. names are those that are taken.
func (p *Plan) adopt(c *mcserver.Container, names map[string]bool) (a adopted, reason string, broken bool) {
	a = adopted{from: c.Name, Container: mcserver.Container{
		Name: c.Name, Schema: c.Schema, Table: c.Table, KeyColumns: c.KeyColumns, ValueColumns: c.ValueColumns,
		FlagsColumn: c.FlagsColumn, CASColumn: c.CASColumn, ExpiryColumn: c.ExpiryColumn, UniqueIndex: c.UniqueIndex,
	}}
	known := false
	if a.def, known = p.inv.Definitions[schema.Name{Schema: c.Schema, Table: c.Table}]; known {
		if a.def == nil {
			return a, fmt.Sprintf("there is no base table %s.%s that this account may see", c.Schema, c.Table), false
		}
		if e := c.Examine(a.def); e.Problem != nil {
			return a, e.Problem.Error(), true
		}
	}
	for _, m := range []struct {
		row  string
		name *string
	}{{"flags", &a.FlagsColumn}, {"cas_column", &a.CASColumn}, {"expire_time_column", &a.ExpiryColumn}} {
		p.metaColumn(&a, m.row, m.name)
	}
	texts := append([]string{c.Name, c.Schema, c.Table, a.FlagsColumn, a.CASColumn, a.ExpiryColumn, c.UniqueIndex}, append(c.KeyColumns, c.ValueColumns...)...)
	if !utf8.ValidString(strings.Join(texts, " ")) {
		return a, notUTF8, false
	}
	if renamed := writable(c.Name, p.set.Options.TableMapDelimiter); renamed != c.Name {
		for names[renamed] {
			renamed += "_"
		}
		names[renamed] = true
		a.Name = renamed
		p.notes = append(p.notes, Note{Container: a.Name, Kind: Differs, Text: fmt.Sprintf("it was called %q, which cannot stand behind @@ in a key: as with the plugin it is there for clients only where it is the default", c.Name)})
	}
	alone := mcserver.Settings{Containers: []mcserver.Container{a.Container}}
	if p.optionsFit {
		alone.Options = &p.set.Options
	}
	if err := alone.Validate(); err != nil {
		text := err.Error()
		if _, after, ok := strings.Cut(text, fmt.Sprintf("container %q: ", a.Name)); ok {
			text = after
		}
		return a, text, false
	}
	if a.def != nil {
		if a.exam = a.Examine(a.def); a.exam.Problem != nil {
			return a, a.exam.Problem.Error(), false
		}
	}
	p.noteContainer(&a)
	return a, "", false
}

// metaColumn settles one of the columns that a container may do without. The plugin takes any text that names no column
// for "not used"; a file has to leave the key out.
func (p *Plan) metaColumn(a *adopted, row string, name *string) {
	given := *name
	if given == "" || given == "0" {
		*name = ""
		return
	}
	if a.def == nil || a.def.ColumnIndex(given) >= 0 {
		return
	}
	*name = ""
	text := fmt.Sprintf("%s is %q, which is no column of %s: the plugin used none, and so does the file", row, given, a.def.FullName())
	for i := range a.def.Columns {
		if other := a.def.Columns[i].Name; strings.EqualFold(other, given) {
			text += fmt.Sprintf(". If %q was meant, set it in the file, and see what follows from it", other)
		}
	}
	p.notes = append(p.notes, Note{Container: a.Name, Kind: Differs, Text: text})
}

// writable is the name with an underscore for each byte that can't stand behind @@.
func writable(name, delimiter string) string {
	b := []byte(name)
	for i, c := range b {
		if c <= ' ' || c == 0x7f || strings.IndexByte(delimiter, c) >= 0 {
			b[i] = '_'
		}
	}
	return string(b)
}

// planTables says what is kept in full.
func (p *Plan) planTables() {
	seen := make(map[schema.Name]bool)
	var size int64
	for i := range p.adopted {
		a := &p.adopted[i]
		n := schema.Name{Schema: a.Schema, Table: a.Table}
		if seen[n] || !p.reads() {
			continue
		}
		seen[n] = true
		if a.def != nil {
			if a.def.Refusal != "" {
				continue // the database answers; told with the container
			}
			n = schema.Name{Schema: a.def.Schema, Table: a.def.Name}
		}
		pattern := patternOf(n)
		if strings.Contains(pattern, ",") {
			continue // such a name can't stand in a list; the table is kept hot
		}
		if !slices.Contains(p.tables, pattern) {
			p.tables = append(p.tables, pattern)
			size += p.inv.Bytes[schema.Name{Schema: a.Schema, Table: a.Table}]
		}
	}
	for _, t := range p.options.Tables {
		if !slices.Contains(p.tables, t) {
			p.tables = append(p.tables, t)
		}
	}
	if len(p.tables) > 0 {
		p.add("tables", "Kept in memory, whole. Of tables that are not listed, rows that were asked for are kept.", p.tables...)
	}
	p.planMemory(size)
}

// reads tells that reads through containers look at tables.
func (p *Plan) reads() bool {
	get := p.set.Policies.Get
	return get == mcserver.PolicyInnoDBOnly || get == mcserver.PolicyCaching
}

// patternOf is a pattern that matches one table.
func patternOf(n schema.Name) string { return patternName(n.Schema) + "." + patternName(n.Table) }

func patternName(name string) string {
	for _, r := range name {
		if r != '_' && r != '$' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r < 0x80 {
			return schema.QuoteName(name)
		}
	}
	return name
}

const (
	defaultMemory     = 1 << 30
	defaultItemMemory = 64 << 20
	minItemMemory     = 1 << 20
	defaultItemSize   = 1 << 20
	maxItemSize       = 128 << 20
	minItemSize       = 1 << 10
)

// planMemory sizes the memory: the servers' figure for the tables, doubled for indexes and what changes leave behind, and
// the plugin's own memory where items are used.
func (p *Plan) planMemory(size int64) {
	items := int64(0)
	if o := parseDaemonOptions(p.inv.Variables["daemon_memcached_option"]); p.memcached && p.itemsUsed() {
		items = defaultItemMemory
		if o.memory > 0 {
			items = max(o.memory, minItemMemory)
		}
	}
	need := size*2 + items + items/8
	memory := int64(defaultMemory)
	for memory < need {
		memory += defaultMemory
	}
	comment := "For everything cached."
	if size > 0 {
		comment += fmt.Sprintf(" The tables take about %d MiB on the server.", max(size>>20, 1))
	} else {
		comment += " How large the tables are is not known here: it should be twice what they take on the server."
	}
	p.add("memory", comment, fmt.Sprintf("%dGiB", memory>>30))
	if items > 0 && items != defaultItemMemory {
		p.add("memcached-memory", "The plugin's -m, for items that are in no table.", fmt.Sprintf("%dMiB", items>>20))
	}
}

// itemsUsed tells that some operation works on items that are in no table.
func (p *Plan) itemsUsed() bool {
	o := p.set.Policies
	return len(p.adopted) == 0 || slices.Contains([]mcserver.Policy{o.Get, o.Set, o.Delete, o.Flush}, mcserver.PolicyCacheOnly)
}

// planListeners says where clients are served.
func (p *Plan) planListeners() {
	vars := p.inv.Variables
	if p.handlerSocket {
		read, guess := vars.handlerSocketAddress("handlersocket_port", "9998")
		write, _ := vars.handlerSocketAddress("handlersocket_port_wr", "9999")
		comment := ""
		if guess {
			comment = "HandlerSocket listened on every address; \":9998\" does so here."
		}
		p.add("handlersocket-read", comment, read)
		p.add("handlersocket-write", "", write)
		for _, s := range []struct{ variable, key string }{
			{"handlersocket_plain_secret", "handlersocket-secret"}, {"handlersocket_plain_secret_wr", "handlersocket-secret-write"},
		} {
			if v := vars[s.variable]; v != "" {
				p.add(s.key, "A secret: keep others from reading this file.", v)
			}
		}
		p.noteHandlerSocket()
	} else {
		p.add("handlersocket-read", "No HandlerSocket clients were found.", "off")
		p.add("handlersocket-write", "", "off")
	}
	if !p.memcached {
		p.add("memcached", "No memcached clients were found.", "off")
	}
}
