package tests

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/internal/torture"
)

// TestTorture plays every scenario on both flavours, with the cache following all the time and started at the
// scenario's snapshot mark.
func TestTorture(t *testing.T) {
	files, err := filepath.Glob("../testdata/torture/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			// Scenarios set global variables: a server of their own.
			server := testmysql.Private(t, flavor)
			r := &torture.Runner{Flavor: flavor, DSN: server.DSN, Settle: settleTimeout}
			if err := r.Connect(); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			t.Run("running", func(t *testing.T) {
				d := start(t, server.DSN, "tort.*").waitReady()
				for _, f := range files {
					playScenario(t, r, f, func(t *testing.T) *daemon { return d })
				}
			})
			t.Run("fresh", func(t *testing.T) {
				for _, f := range files {
					playScenario(t, r, f, func(t *testing.T) *daemon { return start(t, server.DSN, "tort.*").waitReady() })
				}
			})
		})
	}
}

func playScenario(t *testing.T, r *torture.Runner, file string, begin func(t *testing.T) *daemon) {
	s, err := torture.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if !s.For(r.Flavor) {
		return
	}
	t.Run(s.Name, func(t *testing.T) {
		sessions := map[string]*sql.Conn{}
		defer torture.CloseSessions(sessions)
		if err := r.Play(t.Context(), s.Before, sessions); err != nil {
			t.Fatalf("before the mark: %v", err)
		}
		d := begin(t)
		r.HandlerSocket, r.Admin = d.handlerSocket, d.base
		if err := r.Play(t.Context(), s.After, sessions); err != nil {
			t.Fatalf("after the mark: %v", err)
		}
		for _, c := range sessions {
			// Transactions that the scenario leaves open are no part of the data.
			_, _ = c.ExecContext(t.Context(), "ROLLBACK")
		}
		verdicts, err := r.Judge(t.Context(), s.Tables)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			t.Logf("%s.%s by %s: %s %s", v.Table.Schema, v.Table.Table, v.Table.Index, v.State, v.Reason)
		}
	})
}
