package canal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	// ErrStopped is given by WaitApplied when the follower has ended.
	ErrStopped = errors.New("the follower has stopped")

	// errMoved ends waits for a place in a log that is no longer followed: start again with a new place.
	errMoved = errors.New("the source's log is another one now")
)

// coordinate is a place in the source's log, after an event. The zero value is unknown: before everything.
type coordinate struct {
	file string
	pos  uint64
}

func (c coordinate) String() string {
	if c.file == "" {
		return "unknown"
	}
	return c.file + ":" + strconv.FormatUint(c.pos, 10)
}

// fileNumber splits "binlog.000042".
func fileNumber(file string) (base string, n uint64) {
	dot := strings.LastIndexByte(file, '.')
	if dot < 0 {
		return file, 0
	}
	n, err := strconv.ParseUint(file[dot+1:], 10, 64)
	if err != nil {
		return file, 0
	}
	return file[:dot], n
}

// compare orders two places of one log. ok is false where they have no order: the log's files were renamed.
func (c coordinate) compare(o coordinate) (order int, ok bool) {
	if c.file != o.file {
		base, n := fileNumber(c.file)
		otherBase, otherN := fileNumber(o.file)
		if base != otherBase {
			return 0, false
		}
		if n != otherN {
			return compare(n, otherN), true
		}
	}
	return compare(c.pos, o.pos), true
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// mark is a point of the applied order: everything up to seq has been given to the Sink or was there at the start.
type mark struct {
	seq     uint64
	version uint64
	at      coordinate // not before the end of all that
	applied string     // the GTID set
}

// Position says how far the follower has applied the source's log.
type Position struct {
	// GTID is the set of applied transactions (MySQL), or the last of each domain (MariaDB).
	GTID string
	// File and Pos are the place in the source's log up to which everything is applied. File is empty before the source
	// has told it.
	File string
	Pos  uint64
	// Seq counts commits since the process started; Version is the version of rows written by the last one.
	Seq, Version uint64
}

// tracker knows what has been applied, and wakes those who wait for it. It moves at the end of transactions only, and
// only forward. It may be used by many goroutines; the stream alone moves it.
type tracker struct {
	mu      sync.Mutex
	epoch   uint16
	seq     uint64
	applied gtidSet
	at      coordinate
	// origins is what was applied by who wrote it; MariaDB only.
	origins origins
	// floor is a place not before the end of what the start of the epoch stands for.
	floor coordinate
	// committed is the source's time of the last applied commit; zero before the first.
	committed time.Time
	past      history
	// madeFile is the log file that was begun last, madeAt when the source made it, by its clock.
	madeFile string
	madeAt   uint32
	bySet    []*setWaiter
	byPlace  []*placeWaiter
	closed   bool
}

type setWaiter struct {
	set  gtidSet
	done chan struct{}
}

type placeWaiter struct {
	at   coordinate
	err  error // set before done is closed
	done chan struct{}
}

// versionOf puts the epoch above the sequence number, so that no version comes twice.
func versionOf(epoch uint16, seq uint64) uint64 { return uint64(epoch)<<48 | seq&(1<<48-1) }

func (t *tracker) mark() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.at
	if order, ok := at.compare(t.floor); at.file == "" || ok && order < 0 {
		at = t.floor
	}
	return mark{seq: t.seq, version: versionOf(t.epoch, t.seq), at: at, applied: t.applied.String()}
}

func (t *tracker) position() Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Position{
		GTID: t.applied.String(), File: t.at.file, Pos: t.at.pos, Seq: t.seq, Version: versionOf(t.epoch, t.seq),
	}
}

func (t *tracker) set() gtidSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.applied.clone()
}

// state gives the applied set and the place in the log up to which it reaches.
func (t *tracker) state() (applied gtidSet, at coordinate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.applied.clone(), t.at
}

// seen gives what was applied, by origin; MariaDB only.
func (t *tracker) seen() origins {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.origins)
}

func (t *tracker) contains(g gtid) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.applied.contains(g)
}

// next gives the sequence number and version of the commit that is about to be applied.
func (t *tracker) next() (seq, version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq + 1, versionOf(t.epoch, t.seq+1)
}

// commit records that the transaction g, which ends at the place end, has been applied whole.
func (t *tracker) commit(g gtid, end coordinate, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	t.applied.add(g)
	if t.applied.maria != nil {
		t.origins.add(g.maria)
	}
	t.committed = at
	t.past.add(t.epoch, t.seq, g, at, time.Now())
	t.bySet = slices.DeleteFunc(t.bySet, func(w *setWaiter) bool {
		if !g.touches(w.set) || !t.applied.containsAll(w.set) {
			return false
		}
		close(w.done)
		return true
	})
	t.forward(end)
}

