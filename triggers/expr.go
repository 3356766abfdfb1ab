package triggers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Ref is a column that an expression names in braces: {uname}, or {plan.title} for a joined table.
type Ref struct {
	// Alias is empty for the source table.
	Alias, Column string
}

// String is the reference without its braces.
func (r Ref) String() string {
	if r.Alias == "" {
		return r.Column
	}
	return r.Alias + "." + r.Column
}

// part of an expression: SQL text, or a column.
type part struct {
	text string
	ref  Ref // when text is empty
}

// Expr is an SQL expression whose columns are known, so that it can be written for NEW, for OLD and for a SELECT.
type Expr []part

func sqlText(s string) Expr { return Expr{{text: s}} }

func column(r Ref) Expr { return Expr{{ref: r}} }

// join puts texts and expressions together.
func join(parts ...any) Expr {
	var e Expr
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			e = append(e, part{text: p})
		case Expr:
			e = append(e, p...)
		}
	}
	return e
}

// render writes the expression with each column as name gives it.
func (e Expr) render(name func(Ref) string) string {
	var b strings.Builder
	for _, p := range e {
		if p.text != "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(name(p.ref))
		}
	}
	return b.String()
}

// refs returns the columns of the expressions, each once, in order.
func refs(expressions ...Expr) []Ref {
	var all []Ref
	for _, e := range expressions {
		for _, p := range e {
			if p.text == "" && !slices.Contains(all, p.ref) {
				all = append(all, p.ref)
			}
		}
	}
	return all
}

// unstable are functions whose result depends on more than their arguments: a trigger and a later check would not agree.
var unstable = map[string]string{
	"NOW": "", "CURRENT_TIMESTAMP": "", "CURDATE": "", "CURRENT_DATE": "", "CURTIME": "", "CURRENT_TIME": "", "LOCALTIME": "",
	"LOCALTIMESTAMP": "", "SYSDATE": "", "UTC_DATE": "", "UTC_TIME": "", "UTC_TIMESTAMP": "", "RAND": "", "UUID": "", "UUID_SHORT": "",
	"CONNECTION_ID": "", "USER": "", "CURRENT_USER": "", "SESSION_USER": "", "SYSTEM_USER": "", "CURRENT_ROLE": "", "DATABASE": "",
	"SCHEMA": "", "LAST_INSERT_ID": "", "ROW_COUNT": "", "FOUND_ROWS": "", "SLEEP": "", "GET_LOCK": "", "RELEASE_LOCK": "",
	"RELEASE_ALL_LOCKS": "", "IS_FREE_LOCK": "", "IS_USED_LOCK": "", "RANDOM_BYTES": "", "SYS_GUID": "", "ENCRYPT": "", "PS_CURRENT_THREAD_ID": "",
	"MASTER_POS_WAIT": "", "SOURCE_POS_WAIT": "", "MASTER_GTID_WAIT": "", "WAIT_FOR_EXECUTED_GTID_SET": "", "BENCHMARK": "", "LOAD_FILE": "", "VERSION": "", "NEXTVAL": "", "LASTVAL": "", "SETVAL": "",
	"FROM_UNIXTIME": " (it depends on each session's time_zone; keep the number, or add seconds to a constant date)",
	"DAYNAME":       " (it depends on each session's lc_time_names; use DAYOFWEEK)",
	"MONTHNAME":     " (it depends on each session's lc_time_names; use MONTH)",
}

// queryWords begin or belong to a query inside of an expression.
var queryWords = map[string]bool{"SELECT": true, "INTO": true, "TABLE": true, "VALUES": true, "NEXT": true, "PREVIOUS": true}

// localNames are the parts of a date's format that each session's lc_time_names decides.
var localNames = regexp.MustCompile(`%[abMW]`)

