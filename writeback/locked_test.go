package writeback_test

import (
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// lockRow locks row 1 of the table until unlock is called.
func (f *fixture) lockRow(def *schema.Table) (unlock func()) {
	f.t.Helper()
	tx, err := f.db.BeginTx(f.t.Context(), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE " + def.FullName() + " SET n = 5 WHERE id = 1"); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		f.t.Helper()
		if err := tx.Commit(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestLockedRow: however many changes wait for a row that somebody else has locked, those of other rows and other
// transactions go on, and all are made when the lock is given back.
func TestLockedRow(t *testing.T) {
	each(t, writeback.Config{Groups: 1, Connections: 4, LockWait: time.Minute, TimeLimit: 2 * time.Minute}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0),(2,0)")
		unlock := f.lockRow(def)
		const waiting = 12
		answers := make(chan error, waiting)
		add := func() {
			_, _, err := f.w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1"))
			answers <- err
		}
		go add()
		for f.w.Stats().LockWaits == 0 { // until the lane has met the lock
			time.Sleep(10 * time.Millisecond)
		}
		for range waiting - 1 {
			go add()
		}
		for range 20 {
			if _, _, err := f.w.Change(t.Context(), change(schema.ChangeAdd, def, "2", "1")); err != nil {
				t.Error(err)
			}
		}
		if _, err := f.w.Transact(t.Context(), def, schema.ChangeAdd, func(tx *writeback.Tx) error {
			return tx.Search(&schema.Search{Def: def, Values: [][]byte{[]byte("2")}, Limit: 1}, func(row rowcodec.Row) error {
				return tx.Change(change(schema.ChangeAdd, def, "2", "1"), row)
			})
		}); err != nil {
			t.Errorf("a transaction of another row: %v", err)
		}
		if n := len(answers); n > 0 {
			t.Errorf("%d changes of the locked row were answered before others: %v", n, <-answers)
		}
		unlock()
		for range waiting {
			if err := <-answers; err != nil {
				t.Errorf("after the lock was given back: %v", err)
			}
		}
		f.want("SELECT GROUP_CONCAT(n ORDER BY id) FROM "+f.schema+".t", "17,21")
	})
}

// TestLockWait: a lock that is not given back is waited for within the bound, which changes that wait for their turn at the
// row do not exceed either.
func TestLockWait(t *testing.T) {
	each(t, writeback.Config{Connections: 2, LockWait: 2 * time.Second}, func(t *testing.T, f *fixture) {
		def := f.table("t", "id INT PRIMARY KEY, n INT")
		f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0)")
		unlock := f.lockRow(def)
		began := time.Now()
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if _, _, err := f.w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1")); outcome(err) != "146" {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		// One after the other they would take a minute.
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("took %v", d)
		}
		t.Logf("30 changes waited for %v", time.Since(began).Round(time.Millisecond))
		unlock()
		f.want("SELECT n FROM "+f.schema+".t", "5")
	})
}
