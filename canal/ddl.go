package canal

import (
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// target is a table that a statement names, as it is written there; without a schema it is of the statement's default one.
type target struct{ schema, table string }

// sameName reports that a server may take two names for one. Some compare them without regard to case.
func sameName(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	// Folding keeps some letters apart whose small forms are the same, such as the dotted I.
	x, y := strings.ToLower(a), strings.ToLower(b)
	return x == y
}

// touches reports that the statement may mean the table. schemaName is the statement's default schema.
func (s *statement) touches(name schema.Name, schemaName string) bool {
	if !s.named {
		return s.mentions(name.Table)
	}
	for _, t := range s.targets {
		in := t.schema
		if in == "" {
			in = schemaName
		}
		if sameName(t.table, name.Table) && (in == "" || sameName(in, name.Schema)) {
			return true
		}
	}
	return false
}

// filePrefix begins names that stand for the file of a table, in the file system's spelling: any table may be meant.
const filePrefix = "#mysql50#"

// ddl reads the part of a statement that follows what it is about ("ALTER TABLE"), token by token.
type ddl struct {
	scanner
	tok scanToken
	// bad is set by what could not be read.
	bad bool
	// indexes is set by a specification that changes the set of indexes.
	indexes bool
}

func newDDL(s scanner) *ddl {
	d := &ddl{scanner: s}
	d.take()
	return d
}

// take moves to the next token.
func (d *ddl) take() { d.tok = d.next() }

// accept takes the given words if they stand here, all of them.
func (d *ddl) accept(words ...string) bool {
	saved := *d
	for _, w := range words {
		if !d.tok.is(w) {
			*d = saved
			return false
		}
		d.take()
	}
	return true
}

// any takes one of the words if it stands here.
func (d *ddl) any(words ...string) bool {
	for _, w := range words {
		if d.accept(w) {
			return true
		}
	}
	return false
}

func (d *ddl) mark(mark string) bool {
	if !d.tok.isMark(mark) {
		return false
	}
	d.take()
	return true
}

func (d *ddl) end() bool { return d.tok.kind == tokenEnd }

func (d *ddl) name() string {
	if !d.tok.name() {
		d.bad = true
		return ""
	}
	name := d.tok.text
	d.take()
	return name
}

// table reads a name that may have a schema before it.
func (d *ddl) table() target {
	t := target{table: d.name()}
	if d.mark(".") {
		t.schema, t.table = t.table, d.name()
	}
	return t
}

// wait passes over MariaDB's WAIT n and NOWAIT.
func (d *ddl) wait() {
	if d.accept("WAIT") {
		d.name() // digits are a word
	} else {
		d.accept("NOWAIT")
	}
}

// targets reads the tables that a statement changes: verb is CREATE, ALTER, DROP, TRUNCATE or RENAME, and the text behind
// "verb TABLE" follows. ok is false where they can't be told.
func (d *ddl) targets(verb string) (targets []target, ok bool) {
	switch verb {
	case "CREATE":
		d.accept("IF", "NOT", "EXISTS")
		return []target{d.table()}, !d.bad
	case "DROP":
		d.accept("IF", "EXISTS")
		targets = append(targets, d.table())
		for d.mark(",") {
			targets = append(targets, d.table())
		}
		d.any("RESTRICT", "CASCADE")
		d.wait()
		return targets, d.end() && !d.bad
	case "TRUNCATE":
		targets = append(targets, d.table())
		d.wait()
		return targets, d.end() && !d.bad
	case "RENAME":
		d.accept("IF", "EXISTS")
		for {
			from := d.table()
			d.wait()
			if !d.accept("TO") {
				return nil, false
			}
			targets = append(targets, from)
			targets = d.other(targets, from)
			if !d.mark(",") {
				return targets, d.end() && !d.bad
			}
		}
	case "ALTER":
		d.accept("IF", "EXISTS")
		t := d.table()
		d.wait()
		return d.others(t)
	}
	return nil, false
}

// other adds the second table of a statement. Without a schema it is of the default one, or perhaps of the first table's.
func (d *ddl) other(targets []target, first target) []target {
	t := d.table()
	if t.schema == "" && first.schema != "" {
		targets = append(targets, target{first.schema, t.table})
	}
	return append(targets, t)
}

// others looks through the specifications of an ALTER TABLE of t for other tables that it changes; t is among the answer.
func (d *ddl) others(t target) (targets []target, ok bool) {
	targets = append(targets, t)
	for !d.end() && !d.bad {
		switch {
		case d.accept("RENAME"):
			if d.any("COLUMN", "INDEX", "KEY", "CONSTRAINT") {
				continue
			}
			if !d.any("TO", "AS") {
				d.mark("=")
			}
			targets = d.other(targets, t)
		case d.accept("EXCHANGE", "PARTITION"):
			d.name()
			if !d.accept("WITH", "TABLE") {
				return nil, false
			}
			targets = d.other(targets, t)
		case d.accept("CONVERT", "TABLE"):
			targets = d.other(targets, t)
		case d.accept("CONVERT", "PARTITION"):
			d.name()
			if !d.accept("TO", "TABLE") {
				return nil, false
			}
			targets = d.other(targets, t)
		default:
			d.bad = d.tok.kind == tokenBad
			d.take()
		}
	}
	return targets, !d.bad
}

// ofIndex reads the table of a CREATE INDEX or DROP INDEX, from behind the word INDEX. keeps says that the statement
// leaves rows and columns as they are.
func (d *ddl) ofIndex(verb string) (t target, keeps, ok bool) {
	d.indexes = true
	if verb == "CREATE" {
		d.accept("IF", "NOT", "EXISTS")
		d.name()
		d.using()
		if !d.accept("ON") {
			return t, false, false
		}
		t = d.table()
		keeps = d.parts() && d.indexOptions()
	} else {
		d.accept("IF", "EXISTS")
		keeps = !sameName(d.name(), primary)
		if !d.accept("ON") {
			return t, false, false
		}
		t = d.table()
	}
	for !d.end() && d.howOption() {
	}
	d.wait()
	return t, keeps && d.end() && !d.bad, !d.bad
}

const primary = "PRIMARY"

// keeps reports that all specifications of an ALTER TABLE leave rows and columns as they are: they are about secondary
// indexes, defaults of columns, or options that only people and the optimizer look at. Whatever is not known is not.
func (d *ddl) keeps() bool {
	for !d.bad {
		if !d.harmless() || d.bad {
			return false
		}
		if d.end() {
			return true
		}
		// Options of the table may stand side by side; for others the server wants the comma.
		d.mark(",")
	}
	return false
}

func (d *ddl) harmless() bool {
	switch {
	case d.accept("ADD"):
		d.indexes = true
		if d.accept("CONSTRAINT") && !d.tok.is("UNIQUE") {
			if d.name(); !d.tok.is("UNIQUE") {
				return false
			}
		}
		if d.any("UNIQUE", "FULLTEXT", "SPATIAL") {
			d.any("INDEX", "KEY")
		} else if !d.any("INDEX", "KEY") {
			return false
		}
		d.accept("IF", "NOT", "EXISTS")
		if !d.using() && !d.tok.isMark("(") {
			d.name()
			d.using()
		}
		return d.parts() && d.indexOptions()
	case d.accept("DROP"):
		d.indexes = true
		if !d.any("INDEX", "KEY") {
			return false
		}
		d.accept("IF", "EXISTS")
		return !sameName(d.name(), primary)
	case d.accept("RENAME"):
		d.indexes = true
		if !d.any("INDEX", "KEY") {
			return false
		}
		d.accept("IF", "EXISTS")
		d.name()
		if !d.accept("TO") {
			return false
		}
		d.name()
		return true
	case d.accept("ALTER"):
		if d.any("INDEX", "KEY") {
			d.indexes = true
			d.accept("IF", "EXISTS")
			d.name()
			d.accept("NOT")
			return d.any("VISIBLE", "INVISIBLE", "IGNORED")
		}
		d.accept("COLUMN")
		d.accept("IF", "EXISTS")
		d.name()
		return d.accept("DROP", "DEFAULT") || d.accept("SET", "DEFAULT") && d.value()
	case d.accept("COMMENT"):
		d.mark("=")
		return d.string()
	case d.any("AUTO_INCREMENT", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES"):
		d.mark("=")
		d.name() // digits are a word, and so is DEFAULT
		return true
	case d.any("ENABLE", "DISABLE"):
		return d.accept("KEYS")
	}
	return d.howOption()
}

// howOption reads ALGORITHM and LOCK.
func (d *ddl) howOption() bool {
	if !d.any("ALGORITHM", "LOCK") {
		return false
	}
	d.mark("=")
	d.name()
	return true
}

func (d *ddl) string() bool {
	if d.tok.kind != tokenString && d.tok.kind != tokenDouble {
		return false
	}
	d.take()
	return true
}

// using reads the type of an index.
func (d *ddl) using() bool {
	if !d.any("USING", "TYPE") {
		return false
	}
	d.name()
	return true
}

// parts reads the columns of an index. An expression is none of them: it makes a column that is not seen.
func (d *ddl) parts() bool {
	if !d.mark("(") {
		return false
	}
	for {
		if d.name(); d.bad {
			return false
		}
		if d.mark("(") {
			if d.name(); d.bad || !d.mark(")") {
				return false
			}
		}
		d.any("ASC", "DESC")
		switch {
		case d.mark(")"):
			return true
		case !d.mark(","):
			return false
		}
	}
}

func (d *ddl) indexOptions() bool {
	for {
		switch {
		case d.using(), d.any("VISIBLE", "INVISIBLE", "IGNORED"), d.accept("NOT", "IGNORED"):
		case d.accept("KEY_BLOCK_SIZE"):
			d.mark("=")
			d.name()
		case d.accept("WITH", "PARSER"):
			d.name()
		case d.accept("COMMENT"):
			d.mark("=")
			if !d.string() {
				return false
			}
		default:
			return !d.bad
		}
	}
}

// value reads the default of a column: a literal, with its sign or character set, a function, or an expression in
// parentheses. What follows must be a comma or the end.
func (d *ddl) value() bool {
	for d.mark("-") || d.mark("+") {
	}
	if d.tok.name() {
		d.take()
		if d.mark(".") { // 1.5
			d.name()
		}
	}
	d.string() // after its character set, or by itself
	if d.tok.isMark("(") {
		for depth := 1; depth > 0; {
			switch d.take(); {
			case d.tok.isMark("("):
				depth++
			case d.tok.isMark(")"):
				depth--
			case d.end(), d.tok.kind == tokenBad:
				return false
			}
		}
		d.take()
	}
	return d.end() || d.tok.isMark(",")
}
