package canal

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/internal/torture"
	"github.com/binlogcache/binlogcache/schema"
)

// TestTorture plays the scenarios with the follower alone: what it has given to its sink must be what the server has.
func TestTorture(t *testing.T) {
	files, err := filepath.Glob("../testdata/torture/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			// Scenarios set global variables.
			server := testmysql.Private(t, flavor)
			player := &torture.Runner{Flavor: flavor, DSN: server.DSN}
			if err := player.Connect(); err != nil {
				t.Fatal(err)
			}
			defer player.Close()
			r := &rig{t: t, server: server, schema: "tort", sink: newMemSink(), conn: dial(t, server)}
			r.start(nil, nil)
			for _, file := range files {
				scenario, err := torture.Parse(file)
				if err != nil {
					t.Fatal(err)
				}
				if !scenario.For(flavor) {
					continue
				}
				t.Run("running/"+scenario.Name, func(t *testing.T) { r.play(t, player, scenario) })
				t.Run("fresh/"+scenario.Name, func(t *testing.T) {
					fresh := &rig{t: t, server: server, schema: "tort", sink: newMemSink(), conn: r.conn}
					fresh.play(t, player, scenario)
				})
			}
		})
	}
}

// play plays a scenario on a follower that runs, or on one that is started at the scenario's mark.
func (r *rig) play(t *testing.T, player *torture.Runner, scenario *torture.Scenario) {
	defer func(outer *testing.T) { r.t = outer }(r.t)
	r.t = t
	sessions := map[string]*sql.Conn{}
	defer torture.CloseSessions(sessions)
	if err := player.Play(t.Context(), scenario.Before, sessions); err != nil {
		t.Fatalf("before the mark: %v", err)
	}
	if r.f == nil {
		r.start(nil, nil)
	}
	begin := time.Now()
	if err := player.Play(t.Context(), scenario.After, sessions); err != nil {
		t.Fatalf("after the mark: %v", err)
	}
	r.settle()
	t.Logf("settled after %v", time.Since(begin).Round(time.Millisecond))
	for _, table := range scenario.Tables {
		full := table.Schema + "." + table.Table
		state, reason := r.sink.state(full)
		_, err := schema.Load(t.Context(), r.conn, r.server.Flavor, table.Schema, table.Table)
		switch exists := err == nil; {
		case state == "live" && exists:
			r.compare(table.Table)
		case state == "refused" && exists && reason != "":
			t.Logf("%s is refused: %s", full, reason)
		case state == "none" && !exists, state == "suspended" && !exists:
		default:
			t.Errorf("%s is %s (%s), on the server: %v", full, state, reason, err)
		}
	}
	if t.Failed() {
		for _, e := range r.sink.events {
			if strings.Contains(e, "tort.") {
				t.Log(e)
			}
		}
	}
	r.sink.events = nil
}
