package canal

import (
	"strings"
	"unicode/utf8"

	"github.com/binlogcache/binlogcache/schema"
)

// effect is what a statement in the log can do to followed tables.
type effect uint8

const (
	effectNone   effect = iota // proven harmless
	effectGrants               // harmless, but tables may have become visible
	effectBegin
	effectCommit
	effectRollback
	effectSavepoint
	effectRollbackTo
	effectXAStart
	effectXAEnd
	effectXACommit
	effectXARollback
	// effectKeeps leaves the rows and columns of the tables that it names as they are; indexes, comments, defaults and the like
	// may be others.
	effectKeeps
	// effectCreate makes a table: of the tables that it names, those that are there already stay as they are.
	effectCreate
	// effectTables changes the tables that it names.
	effectTables
	// effectSchema removes a whole schema.
	effectSchema
	// effectAll can change any table: changes of rows as text (which reach other tables through views, triggers and
	// functions), and whatever is not known.
	effectAll
)

// statement is what classify makes of the text of a query event.
type statement struct {
	effect effect
	// name is that of the savepoint, the XA transaction or the schema.
	name string
	// words holds all words and names in the text, in lower case: the tables that it means are among them.
	words map[string]bool
	// targets are the tables that it changes; named says that they are known for certain, and words do not count.
	targets []target
	named   bool
	// indexes is set by effectKeeps where the set of indexes may be another.
	indexes bool
	// qualifiers are the names that stand before a dot: the schemas that it means are among them.
	qualifiers []string
	// made is the table of a CREATE TABLE that succeeds only when it was not there before, with schema where it is given.
	made, madeIn string
	// ddl is true where definitions may have changed.
	ddl bool
	// foreign is true where words are in a character set other than UTF-8, so that a name beyond ASCII may be missed.
	foreign bool
	// verb is the first words, for log lines.
	verb string
}

// mentions reports that the statement may mean a table of that name.
func (s *statement) mentions(table string) bool {
	return s.words[strings.ToLower(table)] || s.foreign && !isASCII(table)
}

// makes reports that the statement has made that very table; schemaName is its default schema.
func (s *statement) makes(name schema.Name, schemaName string) bool {
	if s.madeIn != "" {
		schemaName = s.madeIn
	}
	return strings.EqualFold(s.made, name.Table) && strings.EqualFold(schemaName, name.Schema)
}

// classify says what the text of a query event can do. It never panics, and what it can't read is effectAll.
func classify(query, status []byte) statement {
	mode := parseStatus(status)
	text := string(query)
	if mode.trailing && !isASCII(text) {
		return statement{effect: effectAll, ddl: true, verb: "text in a multi-byte character set"}
	}
	c := classifier{scanner: scanner{text: text, mode: mode, versioned: true}}
	st := c.statement()
	if c.found {
		// Which reading holds depends on the server's version: the worse one is taken.
		other := classifier{scanner: scanner{text: text, mode: mode}}
		st = worse(st, other.statement())
	}
	if !mode.utf8 && !isASCII(text) {
		st.inForeign()
	}
	return st
}

// inForeign adapts a statement to a client's character set that is not read here. A byte beyond ASCII may be a letter, and in
// some of them it is a blank: a name may begin or end at any such byte.
func (s *statement) inForeign() {
	s.foreign, s.named = true, false
	for word := range s.words {
		for _, part := range strings.FieldsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf }) {
			s.words[part] = true
		}
	}
	switch {
	case s.effect == effectSchema && !isASCII(s.name):
		s.effect = effectAll
	case s.effect == effectCreate:
		s.effect = effectTables
	}
}

