package triggers

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/binlogcache/binlogcache/schema"
)

// Spec is what a DBA writes: which rows make which keys and values. ParseSpec has checked everything that can be checked
// without a server.
type Spec struct {
	// Path is the file, for messages and the head of the generated SQL.
	Path string
	// Name is the container's name, and part of the name of everything that is installed.
	Name string
	// Cache is the table to keep; bc_cache.<name> where the file says nothing.
	Cache schema.Name
	// Source is the table whose rows are cached. It is empty for a Query.
	Source schema.Name
	// Joins add columns of other tables to a source row, at most one row of each.
	Joins []Join
	// Group makes one cache row of all source rows that agree in these columns of the source.
	Group []string
	// Query gives all cache rows at once, as columns k and v; an event runs it.
	Query string
	// Key is the pattern of the cache rows' keys; not for a Query.
	Key []keyPart
	// Value is what a row or a group is cached as; Totals are columns of counts and sums instead.
	Value  *Value
	Totals []Total
	// When leaves out the source rows for which it is not true; nil takes all.
	When *Item
	// Flags is the constant that clients get as flags; nil for no such column.
	Flags *uint32
	// CAS is "counter", "unique" or empty for no such column.
	CAS string
	// Expiry is nil for rows that never expire.
	Expiry *Expiry
	// Purge is how often expired rows are deleted, PurgeRows how many at most in one go.
	Purge     Interval
	PurgeRows int
	// Every is how often a Query is run, or marked rows and groups are computed.
	Every Interval
	// Tolerant lets a source row's write go through when its cache row can't be written: the cache row is deleted then and
	// computed again later.
	Tolerant bool
	// Definer is the account whose rights the triggers have, quoted for SQL; empty for whoever installs.
	Definer string

	lines map[string]int
}

// Join is a table that a source row points to.
type Join struct {
	Table schema.Name
	Alias string
	// On has pairs of a column of Table and what it equals: a column of the source or of an earlier join.
	On []JoinOn
	// Inner leaves source rows without a partner out.
	Inner bool
	line  int
}

// JoinOn is one pair of Join.On.
type JoinOn struct {
	Column string
	Equals Ref
}

// Item is an expression, or a column by its bare name.
type Item struct {
	Name string // in a JSON object
	Expr Expr
	// Plain is true for a bare column: then its type decides how it is written.
	Plain bool
	Line  int
}

// The forms of Value.
const (
	ValueColumn = "column"
	ValueJoin   = "join"
	ValueJSON   = "json"
	ValueSQL    = "sql"
)

// Value says how the columns become one text.
type Value struct {
	Form  string
	Items []Item
	// Separator stands between the items of a join; Keep leaves separators inside of them alone instead of escaping
	// them with a backslash.
	Separator string
	Keep      bool
}

// Total is a count of rows or a sum in its own column.
type Total struct {
	Name string
	Sum  *Item // nil for a count
	Line int
}

// Expiry is when a cache row expires: by a column, by an expression that gives Unix seconds, or so many seconds after it
// was written last.
type Expiry struct {
	Item    *Item
	Seconds int
}

// Interval is a schedule of the event scheduler.
type Interval struct {
	N    int
	Unit string // SECOND to WEEK
}

// IsZero tells that nothing was said.
func (i Interval) IsZero() bool { return i.N == 0 }

// String is the interval as EVERY takes it.
func (i Interval) String() string { return strconv.Itoa(i.N) + " " + i.Unit }

var (
	nameForm     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,39}$`)
	intervalForm = regexp.MustCompile(`^([1-9][0-9]{0,5}) (second|minute|hour|day|week)s?$`)
	definerForm  = regexp.MustCompile("^([^@`'\"\\s]{1,32})@([^@`'\"\\s]{1,255})$")
	// takenForm are other columns of the cache table, and variables of the procedures, which would hide a column.
	takenForm = regexp.MustCompile(`^(?i)(k|v|flags|cas|exp|chunks?|rest|skip|marks|is_done|is_there|group_rows|(lo|hi|p|t|id)[0-9]+)$`)
	totalForm = regexp.MustCompile(`^sum\s+(.+)$`)
)

var specKeys = []string{
	"name", "cache", "source", "joins", "group", "query", "key", "value", "totals", "when", "flags", "cas", "expiry", "purge", "purge_rows",
	"every", "on_error", "definer",
}

