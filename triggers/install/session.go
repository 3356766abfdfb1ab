// Package install puts designs of package triggers on a server, verifies them and takes them off again. It speaks SQL
// through database/sql, one session at a time. Its only goroutine sends requests to a memcached port and is waited for.
package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/triggers"
)

// Session is one connection to the server, with the settings that the generated SQL is made for. It is used by one
// goroutine at a time.
type Session struct {
	db   *sql.DB
	conn *sql.Conn
	// Flavor is schema.FlavorMySQL or schema.FlavorMariaDB.
	Flavor string
	// Logf is told what takes long or goes wrong and is tried again; nil is silence.
	Logf func(format string, args ...any)
}

// Open connects to the server of a DSN in go-sql-driver's form. The errors do not hold the password.
func Open(ctx context.Context, dsn string) (*Session, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the source's address can't be read: want user:password@tcp(host:port)/")
	}
	cfg.DBName = ""              // so that expressions can't reach stored functions
	cfg.InterpolateParams = true // one round trip, and the text protocol for values
	cfg.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	s := &Session{db: sql.OpenDB(connector)}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		s.db.Close()
		return nil, fmt.Errorf("connect to %s: %w", cfg.Addr, err)
	}
	for _, st := range append(triggers.SessionSettings(), "SET time_zone = '+00:00'", "SET SESSION group_concat_max_len = 1048576",
		// Merged into the query around it, the definition of 20000 rows was compared with each of 20000 by MariaDB.
		"SET SESSION optimizer_switch = 'derived_merge=off'") {
		if _, err := s.conn.ExecContext(ctx, st); err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: %w", st, err)
		}
	}
	var version string
	if err := s.one(ctx, "SELECT VERSION()", nil, &version); err != nil {
		s.Close()
		return nil, err
	}
	s.Flavor = schema.FlavorMySQL
	if strings.Contains(strings.ToLower(version), "mariadb") {
		s.Flavor = schema.FlavorMariaDB
	}
	return s, nil
}

// Close ends the connection.
func (s *Session) Close() { _ = errors.Join(s.conn.Close(), s.db.Close()) }

func (s *Session) logf(format string, args ...any) {
	if s.Logf != nil {
		s.Logf(format, args...)
	}
}

func (s *Session) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, query, args...)
	return err
}

// one reads a row of one query; sql.ErrNoRows where there is none.
func (s *Session) one(ctx context.Context, query string, args []any, to ...any) error {
	return s.conn.QueryRowContext(ctx, query, args...).Scan(to...)
}

// Query implements schema.Querier.
func (s *Session) Query(ctx context.Context, query string, row func(values [][]byte) error) error {
	return s.rows(ctx, query, nil, row)
}

func (s *Session) rows(ctx context.Context, query string, args []any, row func(values [][]byte) error) error {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]sql.RawBytes, len(columns))
	scan, out := make([]any, len(columns)), make([][]byte, len(columns))
	for i := range values {
		scan[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(scan...); err != nil {
			return err
		}
		for i, v := range values {
			out[i] = v
		}
		if err := row(out); err != nil {
			return err
		}
	}
	return rows.Err()
}

// code is the server's number of an error, 0 where it is none of the server's.
func code(err error) uint16 {
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// The server's numbers of errors that are told apart.
const (
	errLockWait     = 1205
	errDeadlock     = 1213
	errNoSuper      = 1419
	errAccess       = 1142
	errAccessDB     = 1044
	errAccessColumn = 1143
	errNeedsPriv    = 1227
	errDenyProc     = 1370
	errNoDatabase   = 1049
	errNoTable      = 1146
	errNoAccount    = 1141
)

// How often what ran into a lock is tried, and the pause between.
const (
	lockTries = 8
	lockPause = 500 * time.Millisecond
)

// locked runs f again when a lock was in its way.
func (s *Session) locked(ctx context.Context, what string, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if c := code(err); c != errLockWait && c != errDeadlock || try == lockTries {
			if c == errLockWait {
				return fmt.Errorf("%s: open transactions are in the way, %d times in a row%s: %w", what, try, s.blockers(ctx), err)
			}
			return err
		}
		if err := s.exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
		s.logf("%s waits for open transactions%s; try %d of %d", what, s.blockers(ctx), try+1, lockTries)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}

// blockers names the transactions that have been open for long; nothing where the account may not see them.
func (s *Session) blockers(ctx context.Context) string {
	var all []string
	err := s.Query(ctx, "SELECT t.trx_mysql_thread_id, p.USER, TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) FROM information_schema.INNODB_TRX t"+
		" JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id WHERE p.ID <> CONNECTION_ID() ORDER BY t.trx_started LIMIT 3",
		func(v [][]byte) error {
			all = append(all, fmt.Sprintf("connection %s of %s, %s s", v[0], v[1], v[2]))
			return nil
		})
	if err != nil || len(all) == 0 {
		return ""
	}
	return " (oldest: " + strings.Join(all, "; ") + ")"
}

// Catalog reads what a spec needs to know of its tables.
func (s *Session) Catalog(ctx context.Context, spec *triggers.Spec) (*triggers.Catalog, error) {
	c := &triggers.Catalog{Tables: make(map[schema.Name]*triggers.Table), Others: make(map[schema.Name]string)}
	if spec.Query != "" {
		return c, nil
	}
	next := []schema.Name{spec.Source}
	for _, j := range spec.Joins {
		if err := s.addTable(ctx, c, j.Table); err != nil {
			return nil, err
		}
	}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if c.Tables[name] == nil {
			if err := s.addTable(ctx, c, name); err != nil {
				return nil, err
			}
		}
		t := c.Tables[name]
		if t == nil {
			continue
		}
		for _, fk := range t.Parents {
			if c.Tables[fk.Parent] == nil && !slices.Contains(next, fk.Parent) {
				next = append(next, fk.Parent)
			}
		}
	}
	return c, nil
}

