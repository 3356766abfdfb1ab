package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/verify"
)

// TestVerify damages 1,000 rows in memory while writers change others: a comparison finds and mends all of them and
// nothing else.
func TestVerify(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			const rows = 12_000 // of the lower half every third is damaged
			db := s.DBIn(t, s.Schema(t))
			exec := func(sql string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), sql); err != nil {
					t.Fatalf("%.100s: %v", sql, err)
				}
			}
			var schemaName string
			if err := db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&schemaName); err != nil {
				t.Fatal(err)
			}
			exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), KEY v (v))")
			exec("CREATE TABLE labels (e ENUM('z', 'a', 'm') PRIMARY KEY, v VARCHAR(40))") // read in one SELECT
			exec("CREATE TABLE words (a CHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, b INT, PRIMARY KEY (a, b DESC))")
			var values []string
			for id := range rows {
				values = append(values, fmt.Sprintf("(%d,'value %d')", 2*id, id)) // odd ones are free
			}
			exec("INSERT INTO t VALUES " + strings.Join(values, ","))
			exec("INSERT INTO labels VALUES ('z', '1'), ('a', '2')")
			exec("INSERT INTO words VALUES ('Abc', 1), ('abd', 2), ('abd', 3), ('Ä', 1), ('z', 9)")

			d := runDaemon(t, s.DSN, schemaName+".*")
			name := schema.Name{Schema: schemaName, Table: "t"}
			g := d.generation(name)

			ctx, stop := context.WithCancel(t.Context())
			var writers sync.WaitGroup
			var written atomic.Int64
			defer writers.Wait()
			defer stop()
			for w := range 3 {
				writers.Go(func() {
					// The upper half: updates, and odd rows that come and go.
					for n := 0; ctx.Err() == nil; n++ {
						id := rows + 2*rand.IntN(rows/2)
						sql := fmt.Sprintf("UPDATE t SET v = 'writer %d %d' WHERE id = %d", w, n, id)
						switch n % 4 {
						case 1:
							sql = fmt.Sprintf("REPLACE INTO t VALUES (%d, 'writer %d')", id+1, w)
						case 2:
							sql = fmt.Sprintf("DELETE FROM t WHERE id = %d", id+1)
						case 3:
							sql = fmt.Sprintf("DELETE FROM t WHERE id BETWEEN %d AND %d AND id %% 2 = 1", id, id+200)
						}
						// What is cut off may be carried out later, when memory and database are compared.
						if _, err := db.ExecContext(t.Context(), sql); err == nil {
							written.Add(1)
						} else if ctx.Err() == nil && !strings.Contains(err.Error(), "Deadlock") {
							t.Errorf("%s: %v", sql, err)
						}
					}
				})
			}
			if r := d.verify(admin.VerifyRequest{}); r.Differences != 0 || r.Tables != 3 || len(r.Skipped) != 0 || r.Rows < rows+7 {
				t.Fatalf("undamaged: %+v", r)
			}

			var damage []rowcodec.Change
			want := map[string]string{} // kind by key
			for i := range 1000 {
				id := 6 * i
				row := textRow(fmt.Sprint(id), fmt.Sprintf("value %d", id/2))
				switch i % 3 {
				case 0:
					damage = append(damage, rowcodec.Change{Before: row, After: textRow(fmt.Sprint(id), "damaged")})
					want[fmt.Sprint(id)] = "altered"
				case 1:
					damage = append(damage, rowcodec.Change{Before: row})
					want[fmt.Sprint(id)] = "missing"
				case 2:
					damage = append(damage, rowcodec.Change{After: textRow(fmt.Sprint(id+1), "extra")})
					want[fmt.Sprint(id+1)] = "extra"
				}
			}
			if err := g.Apply(damage, d.follower.Position().Version); err != nil {
				t.Fatal(err)
			}
			labels := d.generation(schema.Name{Schema: schemaName, Table: "labels"})
			if err := labels.Apply([]rowcodec.Change{{Before: textRow("a", "2")}, {After: textRow("m", "3")}}, d.follower.Position().Version); err != nil {
				t.Fatal(err)
			}
			words := d.generation(schema.Name{Schema: schemaName, Table: "words"})
			if err := words.Apply([]rowcodec.Change{{Before: textRow("abd", "2")}, {After: textRow("b", "7")}}, d.follower.Position().Version); err != nil {
				t.Fatal(err)
			}
			check := func(r *admin.VerifyResult, mended bool) {
				t.Helper()
				if r.Differences != 1004 || len(r.Found) != 1000 || len(r.Skipped) != 0 || mended != (r.Mended == 1004) || !mended && r.Mended != 0 {
					t.Fatalf("%d differences, %d mended, %d shown, skipped %v", r.Differences, r.Mended, len(r.Found), r.Skipped)
				}
				for _, f := range r.Found {
					if strings.HasSuffix(f.Table, ".t") && want[f.Key] != f.Kind || f.Mended != mended {
						t.Errorf("found %+v, want %q", f, want[f.Key])
					}
				}
			}
			check(d.verify(admin.VerifyRequest{}), false)
			for written.Load() < 100 { // they go on meanwhile
				check(d.verify(admin.VerifyRequest{}), false)
			}
			one := admin.VerifyRequest{Tables: []string{name.String()}, Key: []string{"6"}}
			if r := d.verify(one); r.Differences != 1 || r.Found[0].Kind != "missing" {
				t.Errorf("a missing row: %+v", r)
			}
			one.Key[0] = "13"
			if r := d.verify(one); r.Differences != 1 || r.Found[0].Kind != "extra" {
				t.Errorf("an extra row: %+v", r)
			}
			one.Key[0] = "8"
			if r := d.verify(one); r.Differences != 0 || r.Rows != 1 {
				t.Errorf("a row that is right: %+v", r)
			}
			check(d.verify(admin.VerifyRequest{Repair: true}), true)
			if r := d.verify(admin.VerifyRequest{}); r.Differences != 0 || r.Tables != 3 {
				t.Errorf("after the repair: %+v", r)
			}
			if d.generation(name) != g {
				t.Error("the table was loaded anew: the rows were not mended")
			}
			for _, bad := range []admin.VerifyRequest{
				{Tables: []string{"no"}}, {Key: []string{"1"}}, {Tables: []string{name.String()}, Key: []string{"1", "2"}},
			} {
				if err := d.Verify(t.Context(), bad, nil); !errors.Is(err, admin.ErrBadRequest) {
					t.Errorf("%+v: error %v", bad, err)
				}
			}

			// What is in memory is what the database has.
			stop()
			writers.Wait()
			var gtid string
			sql := "SELECT @@global.gtid_executed"
			if s.Flavor == testmysql.MariaDB {
				sql = "SELECT @@global.gtid_binlog_pos"
			}
			if err := db.QueryRowContext(t.Context(), sql).Scan(&gtid); err != nil {
				t.Fatal(err)
			}
			if err := d.follower.WaitApplied(t.Context(), gtid); err != nil {
				t.Fatal(err)
			}
			have := d.rows(name)
			all, err := db.QueryContext(t.Context(), "SELECT id, v FROM t")
			if err != nil {
				t.Fatal(err)
			}
			defer all.Close()
			n := 0
			for ; all.Next(); n++ {
				var id, v string
				if err := all.Scan(&id, &v); err != nil {
					t.Fatal(err)
				}
				if string(have[id]) != string(textRow(id, v)) {
					t.Fatalf("row %s is %q in the database and %q in memory", id, v, have[id])
				}
			}
			if n != len(have) {
				t.Errorf("%d rows in the database, %d in memory", n, len(have))
			}
		})
	}
}

