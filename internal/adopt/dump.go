package adopt

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

const (
	// maxRows bounds the rows of one of the plugin's tables.
	maxRows = 20_000
	// maxDefinitions bounds the text of the CREATE TABLE statements that are kept until it is known which are mapped.
	maxDefinitions = 64 << 20
)

// pluginTables are the tables of mcserver.ConfigSchema with their columns in the order of the plugin's script.
var pluginTables = map[string][]string{
	"containers":     mcserver.ContainerColumns,
	"cache_policies": {"policy_name", "get_policy", "set_policy", "delete_policy", "flush_policy"},
	"config_options": {"name", "value"},
}

// dump is a dump that is being read.
type dump struct {
	*dumpScanner
	inv *Inventory
	// schema is the one that names without one belong to; empty where it is not known.
	schema string
	// columns are those of the plugin's tables as they were created; rows are theirs, in the order of pluginTables.
	columns map[string][]string
	rows    map[string][][][]byte
	creates map[schema.Name]string
	size    int // of creates
	// statements counts those that a dump has, to tell a dump from other files.
	statements int
}

// ReadDump takes the inventory of a file of mysqldump or mariadb-dump, plain or gzip. The dump may hold more than the
// plugin's schema; definitions of tables that containers map are taken from it. It has none of the plugins' variables.
// Memory is bounded whatever the file holds. Errors name the line.
func ReadDump(r io.Reader, name string) (*Inventory, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer unpacked.Close()
		in = bufio.NewReader(unpacked)
	}
	d := &dump{
		dumpScanner: newDumpScanner(in), inv: newInventory("the dump " + name), columns: make(map[string][]string),
		rows: make(map[string][][][]byte), creates: make(map[schema.Name]string),
	}
	d.comment = d.header
	for {
		err := d.statement()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, d.line, err)
		}
	}
	if d.statements == 0 {
		return nil, fmt.Errorf("%s: no statement of a dump is in it: want what mysqldump or mariadb-dump writes", name)
	}
	if _, ok := d.rows["containers"]; !ok {
		return nil, fmt.Errorf("%s: the table %s.containers is not in it: dump it with mysqldump --databases %[2]s", name, mcserver.ConfigSchema)
	}
	if err := d.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d.inv, nil
}

var (
	mysqlVersion = regexp.MustCompile(`^Server version\s+(\S+)`)
	headSchema   = regexp.MustCompile(`^Host: .*\sDatabase: (\S+)$`)
)

// header reads what a dump says of itself in its comments.
func (d *dump) header(text string) {
	if m := mysqlVersion.FindStringSubmatch(text); m != nil && d.inv.Version == "" {
		d.inv.Version, d.inv.Flavor = m[1], schema.FlavorMySQL
		if strings.Contains(m[1], "MariaDB") {
			d.inv.Flavor = schema.FlavorMariaDB
		}
	}
	if m := headSchema.FindStringSubmatch(text); m != nil {
		d.schema = m[1]
	}
}

// statement reads one statement.
func (d *dump) statement() error {
	var record bytes.Buffer
	d.record = &record
	defer func() { d.record = nil }()
	t, err := d.next(false)
	if err != nil {
		return err
	}
	switch {
	case t.kind == dumpEnd:
		return nil
	case t.is("DELIMITER"):
		d.record = nil
		text, err := d.restOfLine()
		if err == nil && (text == "" || len(text) > 16) {
			err = fmt.Errorf("%q is no delimiter", text)
		}
		d.delimiter, d.fresh = text, true
		return err
	case t.is("USE"):
		d.record = nil
		if t, err = d.next(true); err != nil {
			return err
		}
		d.schema = t.text
	case t.is("CREATE"):
		return d.create(&record)
	case t.is("INSERT"), t.is("REPLACE"):
		d.record = nil
		return d.insert()
	}
	d.record = nil
	return d.skip()
}

// tableName reads name or schema.name. after is the token behind it.
func (d *dump) tableName(t dumpToken) (n schema.Name, after dumpToken, err error) {
	n = schema.Name{Schema: d.schema, Table: t.text}
	if t.kind == dumpWord {
		// Without quotes the dot is part of the word.
		if s, table, ok := strings.Cut(t.text, "."); ok {
			n = schema.Name{Schema: s, Table: table}
		}
		if n.Table == "" {
			if t, err = d.next(true); err != nil {
				return n, t, err
			}
			n.Table = t.text
		}
	}
	if after, err = d.next(true); err != nil {
		return n, after, err
	}
	// Between quoted names the dot is a word of its own, or the beginning of one.
	if after.kind == dumpWord && after.text[0] == '.' {
		n.Schema = n.Table
		if n.Table = after.text[1:]; n.Table == "" {
			if t, err = d.next(true); err != nil {
				return n, after, err
			}
			n.Table = t.text
		}
		after, err = d.next(true)
	}
	return n, after, err
}