// advance records that nothing is left to apply before the place end.
func (t *tracker) advance(end coordinate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forward(end)
}

// forward moves the place, never back: after a reconnect the source shows a file from its start. Guarded by mu.
func (t *tracker) forward(end coordinate) {
	if t.at.file != "" {
		order, ok := end.compare(t.at)
		if !ok {
			t.jump(end)
			return
		}
		if order <= 0 {
			return
		}
	}
	t.at = end
	t.wakePlaces()
}

func (t *tracker) wakePlaces() {
	t.byPlace = slices.DeleteFunc(t.byPlace, func(w *placeWaiter) bool {
		reached, err := t.reached(w.at)
		if !reached && err == nil {
			return false
		}
		w.err = err
		close(w.done)
		return true
	})
}

// reached reports that everything before the place at is applied. Guarded by mu.
func (t *tracker) reached(at coordinate) (bool, error) {
	switch {
	case t.at.file == "":
		return false, nil
	case at.file == "":
		return true, nil
	}
	order, ok := t.at.compare(at)
	if !ok {
		return false, errMoved
	}
	return order >= 0, nil
}

// jump moves to a place of another log. Guarded by mu.
func (t *tracker) jump(to coordinate) {
	t.at = to
	for _, w := range t.byPlace {
		w.err = errMoved
		close(w.done)
	}
	t.byPlace = nil
}

// leave forgets the place because the log is another server's from now on, where what was applied ends before the place
// floor; the GTIDs stay.
func (t *tracker) leave(floor coordinate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jump(coordinate{})
	t.floor = floor
}

// reset starts a new epoch: from now on everything counts as applied that is in set, which ends before the place floor
// in the source's log, and at the place at where that is known. state is what a MariaDB server's log has had by then.
func (t *tracker) reset(set gtidSet, state binlogState, at, floor coordinate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	t.applied = set.clone()
	t.origins = originsOf(state)
	t.jump(at)
	t.floor = floor
	t.bySet = slices.DeleteFunc(t.bySet, func(w *setWaiter) bool {
		if !t.applied.containsAll(w.set) {
			return false
		}
		close(w.done)
		return true
	})
}

// describe notes when a log file was made.
func (t *tracker) describe(file string, at uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.madeFile, t.madeAt = file, at
}

// savePoint gives the present place, but for the server.
func (t *tracker) savePoint() SavePoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := SavePoint{GTID: t.applied.String(), File: t.at.file, Pos: t.at.pos, Epoch: t.epoch, Origins: t.origins.String()}
	if t.madeFile == t.at.file {
		s.Made = t.madeAt
	}
	return s
}

// epochNow returns the epoch of the versions that are given at present.
func (t *tracker) epochNow() uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch
}

// waitSet returns when all of set has been applied.
func (t *tracker) waitSet(ctx context.Context, set gtidSet) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return ErrStopped
	}
	if t.applied.containsAll(set) {
		t.mu.Unlock()
		return nil
	}
	w := &setWaiter{set: set, done: make(chan struct{})}
	t.bySet = append(t.bySet, w)
	t.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.bySet, w)
	if i >= 0 {
		t.bySet = slices.Delete(t.bySet, i, i+1)
	}
	select {
	case <-w.done:
		if t.closed && !t.applied.containsAll(set) {
			return ErrStopped
		}
		return nil
	default:
		return fmt.Errorf("wait for %.200s to be applied: %w", set, context.Cause(ctx))
	}
}

// waitPlace returns when everything before the place at has been applied; the zero place is reached as soon as any place
// is known. The error is errMoved when that log is no longer followed.
func (t *tracker) waitPlace(ctx context.Context, at coordinate) error {
	t.mu.Lock()
	if reached, err := t.reached(at); reached || err != nil {
		t.mu.Unlock()
		return err
	}
	w := &placeWaiter{at: at, done: make(chan struct{})}
	t.byPlace = append(t.byPlace, w)
	t.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.byPlace, w); i >= 0 {
		t.byPlace = slices.Delete(t.byPlace, i, i+1)
	}
	return context.Cause(ctx)
}

// close ends all waits.
func (t *tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, w := range t.bySet {
		close(w.done)
	}
	t.bySet = nil
	t.jump(t.at)
}

// lastCommit gives the source's time of the last applied commit.
func (t *tracker) lastCommit() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.committed
}
