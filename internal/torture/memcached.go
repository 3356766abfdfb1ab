package torture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mostGets is how many rows of a table are asked for over memcached.
const mostGets = 60

// memcachedSchema is where the InnoDB memcached plugin keeps its containers. Names of all kinds must fit here.
var memcachedSchema = []string{
	"CREATE DATABASE IF NOT EXISTS innodb_memcache",
	`CREATE TABLE IF NOT EXISTS innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, db_schema VARCHAR(250) NOT NULL,
		db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0',
		cas_column VARCHAR(250), expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
	`CREATE TABLE IF NOT EXISTS innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY, get_policy VARCHAR(20) NOT NULL,
		set_policy VARCHAR(20) NOT NULL, delete_policy VARCHAR(20) NOT NULL, flush_policy VARCHAR(20) NOT NULL)`,
	"REPLACE INTO innodb_memcache.cache_policies VALUES ('cache_policy','innodb_only','innodb_only','innodb_only','innodb_only')",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50))",
	"REPLACE INTO innodb_memcache.config_options VALUES ('separator','|'),('table_map_delimiter','.')",
	"DELETE FROM innodb_memcache.containers",
}

// containerFor describes a container over the first index of the table that one can be made of, with all columns whose
// values the plugin allows side by side.
func containerFor(l *layout) (x *index, values []int) {
	plain := func(name string) bool { return !strings.ContainsAny(name, " ,;|\t`") && len(name) < 60 }
	for _, candidate := range l.indexes {
		if len(candidate.parts) != 1 || !candidate.unique || candidate.prefix() || !plain(l.columns[candidate.parts[0].column].name) {
			continue
		}
		if col := &l.columns[candidate.parts[0].column]; col.integer() || col.text() {
			x = candidate
			break
		}
	}
	size := 0
	for at, col := range l.columns {
		switch col.kind {
		case "char", "varchar", "tinytext", "text", "mediumtext", "blob", "varbinary", "tinyint", "smallint", "mediumint", "int", "bigint":
			// ZEROFILL is sent as a plain number.
			if plain(col.name) && !strings.Contains(col.typeText, "zerofill") && size+len(col.name) < 200 {
				values, size = append(values, at), size+len(col.name)+1
			}
		}
	}
	return x, values
}

// compareMemcached asks for rows, and for keys that are not there, through a container made for the table.
func (c *comparer) compareMemcached(ctx context.Context, l *layout) error {
	x, columns := containerFor(l)
	if c.runner.Memcached == "" || x == nil || len(columns) == 0 {
		return nil
	}
	rows, err := c.ranked(ctx, l, x)
	if err != nil || heavyRows(rows) {
		return err
	}
	key := x.parts[0].column
	names := make([]string, len(columns))
	for i, at := range columns {
		names[i] = l.columns[at].name
	}
	if c.runner.containers++; c.runner.containers == 1 {
		for _, q := range memcachedSchema {
			if _, err := c.conn.ExecContext(ctx, q); err != nil {
				return err
			}
		}
	}
	container := fmt.Sprintf("c%d", c.runner.containers)
	text := func(s string) string { return hexLiteral("utf8mb4", []byte(s)) }
	if _, err := c.conn.ExecContext(ctx, fmt.Sprintf(`INSERT INTO innodb_memcache.containers (name,db_schema,db_table,key_columns,value_columns,
		cas_column,expire_time_column,unique_idx_name_on_key) VALUES ('%s',%s,%s,%s,%s,'0','0',%s)`, container, text(l.table.Schema), text(l.table.Table), text(l.columns[key].name),
		text(strings.Join(names, ",")), text(x.name))); err != nil {
		return err
	}
	defer func() {
		_, _ = c.conn.ExecContext(context.WithoutCancel(ctx), "DELETE FROM innodb_memcache.containers WHERE name='"+container+"'")
	}()
	// A statement about the table makes the cache read the containers again at once.
	if _, err := c.conn.ExecContext(ctx, "ALTER TABLE innodb_memcache.containers COMMENT '"+container+"'"); err != nil {
		return err
	}
	mc, err := dialMemcached(c.runner.Memcached)
	if err != nil {
		return err
	}
	defer mc.conn.Close()
	for deadline := time.Now().Add(answerTime); ; {
		known, err := mc.bind(container)
		if err != nil {
			return err
		}
		if known {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("a new container stays unknown")
		}
		time.Sleep(pollEvery)
	}
	wanted := map[string][]byte{}
	var keys [][]byte
	for i := 0; i < len(rows); i += max(1, len(rows)/mostGets) {
		k := rows[i].values[key]
		if !usableKey(k) {
			continue
		}
		parts := make([][]byte, len(columns))
		for j, at := range columns {
			parts[j] = rows[i].values[at]
		}
		value := bytes.Join(parts, []byte("|"))
		wanted[string(k)] = value
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil
	}
	before, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := mc.get([][]byte{k}, wanted); err != nil {
			return err
		}
	}
	for several := range slices.Chunk(keys, 20) {
		if err := mc.get(several, wanted); err != nil {
			return err
		}
	}
	after, err := c.runner.status(ctx)
	if err != nil {
		return err
	}
	if n := after.Reads.Memcached.Database - before.Reads.Memcached.Database; n != 0 && len(rows) <= buildAtOnce {
		return fmt.Errorf("%d answers came from the database", n)
	}
	return c.absentOverMemcached(ctx, mc, l, x, rows)
}