func worse(a, b statement) statement {
	if a.effect == effectAll || b.effect == effectAll || control(a.effect) || control(b.effect) {
		return statement{effect: effectAll, ddl: true, verb: a.verb}
	}
	if b.effect > a.effect {
		a, b = b, a
	}
	// From here on a is the stronger one. It covers b where b is harmless or of the same kind.
	same := a.effect == b.effect && a.name == b.name || a.effect == effectTables && (b.effect == effectCreate || b.effect == effectKeeps)
	if !same && b.effect > effectGrants {
		return statement{effect: effectAll, ddl: true, verb: a.verb}
	}
	switch {
	case a.made == "":
		a.made, a.madeIn = b.made, b.madeIn
	case b.made != "" && (a.made != b.made || a.madeIn != b.madeIn):
		a.effect = effectTables
	}
	if b.effect > effectGrants {
		a.targets = append(a.targets, b.targets...)
		a.named = a.named && b.named
		a.indexes = a.indexes || b.indexes
	}
	for word := range b.words {
		a.words[word] = true
	}
	a.qualifiers = append(a.qualifiers, b.qualifiers...)
	a.ddl = a.ddl || b.ddl
	return a
}

// control reports statements that begin, end or cut transactions. The server writes them itself, without comments.
func control(e effect) bool { return e >= effectBegin && e <= effectXARollback }

type classifier struct {
	scanner
	verb   []string
	nested bool // behind SET STATEMENT ... FOR
	ignore bool // ALTER IGNORE, which may lose rows
}

func (c *classifier) advance() scanToken {
	t := c.next()
	if t.kind == tokenWord && len(c.verb) < 3 {
		c.verb = append(c.verb, strings.ToUpper(t.text))
	}
	return t
}

func (c *classifier) result(e effect) statement {
	return statement{effect: e, words: map[string]bool{}, verb: strings.Join(c.verb, " ")}
}

func (c *classifier) all() statement {
	st := c.result(effectAll)
	st.ddl = true
	return st
}

// data is a statement that changes rows.
func (c *classifier) data() statement { return c.result(effectAll) }

func (c *classifier) statement() statement {
	first := c.advance()
	switch first.kind {
	case tokenEnd:
		return c.result(effectNone) // nothing but comments, such as MariaDB's dummy events
	case tokenWord:
	default:
		return c.all()
	}
	switch strings.ToUpper(first.text) {
	case "BEGIN":
		return c.ending(effectBegin, "WORK")
	case "COMMIT":
		return c.ending(effectCommit, "WORK")
	case "START":
		if c.advance().is("TRANSACTION") {
			return c.ending(effectBegin)
		}
	case "ROLLBACK":
		return c.rollback()
	case "SAVEPOINT":
		return c.savepoint(effectSavepoint)
	case "RELEASE":
		if c.advance().is("SAVEPOINT") {
			return c.result(effectNone)
		}
	case "XA":
		return c.xa()
	case "CREATE", "ALTER", "DROP":
		return c.object(strings.ToUpper(first.text))
	case "RENAME":
		return c.rename()
	case "TRUNCATE":
		if ahead := c.scanner; ahead.next().is("TABLE") {
			c.advance()
		}
		return c.targets("TRUNCATE", effectTables)
	case "REPAIR":
		return c.tables(effectTables)
	case "ANALYZE", "OPTIMIZE", "CHECK":
		return c.maintenance()
	case "GRANT", "REVOKE":
		return c.result(effectGrants)
	case "FLUSH", "INSTALL", "UNINSTALL", "LOCK", "UNLOCK", "CACHE":
		return c.result(effectNone)
	case "SET":
		return c.set()
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "SELECT", "WITH", "VALUES", "IMPORT":
		return c.data()
	}
	return c.all()
}

// ending is e when nothing but one of the optional words follows.
func (c *classifier) ending(e effect, optional ...string) statement {
	t := c.advance()
	for _, word := range optional {
		if t.is(word) {
			t = c.advance()
		}
	}
	if t.kind != tokenEnd {
		return c.all()
	}
	return c.result(e)
}

func (c *classifier) rollback() statement {
	t := c.advance()
	if t.is("WORK") {
		t = c.advance()
	}
	if t.kind == tokenEnd {
		return c.result(effectRollback)
	}
	if !t.is("TO") {
		return c.all()
	}
	return c.savepoint(effectRollbackTo)
}

// savepoint reads a name, after the word SAVEPOINT if it stands there and is not itself the name.
func (c *classifier) savepoint(e effect) statement {
	t := c.advance()
	next := c.advance()
	if e == effectRollbackTo && t.is("SAVEPOINT") && next.kind != tokenEnd {
		t, next = next, c.advance()
	}
	if !t.name() || next.kind != tokenEnd {
		return c.all()
	}
	st := c.result(e)
	st.name = lowerASCII(t.text)
	return st
}

