package rowcodec

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// session is one connection to a server, with a schema of its own, that gives texts as the follower gets them.
type session struct {
	t              testing.TB
	conn           *sql.Conn
	flavor, schema string
}

// in is the session within a subtest.
func (s *session) in(t testing.TB) *session {
	c := *s
	c.t = t
	return &c
}

func newSession(t testing.TB, s testmysql.Server) *session {
	t.Helper()
	name := s.Schema(t)
	conn, err := s.DBIn(t, name).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &session{t: t, conn: conn, flavor: s.Flavor, schema: name}
	c.exec("SET NAMES utf8mb4")
	c.exec("SET character_set_results = NULL, time_zone = '+00:00', sql_mode = ''")
	c.exec("CREATE TABLE pairs (id INT PRIMARY KEY, a INT, b INT)")
	return c
}

func (s *session) exec(query string) {
	s.t.Helper()
	if _, err := s.conn.ExecContext(s.t.Context(), query); err != nil {
		s.t.Fatalf("%.300s: %v", query, err)
	}
}

// query returns all rows; nil is NULL.
func (s *session) query(query string) [][][]byte {
	s.t.Helper()
	rows, err := s.conn.QueryContext(s.t.Context(), query)
	if err != nil {
		s.t.Fatalf("%.300s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		s.t.Fatal(err)
	}
	var all [][][]byte
	for rows.Next() {
		values := make([][]byte, len(names))
		dest := make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, values)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatalf("%.300s: %v", query, err)
	}
	return all
}

// Query makes a session a schema.Querier.
func (s *session) Query(_ context.Context, query string, row func(values [][]byte) error) error {
	for _, values := range s.query(query) {
		if err := row(values); err != nil {
			return err
		}
	}
	return nil
}

// load returns the definition of a table of the session's schema.
func (s *session) load(table string) *schema.Table {
	s.t.Helper()
	def, err := schema.Load(s.t.Context(), s, s.flavor, s.schema, table)
	if err != nil {
		s.t.Fatal(err)
	}
	return def
}

// insert writes many rows, each a list of SQL expressions.
func (s *session) insert(table string, rows []string) {
	s.t.Helper()
	for len(rows) > 0 {
		n := min(len(rows), 500)
		s.exec("INSERT INTO " + table + " VALUES (" + strings.Join(rows[:n], "),(") + ")")
		rows = rows[n:]
	}
}

// checkOrder compares keys with a server: order has the positions of keys in the order of the server's index, and
// same(pairs) asks the server which pairs are equal. name shows a position's value.
func checkOrder(t *testing.T, keys [][]byte, order []int, same func(pairs [][2]int) []bool, name func(int) string) {
	t.Helper()
	if len(order) != len(keys) {
		t.Fatalf("the server gave %d of %d rows", len(order), len(keys))
	}
	pairs := make([][2]int, 0, len(order))
	for i := 1; i < len(order); i++ {
		pairs = append(pairs, [2]int{order[i-1], order[i]})
	}
	equal := same(pairs)
	failed := 0
	for i, p := range pairs {
		a, b := keys[p[0]], keys[p[1]]
		switch got := bytes.Compare(a, b); {
		case equal[i] && got != 0, !equal[i] && got >= 0:
			failed++
			if failed <= 5 {
				t.Errorf("%s then %s, equal %v for the server: keys %x, %x", name(p[0]), name(p[1]), equal[i], a, b)
			}
		case !equal[i] && bytes.HasPrefix(b, a):
			t.Errorf("%s, %s: key %x is a prefix of %x", name(p[0]), name(p[1]), a, b)
		}
	}
	if failed > 5 {
		t.Errorf("and %d more of %d pairs", failed-5, len(pairs))
	}
}

// same asks for the equality of rows of table t by the expression, in which a and b are the rows.
func (s *session) same(expression string) func(pairs [][2]int) []bool {
	return func(pairs [][2]int) []bool {
		s.t.Helper()
		s.exec("DELETE FROM pairs")
		rows := make([]string, len(pairs))
		for i, p := range pairs {
			rows[i] = fmt.Sprintf("%d,%d,%d", i, p[0], p[1])
		}
		s.insert("pairs", rows)
		equal := make([]bool, len(pairs))
		for i, row := range s.query("SELECT " + expression + " FROM pairs STRAIGHT_JOIN t a ON a.id = pairs.a STRAIGHT_JOIN t b ON b.id = pairs.b ORDER BY pairs.id") {
			equal[i] = string(row[0]) == "1"
		}
		return equal
	}
}
