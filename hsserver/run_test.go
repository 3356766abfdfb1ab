package hsserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// TestRuns checks which finds are answered from one state of a table, by how often tables are held for them.
func TestRuns(t *testing.T) {
	m := users(t)
	m.load(t, tableOf("other", intColumn("id"), textColumn("v")), "1,x")
	large := make([]string, 3000)
	for i := range large {
		large[i] = fmt.Sprintf("%d,v", i)
	}
	g := m.load(t, tableOf("large", intColumn("id"), textColumn("v")), large...)
	c := newTalk(t, New(Config{Reader: m}))
	c.expect("P\t0\tapp\tuser\tPRIMARY\tname", "0\t1")
	c.expect("P\t1\tapp\tuser\tkage\tid", "0\t1")
	find := func(id, n int) string { return strings.Repeat(fmt.Sprintf("%d\t=\t1\t3\n", id), n) }
	for i, tc := range []struct {
		what, send string
		holds      int64
	}{
		{"one find", find(0, 1), 0},
		{"finds", find(0, 100), 1},
		{"finds over two indexes of a table", strings.Repeat(find(0, 1)+find(1, 1), 10), 1},
		{"an IN list", "0\t=\t1\t\t9\t0\t@\t0\t3\t1\t2\t3\n", 1},
		{"IN lists among finds", strings.Repeat(find(0, 1)+"0\t=\t1\t\t9\t0\t@\t0\t3\t1\t2\t3\n", 5), 1},
		{"errors among finds", find(0, 2) + "77\t=\t1\t1\n0\tx\t1\t1\n0\t=\t9\t1\n" + find(0, 2), 1},
		{"an open between finds", find(0, 2) + "P\t1\tapp\tuser\tkage\tid\n" + find(0, 2), 2},
		{"an open between single finds", find(0, 1) + "P\t1\tapp\tuser\tkage\tid\n" + find(0, 1), 0},
		{"a command that is none", find(0, 2) + "x\n" + find(0, 2), 1},
		{"authentication between finds", find(0, 2) + "A\t1\t\n" + find(0, 2), 2},
		{"a write between finds", find(0, 2) + "0\t=\t1\t1\t1\t0\tU\tx\n" + find(0, 2), 2},
		{"more finds than a run has", find(0, maxRunWork+1), 2},
		{"a find whose next line is not complete", find(0, 1) + "0\t=", 1},
		{"the end of that line", "\t1\t3\n", 0},
		{"open another table", "P\t2\tapp\tother\tPRIMARY\tv\n", 0},
		{"tables alternately", strings.Repeat(find(0, 1)+find(2, 1)+find(1, 1), 10), 2},
		{"one table of two that are open", find(0, 10), 1},
		{"a table behind an open", find(0, 2) + "P\t1\tapp\tuser\tkage\tid\n" + find(2, 2), 2},
		{"a table behind an insert", find(0, 2) + "0\t+\t1\tx\n" + find(2, 2), 2},
		{"open the large one", "P\t3\tapp\tlarge\tPRIMARY\tid\n", 0},
		{"ranges beyond a run", strings.Repeat("3\t>=\t1\t0\t1500\t0\n", 5), 2},
		{"offsets beyond a run", strings.Repeat("3\t>=\t1\t0\t1\t1500\n", 5), 2},
		// The long one is answered by a job, and the run goes on behind it.
		{"a range that takes long", find(0, 2) + "3\t>=\t1\t0\t2500\t0\n" + find(0, 2), 3},
	} {
		before := m.holds.Load()
		c.out = c.out[:0]
		c.send(tc.send)
		if got := m.holds.Load() - before; got != tc.holds {
			t.Errorf("%s: tables were held %d times, want %d", tc.what, got, tc.holds)
		}
		answers, lines := strings.Count(string(c.out), "\n"), strings.Count(tc.send, "\n")
		if answers != lines {
			t.Errorf("%s: %d answers to %d lines", tc.what, answers, lines)
		}
		// Nothing is held any more.
		var b rowcodec.Builder
		b.Add([]byte("1"))
		b.Add([]byte("v"))
		row := b.AppendRow(nil)
		done := make(chan error, 1)
		go func() { done <- g.Apply([]rowcodec.Change{{Before: row, After: row}}, uint64(i+2)) }()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the table is still held", tc.what)
		}
	}
}

// TestRunEndsWithPanic: a session that fails lets its tables go.
func TestRunEndsWithPanic(t *testing.T) {
	m := users(t)
	c := newTalk(t, New(Config{Reader: m}))
	c.expect("P\t0\tapp\tuser\tPRIMARY\tname", "0\t1")
	c.sess.emit = func(rowcodec.Row, uint64) bool { panic("as if") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		c.send("0\t=\t1\t1\n0\t=\t1\t2\n")
	}()
	suspended := make(chan struct{})
	go func() { m.store.Tables()[0].Suspend("test"); close(suspended) }()
	select {
	case <-suspended:
	case <-time.After(10 * time.Second):
		t.Fatal("the table is still held")
	}
}
