package writeback_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// fencer counts the tables that are fenced.
type fencer struct{ n atomic.Int64 }

func (f *fencer) Fence(*schema.Table) func() {
	f.n.Add(1)
	return func() { f.n.Add(-1) }
}

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// contains asks the server whether it has executed a transaction.
func (f *fixture) contains(gtid string) bool {
	f.t.Helper()
	query := "SELECT GTID_SUBSET('" + gtid + "', @@global.gtid_executed)"
	if f.server.Flavor == schema.FlavorMariaDB {
		query = "SELECT FIND_IN_SET('" + gtid + "', '" + gtid + "')"
	}
	var n int
	if err := f.db.QueryRowContext(f.t.Context(), query).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n == 1
}

// TestApplied: an answer waits for the follower to apply the transaction, and no longer than its bound; then readers are
// kept from memory until it has.
func TestApplied(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			follower := &follower{asked: make(chan string, 100), applied: make(chan struct{})}
			fence := &fencer{}
			f := newFixture(t, s, writeback.Config{Applied: follower, Fence: fence, AckTimeout: 300 * time.Millisecond})
			def := f.table("t", "id INT PRIMARY KEY, n INT")
			began := time.Now()
			if rows, _, err := f.w.Change(t.Context(), insert(def, "1", "1")); rows != 1 || err != nil || time.Since(began) < 300*time.Millisecond {
				t.Errorf("after %v: %d rows, %v", time.Since(began), rows, err)
			}
			gtid := <-follower.asked
			if gtid == "" || strings.Contains(gtid, ",") || !f.contains(gtid) {
				t.Errorf("waited for %q", gtid)
			}
			if fence.n.Load() != 1 || f.w.Stats().Timeouts != 1 || f.w.Stats().Fenced != 1 || f.w.Stats().Asked != 0 {
				t.Errorf("fences %d, %+v", fence.n.Load(), f.w.Stats())
			}
			close(follower.applied)
			eventually(t, "the fence stays", func() bool { return fence.n.Load() == 0 })
			for len(follower.asked) > 0 {
				<-follower.asked
			}
			// A change that changes nothing has seen what others committed.
			f.exec("UPDATE " + f.schema + ".t SET n = 2")
			if rows, _, err := f.w.Change(t.Context(), change(schema.ChangeUpdate, def, "1", "2")); rows != 1 || err != nil {
				t.Errorf("%d rows, %v", rows, err)
			}
			if gtids := <-follower.asked; gtids == "" || f.w.Stats().Asked != 1 {
				t.Errorf("waited for %q, %+v", gtids, f.w.Stats())
			}
			if _, err := f.w.Transact(t.Context(), def, schema.ChangeDelete, func(tx *writeback.Tx) error {
				return takeAll(tx, &schema.Search{Def: def, Values: [][]byte{[]byte("1")}}, &schema.Change{Kind: schema.ChangeDelete, Def: def})
			}); err != nil {
				t.Error(err)
			}
			if gtid := <-follower.asked; strings.Contains(gtid, ",") || !f.contains(gtid) || f.w.Stats().Asked != 1 {
				t.Errorf("waited for %q, %+v", gtid, f.w.Stats())
			}
		})
	}
}

// TestPlainAccount: an account that may only change the table is told what it commits as well.
func TestPlainAccount(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, s, writeback.Config{})
			def := f.table("t", "id INT PRIMARY KEY, n INT")
			f.table("other", "id INT PRIMARY KEY, n INT")
			user := "w" + f.schema[len(f.schema)-8:]
			f.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'secret'")
			t.Cleanup(func() { f.db.Exec("DROP USER '" + user + "'@'%'") })
			f.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON " + f.schema + ".t TO '" + user + "'@'%'")
			plain := *f.source
			plain.User, plain.Password = user, "secret"
			follower := &follower{asked: make(chan string, 100), applied: make(chan struct{})}
			close(follower.applied)
			w := writeback.New(&plain, writeback.Config{Applied: follower})
			defer w.Close()
			if _, _, err := w.Change(t.Context(), insert(def, "1", "1")); err != nil {
				t.Fatal(err)
			}
			if gtid := <-follower.asked; !f.contains(gtid) || w.Stats().Asked != 0 {
				t.Errorf("waited for %q, %+v", gtid, w.Stats())
			}
			other := *def
			other.Name = "other"
			if _, _, err := w.Change(t.Context(), insert(&other, "1", "1")); outcome(err) != "1142" {
				t.Errorf("without the privilege: %v", err)
			}
		})
	}
}

