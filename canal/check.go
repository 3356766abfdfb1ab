package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

// Problem is something at the source that keeps it, or a table, from being followed, or makes that weaker.
type Problem struct {
	// Fatal means that nothing can be followed.
	Fatal bool
	// Code names the kind of problem for programs. It stays the same from version to version.
	Code string
	// Table is the table that can't be followed, where it is one that was named in full; or, with Warning, one of which something has to be known.
	Table   string
	Warning bool
	// Text says what is wrong.
	Text string
	// SQL mends it, run in this order by an administrator; Mend is what is to be done besides, or instead.
	SQL  []string
	Mend string
}

// Serious reports that the problem keeps the source, or a table that was named in full, from being followed.
func (p Problem) Serious() bool { return p.Fatal || p.Table != "" && !p.Warning }

// Error is one line: what is wrong and how to mend it.
func (p Problem) Error() string {
	mend := strings.Join(p.SQL, "; ")
	if mend != "" && p.Mend != "" {
		mend += ", "
	}
	if mend += p.Mend; mend == "" {
		return p.Text
	}
	return p.Text + ": " + mend
}

func fatalProblems(problems []Problem) (fatal []Problem) {
	for _, p := range problems {
		if p.Fatal {
			fatal = append(fatal, p)
		}
	}
	return fatal
}

// problems judges the source's settings.
func (s *source) problems(tables schema.Patterns) (problems []Problem) {
	is := func(name, value string) bool { return strings.EqualFold(s.vars[name], value) }
	// set is a problem that a variable's value makes, and another value mends.
	set := func(fatal bool, name, value, consequence, then string) {
		problems = append(problems, Problem{
			Fatal: fatal, Code: name, Text: "the source has " + name + "=" + s.vars[name] + consequence,
			SQL: []string{s.setGlobal(name, value)}, Mend: then,
		})
	}
	const reconnect = "then reconnect its clients"
	if !is("log_bin", "ON") {
		return []Problem{{Fatal: true, Code: "log_bin", Text: "the source writes no binlog (log_bin=OFF)", Mend: "start it with --log-bin and a --server-id"}}
	}
	if _, ok := s.vars["binlog_format"]; ok && !is("binlog_format", "ROW") {
		set(true, "binlog_format", "'ROW'", "", reconnect)
	}
	if !is("binlog_row_image", "FULL") {
		set(true, "binlog_row_image", "'FULL'", "", reconnect)
	}
	if s.flavor == schema.FlavorMySQL && !is("gtid_mode", "ON") {
		problems = append(problems, s.gtidProblem())
	}
	if is("server_id", "0") {
		set(true, "server_id", "1", ", with which it refuses replicas", "or another number that no server beside it has")
	}
	if s.vars["binlog_row_value_options"] != "" {
		set(false, "binlog_row_value_options", "''", ", with which tables with JSON columns are loaded anew at every change", reconnect)
	}
	if !is("binlog_row_metadata", "FULL") {
		set(false, "binlog_row_metadata", "'FULL'", ", which hides some changes of definitions", "")
	}
	if s.unlogged {
		problems = append(problems, unloggedProblem)
	}
	if s.filters != "" {
		problems = append(problems, Problem{
			Fatal: !filtersHarmless(s.filters, tables), Code: "binlog_filters",
			Text: "the source leaves schemas out of its binlog (" + s.filters + ")", Mend: "start it without these options",
		})
	}
	return problems
}

// setGlobal is the statement that sets a variable, for good where the server can.
func (s *source) setGlobal(name, value string) string {
	if s.flavor == schema.FlavorMySQL {
		return "SET PERSIST " + name + " = " + value
	}
	return "SET GLOBAL " + name + " = " + value
}

// gtidProblem leads MySQL's gtid_mode to ON, which goes by single steps only (MySQL manual, Changing GTID Mode on Online
// Servers).
func (s *source) gtidProblem() Problem {
	p := Problem{
		Fatal: true, Code: "gtid_mode", Text: "the source has gtid_mode=" + s.vars["gtid_mode"],
		Mend: "waiting before the last step until Ongoing_anonymous_transaction_count is 0",
		SQL:  []string{s.setGlobal("enforce_gtid_consistency", "ON")},
	}
	steps := []string{"OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"}
	at := slices.Index(steps, strings.ToUpper(s.vars["gtid_mode"]))
	for _, step := range steps[max(at, 0)+1:] {
		p.SQL = append(p.SQL, s.setGlobal("gtid_mode", step))
	}
	return p
}

var unloggedProblem = Problem{
	Fatal: true, Code: "log_replica_updates", Text: "the source is a replica that does not log what it replicates",
	Mend: "start it with --log-slave-updates (--log-replica-updates), or follow its own source",
}

// filtersHarmless reports that the filters leave out no schema of the tables. Filters work on default schemas of
// statements in some formats, so only the plain case counts: named tables, none of an ignored schema.
func filtersHarmless(filters string, tables schema.Patterns) bool {
	if strings.Contains(filters, "binlog_do_db") || len(tables.Exact()) < len(tables) {
		return false
	}
	_, ignored, _ := strings.Cut(filters, "binlog_ignore_db=")
	for name := range strings.SplitSeq(ignored, ",") {
		for _, t := range tables.Exact() {
			if strings.EqualFold(strings.TrimSpace(name), t.Schema) {
				return false
			}
		}
	}
	return true
}

// Codes of problems with the account.
const (
	codeLogin  = "login"
	codeClient = "privilege.replication_client"
	codeSlave  = "privilege.replication_slave"
	codeSelect = "privilege.select"
)

// Codes of problems with tables.
const (
	codeMissing = "table.missing"
	codeRefused = "table.refused"
)