// lowerASCII leaves other letters alone: which of them a server takes for equal is not the same as elsewhere.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

func (c *classifier) xa() statement {
	var e effect
	switch t := c.advance(); {
	case t.is("START"), t.is("BEGIN"):
		e = effectXAStart
	case t.is("END"):
		e = effectXAEnd
	case t.is("COMMIT"):
		e = effectXACommit
	case t.is("ROLLBACK"):
		e = effectXARollback
	default:
		return c.all()
	}
	st := c.result(e)
	// The servers write X'67',X'',1.
	name := strings.ToLower(strings.TrimSpace(c.text[c.at:]))
	st.name = strings.TrimSpace(strings.TrimSuffix(name, "one phase"))
	return st
}

// object classifies CREATE, ALTER and DROP by the kind of thing that they are about.
func (c *classifier) object(verb string) statement {
	temporary, replace := false, false
	for {
		t := c.advance()
		if t.kind != tokenWord {
			return c.all()
		}
		switch strings.ToUpper(t.text) {
		case "OR":
			if !c.advance().is("REPLACE") {
				return c.all()
			}
			replace = true
		case "TEMPORARY":
			temporary = true
		case "IGNORE":
			c.ignore = true
		case "UNIQUE", "FULLTEXT", "VECTOR", "ONLINE", "OFFLINE", "AGGREGATE", "UNDO":
		case "SPATIAL":
			if t := c.advance(); t.is("REFERENCE") {
				return c.result(effectNone)
			} else if !t.is("INDEX") && !t.is("KEY") {
				return c.all()
			}
			return c.index(verb)
		case "DEFINER":
			if !c.user() {
				return c.all()
			}
		case "ALGORITHM":
			if !c.advance().isMark("=") || c.advance().kind != tokenWord {
				return c.all()
			}
		case "SQL":
			if !c.advance().is("SECURITY") || c.advance().kind != tokenWord {
				return c.all()
			}
		case "TABLE", "TABLES":
			return c.table(verb, temporary, replace)
		case "INDEX":
			return c.index(verb)
		case "SEQUENCE":
			return c.tables(effectTables)
		case "DATABASE", "SCHEMA":
			return c.schema(verb)
		case "USER", "ROLE":
			return c.result(effectGrants)
		case "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "PACKAGE", "LIBRARY", "SERVER", "TABLESPACE", "LOGFILE",
			"RESOURCE", "INSTANCE":
			return c.result(effectNone)
		default:
			return c.all()
		}
	}
}

// user passes over "= name@host" after DEFINER.
func (c *classifier) user() bool {
	if !c.advance().isMark("=") {
		return false
	}
	if t := c.advance(); !t.name() && t.kind != tokenString {
		return false
	}
	saved := c.scanner
	if t := c.next(); t.isMark("@") {
		t = c.next()
		return t.name() || t.kind == tokenString
	} else if t.isMark("(") {
		return c.next().isMark(")")
	}
	c.scanner = saved
	return true
}

func (c *classifier) table(verb string, temporary, replace bool) statement {
	e := effectTables
	made, madeIn := "", ""
	if verb == "CREATE" && !replace {
		e = effectCreate
		made, madeIn = c.target()
	}
	specs := c.scanner
	st := c.targets(verb, e)
	st.made, st.madeIn = made, madeIn
	switch {
	case st.effect == effectAll:
	case verb == "ALTER" && st.named && !c.ignore:
		d := newDDL(specs)
		d.accept("IF", "EXISTS")
		d.table()
		d.wait()
		if d.keeps() {
			st.effect, st.indexes = effectKeeps, d.indexes
		}
	case verb == "CREATE" && (st.words["select"] || st.words["with"]):
		// A query may call functions that change rows. In ROW format the server writes CREATE TABLE without it.
		st.effect = effectAll
	case temporary:
		// It can't be seen by others, whatever its name hides.
		return c.result(effectNone)
	}
	return st
}

