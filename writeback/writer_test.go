package writeback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// TestChange: each kind of change, with what it answers and leaves behind.
func TestChange(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT 7, s VARCHAR(5), u INT UNIQUE, d DATETIME, b VARBINARY(20)")
		parent := f.table("p", "id INT PRIMARY KEY")
		child := f.table("c", "id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id)")
		tiny := f.table("tiny", "id TINYINT AUTO_INCREMENT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".tiny VALUES (127, 1)")
		one := f.table("one", "k VARCHAR(5) PRIMARY KEY, v VARCHAR(5), n INT, d VARCHAR(5) DEFAULT 'dflt'", "CHARSET=latin1")
		oneRow := "SELECT GROUP_CONCAT(CONCAT_WS('|',k,v,n,d)) FROM " + f.schema + ".one"
		plain := f.table("plain", "id INT PRIMARY KEY, n INT", "ENGINE=MyISAM")
		id := func(n string) string {
			return "SELECT CONCAT_WS('|',id,n,s,u,d,HEX(b)) FROM " + f.schema + ".t WHERE id=" + n
		}
		for _, step := range []struct {
			change *schema.Change
			rows   int
			id     uint64
			err    string
			query  string
			want   string
		}{
			{insert(def, "NULL"), 1, 1, "", id("1"), "1|7"},
			{insert(def, "", "5", "a'b\\", "9", "2024-01-02 03:04:05", "\x00\xff'"), 1, 2, "", id("2"), "2|5|a'b\\|9|2024-01-02 03:04:05|00FF27"},
			{insert(def, "0", "1"), 1, 3, "", id("3"), "3|1"},
			{insert(def, "50", "1"), 1, 0, "", id("50"), "50|1"},
			{insert(def, "50", "1"), 0, 0, "121", "", ""},
			{insert(def, "NULL", "1", "x", "9"), 0, 0, "121", "", ""},
			{insert(def, "NULL", "NULL"), 0, 0, "1048", "", ""},
			{insert(def, "NULL", "abc"), 0, 0, "1366", "", ""},
			{insert(def, "NULL", "99999999999"), 0, 0, "1264", "", ""},
			{insert(def, "NULL", "1", "toolong"), 0, 0, "1406", "", ""},
			{insert(def, "NULL", "1", "x", "NULL", "2024-02-30 00:00:00"), 0, 0, "1292", "", ""},
			{insert(def, "60", "1); DELETE FROM t; -- "), 0, 0, "1366|1265", "", ""},
			{insert(child, "1", "77"), 0, 0, "151", "", ""},
			{insert(parent, "5"), 1, 0, "", "", ""},
			{insert(child, "1", "5"), 1, 0, "", "", ""},
			{change(schema.ChangeDelete, parent, "5", ""), 0, 0, "152", "", ""},
			{insert(tiny, "NULL", "1"), 0, 0, "166|121|167", "", ""},
			{change(schema.ChangeUpdate, def, "1", "8"), 1, 0, "", id("1"), "1|8"},
			{change(schema.ChangeUpdate, def, "1", "8"), 1, 0, "", id("1"), "1|8"},
			{change(schema.ChangeUpdate, def, "999", "8"), 0, 0, "", "", ""},
			{change(schema.ChangeAdd, def, "1", "-20"), 1, 0, "", id("1"), "1|-12"},
			{change(schema.ChangeAdd, def, "1", "1x"), 0, 0, "1366", "", ""},
			{change(schema.ChangeAdd, def, "1", "2147483647000"), 0, 0, "1264", id("1"), "1|-12"},
			{change(schema.ChangeSubtract, def, "1", "-13"), 0, 0, "", id("1"), "1|-12"},
			{change(schema.ChangeSubtract, def, "1", "-12"), 1, 0, "", id("1"), "1|0"},
			{&schema.Change{Kind: schema.ChangeAdd, Def: def, Key: [][]byte{[]byte("1")}, Set: []schema.Assignment{{Column: 4, Value: []byte("1")}}}, 0, 0, "nonumber", "", ""},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("1")}}, 1, 0, "", id("1"), "1|0"},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Index: def.IndexByName("u"), Key: [][]byte{[]byte("9")}, Set: []schema.Assignment{{Column: 1, Value: []byte("1")}, {Column: 1, Value: []byte("6")}}}, 1, 0, "", id("2"), "2|6|a'b\\|9|2024-01-02 03:04:05|00FF27"},
			// The key as a value: what it has, in the same spelling or another, and another one.
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("1")}, Set: set("1", "9")}, 1, 0, "", id("1"), "1|9"},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("1")}, Set: set("1")}, 1, 0, "", id("1"), "1|9"},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("999")}, Set: set("999")}, 0, 0, "", "", ""},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("1")}, Set: set("01", "8")}, 1, 0, "", id("1"), "1|8"},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("1")}, Set: set("4", "8")}, 1, 0, "", id("4"), "4|8"},
			{&schema.Change{Kind: schema.ChangeUpdate, Def: def, Key: [][]byte{[]byte("4")}, Set: set("1", "0")}, 1, 0, "", id("1"), "1|0"},
			{change(schema.ChangeDelete, def, "2", ""), 1, 0, "", "SELECT COUNT(*) FROM " + f.schema + ".t", "3"},
			{change(schema.ChangeDelete, def, "2", ""), 0, 0, "", "", ""},
			{upsert(one, "k", "v", "1"), 1, 0, "", oneRow, "k|v|1|dflt"},
			{upsert(one, "k", "w", "1"), 1, 0, "", oneRow, "k|w|1|dflt"},
			{upsert(one, "k", "w", "1"), 1, 0, "", oneRow, "k|w|1|dflt"},
			{upsert(one, "K", "x'\\", "NULL"), 1, 0, "", oneRow, "k|x'\\|dflt"},
			{upsert(one, "K", "too long for it", "3"), 0, 0, "1406", oneRow, "k|x'\\|dflt"},
			{upsert(one, "K", "y", "1", "kept"), 1, 0, "", oneRow, "k|y|1|kept"},
			{rekeyed(upsert(one, "K", "y")), 1, 0, "", "SELECT CONCAT(HEX(k), v) FROM " + f.schema + ".one", "4By"},
			{rekeyed(upsert(one, "k", "y")), 1, 0, "", "SELECT CONCAT(HEX(k), v) FROM " + f.schema + ".one", "6By"},
			{upsert(one, "k", "z"), 1, 0, "", oneRow, "k|z|1|kept"},
			{upsert(plain, "1", "5"), 1, 0, "", "SELECT n FROM " + f.schema + ".plain", "5"},
			{upsert(plain, "1", "6"), 1, 0, "", "SELECT n FROM " + f.schema + ".plain", "6"},
			{insert(def, "70", "1", strings.Repeat("x", 80<<20)), 0, 0, "toolarge", "", ""},
		} {
			rows, id, err := f.w.Change(t.Context(), step.change)
			if got := outcome(err); rows != step.rows || id != step.id || !strings.Contains("|"+step.err+"|", "|"+got+"|") {
				t.Errorf("%s %.60s by %q: got %d rows, id %d, %q; want %d, %d, %q", step.change.Kind, fmt.Sprint(step.change.Set), step.change.Key, rows, id, got, step.rows, step.id, step.err)
			}
			if step.query != "" {
				f.want(step.query, step.want)
			}
		}
		f.exec("ALTER TABLE " + f.schema + ".t DROP COLUMN n")
		if _, _, err := f.w.Change(t.Context(), change(schema.ChangeUpdate, def, "1", "8")); outcome(err) != "changed" {
			t.Errorf("a column that is gone: %v", err)
		}
	})
}

