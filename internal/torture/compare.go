package torture

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
)

// maxLookups bounds the rows of a table that are looked up one by one.
const maxLookups = 3000

type comparer struct {
	runner *Runner
	conn   *sql.Conn
	raw    *sqltext.Conn
}

func (c *comparer) exists(ctx context.Context, t CachedTable) (bool, error) {
	var n int
	err := c.conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.TABLES
		WHERE BINARY TABLE_SCHEMA=? AND BINARY TABLE_NAME=? AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED')`, t.Schema, t.Table).Scan(&n)
	return n > 0, err
}

func (c *comparer) compare(ctx context.Context, t CachedTable, states map[string]tableStatus) (Verdict, error) {
	v := Verdict{Table: t}
	exists, err := c.exists(ctx, t)
	if err != nil {
		return v, err
	}
	hs, err := dialHandlerSocket(c.runner.HandlerSocket)
	if err != nil {
		return v, err
	}
	defer hs.conn.Close()
	if !exists {
		answer, err := hs.ask([]byte("P"), []byte("0"), []byte(t.Schema), []byte(t.Table), []byte("PRIMARY"), nil)
		if err == nil && string(answer[0]) == "0" {
			err = errors.New("gone from the server, but it opens")
		}
		v.State = "gone"
		return v, err
	}
	info := states[t.Schema+"."+t.Table]
	if info.State == "refused" {
		if info.Reason == "" {
			return v, errors.New("refused without a reason")
		}
		v.State, v.Reason = "refused", info.Reason
		return v, nil
	}
	if c.runner.Hot {
		v.State = "hot"
		return v, c.compareHot(ctx, hs, t)
	}
	v.State = "live"
	return v, c.compareLive(ctx, hs, t, info)
}

// tableRows is a table as the server has it.
type tableRows struct {
	columns []string
	key     []int // places of the index's columns
	rows    [][][]byte
}

// read reads a table in the order of the index.
func (c *comparer) read(ctx context.Context, t CachedTable) (*tableRows, error) {
	columns, err := c.strings(ctx, "SHOW COLUMNS FROM "+quoteName(t.Schema)+"."+quoteName(t.Table), func(row map[string]string) string {
		if strings.Contains(strings.ToUpper(row["Extra"]), "INVISIBLE") {
			return ""
		}
		return row["Field"]
	})
	if err != nil {
		return nil, err
	}
	var order []string
	keyColumns, err := c.strings(ctx, "SHOW INDEX FROM "+quoteName(t.Schema)+"."+quoteName(t.Table), func(row map[string]string) string {
		if row["Key_name"] != t.Index {
			return ""
		}
		part := quoteName(row["Column_name"])
		if row["Collation"] == "D" {
			part += " DESC"
		}
		order = append(order, part)
		return row["Column_name"]
	})
	if err != nil {
		return nil, err
	}
	if len(keyColumns) == 0 {
		return nil, errors.New("no usable key and not refused")
	}
	quoted := func(names []string) string {
		q := make([]string, len(names))
		for i, n := range names {
			q[i] = quoteName(n)
		}
		return strings.Join(q, ",")
	}
	rows, err := c.rows(ctx, fmt.Sprintf("SELECT %s FROM %s.%s FORCE INDEX (%s) ORDER BY %s", quoted(columns),
		quoteName(t.Schema), quoteName(t.Table), quoteName(t.Index), strings.Join(order, ",")))
	if err != nil {
		return nil, err
	}
	key := make([]int, len(keyColumns))
	for i, k := range keyColumns {
		key[i] = slices.Index(columns, k)
	}
	return &tableRows{columns, key, rows}, nil
}

// open opens the table as index 1.
func (hs *handlerSocket) open(t CachedTable, columns []string) error {
	answer, err := hs.ask([]byte("P"), []byte("1"), []byte(t.Schema), []byte(t.Table), []byte(t.Index), []byte(strings.Join(columns, ",")))
	if err == nil && string(answer[0]) != "0" {
		err = fmt.Errorf("does not open: %q", answer)
	}
	return err
}

func (c *comparer) compareLive(ctx context.Context, hs *handlerSocket, t CachedTable, info tableStatus) error {
	table, err := c.read(ctx, t)
	if err != nil {
		return err
	}
	rows := table.rows
	if info.Rows != uint64(len(rows)) {
		return fmt.Errorf("the cache counts %d rows, the server %d", info.Rows, len(rows))
	}
	before, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	if err := hs.open(t, table.columns); err != nil {
		return err
	}
	asked, err := lookups(hs, rows, table.key, len(table.columns))
	if err != nil {
		return err
	}
	after, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	if n := after.Reads.HandlerSocket.Database - before.Reads.HandlerSocket.Database; n != 0 {
		return fmt.Errorf("%d answers came from the database", n)
	}
	if asked > 0 && after.Reads.HandlerSocket.Memory <= before.Reads.HandlerSocket.Memory {
		return errors.New("no answer is counted as from memory")
	}
	return nil
}

