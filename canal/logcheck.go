package canal

import (
	"errors"

	"github.com/go-mysql-org/go-mysql/replication"
)

// errCounts is an event of which the parser would make room for more than can be in it.
var errCounts = errors.New("an event of the log claims more than it has")

// unpackedText is the size of a statement in an event that has it compressed; 0 where that can't be told.
func unpackedText(data []byte) (size uint64) {
	f := fields{rest: data[replication.EventHeaderSize:]}
	// Ids and times, then the lengths of the schema's name and of the variables, around the error.
	f.take(8)
	schema := f.length(1)
	f.take(2)
	f.take(f.length(2) + schema + 1)
	for _, c := range f.take(f.length(1) & 7) {
		size = size<<8 | uint64(c)
	}
	return size
}

// The fields of a table map that list the labels of SET and ENUM columns: a count for each column, then the labels.
const (
	setLabels  = 5
	enumLabels = 6
)

// checkTableMap looks at the counts in a table map for which the parser makes room before it looks for what is counted.
// Other nonsense makes the parser fail, and here counts as none.
func checkTableMap(data []byte) error {
	f := fields{rest: data[replication.EventHeaderSize:]}
	f.take(8) // id and flags
	for range 2 {
		f.take(f.length(1) + 1) // names of the schema and of the table, and a zero
	}
	f.take(f.integer()) // columns
	columns := f.taken
	f.take(f.integer()) // what is to be known of their types
	f.take((columns + 7) / 8)
	for !f.bad && len(f.rest) > 0 {
		kind := f.length(1)
		value := fields{rest: f.take(f.integer())}
		if f.bad || kind != setLabels && kind != enumLabels {
			continue
		}
		for !value.bad && len(value.rest) > 0 {
			labels := value.integer()
			if labels > len(value.rest) {
				return errCounts
			}
			for range labels {
				value.take(value.integer())
			}
		}
	}
	return nil
}

// fields reads what an event consists of. After the end of it, it is bad and gives nothing.
type fields struct {
	rest  []byte
	taken int // by the last take
	bad   bool
}

func (f *fields) take(n int) []byte {
	if f.bad || n < 0 || n > len(f.rest) {
		f.bad, f.taken = true, 0
		return nil
	}
	b := f.rest[:n]
	f.rest, f.taken = f.rest[n:], n
	return b
}

// length reads a length of so many bytes.
func (f *fields) length(size int) (n int) {
	for i, c := range f.take(size) {
		n |= int(c) << (8 * i)
	}
	return n
}

// integer reads an integer of variable length; 0 stands for none.
func (f *fields) integer() int {
	switch first := f.length(1); first {
	case 0xfb:
		return 0
	case 0xfc:
		return f.length(2)
	case 0xfd:
		return f.length(3)
	case 0xfe:
		return f.length(8)
	default:
		return first
	}
}
