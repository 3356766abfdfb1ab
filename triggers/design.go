package triggers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// Design is a spec that fits the server's tables, worked out into statements. It does not change after NewDesign.
type Design struct {
	Spec *Spec
	// Objects are what has to be there, in the order in which it is made.
	Objects []Object
	// Notes are remarks for the DBA: costs, and what the triggers can't see.
	Notes []string

	base    *Table // nil for a Query
	joined  []*Table
	names   map[string]bool // of triggers that are taken
	key     Expr
	when    Expr     // nil takes all rows
	columns []cached // what a cache row stores beside k and cas
}

// cached is a column of the cache table that is written from an expression.
type cached struct {
	name, definition string
	expr             Expr
	// volatile columns depend on when they are written: they are not compared.
	volatile bool
	// aggregate columns are computed over a group.
	aggregate bool
	sum       Expr // of a total: what is added up; nil for a count
}

// grouped tells that a cache row stands for a group of source rows.
func (d *Design) grouped() bool { return len(d.Spec.Group) > 0 }

// delta tells that totals are kept by differences.
func (d *Design) delta() bool { return len(d.Spec.Totals) > 0 }

// marks tells that a table of marks says what is to be computed later.
func (d *Design) marks() bool { return d.grouped() && !d.delta() || d.Spec.Tolerant }

