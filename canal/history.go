package canal

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Commit is an applied transaction.
type Commit struct {
	// GTID is the transaction's, in the server's form.
	GTID string
	// Committed is the source's time of the commit, of a precision of seconds on MariaDB; Applied is when it was applied here.
	Committed, Applied time.Time
}

// historySize is how many commits are remembered: about two megabytes.
const historySize = 1 << 14

// history remembers the last commits, by their sequence number. The zero value is empty. The tracker's lock guards it.
type history struct {
	records []pastCommit
	// epoch is that of all records.
	epoch uint16
}

type pastCommit struct {
	seq                uint64
	gtid               gtid
	committed, applied int64 // Unix nanoseconds; committed 0 where it is not known
}

func (h *history) add(epoch uint16, seq uint64, g gtid, committed, applied time.Time) {
	if h.records == nil {
		h.records = make([]pastCommit, historySize)
	}
	if h.epoch != epoch {
		clear(h.records)
		h.epoch = epoch
	}
	r := &h.records[seq%historySize]
	r.seq, r.gtid, r.applied, r.committed = seq, g, applied.UnixNano(), 0
	if !committed.IsZero() {
		r.committed = committed.UnixNano()
	}
}

func (h *history) find(version uint64) (c Commit, ok bool) {
	seq := version & (1<<48 - 1)
	if h.records == nil || seq == 0 || version != versionOf(h.epoch, seq) {
		return c, false
	}
	r := &h.records[seq%historySize]
	if r.seq != seq {
		return c, false
	}
	c = Commit{GTID: r.gtid.String(), Applied: time.Unix(0, r.applied)}
	if r.committed != 0 {
		c.Committed = time.Unix(0, r.committed)
	}
	return c, true
}

// String is the GTID in the server's own form.
func (g gtid) String() string {
	if g.sid == ([16]byte{}) {
		return g.maria.String()
	}
	tag := g.tag.String()
	if tag != "" {
		tag += ":"
	}
	return fmt.Sprintf("%s:%s%d", uuid.UUID(g.sid), tag, g.gno)
}

// Commit tells of the transaction with the version, if it is one of the last that were applied.
func (f *Follower) Commit(version uint64) (c Commit, ok bool) {
	f.pos.mu.Lock()
	defer f.pos.mu.Unlock()
	return f.pos.past.find(version)
}