// accessProblem tells refused logins and missing privileges from other errors. loggedIn says that a login with the same
// account has just succeeded.
func accessProblem(err error, loggedIn bool) (Problem, bool) {
	server := (*mysql.MyError)(nil)
	if !errors.As(err, &server) {
		return Problem{}, false
	}
	switch server.Code {
	case mysql.ER_ACCESS_DENIED_ERROR, 1698: // the second: MariaDB, an account without a password
		if !loggedIn {
			return Problem{Fatal: true, Code: codeLogin, Text: "the source refuses the login: " + server.Message, Mend: "correct user and password of the source"}, true
		}
		// This is how a server answers a replica without the privilege.
		return Problem{
			Fatal: true, Code: codeSlave, Text: "the account lacks the privilege REPLICATION SLAVE on the source",
			Mend: "GRANT REPLICATION SLAVE ON *.* TO the account",
		}, true
	case mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR:
		return Problem{
			Fatal: true, Code: codeClient, Text: "the account lacks a privilege on the source: " + server.Message,
			Mend: "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the account",
		}, true
	}
	return Problem{}, false
}

// Check tries everything that following needs and says what is wrong, the worst first; an empty result means that the
// tables can be followed. The error is that of a source that can't be reached, or of a connection that did not last: a
// later try may succeed.
func Check(ctx context.Context, cfg *sqltext.Config, tables schema.Patterns) ([]Problem, error) {
	conn, err := sqltext.Dial(ctx, cfg)
	if err != nil {
		if p, ok := accessProblem(err, false); ok {
			return []Problem{p}, nil
		}
		return nil, err
	}
	defer conn.Close()
	src, err := inspect(ctx, conn)
	if err != nil {
		if p, ok := accessProblem(err, true); ok {
			return []Problem{p}, nil
		}
		return nil, err
	}
	problems := src.problems(tables)
	if len(fatalProblems(problems)) == 0 {
		// Settings are in order, so the stream must start; if it does not, a privilege is missing.
		if err := tryStream(ctx, cfg, conn, src); err != nil {
			// As for Run, what passes is no reason to give up.
			end := (*failure)(nil)
			if !errors.As(streamFailure(ctx, err), &end) || len(end.mend) == 0 {
				return nil, fmt.Errorf("the source's log cannot be read: %w", err)
			}
			problems = append(slices.Clone(end.mend), problems...)
		}
	}
	account, err := accountOf(ctx, conn)
	if err != nil {
		return nil, err
	}
	more, _, err := tableProblems(ctx, conn, src.flavor, account, tables)
	if err != nil {
		return nil, err
	}
	return append(problems, more...), nil
}

// accountOf gives the account of the session, quoted as GRANT wants it.
func accountOf(ctx context.Context, c *sqltext.Conn) (account string, err error) {
	err = c.Query(ctx, "SELECT CURRENT_USER()", func(v [][]byte) error {
		// The host has no @, a user may have one.
		at := strings.LastIndexByte(string(v[0]), '@')
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
		account = quote(string(v[0][:max(at, 0)])) + "@" + quote(string(v[0][at+1:]))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("ask the source for the account: %w", err)
	}
	return account, nil
}

// unreadable is a table whose rows the account may not read.
func unreadable(name schema.Name, err error, grant string) Problem {
	server := (*mysql.MyError)(nil)
	errors.As(err, &server)
	return Problem{Code: codeSelect, Table: name.String(), Text: "table " + name.String() + " cannot be read: " + server.Message, SQL: []string{grant}}
}

// denied reports a server's error for want of a privilege on a table.
func denied(err error) bool {
	switch sqltext.ServerCode(err) {
	case mysql.ER_TABLEACCESS_DENIED_ERROR, mysql.ER_COLUMNACCESS_DENIED_ERROR, mysql.ER_DBACCESS_DENIED_ERROR:
		return true
	}
	return false
}

// matching are the tables that the account may see.
type matching struct {
	names []schema.Name
	defs  map[schema.Name]*schema.Table // of those that were named in full
}

// tableProblems looks at the tables that are named in full, and at whether there are any others.
func tableProblems(ctx context.Context, c *sqltext.Conn, flavor, account string, tables schema.Patterns) (problems []Problem, found matching, err error) {
	found.defs = map[schema.Name]*schema.Table{}
	for _, name := range tables.Exact() {
		grant := "GRANT SELECT ON " + schema.QuoteName(name.Schema) + "." + schema.QuoteName(name.Table) + " TO " + account
		def, err := schema.Load(ctx, c, flavor, name.Schema, name.Table)
		switch {
		case errors.Is(err, schema.ErrNoTable):
			problems = append(problems, Problem{
				Code: codeMissing, Table: name.String(), Text: "there is no table " + name.String() + ", or the account must not see it",
				Mend: "create it, or " + grant,
			})
			continue
		case denied(err):
			problems = append(problems, unreadable(name, err, grant))
			continue
		case err != nil:
			return problems, found, err
		}
		found.defs[name] = def
		if def.Refusal != "" {
			problems = append(problems, Problem{
				Code: codeRefused, Table: name.String(), Text: "table " + name.String() + " cannot be kept in memory: " + def.Refusal,
			})
			continue
		}
		r := newChunkReader(def, 1, 1, nil)
		err = c.Exec(ctx, r.columns+" LIMIT 0")
		if sqltext.ServerCode(err) != 0 && !sqltext.IsConnectionError(err) {
			problems = append(problems, unreadable(name, err, grant))
		} else if err != nil {
			return problems, found, err
		}
	}
	found.names, err = schema.List(ctx, c, tables)
	if err == nil && len(found.names) == 0 && len(tables) > len(tables.Exact()) {
		problems = append(problems, Problem{Code: "tables.none", Text: "no table that the account may see matches the table patterns"})
	}
	return problems, found, err
}
