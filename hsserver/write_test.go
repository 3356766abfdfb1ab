package hsserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// noted takes changes down and makes none: it shows what sessions ask of a Writer. Transactions search memory.
type noted struct {
	begins int
	m      *memory
	err    error // of the next change
	id     uint64
	seen   []string
	// calls of Changes
	calls int
}

func (n *noted) note(c *schema.Change, of string) {
	var set []string
	for _, a := range c.Set {
		v := `\N`
		if a.Value != nil {
			v = string(a.Value)
		}
		set = append(set, c.Def.Columns[a.Column].Name+"="+v)
	}
	n.seen = append(n.seen, fmt.Sprintf("%s %s (%s)", c.Kind, of, strings.Join(set, ",")))
}

func (n *noted) take() error {
	err := n.err
	n.err = nil
	return err
}

func (n *noted) Changes(_ context.Context, changes []*schema.Change, answer func(i, rows int, id uint64, err error)) {
	n.calls++
	for i, c := range changes {
		of := ""
		for _, v := range c.Key {
			of += c.Def.Indexes[c.Index].Name + "=" + string(v)
		}
		n.note(c, of)
		answer(i, 1, n.id, n.take())
	}
}

// Begin leaves every second call to Changes.
func (n *noted) Begin(ctx context.Context, changes []*schema.Change, ended func([]Result)) bool {
	if n.begins++; n.begins%2 == 0 {
		return false
	}
	results := make([]Result, len(changes))
	n.Changes(ctx, changes, func(i, rows int, id uint64, err error) { results[i] = Result{rows, id, err} })
	ended(results)
	return true
}

func (n *noted) Transact(_ context.Context, def *schema.Table, _ schema.ChangeKind, fn func(tx Tx) error) (int, error) {
	tx := &notedTx{n: n}
	for range 2 { // the first try is undone
		tx.rows = 0
		if err := fn(tx); err != nil {
			return 0, err
		}
	}
	return tx.rows, n.take()
}

type notedTx struct {
	n    *noted
	rows int
}

func (tx *notedTx) Search(s *schema.Search, row func(row rowcodec.Row) error) error {
	own := *s
	own.Columns = nil
	var err error
	t, _ := tx.n.m.Lookup(s.Def.Schema, s.Def.Name)
	if _, searchErr := t.SearchMemory(&own, func(r rowcodec.Row, _ uint64) bool {
		err = row(r)
		return err == nil
	}); searchErr != nil {
		return searchErr
	}
	return err
}

func (tx *notedTx) Change(c *schema.Change, row rowcodec.Row) error {
	v, _ := row.Value(0)
	tx.n.note(c, "found "+string(v))
	tx.rows++
	return nil
}