// plugins tells that it is a table of the plugin. Where a dump does not name schemas the tables' names have to do.
func (d *dump) plugins(n schema.Name) bool {
	return pluginTables[n.Table] != nil && (n.Schema == mcserver.ConfigSchema || n.Schema == "")
}

// create keeps the text of a CREATE TABLE.
func (d *dump) create(record *bytes.Buffer) error {
	t, err := d.next(false)
	for err == nil && (t.is("OR") || t.is("REPLACE") || t.is("TEMPORARY")) {
		t, err = d.next(false)
	}
	if err != nil {
		return err
	}
	if !t.is("TABLE") {
		d.record = nil
		if t.kind == dumpEnd {
			return nil
		}
		return d.skip()
	}
	d.statements++
	t, err = d.next(true)
	for err == nil && (t.is("IF") || t.is("NOT") || t.is("EXISTS")) {
		t, err = d.next(true)
	}
	if err != nil {
		return err
	}
	n, after, err := d.tableName(t)
	if err == nil && after.kind != dumpEnd {
		err = d.skip()
	}
	if err != nil {
		return err
	}
	whole := d.record != nil
	text := record.String()
	if d.plugins(n) {
		d.rows[n.Table] = [][][]byte{}
		def, err := schema.ParseCreate(schema.FlavorMySQL, text)
		if !whole || err != nil {
			return fmt.Errorf("the definition of %s.%s cannot be read: %w", mcserver.ConfigSchema, n.Table, err)
		}
		d.columns[n.Table] = nil
		for _, c := range def.Columns {
			d.columns[n.Table] = append(d.columns[n.Table], strings.ToLower(c.Name))
		}
		return nil
	}
	// A table that is created again replaces the one before.
	d.size -= len(d.creates[n])
	delete(d.creates, n)
	if !whole || d.size+len(text) > maxDefinitions {
		return nil // it counts as one that is not in the dump
	}
	d.creates[n] = text
	d.size += len(text)
	return nil
}

// insert reads the rows of an INSERT into one of the plugin's tables.
func (d *dump) insert() error {
	d.statements++
	t, err := d.next(true)
	for err == nil && (t.is("LOW_PRIORITY") || t.is("DELAYED") || t.is("HIGH_PRIORITY") || t.is("IGNORE") || t.is("INTO")) {
		t, err = d.next(true)
	}
	if err != nil {
		return err
	}
	n, t, err := d.tableName(t)
	if err != nil || t.kind == dumpEnd {
		return err
	}
	if !d.plugins(n) {
		return d.skip()
	}
	columns := d.columns[n.Table]
	if columns == nil {
		columns = pluginTables[n.Table]
	}
	if t.mark("(") {
		columns = nil
		for !t.mark(")") {
			if t, err = d.next(true); err != nil {
				return err
			}
			if t.kind != dumpName && t.kind != dumpWord && t.kind != dumpDouble {
				return fmt.Errorf("INSERT INTO %s: a column's name is expected, not %q", n.Table, t.text)
			}
			columns = append(columns, strings.ToLower(t.text))
			if t, err = d.next(true); err != nil {
				return err
			}
			if !t.mark(",") && !t.mark(")") || len(columns) > 4096 {
				return fmt.Errorf("INSERT INTO %s: the list of columns cannot be read", n.Table)
			}
		}
		if t, err = d.next(true); err != nil {
			return err
		}
	}
	if !t.is("VALUES") && !t.is("VALUE") {
		return fmt.Errorf("INSERT INTO %s: VALUES is expected, not %q", n.Table, t.text)
	}
	for {
		row, err := d.row(n, len(columns))
		if err != nil {
			return err
		}
		if len(d.rows[n.Table]) == maxRows {
			return fmt.Errorf("INSERT INTO %s: more than %d rows", n.Table, maxRows)
		}
		if row, err = ordered(n, columns, row); err != nil {
			return err
		}
		d.rows[n.Table] = append(d.rows[n.Table], row)
		if t, err = d.next(true); err != nil {
			return err
		}
		if t.kind == dumpEnd {
			return nil
		}
		if !t.mark(",") {
			return fmt.Errorf("INSERT INTO %s: a comma or the end is expected behind a row, not %q", n.Table, t.text)
		}
	}
}