// find searches from the key of a row in what open has opened.
func (hs *handlerSocket) find(op, limit string, row [][]byte, key []int, columns int) ([][][]byte, error) {
	request := [][]byte{[]byte("1"), []byte(op), []byte(strconv.Itoa(len(key)))}
	for _, k := range key {
		request = append(request, escape(row[k]))
	}
	answer, err := hs.ask(append(request, []byte(limit))...)
	if err != nil {
		return nil, err
	}
	if string(answer[0]) != "0" {
		return nil, fmt.Errorf("find %s: %q", op, answer)
	}
	var found [][][]byte
	for values := range slices.Chunk(answer[2:], columns) {
		r := make([][]byte, len(values))
		for i, v := range values {
			r[i] = unescape(v)
		}
		found = append(found, r)
	}
	return found, nil
}

// lookups finds each row by its key, and all rows by a walk from the first key. It returns the number of requests: none for
// keys with NULLs.
func lookups(hs *handlerSocket, rows [][][]byte, key []int, columns int) (asked int, err error) {
	find := func(op, limit string, row [][]byte) ([][][]byte, error) {
		asked++
		return hs.find(op, limit, row, key, columns)
	}
	hasNull := func(row [][]byte) bool {
		return slices.ContainsFunc(key, func(k int) bool { return row[k] == nil })
	}
	for _, row := range rows[:min(len(rows), maxLookups)] {
		if hasNull(row) {
			continue
		}
		found, err := find("=", "100000", row)
		if err != nil {
			return asked, err
		}
		if !slices.ContainsFunc(found, func(f [][]byte) bool { return equalRows(f, row) }) {
			return asked, fmt.Errorf("row %q of the server, found by its key %q", row, found)
		}
	}
	if len(rows) == 0 || hasNull(rows[0]) {
		return asked, nil
	}
	found, err := find(">=", "1000000", rows[0])
	if err != nil {
		return asked, err
	}
	if len(found) != len(rows) {
		return asked, fmt.Errorf("a walk gives %d rows, the server has %d", len(found), len(rows))
	}
	missing := map[string]int{}
	for _, r := range rows {
		missing[fmt.Sprintf("%q", r)]++
	}
	for _, f := range found {
		text := fmt.Sprintf("%q", f)
		if missing[text]--; missing[text] < 0 {
			return asked, fmt.Errorf("a walk gives the row %s, which the server has not", text)
		}
	}
	return asked, nil
}

// equalRows tells NULL (nil) from the empty text.
func equalRows(a, b [][]byte) bool {
	return slices.EqualFunc(a, b, func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) })
}

// strings runs a SHOW statement and maps its rows; empty results are left out.
func (c *comparer) strings(ctx context.Context, query string, pick func(row map[string]string) string) ([]string, error) {
	if _, err := c.conn.ExecContext(ctx, "SET NAMES utf8mb4"); err != nil {
		return nil, err
	}
	rows, err := c.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(names))
	dest := make([]any, len(names))
	for i := range values {
		dest[i] = &values[i]
	}
	var out []string
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		row := map[string]string{}
		for i, n := range names {
			row[n] = values[i].String
		}
		if s := pick(row); s != "" {
			out = append(out, s)
		}
	}
	return out, rows.Err()
}

// rows reads a result as the bytes that the server sends, without conversion of character sets; nil is NULL.
func (c *comparer) rows(ctx context.Context, query string) ([][][]byte, error) {
	var rows [][][]byte
	err := c.raw.Query(ctx, query, func(values [][]byte) error {
		row := make([][]byte, len(values))
		for i, v := range values {
			row[i] = bytes.Clone(v)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// handlerSocket is a client of the read port.
type handlerSocket struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialHandlerSocket(address string) (*handlerSocket, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &handlerSocket{conn: conn, in: bufio.NewReader(conn)}, nil
}

// ask sends one line of tokens, which the caller has escaped, and returns the tokens of the answer.
func (h *handlerSocket) ask(tokens ...[]byte) ([][]byte, error) {
	if err := h.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := h.conn.Write(append(bytes.Join(tokens, []byte{'\t'}), '\n')); err != nil {
		return nil, err
	}
	line, err := h.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return bytes.Split(line[:len(line)-1], []byte{'\t'}), nil
}

func escape(v []byte) []byte {
	if v == nil {
		return []byte{0}
	}
	out := []byte{}
	for _, c := range v {
		if c < 16 {
			out = append(out, 1, c+64)
		} else {
			out = append(out, c)
		}
	}
	return out
}

func unescape(v []byte) []byte {
	if len(v) == 1 && v[0] == 0 {
		return nil
	}
	out := []byte{}
	for i := 0; i < len(v); i++ {
		if v[i] == 1 && i+1 < len(v) {
			i++
			out = append(out, v[i]-64)
		} else {
			out = append(out, v[i])
		}
	}
	return out
}
