package cache

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// mostPasts bounds what a loadCheck remembers, in changes.
const mostPasts = 10_000

// loadCheck finds changes that are not in the log while a table is loading. What has been installed can be compared with
// before-images at once. Rows that were read and are not installed yet can't: so what the log says of them is remembered,
// and when the piece is installed each row, and each absence, must be what the log says of some time between the piece's
// low and high marks. What it cannot tell from a logged change by itself is an unlogged one in that time that the log then
// takes back: an insert whose row it deletes.
//
// The table's lock protects it.
type loadCheck struct {
	seed  maphash.Seed
	pasts map[string]*past // by key, of keys beyond passed
	count int              // of before-images in pasts
	size  int64            // bytes of pasts
	lost  uint64           // changes up to this version may be missing in pasts: there were too many

	last   []byte // key of the last row that Install was given; nil for none
	passed []byte // all rows up to this key are there; nil for none
	low    uint64 // of the last piece, with high
	high   uint64
}

// past is what the log has said of one key.
type past struct {
	befores []before // in the order of their versions
	read    bool     // a SELECT has given the row
}

// before is a row as it was before the change with that version.
type before struct {
	version uint64
	row     uint64 // its hash; 0 for no row
}

func newLoadCheck() loadCheck {
	return loadCheck{seed: maphash.MakeSeed(), pasts: map[string]*past{}}
}

func (l *loadCheck) hash(row rowcodec.Row) uint64 {
	if row == nil {
		return 0
	}
	return max(maphash.Bytes(l.seed, row), 1)
}

// isPassed tells whether the rows up to key are there.
func (l *loadCheck) isPassed(key []byte) bool {
	return l.passed != nil && bytes.Compare(key, l.passed) <= 0
}

// note remembers that the log has changed the row under key, which was row; nil for none. read says that it was installed.
func (l *loadCheck) note(key []byte, row rowcodec.Row, read bool, version uint64) {
	if l.isPassed(key) {
		return
	}
	if l.count >= mostPasts {
		l.forget()
		l.lost = version
	}
	p := l.pasts[string(key)]
	if p == nil {
		p = &past{}
		l.pasts[string(key)] = p
		l.size += markOverhead + int64(len(key))
	}
	p.read = p.read || read
	p.befores = append(p.befores, before{version, l.hash(row)})
	l.count++
	l.size += beforeBytes
}

// beforeBytes is what a before takes, with the room for more of its slice.
const beforeBytes = 32

// forget ends what is remembered of changes.
func (l *loadCheck) forget() { l.pasts, l.count, l.size = map[string]*past{}, 0, 0 }

// drop forgets the changes of a key up to a version.
func (l *loadCheck) drop(key string, p *past, version uint64) {
	n := 0
	for n < len(p.befores) && p.befores[n].version <= version {
		n++
	}
	l.count -= n
	l.size -= int64(n) * beforeBytes
	if p.befores = p.befores[n:]; len(p.befores) == 0 {
		delete(l.pasts, key)
		l.size -= markOverhead + int64(len(key))
	}
}

// since returns the changes after the version low.
func (p *past) since(low uint64) []before {
	n := len(p.befores)
	for n > 0 && p.befores[n-1].version > low {
		n--
	}
	return p.befores[n:]
}

// couldBe tells whether a SELECT that saw all changes up to low and none beyond high can have seen row, where now is the
// present one; both as hashes.
func (p *past) couldBe(row, now, low, high uint64) bool {
	for _, b := range p.since(low) {
		if b.row == row {
			return true
		}
		if b.version > high {
			return false
		}
	}
	return now == row
}

// present returns the hash of the row under a key.
func (g *Generation) present(key []byte) uint64 {
	id, ok := g.key.get(key)
	if !ok {
		return 0
	}
	row, _ := g.log.get(id)
	return g.check.hash(row)
}

// checkRead tells whether the row of a key can have been read by a SELECT that saw all changes up to low and
// none beyond high. What it differs in from what was there up to low is no matter: it takes that row's place.
func (g *Generation) checkRead(key []byte, row rowcodec.Row, low, high uint64) error {
	l := &g.check
	p := l.pasts[string(key)]
	if p == nil {
		return nil
	}
	p.read = true
	if low < l.lost || len(p.since(low)) == 0 || p.couldBe(l.hash(row), g.present(key), low, high) {
		return nil
	}
	return fmt.Errorf("%w: a row was read that the log does not know", ErrGap)
}

// checkUnread tells whether the keys up to the last one that was installed, or all, whose rows were not read, can have had
// none, and forgets what is no longer needed of them.
func (g *Generation) checkUnread(low, high uint64, all bool) error {
	l := &g.check
	for key, p := range l.pasts {
		if !all && (l.last == nil || key > string(l.last)) {
			l.drop(key, p, low)
			continue
		}
		if !p.read && low >= l.lost && !p.couldBe(0, g.present([]byte(key)), low, high) {
			return fmt.Errorf("%w: a row was not read that the log knows", ErrGap)
		}
		l.drop(key, p, math.MaxUint64)
	}
	l.low, l.high, l.passed = low, high, append(l.passed[:0], l.last...)
	return nil
}

// PieceDone ends a piece of a snapshot, which a SELECT gave that saw all changes up to low and none beyond high: the rows
// up to the last one that Install was given are all there, and no Install with a lower low will come. Where Install is
// given rows in another order than the key's, the whole table is one piece. After an error, ErrGap where the rows and the
// log do not agree, the table is suspended and the Generation stale.
func (g *Generation) PieceDone(low, high uint64) error {
	if err := g.enter("end a piece of"); err != nil {
		return err
	}
	t := g.table
	defer t.unlock()
	if err := g.checkUnread(low, high, false); err != nil {
		err = fmt.Errorf("end a piece of %s: %w", t.fullName, err)
		t.move(StateSuspended, err.Error())
		return err
	}
	g.purgeMarks(low)
	g.countMemory()
	return nil
}
