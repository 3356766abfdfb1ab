package dbreader

import (
	"testing"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// TestUncommittedIsNotSeen: a server whose default isolation shows uncommitted rows does not show them here.
func TestUncommittedIsNotSeen(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			s := testmysql.Private(t, flavor, "--transaction-isolation=READ-UNCOMMITTED")
			db := s.DB(t)
			for _, q := range []string{"CREATE DATABASE u", "CREATE TABLE u.t (id INT PRIMARY KEY, v INT)", "INSERT INTO u.t VALUES (1,1)"} {
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), "UPDATE u.t SET v=2 WHERE id=1"); err != nil {
				t.Fatal(err)
			}
			source, err := sqltext.ParseDSN(s.DSN)
			if err != nil {
				t.Fatal(err)
			}
			r := New(source, Config{})
			defer r.Close()
			def, err := r.Load(t.Context(), "u", "t")
			if err != nil {
				t.Fatal(err)
			}
			var got string
			search := &schema.Search{Def: def, Index: def.Key, Values: [][]byte{[]byte("1")}}
			if err := r.Search(t.Context(), search, func(row rowcodec.Row) bool {
				v, _ := row.Value(1)
				got = string(v)
				return true
			}); err != nil || got != "1" {
				t.Errorf("v is %q, %v; want 1", got, err)
			}
		})
	}
}
