package canal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/binlogcache/binlogcache/schema"
)

func TestCoordinates(t *testing.T) {
	for _, c := range []struct {
		a, b  coordinate
		order int
		ok    bool
	}{
		{coordinate{"b.000001", 5}, coordinate{"b.000001", 5}, 0, true},
		{coordinate{"b.000001", 5}, coordinate{"b.000001", 4}, 1, true},
		{coordinate{"b.000001", 5 << 32}, coordinate{"b.000002", 4}, -1, true},
		{coordinate{"b.999999", 5}, coordinate{"b.1000000", 4}, -1, true},
		{coordinate{"b.000001", 5}, coordinate{"c.000001", 4}, 0, false},
		{coordinate{"odd", 5}, coordinate{"odd", 6}, -1, true},
	} {
		if order, ok := c.a.compare(c.b); order != c.order || ok != c.ok {
			t.Errorf("%v against %v: %d %v", c.a, c.b, order, ok)
		}
	}
}

const uuidA, uuidB = "a0375c3f-ece4-11f1-831d-02fc00000001", "b0375c3f-ece4-11f1-831d-02fc00000001"

func mustSet(t *testing.T, text string) gtidSet {
	t.Helper()
	flavor := schema.FlavorMySQL
	if len(text) < 36 {
		flavor = schema.FlavorMariaDB
	}
	set, err := parseGTIDs(flavor, text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func myGTID(t *testing.T, gno int64, tag string) gtid {
	t.Helper()
	g := gtid{gno: gno, tag: mysql.NewTag(tag)}
	for sid := range *mustSet(t, uuidA+":1").my {
		g.sid = sid
	}
	return g
}

func TestGTIDSets(t *testing.T) {
	s := mustSet(t, uuidA+":1-5:8,\n"+uuidB+":1:tag:3")
	for gno, want := range map[int64]bool{1: true, 5: true, 6: false, 7: false, 8: true, 9: false} {
		if got := s.contains(myGTID(t, gno, "")); got != want {
			t.Errorf("contains %d: %v", gno, got)
		}
	}
	if s.contains(myGTID(t, 1, "tag")) {
		t.Error("contains a tagged one")
	}
	before := s.clone()
	s.add(myGTID(t, 9, ""))  // after the last
	s.add(myGTID(t, 7, ""))  // a gap closes in part
	s.add(myGTID(t, 6, ""))  // and whole
	s.add(myGTID(t, 1, "x")) // a new tag
	if got, want := s.String(), uuidA+":1-9:x:1,"+uuidB+":1:tag:3"; got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
	if !s.containsAll(before) || before.containsAll(s) {
		t.Error("order of sets")
	}
	if got := before.String(); got != uuidA+":1-5:8,"+uuidB+":1:tag:3" {
		t.Errorf("the copy has changed: %s", got)
	}

	m := mustSet(t, "0-1-10,2-5-7")
	m.add(gtid{maria: mysql.MariadbGTID{DomainID: 0, ServerID: 9, SequenceNumber: 8}})
	if m.String() != "0-9-8,2-5-7" {
		t.Errorf("%s", m)
	}
	if m.contains(gtid{maria: mysql.MariadbGTID{DomainID: 0, ServerID: 9, SequenceNumber: 8}}) {
		t.Error("a number of MariaDB does not tell transactions apart")
	}
	if m.containsAll(s) || s.containsAll(m) || (gtidSet{}).containsAll(m) {
		t.Error("sets of two flavors")
	}
	for _, text := range []string{"0-1", uuidA, uuidA + ":x-", "1-2-3-4"} {
		if _, err := parseGTIDs(schema.FlavorMySQL, text); err == nil {
			t.Errorf("%q is a set of MySQL", text)
		}
	}

	state, err := parseBinlogState("0-1-10,0-2-4, 3-1-1")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"0-1-10": true, "0-1-11": false, "0-2-5": false, "0-2-4,3-1-1": true, "1-1-1": false} {
		if got := state.contains(mustSet(t, text)); got != want {
			t.Errorf("state contains %s: %v", text, got)
		}
	}
}

func TestTracker(t *testing.T) {
	var tr tracker
	tr.epoch = 7
	tr.reset(mustSet(t, uuidA+":1-10"), nil, coordinate{}, coordinate{"b.000001", 100})
	if v := tr.mark().version; v != 8<<48 {
		t.Errorf("version %x", v)
	}
	// Nothing is known of the place; what the start stands for ends not after the floor.
	if m := tr.mark(); m.at != (coordinate{"b.000001", 100}) {
		t.Errorf("mark %+v", m)
	}
	known := make(chan error, 1)
	go func() { known <- tr.waitPlace(t.Context(), coordinate{}) }()
	reached := make(chan error, 1)
	go func() { reached <- tr.waitPlace(t.Context(), coordinate{"b.000002", 50}) }()
	applied := make(chan error, 1)
	go func() { applied <- tr.waitSet(t.Context(), mustSet(t, uuidA+":1-12")) }()
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		tr.mu.Lock()
		waiting = len(tr.byPlace) == 2 && len(tr.bySet) == 1
		tr.mu.Unlock()
	}
	tr.advance(coordinate{"b.000001", 4})
	if err := <-known; err != nil {
		t.Error(err)
	}
	if m := tr.mark(); m.at != (coordinate{"b.000001", 100}) {
		t.Errorf("mark %+v", m)
	}
	tr.commit(myGTID(t, 11, ""), coordinate{"b.000001", 200}, time.Now())
	tr.advance(coordinate{"b.000001", 4}) // never back
	if p := tr.position(); p.Pos != 200 || p.Seq != 1 || p.Version != 8<<48+1 || p.GTID != uuidA+":1-11" {
		t.Errorf("position %+v", p)
	}
	select {
	case err := <-reached:
		t.Fatalf("reached too early: %v", err)
	case err := <-applied:
		t.Fatalf("applied too early: %v", err)
	default:
	}
	tr.commit(myGTID(t, 12, ""), coordinate{"b.000002", 50}, time.Now())
	if err := errors.Join(<-reached, <-applied); err != nil {
		t.Error(err)
	}

	// Waits end with their context, with another log, and with the tracker.
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errOver)
	defer cancel()
	if err := tr.waitPlace(ctx, coordinate{"b.000003", 4}); !errors.Is(err, errOver) {
		t.Error(err)
	}
	if err := tr.waitSet(ctx, mustSet(t, uuidB+":1")); !errors.Is(err, errOver) {
		t.Error(err)
	}
	if err := tr.waitPlace(t.Context(), coordinate{"c.000001", 4}); err != errMoved {
		t.Error(err)
	}
	go func() { reached <- tr.waitPlace(t.Context(), coordinate{"b.000009", 50}) }()
	go func() { applied <- tr.waitSet(t.Context(), mustSet(t, uuidB+":1-12")) }()
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		tr.mu.Lock()
		waiting = len(tr.byPlace) == 1 && len(tr.bySet) == 1
		tr.mu.Unlock()
	}
	tr.advance(coordinate{"renamed.000001", 4})
	if err := <-reached; err != errMoved {
		t.Error(err)
	}
	tr.close()
	if err := <-applied; err != ErrStopped {
		t.Error(err)
	}
	if err := tr.waitSet(t.Context(), mustSet(t, uuidB+":1")); err != ErrStopped {
		t.Error(err)
	}
	if len(tr.bySet)+len(tr.byPlace) > 0 {
		t.Error("waits are left")
	}
}

