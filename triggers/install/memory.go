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

// MemoryReport is what a comparison of the cache table with a memcached port has found.
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

// VerifyMemory reads every row of the cache table through a memcached port, by the container of the design's name, and
// compares. A row that differs is read again on both sides for up to two seconds, because the port follows the binlog.
func (s *Session) VerifyMemory(ctx context.Context, d *triggers.Design, network, address string, progress func(done, total int64)) (*MemoryReport, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	m := memcached{conn: conn, in: bufio.NewReader(conn), container: d.Spec.Name}
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
		if err := s.compareMemory(ctx, d, &m, keys, rows, r); err != nil {
			return nil, err
		}
		r.Compared += int64(len(keys))
		if progress != nil {
			progress(r.Compared, max(total, r.Compared))
		}
	}
}

func (s *Session) compareMemory(ctx context.Context, d *triggers.Design, m *memcached, keys []string, rows map[string]item, r *MemoryReport) error {
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

// memcached asks for keys of one container over the text protocol.
type memcached struct {
	conn      net.Conn
	in        *bufio.Reader
	container string
}

// get returns what is found, by key. Each key is asked for by itself, so that each is answered for the right container.
func (m *memcached) get(keys []string) (map[string]item, error) {
	if err := m.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, k := range keys {
		fmt.Fprintf(&out, "get @@%s.%s\r\n", m.container, k)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := m.conn.Write(out.Bytes())
		sent <- err
	}()
	found := make(map[string]item)
	var err error
	for _, k := range keys {
		if err = m.answer(k, found); err != nil {
			_ = m.conn.Close() // so that the sender ends, too
			break
		}
	}
	if sendErr := <-sent; err == nil {
		err = sendErr
	}
	return found, err
}

func (m *memcached) answer(key string, found map[string]item) error {
	for {
		line, err := m.in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("memcached port: %w", err)
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && fields[0] == "END":
			return nil
		case len(fields) != 4 || fields[0] != "VALUE":
			return fmt.Errorf("memcached port: %q for key %s", strings.TrimSpace(line), key)
		}
		n, err := strconv.Atoi(fields[3])
		if err != nil || n < 0 || n > 1<<30 {
			return fmt.Errorf("memcached port: %q for key %s", strings.TrimSpace(line), key)
		}
		value := make([]byte, n+2)
		if _, err := io.ReadFull(m.in, value); err != nil {
			return fmt.Errorf("memcached port: %w", err)
		}
		found[key] = item{string(value[:n]), fields[2]}
	}
}
