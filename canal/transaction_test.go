package canal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// TestSavepointsOfLikeNames: the server takes some names for equal that are spelt differently, and logs them as written.
func TestSavepointsOfLikeNames(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
		"CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM")
	r.start(nil, nil)
	r.same("a")
	for i, names := range [][3]string{{"e", "é", "e"}, {"Ö", "o", "ö"}, {"straße", "strase", "STRASE"}, {"a1", "á2", "a1"}} {
		for _, sql := range []string{
			"START TRANSACTION", "UPDATE a SET v = v + 1 WHERE id = 1", "SAVEPOINT `" + names[0] + "`",
			"UPDATE a SET v = v + 1 WHERE id = 2", "SAVEPOINT `" + names[1] + "`",
			"UPDATE a SET v = v + 1 WHERE id = 3", fmt.Sprintf("INSERT INTO m VALUES (%d)", i), "ROLLBACK TO `" + names[2] + "`",
			"INSERT INTO a VALUES (" + fmt.Sprint(10+i) + ", 0)", "COMMIT",
		} {
			r.exec(sql)
		}
		r.same("a")
	}
	if n := r.sink.loadsOf(r.schema + ".a"); n != 4 {
		t.Errorf("%d loads: only the last names are surely two", n)
	}
}

func TestRollbackAndSavepoints(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1)")
		r.start(nil, nil)
		r.same("a")
		for _, sql := range []string{
			"START TRANSACTION", "UPDATE a SET v = 2", "ROLLBACK",
			"START TRANSACTION", "INSERT INTO a VALUES (2, 2)", "SAVEPOINT s", "UPDATE a SET v = 9", "ROLLBACK TO s",
			"INSERT INTO a VALUES (3, 3)", "COMMIT",
		} {
			r.exec(sql)
		}
		if s.Flavor == testmysql.MariaDB {
			// With a table that can't be rolled back in it, the log has savepoints and what was taken back.
			for _, sql := range []string{
				"CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
				"START TRANSACTION", "INSERT INTO a VALUES (4, 4)", "SAVEPOINT `Sä 1`", "UPDATE a SET v = 77", "INSERT INTO m VALUES (1)",
				"SAVEPOINT t", "INSERT INTO a VALUES (5, 5)", "INSERT INTO m VALUES (2)", "ROLLBACK TO t", "ROLLBACK TO `Sä 1`",
				"UPDATE a SET v = v + 1 WHERE id = 4", "COMMIT",
				"START TRANSACTION", "UPDATE a SET v = 3", "INSERT INTO m VALUES (3)", "ROLLBACK",
			} {
				r.exec(sql)
			}
		}
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

// Readers must see all of a transaction or nothing of it: the sum over two rows never changes.
func TestTransactionsAreWhole(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 500), (2, 500)")
		sums := map[int]int{}
		r.sink.onApply = func(tb *memTable) {
			sum := 0
			for key := range tb.rows {
				n, _ := strconv.Atoi(string(value(tb, key, 1)))
				sum += n
			}
			sums[sum]++
		}
		r.start(nil, nil)
		r.same("a")
		if s.Flavor == testmysql.MySQL {
			r.exec("SET SESSION binlog_transaction_compression = ON")
		}
		for i := range 100 {
			if i == 50 && s.Flavor == testmysql.MySQL {
				r.exec("SET SESSION binlog_transaction_compression = OFF")
			}
			r.exec("START TRANSACTION")
			r.exec(fmt.Sprintf("UPDATE a SET v = v - %d WHERE id = 1", i))
			r.exec(fmt.Sprintf("UPDATE a SET v = v + %d WHERE id = 2", i))
			r.exec("COMMIT")
		}
		r.same("a")
		if len(sums) != 1 || sums[1000] == 0 {
			t.Errorf("sums seen: %v", sums)
		}
	})
}

func value(tb *memTable, key string, column int) []byte {
	row := tb.rows[key].row
	v, _ := rowcodec.Row(row).Value(column)
	return v
}

