package install

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/triggers"
)

// MemoryReport is what a comparison of the cache table with a port of a running binlogcache has found.
type MemoryReport struct {
	Compared, Missing, Different int64
	Examples                     []string
}

// item is a row of the cache table, or an answer.
type item struct {
	value string
	flags string
}

const (
	// memoryBatch is the number of keys of one round trip.
	memoryBatch = 200
	// settleTries and settlePause bound the wait for a difference to vanish: the port may be a replication delay behind.
	settleTries = 10
	settlePause = 200 * time.Millisecond
)

// Protocol is one by which VerifyMemory reads.
type Protocol int

// The protocols.
const (
	Memcached Protocol = iota
	HandlerSocket
)

// VerifyMemory reads every row of the cache table through a port of a running binlogcache (over memcached by the container
// of the design's name) and compares. A row that differs is read again on both sides for up to two seconds, because the
// port follows the binlog.
func (s *Session) VerifyMemory(ctx context.Context, d *triggers.Design, p Protocol, network, address string, progress func(done, total int64)) (*MemoryReport, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	m := &port{conn: conn, in: bufio.NewReader(conn), language: memcached{d.Spec.Name}}
	if p == HandlerSocket {
		if m.language, err = m.openHandlerSocket(d); err != nil {
			return nil, err
		}
	}
	var total int64
	if err := s.one(ctx, "SELECT COUNT(*) FROM "+cacheTable(d), nil, &total); err != nil {
		return nil, err
	}
	r := new(MemoryReport)
	last := ""
	for {
		keys, rows, err := s.cacheRows(ctx, d, "WHERE c.k > ? ORDER BY c.k LIMIT "+strconv.Itoa(memoryBatch), last)
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			return r, nil
		}
		last = keys[len(keys)-1]
		if err := s.compareMemory(ctx, d, m, keys, rows, r); err != nil {
			return nil, err
		}
		r.Compared += int64(len(keys))
		if progress != nil {
			progress(r.Compared, max(total, r.Compared))
		}
	}
}

func (s *Session) compareMemory(ctx context.Context, d *triggers.Design, m *port, keys []string, rows map[string]item, r *MemoryReport) error {
	for try := 0; ; try++ {
		answers, err := m.get(keys)
		if err != nil {
			return err
		}
		var wrong []string
		for _, k := range keys {
			row, there := rows[k]
			if a, found := answers[k]; found != there || a != row {
				wrong = append(wrong, k)
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		if try == settleTries {
			for _, k := range wrong {
				what := "not found in memory"
				if _, found := answers[k]; found {
					what = "differs in memory"
					r.Different++
				} else {
					r.Missing++
				}
				if len(r.Examples) < maxExamples {
					r.Examples = append(r.Examples, k+": "+what)
				}
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePause):
		}
		args := make([]any, len(wrong))
		for i, k := range wrong {
			args[i] = k
		}
		if _, rows, err = s.cacheRows(ctx, d, "WHERE c.k IN (?"+strings.Repeat(", ?", len(wrong)-1)+")", args...); err != nil {
			return err
		}
		keys = wrong
	}
}

// cacheRows reads rows of the cache table that have not expired, as a memcached client sees them.
func (s *Session) cacheRows(ctx context.Context, d *triggers.Design, where string, args ...any) ([]string, map[string]item, error) {
	c := d.Container()
	columns := "c.k"
	for _, v := range c.ValueColumns {
		columns += ", c.`" + strings.ReplaceAll(v, "`", "``") + "`"
	}
	flags := "0"
	if c.Flags != "" {
		flags = "c.flags"
	}
	condition := where
	if c.Expiration != "" {
		// A row that is about to expire may be there or not.
		condition = strings.Replace(where, "WHERE ", "WHERE (c.exp = 0 OR c.exp > UNIX_TIMESTAMP() + 5) AND ", 1)
	}
	var keys []string
	rows := make(map[string]item)
	err := s.rows(ctx, "SELECT "+columns+", "+flags+" FROM "+cacheTable(d)+" AS c "+condition, args, func(v [][]byte) error {
		k := string(v[0])
		keys = append(keys, k)
		rows[k] = item{string(bytes.Join(v[1:len(v)-1], []byte("|"))), string(v[len(v)-1])}
		return nil
	})
	return keys, rows, err
}

// port asks a port for keys, many at a time.
type port struct {
	conn net.Conn
	in   *bufio.Reader
	language
}

// language is how a key is asked for, and how its answer reads.
type language interface {
	request(out *bytes.Buffer, key string)
	answer(in *bufio.Reader, key string) (it item, found bool, err error)
}

// ioTimeout bounds one batch.
const ioTimeout = 30 * time.Second

// get returns what is found, by key.
func (m *port) get(keys []string) (map[string]item, error) {
	if err := m.conn.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, k := range keys {
		m.request(&out, k)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := m.conn.Write(out.Bytes())
		sent <- err
	}()
	found := make(map[string]item)
	var err error
	for _, k := range keys {
		it, ok, answerErr := m.answer(m.in, k)
		if answerErr != nil {
			err = fmt.Errorf("%s: key %s: %w", m.conn.RemoteAddr(), k, answerErr)
			_ = m.conn.Close() // so that the sender ends, too
			break
		}
		if ok {
			found[k] = it
		}
	}
	if sendErr := <-sent; err == nil {
		err = sendErr
	}
	return found, err
}

// memcached is the text protocol. Each key is asked for by itself and with its container, so that each is answered by it.
type memcached struct{ container string }

func (m memcached) request(out *bytes.Buffer, key string) {
	fmt.Fprintf(out, "get @@%s.%s\r\n", m.container, key)
}

func (memcached) answer(in *bufio.Reader, _ string) (it item, found bool, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return it, found, err
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && fields[0] == "END":
			return it, found, nil
		case len(fields) != 4 || fields[0] != "VALUE":
			return it, found, fmt.Errorf("the answer is %q", strings.TrimSpace(line))
		}
		n, err := strconv.Atoi(fields[3])
		if err != nil || n < 0 || n > 1<<30 {
			return it, found, fmt.Errorf("the answer is %q", strings.TrimSpace(line))
		}
		value := make([]byte, n+2)
		if _, err := io.ReadFull(in, value); err != nil {
			return it, found, err
		}
		it, found = item{string(value[:n]), fields[2]}, true
	}
}

