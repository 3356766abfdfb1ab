package writeback_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// together makes changes as one caller that sends them at once, and gives their answers.
func (f *fixture) together(changes []*schema.Change) []string {
	var answers []string
	f.w.Changes(f.t.Context(), changes, func(_, rows int, id uint64, err error) {
		answers = append(answers, fmt.Sprintf("%d %d %s", rows, id, outcome(err)))
	})
	return answers
}

// apart makes them one after the other.
func (f *fixture) apart(changes []*schema.Change) []string {
	var answers []string
	for _, c := range changes {
		answers = append(answers, f.together([]*schema.Change{c})...)
	}
	return answers
}

// TestMergedAsApart: changes that are sent together answer and leave behind what they do one after the other, whatever is
// wrong with some of them.
func TestMergedAsApart(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		const columns = `id INT PRIMARY KEY, s VARCHAR(8) CHARACTER SET utf8mb4, l VARCHAR(8) CHARACTER SET latin1 NOT NULL DEFAULT 'd',
			b VARBINARY(8), n SMALLINT, at DATETIME, u INT UNIQUE, x DECIMAL(20,3), touched TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)`
		defs := []*schema.Table{f.table("a", columns), f.table("b", columns)}
		for _, def := range defs {
			name := def.FullName()
			f.exec("CREATE TABLE " + name + "_log (seq INT PRIMARY KEY AUTO_INCREMENT, id INT, n INT)")
			f.exec("CREATE TRIGGER " + name + "_told AFTER UPDATE ON " + name + " FOR EACH ROW INSERT INTO " + name + "_log (id, n) VALUES (NEW.id, NEW.n)")
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		pick := func(of ...string) []byte {
			s := of[rng.IntN(len(of))]
			if s == "NULL" {
				return nil
			}
			return []byte(s)
		}
		value := func(column int, wrong bool) schema.Assignment {
			v := [][]byte{
				1: pick("x", "\u00fc", "NULL", "", "it's", "\\"), 2: pick("y", "\xe4", ""), 3: pick("\x00\xff", "z", "NULL"),
				4: pick("1", "-7", "NULL", "300"), 5: pick("2024-05-06 07:08:09", "0000-00-00", "NULL", "2024-05-06 07:08:09.6"),
				6: []byte(strconv.Itoa(rng.IntN(200))), 7: pick("1.0625", "-2", "3e2", "NULL"),
			}[column]
			if wrong {
				v = [][]byte{1: []byte("much too long"), 2: nil, 3: []byte("much too long"), 4: []byte("99999"), 5: []byte("no date"), 6: []byte("x"), 7: []byte("x")}[column]
			}
			return schema.Assignment{Column: column, Value: v}
		}
		for round := range 12 {
			faults := round % 3 // none; a few; many, and rows that are not there
			next := 0
			var changes []*schema.Change
			kind, of := 0, 0
			for i := range 60 {
				if i%6 == 0 { // a few of one form behind each other
					kind, of = rng.IntN(12), rng.IntN(3+min(faults, 1))
				}
				key := strconv.Itoa(rng.IntN(25 + 25*faults))
				c := &schema.Change{Def: defs[0], Key: [][]byte{[]byte(key)}}
				switch kind {
				case 0:
					c.Kind, c.Key, c.Set = schema.ChangeInsert, nil, set(strconv.Itoa(1000*(round+1)+next))
					next++
				case 1:
					c.Kind = schema.ChangeDelete
					if faults == 0 {
						c.Kind, c.Set = schema.ChangeAdd, []schema.Assignment{{Column: 4, Value: []byte("1")}, {Column: 7, Value: nil}}
					}
				case 2, 3, 4:
					c.Kind, c.Set = schema.ChangeAdd, []schema.Assignment{{Column: 4, Value: pick("1", "-2", "0")}}
					if faults > 0 { // beyond the range, and values that are there
						c.Set = []schema.Assignment{{Column: 4, Value: pick("1", "32000")}, {Column: 6, Value: []byte(strconv.Itoa(rng.IntN(3)))}}
					}
				default:
					c.Kind, c.Set = schema.ChangeUpdate, set(key)
				}
				if c.Kind == schema.ChangeInsert || c.Kind == schema.ChangeUpdate {
					columns := [][]int{{1, 2, 3, 4, 5}, {1, 3, 4}, {4, 7}, {1, 6}}[of]
					if c.Kind == schema.ChangeInsert {
						columns = []int{1, 2, 5}
					}
					for _, i := range columns {
						c.Set = append(c.Set, value(i, faults > 0 && rng.IntN(60/faults) == 0))
					}
				}
				changes = append(changes, c)
			}
			for i := range 25 {
				for _, def := range defs {
					f.exec(fmt.Sprintf("REPLACE INTO %s (id, u) VALUES (%d, %d)", def.FullName(), i, 1000+i))
				}
			}
			before := f.w.Stats().Merged
			got := f.together(changes)
			// Some are of rows that others in the group change, or stand behind such.
			if n := f.w.Stats().Merged - before; faults == 0 && n < 6 {
				t.Errorf("round %d: %d were merged", round, n)
			}
			for i, c := range changes {
				own := *c
				own.Def = defs[1]
				changes[i] = &own
			}
			want := f.apart(changes)
			if !slices.Equal(got, want) {
				for i := range got {
					if got[i] != want[i] {
						t.Errorf("round %d, change %d (%v): got %s, want %s", round, i, changes[i].Kind, got[i], want[i])
					}
				}
			}
			for _, half := range [][2]string{{"a", "b"}, {"b", "a"}} {
				f.want(strings.NewReplacer("A", f.schema+"."+half[0], "B", f.schema+"."+half[1]).Replace(
					"select count(*) from A p left join B q on p.id = q.id and p.s <=> q.s and p.l = q.l and p.b <=> q.b and p.n <=> q.n and p.at <=> q.at "+
						"and p.u <=> q.u and p.x <=> q.x and (p.touched is null) = (q.touched is null) where q.id is null"), "0")
			}
			// The triggers have run as often, in each row's order.
			log := "SELECT GROUP_CONCAT(id, '=', l ORDER BY id) FROM (SELECT id, GROUP_CONCAT(COALESCE(n, 'NULL') ORDER BY seq) l FROM " + f.schema + ".%s_log GROUP BY id) x"
			var told string
			if err := f.db.QueryRowContext(t.Context(), fmt.Sprintf(log, "b")).Scan(&told); err != nil {
				t.Fatal(err)
			}
			f.want(fmt.Sprintf(log, "a"), told)
			for _, def := range defs {
				f.exec("TRUNCATE " + def.FullName() + "_log")
			}
			if t.Failed() {
				return
			}
			if faults > 0 {
				time.Sleep(260 * time.Millisecond) // until the table's changes are merged again
			}
		}
	})
}