func TestWrites(t *testing.T) {
	m := users(t)
	auto := tableOf("auto", intColumn("id"), textColumn("v"))
	auto.Columns[0].AutoIncrement = true
	m.load(t, auto)
	n := &noted{m: m}
	c := newTalk(t, New(Config{Reader: m, Writer: n, Writable: true}))
	c.expect("P\t0\tapp\tuser\tPRIMARY\tid,name,age\tage", "0\t1")
	c.expect("P\t1\tapp\tuser\tkage\tname", "0\t1")
	c.expect("P\t2\tapp\tauto\t\tid,v", "0\t1")
	many := "0\t+\t40" + strings.Repeat("\t7", 40)
	for _, tc := range []struct {
		line, want string
		seen       []string
	}{
		{"0\t+\t3\t9\tx\t\x00", "0\t1", []string{`insert  (id=9,name=x,age=\N)`}},
		{"0\t+\t2\t9\tx\t0\t0", "0\t1", []string{"insert  (id=9,name=x)"}},
		{"0\t+\t5\t9\tx\t1\t2\t3", "0\t1", []string{"insert  (id=9,name=x,age=1)"}},
		{many, "0\t1", []string{"insert  (id=7,name=7,age=7)"}},
		{"0\t+\t3\t9\tx", "2\t1\tklen", nil},
		{"0\t+\t4097\t9", "2\t1\tfldnum", nil},
		{"2\t+\t1\t", "0\t1\t77", []string{"insert  (id=)"}},
		{"0\t=\t1\t2\t1\t0\tU\t2\tb\x01Ib", "0\t1\t1", []string{"update PRIMARY=2 (id=2,name=b\tb)"}},
		{"0\t=\t1\t2\t1\t0\tD\tignored", "0\t1\t1", []string{"delete PRIMARY=2 (id=ignored)"}},
		{"0\t=\t1\t2\t1\t0\t+\t\x00\t\x00\t5", "0\t1\t1", []string{`add PRIMARY=2 (id=\N,name=\N,age=5)`}},
		{"0\t=\t1\t2\t1\t0\t-x", "0\t1\t1", []string{"subtract PRIMARY=2 ()"}},
		{"0\t=\t1\t2\t1\t1\tU\t3", "0\t1\t0", nil},
		{"0\t=\t1\t2\t1\t4294967295\tU\t3", "0\t1\t0", nil},
		{"0\t=\t1\t2\t1\t0\tU?\t3", "0\t3\t2\tbob\t41", []string{"update found 2 (id=3)"}},
		{"0\t=\t1\t2\t1\t0\tF\t=\t0\t41\tD", "0\t1\t1", []string{"delete found 2 ()"}},
		{"0\t=\t1\t2\t1\t0\tF\t=\t0\t42\tD", "0\t1\t0", nil},
		{"0\t>=\t1\t2\t2\t1\tD?", "0\t3\t3\tcy\t\x00\t4\tdan\x01Ix\t41", []string{"delete found 3 ()", "delete found 4 ()"}},
		{"0\t=\t1\t\t10\t0\t@\t0\t3\t1\t9\t3\tU\t\x00\tz", "0\t1\t2", []string{`update found 1 (id=\N,name=z)`, `update found 3 (id=\N,name=z)`}},
		{"1\t=\t1\t41\t5\t0\tU\tw", "0\t1\t2", []string{"update found 2 (name=w)", "update found 4 (name=w)"}},
		{"0\t=\t2\t1\t2\t1\t0\tU\tx", "2\t1\tkpnum", nil},
		{"0\t=\t1\t1\t1\t0\tQ\tx", "2\t1\tmodop", nil},
	} {
		n.seen, n.id = nil, 77
		c.expect(tc.line, tc.want)
		want := tc.seen
		if len(n.seen) == 2*len(want) { // transactions are tried twice
			n.seen = n.seen[len(want):]
		}
		if !slices.Equal(n.seen, want) {
			t.Errorf("%q: %q, want %q", tc.line, n.seen, want)
		}
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&WriteError{Text: "121", Err: context.Canceled}, "1\t1\t121"},
		{&WriteError{Text: "modop", Request: true, Err: context.Canceled}, "2\t1\tmodop"},
		{context.Canceled, "1\t1\tunavailable"},
		{ErrChanged, "0\t1\t1"}, // the second try succeeds
	} {
		n.err = tc.err
		c.expect("0\t=\t1\t2\t1\t0\tU\t2", tc.want)
	}
	// Several writes of one read are one call, up to whatever is none; answers keep their order.
	n.calls, n.seen = 0, nil
	c.out = nil
	c.send("0\t+\t3\t1\ta\t1\n0\t+\t3\t1\n0\t=\t1\t1\t1\t0\tU\t8\n9\t+\t1\t1\n0\t=\t1\t1\t1\t0\t-\t\x00\t\x00\t4\r\n" +
		"0\t=\t1\t3\n0\t+\t1\t4\n0\t=\t1\t5\t1\t0\tU?\t6\n0\t+\t1\t7\n0\t=\t1\t2")
	if got, want := string(c.out), "0\t1\n2\t1\tklen\n0\t1\t1\n2\t1\tstmtnum\n0\t1\t1\n0\t3\t3\tcy\t\x00\n0\t1\n0\t3\t5\t\x00\t7\n0\t1\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	want := []string{"insert  (id=1,name=a,age=1)", "update PRIMARY=1 (id=8)", `subtract PRIMARY=1 (id=\N,name=\N,age=4)`, "insert  (id=4)", "update found 5 (id=6)", "update found 5 (id=6)", "insert  (id=7)"}
	if !slices.Equal(n.seen, want) || n.calls != 5 {
		t.Errorf("%d calls: %q\nwant %q", n.calls, n.seen, want)
	}
	c.out = nil
	c.send("\n" + strings.Repeat("0\t+\t1\t4\n", 600))
	if n.calls != 8 || len(c.out) != 4*600+len("0\t3\t2\tbob\t41\n") {
		t.Errorf("%d calls, %d bytes", n.calls, len(c.out))
	}
	if st := c.sess.server.Stats(); st.Writes == 0 || st.Refused == 0 || st.Parked != 0 {
		t.Errorf("%+v", st)
	}
}
