package mcserver

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// The age of answers, as clients ask for it in mg: Lage shows it, Lage=500 bounds it as well. L is one of the two letters
// that memcached takes with any argument, does nothing with, and leaves out of its answers, for proxies and clients to agree on
// what they mean. So a request with it does no harm elsewhere, and an answer without it says that the age is not known.

// ErrUnavailable is what a Table's SearchNewest, or Reader.Open, returns (wrapped or not) when the database can't be
// asked at present.
var ErrUnavailable = errors.New("the database can't be asked")

// Aged is a Table that knows how old its answers are. Of one that is not Aged no memory is new enough for any bound. Its methods
// are called from many goroutines at once.
type Aged interface {
	// MemoryAge is how old memory's picture of the database is at most; not known before the database was reached once. It
	// does no I/O.
	MemoryAge() (age time.Duration, known bool)
	// WantAge tells that somebody wants answers that are not older than bound. It must be quick.
	WantAge(bound time.Duration)
	// SearchNewest is SearchDatabase for what is committed in the database when the search begins, or later.
	SearchNewest(ctx context.Context, s *schema.Search, emit func(row rowcodec.Row) bool) error
	// Trace tells where a row came from that SearchMemory has given for the definition def, with its version.
	Trace(def *schema.Table, row rowcodec.Row, version uint64) Trace
}

// Trace is how a row came into memory.
type Trace struct {
	// Origin is one word; "unknown" when memory has another version by now.
	Origin string
	// Applied is when the transaction was applied that wrote the row, or up to which it was read; zero when that is not remembered.
	Applied time.Time
}

// The origins of rows that are not in memory, and of those that were replaced while they were looked at.
const (
	originDatabase = "database"
	originUnknown  = "unknown"
)

// ageArg begins the argument of the flag L when it is meant for this server; everything else in it is somebody else's.
const ageArg = "age"

// maxAgeBound is more than the age of anything.
const maxAgeBound = uint64(100 * 365 * 24 * time.Hour / time.Millisecond)

// ageRequest is what a meta request says and learns about age. Ages are in milliseconds, rounded up.
type ageRequest struct {
	asked   bool // Lage
	bounded bool // Lage=
	bad     bool // Lage= and no number
	bound   int64
	// known tells that the answer is about a row; age is then that of the answer, or ageUnknown.
	known bool
	age   int64
}

// ageUnknown is the age that is shown when nobody can say anything, not even that there is no row.
const ageUnknown = -1

// parse reads the argument of L.
func (a *ageRequest) parse(arg []byte) {
	rest, ok := bytes.CutPrefix(arg, []byte(ageArg))
	if !ok || len(rest) > 0 && rest[0] != '=' {
		return
	}
	a.asked = true
	if len(rest) == 0 {
		return
	}
	a.bounded = true
	n, ok := parseUint(rest[1:])
	a.bad, a.bound = !ok, int64(min(n, maxAgeBound))
}

// append appends the flag that shows the age, if it was asked for and there is one.
func (a *ageRequest) append(out []byte) []byte {
	if !a.asked || !a.known {
		return out
	}
	return strconv.AppendInt(append(out, " Lage="...), a.age, 10)
}

// asksAge tells that the request at hand wants to know how old its answer is, or has a bound for that.
func (s *session) asksAge() bool {
	return s.r.form == formMeta && s.meta.age.asked || s.r.form == formDebug
}

// agedMemory notes the age of what memory will answer for b, and tells whether that is new enough for the request at hand.
func (s *session) agedMemory(b *binding) bool {
	a := &s.meta.age
	a.known, a.age = true, ageUnknown
	if b.aged == nil {
		return !a.bounded
	}
	if a.bounded {
		b.aged.WantAge(time.Duration(a.bound) * time.Millisecond)
	}
	if age, known := b.aged.MemoryAge(); known {
		a.age = int64(age/time.Millisecond) + 1
	}
	return !a.bounded || a.age != ageUnknown && a.age <= a.bound
}

// metaFailed answers mg or me after a look-up that has failed. Where the request has a bound and the database can't be asked, that
// is a miss of which nobody says that there is no row; q does not hide it.
func (s *session) metaFailed() {
	a := &s.meta.age
	if !a.bounded || !s.unavailable || s.cmd != cmdMetaGet || s.meta.touch {
		s.serverError()
		return
	}
	s.count.add(s.cmd, resultServerError)
	a.known, a.age = true, ageUnknown
	s.r.out = s.meta.appendMiss(s.r.out)
}

// searchAged asks the database on behalf of a request that wants to know how old its answer is: not older than the
// request.
func (s *session) searchAged(ctx context.Context, b *binding) error {
	s.meta.age.age = 0
	if b.aged == nil {
		return b.table.SearchDatabase(ctx, &s.search, s.emitOnly)
	}
	return b.aged.SearchNewest(ctx, &s.search, s.emitOnly)
}

// traced is what me has shown: a row, or something else.
type traced struct {
	row     bool
	version uint64
	// copied is the row, where it came from memory: the table is asked about it when its lock is free again.
	copied rowcodec.Row
}

func (t *traced) take(row rowcodec.Row, version uint64) {
	t.row, t.version = true, version
	if version != 0 {
		t.copied = append(rowcodec.Row{}, row...)
	}
}

// appendTrace ends the line that me writes of a row: with its version, where it came from, how old the answer is at most, and how
// long ago the row was applied.
func (s *session) appendTrace() {
	r, b := &s.r, s.r.b
	t := r.traced
	r.traced = traced{}
	tr := Trace{Origin: originDatabase}
	if t.version != 0 {
		tr.Origin = originUnknown
		if b.aged != nil {
			tr = b.aged.Trace(b.def, t.copied, t.version)
		}
	}
	r.out = strconv.AppendUint(append(r.out, " version="...), t.version, 10)
	r.out = append(append(r.out, " origin="...), tr.Origin...)
	r.out = strconv.AppendInt(append(r.out, " age="...), s.meta.age.age, 10)
	applied := int64(-1)
	if !tr.Applied.IsZero() {
		applied = max(time.Since(tr.Applied).Milliseconds(), 0)
	}
	r.out = strconv.AppendInt(append(r.out, " applied="...), applied, 10)
	s.text("")
}
