package schema

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNoTable says that there is no base table of that name: none at all, a view, or one that the user may not see.
var ErrNoTable = errors.New("no such table")

// Querier runs queries in the text protocol, all in one session.
type Querier interface {
	// Query calls row for each row of the result. values[i] is nil for NULL; the bytes are valid during the call only. An
	// error of row ends the query and is returned.
	Query(ctx context.Context, sql string, row func(values [][]byte) error) error
}

// generatedKey is the name of the invisible primary key that MySQL adds by itself to tables without one.
const generatedKey = "my_row_id"

// Load describes one table as the server has it now. Several queries are needed, so a definition that is being changed
// meanwhile can come out mixed: the caller must load again when the log tells of a change.
//
// Names are compared as the server compares them; Table.Schema and Table.Name come back in the server's spelling. The
// connection's sql_mode must be without ANSI_QUOTES and NO_BACKSLASH_ESCAPES; no right but SELECT on the table is needed.
//
// The error is ErrNoTable (wrapped with the name) where there is no base table of that name, and otherwise the
// Querier's own, wrapped. A table that can't be cached is no error: its Refusal says why.
func Load(ctx context.Context, q Querier, flavor, schemaName, tableName string) (*Table, error) {
	t := &Table{Flavor: flavor, Key: -1}
	refusals, err := t.loadTable(ctx, q, schemaName, tableName)
	if err == nil {
		var virtual []string
		virtual, err = t.loadColumns(ctx, q)
		refusals = append(refusals, virtual...)
	}
	if err == nil {
		err = t.loadIndexes(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("describe %s.%s: %w", schemaName, tableName, err)
	}
	refusals = append(refusals, t.columnRefusals()...)
	key := t.chooseKey()
	if t.innoDB() { // others may have keys of a kind that InnoDB hasn't
		refusals = append(refusals, key...)
	}
	cascades, err := t.cascades(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", t.FullName(), err)
	}
	refusals = append(refusals, cascades...)
	t.Refusal = strings.Join(refusals, "; ")
	return t, nil
}

// nameLiteral is a name as an SQL literal that no sql_mode can misread.
func nameLiteral(s string) string {
	if s == "" {
		return "''"
	}
	return "_utf8mb3 0x" + hex.EncodeToString([]byte(s))
}

func (t *Table) quoted() string { return QuoteName(t.Schema) + "." + QuoteName(t.Name) }

// system reports that the table is the server's own. (information_schema and performance_schema have no base tables that
// are InnoDB's.)
func (t *Table) system() bool { return strings.EqualFold(t.Schema, "mysql") }

func (t *Table) innoDB() bool { return strings.EqualFold(t.Engine, "InnoDB") }

// loadTable finds the table itself.
func (t *Table) loadTable(ctx context.Context, q Querier, schemaName, tableName string) (refusals []string, err error) {
	// A NUL can't be in a name, and names of other than UTF-8 would be an SQL error.
	if !validName(schemaName) || !validName(tableName) {
		return nil, ErrNoTable
	}
	found := false
	err = q.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, @@lower_case_table_names FROM information_schema.TABLES"+
		" WHERE TABLE_SCHEMA = "+nameLiteral(schemaName)+" AND TABLE_NAME = "+nameLiteral(tableName), func(v [][]byte) error {
		// The catalog's own comparison may be laxer than that of the names.
		same := func(a []byte, b string) bool { return string(a) == b }
		if string(v[4]) != "0" {
			same = func(a []byte, b string) bool { return strings.EqualFold(string(a), b) }
		}
		if !same(v[0], schemaName) || !same(v[1], tableName) {
			return nil
		}
		switch kind := string(v[2]); kind {
		case "BASE TABLE":
		case "SYSTEM VERSIONED":
			refusals = []string{"it is system-versioned: its history would look like rows"}
		case "SEQUENCE":
			refusals = []string{"it is a sequence"}
		default:
			return nil
		}
		found = true
		t.Schema, t.Name, t.Engine = string(v[0]), string(v[1]), string(v[3])
		return nil
	})
	if err == nil && !found {
		err = ErrNoTable
	}
	if err == nil && t.system() {
		refusals = append(refusals, "it is a system table, which the server changes without writing that to the log")
	}
	if err == nil && !t.innoDB() {
		refusals = append(refusals, fmt.Sprintf("its engine is %s, not InnoDB", t.Engine))
	}
	return refusals, err
}