// target looks ahead for the name of the table that a CREATE TABLE makes; none with IF NOT EXISTS.
func (c *classifier) target() (table, schemaName string) {
	ahead := c.scanner
	t := ahead.next()
	if !t.name() || t.is("IF") {
		return "", ""
	}
	if !ahead.next().isMark(".") {
		return t.text, ""
	}
	if table := ahead.next(); table.name() {
		return table.text, t.text
	}
	return "", ""
}

// targets collects the names in the rest of the text, and reads those of the tables that are changed: verb is as for
// ddl.targets.
func (c *classifier) targets(verb string, e effect) statement {
	d := newDDL(c.scanner)
	st := c.tables(e)
	if st.effect != effectAll {
		st.targets, st.named = d.targets(verb)
	}
	return st
}

// index is CREATE INDEX or DROP INDEX.
func (c *classifier) index(verb string) statement {
	d := newDDL(c.scanner)
	st := c.tables(effectTables)
	if st.effect == effectAll {
		return st
	}
	t, keeps, ok := d.ofIndex(verb)
	st.targets, st.named = []target{t}, ok
	if ok && keeps && !c.ignore {
		st.effect, st.indexes = effectKeeps, true
	}
	return st
}

// tables collects the names in the rest of the text.
func (c *classifier) tables(e effect) statement {
	st := c.result(e)
	st.ddl = true
	var before scanToken
	for {
		t := c.advance()
		switch {
		case t.kind == tokenEnd:
			st.verb = strings.Join(c.verb, " ")
			return st
		case t.kind == tokenBad:
			return c.all()
		case t.isMark(".") && before.name():
			st.qualifiers = append(st.qualifiers, before.text)
		case t.name():
			st.words[strings.ToLower(t.text)] = true
			if strings.HasPrefix(strings.ToLower(t.text), filePrefix) {
				return c.all()
			}
		}
		before = t
	}
}

func (c *classifier) schema(verb string) statement {
	if verb != "DROP" {
		st := c.tables(effectNone)
		if st.words["upgrade"] {
			return c.all() // ALTER DATABASE ... UPGRADE DATA DIRECTORY NAME renames a schema
		}
		st.ddl = false
		return st
	}
	t := c.advance()
	if t.is("IF") {
		if !c.advance().is("EXISTS") {
			return c.all()
		}
		t = c.advance()
	}
	if !t.name() || c.advance().kind != tokenEnd {
		return c.all()
	}
	st := c.result(effectSchema)
	st.name = t.text
	st.ddl = true
	return st
}

func (c *classifier) rename() statement {
	switch t := c.advance(); {
	case t.is("TABLE"), t.is("TABLES"):
		return c.targets("RENAME", effectTables)
	case t.is("USER"):
		return c.result(effectGrants)
	}
	return c.all()
}

// maintenance are statements that leave rows as they are: ANALYZE TABLE and the like, but not MariaDB's ANALYZE UPDATE,
// which runs the statement that it explains.
func (c *classifier) maintenance() statement {
	t := c.advance()
	if t.is("NO_WRITE_TO_BINLOG") || t.is("LOCAL") {
		t = c.advance()
	}
	if !t.is("TABLE") && !t.is("TABLES") {
		return c.all()
	}
	if !strings.EqualFold(c.verb[0], "OPTIMIZE") {
		return c.result(effectNone)
	}
	// A server that copies the table computes its generated columns again.
	return c.targets("DROP", effectKeeps)
}

func (c *classifier) set() statement {
	switch t := c.advance(); {
	case t.is("PASSWORD"), t.is("ROLE"), t.is("DEFAULT"):
		return c.result(effectGrants)
	case t.is("STATEMENT"):
		// MariaDB: SET STATEMENT variable=value FOR statement.
		for depth := 0; ; {
			switch t := c.advance(); {
			case t.kind == tokenEnd, t.kind == tokenBad:
				return c.all()
			case t.isMark("("):
				depth++
			case t.isMark(")"):
				depth--
			case depth == 0 && t.is("FOR"):
				c.verb = nil
				if c.nested {
					return c.all()
				}
				c.nested = true
				return c.statement()
			}
		}
	}
	return c.all()
}