func TestXA(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
		id := func(name string) string { return "'" + r.schema + name + "', 'b\\'r', 7" }
		prepare := func(name, sql string) {
			t.Helper()
			for _, q := range []string{"XA START " + id(name), sql, "XA END " + id(name), "XA PREPARE " + id(name)} {
				r.exec(q)
			}
		}
		old := r.session()
		for _, q := range []string{"XA START " + id("old"), "UPDATE a SET v = 30 WHERE id = 3", "XA END " + id("old"), "XA PREPARE " + id("old")} {
			if err := old.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		r.start(nil, nil)
		r.settle()

		prepare("1", "UPDATE a SET v = 10 WHERE id = 1")
		r.settle()
		r.holds("a", "1", "1")
		r.exec("XA COMMIT " + id("1"))
		r.settle()
		r.holds("a", "1", "10")

		prepare("2", "UPDATE a SET v = 11 WHERE id = 1")
		r.exec("XA ROLLBACK " + id("2"))
		r.same("a")
		for _, q := range []string{"XA START " + id("3"), "UPDATE a SET v = 12 WHERE id = 1", "XA END " + id("3"), "XA COMMIT " + id("3") + " ONE PHASE"} {
			r.exec(q)
		}
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 1 {
			t.Errorf("%d loads", n)
		}

		// Prepared before the table was loaded anew: its rows are not known any more.
		prepare("4", "UPDATE a SET v = 13 WHERE id = 1")
		r.settle()
		r.f.reload(r.f.tables.find(tableName(r, "a")), "test")
		r.settle()
		r.exec("XA COMMIT " + id("4"))
		r.same("a")
		r.holds("a", "1", "13")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 3 {
			t.Errorf("%d loads", n)
		}

		// Prepared before the follower started.
		if err := old.Exec(t.Context(), "XA COMMIT "+id("old")); err != nil {
			t.Fatal(err)
		}
		r.same("a")
		r.holds("a", "3", "30")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 4 {
			t.Errorf("%d loads", n)
		}
		if r.f.prepared.bytes != 0 || len(r.f.prepared.held) != 0 {
			t.Errorf("still held: %d bytes, %v", r.f.prepared.bytes, r.f.prepared.held)
		}
	})
}

// A load that begins right after an XA COMMIT must contain it, also on a server that commits it late in the engine.
func TestLoadAfterXACommit(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 0)")
		r.start(nil, nil)
		r.same("a")
		tb := r.f.tables.find(tableName(r, "a"))
		for i := range 3 {
			id := fmt.Sprintf("'%s%d'", r.schema, i)
			for _, q := range []string{"XA START " + id, "UPDATE a SET v = v + 1", "XA END " + id, "XA PREPARE " + id, "XA COMMIT " + id} {
				r.exec(q)
			}
			r.f.reload(tb, "test")
			if i == 1 {
				r.exec("UPDATE a SET v = v + 100")
			}
		}
		begin := time.Now()
		r.same("a")
		t.Logf("live after %v", time.Since(begin))
	})
}

// Transactions larger than the bound are not kept; their tables are loaded anew, others are not.
func TestLargeTransaction(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, deepRecursion(s), tableW, fillW(2000), "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1)")
		r.start(func(cfg *Config) { cfg.MaxTransactionBytes = 64 << 10 }, nil)
		r.same("w", "a")
		r.exec("UPDATE w SET v = v + 1 WHERE id < 50")
		r.same("w")
		if n := r.sink.loadsOf(r.schema + ".w"); n != 1 {
			t.Fatalf("%d loads", n)
		}
		r.exec("UPDATE w SET v = v + 1")
		r.same("w", "a")
		r.exec("START TRANSACTION")
		r.exec("UPDATE a SET v = 2")
		r.exec("DELETE FROM w WHERE id < 1000")
		r.exec("INSERT INTO a VALUES (2, 2)")
		r.exec("COMMIT")
		r.same("w", "a")
		if w, a := r.sink.loadsOf(r.schema+".w"), r.sink.loadsOf(r.schema+".a"); w != 3 || a != 2 {
			t.Errorf("%d and %d loads", w, a)
		}
		// All prepared transactions together are bounded as well.
		var sessions []*sqltext.Conn
		id := func(n int) string { return fmt.Sprintf("'%s%d'", r.schema, n) }
		for n := range 3 {
			c := r.session()
			sessions = append(sessions, c)
			for _, sql := range []string{
				"XA START " + id(n),
				fmt.Sprintf("UPDATE w SET v = v + 1 WHERE id BETWEEN %d AND %d", 1000+n*150, 1000+n*150+100),
				"XA END " + id(n), "XA PREPARE " + id(n),
			} {
				if err := c.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n, c := range sessions {
			if err := c.Exec(t.Context(), "XA COMMIT "+id(n)); err != nil {
				t.Fatal(err)
			}
		}
		r.same("w")
	})
}