// ordered brings a row into the order of the plugin's script.
func ordered(n schema.Name, columns []string, row [][]byte) ([][]byte, error) {
	want := pluginTables[n.Table]
	out := make([][]byte, len(want))
	for i, name := range want {
		at := slices.Index(columns, name)
		if at < 0 {
			return nil, fmt.Errorf("INSERT INTO %s: there is no value for the column %s", n.Table, name)
		}
		out[i] = row[at]
	}
	return out, nil
}

// row reads one row in parentheses.
func (d *dump) row(n schema.Name, columns int) ([][]byte, error) {
	t, err := d.next(true)
	if err != nil {
		return nil, err
	}
	if !t.mark("(") {
		return nil, fmt.Errorf("INSERT INTO %s: a row in parentheses is expected, not %q", n.Table, t.text)
	}
	var row [][]byte
	for {
		value, err := d.value()
		if err != nil {
			return nil, fmt.Errorf("INSERT INTO %s: value %d: %w", n.Table, len(row)+1, err)
		}
		if row = append(row, value); len(row) > columns {
			return nil, fmt.Errorf("INSERT INTO %s: a row has more than the %d values of the columns", n.Table, columns)
		}
		if t, err = d.next(true); err != nil {
			return nil, err
		}
		if t.mark(")") {
			break
		}
		if !t.mark(",") {
			return nil, fmt.Errorf("INSERT INTO %s: a comma is expected behind value %d, not %q", n.Table, len(row), t.text)
		}
	}
	if len(row) != columns {
		return nil, fmt.Errorf("INSERT INTO %s: a row has %d values for %d columns", n.Table, len(row), columns)
	}
	return row, nil
}

// value reads a literal; nil is NULL.
func (d *dump) value() ([]byte, error) {
	t, err := d.next(true)
	if err != nil {
		return nil, err
	}
	switch {
	case t.kind == dumpString, t.kind == dumpDouble:
		return append([]byte{}, t.text...), nil
	case t.is("NULL"):
		return nil, nil
	case t.kind != dumpWord:
		return nil, fmt.Errorf("%q is no literal", t.text)
	case t.text[0] == '_': // a character set before its string
		if t, err = d.next(true); err != nil {
			return nil, err
		}
		switch {
		case t.kind == dumpString, t.kind == dumpDouble:
			return append([]byte{}, t.text...), nil
		case t.kind != dumpWord:
			return nil, fmt.Errorf("%q is no literal", t.text)
		}
	}
	switch {
	case t.is("x"):
		if t, err = d.next(true); err != nil {
			return nil, err
		}
		return unhex(t.text)
	case len(t.text) > 1 && (t.text[:2] == "0x" || t.text[:2] == "0X"):
		return unhex(t.text[2:])
	case t.text[0] >= '0' && t.text[0] <= '9':
		return []byte(t.text), nil
	}
	return nil, fmt.Errorf("%.40q is no literal", t.text)
}

func unhex(text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%.40q are no bytes in hexadecimal digits", text)
	}
	return b, nil
}

// finish makes the inventory of what was read.
func (d *dump) finish() error {
	inv := d.inv
	inv.HasTables = true
	inv.Tables.Containers = d.rows["containers"]
	inv.Tables.Options = d.rows["config_options"]
	for _, row := range d.rows["cache_policies"] {
		inv.Tables.Policies = append(inv.Tables.Policies, row[1:]) // without the name
	}
	flavor := inv.Flavor
	if flavor == "" {
		flavor = schema.FlavorMySQL
	}
	for _, n := range inv.mapped() {
		text, ok := d.creates[n]
		if !ok {
			// A dump of one schema without its comments does not say which.
			if text, ok = d.creates[schema.Name{Table: n.Table}]; !ok {
				continue
			}
		}
		def, err := schema.ParseCreate(flavor, text)
		if err != nil {
			inv.Unread[n] = err
			continue
		}
		def.Schema, def.Name = n.Schema, n.Table
		inv.Definitions[n] = def
	}
	return nil
}
