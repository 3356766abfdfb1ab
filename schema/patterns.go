package schema

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Name is the name of a table.
type Name struct{ Schema, Table string }

// String returns schema.table, unquoted.
func (n Name) String() string { return n.Schema + "." + n.Table }

// Patterns is a list of table names with wildcards. The zero value matches nothing.
type Patterns []Pattern

// Pattern matches tables by the names of schema and table.
type Pattern struct {
	schema, table []glob
	exact         Name
	isExact       bool
}

// glob is one rune of a pattern, or a wildcard.
type glob struct {
	r    rune
	kind globKind
}

type globKind uint8

const (
	globRune globKind = iota
	globOne           // ?
	globMany          // *
)

// systemSchemas are never meant by a wildcard.
var systemSchemas = map[string]bool{"mysql": true, "information_schema": true, "performance_schema": true, "sys": true}

// ParsePatterns reads a comma-separated list of schema.table. In each name * stands for any characters and ? for one.
// The first dot ends the schema's name; others belong to the table's. A name in backticks is taken as it is, with a
// backtick in it doubled: `odd.name`.`a,b`. Blanks around entries and empty entries do not count. An error says at which
// byte the text can't be read.
//
// A wildcard in the schema's name does not match the server's own schemas.
func ParsePatterns(text string) (Patterns, error) {
	var patterns Patterns
	for i := 0; ; {
		for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == ',') {
			i++
		}
		if i == len(text) {
			return patterns, nil
		}
		start := i
		schemaName, i1, err := parseGlob(text, i, ".,")
		if err != nil {
			return nil, err
		}
		if i1 == len(text) || text[i1] != '.' {
			return nil, fmt.Errorf("table pattern %q at byte %d: not of the form schema.table", strings.TrimSpace(text[start:i1]), start)
		}
		tableName, i2, err := parseGlob(text, i1+1, ",")
		if err != nil {
			return nil, err
		}
		p := Pattern{schema: schemaName, table: tableName}
		s, ok1 := plain(schemaName)
		t, ok2 := plain(tableName)
		if p.isExact = ok1 && ok2; p.isExact {
			p.exact = Name{s, t}
		}
		patterns = append(patterns, p)
		i = i2
	}
}

// parseGlob reads one name, up to one of the characters that end it or the end of the text.
func parseGlob(text string, i int, ends string) (globs []glob, next int, err error) {
	start := i
	if i < len(text) && text[i] == '`' {
		name, next, err := unquote(text, i)
		if err != nil {
			return nil, 0, fmt.Errorf("table pattern at byte %d: %w", start, err)
		}
		for _, r := range string(name) {
			globs = append(globs, glob{r: r})
		}
		i = next
		for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n') {
			i++
		}
		if i < len(text) && !strings.Contains(ends, text[i:i+1]) {
			return nil, 0, fmt.Errorf("table pattern at byte %d: unexpected %q at byte %d", start, text[i], i)
		}
	} else {
		end := len(text)
		if n := strings.IndexAny(text[i:], ends); n >= 0 {
			end = i + n
		}
		for _, r := range strings.TrimRight(text[i:end], " \t\n") {
			switch r {
			case '*':
				globs = append(globs, glob{kind: globMany})
			case '?':
				globs = append(globs, glob{kind: globOne})
			default:
				globs = append(globs, glob{r: r})
			}
		}
		i = end
	}
	if len(globs) == 0 {
		return nil, 0, fmt.Errorf("table pattern at byte %d: empty name", start)
	}
	return globs, i, nil
}

func plain(globs []glob) (string, bool) {
	var b strings.Builder
	for _, g := range globs {
		if g.kind != globRune {
			return "", false
		}
		b.WriteRune(g.r)
	}
	return b.String(), true
}

// match is the usual search with one point to go back to: linear for all sane patterns, quadratic at worst.
func match(globs []glob, name string) bool {
	back, backName := -1, ""
	i := 0
	for name != "" || i < len(globs) {
		if i < len(globs) {
			switch g := globs[i]; g.kind {
			case globMany:
				back, backName = i, name
				i++
				continue
			default:
				r, size := utf8.DecodeRuneInString(name)
				if name != "" && (g.kind == globOne || g.r == r) {
					name = name[size:]
					i++
					continue
				}
			}
		}
		if back < 0 || backName == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(backName)
		backName = backName[size:]
		i, name = back+1, backName
	}
	return true
}

// Match reports whether one of the patterns means that table. Letters are told apart by case.
func (p Patterns) Match(schemaName, tableName string) bool {
	for i := range p {
		if p[i].match(schemaName, tableName) {
			return true
		}
	}
	return false
}

func (p *Pattern) match(schemaName, tableName string) bool {
	if p.isExact {
		return p.exact.Schema == schemaName && p.exact.Table == tableName
	}
	if systemSchemas[strings.ToLower(schemaName)] {
		if _, named := plain(p.schema); !named {
			return false
		}
	}
	return match(p.schema, schemaName) && match(p.table, tableName)
}

// Exact returns the names of the patterns without a wildcard: the tables that somebody expects to be there.
func (p Patterns) Exact() []Name {
	var names []Name
	for i := range p {
		if p[i].isExact {
			names = append(names, p[i].exact)
		}
	}
	return names
}

// List returns the names of the base tables that the patterns match and the user may see, ordered by schema and table.
func List(ctx context.Context, q Querier, patterns Patterns) ([]Name, error) {
	var names []Name
	err := q.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"+
		" WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_SCHEMA, TABLE_NAME", func(v [][]byte) error {
		if n := (Name{string(v[0]), string(v[1])}); patterns.Match(n.Schema, n.Table) {
			names = append(names, n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return names, nil
}