// absentOverMemcached asks for integers beside those that are there; what may be equal to another text is left to the
// ranges of HandlerSocket.
func (c *comparer) absentOverMemcached(ctx context.Context, mc *memcached, l *layout, x *index, rows []row) error {
	col := &l.columns[x.parts[0].column]
	if !col.integer() {
		return nil
	}
	present := map[string]bool{}
	for _, r := range rows {
		present[string(r.values[x.parts[0].column])] = true
	}
	probes := c.runner.remembered[l.table.Schema+"."+l.table.Table][*col]
	for i := 0; i < len(rows); i += max(1, len(rows)/mostProbes) {
		probes = append(probes, col.neighbours(rows[i].values[x.parts[0].column])...)
	}
	for _, k := range probes {
		if present[string(k)] || strings.Contains(col.typeText, "zerofill") {
			continue
		}
		if err := mc.get([][]byte{k}, map[string][]byte{}); err != nil {
			return fmt.Errorf("key %q, which is not there: %w", k, err)
		}
	}
	return ctx.Err()
}

// usableKey reports a key that can be written in the text protocol.
func usableKey(k []byte) bool {
	return len(k) > 0 && len(k) <= 200 && k[0] != '@' && !slices.ContainsFunc(k, func(c byte) bool { return c <= ' ' || c == 0x7f })
}

// memcached is a client of the text protocol.
type memcached struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialMemcached(address string) (*memcached, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &memcached{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (m *memcached) send(line []byte) error {
	if err := m.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	_, err := m.conn.Write(append(line, "\r\n"...))
	return err
}

func (m *memcached) line() (string, error) {
	line, err := m.in.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

// bind makes the container that of the connection, if the server knows it.
func (m *memcached) bind(container string) (known bool, err error) {
	if err := m.send([]byte("get @@" + container)); err != nil {
		return false, err
	}
	for {
		answer, err := m.line()
		switch {
		case err != nil:
			return false, err
		case answer == "END":
			return known, nil
		case strings.HasPrefix(answer, "VALUE @@"+container):
			known = true
		case !known:
			return false, fmt.Errorf("bind to a container: %q", answer)
		}
	}
}

// get asks for keys in one request, and expects exactly those that wanted has.
func (m *memcached) get(keys [][]byte, wanted map[string][]byte) error {
	if err := m.send(append([]byte("get "), bytes.Join(keys, []byte(" "))...)); err != nil {
		return err
	}
	for _, k := range keys {
		want, there := wanted[string(k)]
		if !there {
			continue
		}
		head, err := m.line()
		if err != nil {
			return err
		}
		prefix := "VALUE " + string(k) + " 0 "
		size, err := strconv.Atoi(strings.TrimPrefix(head, prefix))
		if !strings.HasPrefix(head, prefix) || err != nil {
			return fmt.Errorf("get %q: %q", k, head)
		}
		value := make([]byte, size+2)
		if _, err := io.ReadFull(m.in, value); err != nil {
			return err
		}
		if !bytes.Equal(value[:size], want) {
			return fmt.Errorf("get %q: %.300q, the server has %.300q", k, value[:size], want)
		}
	}
	if end, err := m.line(); err != nil || end != "END" {
		return errors.Join(err, fmt.Errorf("get %q: %q where the answer should end", keys, end))
	}
	return nil
}