// TestVerifyInBackground: damage mends by itself, and tables that go away meanwhile do no harm.
func TestVerifyInBackground(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schemaName := s.Schema(t)
			db := s.DBIn(t, schemaName)
			for _, sql := range []string{"CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)", "CREATE TABLE other (id INT PRIMARY KEY)"} {
				if _, err := db.ExecContext(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			d := runDaemon(t, s.DSN, schemaName+".*")
			v := verify.New(verify.Config{Comparer: comparer{d.store, d.follower}, Rate: 10_000, Every: 10 * time.Millisecond})
			ctx, stop := context.WithCancel(t.Context())
			var background sync.WaitGroup
			defer background.Wait()
			defer stop()
			background.Go(func() {
				if err := v.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			g := d.generation(schema.Name{Schema: schemaName, Table: "t"})
			d.eventually("a pass", func() bool { return v.Stats().Passes > 0 })
			if v := v.Stats(); v.Rows < 2 || len(v.Differences) != 0 || v.LastPass.IsZero() {
				t.Errorf("undamaged: %+v", v)
			}
			if err := g.Apply([]rowcodec.Change{{Before: textRow("2", "2"), After: textRow("2", "3")}}, d.follower.Position().Version); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "DROP TABLE other"); err != nil {
				t.Fatal(err)
			}
			d.eventually("the damage is mended", func() bool { return v.Stats().Mended == 1 })
			if v := v.Stats(); v.Differences["altered"] != 1 {
				t.Errorf("damaged: %+v", v)
			}
			if got := d.rows(schema.Name{Schema: schemaName, Table: "t"})["2"]; string(got) != string(textRow("2", "2")) {
				t.Errorf("the row is %q", got)
			}
		})
	}
}