// TestGroup: changes that are sent at the same time are committed together, each with its own result, and an error in one
// does not spoil the others.
func TestGroup(t *testing.T) {
	each(t, writeback.Config{Groups: 1}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT, u INT UNIQUE, CHECK (n < 1000)")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (0,0,0)")
		f.exec("CREATE TRIGGER " + f.schema + ".guard BEFORE INSERT ON " + f.schema + ".t FOR EACH ROW IF NEW.n = 13 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no', MYSQL_ERRNO = 31000; END IF")
		const clients, rounds = 60, 12
		var mu sync.Mutex
		got := map[string]int{}
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for r := range rounds {
					id := fmt.Sprint(1 + c*rounds + r)
					var err error
					switch r % 6 {
					case 0, 1:
						_, _, err = f.w.Change(t.Context(), insert(def, id, "1"))
					case 2:
						_, _, err = f.w.Change(t.Context(), insert(def, id, "5", "0"))
					case 3:
						_, _, err = f.w.Change(t.Context(), insert(def, id, "2000"))
					case 4:
						_, _, err = f.w.Change(t.Context(), insert(def, id, "13"))
					case 5:
						_, _, err = f.w.Change(t.Context(), change(schema.ChangeAdd, def, "0", "1"))
					}
					mu.Lock()
					got[fmt.Sprint(r%6, " ", outcome(err))]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		n := clients * rounds / 6
		check := "4025"
		if f.server.Flavor == schema.FlavorMySQL {
			check = "3819"
		}
		want := map[string]int{"0 ": n, "1 ": n, "2 121": n, "3 " + check: n, "4 31000": n, "5 ": n}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		f.want("SELECT COUNT(*) FROM "+f.schema+".t WHERE n = 1", fmt.Sprint(2*n))
		f.want("SELECT n FROM "+f.schema+".t WHERE id = 0", fmt.Sprint(n))
		st := f.w.Stats()
		t.Logf("%d groups of %d changes", st.Groups, st.Grouped)
		if st.Grouped != uint64(3*n) || st.Groups > st.Grouped/2 {
			t.Errorf("%d groups of %d changes", st.Groups, st.Grouped)
		}
	})
}

