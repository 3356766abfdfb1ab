package schema

// ChangeKind says what a Change does to rows.
type ChangeKind uint8

// The kinds of changes.
const (
	ChangeInsert   ChangeKind = iota // a new row
	ChangeUpdate                     // columns become values
	ChangeDelete                     // the row goes
	ChangeAdd                        // values are added to columns; a column that is NULL stays so
	ChangeSubtract                   // likewise; a row of which a column would pass from one side of zero to the other stays as it is
	ChangeUpsert                     // a new row, or columns of the row that has its key become values
)

func (k ChangeKind) String() string {
	return [...]string{"insert", "update", "delete", "add", "subtract", "upsert"}[k]
}

// Assignment is a value for a column. It is the text of a request, in the column's character set; nil is NULL, which as
// an operand of ChangeAdd or ChangeSubtract leaves the column alone.
type Assignment struct {
	Column int // position in Table.Columns
	Value  []byte
}

// Change is a change of rows of one table, to be made in the database.
type Change struct {
	Kind ChangeKind
	// Def is the definition that the positions belong to.
	Def *Table
	// Set are the columns that get values; of several for one column the last counts. ChangeDelete needs none. The other
	// columns of an inserted row have their defaults, those of a row that is there keep what they have. ChangeUpsert has the
	// key's columns among them, which a row that is there keeps as well unless Rekey says otherwise.
	Set []Assignment
	// Key are the values of all parts of the unique index at position Index of Def.Indexes, as Search.Values are: the one
	// row to change. Inserts, and changes of rows that are searched for, have none. For ChangeUpsert it must be the table's
	// only unique index: the servers change the row that has any of the unique keys.
	Index int
	Key   [][]byte
	// Rekey has a ChangeUpsert set the key's columns of a row that is there as well: to another spelling of the key.
	Rekey bool
}

// For gives the same change for another definition of the table: by the names of columns and index. ok is false where one
// of them is gone, or the index does not tell rows apart by the same columns.
func (c *Change) For(def *Table) (out *Change, ok bool) {
	own := *c
	own.Def = def
	own.Set = make([]Assignment, len(c.Set))
	for i, a := range c.Set {
		column := def.ColumnIndex(c.Def.Columns[a.Column].Name)
		if column < 0 {
			return nil, false
		}
		own.Set[i] = Assignment{Column: column, Value: a.Value}
	}
	if len(c.Key) == 0 {
		return &own, true
	}
	was := &c.Def.Indexes[c.Index]
	own.Index = def.IndexByName(was.Name)
	if own.Index < 0 {
		return nil, false
	}
	is := &def.Indexes[own.Index]
	if !is.Unique || len(is.Parts) != len(was.Parts) {
		return nil, false
	}
	for i, p := range is.Parts {
		if p.Column < 0 || p.Prefix > 0 || def.Columns[p.Column].Name != c.Def.Columns[was.Parts[i].Column].Name {
			return nil, false
		}
	}
	return &own, true
}
