package writeback_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// begin calls Begin, and gives the results to the channel that it returns.
func (f *fixture) begin(ctx context.Context, changes ...*schema.Change) chan []writeback.Result {
	f.t.Helper()
	results := make(chan []writeback.Result, 2)
	if !f.w.Begin(ctx, changes, func(r []writeback.Result) { results <- r }) {
		f.t.Fatal("not begun")
	}
	return results
}

func (f *fixture) results(ch chan []writeback.Result) []writeback.Result {
	f.t.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(20 * time.Second):
		f.t.Fatal("no results")
		return nil
	}
}

// TestBegin: changes that nobody waits for have the results that Changes gives.
func TestBegin(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL")
		got := f.results(f.begin(t.Context(), insert(def, "NULL", "1"), insert(def, "1", "2"), insert(def, "7", "3"),
			change(schema.ChangeUpdate, def, "7", "4"), change(schema.ChangeDelete, def, "8", ""), upsert(def, "1", "5")))
		for i, want := range []struct {
			rows    int
			id      uint64
			outcome string
		}{{1, 1, ""}, {0, 0, "121"}, {1, 0, ""}, {1, 0, ""}, {0, 0, ""}, {1, 0, ""}} {
			if r := got[i]; r.Rows != want.rows || r.ID != want.id || outcome(r.Err) != want.outcome {
				t.Errorf("change %d: %+v, want %+v", i, r, want)
			}
		}
		f.want("SELECT GROUP_CONCAT(id, ':', n ORDER BY id) FROM "+f.schema+".t", "1:5,7:4")

		plain := f.table("m", "id INT PRIMARY KEY, n INT", "ENGINE=MyISAM")
		for name, c := range map[string]*schema.Change{
			"no transactions": insert(plain, "1", "1"), "no number": change(schema.ChangeAdd, def, "1", "x"), "nothing to set": {Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("1")}},
		} {
			if f.w.Begin(t.Context(), []*schema.Change{c}, func([]writeback.Result) { t.Error(name + ": ended") }) {
				t.Error(name + ": begun")
			}
		}
		many := make([]*schema.Change, 257)
		for i := range many {
			many[i] = insert(def, strconv.Itoa(100+i), "1")
		}
		if f.w.Begin(t.Context(), many, func([]writeback.Result) {}) {
			t.Error("more than a group holds were begun")
		}
		f.w.Close()
		if f.w.Begin(t.Context(), many[:1], func([]writeback.Result) {}) {
			t.Error("begun after Close")
		}
		f.want("SELECT COUNT(*) FROM "+f.schema+".t", "2")
	})
}

// TestBeginAbandoned: who gives up has an answer at once, and what was not begun by then is not made.
func TestBeginAbandoned(t *testing.T) {
	each(t, writeback.Config{Groups: 1}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0),(2,0)")
		unlock := f.lockRow(def)
		ctx, cancel := context.WithCancelCause(t.Context())
		taken := f.begin(ctx, change(schema.ChangeAdd, def, "1", "1"))
		time.Sleep(100 * time.Millisecond) // the lane waits for the row
		queued := f.begin(ctx, change(schema.ChangeAdd, def, "2", "1"))
		gone := errors.New("gone")
		cancel(gone)
		if r := f.results(taken)[0]; outcome(r.Err) != "uncertain" || !errors.Is(r.Err, gone) {
			t.Errorf("under way: %v", r.Err)
		}
		if r := f.results(queued)[0]; !errors.Is(r.Err, gone) || outcome(r.Err) == "uncertain" {
			t.Errorf("not begun: %v", r.Err)
		}
		unlock()
		f.w.Close()
		f.want("SELECT n FROM "+f.schema+".t WHERE id = 2", "0")
		if len(taken)+len(queued) > 0 {
			t.Error("a second answer")
		}
	})
}

// TestBeginTimeLimit: what has waited too long behind others is not made.
func TestBeginTimeLimit(t *testing.T) {
	each(t, writeback.Config{Groups: 1, TimeLimit: 800 * time.Millisecond}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0),(2,0)")
		unlock := f.lockRow(def)
		first := f.begin(t.Context(), change(schema.ChangeAdd, def, "1", "1"))
		time.Sleep(50 * time.Millisecond) // the lane waits for the row
		behind := f.begin(t.Context(), change(schema.ChangeAdd, def, "2", "1"))
		if err := f.results(first)[0].Err; !errors.Is(err, writeback.ErrUncertain) {
			t.Errorf("under way: %v", err)
		}
		if err := f.results(behind)[0].Err; !errors.Is(err, writeback.ErrTimeLimit) || errors.Is(err, writeback.ErrUncertain) {
			t.Errorf("behind it: %v", err)
		}
		unlock()
		f.want("SELECT n FROM "+f.schema+".t WHERE id = 2", "0")
	})
}
