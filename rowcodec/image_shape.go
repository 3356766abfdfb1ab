package rowcodec

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/schema"
)

// idBinary is the number of the "binary" collation on both flavors: what table maps say of columns without characters.
const idBinary = 63

// NewDecoder returns a decoder for images of def that come under tm, or ErrShape, wrapped with the first difference
// between the two. Names, signs, collations, labels, visibility and the primary key are compared as far as the map tells
// them (binlog_row_metadata); without them a change that keeps the columns' number and storage goes unseen.
//
// The decoder keeps slices of tm, which nobody may change.
func NewDecoder(def *schema.Table, tm *replication.TableMapEvent) (*Decoder, error) {
	d := &Decoder{def: def, shape: shapeOf(tm)}
	if err := d.build(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShape, def.FullName(), err)
	}
	return d, nil
}

// Matches reports that tm says the same as the table map that the decoder was made for. Table ids do not count: a
// server gives them anew.
func (d *Decoder) Matches(tm *replication.TableMapEvent) bool {
	other := shapeOf(tm)
	return d.shape.equal(&other)
}

// shape is the content of a table map.
type shape struct {
	schema, table   []byte
	types           []byte
	meta            []uint16
	nullable        []byte
	unsigned        []byte
	visible         []byte
	names           [][]byte
	enums, sets     [][][]byte
	collations      collationList
	labelCollations collationList
	key, keyPrefix  []uint64
}

// collationList is one of the two forms in which table maps list collations: a default with exceptions (position among
// the columns that count, collation), or all.
type collationList struct {
	defaults, all []uint64
}

func shapeOf(tm *replication.TableMapEvent) shape {
	return shape{
		schema: tm.Schema, table: tm.Table,
		types: tm.ColumnType, meta: tm.ColumnMeta, nullable: tm.NullBitmap,
		unsigned: tm.SignednessBitmap, visible: tm.VisibilityBitmap, names: tm.ColumnName,
		enums: tm.EnumStrValue, sets: tm.SetStrValue,
		collations:      collationList{tm.DefaultCharset, tm.ColumnCharset},
		labelCollations: collationList{tm.EnumSetDefaultCharset, tm.EnumSetColumnCharset},
		key:             tm.PrimaryKey, keyPrefix: tm.PrimaryKeyPrefix,
	}
}

func (s *shape) equal(o *shape) bool {
	return bytes.Equal(s.types, o.types) && slices.Equal(s.meta, o.meta) && bytes.Equal(s.nullable, o.nullable) &&
		bytes.Equal(s.unsigned, o.unsigned) && bytes.Equal(s.visible, o.visible) &&
		bytes.Equal(s.schema, o.schema) && bytes.Equal(s.table, o.table) &&
		equalTexts(s.names, o.names) &&
		slices.EqualFunc(s.enums, o.enums, equalTexts) && slices.EqualFunc(s.sets, o.sets, equalTexts) &&
		s.collations.equal(o.collations) && s.labelCollations.equal(o.labelCollations) &&
		slices.Equal(s.key, o.key) && slices.Equal(s.keyPrefix, o.keyPrefix)
}

