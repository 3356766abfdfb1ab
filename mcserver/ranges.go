package mcserver

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// rangeEnd is one end of a range.
type rangeEnd struct {
	given bool
	equal bool // the end itself belongs to the range
	key   []byte
}

// parseRange reads @>k, @>=k, @<k, @<=k, or two of them with opposite directions. What follows the second belongs to
// its key.
func parseRange(text []byte) (lower, upper rangeEnd) {
	first, second := &lower, &upper
	other := "@<"
	if text[1] == '<' {
		first, second = second, first
		other = "@>"
	}
	text = first.operator(text)
	if i := bytes.Index(text, []byte(other)); i >= 0 {
		first.key = text[:i]
		second.key = second.operator(text[i:])
		return lower, upper
	}
	first.key = text
	return lower, upper
}

// operator takes the operator that text begins with.
func (e *rangeEnd) operator(text []byte) []byte {
	e.given = true
	text = text[2:]
	if len(text) > 0 && text[0] == '=' {
		e.equal = true
		text = text[1:]
	}
	return text
}

// findRange answers a range: a VALUE for each of its rows with the row's own key, in the order of the key, without those
// whose time is over.
func (s *session) findRange(ctx context.Context, text []byte) outcome {
	r := &s.r
	start := len(r.out)
	for attempt := 0; ; attempt++ {
		b, err := s.at.bound()
		if err != nil {
			if b, err = s.server.reopen(ctx, s.at); err != nil {
				return s.failed(err)
			}
		}
		r.b = b
		o, err := s.walk(ctx, b, text)
		if err == nil {
			return o
		}
		r.out = r.out[:start]
		r.found = false
		if !errors.Is(err, ErrChanged) || attempt == reopenAttempts {
			return s.failed(err)
		}
		if _, err := s.server.reopen(ctx, s.at); err != nil {
			return s.failed(err)
		}
	}
}

// rangeWalk is one search for the rows of a range.
type rangeWalk struct {
	r *renderer
	// down: the rows come from the upper end, and their answers are turned round in the end.
	down  bool
	marks []int // where the answer of each row begins
	// stop is the encoded upper end of a walk up; nil for none. The rows whose key is not below it, or with stopAfter
	// those above it, end the walk.
	stop      []byte
	stopAfter bool
	keyBuf    []byte
	start     int
	failure   string // what ends the range, in words for the client; empty while nothing does
	err       error
}

// walk searches one range over b. The error is that of the search.
func (s *session) walk(ctx context.Context, b *binding, text []byte) (outcome, error) {
	lower, upper := parseRange(text)
	if b.def.Indexes[b.index].Parts[0].Desc {
		s.failure = errRangeDescending
		return outcomeFailed, nil
	}
	var values [2][]byte
	empty := false
	for i, e := range []*rangeEnd{&lower, &upper} {
		if !e.given {
			continue
		}
		var scratch []byte
		v, fit := b.keyCheck.value(e.key, false, &scratch)
		values[i] = v
		isLower := i == 0
		switch fit {
		case fitsNothing:
			// Neither below nor above anything in the column.
			empty = true
		case fitsCut:
			// The end lies between this value and all that are greater.
			e.equal = !isLower
		case fitsBelow:
			e.given = false
			empty = empty || !isLower
		case fitsAbove:
			e.given = false
			empty = empty || isLower
		}
	}
	if empty {
		return outcomeMiss, nil
	}
	w := &rangeWalk{r: &s.r, start: len(s.r.out)}
	search := &schema.Search{Def: b.def, Index: b.index, Columns: b.columns}
	switch {
	case lower.given:
		search.Op, search.Values = schema.OpGT, values[:1]
		if lower.equal {
			search.Op = schema.OpGE
		}
		if upper.given {
			if b.encoder == nil {
				s.failure = errRangeUnordered
				return outcomeFailed, nil
			}
			stop, err := b.encoder.AppendValues(nil, values[1:])
			if err != nil {
				s.failure = errRangeUnordered
				return outcomeFailed, nil
			}
			w.stop, w.stopAfter = stop, upper.equal
		}
	case upper.given:
		w.down = true
		search.Op, search.Values = schema.OpLT, values[1:]
		if upper.equal {
			search.Op = schema.OpLE
		}
	default:
		// Everything: both ends lie beyond the column's numbers.
		search.Op, search.Values = schema.OpGE, [][]byte{strconv.AppendInt(nil, b.keyCheck.min, 10)}
	}
	served, err := b.table.SearchMemory(search, w.emit)
	if err == nil && !served {
		err = b.table.SearchDatabase(ctx, search, func(row rowcodec.Row) bool { return w.emit(row, 0) })
	}
	if err == nil {
		err = w.err
	}
	if err != nil {
		return outcomeFailed, err
	}
	if w.failure != "" {
		s.r.out = s.r.out[:w.start]
		s.failure = w.failure
		return outcomeFailed, nil
	}
	if w.down {
		w.turn()
	}
	if len(w.marks) == 0 {
		return outcomeMiss, nil
	}
	s.r.found = true
	return outcomeHit, nil
}

// sendable reports that the text protocol can carry the key: another would be read as something else in the answer.
func sendable(key []byte) bool {
	for _, c := range key {
		if c == ' ' || c == '\r' || c == '\n' {
			return false
		}
	}
	return len(key) > 0 && len(key) <= maxKeyBytes
}

// emit takes one row of the walk.
func (w *rangeWalk) emit(row rowcodec.Row, version uint64) bool {
	r, b := w.r, w.r.b
	key, null := row.Value(b.key)
	if null {
		return true // a row without a key is in no range
	}
	if w.stop != nil {
		if w.keyBuf, w.err = b.encoder.AppendRow(w.keyBuf[:0], row); w.err != nil {
			return false
		}
		if c := bytes.Compare(w.keyBuf, w.stop); c > 0 || c == 0 && !w.stopAfter {
			return false
		}
	}
	it, live := r.read(row, version)
	if !live {
		return true
	}
	if !sendable(key) {
		w.failure = errRangeKey
		return false
	}
	w.marks = append(w.marks, len(r.out))
	if b.def.Columns[b.key].Kind == schema.KindInt {
		for len(key) > 1 && key[0] == '0' { // ZEROFILL
			key = key[1:]
		}
	}
	r.key = key
	r.write(row, it)
	if len(r.out)-w.start > maxRangeBytes {
		w.failure = errRangeTooLong
	}
	return w.failure == ""
}

// turn puts the answers of the rows into the opposite order.
func (w *rangeWalk) turn() {
	down := append([]byte(nil), w.r.out[w.start:]...)
	out := w.r.out[:w.start]
	end := len(w.r.out)
	for i := len(w.marks) - 1; i >= 0; i-- {
		out = append(out, down[w.marks[i]-w.start:end-w.start]...)
		end = w.marks[i]
	}
	w.r.out = out
}