// TestTrouble: what is answered when the server takes no writes, ends sessions, is gone and comes back.
func TestTrouble(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			follower := &follower{asked: make(chan string, 100), applied: make(chan struct{})}
			close(follower.applied)
			fence := &fencer{}
			f := newFixture(t, s, writeback.Config{Applied: follower, Fence: fence})
			def := f.table("t", "id INT PRIMARY KEY, n INT")
			source := *f.source
			source.User = "plain"
			source.Password = "secret"
			f.exec("CREATE USER plain@'%' IDENTIFIED BY 'secret'")
			f.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO plain@'%'")
			w := writeback.New(&source, writeback.Config{Applied: follower, Fence: fence, TimeLimit: 5 * time.Second})
			defer w.Close()
			add := func(want string) {
				t.Helper()
				if _, _, err := w.Change(context.WithoutCancel(t.Context()), change(schema.ChangeAdd, def, "1", "1")); !strings.Contains("|"+want+"|", "|"+outcome(err)+"|") {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0)")
			add("")
			f.exec("SET GLOBAL read_only = ON")
			add("readonly")
			f.exec("SET GLOBAL read_only = OFF")
			add("")
			f.want("SELECT n FROM "+f.schema+".t", "2")

			// The statement waits for a lock while its session is ended: it was not committed, and the server says so; or its
			// end can't be told from one after the commit.
			tx, err := f.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("UPDATE " + f.schema + ".t SET n = n WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				add("uncertain|unavailable")
			}()
			time.Sleep(300 * time.Millisecond)
			c, err := sqltext.Dial(t.Context(), f.source)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			if err := c.Query(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'plain'", func(v [][]byte) error {
				ids = append(ids, string(v[0]))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if err := c.Exec(t.Context(), "KILL "+id); err != nil {
					t.Log(err)
				}
			}
			c.Close()
			<-killed
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the fence stays", func() bool { return fence.n.Load() == 0 })
			add("")
			f.want("SELECT n FROM "+f.schema+".t", "3")

			s.Stop()
			add("unavailable|uncertain")
			add("unavailable")
			s.Start()
			add("")
			f.want("SELECT n FROM "+f.schema+".t", "4")
			t.Logf("%+v", w.Stats())
		})
	}
}

// TestUse: a Writer without a server refuses, and turns to one, and from it to another. What was under way on the first is
// not answered with success.
func TestUse(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			follower := &follower{asked: make(chan string, 100), applied: make(chan struct{})}
			f := newFixture(t, s, writeback.Config{})
			def := f.table("t", "id INT PRIMARY KEY, n INT")
			f.exec("INSERT INTO " + f.schema + ".t VALUES (1,0)")
			w := writeback.New(nil, writeback.Config{Applied: follower, AckTimeout: 500 * time.Millisecond})
			defer w.Close()
			if _, _, err := w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1")); outcome(err) != "unavailable" {
				t.Errorf("without a server: %v", err)
			}
			if _, err := w.Transact(t.Context(), def, schema.ChangeDelete, func(*writeback.Tx) error { return nil }); outcome(err) != "unavailable" {
				t.Errorf("without a server: %v", err)
			}
			w.Use(f.source)
			if _, _, err := w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1")); err != nil {
				t.Error(err)
			}
			time.AfterFunc(100*time.Millisecond, func() { w.Use(f.source) })
			if _, _, err := w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1")); outcome(err) != "uncertain" {
				t.Errorf("not applied when the Writer turned away: %v", err)
			}
			tx, err := f.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.Exec("UPDATE " + f.schema + ".t SET n = 5 WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(200*time.Millisecond, func() { w.Use(f.source) })
			if _, _, err := w.Change(t.Context(), change(schema.ChangeAdd, def, "1", "1")); outcome(err) != "uncertain" {
				t.Errorf("waiting for a lock when the Writer turned away: %v", err)
			}
			time.AfterFunc(200*time.Millisecond, func() { w.Use(f.source) })
			if _, err := w.Transact(t.Context(), def, schema.ChangeDelete, func(tx *writeback.Tx) error {
				return takeAll(tx, &schema.Search{Def: def, Values: [][]byte{[]byte("1")}}, &schema.Change{Kind: schema.ChangeDelete, Def: def})
			}); outcome(err) != "unavailable" {
				t.Errorf("waiting for a lock when the Writer turned away: %v", err)
			}
		})
	}
}
