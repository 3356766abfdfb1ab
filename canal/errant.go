package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// The log of another server can hold transactions, written there alone, before ones that were applied here. A stream
// that goes on by GTID brings them too late (MySQL) or not at all (MariaDB), so the tables would not become what they are
// on that server.
var errantLack = lack{reason: "the source has transactions of its own among those that were applied here"}

// origin is who wrote a transaction, of MariaDB.
type origin struct{ domain, server uint32 }

// origins are the last numbers of each.
type origins map[origin]uint64

func originsOf(state binlogState) origins {
	o := origins{}
	for _, g := range state {
		o.add(g)
	}
	return o
}

func (o origins) add(g mysql.MariadbGTID) { o[origin{g.DomainID, g.ServerID}] = g.SequenceNumber }

// String has the form of gtid_binlog_state.
func (o origins) String() string {
	var all []string
	for from, n := range o {
		all = append(all, fmt.Sprintf("%d-%d-%d", from.domain, from.server, n))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// hold reports that all of a server's log is known.
func (o origins) hold(state binlogState) bool {
	for _, g := range state {
		if o[origin{g.DomainID, g.ServerID}] < g.SequenceNumber {
			return false
		}
	}
	return true
}

// errant says why the stream can't go on on a server that is another one than before: it looks through the log after
// what was applied, up to the end that src has seen. seen is what was applied here by origin; MariaDB only.
func errant(ctx context.Context, src *source, o streamOptions, seen origins) (lack, error) {
	if src.flavor == schema.FlavorMariaDB && seen.hold(src.state) || src.flavor == schema.FlavorMySQL && o.from.containsAll(src.start) {
		return lack{}, nil
	}
	o.found = new(atomic.Bool)
	look := &errantLook{place: stream{positionless: src.positionless()}, end: src.end, found: o.found, came: origins{}}
	r, err := openLog(ctx, src, o, look)
	if err == nil {
		err = r.run(ctx)
		r.close()
	}
	if !errors.Is(err, errLooked) {
		return lack{}, err
	}
	if src.flavor == schema.FlavorMariaDB {
		for from, n := range seen {
			look.came[from] = max(look.came[from], n)
		}
		look.errant = !look.came.hold(src.state)
	}
	if look.errant {
		return errantLack, nil
	}
	return lack{}, nil
}

// errLooked ends a look that has come to the end of the log.
var errLooked = errors.New("the log has been looked through")

// errantLook handles the events of a log without applying them.
type errantLook struct {
	end   coordinate
	found *atomic.Bool

	place  stream  // only where it is
	fresh  bool    // a transaction has come that is new
	errant bool    // one that was applied has been passed over after that
	came   origins // MariaDB
}

func (l *errantLook) images(uint64) wanted { return wanted{} }

func (l *errantLook) outgrown() {}

// HandleEvent implements eventHandler.
func (l *errantLook) HandleEvent(ev *replication.BinlogEvent) error {
	before := l.place.here()
	l.place.move(ev)
	switch e := ev.Event.(type) {
	case *replication.RotateEvent:
		l.place.file, l.place.pos = string(e.NextLogName), e.Position
		return nil
	case *replication.GTIDEvent, *replication.GtidTaggedLogEvent:
		l.check(ev, before)
		l.fresh = true
		l.found.Store(true)
	case *replication.MariadbGTIDEvent:
		l.came.add(e.GTID)
		l.found.Store(true)
	case *replication.HeartbeatEvent:
		if e.Filename == l.place.file {
			l.check(ev, before)
			l.found.Store(true)
		}
	}
	if order, ok := l.place.here().compare(l.end); ok && order >= 0 {
		return errLooked
	}
	return nil
}

// check notes transactions that the server has passed over since the event before: bytes are missing.
func (l *errantLook) check(ev *replication.BinlogEvent, before coordinate) {
	start := l.place.pos
	if ev.Header.EventType != replication.HEARTBEAT_EVENT && ev.Header.EventType != replication.HEARTBEAT_LOG_EVENT_V2 {
		start -= uint64(ev.Header.EventSize)
	}
	if l.fresh && before.file == l.place.file && start > before.pos {
		l.errant = true
	}
}

// errantAt is errant for a source that is about to be followed.
func (f *Follower) errantAt(ctx context.Context, cfg *sqltext.Config, src *source, serverID uint32, applied gtidSet) (lack, error) {
	o := streamOptions{source: cfg, serverID: serverID, from: applied, heartbeat: f.cfg.Heartbeat}
	lacking, err := errant(ctx, src, o, f.pos.seen())
	if err != nil {
		return lack{}, streamFailure(ctx, err)
	}
	return lacking, nil
}
