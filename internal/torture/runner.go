package torture

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of the scenarios' sessions
)

// Runner plays scenarios on a server that the cache follows, and judges the cache.
type Runner struct {
	// Flavor is "mysql" or "mariadb".
	Flavor string
	// DSN of the server, in go-sql-driver form.
	DSN string
	// HandlerSocket is the address of the cache's read port, Admin the base URL of its admin interface.
	HandlerSocket, Admin string
	// Memcached is the address of the cache's memcached port; empty leaves it out. Containers for the tables are made in
	// innodb_memcache on the server, which the runner then owns.
	Memcached string
	// Settle bounds the wait for the cache to catch up.
	Settle time.Duration
	// Hot says that the cache keeps the tables hot: Warm makes it keep rows before the writes, and any row that is found
	// has to be the server's, wherever it comes from.
	Hot bool

	db *sql.DB
	// remembered are keys by table and column, see Remember; containers counts those that were made.
	remembered map[string]map[column][][]byte
	containers int
	// warmed are the keys that Warm has read, by table.
	warmed map[string][][][]byte
}

// Connect opens the pool that the sessions of scenarios are taken from.
func (r *Runner) Connect() error {
	db, err := sql.Open("mysql", r.DSN)
	if err != nil {
		return err
	}
	// A session's state must not reach the next scenario.
	db.SetMaxIdleConns(0)
	r.db = db
	return nil
}

// Close ends what Connect began.
func (r *Runner) Close() error { return r.db.Close() }

// Verdict is the judgement on one table.
type Verdict struct {
	Table CachedTable
	// State is "live", "refused" (with Reason) or "gone".
	State, Reason string
}

// pollEvery is the pause between looks at what is waited for.
const pollEvery = 5 * time.Millisecond

// Play runs steps; sessions that the steps open are kept in sessions and reused.
func (r *Runner) Play(ctx context.Context, steps []Step, sessions map[string]*sql.Conn) error {
	current := "main"
	for _, step := range steps {
		switch {
		case step.Session != "":
			current = step.Session
			continue
		case step.Sleep > 0:
			time.Sleep(step.Sleep)
			continue
		}
		conn := sessions[current]
		if conn == nil {
			var err error
			if conn, err = r.db.Conn(ctx); err != nil {
				return err
			}
			sessions[current] = conn
			// The schema may not exist yet: the scenario then creates it.
			_, _ = conn.ExecContext(ctx, "USE tort")
		}
		if _, err := conn.ExecContext(ctx, step.SQL); err != nil {
			return fmt.Errorf("line %d: %w", step.Line, err)
		}
	}
	return nil
}

// CloseSessions rolls back what is open and closes the sessions.
func CloseSessions(sessions map[string]*sql.Conn) {
	for _, c := range sessions {
		_, _ = c.ExecContext(context.Background(), "ROLLBACK")
		_ = c.Close()
	}
}

// tableStatus is the part of the admin interface's status that the oracle needs.
type tableStatus struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason"`
	Rows   uint64 `json:"rows"`
}

type status struct {
	Applied struct {
		GTID string `json:"gtid"`
	} `json:"applied"`
	Tables []tableStatus `json:"tables"`
	Reads  struct {
		HandlerSocket readCounts `json:"handlersocket"`
		Memcached     readCounts `json:"memcached"`
	} `json:"reads"`
}

type readCounts struct {
	Memory   uint64 `json:"memory"`
	Database uint64 `json:"database"`
}

func (r *Runner) status(ctx context.Context) (*status, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Admin+"/api/v1/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var st status
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return &st, nil
}

// Judge waits until the cache has settled and compares every table with the server.
func (r *Runner) Judge(ctx context.Context, tables []CachedTable) (verdicts []Verdict, err error) {
	err = r.with(ctx, func(c *comparer) error {
		states, err := c.settle(ctx, tables)
		if err != nil {
			return err
		}
		for _, t := range tables {
			v, err := c.compare(ctx, t, states)
			if err != nil {
				return fmt.Errorf("%s.%s by %s: %w", t.Schema, t.Table, t.Index, err)
			}
			verdicts = append(verdicts, v)
		}
		return nil
	})
	return verdicts, err
}

// settle waits until the cache contains the server's executed set and no table of the scenario is between states.
func (c *comparer) settle(ctx context.Context, tables []CachedTable) (map[string]tableStatus, error) {
	query := "SELECT @@global.gtid_executed"
	if c.runner.Flavor == "mariadb" {
		query = "SELECT @@gtid_binlog_pos"
	}
	var want string
	if err := c.conn.QueryRowContext(ctx, query).Scan(&want); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.runner.Settle)
	for {
		states, err := c.settled(ctx, want, tables)
		if err == nil {
			return states, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("not settled after %s: %w", c.runner.Settle, err)
		}
		time.Sleep(pollEvery)
	}
}

func (c *comparer) settled(ctx context.Context, want string, tables []CachedTable) (map[string]tableStatus, error) {
	st, err := c.runner.status(ctx)
	if err != nil {
		return nil, err
	}
	if !containsGTIDs(c.runner.Flavor, st.Applied.GTID, want) {
		return nil, fmt.Errorf("applied %q, wanted %q", st.Applied.GTID, want)
	}
	states := map[string]tableStatus{}
	for _, t := range st.Tables {
		states[t.Name] = t
	}
	for _, t := range tables {
		info, known := states[t.Schema+"."+t.Table]
		exists, err := c.exists(ctx, t)
		switch {
		case err != nil:
			return nil, err
		case exists && !known && !c.runner.Hot:
			return nil, fmt.Errorf("%s.%s is not known", t.Schema, t.Table)
		case known && (info.State != "live" || info.Reason != "") && info.State != "refused" && info.State != "hot":
			return nil, fmt.Errorf("%s is %s (%s)", info.Name, info.State, info.Reason)
		}
	}
	return states, nil
}

// WaitReady waits until the cache has caught up and none of its tables is between states.
func (r *Runner) WaitReady(ctx context.Context) error {
	deadline := time.Now().Add(r.Settle)
	for {
		resp, err := http.Get(r.Admin + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("not ready: %w", err)
		}
		time.Sleep(pollEvery)
	}
}

// Transitions counts the changes of table states since the cache began.
func (r *Runner) Transitions(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	sum, found := 0.0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, "binlogcache_table_transitions_total{") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("metrics: %w", err)
			}
			sum, found = sum+n, true
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	if !found {
		return 0, errors.New("the metrics do not count changes of table states")
	}
	return sum, nil
}

func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
