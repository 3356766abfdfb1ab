package app

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// writing keeps changing the rows 0 to n of a table t (id, v) until it is stopped.
func writing(t *testing.T, db *sql.DB, n int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := rand.IntN(n)
				sql := []string{
					fmt.Sprintf("UPDATE t SET v = 'w%d %d' WHERE id = %d", w, i, id),
					fmt.Sprintf("DELETE FROM t WHERE id = %d", id),
					fmt.Sprintf("REPLACE INTO t VALUES (%d, 'r%d %d')", id, w, i),
					fmt.Sprintf("UPDATE IGNORE t SET id = %d WHERE id = %d", rand.IntN(n), id),
				}[i%4]
				if _, err := db.ExecContext(ctx, sql); err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "Deadlock") {
					t.Errorf("%s: %v", sql, err)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// agrees compares all rows with the database.
func (r running) agrees(when string) {
	r.t.Helper()
	if v := r.verify(admin.VerifyRequest{}); v.Differences != 0 || len(v.Skipped) != 0 || v.Tables == 0 {
		r.t.Fatalf("%s: %+v", when, v)
	}
}

// restored tells whether the table was filled from the saved state.
func (r running) restored(table string) bool {
	for line := range strings.SplitSeq(r.log.String(), "\n") {
		if strings.Contains(line, `msg="table is live" table=`+table+" ") && strings.Contains(line, `from="saved state"`) {
			return true
		}
	}
	return false
}

func TestWarmRestart(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			const rows = 3000
			schemaName := s.Schema(t)
			db := s.DBIn(t, schemaName)
			exec := func(statements ...string) {
				t.Helper()
				for _, sql := range statements {
					if _, err := db.ExecContext(t.Context(), sql); err != nil {
						t.Fatalf("%.100s: %v", sql, err)
					}
				}
			}
			var values []string
			for id := range rows {
				values = append(values, fmt.Sprintf("(%d,'value %d')", id, id))
			}
			exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), KEY v (v))", "INSERT INTO t VALUES "+strings.Join(values, ","),
				"CREATE TABLE altered (id INT PRIMARY KEY)", "INSERT INTO altered VALUES (1), (2)",
				"CREATE TABLE dropped (id INT PRIMARY KEY)", "INSERT INTO dropped VALUES (1)",
				"CREATE TABLE emptied (a CHAR(5) PRIMARY KEY)", "INSERT INTO emptied VALUES ('a'), ('b')")
			dir := filepath.Join(t.TempDir(), "state")
			withState := func(dir string) func(*config.Serve) { return func(c *config.Serve) { c.StateDir = dir } }

			// What was saved in order at the end, and what was changed since.
			d := runDaemon(t, s.DSN, schemaName+".*", withState(dir))
			if d.restored(schemaName + ".t") {
				t.Error("there was nothing to be restored")
			}
			d.stop()
			exec("UPDATE t SET v = 'changed' WHERE id % 7 = 0", "DELETE FROM t WHERE id % 11 = 0", "INSERT INTO t VALUES (100000, 'new')",
				"UPDATE t SET id = id + 200000 WHERE id % 13 = 0", "ALTER TABLE altered ADD COLUMN c INT", "DROP TABLE dropped",
				"TRUNCATE TABLE emptied", "INSERT INTO emptied VALUES ('c')", "CREATE TABLE made (id INT PRIMARY KEY)", "INSERT INTO made VALUES (5)")
			d = runDaemon(t, s.DSN, schemaName+".*", withState(dir))
			for table, want := range map[string]bool{"t": true, "altered": false, "made": false} {
				if got := d.restored(schemaName + "." + table); got != want {
					t.Errorf("%s: restored %v, want %v", table, got, want)
				}
			}
			d.agrees("after an orderly end")
			if e, err := d.Explain(schemaName+".t", []string{"1"}); err != nil || e.Row == nil || e.Row.Origin != "saved state" {
				t.Errorf("a row that was restored: %+v, %v", e, err)
			}
			if e, err := d.Explain(schemaName+".t", []string{"7"}); err != nil || e.Row == nil || e.Row.Origin != "stream" {
				t.Errorf("a row that was changed since: %+v, %v", e, err)
			}

			// What was saved under writers, and a crash some time later: the folder as it is then.
			stop := writing(t, db, rows)
			for deadline := time.Now().Add(10 * time.Second); d.keeper.lastAt.Load() == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("no image, and everything is there")
				}
			}
			d.keeper.savedAt = contentMark{}
			d.keeper.save(t.Context(), 0)
			if n := d.keeper.saved.Load(); n != 2 {
				t.Fatalf("%d images", n)
			}
			exec("INSERT INTO t VALUES (300000, 'after the image')")
			copied := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			crashed := runDaemon(t, s.DSN, schemaName+".*", withState(copied))
			if !crashed.restored(schemaName + ".t") {
				t.Error("not restored after a crash")
			}
			crashed.agrees("after a crash, under writers")
			stop()
			crashed.agrees("after a crash")
			crashed.stop()
			d.stop()

			// A state of another server, or one that is damaged, is not used.
			for _, other := range testmysql.Servers(t) {
				if other.Flavor == s.Flavor {
					continue
				}
				otherSchema := other.Schema(t)
				if _, err := other.DBIn(t, otherSchema).ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)"); err != nil {
					t.Fatal(err)
				}
				o := runDaemon(t, other.DSN, otherSchema+".*", withState(copied))
				if !strings.Contains(o.log.String(), "the saved state is not used") {
					t.Error("the state of another server was used")
				}
				o.agrees("with another server's state")
			}
			files, err := filepath.Glob(filepath.Join(dir, "rows-*"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				b[len(b)/2] ^= 1
				if err := os.WriteFile(f, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d = runDaemon(t, s.DSN, schemaName+".*", withState(dir))
			if d.restored(schemaName + ".t") {
				t.Error("a damaged file was used")
			}
			d.agrees("with damaged files")
		})
	}
}

// A repair is no transaction, and an image that was written before it must not bring the wrong row back.
func TestRepairsAreSaved(t *testing.T) {
	t.Parallel()
	s := testmysql.Private(t, testmysql.MariaDB) // where nothing else is written
	schemaName := s.Schema(t)
	db := s.DBIn(t, schemaName)
	for _, sql := range []string{"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'right')"} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "state")
	withState := func(c *config.Serve) { c.StateDir = dir }
	d := runDaemon(t, s.DSN, schemaName+".*", withState)
	g := d.generation(schema.Name{Schema: schemaName, Table: "t"})
	damage := []rowcodec.Change{{Before: textRow("1", "right"), After: textRow("1", "wrong")}}
	if err := g.Apply(damage, d.follower.Position().Version); err != nil {
		t.Fatal(err)
	}
	d.keeper.save(t.Context(), 0)
	if r := d.verify(admin.VerifyRequest{Repair: true}); r.Mended != 1 {
		t.Fatalf("repair: %+v", r)
	}
	d.stop()
	d = runDaemon(t, s.DSN, schemaName+".*", withState)
	if !d.restored(schemaName + ".t") {
		t.Error("the table was loaded anew")
	}
	d.agrees("after a repair and a restart")
}