// TestTransact: rows that a search finds are changed in its order and limit, all or none.
func TestTransact(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		def := f.table("t", "a VARCHAR(9), b INT, g INT, u INT UNIQUE, PRIMARY KEY (a, b), KEY (g)")
		f.exec("INSERT INTO " + f.schema + ".t VALUES ('x',1,7,1),('x',2,7,2),('y',1,7,3),('z',1,8,4)")
		found := &schema.Search{Def: def, Index: def.IndexByName("g"), Op: schema.OpGE, Values: [][]byte{[]byte("7")}, Columns: []int{}, Limit: 3}
		all := "SELECT GROUP_CONCAT(CONCAT(a,b,':',g,':',u) ORDER BY a,b) FROM " + f.schema + ".t"
		rows, err := f.w.Transact(t.Context(), def, schema.ChangeAdd, func(tx *writeback.Tx) error {
			return takeAll(tx, found, &schema.Change{Kind: schema.ChangeAdd, Def: def, Set: []schema.Assignment{{Column: 2, Value: []byte("1")}}})
		})
		if rows != 3 || err != nil {
			t.Errorf("%d rows, %v", rows, err)
		}
		f.want(all, "x1:8:1,x2:8:2,y1:8:3,z1:8:4")
		_, err = f.w.Transact(t.Context(), def, schema.ChangeUpdate, func(tx *writeback.Tx) error {
			return takeAll(tx, found, &schema.Change{Kind: schema.ChangeUpdate, Def: def, Set: []schema.Assignment{{Column: 3, Value: []byte("50")}}})
		})
		if outcome(err) != "121" {
			t.Errorf("a doubled key: %v", err)
		}
		f.want(all, "x1:8:1,x2:8:2,y1:8:3,z1:8:4")
		own := errors.New("own error")
		if _, err = f.w.Transact(t.Context(), def, schema.ChangeDelete, func(tx *writeback.Tx) error {
			return errors.Join(takeAll(tx, found, &schema.Change{Kind: schema.ChangeDelete, Def: def}), own)
		}); !errors.Is(err, own) {
			t.Errorf("got %v", err)
		}
		f.want(all, "x1:8:1,x2:8:2,y1:8:3,z1:8:4")
		nokey := f.table("nokey", "a INT, KEY (a)")
		f.exec("INSERT INTO " + f.schema + ".nokey VALUES (1)")
		if _, err = f.w.Transact(t.Context(), nokey, schema.ChangeDelete, func(tx *writeback.Tx) error {
			return takeAll(tx, &schema.Search{Def: nokey, Values: [][]byte{[]byte("1")}}, &schema.Change{Kind: schema.ChangeDelete, Def: nokey})
		}); outcome(err) != "nokey" {
			t.Errorf("without key: %v", err)
		}
	})
}