// parseExpr reads SQL with columns in braces. It refuses what could end the expression or begin another statement, and
// what is not the same for every session and at every time. The server is asked about the rest.
func parseExpr(s string) (Expr, error) {
	var e Expr
	var text strings.Builder
	depth, formats := 0, false
	flush := func() {
		if text.Len() > 0 {
			e = append(e, part{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\'' || c == '"':
			n, err := quoted(s[i:])
			if err != nil {
				return nil, err
			}
			if formats && localNames.MatchString(s[i:i+n]) {
				return nil, fmt.Errorf("DATE_FORMAT with the names of months or days is not the same for every session (lc_time_names): use their numbers")
			}
			text.WriteString(escapeLines(s[i : i+n]))
			i += n
			continue
		case c == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("the brace at byte %d is not closed", i+1)
			}
			r, err := parseRef(s[i+1 : i+end])
			if err != nil {
				return nil, err
			}
			flush()
			e = append(e, part{ref: r})
			i += end + 1
			continue
		case isWord(c):
			start := i
			for i < len(s) && isWord(s[i]) {
				i++
			}
			word := strings.ToUpper(s[start:i])
			rest := strings.TrimLeft(s[i:], " \t\n")
			if hint, bad := unstable[word]; bad && (strings.HasPrefix(rest, "(") || strings.HasPrefix(word, "CURRENT_") || strings.HasPrefix(word, "LOCALTIME") || strings.HasPrefix(word, "UTC_")) {
				return nil, fmt.Errorf("%s is not the same for every session and at every time%s", word, hint)
			}
			if word == "UNIX_TIMESTAMP" && emptyCall.MatchString(rest) {
				return nil, fmt.Errorf("UNIX_TIMESTAMP() is not the same at every time")
			}
			if strings.HasPrefix(rest, "(") && strings.HasSuffix(text.String(), ".") {
				return nil, fmt.Errorf("%s: a stored function may read tables whose changes nobody would see: write out what it computes", s[start:i])
			}
			formats = formats || word == "DATE_FORMAT"
			if queryWords[word] {
				return nil, fmt.Errorf("%s: an expression can't hold a query: tables that are read must be under joins, so that their changes are seen", word)
			}
			text.WriteString(s[start:i])
			continue
		case c == '`' || c == ';' || c == '@' || c == '?' || c == '\\' || c == '}' || c == '#' || c < ' ' && c != '\n' && c != '\t':
			return nil, fmt.Errorf("%q can't stand in an expression (columns stand in braces: {name})", c)
		case strings.HasPrefix(s[i:], "--") || strings.HasPrefix(s[i:], "/*") || strings.HasPrefix(s[i:], "*/"):
			return nil, fmt.Errorf("%q: comments can't stand in an expression", s[i:i+2])
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return nil, fmt.Errorf("the parenthesis at byte %d closes nothing", i+1)
			}
		}
		text.WriteByte(c)
		i++
	}
	flush()
	switch {
	case depth != 0:
		return nil, fmt.Errorf("a parenthesis is not closed")
	case len(e) == 0:
		return nil, fmt.Errorf("the expression is empty")
	}
	return e, nil
}

// quoted returns the length of the string literal that s begins with.
func quoted(s string) (int, error) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == s[0] && i+1 < len(s) && s[i+1] == s[0]:
			i++
		case s[i] == s[0]:
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("a string is not closed: %s", s)
}

var emptyCall = regexp.MustCompile(`^\(\s*\)`)

// escapeLines writes the line ends of a string literal as \n, so that the text around it can be indented.
func escapeLines(literal string) string {
	if !strings.Contains(literal, "\n") {
		return literal
	}
	var b strings.Builder
	for i := 0; i < len(literal); i++ {
		switch c := literal[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\\' && literal[i+1] == '\n':
			b.WriteString(`\n`)
			i++
		case c == '\\':
			b.WriteString(literal[i : i+2])
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escapeQuery does so in all literals of a query.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := 0; i < len(query); {
		rest, n := query[i:], 1
		until := func(end string) {
			if n = strings.Index(rest[1:], end) + 1 + len(end); n == len(end) {
				n = len(rest)
			}
		}
		switch {
		case rest[0] == '\'' || rest[0] == '"':
			if length, err := quoted(rest); err == nil {
				b.WriteString(escapeLines(rest[:length]))
				i += length
				continue
			}
		case rest[0] == '`':
			until("`")
		case rest[0] == '#', strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\n"):
			until("\n")
		case strings.HasPrefix(rest, "/*"):
			until("*/")
		}
		b.WriteString(rest[:n])
		i += n
	}
	return b.String()
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// hasControl tells of characters that could end a comment of the generated SQL.
func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

func parseRef(s string) (Ref, error) {
	alias, name, dotted := strings.Cut(strings.TrimSpace(s), ".")
	if !dotted {
		alias, name = "", alias
	}
	if name == "" || dotted && alias == "" || strings.ContainsAny(s, "`'\"") || hasControl(s) {
		return Ref{}, fmt.Errorf("{%s} is no column: want {column} or {alias.column}", s)
	}
	return Ref{alias, name}, nil
}

// literal writes a text as an SQL string, for a session without NO_BACKSLASH_ESCAPES, as the generated SQL sets it.
func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}
