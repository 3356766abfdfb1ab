package schema

// Op is the comparison of an ordered search: the operators of the HandlerSocket protocol.
type Op uint8

// The search operators, with the walks and starting points of the HandlerSocket protocol: OpEQ, OpGT and OpGE walk up
// the index, OpLT and OpLE walk down.
const (
	OpEQ Op = iota // the rows whose prefix equals the values
	OpGT           // starts after all of those
	OpGE           // starts at the first of them
	OpLT           // starts before the first of them
	OpLE           // starts at the last of them
)

// Search is one ordered search over an index.
type Search struct {
	// Def is the definition that the positions below belong to. A table whose definition is another one by now does not
	// answer.
	Def   *Table
	Index int // position in Def.Indexes
	Op    Op
	// Values are the texts of the first index parts, at least one, in the columns' character sets; nil is NULL.
	Values [][]byte
	// Columns are the positions that the caller will look at; nil means all. Others may come back as NULL.
	Columns []int
	// Limit is the largest number of rows to give; 0 or less means no limit. Offset rows are passed over first.
	Limit, Offset int
}
