package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/triggers"
)

// value reads one text of the cache schema's tables; "NULL" for NULL and "-" for no row.
func (f *fixture) value(t *testing.T, query string) string {
	t.Helper()
	v := "-"
	err := f.session.rows(t.Context(), f.local(query), nil, func(row [][]byte) error {
		if v = "NULL"; row[0] != nil {
			v = string(row[0])
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (f *fixture) want(t *testing.T, query, want string) {
	t.Helper()
	if got := f.value(t, query); got != want {
		t.Errorf("%s: %q, want %q", query, got, want)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 20 s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestChanges: what makes a cache row come, change, stay untouched and go.
func TestChanges(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.install(t, f.design(t, "../examples/user_card.yaml"))
		f.install(t, f.design(t, "../examples/user_profile.yaml"))
		const card, cas = "SELECT COUNT(*) FROM app.user_card WHERE k = 'user:1'", "SELECT cas FROM app.user_profile WHERE k = '1'"
		for _, step := range []struct{ statement, card, cas string }{
			{"INSERT INTO app.users (id, uname, status) VALUES (1, 'ann', 'gone')", "0", "1"}, // out
			{"UPDATE app.users SET uname = 'ann' WHERE id = 1", "0", "1"},                     // out to out
			{"UPDATE app.users SET status = 'active' WHERE id = 1", "1", "1"},                 // out to in; not used by the profile
			{"UPDATE app.users SET last_seen = NOW() WHERE id = 1", "1", "1"},                 // unrelated
			{"UPDATE app.users SET uname = 'Ann' WHERE id = 1", "1", "2"},                     // equal by the collation, not by its bytes
			{"UPDATE app.users SET uname = 'Ann' WHERE id = 1", "1", "2"},                     // nothing changes
			{"INSERT INTO app.users (id, uname) VALUES (1, 'x') ON DUPLICATE KEY UPDATE uname = 'Eve'", "1", "3"},
			{"INSERT IGNORE INTO app.users (id, uname) VALUES (1, 'y')", "1", "3"},
			{"UPDATE app.users SET plan_id = 9 WHERE id = 1", "1", "4"},
			{"INSERT INTO app.plans VALUES (9, 'gold')", "1", "5"},
			{"UPDATE app.plans SET title = 'GOLD'", "1", "6"},
			{"UPDATE app.plans SET title = 'GOLD'", "1", "6"},
			{"DELETE FROM app.plans", "1", "7"},
			{"UPDATE app.users SET status = 'gone' WHERE id = 1", "0", "7"},   // in to out
			{"UPDATE app.users SET status = 'active' WHERE id = 1", "1", "7"}, // and back
			{"UPDATE app.users SET id = 2 WHERE id = 1", "0", "-"},            // another key
			{"UPDATE app.users SET id = 1 WHERE id = 2", "1", "1"},
			{"REPLACE INTO app.users (id, uname) VALUES (1, 'rep')", "1", "1"}, // a delete and an insert
			{"DELETE FROM app.users", "0", "-"},
		} {
			f.exec(t, step.statement)
			if c, n := f.value(t, card), f.value(t, cas); c != step.card || n != step.cas {
				t.Errorf("after %s: %s cards and cas %s, want %s and %s", step.statement, c, n, step.card, step.cas)
			}
		}
	})
}

// TestJoinUnderReadCommitted: two writers on both sides of a join, neither of which sees the other's row before it commits.
func TestJoinUnderReadCommitted(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "INSERT INTO app.plans VALUES (1, 'old')", "INSERT INTO app.users (id, uname, plan_id) VALUES (1, 'u', NULL)")
		d := f.design(t, "../examples/user_profile.yaml")
		f.install(t, d)
		a, b := f.open(t), f.open(t)
		for _, s := range []*Session{a, b} {
			for _, st := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
				if err := s.exec(t.Context(), st); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := a.exec(t.Context(), f.local("UPDATE app.plans SET title = 'new'")); err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() {
			err := b.exec(context.WithoutCancel(t.Context()), f.local("UPDATE app.users SET plan_id = 1"))
			if err == nil {
				err = b.exec(context.WithoutCancel(t.Context()), "COMMIT")
			}
			second <- err
		}()
		select {
		case err := <-second:
			t.Fatalf("the second writer did not wait: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		if err := a.exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		f.want(t, "SELECT v FROM app.user_profile", "u||new")
		f.check(t, d)
	})
}

// TestCascades: rows that the server changes by foreign keys, without their triggers.
func TestCascades(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		item, best, session := f.design(t, "../testdata/item.yaml"), f.design(t, "../testdata/best_item.yaml"), f.design(t, "../examples/session.yaml")
		for _, d := range []*triggers.Design{item, best, session} {
			f.install(t, d)
		}
		f.exec(t, "INSERT INTO app.tenants VALUES (1, 'a'), (2, 'b')", "INSERT INTO app.owners VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'z')",
			"INSERT INTO app.items (shop, no, owner_id, editor_id, qty) VALUES (1, 1, 1, 1, 1), (1, 2, 1, 2, 1), (1, 3, 2, 1, 1), (2, 1, 3, 1, 1), (2, 2, NULL, 3, 1)",
			"INSERT INTO app.users (id, uname) VALUES (1, 'u'), (2, 'v')", "INSERT INTO app.sessions VALUES ('s1', 1, 'd', NULL), ('s2', 2, 'd', NULL)")
		owners := func() string {
			return f.value(t, "SELECT GROUP_CONCAT(CONCAT(k, '=', IFNULL(JSON_EXTRACT(v, '$.owner'), '-'), '/', IFNULL(JSON_EXTRACT(v, '$.editor'), '-')) ORDER BY k SEPARATOR ' ') FROM app.item")
		}
		for _, step := range []struct{ statement, want string }{
			{"UPDATE app.owners SET id = 9 WHERE id = 1", "1:1=9/9 1:2=9/2 1:3=2/9 2:1=3/9 2:2=null/3"}, // ON UPDATE CASCADE, by two keys at once
			{"DELETE FROM app.owners WHERE id = 2", "1:1=9/9 1:2=9/null 2:1=3/9 2:2=null/3"},            // CASCADE and SET NULL
			{"DELETE FROM app.tenants WHERE id = 1", "2:1=3/null 2:2=null/3"},                           // over two tables
			{"REPLACE INTO app.owners VALUES (3, 2, 'again')", ""},                                      // cascades, but not on MySQL 9.6 and later
			{"REPLACE INTO app.tenants VALUES (2, 'again')", ""},
		} {
			f.exec(t, step.statement)
			if got := owners(); got != step.want && step.want != "" {
				t.Errorf("after %s: %s, want %s", step.statement, got, step.want)
			}
			f.check(t, item)
			f.check(t, best)
		}
		if server.Flavor == testmysql.MySQL {
			// The children's own triggers may run as well: the work is done twice, to the same end.
			f.exec(t, "INSERT INTO app.owners VALUES (4, 2, 'w') ON DUPLICATE KEY UPDATE nick = 'w'",
				"INSERT INTO app.items (shop, no, owner_id, editor_id, qty) VALUES (3, 1, 4, 3, 1), (3, 2, NULL, 4, 1)",
				"SET SESSION enable_cascade_triggers = ON; UPDATE app.owners SET id = 8 WHERE id = 4; DELETE FROM app.owners WHERE id = 8")
			f.want(t, "SELECT GROUP_CONCAT(k ORDER BY k) FROM app.item WHERE k LIKE '3:%'", "3:2")
			f.check(t, item)
			f.check(t, best)
		}
		f.exec(t, "DELETE FROM app.users WHERE id = 1")
		f.want(t, "SELECT GROUP_CONCAT(k) FROM app.session", "s2")
		f.check(t, session)
	})
}

// TestRecountWhileFilling: the event that counts anew takes the position of filling away, at any moment.
func TestRecountWhileFilling(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "INSERT INTO app.payments (shop, day, amount, units) VALUES (1, '2024-01-01', 5, 1), (2, '2024-01-02', 7.5, 1)")
		d := f.design(t, "../testdata/revenue.yaml")
		f.install(t, d)
		stop, stopped := make(chan struct{}), make(chan error, 1)
		recount := f.open(t)
		go func() {
			for {
				select {
				case <-stop:
					stopped <- nil
					return
				default:
				}
				if err := recount.exec(context.WithoutCancel(t.Context()), "DELETE FROM "+d.FillTable()); err != nil && code(err) != errDeadlock {
					stopped <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		for range 100 {
			if err := f.session.Fill(t.Context(), d, nil); err != nil {
				t.Error(err)
				break
			}
		}
		close(stop)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		f.check(t, d)
	})
}

// TestTruncate: no trigger sees it; verifying does, and repairing mends it.
func TestTruncate(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "INSERT INTO app.payments (shop, day, amount, units) VALUES (1, '2024-01-01', 5, 1), (1, '2024-01-01', NULL, 2), (2, '2024-01-02', 7.5, 1)")
		d := f.design(t, "../testdata/revenue.yaml")
		f.install(t, d)
		f.want(t, "SELECT CONCAT_WS('|', payments, amount, units) FROM app.revenue WHERE k = 'rev:1:2024-01-01'", "2|5.00|3")
		f.exec(t, "TRUNCATE TABLE app.payments")
		f.exec(t, "INSERT INTO app.payments (shop, day, amount, units) VALUES (2, '2024-01-02', 1, 1)")
		r, err := f.session.Verify(t.Context(), d, false)
		if err != nil || r.Orphans != 1 || r.Stale != 1 || r.BySums {
			t.Fatalf("after TRUNCATE: %+v, %v", r, err)
		}
		if n, err := f.session.Repair(t.Context(), d, r, nil); err != nil || n != 1 {
			t.Fatalf("repair: %d, %v", n, err)
		}
		f.check(t, d)
	})
}