// TestDeadlocks: transactions that take the same rows in different orders all come through.
func TestDeadlocks(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0),(2,0),(3,0),(4,0)")
		add := &schema.Change{Kind: schema.ChangeAdd, Def: def, Set: []schema.Assignment{{Column: 1, Value: []byte("1")}}}
		var wg sync.WaitGroup
		var mu sync.Mutex
		done, refused := 0, 0
		for c := range 8 {
			wg.Go(func() {
				for range 10 {
					op, from := schema.OpGE, "1"
					if c%2 == 1 {
						op, from = schema.OpLE, "4"
					}
					_, err := f.w.Transact(t.Context(), def, schema.ChangeAdd, func(tx *writeback.Tx) error {
						for i := range 4 { // one at a time, so that they meet
							if err := takeAll(tx, &schema.Search{Def: def, Op: op, Values: [][]byte{[]byte(from)}, Limit: 1, Offset: i}, add); err != nil {
								return err
							}
						}
						return nil
					})
					mu.Lock()
					switch outcome(err) {
					case "":
						done++
					case "149":
						refused++
					default:
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Logf("%d done, %d given up, %d deadlocks", done, refused, f.w.Stats().Deadlocks)
		if done < 60 {
			t.Errorf("only %d of 80 came through", done)
		}
		f.want("SELECT GROUP_CONCAT(n ORDER BY id) FROM "+f.schema+".t", strings.Join([]string{fmt.Sprint(done), fmt.Sprint(done), fmt.Sprint(done), fmt.Sprint(done)}, ","))
	})
}

// TestChanges: changes of one caller are carried out in their order, also where that order matters, something fails, or a
// lock has to be waited for; and in few commits.
func TestChanges(t *testing.T) {
	each(t, writeback.Config{LockWait: 2 * time.Second}, func(t *testing.T, f *fixture) {
		parent := f.table("p", "id INT PRIMARY KEY")
		child := f.table("c", "id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id)")
		f.exec("INSERT INTO " + f.schema + ".p VALUES (1000)")
		run := func(all []*schema.Change) string {
			var got []string
			f.w.Changes(t.Context(), all, func(i, rows int, _ uint64, err error) {
				if i != len(got) {
					t.Errorf("answer %d came as number %d", i, len(got))
				}
				got = append(got, fmt.Sprint(rows, outcome(err)))
			})
			return strings.Join(got, " ")
		}
		var all []*schema.Change
		var want []string
		for n := range 100 {
			id := fmt.Sprint(n)
			all = append(all, insert(parent, id), insert(child, id, id), insert(child, id, id), change(schema.ChangeUpdate, child, id, "x"),
				change(schema.ChangeDelete, parent, id, ""))
			want = append(want, "1", "1", "0121", "01366", "0152")
		}
		if got := run(all); got != strings.Join(want, " ") {
			t.Errorf("got  %s\nwant %s", got, strings.Join(want, " "))
		}
		if st := f.w.Stats(); st.Groups > 20 || st.Grouped != 200 {
			t.Errorf("%d groups of %d", st.Groups, st.Grouped)
		}
		tx, err := f.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE " + f.schema + ".p SET id = id + 0 WHERE id = 50"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("DELETE FROM " + f.schema + ".p WHERE id = 1000"); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(1500 * time.Millisecond)
			_ = tx.Rollback()
		}()
		// The second waits for the lock; the third needs what the second does.
		got := run([]*schema.Change{
			change(schema.ChangeDelete, child, "1", ""), change(schema.ChangeDelete, parent, "1000", ""), insert(parent, "1000"), insert(child, "1000", "1000"), change(schema.ChangeDelete, parent, "1", ""),
		})
		if got != "1 1 1 1 1" {
			t.Errorf("around a lock: %s", got)
		}
	})
}

// TestEngineWithoutTransactions: what can't be undone is not done twice, whatever else is under way.
func TestEngineWithoutTransactions(t *testing.T) {
	each(t, writeback.Config{Groups: 1}, func(t *testing.T, f *fixture) {
		def := f.table("m", "id INT AUTO_INCREMENT PRIMARY KEY, n INT", "ENGINE=MyISAM")
		other := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".m VALUES (1,0)")
		f.exec("CREATE TRIGGER " + f.schema + ".guard BEFORE INSERT ON " + f.schema + ".t FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no', MYSQL_ERRNO = 31000")
		var wg sync.WaitGroup
		for c := range 20 {
			wg.Go(func() {
				f.w.Changes(t.Context(), []*schema.Change{change(schema.ChangeAdd, def, "1", "1"), insert(other, fmt.Sprint(c), "1"), change(schema.ChangeAdd, def, "1", "1")}, func(i, rows int, _ uint64, err error) {
					if want := map[bool]string{true: "31000"}[i == 1]; outcome(err) != want || rows != 1-i%2 {
						t.Errorf("%d rows, %v", rows, err)
					}
				})
			})
		}
		wg.Wait()
		f.want("SELECT n FROM "+f.schema+".m", "40")
		if _, id, err := f.w.Change(t.Context(), insert(def, "NULL", "1")); id != 2 || err != nil {
			t.Errorf("id %d, %v", id, err)
		}
		system := *other
		system.Schema, system.Name = "mysql", "user"
		if _, _, err := f.w.Change(t.Context(), insert(&system, "1", "1")); outcome(err) != "readonly" {
			t.Errorf("a system table: %v", err)
		}
	})
}

