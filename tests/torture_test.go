package tests

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/internal/torture"
)

// hotScenarios is how many scenarios there are for one that is played with hot tables, unless BINLOGCACHE_TORTURE_HOT is set.
const hotScenarios = 4

// notHot are scenarios in which a hot table may be wrong, with what docs/CONSISTENCY.md says of it.
var notHot = map[string]string{
	"217-unlogged-delete-then-insert": "an unlogged change is noticed when the log changes a row that is kept, not by rows that are not there",
}

// TestTorture plays every scenario on both flavours, with the cache following all the time and started at the
// scenario's snapshot mark, and some of them with tables that are kept hot. BINLOGCACHE_TORTURE_OPTIONS adds options to the
// servers ("--binlog-checksum=NONE"), BINLOGCACHE_TORTURE_HOT=all plays all scenarios with hot tables.
func TestTorture(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/torture/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, flavor := range testmysql.Flavors() {
		for _, mode := range []string{"running", "fresh", "hot"} {
			t.Run(flavor+"/"+mode, func(t *testing.T) {
				t.Parallel()
				// Scenarios set global variables: a server of their own.
				server := testmysql.Private(t, flavor, strings.Fields(os.Getenv("BINLOGCACHE_TORTURE_OPTIONS"))...)
				r := &torture.Runner{Flavor: flavor, DSN: server.DSN, Settle: settleTimeout}
				if err := r.Connect(); err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				tables := "tort.*"
				if mode == "hot" {
					tables, r.Hot = "nothing.*", true
				}
				begin := func(t *testing.T) *daemon { return start(t, server.DSN, tables).waitReady() }
				if mode != "fresh" {
					d := begin(t)
					begin = func(*testing.T) *daemon { return d }
				}
				for i, f := range files {
					if !r.Hot || i%hotScenarios == 0 || os.Getenv("BINLOGCACHE_TORTURE_HOT") == "all" {
						playScenario(t, r, f, begin)
					}
				}
			})
		}
	}
}

func playScenario(t *testing.T, r *torture.Runner, file string, begin func(t *testing.T) *daemon) {
	s, err := torture.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if !s.For(r.Flavor) || r.Hot && notHot[s.Name] != "" {
		return
	}
	t.Run(s.Name, func(t *testing.T) {
		sessions := map[string]*sql.Conn{}
		defer torture.CloseSessions(sessions)
		if err := r.Play(t.Context(), s.Before, sessions); err != nil {
			t.Fatalf("before the mark: %v", err)
		}
		if err := r.Remember(t.Context(), s.Tables); err != nil {
			t.Fatalf("at the mark: %v", err)
		}
		d := begin(t)
		r.HandlerSocket, r.Memcached, r.Admin = d.handlerSocket, d.memcached, d.base
		if r.Hot {
			n, err := r.Warm(t.Context(), s.Tables)
			if err != nil {
				t.Fatalf("at the mark: %v", err)
			}
			t.Logf("%d rows are hot", n)
		}
		before := 0.0
		if s.Steady && !r.Hot {
			if _, err := r.Judge(t.Context(), s.Tables); err != nil {
				t.Fatalf("at the mark: %v", err)
			}
			// Tables of the scenario before may still be on their way out.
			if err := r.WaitReady(t.Context()); err != nil {
				t.Fatalf("at the mark: %v", err)
			}
			if before, err = r.Transitions(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
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
		if s.Steady && !r.Hot {
			after, err := r.Transitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if after != before {
				t.Errorf("%v changes of table states: the log tells all, nothing had to be loaded anew", after-before)
			}
		}
		for _, v := range verdicts {
			t.Logf("%s.%s by %s: %s %s", v.Table.Schema, v.Table.Table, v.Table.Index, v.State, v.Reason)
		}
	})
}