// TestFailureModes: a value that can't be computed fails the write, or leaves a mark and no old value.
func TestFailureModes(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		tolerant := f.design(t, "../testdata/item_tolerant.yaml")
		f.install(t, tolerant)
		f.exec(t, "INSERT INTO app.items (shop, no, title) VALUES (1, 1, '11')", "UPDATE app.items SET title = 'no number'")
		f.want(t, "SELECT v FROM app.item_tolerant", "-")
		f.want(t, "SELECT COUNT(*) FROM app.item_tolerant_due", "1")
		if err := f.session.Refresh(t.Context(), tolerant); err != nil {
			t.Fatal(err)
		}
		f.want(t, "SELECT tries > 0 FROM app.item_tolerant_due", "1") // still no number
		// The application mends the row by a way that no trigger sees; the event computes it.
		f.exec(t, "DROP TRIGGER app.bc_item_tolerant_items_au", "UPDATE app.items SET title = '12'")
		if err := f.session.Refresh(t.Context(), tolerant); err != nil {
			t.Fatal(err)
		}
		f.want(t, "SELECT v FROM app.item_tolerant", "12")
		f.want(t, "SELECT COUNT(*) FROM app.item_tolerant_due", "0")

		strict := f.parse(t, "strict.yaml", "name: strict\nsource: app.items\nkey: \"{shop}:{no}\"\nvalue: {sql: \"CAST({title} AS SIGNED)\"}\n")
		d, err := f.session.Design(t.Context(), strict)
		if err != nil {
			t.Fatal(err)
		}
		f.install(t, d)
		_, err = server.DB(t).ExecContext(t.Context(), f.local("UPDATE app.items SET title = 'no number'"))
		if code(err) != 1292 {
			t.Errorf("strict: %v, want error 1292", err)
		}
		f.want(t, "SELECT title FROM app.items", "12")
		f.check(t, d)
	})
}

