package writeback_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// fixture is a Writer and a schema of its own on a real server.
type fixture struct {
	t      *testing.T
	server testmysql.Server
	db     *sql.DB
	schema string
	source *sqltext.Config
	w      *writeback.Writer
}

func newFixture(t *testing.T, s testmysql.Server, cfg writeback.Config) *fixture {
	t.Helper()
	source, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	f := &fixture{t: t, server: s, db: s.DB(t), schema: s.Schema(t), source: source, w: writeback.New(source, cfg)}
	t.Cleanup(f.w.Close)
	return f
}

// table makes a table and describes it.
func (f *fixture) table(name, columns string, options ...string) *schema.Table {
	f.t.Helper()
	f.exec("CREATE TABLE " + f.schema + "." + name + " (" + columns + ") " + strings.Join(options, " "))
	c, err := sqltext.Dial(f.t.Context(), f.source)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	def, err := schema.Load(f.t.Context(), c, c.Flavor(), f.schema, name)
	if err != nil {
		f.t.Fatal(err)
	}
	return def
}

func (f *fixture) exec(stmt string) {
	f.t.Helper()
	if _, err := f.db.ExecContext(f.t.Context(), stmt); err != nil {
		f.t.Fatalf("%s: %v", stmt, err)
	}
}

// want compares the result of a query of one value.
func (f *fixture) want(query, want string) {
	f.t.Helper()
	var got sql.NullString
	if err := f.db.QueryRowContext(f.t.Context(), query).Scan(&got); err != nil {
		f.t.Fatalf("%s: %v", query, err)
	}
	if got.String != want {
		f.t.Errorf("%s: got %q, want %q", query, got.String, want)
	}
}

// set makes assignments to the first columns; the text NULL is NULL.
func set(values ...string) []schema.Assignment {
	all := make([]schema.Assignment, len(values))
	for i, v := range values {
		all[i] = schema.Assignment{Column: i, Value: []byte(v)}
		if v == "NULL" {
			all[i].Value = nil
		}
	}
	return all
}

func insert(def *schema.Table, values ...string) *schema.Change {
	return &schema.Change{Kind: schema.ChangeInsert, Def: def, Set: set(values...)}
}

// upsert makes a change of the row whose primary key is the first column, or a new row.
func upsert(def *schema.Table, values ...string) *schema.Change {
	return &schema.Change{Kind: schema.ChangeUpsert, Def: def, Key: [][]byte{[]byte(values[0])}, Set: set(values...)}
}

// rekeyed makes an upsert set the key's spelling.
func rekeyed(c *schema.Change) *schema.Change {
	c.Rekey = true
	return c
}

// change makes a change of the row with that primary key, to column 1.
func change(kind schema.ChangeKind, def *schema.Table, key, value string) *schema.Change {
	return &schema.Change{Kind: kind, Def: def, Key: [][]byte{[]byte(key)}, Set: []schema.Assignment{{Column: 1, Value: []byte(value)}}}
}

// outcome is the number of an error, or what it wraps.
func outcome(err error) string {
	if r := (*writeback.Refused)(nil); errors.As(err, &r) {
		return strconv.Itoa(r.Number)
	}
	for name, known := range map[string]error{
		"unavailable": writeback.ErrUnavailable, "uncertain": writeback.ErrUncertain, "readonly": writeback.ErrReadOnly,
		"changed": writeback.ErrChanged, "toolarge": writeback.ErrTooLarge, "nonumber": writeback.ErrNoNumber, "nokey": writeback.ErrNoKey,
		"closed": writeback.ErrClosed, "timelimit": writeback.ErrTimeLimit,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// each runs a test on both servers.
func each(t *testing.T, cfg writeback.Config, test func(t *testing.T, f *fixture)) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, s, cfg))
		})
	}
}

// follower stands for one that has applied nothing until it is told to.
type follower struct {
	asked   chan string
	applied chan struct{} // closed: everything
}

func (f *follower) WaitApplied(ctx context.Context, gtids string) error {
	select {
	case f.asked <- gtids:
	default:
	}
	select {
	case <-f.applied:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *follower) MergeGTIDs(a, b string) (string, error) { return a + b, nil }
func (f *follower) Epoch() uint64                          { return 1 }

// takeAll changes all rows of a search.
func takeAll(tx *writeback.Tx, s *schema.Search, c *schema.Change) error {
	return tx.Search(s, func(row rowcodec.Row) error { return tx.Change(c, row) })
}