// NewDesign checks the spec against the tables and works it out. Its errors are *SpecError.
func NewDesign(spec *Spec, catalog *Catalog) (*Design, error) {
	d := &Design{Spec: spec, names: make(map[string]bool)}
	if spec.Query != "" {
		d.columns = []cached{{name: "v", definition: textColumn}}
		d.flags()
		d.make()
		return d, nil
	}
	var err error
	if d.base, err = d.table(catalog, spec.Source, "source"); err != nil {
		return nil, err
	}
	for i := range spec.Joins {
		if err := d.join(catalog, &spec.Joins[i]); err != nil {
			return nil, err
		}
	}
	if d.key, err = d.keyExpr(); err != nil {
		return nil, spec.errorf("key", "key: %s", err)
	}
	if spec.When != nil {
		d.when = spec.When.Expr
		if err := d.checkRefs(spec.When); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{d.checkKey, d.value, d.totals, d.expiry, d.checkVirtual} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.make()
	if err := d.parents(catalog); err != nil {
		return nil, err
	}
	d.sort()
	return d, nil
}

const textColumn = "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

func (d *Design) table(catalog *Catalog, name schema.Name, key string) (*Table, error) {
	t := catalog.Tables[name]
	if other := catalog.Others[name]; other != "" {
		return nil, d.Spec.errorf(key, "%s: %s is a %s, and triggers are for base tables: name the table behind it, or use a query with every", key, name, strings.ToLower(other))
	}
	if t == nil {
		return nil, d.Spec.errorf(key, "%s: there is no base table %s, or the account may not see it: GRANT SELECT, TRIGGER ON %s TO whoever installs (a temporary table is no source)",
			key, name, quote(name))
	}
	if !strings.EqualFold(t.Engine, "InnoDB") {
		return nil, d.Spec.errorf(key, "%s: the engine of %s is %s: without transactions the cache table can't follow it; use InnoDB", key, name, t.Engine)
	}
	return t, nil
}

func (d *Design) join(catalog *Catalog, j *Join) error {
	bad := func(format string, args ...any) error {
		return &SpecError{d.Spec.Path, j.line, fmt.Sprintf("join %s: ", j.Alias) + fmt.Sprintf(format, args...)}
	}
	t, err := d.table(catalog, j.Table, "joins")
	if err != nil {
		return err
	}
	if j.Table == d.Spec.Source {
		return bad("a table can't be joined with itself here: its triggers would have to change what they read")
	}
	columns := make(map[string]bool)
	for _, on := range j.On {
		if t.ColumnIndex(on.Column) < 0 {
			return bad("%s has no column %q", j.Table, on.Column)
		}
		if _, err := d.column(on.Equals); err != nil {
			return bad("%s", err)
		}
		columns[on.Column] = true
	}
	if !t.unique(columns) {
		return bad("several rows of %s may fit one source row: on must cover a unique key of it", j.Table)
	}
	for _, fk := range t.Parents {
		if cascades(fk.OnDelete) || cascades(fk.OnUpdate) {
			return bad("foreign key %s of %s lets the server change its rows without any trigger (ON DELETE %s, ON UPDATE %s): use a query with every",
				fk.Name, j.Table, fk.OnDelete, fk.OnUpdate)
		}
	}
	d.joined = append(d.joined, t)
	if own := j.On[0].Equals; own.Alias == "" && !d.base.indexed(own.Column) {
		d.note("No index of %s begins with %s: each change of a row of %s reads the whole table. Create one.", d.Spec.Source, own.Column, j.Table)
	}
	return nil
}

// column finds the column of a reference.
func (d *Design) column(r Ref) (*schema.Column, error) {
	t := d.base
	name := d.Spec.Source
	if r.Alias != "" {
		i := slices.IndexFunc(d.Spec.Joins, func(j Join) bool { return j.Alias == r.Alias })
		if i < 0 || i >= len(d.joined) {
			return nil, fmt.Errorf("{%s}: no join is called %s", r, r.Alias)
		}
		t, name = d.joined[i], d.Spec.Joins[i].Table
	}
	i := t.ColumnIndex(r.Column)
	if i < 0 {
		return nil, fmt.Errorf("{%s}: %s has no column %q", r, name, r.Column)
	}
	return &t.Columns[i], nil
}

func (d *Design) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

func (d *Design) checkRefs(item *Item) error {
	for _, r := range refs(item.Expr) {
		if _, err := d.column(r); err != nil {
			return &SpecError{d.Spec.Path, item.Line, err.Error()}
		}
	}
	if err := d.checkMoments(item.Expr); err != nil && !item.Plain {
		return &SpecError{d.Spec.Path, item.Line, err.Error()}
	}
	return nil
}

var (
	// momentCall ends with the call around a TIMESTAMP that makes a number of it; otherCall has one around something else.
	momentCall = regexp.MustCompile(`(?i)(\bUNIX_TIMESTAMP\s*\(\s*((MIN|MAX)\s*\(\s*)?|\bCOUNT\s*\(\s*)$`)
	unixCall   = regexp.MustCompile(`(?i)\bUNIX_TIMESTAMP\s*\(`)
	// dayCall ends with a call that makes a date of a TIME, by taking today's; dayCast begins a cast that does.
	dayCall  = regexp.MustCompile(`(?i)\b(TIMESTAMP|DATE|YEAR|YEARWEEK|MONTH|QUARTER|WEEK|WEEKOFYEAR|WEEKDAY|DAY|DAYOFMONTH|DAYOFWEEK|DAYOFYEAR|TO_DAYS|TO_SECONDS|LAST_DAY|DATE_FORMAT|DATEDIFF|DATE_ADD|DATE_SUB|ADDDATE|SUBDATE)\s*\(\s*$`)
	dayCast  = regexp.MustCompile(`(?i)^\s*(AS|,)\s*DATE(TIME)?\b`)
	nullTest = regexp.MustCompile(`(?i)^\s+IS\s+(NOT\s+)?NULL\b`)
)

// checkMoments refuses expressions that read a TIMESTAMP as a date, or a date as a TIMESTAMP: the server does so by each
// session's time zone.
func (d *Design) checkMoments(e Expr) error {
	for i, p := range e {
		var before, after string
		if i > 0 {
			before = e[i-1].text
		}
		if i+1 < len(e) {
			after = e[i+1].text
		}
		moment := false
		if p.text == "" {
			c, err := d.column(p.ref)
			moment = err == nil && c.Kind == schema.KindTimestamp
			if err == nil && c.Kind == schema.KindTime && (dayCall.MatchString(before) || dayCast.MatchString(after)) {
				return fmt.Errorf("{%s} is %s: a date of it is today's, another one tomorrow; write TIME_FORMAT, HOUR or TIME_TO_SEC", p.ref, c.TypeText)
			}
			if moment && !momentCall.MatchString(before) && !nullTest.MatchString(after) {
				return fmt.Errorf("{%s} is %s: its date depends on each session's time_zone; write UNIX_TIMESTAMP({%[1]s})", p.ref, c.TypeText)
			}
			if !moment && strings.Contains(strings.ToUpper(momentCall.FindString(before)), "UNIX") {
				return fmt.Errorf("UNIX_TIMESTAMP depends on each session's time_zone for {%s}: write TIMESTAMPDIFF(SECOND, '1970-01-01', {%[1]s})", p.ref)
			}
			continue
		}
		calls := len(unixCall.FindAllString(p.text, -1))
		if i+1 < len(e) && strings.Contains(strings.ToUpper(momentCall.FindString(p.text)), "UNIX") {
			calls--
		}
		if calls > 0 {
			return errors.New("UNIX_TIMESTAMP depends on each session's time_zone for anything but a TIMESTAMP column: write UNIX_TIMESTAMP({column})")
		}
	}
	return nil
}

// checkVirtual refuses virtual columns whose value depends on the session that reads them.
func (d *Design) checkVirtual() error {
	for _, r := range d.used() {
		t, key := d.base, "source"
		for i, j := range d.Spec.Joins {
			if j.Alias == r.Alias {
				t, key = d.joined[i], "joins"
			}
		}
		for refusal := range strings.SplitSeq(t.Refusal, "; its ") {
			if strings.HasPrefix(strings.TrimPrefix(refusal, "its "), fmt.Sprintf("virtual column %q depends ", r.Column)) {
				return d.Spec.errorf(key, "%s: the %s", key, strings.TrimPrefix(refusal, "its "))
			}
		}
	}
	return nil
}

// checkKey makes sure that no two source rows, or groups, have one key.
func (d *Design) checkKey() error {
	columns := make(map[string]bool)
	for _, r := range refs(d.key) {
		columns[r.Column] = true
	}
	if !d.grouped() {
		if !d.base.unique(columns) {
			return d.Spec.errorf("key", "key: several rows of %s could have the same key: it must hold all columns of a unique key", d.Spec.Source)
		}
		if d.base.rowKey() == nil {
			return d.Spec.errorf("source", "source: %s has no primary key and no unique key of NOT NULL columns", d.Spec.Source)
		}
		return nil
	}
	for _, g := range d.Spec.Group {
		c, err := d.column(Ref{Column: g})
		switch {
		case err != nil:
			return d.Spec.errorf("group", "group: %s", err)
		case c.Nullable && c.Generated:
			return d.Spec.errorf("group", "group: %s is generated and can be NULL: %s", g, generatedNull)
		case c.Nullable:
			return d.Spec.errorf("group", "group: %s can be NULL: use a NOT NULL column", g)
		case c.Kind == schema.KindBlob || c.Kind == schema.KindText || c.Kind == schema.KindJSON:
			return d.Spec.errorf("group", "group: %s is %s: use a VARCHAR column", g, c.TypeText)
		case (c.Kind == schema.KindChar || c.Kind == schema.KindVarchar) && !strings.HasSuffix(c.Collation, "bin") && c.Collation != "binary":
			return d.Spec.errorf("group", "group: %s compares by %s, for which different texts are equal, but keys are bytes: use a column with a binary collation (utf8mb4_bin); on MySQL it may be a generated one", g, c.Collation)
		case !columns[g]:
			return d.Spec.errorf("key", "key: {%s} is missing: the key must tell the groups apart", g)
		}
		delete(columns, g)
	}
	for c := range columns {
		return d.Spec.errorf("key", "key: {%s} is no column of group", c)
	}
	if first := d.Spec.Group[0]; !d.base.indexed(first) {
		d.note("No index of %s begins with %s: computing one group reads the whole table. Create one.", d.Spec.Source, first)
	}
	return nil
}

// text writes an item as text, by the type of a bare column.
func (d *Design) text(item *Item) (Expr, *schema.Column, error) {
	if err := d.checkRefs(item); err != nil {
		return nil, nil, err
	}
	if !item.Plain {
		return item.Expr, nil, nil
	}
	c, err := d.column(item.Expr[0].ref)
	if err != nil {
		return nil, nil, &SpecError{d.Spec.Path, item.Line, err.Error()}
	}
	bad := func(text string) error {
		return &SpecError{d.Spec.Path, item.Line, fmt.Sprintf("%s is %s: %s", c.Name, c.TypeText, text)}
	}
	switch c.Kind {
	case schema.KindDate, schema.KindTime, schema.KindDatetime, schema.KindJSON, schema.KindUUID, schema.KindInet4, schema.KindInet6:
		return join("CAST(", item.Expr, " AS CHAR)"), c, nil
	case schema.KindTimestamp:
		return nil, nil, bad(fmt.Sprintf("its text depends on each session's time_zone; write \"UNIX_TIMESTAMP({%s})\"", c.Name))
	case schema.KindBit:
		return nil, nil, bad(fmt.Sprintf("write \"{%s}+0\" for its number", c.Name))
	case schema.KindGeometry, schema.KindVector, schema.KindUnsupported:
		return nil, nil, bad("write an expression that makes a text of it")
	}
	return item.Expr, c, nil
}

func binary(c *schema.Column) bool {
	return c != nil && (c.Kind == schema.KindBinary || c.Kind == schema.KindVarbinary || c.Kind == schema.KindBlob)
}

// value works the value out as one column v.
func (d *Design) value() error {
	v := d.Spec.Value
	if v == nil {
		return nil
	}
	out := cached{name: "v", definition: textColumn, aggregate: d.grouped()}
	var parts []any
	for i := range v.Items {
		item := &v.Items[i]
		e, c, err := d.text(item)
		if err != nil {
			return err
		}
		if binary(c) {
			if v.Form != ValueColumn {
				return &SpecError{d.Spec.Path, item.Line, fmt.Sprintf("%s is %s: write \"HEX({%[1]s})\" or \"TO_BASE64({%[1]s})\"", c.Name, c.TypeText)}
			}
			out.definition = "MEDIUMBLOB"
		}
		switch v.Form {
		case ValueJoin:
			if i > 0 {
				parts = append(parts, literal(v.Separator), ", ")
			}
			parts = append(parts, d.joinItem(v, item, e, c), ", ")
		case ValueJSON:
			if i > 0 {
				parts = append(parts, ", ")
			}
			if c != nil && (c.Kind == schema.KindJSON || d.json(item.Expr[0].ref)) {
				e = join("JSON_EXTRACT(", item.Expr, ", '$')")
			}
			parts = append(parts, literal(item.Name), ", ", e)
		default:
			parts = append(parts, e)
		}
	}
	switch v.Form {
	case ValueJoin:
		parts = append([]any{"CONCAT("}, parts[:len(parts)-1]...)
		parts = append(parts, ")")
	case ValueJSON:
		parts = append([]any{"JSON_OBJECT("}, parts...)
		parts = append(parts, ")")
	}
	out.expr = join(parts...)
	d.columns = append(d.columns, out)
	d.flags()
	return nil
}

// joinItem keeps a NULL from making all of a CONCAT NULL, and separators inside of texts from looking like others.
func (d *Design) joinItem(v *Value, item *Item, e Expr, c *schema.Column) Expr {
	if c == nil || c.Nullable || item.Expr[0].ref.Alias != "" {
		e = join("IFNULL(", e, ", '')")
	}
	number := c != nil && slices.Contains([]schema.Kind{
		schema.KindInt, schema.KindDecimal, schema.KindYear, schema.KindDate, schema.KindTime, schema.KindDatetime, schema.KindFloat, schema.KindDouble,
	}, c.Kind)
	if v.Keep || number {
		return e
	}
	return join("REPLACE(REPLACE(", e, `, '\\', '\\\\'), `, literal(v.Separator), ", ", literal(`\`+v.Separator), ")")
}

// json tells a column that MariaDB declares as JSON.
func (d *Design) json(r Ref) bool {
	t := d.base
	for i, j := range d.Spec.Joins {
		if j.Alias == r.Alias {
			t = d.joined[i]
		}
	}
	return t.JSON[r.Column]
}

// flags adds the column of the constant flags.
func (d *Design) flags() {
	if f := d.Spec.Flags; f != nil {
		d.columns = append(d.columns, cached{name: "flags", definition: "INT UNSIGNED NOT NULL DEFAULT 0", expr: sqlText(fmt.Sprint(*f))})
	}
}

// totals works counts and sums out, each in its column.
func (d *Design) totals() error {
	for i := range d.Spec.Totals {
		t := &d.Spec.Totals[i]
		out := cached{name: t.Name, definition: "BIGINT NOT NULL DEFAULT 0", expr: sqlText("COUNT(*)"), aggregate: true}
		if t.Sum != nil {
			if !t.Sum.Plain {
				return &SpecError{d.Spec.Path, t.Line, "totals: sum a column; add a generated column for an expression, so that its type is known"}
			}
			if err := d.checkRefs(t.Sum); err != nil {
				return err
			}
			c, _ := d.column(t.Sum.Expr[0].ref)
			wide := false
			switch c.Kind {
			case schema.KindInt:
				wide = c.Unsigned
				if c.Unsigned && strings.HasPrefix(c.TypeText, "bigint") {
					out.definition = "DECIMAL(65,0) NOT NULL DEFAULT 0"
				}
			case schema.KindDecimal:
				out.definition = fmt.Sprintf("DECIMAL(65,%d) NOT NULL DEFAULT 0", c.Scale)
			default:
				return &SpecError{d.Spec.Path, t.Line, fmt.Sprintf("totals: %s is %s: sums of anything but whole numbers and decimals drift; use a value with every", c.Name, c.TypeText)}
			}
			out.sum = t.Sum.Expr
			if c.Nullable {
				out.sum = join("COALESCE(", t.Sum.Expr, ", 0)")
			}
			if wide {
				// While filling, a total is too low and may fall below nought: for unsigned numbers that is an error.
				out.sum = join("CAST(", out.sum, " AS DECIMAL(20,0))")
			}
			out.expr = join("COALESCE(SUM(", t.Sum.Expr, "), 0)")
		}
		d.columns = append(d.columns, out)
	}
	if d.delta() {
		d.flags()
	}
	return nil
}

// expiry adds the column of the Unix time at which a row expires.
func (d *Design) expiry() error {
	x := d.Spec.Expiry
	if x == nil {
		return nil
	}
	out := cached{name: "exp", definition: "BIGINT NOT NULL DEFAULT 0"}
	switch {
	case x.Seconds != 0:
		out.expr, out.volatile = sqlText(fmt.Sprintf("UNIX_TIMESTAMP() + %d", x.Seconds)), true
	case x.Item.Plain:
		if err := d.checkRefs(x.Item); err != nil {
			return err
		}
		e := x.Item.Expr
		c, _ := d.column(e[0].ref)
		switch c.Kind {
		case schema.KindInt:
		case schema.KindTimestamp:
			e = join("UNIX_TIMESTAMP(", e, ")")
			if c.Fraction > 0 {
				e = join("FLOOR(", e, ")")
			}
		case schema.KindDatetime:
			e = join("TIMESTAMPDIFF(SECOND, '1970-01-01', ", e, ")")
			d.note("%s is DATETIME and is taken as UTC.", c.Name)
		default:
			return &SpecError{d.Spec.Path, x.Item.Line, fmt.Sprintf("expiry: %s is %s: want Unix seconds, TIMESTAMP or DATETIME (in UTC)", c.Name, c.TypeText)}
		}
		if c.Nullable {
			e = join("IFNULL(", e, ", 0)")
		}
		out.expr = e
	default:
		if err := d.checkRefs(x.Item); err != nil {
			return err
		}
		out.expr = x.Item.Expr
	}
	d.columns = append(d.columns, out)
	return nil
}

// Expressions calls each for every expression that a server should try before anything is installed, as a SELECT that
// reads no row, with the line of the spec that it comes from. The session must have the mode ONLY_FULL_GROUP_BY. An error of each ends it and is returned.
func (d *Design) Expressions(each func(line int, query string) error) error {
	if d.Spec.Query != "" {
		return each(d.Spec.lines["query"], "SELECT d.k, d.v FROM (\n"+d.Spec.Query+"\n) AS d LIMIT 0")
	}
	from := d.from(d.tableRef)
	// For a row an expression is tried as a condition: there the server takes neither aggregates nor window functions, which
	// CREATE TRIGGER would take, and then fail every write.
	try := func(line int, e Expr) error {
		return each(line, "SELECT 1 "+from+"\nWHERE ("+e.render(d.tableRef)+") IS NULL\nLIMIT 0")
	}
	errs := []error{try(d.Spec.lines["key"], d.key)}
	if d.when != nil {
		errs = append(errs, try(d.Spec.When.Line, d.when))
	}
	for _, c := range d.columns {
		key := map[string]string{"exp": "expiry", "flags": "flags", "v": "value"}[c.name]
		if key == "" {
			key = "totals"
		}
		if c.aggregate {
			errs = append(errs, each(d.Spec.lines[key], "SELECT "+c.expr.render(d.tableRef)+"\n"+from+"\nGROUP BY "+d.groupColumns("s.")+"\nLIMIT 0"))
			continue
		}
		errs = append(errs, try(d.Spec.lines[key], c.expr))
	}
	return errors.Join(errs...)
}