// TestInstallAgain: installing is done twice, over another version, over somebody else's objects; so is uninstalling.
func TestInstallAgain(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		f.exec(t, "INSERT INTO app.users (id, uname, email) VALUES (1, 'u', 'm')")
		const head = "name: again\nsource: app.users\nkey: \"{id}\"\nexpiry: {column: last_seen}\n"
		design := func(rest string) *triggers.Design {
			d, err := f.session.Design(t.Context(), f.parse(t, "again.yaml", head+rest))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		actions := func(steps []Step) string {
			n := map[string]int{}
			for _, s := range steps {
				n[s.Action]++
			}
			return fmt.Sprint(n)
		}
		first := design("value: {column: uname}\npurge: 1 hour\n")
		if got := actions(f.install(t, first)); got != "map[create:7 keep:1]" {
			t.Errorf("first: %s", got)
		}
		if got := actions(f.install(t, first)); got != "map[keep:8]" {
			t.Errorf("again: %s", got)
		}
		f.want(t, "SELECT v FROM app.again", "u")
		f.exec(t, "UPDATE app.users SET uname = 'v', email = 'n'")
		second := design("value: {column: email}\npurge: 2 hours\n")
		if got := actions(f.install(t, second)); got != "map[keep:4 replace:4]" && got != "map[keep:3 replace:5]" {
			t.Errorf("another value: %s", got)
		}
		f.want(t, "SELECT v FROM app.again", "n")
		f.check(t, second)

		// Without purging the cache table has one index less: another shape.
		_, err := f.session.Plan(t.Context(), design("value: {column: email}\n"))
		if err == nil || !strings.Contains(err.Error(), "another shape") {
			t.Errorf("another shape: %v", err)
		}
		for range 2 {
			if _, err := f.session.Uninstall(t.Context(), second.Spec, true); err != nil {
				t.Error(err)
			}
		}
		f.want(t, f.local("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME LIKE 'again%' AND TABLE_SCHEMA = '")+f.app+"'", "0")

		f.exec(t, "CREATE TRIGGER app.bc_again_users_ai AFTER INSERT ON app.users FOR EACH ROW SET @x = 1", "CREATE TABLE app.again (k INT)")
		_, err = f.session.Plan(t.Context(), first)
		if err == nil || strings.Count(err.Error(), "not made by binlogcache") != 2 {
			t.Errorf("somebody else's: %v", err)
		}
		if steps, err := f.session.Uninstall(t.Context(), first.Spec, true); err != nil || len(steps) != 0 {
			t.Errorf("uninstall removed %v, %v", steps, err)
		}
		f.want(t, "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '"+f.app+"'", "1")
	})
}

