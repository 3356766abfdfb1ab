package writeback

import (
	"fmt"
	"strconv"

	"github.com/binlogcache/binlogcache/schema"
)

// Values go into statements as literals of schema.AppendLiteral, each of which is one literal whatever its bytes are: hex
// strings with the column's character set, or numbers and dates that were checked character by character. Parameters of
// prepared statements would be as safe, but can't be sent for several statements in one round trip.

func appendTable(dst []byte, def *schema.Table) []byte {
	dst = schema.AppendName(dst, def.Schema)
	dst = append(dst, '.')
	return schema.AppendName(dst, def.Name)
}

// lastOnly reports that no later assignment is to the same column.
func lastOnly(set []schema.Assignment, i int) bool {
	for _, later := range set[i+1:] {
		if later.Column == set[i].Column {
			return false
		}
	}
	return true
}

// appendInsert appends the statement, and tells where in it the values are and whether the server makes the AUTO_INCREMENT
// value.
func appendInsert(dst []byte, c *schema.Change) (out []byte, values span, generated bool) {
	for i := range c.Def.Columns {
		generated = generated || c.Def.Columns[i].AutoIncrement
	}
	dst = append(dst, "INSERT INTO "...)
	dst = appendTable(dst, c.Def)
	dst = append(dst, " ("...)
	sep := ""
	for i, a := range c.Set {
		if lastOnly(c.Set, i) {
			dst = append(dst, sep...)
			sep = ","
			dst = schema.AppendName(dst, c.Def.Columns[a.Column].Name)
		}
	}
	dst = append(dst, ") VALUES ("...)
	values.from = len(dst)
	sep = ""
	for i, a := range c.Set {
		if !lastOnly(c.Set, i) {
			continue
		}
		dst = append(dst, sep...)
		sep = ","
		column, v := &c.Def.Columns[a.Column], a.Value
		if column.AutoIncrement {
			// The empty text is no number, but the way of some clients to ask for the next one.
			if len(v) == 0 {
				v = nil
			}
			generated = v == nil || isZero(v)
		}
		dst = schema.AppendLiteral(dst, column, v)
	}
	values.to = len(dst)
	dst = append(dst, ')')
	if c.Kind == schema.ChangeUpsert {
		dst = appendInstead(dst, c)
	}
	return dst, values, generated
}

// appendInstead appends what is done where the key of an insert is there already. VALUES of that place is the one form that
// both servers know.
func appendInstead(dst []byte, c *schema.Change) []byte {
	isKey := func(column int) bool {
		for _, p := range c.Def.Indexes[c.Index].Parts {
			if p.Column == column {
				return true
			}
		}
		return false
	}
	sep := " ON DUPLICATE KEY UPDATE "
	for i, a := range c.Set {
		if !lastOnly(c.Set, i) || isKey(a.Column) && !c.Rekey {
			continue
		}
		name := schema.QuoteName(c.Def.Columns[a.Column].Name)
		dst = append(append(dst, sep...), name...)
		dst = append(append(append(dst, " = VALUES("...), name...), ')')
		sep = ", "
	}
	return dst
}

// isZero reports that a number is zero, which makes the server take the next AUTO_INCREMENT value.
func isZero(v []byte) bool {
	f, err := strconv.ParseFloat(string(v), 64)
	return err == nil && f > -0.5 && f < 0.5 // it is rounded
}

// keeps reports that an assignment gives a column the value that it has, as part of the key by which the row is found.
// Clients set all columns that they have opened, and the servers take a longer way when the column that they search by
// is set. It is certain for whole numbers spelled in the same way; equal texts may stand for other spellings.
func keeps(def *schema.Table, index int, key [][]byte, a schema.Assignment) bool {
	if index < 0 || def.Columns[a.Column].Kind != schema.KindInt {
		return false
	}
	for i, p := range def.Indexes[index].Parts {
		if p.Column == a.Column {
			return i < len(key) && key[i] != nil && isWhole(a.Value) && string(key[i]) == string(a.Value)
		}
	}
	return false
}

func isWhole(v []byte) bool {
	for i, b := range v {
		if (b < '0' || b > '9') && (b != '-' || i > 0) {
			return false
		}
	}
	return len(v) > 0 && len(v) < 19 // else it may be out of range
}

