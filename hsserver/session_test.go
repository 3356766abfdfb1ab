package hsserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

func TestUnescape(t *testing.T) {
	for _, tc := range []struct{ token, want string }{
		{"", ""},
		{"plain", "plain"},
		{"a\x01Ib\x01Jc\x01Md\x01@e\x01A", "a\tb\nc\rd\x00e\x01"},
		{"\x01P\x01a\x01\x7f", "\x10!?"},
		{"x\x0by\x02", "x\x0by\x02"},
		{"ab\x01\x05cd", "ab"},
		{"ab\x01", "ab"},
		{"ab\x010cd", "ab"},
		{"\x01\xff", "\xbf"},
		{"a\x00b", "a\x00b"},
	} {
		if got := unescape([]byte(tc.token)); string(got) != tc.want || got == nil {
			t.Errorf("unescape(%q) = %q, want %q", tc.token, got, tc.want)
		}
	}
}

func TestEscape(t *testing.T) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	got := appendEscaped([]byte("x"), all)
	if want := 1 + 256 + 16; len(got) != want {
		t.Errorf("%d bytes, want %d", len(got), want)
	}
	if back := unescape(got[1:]); !bytes.Equal(back, all) {
		t.Errorf("came back as %q", back)
	}
}

func TestNumber(t *testing.T) {
	for tok, want := range map[string]uint32{
		"": 0, "7": 7, "-3": 3, "2x": 2, "abc": 0, "1 2": 12, "4294967295": 4294967295, "4294967296": 0, "99999999999": 1215752191,
	} {
		if got := number([]byte(tok)); got != want {
			t.Errorf("number(%q) = %d, want %d", tok, got, want)
		}
	}
}

// users is a small table that most tests use.
func users(t testing.TB) *memory {
	m := newMemory(t)
	m.load(t, tableOf("user", intColumn("id"), textColumn("name"), intColumn("age")),
		"1,ann,30", "2,bob,41", `3,cy,\N`, "4,dan\tx,41", `5,\N,7`)
	return m
}

func TestOrderOfChecks(t *testing.T) {
	for _, writable := range []bool{false, true} {
		c := newTalk(t, New(Config{Reader: users(t), Writable: writable}))
		modify := "2\t1\treadonly"
		unknown := modify
		if writable {
			modify, unknown = "2\t1\tnotimpl", "2\t1\tmodop"
		}
		c.expect("P\t0\tapp\tuser\tPRIMARY\tid,name\tage", "0\t1")
		for _, tc := range []struct{ line, want string }{
			{"1\tx\t99\tF", "2\t1\tstmtnum"},
			{"0\tx\t33\t" + strings.Repeat("\t", 40), "2\t1\tfldnum"},
			{"0\tx\t1\t1\t1\t0\t@\t0\t0\tFF", "2\t1\tinvalueslen"},
			{"0\tx\t1\t1\t1\t0\tFF", "2\t1\tfiltertype"},
			{"0\tx\t1\t1\t1\t0\tF\t=\t1\tv", "2\t1\tfilterfld"},
			{"0\tx\t0\t1\t0", "2\t1\top"},
			{"0\t=\t0\t1\t0\tU", "2\t1\tklen"},
			{"0\t+\t0", "2\t1\tklen"},
			{"0\t+\t1\t9", modify},
			{"0\tS\t1\tselect 1", "2\t1\tnotimpl"},
			{"0\t=\t2\t1\t2\t1\t0\tU\tx", modify},
			{"0\t=\t2\t1\t2\t1\t0\tQ\tx", unknown},
			{"0\t=\t2\t1\t2\t1\t0\tF\t=\t0\t7", "2\t1\tkpnum"},
			{"0\t=\t1\t1\t1\t0\t\tU\tx", "0\t2\t1\tann"},
		} {
			c.expect(tc.line, tc.want)
		}
	}
}