// TestMergedInserts: rows to insert become one statement, each with its own answer.
func TestMergedInserts(t *testing.T) {
	each(t, writeback.Config{}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		var changes []*schema.Change
		for i := range 200 {
			changes = append(changes, insert(def, strconv.Itoa(i), "1"))
		}
		for i, a := range f.together(changes) {
			if a != "1 0 " {
				t.Errorf("insert %d: %s", i, a)
			}
		}
		if st := f.w.Stats(); st.Merged != 200 || st.Groups != 1 {
			t.Errorf("%d merged in %d groups", st.Merged, st.Groups)
		}
		changes = changes[:0]
		for i := range 30 {
			changes = append(changes, insert(def, strconv.Itoa(190+i), "2"))
		}
		for i, a := range f.together(changes) {
			if want := map[bool]string{true: "0 0 121", false: "1 0 "}[i < 10]; a != want {
				t.Errorf("insert of %d: %s, want %s", 190+i, a, want)
			}
		}
		changes = changes[:0]
		for i := range 40 { // each row twice, the second wins
			changes = append(changes, upsert(def, strconv.Itoa(210+i%20), strconv.Itoa(i)))
		}
		time.Sleep(300 * time.Millisecond) // until changes of the table are merged again
		before := f.w.Stats().Merged
		for i, a := range f.together(changes) {
			if a != "1 0 " {
				t.Errorf("upsert %d: %s", i, a)
			}
		}
		if n := f.w.Stats().Merged - before; n != 40 {
			t.Errorf("%d upserts were merged", n)
		}
		f.want("SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM "+f.schema+".t", fmt.Sprintf("230 %d", 190+10+2*20+(20+39)*10-2*10))
	})
}

// TestMergedLockedRow: one locked row among those of a merged update holds the others up for the second of the lock wait,
// and no longer.
func TestMergedLockedRow(t *testing.T) {
	each(t, writeback.Config{Groups: 1, LockWait: time.Minute, TimeLimit: 2 * time.Minute}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (0,0),(1,0),(2,0),(3,0),(4,0),(5,0),(6,0),(7,0),(8,0),(9,0)")
		unlock := f.lockRow(def)
		var others, one sync.WaitGroup
		began := time.Now()
		// What comes while the first waits for the lock is one group; then that meets it as well.
		one.Go(func() {
			if _, _, err := f.w.Change(t.Context(), change(schema.ChangeUpdate, def, "1", "10")); err != nil {
				t.Errorf("the locked row: %v", err)
			}
		})
		var changes []*schema.Change
		for i := range 10 {
			wg := &others
			if i == 1 {
				wg = &one
			}
			c := change(schema.ChangeUpdate, def, strconv.Itoa(i), "7")
			changes = append(changes, c)
			wg.Go(func() {
				if rows, _, err := f.w.Change(t.Context(), c); rows != 1 || err != nil {
					t.Errorf("row %s: %d %v", c.Key[0], rows, err)
				}
			})
		}
		others.Wait()
		if d := time.Since(began); d > 2500*time.Millisecond {
			t.Errorf("others waited for %v", d)
		}
		f.want("SELECT GROUP_CONCAT(n ORDER BY id) FROM "+f.schema+".t", "7,0,7,7,7,7,7,7,7,7")
		unlock()
		one.Wait()

		// All in one statement from the start, of another table, whose rows nobody has waited for.
		def = f.table("t2", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t2 SELECT * FROM " + f.schema + ".t")
		for _, c := range changes {
			c.Def = def
		}
		unlock = f.lockRow(def)
		before := f.w.Stats()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began = time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			f.w.Changes(ctx, changes, func(i, rows int, _ uint64, err error) {
				if rows != 1 || err != nil {
					t.Errorf("row %d: %d %v", i, rows, err)
				}
			})
		})
		for f.w.Stats().LockWaits == before.LockWaits {
			time.Sleep(10 * time.Millisecond)
		}
		if _, _, err := f.w.Change(t.Context(), change(schema.ChangeUpdate, def, "2", "8")); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 2500*time.Millisecond {
			t.Errorf("another caller's change waited for %v", d)
		}
		unlock()
		all.Wait()
	})
}