// TestLeftovers: what an older version of the spec had and the new one has not goes.
func TestLeftovers(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		const head = "name: left\nsource: app.users\nkey: \"{id}\"\ncas: counter\n"
		for _, step := range []struct {
			spec     string
			triggers string
		}{
			{"joins: [{table: app.plans, as: plan, on: {id: plan_id}}]\nvalue: {join: [uname, plan.title]}\n", "6"},
			{"value: {column: uname}\n", "3"},
		} {
			d, err := f.session.Design(t.Context(), f.parse(t, "left.yaml", head+step.spec))
			if err != nil {
				t.Fatal(err)
			}
			f.install(t, d)
			f.want(t, "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = '"+f.app+"'", step.triggers)
		}
	})
}

// TestFillGoesOn: filling stops after any chunk and goes on there, while rows change.
func TestFillGoesOn(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		var rows []string
		for i := range 1000 {
			rows = append(rows, fmt.Sprintf("(%d, %d, 'x', 1)", i%10, i))
		}
		f.exec(t, "INSERT INTO app.items (shop, no, title, qty) VALUES "+strings.Join(rows, ", "))
		d := f.design(t, "../testdata/item.yaml")
		steps, err := f.session.Plan(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.session.Apply(t.Context(), d, steps); err != nil {
			t.Fatal(err)
		}
		if err := f.session.exec(t.Context(), "CALL "+d.FillProcedure()+"(100, 3)"); err != nil {
			t.Fatal(err)
		}
		f.want(t, "SELECT COUNT(*) FROM app.item", "300")
		f.want(t, "SELECT CONCAT(steps, finished, ' ', id1, ':', id2) FROM app.item_fill", "30 2:992")
		f.exec(t, "UPDATE app.items SET title = 'y' WHERE no % 3 = 0", "DELETE FROM app.items WHERE no % 7 = 0", "UPDATE app.items SET no = no + 5000 WHERE no % 11 = 0")
		before := f.handlerReads(t)
		var told [2]int64
		if err := f.session.Fill(t.Context(), d, func(done, total int64) { told = [2]int64{done, total} }); err != nil {
			t.Fatal(err)
		}
		// Each chunk begins where the last one ended: not by reading from the start again.
		if n := f.handlerReads(t) - before; n > 6000 {
			t.Errorf("%d rows were read to copy 700", n)
		}
		if told[0] == 0 || told[1] < told[0] {
			t.Errorf("progress %v", told)
		}
		f.check(t, d)
	})
}