func TestParseXID(t *testing.T) {
	body := func(onePhase byte, global, branch string) []byte {
		b := []byte{onePhase, 1, 0, 0, 0, byte(len(global)), 0, 0, 0, byte(len(branch)), 0, 0, 0}
		return append(append(b, global...), branch...)
	}
	name, onePhase, err := parseXID(body(0, "g'1", "\xff"))
	if name != "x'672731',x'ff',1" || onePhase || err != nil {
		t.Errorf("%q %v %v", name, onePhase, err)
	}
	if st := classify([]byte("XA COMMIT X'672731',X'FF',1"), plainStatus); st.name != name {
		t.Errorf("%q in the statement", st.name)
	}
	if _, onePhase, _ := parseXID(body(1, "a", "b")); !onePhase {
		t.Error("one phase")
	}
	whole := body(0, "abc", "def")
	for n := range whole {
		if _, _, err := parseXID(whole[:n]); err == nil {
			t.Errorf("%d bytes are enough", n)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	var tr tracker
	set, err := parseGTIDs(schema.FlavorMySQL, uuidA+":1-10")
	if err != nil {
		b.Fatal(err)
	}
	tr.reset(set, nil, coordinate{}, coordinate{})
	g := gtid{gno: 10}
	for sid := range *set.my {
		g.sid = sid
	}
	at := coordinate{"binlog.000001", 4}
	b.ReportAllocs()
	for b.Loop() {
		g.gno++
		at.pos += 300
		tr.commit(g, at, time.Time{})
	}
	if want := fmt.Sprintf("%s:1-%d", uuidA, g.gno); tr.position().GTID != want {
		b.Error(tr.position().GTID)
	}
}

func TestMergeGTIDs(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, tc := range []struct{ a, b, want string }{
		{"", "", ""},
		{"", "0-1-5", "0-1-5"},
		{a + ":1-5", "", a + ":1-5"},
		{a + ":1-5", a + ":6", a + ":1-6"},
		{a + ":1-5", a + ":9", a + ":1-5:9"},
		{a + ":7:tag:3", a + ":tag:4", a + ":7:tag:3-4"},
		{a + ":7", b + ":1", a + ":7," + b + ":1"},
		{"0-1-5", "0-2-9", "0-2-9"},
		{"0-1-50", "0-1-9", "0-1-50"},
		{"0-1-5", "1-1-3", "0-1-5,1-1-3"},
	} {
		got, err := MergeGTIDs(tc.a, tc.b)
		same := got == tc.want
		if !same && err == nil && tc.want != "" { // sets have no order
			one, _ := parseGTIDs(flavorOf(got), got)
			other, _ := parseGTIDs(flavorOf(tc.want), tc.want)
			same = one.containsAll(other) && other.containsAll(one)
		}
		if err != nil || !same {
			t.Errorf("%q and %q: %q, %v; want %q", tc.a, tc.b, got, err, tc.want)
		}
	}
	for _, bad := range []string{"nonsense", "0-1", a + ":x"} {
		if got, err := MergeGTIDs(bad, "0-1-5"); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
	if got, err := MergeGTIDs(a+":1", "0-1-5"); err == nil {
		t.Errorf("of two flavors: %q", got)
	}
}