func TestCommandsThatStoppedTheServer(t *testing.T) {
	c := newTalk(t, New(Config{Reader: users(t)}))
	c.expect("Q", "2\t1\tcmd")
	c.expect("/", "2\t1\tcmd")
	c.expect("P\t4294967295\tapp\tuser\tPRIMARY\tid", "2\t1\tstmtnum")
	c.expect("P\t1048575\tapp\tuser\tPRIMARY\tid", "0\t1")
	c.expect("1048575\t=\t1\t1\t1\t0\t@\t0\t4294967295", "2\t1\tinvalueslen")
	c.expect("1048575\t=\t1\t1\t1\t0\t@\t0\t65536", "0\t1")
	c.expect("1048575\t=\t1\t2", "0\t1\t2")
}

func TestBounds(t *testing.T) {
	m := users(t)
	m.load(t, tableOf("big", intColumn("id"), textColumn("v")), "1,"+strings.Repeat("v", 2<<20))
	c := newTalk(t, New(Config{Reader: m}))
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid\tage", "0\t1")
	c.expect("0\t>=\t1\t0\t9\t0"+strings.Repeat("\tF\t<\t0\t100", maxFilters), "0\t1\t1\t2\t3\t4\t5")
	c.expect("0\t>=\t1\t0\t9\t0"+strings.Repeat("\tF\t<\t0\t100", maxFilters+1), "2\t1\tfiltertype")

	// Open indexes are bounded by what they hold; the same id again is not another one.
	columns := strings.Repeat("name,", 20_000) + "name"
	for range 50 {
		c.expect("P\t7\tapp\tuser\tPRIMARY\t"+columns, "0\t1")
	}
	n := 0
	for ; n < 100; n++ {
		if got := c.ask(fmt.Sprintf("P\t%d\tapp\tuser\tPRIMARY\t%s", 100+n, columns)); got != "0\t1\n" {
			if got != "2\t1\tfld\n" {
				t.Errorf("got %q", got)
			}
			break
		}
	}
	if n < 2 || n > 20 {
		t.Errorf("%d large indexes were opened", n)
	}
	c.expect("0\t=\t1\t1", "0\t1\t1")

	d := newTalk(t, New(Config{Reader: m}))
	d.expect("P\t0\tapp\tbig\tPRIMARY\tv", "0\t1")
	d.expect("0\t=\t1\t1\t1000\t0\t@\t0\t70"+strings.Repeat("\t1", 70), "2\t1\ttoolarge")
	if got := d.ask("0\t=\t1\t1\t1000\t0\t@\t0\t10" + strings.Repeat("\t1", 10)); len(got) != 10*(2<<20+1)+4 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestLimitsAreCounted: each bound has its counter, and open indexes are bounded for all connections together. Some are
// free for each connection; what a connection had is given back at its end.
func TestLimitsAreCounted(t *testing.T) {
	s := New(Config{Reader: users(t)})
	c := newTalk(t, s)
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid\tage", "0\t1")
	c.expect("P\t4294967295\tapp\tuser\tPRIMARY\tid", "2\t1\tstmtnum")
	c.expect("0\t=\t1\t1\t1\t0\t@\t0\t4294967295", "2\t1\tinvalueslen")
	c.expect("0\t=\t1\t1\t1\t0\t@\t0\t0", "2\t1\tinvalueslen")
	c.expect("0\t=\t1\t1\t9\t0"+strings.Repeat("\tF\t<\t0\t100", maxFilters+1), "2\t1\tfiltertype")
	c.expect("0\t=\t1\t1\t9\t0\tFF", "2\t1\tfiltertype")

	s.openBytes.Add(maxAllOpenBytes) // as if others had them
	opened := 0
	for id := range 1000 {
		if c.ask(fmt.Sprintf("P\t%d\tapp\tuser\tPRIMARY\tid", id)) == "0\t1\n" {
			opened++
		}
	}
	if opened < 100 || opened > 300 {
		t.Errorf("%d indexes were opened of those that are free", opened)
	}
	s.openBytes.Add(-maxAllOpenBytes)
	c.expect("P\t999\tapp\tuser\tPRIMARY\tid", "0\t1")
	c.send(strings.Repeat("x", MaxLineBytes+1))
	c.sess.Close()
	if n := s.openBytes.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	want := map[string]uint64{"line": 1, "index_id": 1, "open_indexes": uint64(1000 - opened), "in_values": 1, "filters": 1, "answer": 0}
	if got := s.Stats().Limits; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLineTooLong(t *testing.T) {
	for _, cut := range []int{1 << 20, 1 << 30} {
		c := newTalk(t, New(Config{Reader: users(t)}))
		line := "P\t0\tapp\tuser\tPRIMARY\tid\n0\t=\t1\t1" + strings.Repeat(" ", MaxLineBytes-7) + "\n"
		for len(line) > 0 {
			n := min(cut, len(line))
			c.send(line[:n])
			line = line[n:]
		}
		if got := string(c.out); got != "0\t1\n0\t1\t1\n" || c.ended != nil {
			t.Errorf("a line of the largest length: %q, %v", got, c.ended)
		}
		c.out = nil
		for range MaxLineBytes / (1 << 20) {
			c.send(strings.Repeat("x", 1<<20))
		}
		c.send("x\n0\t=\t1\t1\n")
		if got := string(c.out); got != "2\t1\tline\n" || c.ended == nil {
			t.Errorf("a longer one: %q, %v", got, c.ended)
		}
	}
}

func TestAuthentication(t *testing.T) {
	log := &bytes.Buffer{}
	s := New(Config{Reader: users(t), Secret: "s3cret\t!", Logger: slog.New(slog.NewTextHandler(log, nil))})
	c := newTalk(t, s)
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid", "3\t1\tunauth")
	c.expect("0\t=\t1\t1", "3\t1\tunauth")
	c.expect("nonsense", "2\t1\tcmd")
	c.expect("A\t2\ts3cret\x01I!", "3\t1\tauthtype")
	c.expect("A", "3\t1\tauthtype")
	c.expect("A\t1\ts3cret\x01I", "3\t1\tunauth")
	c.expect("A\t1\ts3cret\x01I!", "0\t1")
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid", "0\t1")
	c.expect("0\t=\t1\t1", "0\t1\t1")
	c.expect("A\t1\twrong", "3\t1\tunauth")
	c.expect("0\t=\t1\t1", "3\t1\tunauth")
	c.send(strings.Repeat("x", maxUnauthorizedLineBytes+1))
	if c.ended == nil {
		t.Error("a long line was taken before the secret")
	}
	if st := s.Stats(); st.Unauthorized != 5 || st.Auths != 5 || st.Opens != 1 || st.Finds != 1 || st.Failures != 9 {
		t.Errorf("%+v", st)
	}
	if !strings.Contains(log.String(), "has not shown the secret") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("log %q", log)
	}
	open := newTalk(t, New(Config{Reader: users(t)}))
	open.expect("A\t1\t", "0\t1")
	open.expect("A\t1\twrong", "3\t1\tunauth")
	open.expect("P\t0\tapp\tuser\tPRIMARY\tid", "0\t1")
}

func TestChangedDefinition(t *testing.T) {
	m := users(t)
	c := newTalk(t, New(Config{Reader: m}))
	c.expect("P\t0\tapp\tuser\tPRIMARY\tname,id\tage", "0\t1")
	c.expect("P\t1\tapp\tuser\tkage\tid", "0\t1")
	c.expect("0\t=\t1\t2\t1\t0\tF\t=\t0\t41", "0\t2\tbob\t2")
	// A column comes in front: the same names stand elsewhere.
	m.load(t, tableOf("user", intColumn("id"), intColumn("age"), textColumn("extra"), textColumn("name")), "2,41,x,bob")
	c.expect("0\t=\t1\t2\t1\t0\tF\t=\t0\t41", "0\t2\tbob\t2")
	c.expect("1\t=\t1\t41", "0\t1\t2")
	// A name is gone, and comes back.
	m.load(t, tableOf("user", intColumn("id"), textColumn("name")), "2,bob")
	c.expect("0\t=\t1\t2", "2\t1\tstmtnum")
	c.expect("1\t=\t1\t41", "2\t1\tstmtnum")
	m.load(t, tableOf("user", intColumn("id"), textColumn("name"), intColumn("age")), "2,bobby,41")
	c.expect("0\t=\t1\t2", "0\t2\tbobby\t2")
	c.expect("1\t=\t1\t41", "0\t1\t2")
	// The name of the index stands for another one: what was opened is gone. The rows stay as they are.
	other := tableOf("user", intColumn("id"), textColumn("name"), intColumn("age"))
	other.Indexes = append(other.Indexes[:2:2], schema.Index{Name: "kage", BTree: true, Parts: []schema.Part{{Column: 0}, {Column: 2}}})
	g := m.load(t, tableOf("user", intColumn("id"), textColumn("name"), intColumn("age")), "2,bobby,41")
	if err := g.Redefine(other); err != nil {
		t.Fatal(err)
	}
	c.expect("1\t=\t1\t41", "2\t1\tstmtnum")
	c.expect("1\t=\t1\t2", "2\t1\tstmtnum")
	c.expect("0\t=\t1\t2", "0\t2\tbobby\t2")
	c.expect("P\t1\tapp\tuser\tkage\tid", "0\t1")
	c.expect("1\t=\t1\t2", "0\t1\t2")
}

func TestDatabaseIsAskedAndDown(t *testing.T) {
	m := users(t)
	log := &bytes.Buffer{}
	s := New(Config{Reader: m, Logger: slog.New(slog.NewTextHandler(log, nil))})
	c := newTalk(t, s)
	c.expect("P\t0\tapp\tnosuch\tPRIMARY\tid", "1\t1\topen_table")
	if c.jobs != 1 || m.opens.Load() != 1 {
		t.Errorf("%d jobs, %d opens", c.jobs, m.opens.Load())
	}
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid", "0\t1")
	if c.jobs != 1 {
		t.Error("a known table was opened by a job")
	}
	m.down = true
	c.expect("P\t1\tapp\tnosuch\tPRIMARY\tid", "1\t1\tunavailable")
	c.expect("0\t=\t1\t3", "0\t1\t3") // memory still answers
	m.store.Table(schema.Name{Schema: "app", Table: "user"}).Suspend("test")
	c.expect("0\t=\t1\t3", "1\t1\tunavailable")
	if st := s.Stats(); st.Failures != 3 || st.Parked != 1 {
		t.Errorf("%+v", st)
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("log %q", log)
	}
}

func TestUnwalkableIndexes(t *testing.T) {
	m := newMemory(t)
	def := tableOf("t", intColumn("id"), textColumn("v"))
	def.Indexes = append(def.Indexes,
		schema.Index{Name: "full", Parts: []schema.Part{{Column: 1}}},
		schema.Index{Name: "expr", BTree: true, Parts: []schema.Part{{Column: 0}, {Column: -1}}})
	m.load(t, def)
	c := newTalk(t, New(Config{Reader: m}))
	c.expect("P\t0\tapp\tt\tfull\tid", "2\t1\tidxnum")
	c.expect("P\t0\tapp\tt\texpr\tid", "2\t1\tidxnum")
	c.expect("P\t0\tapp\tt\t3\tid", "2\t1\tidxnum")
	c.expect("P\t0\tapp\tt\t99999999999999999999\tid", "2\t1\tidxnum")
	c.expect("P\t0\tapp\tt\t1x\tid", "0\t1")
}

func TestLongFindsLeaveTheLoop(t *testing.T) {
	m := newMemory(t)
	var rows []string
	for i := range 3 * inlineRows {
		rows = append(rows, fmt.Sprintf("%d,v%d,%d", i, i, i%2))
	}
	m.load(t, tableOf("t", intColumn("id"), textColumn("v"), intColumn("odd")), rows...)
	c := newTalk(t, New(Config{Reader: m}))
	c.expect("P\t0\tapp\tt\tPRIMARY\tid\todd", "0\t1")
	for _, tc := range []struct {
		line  string
		count int
		jobs  int
	}{
		{"0\t>=\t1\t0\t1000000\t5990", 10, 1},                   // a large offset
		{"0\t>=\t1\t0\t2000\t0", 2000, 0},                       //
		{"0\t>=\t1\t0\t1000000\t0", 3 * inlineRows, 1},          // many rows
		{"0\t>=\t1\t5500\t1000000\t0", 500, 0},                  // few rows, whatever the limit
		{"0\t>=\t1\t0\t1000000\t10\tF\t=\t0\t1", 2990, 1},       // many rows to look at
		{"0\t>=\t1\t0\t10\t0\tF\t=\t0\t1", 10, 0},               //
		{"0\t=\t1\t0\t1000\t0\t@\t0\t300", 300, 1},              // a long list: 300 times the empty value, which is 0
		{"0\t=\t1\t0\t1000\t0\t@\t0\t4\t7\t8\t999999\t9", 3, 0}, //
	} {
		c.jobs = 0
		got := c.ask(tc.line)
		if n := strings.Count(got, "\t") - 1; n != tc.count || c.jobs != tc.jobs || !strings.HasPrefix(got, "0\t1") {
			t.Errorf("%q: %d rows by %d jobs, want %d by %d", tc.line, n, c.jobs, tc.count, tc.jobs)
		}
	}
}

func TestFilters(t *testing.T) {
	c := newTalk(t, New(Config{Reader: users(t)}))
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid\tname,age", "0\t1")
	for _, tc := range []struct{ filters, want string }{
		{"F\t=\t0\tBOB", "\t2"}, // by the collation
		{"F\t>=\t0\tbob", "\t2\t3\t4"},
		{"F\t=\t1\t\x00", "\t3"},
		{"F\t!=\t1\t\x00", "\t1\t2\t4\t5"},
		{"F\t<\t1\t41", "\t1\t3\t5"},
		{"F\t<\t1\t41\tF\t!=\t1\t\x00", "\t1\t5"},
		{"W\t<=\t1\t30", "\t1"},
		{"F\t==\t1\t41", ""},
		{"F\t===\t1\t41", "\t1\t2\t3\t4\t5"},
		{"F", "\t1\t2\t3\t4\t5"}, // an empty operator
	} {
		c.expect("0\t>=\t1\t0\t9\t0\t"+tc.filters, "0\t1"+tc.want)
	}
	c.expect("0\t>=\t1\t0\t2\t1\tF\t=\t1\t41", "0\t1\t4")
	c.expect("0\t=\t1\t\t9\t0\t@\t0\t4\t4\t3\t2\t1\tF\t>\t1\t30", "0\t1\t4\t2")
	c.expect("0\t=\t1\t\t9\t0\t@\t0\t4\t4\t3\t2\t1\tW\t>\t1\t30", "0\t1\t4")
}

func TestFindsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := newTalk(t, New(Config{Reader: users(t)}))
	c.expect("P\t1\tapp\tuser\tPRIMARY\tid,name\tage", "0\t1")
	in := []byte("1\t=\t1\t2\n1\t>=\t1\t1\t3\t0\n1\t=\t1\t99\n1\t=\t1\t\t9\t0\t@\t0\t2\t1\t4\n1\t>=\t1\t0\t9\t0\tF\t<\t0\t40\n")
	work := make([]byte, len(in))
	if n := testing.AllocsPerRun(200, func() {
		c.out = c.out[:0]
		copy(work, in)
		if n, err := c.sess.Serve(work); n != len(in) || err != nil {
			t.Fatalf("took %d, %v", n, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if want := "0\t2\t2\tbob\n0\t2\t1\tann\t2\tbob\t3\tcy\n0\t2\n0\t2\t1\tann\t4\tdan\x01Ix\n0\t2\t1\tann\t3\tcy\t5\t\x00\n"; string(c.out) != want {
		t.Errorf("got %q", c.out)
	}
}

func BenchmarkFind(b *testing.B) {
	c := newTalk(b, New(Config{Reader: users(b)}))
	c.ask("P\t1\tapp\tuser\tPRIMARY\tid,name,age")
	in := []byte("1\t=\t1\t2\n")
	work := make([]byte, len(in))
	b.ReportAllocs()
	for b.Loop() {
		c.out = c.out[:0]
		copy(work, in)
		if n, err := c.sess.Serve(work); n != len(in) || err != nil {
			b.Fatalf("took %d, %v", n, err)
		}
	}
}