// ParseSpec reads a spec. path is for messages. Every error is a *SpecError.
func ParseSpec(path string, text []byte) (*Spec, error) {
	r := reader{path}
	doc, err := r.document(text)
	if err != nil {
		return nil, err
	}
	s := &Spec{Path: path, PurgeRows: 1000, lines: make(map[string]int)}
	err = r.mapping(doc, "the file", specKeys, func(key string, at, n *yaml.Node) error {
		s.lines[key] = at.Line
		return s.read(r, key, n)
	})
	if err != nil {
		return nil, err
	}
	if s.Cache.Table == "" {
		s.Cache = schema.Name{Schema: "bc_cache", Table: s.Name}
	}
	return s, s.check()
}

func (s *Spec) errorf(key, format string, args ...any) error {
	return &SpecError{s.Path, s.lines[key], fmt.Sprintf(format, args...)}
}

// DefinerError is a fault of the spec's definer.
func (s *Spec) DefinerError(format string, args ...any) error {
	return s.errorf("definer", format, args...)
}

// read reads the value of one key.
func (s *Spec) read(r reader, key string, n *yaml.Node) (err error) {
	switch key {
	case "name":
		if s.Name, err = r.text(n); err == nil && !nameForm.MatchString(s.Name) {
			err = r.errorf(n, "name: %q: want a letter, then up to 39 letters, digits and underscores", s.Name)
		}
	case "cache":
		s.Cache, err = tableName(r, n)
	case "source":
		s.Source, err = tableName(r, n)
	case "joins":
		err = s.readJoins(r, n)
	case "group":
		var items []*yaml.Node
		if items, err = r.texts(n); err == nil {
			for _, i := range items {
				s.Group = append(s.Group, i.Value)
			}
		}
	case "query":
		s.Query, err = r.text(n)
		s.Query = escapeQuery(strings.TrimSuffix(strings.TrimSpace(s.Query), ";"))
	case "key":
		var text string
		if text, err = r.text(n); err == nil {
			if s.Key, err = parseKey(text); err != nil {
				err = r.errorf(n, "key: %s", err)
			}
		}
	case "value":
		s.Value, err = readValue(r, n)
	case "totals":
		err = s.readTotals(r, n)
	case "when":
		s.When, err = readItem(r, n, false)
	case "flags":
		var text string
		if text, err = r.text(n); err == nil {
			v, numErr := strconv.ParseUint(text, 10, 32)
			if numErr != nil {
				return r.errorf(n, "flags: %q: want a number from 0 to 4294967295", text)
			}
			s.Flags = new(uint32(v))
		}
	case "cas":
		s.CAS, err = r.oneOf(n, "counter", "unique")
	case "expiry":
		s.Expiry, err = readExpiry(r, n)
	case "purge":
		s.Purge, err = readInterval(r, n)
	case "purge_rows":
		s.PurgeRows, err = readNumber(r, n, 1, 100_000)
	case "every":
		s.Every, err = readInterval(r, n)
	case "on_error":
		var mode string
		mode, err = r.oneOf(n, "fail", "tolerate")
		s.Tolerant = mode == "tolerate"
	case "definer":
		var text string
		if text, err = r.text(n); err == nil {
			m := definerForm.FindStringSubmatch(text)
			if m == nil {
				return r.errorf(n, "definer: %q: want account@host", text)
			}
			s.Definer = schema.QuoteName(m[1]) + "@" + schema.QuoteName(m[2])
		}
	}
	return err
}

func tableName(r reader, n *yaml.Node) (schema.Name, error) {
	text, err := r.text(n)
	if err != nil {
		return schema.Name{}, err
	}
	s, t, ok := strings.Cut(text, ".")
	if !ok || s == "" || t == "" || strings.Contains(t, ".") || hasControl(text) {
		return schema.Name{}, r.errorf(n, "%q is no table: want schema.table", text)
	}
	return schema.Name{Schema: s, Table: t}, nil
}

func readInterval(r reader, n *yaml.Node) (Interval, error) {
	text, err := r.text(n)
	if err != nil {
		return Interval{}, err
	}
	m := intervalForm.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return Interval{}, r.errorf(n, "%q is no interval: want for example 1 minute, 6 hours, 1 day", text)
	}
	count, err := strconv.Atoi(m[1])
	return Interval{count, strings.ToUpper(m[2])}, err
}