// Statements as text suspend all tables of all followers: the server must be the test's own.
func TestStatementsAsText(t *testing.T) {
	run := func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1)",
			"CREATE TABLE other (id INT PRIMARY KEY)", "CREATE TRIGGER tr AFTER INSERT ON other FOR EACH ROW UPDATE a SET v = v + 1",
			"CREATE VIEW vw AS SELECT * FROM a")
		r.start(nil, nil)
		r.same("a")
		r.exec("SET SESSION binlog_format = 'STATEMENT'")
		for _, sql := range []string{"UPDATE a SET v = 5", "INSERT INTO other VALUES (1)", "UPDATE vw SET v = v + 10"} {
			r.exec(sql)
			r.same("a")
		}
		r.exec("SET SESSION binlog_format = 'ROW'")
		r.exec("SET SESSION binlog_row_image = 'MINIMAL'")
		r.exec("UPDATE a SET v = 50")
		r.exec("SET SESSION binlog_row_image = 'FULL'")
		r.same("a")
		if s.Flavor == testmysql.MariaDB {
			r.exec("SET STATEMENT max_statement_time = 10 FOR ALTER TABLE a ADD COLUMN x INT DEFAULT 3")
			r.same("a")
		}
	}
	private(t, run)
}

// A gap in the log shows at the next change.
func TestGap(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2)")
		r.start(nil, nil)
		r.same("a")
		r.exec("SET sql_log_bin = 0")
		r.exec("UPDATE a SET v = 7")
		r.exec("SET sql_log_bin = 1")
		r.exec("UPDATE a SET v = 8 WHERE id = 1")
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 2 {
			t.Errorf("%d loads", n)
		}
	})
}

// Without gtid_strict_mode a server may give one number to two transactions.
func TestNumberGivenTwice(t *testing.T) {
	s := testmysql.Private(t, testmysql.MariaDB, "--gtid-strict-mode=OFF")
	r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1)")
	r.start(nil, nil)
	r.same("a")
	for _, sql := range []string{
		"SET SESSION gtid_seq_no = 1000", "UPDATE a SET v = 2", "SET SESSION gtid_seq_no = 1000", "UPDATE a SET v = 3",
		"SET SESSION gtid_seq_no = 1000", "INSERT INTO a VALUES (2, 2)",
		"SET SESSION server_id = 7", "SET SESSION gtid_seq_no = 500", "INSERT INTO a VALUES (3, 3)",
	} {
		r.exec(sql)
	}
	// Numbers do not tell here when all is applied: the first 1000 of the domain is as good as the last, and 500 is behind it.
	r.eventually("the last transaction", func() bool { return r.f.Status().Applied.GTID == "0-7-500" })
	r.same("a")
	if n := r.sink.loadsOf(r.schema + ".a"); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// holds checks one value of a live table with an integer key.
func (r *rig) holds(table, key, want string) {
	r.t.Helper()
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	tb := r.sink.tables[r.schema+"."+table]
	if got := string(value(tb, fmt.Sprintf("%d:%s", len(key), key), 1)); tb.state != "live" || got != want {
		r.t.Errorf("%s %s: %s is %q, wanted %q", tb.state, table, key, got, want)
	}
}

func TestSchemaChanged(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, "CREATE TABLE a (id INT PRIMARY KEY, v INT)")
		r.start(nil, nil)
		r.same("a")
		r.sink.mu.Lock()
		r.sink.changed = nil
		r.sink.mu.Unlock()
		r.exec("CREATE TABLE elsewhere (id INT)")
		r.exec("GRANT SELECT ON " + r.schema + ".* TO CURRENT_USER()")
		r.same("a")
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		if got := strings.Join(r.sink.changed, " "); !strings.Contains(got, r.schema+".") {
			t.Errorf("changed: %q", got)
		}
		// Other tests' statements on the shared server have calls of their own.
		own := slices.DeleteFunc(slices.Clone(r.sink.changed), func(c string) bool { return !strings.Contains(c, r.schema) })
		if len(own) > 10 {
			t.Errorf("%d calls: %q", len(own), own)
		}
	})
}

func tableName(r *rig, table string) schema.Name { return schema.Name{Schema: r.schema, Table: table} }