// appendChange appends the statement of an update or delete of the one row that the WHERE clause finds, by that key.
// changes is false when there is nothing to change. f, which may be nil, gets the places of its values.
func appendChange(dst []byte, c *schema.Change, where []byte, index int, key [][]byte, f *form) (out []byte, changes bool, err error) {
	if c.Kind == schema.ChangeDelete {
		dst = append(dst, "DELETE FROM "...)
		dst = appendTable(dst, c.Def)
		dst = append(dst, where...)
		return append(dst, " LIMIT 1"...), true, nil
	}
	start := len(dst)
	dst = append(dst, "UPDATE "...)
	dst = appendTable(dst, c.Def)
	set := len(dst)
	sep := " SET "
	var guards []byte
	for i, a := range c.Set {
		column := &c.Def.Columns[a.Column]
		if !lastOnly(c.Set, i) || a.Value == nil && c.Kind != schema.ChangeUpdate {
			continue
		}
		if c.Kind == schema.ChangeUpdate && keeps(c.Def, index, key, a) {
			continue
		}
		dst = append(dst, sep...)
		sep = ", "
		dst = schema.AppendName(dst, column.Name)
		dst = append(dst, " = "...)
		if c.Kind == schema.ChangeUpdate {
			from := len(dst)
			dst = schema.AppendLiteral(dst, column, a.Value)
			if f != nil {
				f.cases = append(f.cases, span{from, len(dst)})
			}
			continue
		}
		o, err := newOperand(column, a.Value)
		if err != nil {
			return dst[:start], false, err
		}
		dst = append(dst, o.expr...)
		if c.Kind == schema.ChangeAdd {
			dst = append(dst, " + ("...)
		} else {
			dst = append(dst, " - ("...)
			guards = o.appendGuard(guards)
		}
		from := len(dst)
		dst = append(dst, o.number...)
		if f != nil {
			f.cases = append(f.cases, span{from, len(dst)})
		}
		dst = append(dst, ')')
	}
	if sep == " SET " {
		return dst[:start], false, nil
	}
	if f != nil {
		f.set, f.where = set, len(dst)
	}
	dst = append(dst, where...)
	dst = append(dst, guards...)
	return append(dst, " LIMIT 1"...), true, nil
}

// operand is what is added to a column.
type operand struct {
	expr   string // of the column
	number []byte // SQL
	sign   int
}

// newOperand reads an operand. Whole numbers are for all columns that hold numbers or texts, fractions for those that hold
// fractions. Texts are taken for the whole number that they spell, which the server checks.
func newOperand(column *schema.Column, v []byte) (operand, error) {
	o := operand{expr: schema.QuoteName(column.Name)}
	switch column.Kind {
	case schema.KindInt, schema.KindYear:
	case schema.KindDecimal, schema.KindFloat, schema.KindDouble:
		if f, err := strconv.ParseFloat(string(v), 64); err == nil && len(v) <= maxOperand && plainNumber(v) {
			o.number = v
			o.sign = sign(f)
			return o, nil
		}
		return o, badOperand(column)
	case schema.KindChar, schema.KindVarchar, schema.KindText:
		o.expr = "CAST(" + o.expr + " AS SIGNED)"
	default:
		return o, fmt.Errorf("column %s: %w", column.Name, ErrNoNumber)
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		o.number, o.sign = strconv.AppendInt(nil, n, 10), sign(float64(n))
		return o, nil
	}
	if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
		o.number, o.sign = strconv.AppendUint(nil, n, 10), 1
		return o, nil
	}
	return o, badOperand(column)
}

// maxOperand is longer than any number that the servers keep exactly.
const maxOperand = 100

// plainNumber refuses what ParseFloat takes and SQL does not: names of numbers, hexadecimals, underscores.
func plainNumber(v []byte) bool {
	for _, b := range v {
		if (b < '0' || b > '9') && b != '.' && b != '-' && b != '+' && b != 'e' && b != 'E' {
			return false
		}
	}
	return true
}

func sign(f float64) int {
	switch {
	case f > 0:
		return 1
	case f < 0:
		return -1
	}
	return 0
}

// badOperand is what a strict server says of a text for a number.
func badOperand(column *schema.Column) error {
	return &Refused{Number: codeNoNumber, Err: fmt.Errorf("operand for column %s is no number", column.Name)}
}

// appendGuard appends the condition that subtracting does not take the column from one side of zero to the other.
func (o *operand) appendGuard(dst []byte) []byte {
	var toZero, enough string
	switch o.sign {
	case 1:
		toZero, enough = " <= 0 OR ", " >= "
	case -1:
		toZero, enough = " >= 0 OR ", " <= "
	default:
		return dst
	}
	dst = append(dst, " AND ("...)
	dst = append(dst, o.expr...)
	dst = append(dst, " IS NULL OR "...)
	dst = append(dst, o.expr...)
	dst = append(dst, toZero...)
	dst = append(dst, o.expr...)
	dst = append(dst, enough...)
	dst = append(dst, o.number...)
	return append(dst, ')')
}

// appendRow appends the WHERE clause that finds one stored row by its key. The values must not be those of a FLOAT, whose
// text is not exact.
func appendRow(dst []byte, def *schema.Table, key [][]byte) []byte {
	where := " WHERE "
	for i, p := range def.Indexes[def.Key].Parts {
		column := &def.Columns[p.Column]
		dst = append(dst, where...)
		where = " AND "
		dst = schema.AppendName(dst, column.Name)
		dst = append(dst, " = "...)
		dst = schema.AppendLiteral(dst, column, key[i])
	}
	return dst
}

// namesRows reports that rows of the table can be told apart by appendRow.
func namesRows(def *schema.Table) bool {
	if def.Key < 0 {
		return false
	}
	for _, p := range def.Indexes[def.Key].Parts {
		if p.Column < 0 || p.Prefix > 0 || def.Columns[p.Column].Kind == schema.KindFloat {
			return false
		}
	}
	return true
}