// TestExplain: a row tells how it came, and which transaction wrote it.
func TestExplain(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schemaName := s.Schema(t)
			db := s.DBIn(t, schemaName)
			exec := func(sql string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			exec("CREATE TABLE t (a CHAR(10), b INT, v BLOB, PRIMARY KEY (a, b))")
			exec("INSERT INTO t VALUES ('x', 1, NULL), ('x', 2, 'old')")
			d := runDaemon(t, s.DSN, schemaName+".t")
			table := schemaName + ".t"
			explain := func(key ...string) *admin.Explanation {
				t.Helper()
				e, err := d.Explain(table, key)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			e := explain("x", "1")
			if e.State != "live" || e.AnsweredBy != "memory" || e.KeyIndex != "PRIMARY" || len(e.Columns) != 3 || e.Columns[1].Name != "b" ||
				e.Row == nil || e.Row.Origin != "snapshot" || e.Row.Values["v"] != nil || *e.Row.Values["a"] != "x" {
				t.Errorf("a row of the snapshot: %+v, %+v", e, e.Row)
			}
			before := time.Now()
			exec("UPDATE t SET v = x'ff00' WHERE b = 2")
			d.eventually("the update is applied", func() bool { return explain("X", "2").Row.Origin == "stream" })
			e = explain("x", "2")
			executed := e.Applied.GTID
			var contained bool
			if s.Flavor == testmysql.MySQL {
				if err := db.QueryRowContext(t.Context(), "SELECT GTID_SUBSET(?, ?)", e.Row.GTID, executed).Scan(&contained); err != nil {
					t.Fatal(err)
				}
			} else {
				contained = strings.Count(e.Row.GTID, "-") == 2
			}
			if !contained || e.Row.CommittedAt == nil || e.Row.CommittedAt.Before(before.Add(-2*time.Second)) || e.Row.AppliedAt.Before(before) ||
				*e.Row.Values["v"] != "\uFFFD\x00" || e.Row.Version != uint64(e.Row.Epoch)<<48|e.Row.Seq {
				t.Errorf("a row of the stream: %+v", e.Row)
			}
			if e = explain("y", "1"); e.Row != nil || e.AnsweredBy != "memory" {
				t.Errorf("no row: %+v", e)
			}
			if e = explain(); e.Row != nil || e.State != "live" {
				t.Errorf("the table: %+v", e)
			}
			if err := d.generation(schema.Name{Schema: schemaName, Table: "t"}).Apply(
				[]rowcodec.Change{{Before: append(rowcodec.Row{}, d.rowOf(table, "x", "2")...)}}, d.follower.Position().Version); err != nil {
				t.Fatal(err)
			}
			if r := d.verify(admin.VerifyRequest{Repair: true}); r.Mended != 1 {
				t.Errorf("repair: %+v", r)
			}
			if e = explain("x", "2"); e.Row == nil || e.Row.Origin != "repair" {
				t.Errorf("a mended row: %+v", e.Row)
			}
			for text, key := range map[string][]string{"no": nil, table: {"x"}} {
				if _, err := d.Explain(text, key); !errors.Is(err, admin.ErrBadRequest) {
					t.Errorf("%s %q: %v", text, key, err)
				}
			}
			if _, err := d.Explain(schemaName+".none", nil); !errors.Is(err, admin.ErrNotFound) {
				t.Errorf("an unknown table: %v", err)
			}
		})
	}
}

// TestVerifyLargeRows: a piece that is cut off because its rows are large is compared whole, and costs no row in memory.
func TestVerifyLargeRows(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	schemaName := s.Schema(t)
	db := s.DBIn(t, schemaName)
	for _, sql := range []string{
		"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(5000))",
		"INSERT INTO t (v) SELECT REPEAT('v', 5000) FROM seq_1_to_4000",
	} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	d := runDaemon(t, s.DSN, schemaName+".t")
	if v := d.verify(admin.VerifyRequest{Repair: true}); v.Differences != 0 || v.Rows != 4000 || v.Mended != 0 {
		t.Errorf("%d rows compared, %d differences, %d mended", v.Rows, v.Differences, v.Mended)
	}
}
