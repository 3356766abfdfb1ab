package triggers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/binlogcache/binlogcache/schema"
)

// Kind is the kind of an Object.
type Kind int

// The kinds, in the order in which they are made.
const (
	KindSchema Kind = iota
	KindTable
	KindProcedure
	KindTrigger
	KindEvent
)

// String is the kind as SQL spells it.
func (k Kind) String() string {
	return [...]string{"DATABASE", "TABLE", "PROCEDURE", "TRIGGER", "EVENT"}[k]
}

// Object is one thing in the database that belongs to a design.
type Object struct {
	Kind Kind
	// Name is where it is: a trigger is in its table's schema.
	Name schema.Name
	// On is the table that a trigger belongs to.
	On schema.Name
	// Create makes it. It ends without a semicolon.
	Create string
	// Mark tells the object's origin and version: it is the label of the body's block, or the comment of a table. Another
	// text with a mark of ours is an older version; a text without one is somebody else's.
	Mark string
	// Data is true for the cache table: it is what clients read, and goes only when that is asked for.
	Data bool
}

// Quoted is the object's full name, quoted.
func (o *Object) Quoted() string {
	if o.Kind == KindSchema {
		return schema.QuoteName(o.Name.Schema)
	}
	return quote(o.Name)
}

// Drop removes it, where it is there.
func (o *Object) Drop() string { return "DROP " + o.Kind.String() + " IF EXISTS " + o.Quoted() }

var (
	labelForm   = regexp.MustCompile(`^\s*bc1_[0-9a-f]{16}\s*:`)
	commentForm = regexp.MustCompile(`^binlogcache: `)
)

// Ours tells whether the text of a stored body, or a table's comment, is of this generator.
func (o *Object) Ours(text string) bool {
	if o.Kind == KindTable {
		return commentForm.MatchString(text)
	}
	return labelForm.MatchString(text)
}

// Current tells whether the stored body, or the table's comment, is the one that Create makes. Blanks and comments may
// differ: some command-line clients leave comments out.
func (o *Object) Current(text string) bool {
	if o.Kind == KindTable {
		return text == o.Mark
	}
	i := strings.Index(o.Create, o.Mark+":")
	return i >= 0 && squeeze(text) == squeeze(o.Create[i:])
}

var (
	lineComment = regexp.MustCompile(`(?m)^\s*-- .*$`)
	// noise is what may differ between a text and the server's copy of it: blanks, and how a character is escaped in a
	// string (information_schema shows some strings unescaped, and characters of four bytes as question marks).
	noise = regexp.MustCompile(`\\[nrt]|[\\'?\s]|[^\x{0}-\x{FFFF}]`)
)

func squeeze(s string) string { return noise.ReplaceAllString(lineComment.ReplaceAllString(s, ""), "") }

// ident cuts a name to the 64 characters that servers allow; a hash keeps cut names apart.
func ident(name string) string {
	if len([]rune(name)) <= 64 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return string([]rune(name)[:55]) + "_" + hex.EncodeToString(sum[:4])
}

const label = "bc1_label"

// mark puts the hash of a statement in the place of its label.
func mark(create string) (text, name string) {
	sum := sha256.Sum256([]byte(create))
	name = "bc1_" + hex.EncodeToString(sum[:8])
	return strings.ReplaceAll(create, label+":", name+":"), name
}

func (d *Design) definer() string {
	if d.Spec.Definer == "" {
		return ""
	}
	return "DEFINER = " + d.Spec.Definer + " "
}

func (d *Design) add(kind Kind, name, on schema.Name, create string) {
	text, m := mark(create)
	d.Objects = append(d.Objects, Object{Kind: kind, Name: name, On: on, Create: text, Mark: m})
}

func (d *Design) addTable(name, what string, data bool, definitions ...string) {
	n := schema.Name{Schema: d.Spec.Cache.Schema, Table: name}
	body := "CREATE TABLE IF NOT EXISTS " + quote(n) + " (\n  " + strings.Join(definitions, ",\n  ") + "\n) ENGINE = InnoDB"
	sum := sha256.Sum256([]byte(body))
	comment := fmt.Sprintf("binlogcache: %s of %s, %s", what, d.Spec.Name, hex.EncodeToString(sum[:8]))
	d.Objects = append(d.Objects, Object{Kind: KindTable, Name: n, Create: body + " COMMENT = " + literal(comment), Mark: comment, Data: data})
}