func (s *Session) addTable(ctx context.Context, c *triggers.Catalog, name schema.Name) error {
	def, err := schema.Load(ctx, s, s.Flavor, name.Schema, name.Table)
	if errors.Is(err, schema.ErrNoTable) {
		var kind string
		err := s.one(ctx, "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND TABLE_TYPE <> 'BASE TABLE'",
			[]any{name.Schema, name.Table}, &kind)
		if err == nil {
			c.Others[name] = kind
		} else if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w (the account needs SELECT on all columns of %s, not on some)", err, name)
	}
	t := &triggers.Table{Table: def, JSON: make(map[string]bool), Expressions: make(map[string]string)}
	err = s.rows(ctx, "SELECT COLUMN_NAME, GENERATION_EXPRESSION FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND GENERATION_EXPRESSION <> ''",
		[]any{name.Schema, name.Table}, func(v [][]byte) error {
			t.Expressions[string(v[0])] = string(v[1])
			return nil
		})
	if err != nil {
		return err
	}
	err = s.rows(ctx, "SELECT rc.CONSTRAINT_NAME, k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME,"+
		" rc.DELETE_RULE, rc.UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS rc JOIN information_schema.KEY_COLUMN_USAGE k"+
		" ON k.CONSTRAINT_SCHEMA = rc.CONSTRAINT_SCHEMA AND k.TABLE_NAME = rc.TABLE_NAME AND k.CONSTRAINT_NAME = rc.CONSTRAINT_NAME"+
		" WHERE rc.CONSTRAINT_SCHEMA = ? AND rc.TABLE_NAME = ? ORDER BY rc.CONSTRAINT_NAME, k.ORDINAL_POSITION", []any{name.Schema, name.Table},
		func(v [][]byte) error {
			if n := len(t.Parents); n == 0 || t.Parents[n-1].Name != string(v[0]) {
				t.Parents = append(t.Parents, triggers.ForeignKey{
					Name: string(v[0]), Parent: schema.Name{Schema: string(v[1]), Table: string(v[2])}, OnDelete: string(v[5]), OnUpdate: string(v[6]),
				})
			}
			fk := &t.Parents[len(t.Parents)-1]
			fk.Columns, fk.ParentColumns = append(fk.Columns, string(v[3])), append(fk.ParentColumns, string(v[4]))
			return nil
		})
	if err == nil && s.Flavor == schema.FlavorMariaDB {
		err = s.rows(ctx, "SELECT CONSTRAINT_NAME FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?"+
			" AND CHECK_CLAUSE LIKE 'json\\_valid(%'", []any{name.Schema, name.Table}, func(v [][]byte) error {
			t.JSON[string(v[0])] = true
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("foreign keys of %s: %w", name, err)
	}
	c.Tables[name] = t
	return nil
}

// Design reads the tables, works the spec out, and asks the server about its expressions; nothing is changed. Faults of
// the spec are *triggers.SpecError.
func (s *Session) Design(ctx context.Context, spec *triggers.Spec) (d *triggers.Design, err error) {
	catalog, err := s.Catalog(ctx, spec)
	if err != nil {
		return nil, err
	}
	d, err = triggers.NewDesign(spec, catalog)
	if err != nil {
		return nil, err
	}
	// Without this mode the server takes any row's value for a group's.
	if err := s.exec(ctx, "SET @mode = @@sql_mode, SESSION sql_mode = CONCAT(@@sql_mode, ',ONLY_FULL_GROUP_BY')"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.exec(ctx, "SET SESSION sql_mode = @mode")) }()
	return d, d.Expressions(func(line int, query string) error {
		st, err := s.conn.PrepareContext(ctx, query)
		if err == nil {
			return st.Close()
		}
		if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
			text := fmt.Sprintf("the server refuses this (error %d): %s", e.Number, e.Message)
			if m := denied.FindStringSubmatch(e.Message); m != nil {
				text += fmt.Sprintf(": GRANT %s ON the table %s TO %s", strings.ToUpper(m[1]), m[2], s.account(ctx))
			}
			return &triggers.SpecError{Path: spec.Path, Line: line, Text: text}
		}
		return err
	})
}
