// Package schema describes tables: their columns, indexes, character sets and collations, as one server had them at
// one place of its binlog. The descriptions are immutable once loaded and may be shared between goroutines.
//
// It imports nothing of this module; everything else builds on it.
package schema

import (
	"reflect"
	"strings"
)

// The flavors of servers.
const (
	FlavorMySQL   = "mysql"
	FlavorMariaDB = "mariadb"
)

// Kind is the family of a column's type. It decides how a value is decoded from a row image and how its text compares.
type Kind uint8

// The kinds of columns. KindUnsupported marks a type that this module cannot keep right; a table that has one is
// answered by the database.
const (
	KindUnsupported Kind = iota
	KindInt              // TINYINT to BIGINT and BOOL; Column.Bytes tells which
	KindDecimal
	KindFloat
	KindDouble
	KindYear
	KindDate
	KindTime
	KindDatetime
	KindTimestamp
	KindChar
	KindVarchar
	KindText // TINYTEXT to LONGTEXT, and JSON of MariaDB
	KindBinary
	KindVarbinary
	KindBlob // TINYBLOB to LONGBLOB
	KindEnum
	KindSet
	KindBit
	KindJSON // JSON of MySQL, binary in the log
	KindGeometry
	KindVector
	KindUUID  // MariaDB
	KindInet4 // MariaDB
	KindInet6 // MariaDB
)

// Column is one column of a table, in the table's order.
type Column struct {
	Name string
	Kind Kind
	// TypeText is the server's own spelling of the type, as information_schema gives it (COLUMN_TYPE).
	TypeText string
	// Bytes is the storage size of integers (1, 2, 3, 4, 8) and the length-prefix size of the TEXT and BLOB families (1 to 4).
	Bytes int
	// Length is the declared length: characters for CHAR and VARCHAR, bytes for BINARY, VARBINARY and VECTOR, bits for BIT,
	// digits for YEAR.
	Length int
	// MaxBytes is the declared length in bytes of CHAR, VARCHAR, BINARY, VARBINARY and VECTOR; 0 for other types.
	MaxBytes int
	// Zerofill is the width to which ZEROFILL pads; 0 where it does not.
	Zerofill int
	// Precision and Scale are those of DECIMAL. For FLOAT(M,D) and DOUBLE(M,D) Scale is D; -1 where no D was given.
	Precision, Scale int
	// Fraction is the number of digits of a temporal type's fractional seconds.
	Fraction  int
	Unsigned  bool
	Nullable  bool
	Invisible bool
	// Generated is true for virtual and stored computed columns.
	Generated     bool
	AutoIncrement bool
	// Charset and Collation are empty for types without characters; KindBinary and its like do not say "binary", but ENUM
	// and SET do where they are of that character set.
	Charset, Collation string
	// CollationID is the server's number of the collation, which the binlog's table maps name; 0 where there is none.
	CollationID uint32
	// Members are the labels of ENUM and SET in order, in the column's character set.
	Members [][]byte
}

// Part is one column of an index.
type Part struct {
	// Column is the position in Table.Columns, or -1 where the part is an expression.
	Column int
	// Prefix is the number of characters (bytes for binary types) that the index holds; 0 means the whole value.
	Prefix int
	Desc   bool
}

// Index is one index of a table, in the order of SHOW INDEX.
type Index struct {
	Name   string // PRIMARY for the primary key
	Unique bool
	Parts  []Part
	// BTree is false for FULLTEXT, SPATIAL, VECTOR and HASH indexes, which can't be walked in order.
	BTree bool
	// Hidden is true for an index that the server's optimizer does not use (INVISIBLE of MySQL, IGNORED of MariaDB): FORCE
	// INDEX of it is an error there.
	Hidden bool
}

// Table is the description of one base table.
type Table struct {
	// Schema and Name are the server's spelling, which is the binlog's.
	Schema, Name string
	// Flavor is the server's, FlavorMySQL or FlavorMariaDB: some types differ between the two.
	Flavor  string
	Engine  string
	Columns []Column
	Indexes []Index
	// Key is the position in Indexes of the key that tells rows apart: the primary key, or else the first unique index
	// over whole NOT NULL columns; -1 where there is none.
	Key int
	// Refusal says why the table can't be kept in memory, in words for its user; empty where it can.
	Refusal string
}

// FullName is schema.table, unquoted, as it stands in status output and patterns.
func (t *Table) FullName() string { return t.Schema + "." + t.Name }

// SameColumns reports that the columns of two tables are alike in everything, their names and order included.
func (t *Table) SameColumns(other *Table) bool { return reflect.DeepEqual(t.Columns, other.Columns) }

// ColumnIndex returns the position of the column of that name, compared byte by byte, or -1.
func (t *Table) ColumnIndex(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// IndexByName returns the position of the index of that name, compared byte by byte, or -1.
func (t *Table) IndexByName(name string) int {
	for i := range t.Indexes {
		if t.Indexes[i].Name == name {
			return i
		}
	}
	return -1
}

// QuoteName quotes an identifier with backticks.
func QuoteName(name string) string { return string(AppendName(nil, name)) }

// AppendName appends an identifier in backticks.
func AppendName(dst []byte, name string) []byte {
	dst = append(dst, '`')
	for {
		i := strings.IndexByte(name, '`')
		if i < 0 {
			break
		}
		dst = append(append(dst, name[:i+1]...), '`')
		name = name[i+1:]
	}
	return append(append(dst, name...), '`')
}