// trigger adds a trigger. body is its statements, without the block around them.
func (d *Design) trigger(on schema.Name, timing, event, about, body string) {
	short := strings.ToLower(timing[:1] + event[:1])
	name := ident("bc_" + d.Spec.Name + "_" + on.Table + "_" + short)
	for i := 2; d.names[on.Schema+"."+name]; i++ {
		name = ident(fmt.Sprintf("bc_%s_%s_%s%d", d.Spec.Name, on.Table, short, i))
	}
	d.names[on.Schema+"."+name] = true
	n := schema.Name{Schema: on.Schema, Table: name}
	about = oneLine(about) // it has names of foreign keys
	d.add(KindTrigger, n, on, fmt.Sprintf("CREATE %sTRIGGER %s %s %s ON %s FOR EACH ROW\n%s: BEGIN\n  -- %s\n  %s\nEND",
		d.definer(), quote(n), timing, event, quote(on), label, about, indent(1, body)))
}

func (d *Design) procedure(name, parameters, body string) {
	n := schema.Name{Schema: d.Spec.Cache.Schema, Table: ident(name)}
	d.add(KindProcedure, n, schema.Name{}, fmt.Sprintf("CREATE %sPROCEDURE %s(%s)\n%s: BEGIN\n  %s\nEND", d.definer(), quote(n), parameters, label, indent(1, body)))
}

func (d *Design) event(name string, every Interval, comment, body string) {
	n := schema.Name{Schema: d.Spec.Cache.Schema, Table: ident(name)}
	d.add(KindEvent, n, schema.Name{}, fmt.Sprintf("CREATE %sEVENT %s\nON SCHEDULE EVERY %s ON COMPLETION PRESERVE\nCOMMENT %s\nDO\n%s: BEGIN\n  %s\nEND",
		d.definer(), quote(n), every, literal(comment), label, indent(1, body)))
}

// FillProcedure is the procedure that copies what is there already, RefreshProcedure the one that computes what is due:
// the name, quoted; empty where the design has none.
func (d *Design) FillProcedure() string {
	if d.Spec.Query != "" {
		return ""
	}
	return d.beside(ident("bc_" + d.Spec.Name + "_fill"))
}

// RefreshProcedure: see FillProcedure.
func (d *Design) RefreshProcedure() string {
	if d.Spec.Query == "" && !d.marks() {
		return ""
	}
	return d.beside(ident("bc_" + d.Spec.Name + "_refresh"))
}

// FillTable remembers how far filling has come, MarkTable which rows or groups are to be computed: quoted names, empty
// where the design has none.
func (d *Design) FillTable() string {
	if d.Spec.Query != "" {
		return ""
	}
	return d.beside(ident(d.Spec.Cache.Table + "_fill"))
}

// MarkTable: see FillTable.
func (d *Design) MarkTable() string {
	if !d.marks() {
		return ""
	}
	return d.beside(ident(d.Spec.Cache.Table + "_due"))
}

// Container maps memcached keys to the cache table's rows, as innodb_memcache.containers and the configuration file of
// binlogcache describe it. Columns that the table does not have are empty.
type Container struct {
	Name                   string
	Table                  schema.Name
	ValueColumns           []string
	Flags, CAS, Expiration string
	// PluginTypes is false where the InnoDB memcached plugin could not read the value columns.
	PluginTypes bool
}

// Container returns the mapping of the cache table.
func (d *Design) Container() Container {
	c := Container{Name: d.Spec.Name, Table: d.Spec.Cache, PluginTypes: true}
	for _, col := range d.columns {
		switch col.name {
		case "flags":
			c.Flags = "flags"
		case "exp":
			c.Expiration = "exp"
		default:
			c.ValueColumns = append(c.ValueColumns, col.name)
			c.PluginTypes = c.PluginTypes && !strings.HasPrefix(col.definition, "DECIMAL")
		}
	}
	if d.Spec.CAS != "" {
		c.CAS = "cas"
	}
	return c
}

// lock names a lock that keeps a job from running twice at a time. Such names belong to the whole server.
func (d *Design) lock(job string) string { return literal(ident(d.Spec.Cache.String() + " " + job)) }

// RefreshLock is the name, as a literal, of the lock that RefreshProcedure takes; where somebody has it, that does nothing.
func (d *Design) RefreshLock() string { return d.lock("refresh") }

// make adds everything but the triggers for cascades.
func (d *Design) make() {
	d.Objects = append(d.Objects, Object{
		Kind: KindSchema, Name: schema.Name{Schema: d.Spec.Cache.Schema},
		Create: "CREATE DATABASE IF NOT EXISTS " + schema.QuoteName(d.Spec.Cache.Schema),
	})
	definitions := []string{"k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY"}
	for _, c := range d.columns {
		definitions = append(definitions, c.column()+" "+c.definition)
	}
	if d.Spec.CAS != "" {
		definitions = append(definitions, "cas BIGINT UNSIGNED NOT NULL DEFAULT 0")
	}
	if !d.Spec.Purge.IsZero() {
		definitions = append(definitions, "KEY exp (exp)")
	}
	d.addTable(d.Spec.Cache.Table, cacheComment, true, definitions...)
	switch {
	case d.Spec.Query != "":
		d.makeQuery()
		return
	case d.delta():
		d.makeDelta()
	case d.grouped():
		d.makeMarked()
	default:
		d.makeRows()
	}
	if !d.Spec.Purge.IsZero() {
		d.makePurge()
	}
}