func readNumber(r reader, n *yaml.Node, low, high int) (int, error) {
	text, err := r.text(n)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > high {
		return 0, r.errorf(n, "%q: want a number from %d to %d", text, low, high)
	}
	return v, nil
}

// readItem reads a bare column, where that is allowed, or an expression with columns in braces.
func readItem(r reader, n *yaml.Node, plain bool) (*Item, error) {
	text, err := r.text(n)
	if err != nil {
		return nil, err
	}
	item := &Item{Line: n.Line}
	if plain && !strings.ContainsAny(text, "{('") {
		ref, err := parseRef(text)
		if err != nil {
			return nil, r.errorf(n, "%s", err)
		}
		item.Expr, item.Plain = column(ref), true
		return item, nil
	}
	if item.Expr, err = parseExpr(text); err != nil {
		return nil, r.errorf(n, "%s", err)
	}
	return item, nil
}

func readValue(r reader, n *yaml.Node) (*Value, error) {
	v := &Value{Separator: "|"}
	err := r.mapping(n, "value", []string{"column", "join", "json", "sql", "separator", "inside"}, func(key string, at, n *yaml.Node) error {
		switch key {
		case "separator":
			text, err := r.text(n)
			if err == nil && (len(text) > 32 || strings.ContainsAny(text, "\\\r\n")) {
				err = r.errorf(n, "separator: up to 32 bytes, no backslash and no line end")
			}
			v.Separator = text
			return err
		case "inside":
			mode, err := r.oneOf(n, "escape", "keep")
			v.Keep = mode == "keep"
			return err
		}
		if v.Form != "" {
			return r.errorf(at, "value is given as %s already: give one of column, join, json and sql", v.Form)
		}
		v.Form = key
		add := func(name string, n *yaml.Node) error {
			item, err := readItem(r, n, key != "sql")
			if err == nil {
				item.Name = name
				v.Items = append(v.Items, *item)
			}
			return err
		}
		switch key {
		case ValueJoin:
			items, err := r.texts(n)
			for _, i := range items {
				if err := add("", i); err != nil {
					return err
				}
			}
			return err
		case ValueJSON:
			return r.mapping(n, "json", nil, func(name string, _, n *yaml.Node) error { return add(name, n) })
		}
		return add("", n)
	})
	if err == nil && len(v.Items) == 0 {
		err = r.errorf(n, "value: want one of column, join, json and sql")
	}
	return v, err
}