func equalTexts(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

func (l collationList) equal(o collationList) bool {
	return slices.Equal(l.defaults, o.defaults) && slices.Equal(l.all, o.all)
}

// at returns the collation of the n-th column that counts; ok is false where the list does not tell.
func (l collationList) at(n int) (id uint64, ok bool) {
	if len(l.defaults) > 0 {
		for i := 1; i+1 < len(l.defaults); i += 2 {
			if l.defaults[i] == uint64(n) {
				return l.defaults[i+1], true
			}
		}
		return l.defaults[0], true
	}
	if n < len(l.all) {
		return l.all[n], true
	}
	return 0, false
}

// mapBit returns bit n of a bitmap whose first bit is the highest one.
func mapBit(bitmap []byte, n int) bool { return bitmap[n>>3]&(0x80>>(n&7)) != 0 }

// build checks the map against the definition and works out how to decode each column.
func (d *Decoder) build() error {
	s, def := &d.shape, d.def
	n := len(s.types)
	switch {
	case string(s.schema) != def.Schema || string(s.table) != def.Name:
		return fmt.Errorf("the map is of %s.%s", s.schema, s.table)
	case n != len(def.Columns):
		return fmt.Errorf("%d columns in the map, %d in the definition", n, len(def.Columns))
	case len(s.meta) != n || len(s.nullable) < (n+7)/8 || n == 0:
		return fmt.Errorf("the map is malformed")
	case len(s.names) > 0 && len(s.names) != n:
		return fmt.Errorf("%d names for %d columns in the map", len(s.names), n)
	case len(s.visible) > 0 && len(s.visible) < (n+7)/8:
		return fmt.Errorf("the map is malformed")
	}
	d.columns = make([]imageColumn, n)
	var numbers, texts, labels, enums, sets int // columns so far of the kinds that the optional lists count
	for i := range d.columns {
		col := &def.Columns[i]
		if len(s.names) > 0 && string(s.names[i]) != col.Name {
			return fmt.Errorf("column %d is %q in the map, %q in the definition", i+1, s.names[i], col.Name)
		}
		if got := s.nullable[i>>3]&(1<<(i&7)) != 0; got != col.Nullable {
			return fmt.Errorf("column %q: nullable is %v in the map", col.Name, got)
		}
		if len(s.visible) > 0 && mapBit(s.visible, i) == col.Invisible {
			return fmt.Errorf("column %q: visible is %v in the map", col.Name, !col.Invisible)
		}
		c, err := newImageColumn(col, s.types[i], s.meta[i])
		if err != nil {
			return fmt.Errorf("column %q: %w", col.Name, err)
		}
		d.columns[i] = c
		switch realType(s.types[i], s.meta[i]) {
		case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG,
			mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE:
			if numbers>>3 < len(s.unsigned) && mapBit(s.unsigned, numbers) != col.Unsigned {
				return fmt.Errorf("column %q: unsigned is %v in the map", col.Name, !col.Unsigned)
			}
			numbers++
		case mysql.MYSQL_TYPE_YEAR:
			numbers++ // in the list as unsigned
		case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB:
			if err := checkCollation(s.collations, texts, col); err != nil {
				return err
			}
			texts++
		case mysql.MYSQL_TYPE_GEOMETRY:
			if def.Flavor == schema.FlavorMariaDB {
				texts++
			}
		case mysql.MYSQL_TYPE_ENUM:
			if err := checkLabels(s.enums, enums, col); err != nil {
				return err
			}
			enums++
			if err := checkCollation(s.labelCollations, labels, col); err != nil {
				return err
			}
			labels++
		case mysql.MYSQL_TYPE_SET:
			if err := checkLabels(s.sets, sets, col); err != nil {
				return err
			}
			sets++
			if err := checkCollation(s.labelCollations, labels, col); err != nil {
				return err
			}
			labels++
		case mysql.MYSQL_TYPE_JSON:
			d.json++
		}
	}
	return d.checkKey()
}

// realType returns the type of a column; ENUM and SET stand in the map as STRING.
func realType(t byte, meta uint16) byte {
	if real := byte(meta >> 8); t == mysql.MYSQL_TYPE_STRING && (real == mysql.MYSQL_TYPE_ENUM || real == mysql.MYSQL_TYPE_SET) {
		return real
	}
	return t
}

func checkCollation(list collationList, n int, col *schema.Column) error {
	want := uint64(col.CollationID)
	if col.Collation == "" {
		want = idBinary
	}
	if got, ok := list.at(n); ok && want != 0 && got != want {
		return fmt.Errorf("column %q: collation is number %d in the map, %d in the definition", col.Name, got, want)
	}
	return nil
}

func checkLabels(list [][][]byte, n int, col *schema.Column) error {
	if n < len(list) && !equalTexts(list[n], col.Members) {
		return fmt.Errorf("column %q: its labels are other ones in the map", col.Name)
	}
	return nil
}

// checkKey compares the primary key.
func (d *Decoder) checkKey() error {
	s := &d.shape
	if len(s.key) == 0 {
		return nil
	}
	is := func(index *schema.Index) bool {
		same := len(index.Parts) == len(s.key)
		for i := 0; same && i < len(index.Parts); i++ {
			same = index.Parts[i].Column >= 0 && uint64(index.Parts[i].Column) == s.key[i]
		}
		return same
	}
	if i := d.def.IndexByName("PRIMARY"); i >= 0 {
		if !is(&d.def.Indexes[i]) {
			return fmt.Errorf("the primary key is over other columns in the map")
		}
		return nil
	}
	// Where a table has no primary key the servers take a unique key of NOT NULL columns for it. Which one does not matter.
	for i := range d.def.Indexes {
		if index := &d.def.Indexes[i]; index.Unique && is(index) {
			return nil
		}
	}
	return fmt.Errorf("the map has a primary key, the definition has none")
}

// newImageColumn checks a column's type in the map and works out its decoding.
func newImageColumn(col *schema.Column, t byte, meta uint16) (imageColumn, error) {
	c := imageColumn{col: col}
	differs := func() (imageColumn, error) {
		return c, fmt.Errorf("its type is %d/%#x in the map, %s in the definition", t, meta, col.TypeText)
	}
	fixed := func(op imageOp, want byte, size int) bool {
		c.op, c.size = op, size
		return t == want
	}
	sized := func(op imageOp, want byte, length, threshold int) bool {
		c.op, c.prefix, c.most = op, 1, length
		if threshold > 255 {
			c.prefix = 2
		}
		return t == want
	}
	blob := func(want byte, prefix int) bool {
		c.op, c.prefix, c.most = opBytes, uint8(prefix), 1<<(8*prefix)-1
		return t == want && int(meta) == prefix && prefix >= 1 && prefix <= 4
	}
	temporal := func(op, old imageOp, size, oldSize int, want, oldWant byte) bool {
		c.digits = uint8(col.Fraction)
		if t == oldWant && col.Fraction == 0 {
			return fixed(old, oldWant, oldSize)
		}
		return fixed(op, want, size+fractionBytes(col.Fraction)) && int(meta) == col.Fraction && col.Fraction <= 6
	}
	// stringLength undoes the packing of long CHARs: bits 8 and 9 of the length are in the type byte, inverted.
	stringLength := int(meta&0xff) | int(^meta&0x3000)>>4
	isString := t == mysql.MYSQL_TYPE_STRING && (meta>>8|0x30) == uint16(mysql.MYSQL_TYPE_STRING)

	ok := false
	switch col.Kind {
	case schema.KindInt:
		types := map[int]byte{
			1: mysql.MYSQL_TYPE_TINY, 2: mysql.MYSQL_TYPE_SHORT, 3: mysql.MYSQL_TYPE_INT24,
			4: mysql.MYSQL_TYPE_LONG, 8: mysql.MYSQL_TYPE_LONGLONG,
		}
		want, known := types[col.Bytes]
		ok = fixed(opInt, want, col.Bytes) && known
	case schema.KindDecimal:
		size, legal := decimalSize(col.Precision, col.Scale)
		ok = fixed(opDecimal, mysql.MYSQL_TYPE_NEWDECIMAL, size) && legal && meta == uint16(col.Precision)<<8|uint16(col.Scale)
	case schema.KindFloat:
		ok = fixed(opFloat, mysql.MYSQL_TYPE_FLOAT, 4) && meta == 4
	case schema.KindDouble:
		ok = fixed(opDouble, mysql.MYSQL_TYPE_DOUBLE, 8) && meta == 8
	case schema.KindYear:
		ok = fixed(opYear, mysql.MYSQL_TYPE_YEAR, 1)
	case schema.KindDate:
		ok = fixed(opDate, mysql.MYSQL_TYPE_DATE, 3) || t == mysql.MYSQL_TYPE_NEWDATE
	case schema.KindTime:
		ok = temporal(opTime, opOldTime, 3, 3, mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_TIME)
	case schema.KindDatetime:
		ok = temporal(opDatetime, opOldDatetime, 5, 8, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_DATETIME)
	case schema.KindTimestamp:
		ok = temporal(opTimestamp, opOldTimestamp, 4, 4, mysql.MYSQL_TYPE_TIMESTAMP2, mysql.MYSQL_TYPE_TIMESTAMP)
	case schema.KindChar:
		ok = sized(opBytes, t, col.MaxBytes, col.MaxBytes) && isString && stringLength == col.MaxBytes
	case schema.KindBinary:
		c.size = col.Length
		ok = sized(opPadded, t, col.Length, col.Length) && isString && stringLength == col.Length
	case schema.KindVarchar, schema.KindVarbinary:
		ok = sized(opBytes, mysql.MYSQL_TYPE_VARCHAR, col.MaxBytes, col.MaxBytes) && int(meta) == col.MaxBytes
	case schema.KindText, schema.KindBlob:
		ok = blob(mysql.MYSQL_TYPE_BLOB, col.Bytes)
	case schema.KindJSON:
		ok = blob(mysql.MYSQL_TYPE_JSON, col.Bytes)
		c.op = opJSON
	case schema.KindGeometry:
		ok = blob(mysql.MYSQL_TYPE_GEOMETRY, col.Bytes)
	case schema.KindVector:
		if col.Bytes > 0 { // MySQL
			ok = blob(mysql.MYSQL_TYPE_VECTOR, col.Bytes)
		} else {
			ok = sized(opBytes, mysql.MYSQL_TYPE_VARCHAR, col.MaxBytes, col.MaxBytes) && int(meta) == col.MaxBytes
		}
	case schema.KindEnum:
		size := 1
		if len(col.Members) > 255 {
			size = 2
		}
		ok = fixed(opEnum, mysql.MYSQL_TYPE_STRING, size) && meta == uint16(mysql.MYSQL_TYPE_ENUM)<<8|uint16(size)
	case schema.KindSet:
		size := (len(col.Members) + 7) / 8
		if size > 4 {
			size = 8
		}
		ok = fixed(opSet, mysql.MYSQL_TYPE_STRING, size) && meta == uint16(mysql.MYSQL_TYPE_SET)<<8|uint16(size)
		c.separator = setSeparator(col.Charset)
	case schema.KindBit:
		ok = fixed(opBit, mysql.MYSQL_TYPE_BIT, (col.Length+7)/8) && int(meta>>8)*8+int(meta&0xff) == col.Length
	case schema.KindUUID:
		ok = sized(opUUID, t, 16, 16) && isString && stringLength == 16
	case schema.KindInet6:
		ok = sized(opInet6, t, 16, 16) && isString && stringLength == 16
	case schema.KindInet4:
		ok = sized(opInet4, t, 4, 4) && isString && stringLength == 4
	}
	if !ok {
		return differs()
	}
	return c, nil
}

// setSeparator returns the comma in a character set.
func setSeparator(charset string) []byte {
	switch charset {
	case "ucs2", "utf16":
		return []byte{0, ','}
	case "utf16le":
		return []byte{',', 0}
	case "utf32":
		return []byte{0, 0, 0, ','}
	}
	return []byte{','}
}
