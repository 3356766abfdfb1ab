package dbreader

import (
	"errors"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// A search that is under way when the Reader turns to another server fails, though the first one could answer it.
func TestUse(t *testing.T) {
	each(t, func(t *testing.T, server testmysql.Server, c *sqltext.Conn, r *Reader, db string) {
		def := table(t, c, r, db, "t", "(id INT PRIMARY KEY)", "VALUES (1), (2), (3)")
		s := &schema.Search{Def: def, Op: schema.OpGE, Values: values("1")}
		source, err := sqltext.ParseDSN(server.DSN)
		if err != nil {
			t.Fatal(err)
		}
		for last := range 3 {
			rows := 0
			err := r.Search(t.Context(), s, func(rowcodec.Row) bool {
				if rows++; rows > last {
					r.Use(source)
				}
				return rows <= last
			})
			if !errors.Is(err, ErrUnavailable) || rows != last+1 {
				t.Errorf("turned at row %d: %d rows, %v", last+1, rows, err)
			}
		}
		if got, err := collect(t.Context(), r, s); err != nil || len(got) != 3 {
			t.Errorf("after the turn: %q, %v", got, err)
		}

		// One that waits for the server does not wait to the end.
		mustExec(t, c, "LOCK TABLES "+schema.QuoteName(db)+".t WRITE")
		ended := make(chan error)
		go func() {
			_, err := collect(t.Context(), r, s)
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond)
		begin := time.Now()
		r.Use(source)
		if err := <-ended; !errors.Is(err, ErrUnavailable) || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		mustExec(t, c, "UNLOCK TABLES")

		// Without a server, and with one that is not the one that is meant.
		r.Use(nil)
		if _, err := collect(t.Context(), r, s); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without a server: %v", err)
		}
	})
}