func (t *Table) loadColumns(ctx context.Context, q Querier) (refusals []string, err error) {
	var virtual []virtualColumn
	err = q.Query(ctx, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_OCTET_LENGTH, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA, GENERATION_EXPRESSION"+
		" FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "+nameLiteral(t.Schema)+" AND TABLE_NAME = "+nameLiteral(t.Name)+
		" ORDER BY ORDINAL_POSITION", func(v [][]byte) error {
		c := Column{Name: string(v[0]), Nullable: string(v[2]) == "YES"}
		c.setType(string(v[1]), t.Flavor)
		c.Charset, c.Collation = normalCharset(string(v[4])), normalCharset(string(v[5]))
		switch c.Kind {
		case KindChar, KindVarchar, KindBinary, KindVarbinary, KindVector:
			c.MaxBytes, _ = strconv.Atoi(string(v[3]))
		case KindEnum, KindSet:
			if c.Charset == "" { // MySQL's way to say binary
				c.Charset, c.Collation = "binary", "binary"
			}
		}
		switch c.Kind {
		case KindChar, KindVarchar, KindText, KindEnum, KindSet:
		default:
			c.Charset, c.Collation = "", ""
		}
		if c.Kind == KindVector {
			c.MaxBytes = c.Length
		}
		extra := strings.ToUpper(string(v[6]))
		c.Invisible = strings.Contains(extra, "INVISIBLE")
		c.AutoIncrement = strings.Contains(extra, "AUTO_INCREMENT")
		c.Generated = strings.Contains(extra, "VIRTUAL GENERATED") || strings.Contains(extra, "STORED GENERATED") ||
			strings.Contains(extra, "PERSISTENT")
		if strings.Contains(extra, "VIRTUAL GENERATED") {
			virtual = append(virtual, virtualColumn{c.Name, string(v[7])})
		}
		t.Columns = append(t.Columns, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.Columns) == 0 {
		return nil, ErrNoTable // dropped since, or not one column of it may be read
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Kind == KindEnum || c.Kind == KindSet {
			if err := loadMembers(ctx, q, t, c); err != nil {
				return nil, err
			}
		}
	}
	return t.virtualRefusals(virtual), t.loadCollations(ctx, q)
}

// normalCharset gives character sets and collations the one name that this module uses: utf8 was an alias of utf8mb3.
func normalCharset(s string) string {
	if s == "utf8" || strings.HasPrefix(s, "utf8_") {
		return "utf8mb3" + s[len("utf8"):]
	}
	return s
}

// loadCollations looks up the numbers of the collations. One that is not found keeps 0, which weakens the check of the
// table map but harms nothing.
func (t *Table) loadCollations(ctx context.Context, q Querier) error {
	missing := make(map[string]uint32)
	for i := range t.Columns {
		if c := t.Columns[i].Collation; c != "" {
			missing[c] = 0
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ids := make(map[string]uint32, len(missing))
	take := func(v [][]byte) error {
		id, err := strconv.ParseUint(string(v[1]), 10, 32)
		if collation := normalCharset(string(v[0])); err == nil {
			ids[collation] = uint32(id)
			delete(missing, collation)
		}
		return nil
	}
	if err := q.Query(ctx, "SELECT COLLATION_NAME, ID FROM information_schema.COLLATIONS WHERE ID IS NOT NULL", take); err != nil {
		return err
	}
	if len(missing) > 0 && t.Flavor == FlavorMariaDB {
		// From 10.10 on some collations belong to several character sets and have their numbers here.
		if err := q.Query(ctx, "SELECT FULL_COLLATION_NAME, ID FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"+
			" WHERE ID IS NOT NULL", take); err != nil {
			return err
		}
	}
	for i := range t.Columns {
		t.Columns[i].CollationID = ids[t.Columns[i].Collation]
	}
	return nil
}

func (t *Table) loadIndexes(ctx context.Context, q Querier) error {
	// information_schema.STATISTICS has no order of its own; SHOW INDEX has the server's.
	return q.Query(ctx, "SHOW INDEX FROM "+t.quoted(), func(v [][]byte) error {
		const (
			nonUnique, keyName, seq, column, collation, subPart, indexType, visible = 1, 2, 3, 4, 5, 7, 10, 13
		)
		if string(v[seq]) == "1" {
			index := Index{
				Name:   string(v[keyName]),
				Unique: string(v[nonUnique]) == "0",
				BTree:  string(v[indexType]) == "BTREE",
			}
			if len(v) > visible {
				if t.Flavor == FlavorMySQL {
					index.Hidden = string(v[visible]) == "NO"
				} else {
					index.Hidden = string(v[visible]) == "YES" // this one says "ignored"
				}
			}
			t.Indexes = append(t.Indexes, index)
		}
		if len(t.Indexes) == 0 {
			return fmt.Errorf("SHOW INDEX starts at part %s", v[seq])
		}
		part := Part{Column: -1, Desc: string(v[collation]) == "D"}
		if v[column] != nil {
			if part.Column = t.ColumnIndex(string(v[column])); part.Column < 0 {
				return fmt.Errorf("index %q has an unknown column %q", v[keyName], v[column])
			}
		}
		if v[subPart] != nil {
			n, err := strconv.Atoi(string(v[subPart]))
			if err != nil {
				return fmt.Errorf("index %q: %w", v[keyName], err)
			}
			part.Prefix = n
		}
		index := &t.Indexes[len(t.Indexes)-1]
		index.Parts = append(index.Parts, part)
		return nil
	})
}

func validName(s string) bool {
	for _, r := range s {
		if r == 0 || r == '\uFFFD' || r > '\uFFFF' {
			return false
		}
	}
	return s != ""
}