func (s *Spec) readJoins(r reader, n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return r.errorf(n, "joins: want a list, each entry with table, as and on")
	}
	for _, entry := range n.Content {
		j := Join{line: entry.Line}
		err := r.mapping(entry, "a join", []string{"table", "as", "on", "kind"}, func(key string, _, n *yaml.Node) (err error) {
			switch key {
			case "table":
				j.Table, err = tableName(r, n)
			case "as":
				if j.Alias, err = r.text(n); err == nil && (!nameForm.MatchString(j.Alias) || reserved[strings.ToLower(j.Alias)]) {
					err = r.errorf(n, "as: %q can't be used: want another short name of letters, digits and underscores", j.Alias)
				}
			case "kind":
				kind, kindErr := r.oneOf(n, "left", "inner")
				j.Inner, err = kind == "inner", kindErr
			case "on":
				err = r.mapping(n, "on", nil, func(name string, _, n *yaml.Node) error {
					text, err := r.text(n)
					if err != nil {
						return err
					}
					ref, err := parseRef(strings.Trim(text, "{}"))
					if err != nil {
						return r.errorf(n, "%s", err)
					}
					j.On = append(j.On, JoinOn{name, ref})
					return nil
				})
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case j.Table.Table == "" || j.Alias == "" || len(j.On) == 0:
			return r.errorf(entry, "a join needs table, as and on")
		}
		for _, other := range s.Joins {
			if other.Alias == j.Alias {
				return r.errorf(entry, "as: %s stands for another table already", j.Alias)
			}
		}
		s.Joins = append(s.Joins, j)
	}
	return nil
}

// reserved are names that the generated SQL uses itself.
var reserved = map[string]bool{"s": true, "c": true, "d": true, "new": true, "old": true, "as": true, "on": true, "to": true, "by": true, "if": true, "in": true, "is": true, "or": true}

func (s *Spec) readTotals(r reader, n *yaml.Node) error {
	return r.mapping(n, "totals", nil, func(name string, at, n *yaml.Node) error {
		text, err := r.text(n)
		if err != nil {
			return err
		}
		if !nameForm.MatchString(name) || takenForm.MatchString(name) {
			return r.errorf(at, "totals: %q can't be a column's name here", name)
		}
		t := Total{Name: name, Line: n.Line}
		if m := totalForm.FindStringSubmatch(text); m != nil {
			node := *n
			node.Value = m[1]
			if t.Sum, err = readItem(r, &node, true); err != nil {
				return err
			}
		} else if text != "count" {
			return r.errorf(n, "totals: %q: want count, sum column or sum {expression}", text)
		}
		s.Totals = append(s.Totals, t)
		return nil
	})
}

func readExpiry(r reader, n *yaml.Node) (*Expiry, error) {
	e := new(Expiry)
	err := r.mapping(n, "expiry", []string{"column", "sql", "seconds"}, func(key string, at, n *yaml.Node) (err error) {
		if e.Item != nil || e.Seconds != 0 {
			return r.errorf(at, "expiry: give one of column, sql and seconds")
		}
		if key == "seconds" {
			e.Seconds, err = readNumber(r, n, 1, 1<<31-1)
			return err
		}
		e.Item, err = readItem(r, n, key == "column")
		return err
	})
	if err == nil && e.Item == nil && e.Seconds == 0 {
		err = r.errorf(n, "expiry: want column, sql or seconds")
	}
	return e, err
}

// check looks at how the keys go together.
func (s *Spec) check() error {
	has := func(key string) bool { _, ok := s.lines[key]; return ok }
	only := func(form string, keys ...string) error {
		for _, k := range keys {
			if has(k) {
				return s.errorf(k, "%s has no meaning with %s: leave it out", k, form)
			}
		}
		return nil
	}
	switch {
	case s.Name == "":
		return s.errorf("", "name is missing: the container's name")
	case has("query"):
		if s.Every.IsZero() {
			return s.errorf("query", "every is missing: how often the event runs the query, for example every: 1 hour")
		}
		if upper := strings.ToUpper(s.Query); !strings.HasPrefix(upper, "SELECT") && !strings.HasPrefix(upper, "WITH") {
			return s.errorf("query", "query: want one SELECT with the columns k and v")
		}
		return only("query", "source", "joins", "group", "key", "value", "totals", "when", "on_error", "expiry", "purge", "cas")
	case !has("source"):
		return s.errorf("", "source is missing: the table whose rows are cached (or query, for an event)")
	case !has("key"):
		return s.errorf("", "key is missing, for example key: user:{id}")
	case has("totals") && has("value") || !has("totals") && !has("value"):
		return s.errorf("value", "want value, or with group totals instead: one of the two")
	case has("totals") && !has("group"):
		return s.errorf("totals", "totals need group: the columns that the rows of a total agree in")
	}
	if has("purge") && !has("expiry") {
		return s.errorf("purge", "purge deletes expired rows: it needs expiry")
	}
	if !has("group") {
		if has("every") && !s.Tolerant {
			return s.errorf("every", "every has no meaning here: rows are kept by triggers, at once")
		}
		if s.Tolerant && s.Every.IsZero() {
			s.Every = Interval{1, "MINUTE"}
		}
		return nil
	}
	if err := only("group", "joins", "on_error", "expiry", "purge"); err != nil {
		return err
	}
	if has("totals") {
		for _, t := range s.Totals {
			if t.Sum == nil {
				return nil
			}
		}
		return s.errorf("totals", "totals need one count, so that the row of an empty group can go: for example rows: count")
	}
	if s.Value.Form != ValueSQL && s.Value.Form != ValueJSON {
		return s.errorf("value", "with group the value is sql or json, of expressions like MAX({points})")
	}
	if s.Every.IsZero() {
		return s.errorf("group", "every is missing: how often the groups that have changed are computed, for example every: 10 seconds")
	}
	return nil
}
