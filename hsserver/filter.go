package hsserver

import (
	"bytes"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// filterOp is the comparison of a filter.
type filterOp uint8

const (
	filterAlways filterOp = iota // unknown, of no character or of several
	filterNever                  // unknown, of one character or of two with = as the second
	filterEQ
	filterNE
	filterLT
	filterLE
	filterGT
	filterGE
)

func filterOperator(tok []byte) filterOp {
	switch string(tok) {
	case "=":
		return filterEQ
	case "!=":
		return filterNE
	case "<":
		return filterLT
	case "<=":
		return filterLE
	case ">":
		return filterGT
	case ">=":
		return filterGE
	}
	if len(tok) == 1 || len(tok) == 2 && tok[1] == '=' {
		return filterNever
	}
	return filterAlways
}

// holds tells the result of a comparison, which is below, at or above 0.
func (op filterOp) holds(cmp int) bool {
	switch op {
	case filterEQ:
		return cmp == 0
	case filterNE:
		return cmp != 0
	case filterLT:
		return cmp < 0
	case filterLE:
		return cmp <= 0
	case filterGT:
		return cmp > 0
	case filterGE:
		return cmp >= 0
	default:
		return op == filterAlways
	}
}

// compares reports that the operator looks at the values.
func (op filterOp) compares() bool { return op != filterAlways && op != filterNever }

// prepareFilters makes the filters of a request ready for the definition of ix. keys is memory for them, which is
// returned.
func prepareFilters(filters []filter, ix *openIndex, keys []byte) ([]byte, failure) {
	keys = keys[:0]
	for i := range filters {
		f := &filters[i]
		f.key = nil
		column := ix.filterAt[f.field]
		if f.value == nil {
			continue
		}
		if unfilterable(ix.def.Columns[column].Kind) {
			return keys, failFilterBlob
		}
		if !f.op.compares() {
			continue
		}
		enc := ix.comparer(f.field)
		if enc == nil {
			return keys, failFilterField
		}
		start := len(keys)
		values := [1][]byte{f.value}
		var err error
		if keys, err = enc.AppendValues(keys, values[:]); err != nil {
			return keys[:start], failFilterField
		}
		f.key = keys[start:len(keys):len(keys)]
	}
	return keys, ""
}

// unfilterable reports that the server keeps such a column outside the row, and the plugin so refused to compare it.
func unfilterable(k schema.Kind) bool {
	switch k {
	case schema.KindText, schema.KindBlob, schema.KindJSON, schema.KindGeometry, schema.KindVector:
		return true
	}
	return false
}

// filterResult says what becomes of a row.
type filterResult uint8

const (
	filterPass filterResult = iota
	filterSkip
	filterEnd
	filterError // the row's value can't be compared
)

// filter looks at one row.
func (a *answer) filter(row rowcodec.Row) filterResult {
	for i := range a.filters {
		f := &a.filters[i]
		cmp := 0
		if f.op.compares() {
			switch _, null := row.Value(a.ix.filterAt[f.field]); {
			case null && f.value == nil:
			case null: // it is smaller than every value
				cmp = -1
			case f.value == nil:
				cmp = 1
			default:
				key, err := a.ix.comparer(f.field).AppendRow(a.rowKey[:0], row)
				if err != nil {
					return filterError
				}
				a.rowKey = key
				cmp = bytes.Compare(key, f.key)
			}
		}
		if !f.op.holds(cmp) {
			if f.ends {
				return filterEnd
			}
			return filterSkip
		}
	}
	return filterPass
}