// handlerSocket finds rows by the primary key of the opened cache table.
type handlerSocket struct{ columns int }

// openHandlerSocket opens the cache table as index 1: the value columns, then the flags where there are any.
func (m *port) openHandlerSocket(d *triggers.Design) (language, error) {
	c := d.Container()
	columns := c.ValueColumns
	if c.Flags != "" {
		columns = append(columns[:len(columns):len(columns)], c.Flags)
	}
	if err := m.conn.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(m.conn, "P\t1\t%s\t%s\tPRIMARY\t%s\n", c.Table.Schema, c.Table.Table, strings.Join(columns, ",")); err != nil {
		return nil, err
	}
	line, err := m.in.ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "0\t") {
		err = fmt.Errorf("%s: open %s: the answer is %q", m.conn.RemoteAddr(), c.Table, strings.TrimSpace(line))
	}
	h := handlerSocket{columns: len(columns)}
	if c.Flags == "" {
		h.columns++ // as if there were a column of zeros
	}
	return h, err
}

func (handlerSocket) request(out *bytes.Buffer, key string) {
	out.WriteString("1\t=\t1\t")
	for _, c := range []byte(key) {
		if c < 0x10 {
			out.WriteByte(1)
			c |= 0x40
		}
		out.WriteByte(c)
	}
	out.WriteByte('\n')
}

func (h handlerSocket) answer(in *bufio.Reader, _ string) (item, bool, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return item{}, false, err
	}
	fields := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
	switch {
	case len(fields) < 2 || string(fields[0]) != "0":
		return item{}, false, fmt.Errorf("the answer is %q", line)
	case len(fields) == 2:
		return item{}, false, nil
	}
	values := fields[2:]
	flags := "0"
	if len(values) == h.columns {
		flags = string(values[len(values)-1])
		values = values[:len(values)-1]
	}
	for i, v := range values {
		values[i] = unescape(v)
	}
	return item{string(bytes.Join(values, []byte("|"))), flags}, true, nil
}

// unescape reads a value of HandlerSocket: a NULL as nothing, and bytes below 16 as they were.
func unescape(v []byte) []byte {
	if len(v) == 1 && v[0] == 0 {
		return nil
	}
	out := v[:0]
	for i := 0; i < len(v); i++ {
		if v[i] == 1 && i+1 < len(v) {
			i++
			out = append(out, v[i]^0x40)
			continue
		}
		out = append(out, v[i])
	}
	return out
}