func (f *fixture) handlerReads(t *testing.T) int {
	t.Helper()
	sum := 0
	err := f.session.Query(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'", func(v [][]byte) error {
		n := 0
		_, err := fmt.Sscan(string(v[1]), &n)
		sum += n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestEvents: events purge and compute by themselves; a run that is at work makes the next one do nothing; on a replica
// that has become the writable server they are switched on.
func TestEvents(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		spec := f.spec(t, "../examples/session.yaml")
		spec.Purge = triggers.Interval{N: 1, Unit: "SECOND"}
		purge, err := f.session.Design(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		holder := f.open(t)
		if err := holder.exec(t.Context(), "DO GET_LOCK('"+f.app+".session purge', 0)"); err != nil {
			t.Fatal(err)
		}
		f.exec(t, "INSERT INTO app.users (id, uname) VALUES (1, 'u')")
		f.install(t, purge)
		f.exec(t, "INSERT INTO app.sessions VALUES ('old', 1, 'd', FROM_UNIXTIME(1000000000)), ('new', 1, 'd', FROM_UNIXTIME(2000000000)), ('ever', 1, 'd', NULL)")
		f.install(t, f.design(t, "../testdata/best_item.yaml"))
		f.exec(t, "INSERT INTO app.items (shop, no, title) VALUES (1, 1, 'a'), (1, 2, 'b')")
		eventually(t, "the group is computed", func() bool { return f.value(t, "SELECT v FROM app.best_item") == "2||a|0" })
		f.want(t, "SELECT COUNT(*) FROM app.session", "3") // at least one run has come and gone
		if err := holder.exec(t.Context(), "DO RELEASE_ALL_LOCKS()"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "expired rows are purged", func() bool { return f.value(t, "SELECT GROUP_CONCAT(k ORDER BY k) FROM app.session") == "ever,new" })
		f.check(t, purge)

		const status = "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_SCHEMA = '%s' AND EVENT_NAME LIKE '%%purge'"
		word := "REPLICA"
		if server.Flavor == testmysql.MariaDB {
			word = "SLAVE"
		}
		f.exec(t, "ALTER EVENT app.bc_"+spec.Name+"_purge DISABLE ON "+word)
		if c, err := f.session.Examine(t.Context(), purge); err != nil || len(c.Lost) != 0 || c.Blind || len(c.Asleep) != 1 {
			t.Errorf("a replica's events: %+v, %v", c, err)
		}
		for _, st := range purge.PromoteStatements() {
			f.exec(t, st)
		}
		f.want(t, fmt.Sprintf(status, f.app), "ENABLED")
	})
}

// TestOpenTransaction: an open transaction on the source is waited for, and named.
func TestOpenTransaction(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		d := f.design(t, "../examples/user_card.yaml")
		steps, err := f.session.Plan(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		other := f.open(t)
		for _, st := range []string{"START TRANSACTION", "INSERT INTO app.users (id, uname) VALUES (1, 'open')"} {
			if err := other.exec(t.Context(), f.local(st)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.session.exec(t.Context(), "SET SESSION lock_wait_timeout = 1"); err != nil {
			t.Fatal(err)
		}
		told := make(chan string, 100)
		f.session.Logf = func(format string, args ...any) { told <- fmt.Sprintf(format, args...) }
		ended := make(chan error, 1)
		go func() {
			_, err := f.session.Apply(context.WithoutCancel(t.Context()), d, steps)
			ended <- err
		}()
		if line := <-told; !strings.Contains(line, "waits for open transactions (oldest: connection ") {
			t.Errorf("told: %s", line)
		}
		if err := other.exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if err := f.session.Fill(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		f.check(t, d)
	})
}

// TestMeasure: the cost is measured on copies, of which nothing is left.
func TestMeasure(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		d := f.design(t, "../examples/user_profile.yaml")
		if _, err := f.session.Measure(t.Context(), d, 5); !errors.Is(err, ErrNoRows) {
			t.Errorf("empty table: %v", err)
		}
		f.exec(t, "INSERT INTO app.users (id, uname, plan_id) VALUES (1, 'u', 1), (2, 'v', 1)")
		tables := f.value(t, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+f.app+"'")
		c, err := f.session.Measure(t.Context(), d, 20)
		if err != nil || c.Writes != 40 || c.With <= 0 || c.Without <= 0 {
			t.Errorf("%+v, %v", c, err)
		}
		f.want(t, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+f.app+"'", tables)
		f.want(t, "SELECT COUNT(*) FROM app.users", "2")
	})
}
