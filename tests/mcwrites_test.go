package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// mcClient speaks the text protocol of memcached.
type mcClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func openMC(t *testing.T, address string) *mcClient {
	t.Helper()
	return openMCOn(t, "tcp", address)
}

func openMCOn(t *testing.T, network, address string) *mcClient {
	t.Helper()
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &mcClient{t, conn, bufio.NewReader(conn)}
}

// ask sends requests and returns all answers to them.
func (c *mcClient) ask(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if err := c.conn.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
		c.t.Error(err)
	}
	if _, err := io.WriteString(c.conn, text+"version\r\n"); err != nil {
		c.t.Error(err)
		return ""
	}
	var got strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Errorf("%.60q: %v", text, err)
			return got.String()
		}
		if strings.HasPrefix(line, "VERSION ") {
			return got.String()
		}
		got.WriteString(line)
	}
}

func (c *mcClient) must(want, format string, args ...any) {
	c.t.Helper()
	if got := c.ask(format, args...); got != want {
		c.t.Errorf("%.80q: got %q, want %q", fmt.Sprintf(format, args...), got, want)
	}
}

// number is the cas that a gets shows.
func (c *mcClient) number(key string) string {
	c.t.Helper()
	fields := strings.Fields(c.ask("gets %s\r\n", key))
	if len(fields) < 5 {
		c.t.Errorf("gets %s: %q", key, fields)
		return "0"
	}
	return fields[4]
}

// TestMemcachedWrites: rows that are written through a container are read by everybody, from memory, at once after the
// answer; nothing that is counted is lost; and the number of a row without a cas column is good for one.
func TestMemcachedWrites(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".t (k VARCHAR(40) PRIMARY KEY, v VARCHAR(40), f INT UNSIGNED, c BIGINT UNSIGNED, e INT, other INT DEFAULT 3)")
			mustExec(t, db, "CREATE TABLE "+schema+".bare (k VARCHAR(40) PRIMARY KEY, v VARCHAR(40))")
			yaml := fmt.Sprintf("containers:\n  - {name: default, schema: %s, table: t, key_columns: [k], value_columns: [v], flags_column: f, cas_column: c, expiry_column: e}\n"+
				"  - {name: bare, schema: %[1]s, table: bare, key_columns: [k], value_columns: [v]}\n", schema)
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, s.DSN, schema+".t,"+schema+".bare", "--config", config).waitReady()
			const clients, rounds = 12, 24
			var wg sync.WaitGroup
			for i := range clients {
				w, r := openMC(t, d.memcached), openMC(t, d.memcached)
				wg.Go(func() {
					key := "k" + strconv.Itoa(i)
					value := func(v string) string { return fmt.Sprintf("VALUE %s 5 %d\r\n%s\r\nEND\r\n", key, len(v), v) }
					for n := range rounds {
						v := strconv.Itoa(100 + n)
						switch n % 6 {
						case 0:
							w.must("STORED\r\n", "set %s 5 0 3\r\n%s\r\n", key, v)
							r.must(value(v), "get %s\r\n", key)
						case 1:
							w.must("STORED\r\n", "append %s 0 0 1\r\n0\r\n", key)
							r.must(value(strconv.Itoa(1000+(n-1)*10)), "get %s\r\n", key)
						case 2:
							w.must("STORED\r\n", "cas %s 5 0 3 %s\r\n%s\r\n", key, r.number(key), v)
							r.must(value(v), "get %s\r\n", key)
						case 3:
							w.must(strconv.Itoa(100+n)+"\r\n", "incr %s 1\r\n", key)
							r.must(value(v), "get %s\r\n", key)
						case 4: // on one connection, without a wait
							w.must(value(v), "set %s 5 0 3 noreply\r\n%s\r\nget %[1]s\r\n", key, v)
							w.must("1\r\n", "set sum 0 0 1 noreply\r\n0\r\nset %s. 0 0 1 noreply\r\n0\r\nincr %[1]s. 1\r\n", key)
						case 5:
							w.must("DELETED\r\n", "delete %s\r\n", key)
							r.must("END\r\n", "get %s\r\n", key)
						}
					}
				})
			}
			wg.Wait()
			st := d.status()
			if st.Writes.Done == 0 || st.Writes.AckTimeouts != 0 {
				t.Errorf("writes: %+v", st.Writes)
			}
			if reads := st.Reads.Memcached; reads.Memory < clients*rounds*8/10 || reads.Database > reads.Memory/10 {
				t.Errorf("reads: %+v", reads)
			}

			all := make([]*mcClient, clients)
			for i := range all {
				all[i] = openMC(t, d.memcached)
			}
			all[0].must("STORED\r\nSTORED\r\n", "set sum 0 0 1\r\n0\r\nset @@bare.lock 0 0 4\r\nfree\r\n")
			for _, c := range all {
				wg.Go(func() {
					for range rounds {
						c.ask("incr @@default.sum 3\r\n")
					}
				})
			}
			wg.Wait()
			all[0].must(fmt.Sprintf("%d\r\n", clients*rounds*3+1), "incr @@default.sum 1\r\n")

			for round := range 6 {
				number := all[0].number("@@bare.lock")
				var won atomic.Int64
				for i, c := range all {
					wg.Go(func() {
						if got := c.ask("cas @@bare.lock 0 0 8 %s\r\n%04d%04d\r\n", number, round, i); got == "STORED\r\n" {
							won.Add(1)
						} else if got != "EXISTS\r\n" {
							t.Errorf("cas: %q", got)
						}
					})
				}
				wg.Wait()
				if number == "0" || won.Load() != 1 {
					t.Errorf("round %d with %s: %d have won", round, number, won.Load())
				}
			}
			number := all[0].number("lock")
			mustExec(t, db, "UPDATE "+schema+".bare SET v='by SQL'")
			all[0].must("EXISTS\r\n", "cas lock 0 0 3 %s\r\nbad\r\n", number)
		})
	}
}
