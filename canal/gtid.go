package canal

import (
	"fmt"
	"sort"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/schema"
)

// gtid names one transaction. Values are comparable.
type gtid struct {
	// MySQL: the server's UUID, a tag or none, and a number.
	sid [16]byte
	tag mysql.Tag
	gno int64
	// MariaDB: domain, server and number; the zero value on MySQL.
	maria mysql.MariadbGTID
}

func mysqlGTID(e *replication.GTIDEvent) (gtid, error) {
	if len(e.SID) != 16 || e.GNO <= 0 {
		return gtid{}, fmt.Errorf("GTID event without a GTID")
	}
	return gtid{sid: [16]byte(e.SID), tag: e.Tag, gno: e.GNO}, nil
}

// gtidSet is the set of the transactions that a server has executed. On MariaDB it is a position: the last transaction
// of each domain, which stands for all before it in the log. The zero value is of no flavor and contains nothing.
type gtidSet struct {
	my    *mysql.MysqlGTIDSet
	maria *mysql.MariadbGTIDSet
}

// parseGTIDs reads the text of a set as the servers write it.
func parseGTIDs(flavor, text string) (gtidSet, error) {
	text = strings.TrimSpace(text)
	if flavor == schema.FlavorMariaDB {
		set, err := mysql.ParseMariadbGTIDSet(text)
		if err != nil {
			return gtidSet{}, fmt.Errorf("GTID position %.100q: %w", text, err)
		}
		return gtidSet{maria: set.(*mysql.MariadbGTIDSet)}, nil
	}
	set, err := mysql.ParseMysqlGTIDSet(text)
	if err != nil {
		return gtidSet{}, fmt.Errorf("GTID set %.100q: %w", text, err)
	}
	return gtidSet{my: set.(*mysql.MysqlGTIDSet)}, nil
}

func (s gtidSet) clone() gtidSet {
	switch {
	case s.my != nil:
		return gtidSet{my: s.my.Clone().(*mysql.MysqlGTIDSet)}
	case s.maria != nil:
		return gtidSet{maria: s.maria.Clone().(*mysql.MariadbGTIDSet)}
	}
	return gtidSet{}
}

// forSyncer gives a copy that go-mysql may change.
func (s gtidSet) forSyncer() mysql.GTIDSet {
	c := s.clone()
	if c.maria != nil {
		return c.maria
	}
	return c.my
}

// String is the set in the server's own form.
func (s gtidSet) String() string {
	switch {
	case s.my != nil:
		return s.my.String()
	case s.maria != nil:
		return s.maria.String()
	}
	return ""
}

// add puts one transaction in.
func (s gtidSet) add(g gtid) {
	if s.maria != nil {
		// Assigned, not compared: without gtid_strict_mode numbers may go back, and the last one is the position.
		s.maria.Sets[g.maria.DomainID] = &mysql.MariadbGTID{
			DomainID: g.maria.DomainID, ServerID: g.maria.ServerID, SequenceNumber: g.maria.SequenceNumber,
		}
		return
	}
	// The usual case, the next number of the last interval, without the sorting that go-mysql does.
	if intervals := (*s.my)[g.sid][g.tag]; len(intervals) > 0 && intervals[len(intervals)-1].Stop == g.gno {
		intervals[len(intervals)-1].Stop++
		return
	}
	s.my.AddGTIDWithTag(g.sid, g.tag, g.gno)
}

// contains reports that the transaction is known to be in the set. On MariaDB that is never known: numbers of different
// servers in one domain need not be in order, without gtid_strict_mode one may even come twice, and the server does not
// send again what is before the position that it was given.
func (s gtidSet) contains(g gtid) bool {
	if s.my == nil {
		return false
	}
	intervals := (*s.my)[g.sid][g.tag]
	i := sort.Search(len(intervals), func(i int) bool { return intervals[i].Stop > g.gno })
	return i < len(intervals) && intervals[i].Start <= g.gno
}

// containsAll reports that all of o is in the set; on MariaDB, that no domain of o is further.
func (s gtidSet) containsAll(o gtidSet) bool {
	switch {
	case s.my != nil && o.my != nil:
		return s.my.Contain(o.my)
	case s.maria != nil && o.maria != nil:
		return s.maria.Contain(o.maria)
	}
	return false
}

// behind reports that the MariaDB position o is known to be further than this one in some domain. Numbers of different
// servers tell nothing about their order.
func (s gtidSet) behind(o gtidSet) bool {
	for domain, their := range o.maria.Sets {
		our, ok := s.maria.Sets[domain]
		if !ok || our.ServerID == their.ServerID && our.SequenceNumber < their.SequenceNumber {
			return true
		}
	}
	return false
}

// touches reports that adding g can make the set contain more of o.
func (g gtid) touches(o gtidSet) bool {
	if o.maria != nil {
		_, ok := o.maria.Sets[g.maria.DomainID]
		return ok
	}
	_, ok := (*o.my)[g.sid]
	return ok
}

// binlogState is what a MariaDB server has written to its log: for each domain and server the last number
// (gtid_binlog_state).
type binlogState []mysql.MariadbGTID

func parseBinlogState(text string) (binlogState, error) {
	var state binlogState
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		g, err := mysql.ParseMariadbGTID(part)
		if err != nil {
			return nil, fmt.Errorf("gtid_binlog_state: %w", err)
		}
		state = append(state, *g)
	}
	return state, nil
}

// contains reports that the server has written every transaction of the position.
func (b binlogState) contains(position gtidSet) bool {
	for _, g := range position.maria.Sets {
		found := false
		for _, have := range b {
			if have.DomainID == g.DomainID && have.ServerID == g.ServerID && have.SequenceNumber >= g.SequenceNumber {
				found = true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}