// TestClose: changes that wait are not waited for without end, and later ones are refused.
func TestClose(t *testing.T) {
	each(t, writeback.Config{Groups: 1, LockWait: 20 * time.Second}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0)")
		tx, err := f.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.Exec("UPDATE " + f.schema + ".t SET n = 5 WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := f.w.Change(ctx, change(schema.ChangeAdd, def, "1", "1")); outcome(err) != "uncertain" {
				t.Errorf("got %v", err)
			}
		})
		time.Sleep(1500 * time.Millisecond) // it waits by itself
		cancel()
		wg.Wait()
		began := time.Now()
		f.w.Close()
		if d := time.Since(began); d > 10*time.Second { // half of the wait for the lock
			t.Errorf("Close took %v", d)
		}
		if _, _, err := f.w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1")); outcome(err) != "closed" {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestTransactInsert: a row that was not found is inserted with everything else of the transaction, or not at all.
func TestTransactInsert(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT, u INT UNIQUE")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,1,1)")
		do := func(inserted *schema.Change) (int, error) {
			return f.w.Transact(t.Context(), def, schema.ChangeUpsert, func(tx *writeback.Tx) error {
				search := &schema.Search{Def: def, Values: [][]byte{[]byte("1")}}
				if err := takeAll(tx, search, &schema.Change{Kind: schema.ChangeAdd, Def: def, Set: []schema.Assignment{{Column: 1, Value: []byte("1")}}}); err != nil {
					return err
				}
				return tx.Insert(inserted)
			})
		}
		if rows, err := do(insert(def, "2", "0", "2")); rows != 2 || err != nil {
			t.Errorf("%d rows, %v", rows, err)
		}
		for _, c := range []*schema.Change{insert(def, "2"), insert(def, "3", "0", "1")} {
			if rows, err := do(c); rows != 0 || outcome(err) != "121" {
				t.Errorf("duplicate: %d rows, %v", rows, err)
			}
		}
		f.want("SELECT GROUP_CONCAT(CONCAT_WS('|',id,n,u) ORDER BY id) FROM "+f.schema+".t", "1|2|1,2|0|2")
	})
}