// sort brings the objects into the order in which they are made. Of the triggers those that remove cache rows come first:
// a row that one of the others writes can go again.
func (d *Design) sort() {
	rank := func(o Object) int {
		r := 10 * int(o.Kind)
		if o.Kind == KindTrigger {
			for i, event := range []string{" DELETE ON ", " UPDATE ON ", " INSERT ON "} {
				if head, _, _ := strings.Cut(o.Create, "\n"); strings.Contains(head, event) {
					return r + i
				}
			}
		}
		return r
	}
	slices.SortStableFunc(d.Objects, func(a, b Object) int { return rank(a) - rank(b) })
}

func (d *Design) makePurge() {
	lock := d.lock("purge")
	d.event("bc_"+d.Spec.Name+"_purge", d.Spec.Purge, "binlogcache: deletes expired rows of "+d.Spec.Cache.String(), fmt.Sprintf(
		`-- Deletes what has expired. A run that is still at work makes the next one do nothing.
IF GET_LOCK(%[1]s, 0) THEN
  DELETE FROM %[2]s WHERE exp > 0 AND exp < UNIX_TIMESTAMP() ORDER BY exp LIMIT %[3]d;
  DO RELEASE_LOCK(%[1]s);
END IF;`, lock, d.cache(), d.Spec.PurgeRows))
}

func (d *Design) makeQuery() {
	fresh := d.beside(ident(d.Spec.Cache.Table + "_new"))
	lock := d.lock("refresh")
	columns, picked, updates := "k, v", "d.k, d.v", "v = d.v"
	if f := d.Spec.Flags; f != nil {
		columns, picked = columns+", flags", fmt.Sprintf("%s, %d", picked, *f)
		updates += fmt.Sprintf(", flags = %d", *f)
	}
	d.procedure("bc_"+d.Spec.Name+"_refresh", "", fmt.Sprintf(`-- Runs the query and puts what has changed into the cache table, in one transaction. The query reads without locks.
IF GET_LOCK(%[1]s, 0) THEN
  DROP TEMPORARY TABLE IF EXISTS %[2]s;
  CREATE TEMPORARY TABLE %[2]s (
    k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    v %[3]s
  ) ENGINE = InnoDB;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  INSERT INTO %[2]s (k, v)
  SELECT q.k, q.v FROM (
    %[4]s
  ) AS q;
  START TRANSACTION;
  DELETE c FROM %[5]s AS c LEFT JOIN %[2]s AS d ON d.k = c.k WHERE d.k IS NULL;
  INSERT INTO %[5]s (%[6]s)
  SELECT %[7]s FROM %[2]s AS d
  ON DUPLICATE KEY UPDATE %[8]s;
  COMMIT;
  DROP TEMPORARY TABLE %[2]s;
  DO RELEASE_LOCK(%[1]s);
END IF;`, lock, fresh, textColumn, indent(2, d.Spec.Query), d.cache(), columns, picked, updates))
	d.event("bc_"+d.Spec.Name+"_refresh", d.Spec.Every, "binlogcache: computes "+d.Spec.Cache.String(),
		"CALL "+d.RefreshProcedure()+"();")
}

// Mentions tells whether a stored body is about the spec's cache table, its helpers or its procedures.
func (s *Spec) Mentions(body string) bool {
	for _, table := range []string{s.Cache.Table, ident(s.Cache.Table + "_due"), ident(s.Cache.Table + "_fill"), ident("bc_" + s.Name + "_fill"), ident("bc_" + s.Name + "_refresh")} {
		if strings.Contains(body, quote(schema.Name{Schema: s.Cache.Schema, Table: table})) {
			return true
		}
	}
	return false
}

// Table tells whether a table of the cache table's schema with this comment belongs to the spec, and whether it is the cache
// table itself.
func (s *Spec) Table(name, comment string) (ours, data bool) {
	for what, table := range map[string]string{cacheComment: s.Cache.Table, fillComment: ident(s.Cache.Table + "_fill"), dueComment: ident(s.Cache.Table + "_due")} {
		if name == table && strings.HasPrefix(comment, fmt.Sprintf("binlogcache: %s of %s, ", what, s.Name)) {
			return true, what == cacheComment
		}
	}
	return false, false
}

// What tables are, in their comments.
const (
	cacheComment = "cache table"
	fillComment  = "position of filling"
	dueComment   = "marks"
)

// oneLine keeps a name from ending the comment that it stands in.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}
