package tests

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// hsClient speaks HandlerSocket, one request at a time.
type hsClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialHS(address string) (*hsClient, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &hsClient{conn, bufio.NewReader(conn)}, nil
}

// ask sends a line and returns the answer without its end.
func (c *hsClient) ask(line string) (string, error) {
	if err := c.conn.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
		return "", err
	}
	if _, err := c.conn.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	answer, err := c.in.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// batch sends lines in one write and returns their answers.
func (c *hsClient) batch(lines ...string) ([]string, error) {
	if err := c.conn.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		return nil, err
	}
	answers := make([]string, len(lines))
	for i := range answers {
		answer, err := c.in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		answers[i] = strings.TrimSuffix(answer, "\n")
	}
	return answers, nil
}

func (c *hsClient) mustAsk(t *testing.T, line, want string) {
	t.Helper()
	if got, err := c.ask(line); err != nil || got != want {
		t.Errorf("%q: got %q, %v; want %q", line, got, err, want)
	}
}

func openHS(t *testing.T, address, open string) *hsClient {
	t.Helper()
	c, err := dialHS(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close() })
	c.mustAsk(t, open, "0\t1")
	return c
}

// TestReadYourWrites: what a client has written, every client reads from memory, at once after the answer. A reader on
// another connection asks for each value the moment the writer has its answer.
func TestReadYourWrites(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".t (id INT PRIMARY KEY, n INT, KEY (n))")
			d := start(t, s.DSN, schema+".t").waitReady()
			open := "P\t0\t" + schema + "\tt\tPRIMARY\tid,n"
			const clients, rounds = 12, 40
			var wg sync.WaitGroup
			var stale atomic.Int64
			for c := range clients {
				w, r := openHS(t, d.writePort, open), openHS(t, d.handlerSocket, open)
				wg.Go(func() {
					id := strconv.Itoa(c)
					for n := range rounds {
						var write, want string
						switch v := strconv.Itoa(n); n % 4 {
						case 0:
							write, want = "0\t+\t2\t"+id+"\t"+v, "0\t2\t"+id+"\t"+v
						case 1:
							write, want = "0\t=\t1\t"+id+"\t1\t0\tU\t"+id+"\t"+v, "0\t2\t"+id+"\t"+v
						case 2:
							write, want = "0\t>=\t1\t"+id+"\t1\t0\t+?\t\x00\t1", "0\t2\t"+id+"\t"+v
						case 3:
							write, want = "0\t=\t1\t"+id+"\t1\t0\tD", "0\t2"
						}
						answer, err := w.ask(write)
						if err != nil || answer[0] != '0' {
							t.Errorf("%q: %q, %v", write, answer, err)
							return
						}
						if got, err := r.ask("0\t=\t1\t" + id); err != nil || got != want {
							stale.Add(1)
							t.Errorf("after %q: read %q, %v; want %q", write, got, err, want)
						}
					}
				})
			}
			wg.Wait()
			st := d.status()
			if st.Reads.HandlerSocket.Memory < clients*rounds*9/10 || stale.Load() > 0 {
				t.Errorf("%d stale; reads %+v", stale.Load(), st.Reads.HandlerSocket)
			}
			if st.Writes.Done != clients*rounds || st.Writes.AckTimeouts != 0 {
				t.Errorf("writes: %+v", st.Writes)
			}
			// What changes nothing has still seen what others did.
			w, r := openHS(t, d.writePort, open), openHS(t, d.handlerSocket, open)
			mustExec(t, db, "INSERT INTO "+schema+".t VALUES (100,0)")
			for n := range 20 {
				v := strconv.Itoa(n + 1)
				mustExec(t, db, "UPDATE "+schema+".t SET n="+v+" WHERE id=100")
				w.mustAsk(t, "0\t=\t1\t100\t1\t0\tU\t100\t"+v, "0\t1\t1")
				r.mustAsk(t, "0\t=\t1\t100", "0\t2\t100\t"+v)
			}
			_, metrics, err := d.get("/metrics")
			for _, name := range []string{"binlogcache_writes_total{", "binlogcache_write_ack_wait_seconds_bucket{", "binlogcache_write_groups_total ", "binlogcache_write_ack_timeouts_total 0"} {
				if err != nil || !strings.Contains(metrics, name) {
					t.Errorf("metrics lack %s (%v)", name, err)
				}
			}
		})
	}
}

// killCycles is the number of times that TestKilledServer kills its server; BINLOGCACHE_KILL_CYCLES asks for more.
func killCycles(t *testing.T) int {
	n := 2
	if text := os.Getenv("BINLOGCACHE_KILL_CYCLES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("BINLOGCACHE_KILL_CYCLES=%q: not a number", text)
		}
	}
	return n
}

// TestKilledServer kills a durable server under a load of writes, again and again. Every write that was answered with
// success is there afterwards; every one that was answered with an error, but for "uncertain", is not; and no transaction
// is there by half.
func TestKilledServer(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
			mustExec(t, s.DB(t), "CREATE DATABASE app")
			mustExec(t, s.DB(t), "CREATE TABLE app.t (id INT PRIMARY KEY, client INT, n INT, KEY (client))")
			mustExec(t, s.DB(t), "CREATE TABLE app.counter (id INT PRIMARY KEY, n INT)")
			d := start(t, s.DSN, "app.*").waitReady()
			m := &killModel{t: t, d: d}
			for c := range 24 {
				mustExec(t, s.DB(t), fmt.Sprintf("INSERT INTO app.counter VALUES (%d, 0)", c))
				m.clients = append(m.clients, &killClient{id: c})
			}
			for cycle := range killCycles(t) {
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for _, c := range m.clients {
					wg.Go(func() { c.write(ctx, m) })
				}
				time.Sleep(time.Duration(200+rand.IntN(500)) * time.Millisecond)
				s.Kill()
				time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
				cancel()
				wg.Wait()
				s.Start()
				m.compare(s.DB(t), cycle)
				if t.Failed() {
					return
				}
			}
			d.waitReady()
			t.Logf("%d writes done, %d failed, %d uncertain", m.done.Load(), m.failed.Load(), m.uncertain.Load())
			if m.done.Load() < 100 || m.failed.Load()+m.uncertain.Load() == 0 {
				t.Error("that is not what was to be tested")
			}
			for _, c := range m.clients { // memory agrees
				r := openHS(t, d.handlerSocket, "P\t0\tapp\tcounter\tPRIMARY\tn")
				var n string
				if err := s.DB(t).QueryRow("SELECT n FROM app.counter WHERE id=?", c.id).Scan(&n); err != nil {
					t.Fatal(err)
				}
				eventually(t, "counter", func() error {
					got, err := r.ask(fmt.Sprintf("0\t=\t1\t%d", c.id))
					if err == nil && got != "0\t1\t"+n {
						err = fmt.Errorf("memory has %q, the table %s", got, n)
					}
					return err
				})
			}
		})
	}
}

// killModel is what the clients know of their writes.
type killModel struct {
	t                       *testing.T
	d                       *daemon
	clients                 []*killClient
	next                    atomic.Int64
	done, failed, uncertain atomic.Int64
}

// killClient writes rows of its own and counts on a counter of its own.
type killClient struct {
	id            int
	present       []int64 // acknowledged rows
	absent        []int64 // rows whose insert failed for certain
	unknown       []int64
	counted, over int // increments that are there, and that may be
}

// write writes until ctx ends or the server has gone.
func (c *killClient) write(ctx context.Context, m *killModel) {
	conn, err := dialHS(m.d.writePort)
	if err != nil {
		m.t.Error(err)
		return
	}
	defer conn.conn.Close()
	for _, open := range []string{"P\t0\tapp\tt\tPRIMARY\tid,client,n", "P\t1\tapp\tcounter\tPRIMARY\tn"} {
		if answer, err := conn.ask(open); err != nil || answer != "0\t1" {
			m.t.Errorf("open: %q, %v", answer, err)
			return
		}
	}
	for n := 0; ctx.Err() == nil; n++ {
		id := m.next.Add(1)
		insert := n%2 == 0
		line := fmt.Sprintf("0\t+\t3\t%d\t%d\t%d", id, c.id, n)
		if !insert {
			line = fmt.Sprintf("1\t=\t1\t%d\t1\t0\t+\t1", c.id)
			if n%4 == 1 {
				line = fmt.Sprintf("1\t>=\t1\t%d\t1\t0\t+?\t1", c.id)
			}
		}
		answer, err := conn.ask(line)
		switch {
		case err != nil:
			m.t.Errorf("%q: %v", line, err)
			return
		case answer[0] == '0' && insert:
			c.present = append(c.present, id)
		case answer[0] == '0':
			c.counted++
		case strings.Contains(answer, "uncertain") && insert:
			c.unknown = append(c.unknown, id)
		case strings.Contains(answer, "uncertain"):
			c.over++
		case insert:
			c.absent = append(c.absent, id)
		}
		switch {
		case answer[0] == '0':
			m.done.Add(1)
			continue
		case strings.Contains(answer, "uncertain"):
			m.uncertain.Add(1)
		case answer == "1\t1\tunavailable":
			m.failed.Add(1)
		default:
			m.t.Errorf("%q: %q", line, answer)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// compare looks what the table has of the writes, and settles those that nobody knew of.
func (m *killModel) compare(db *sql.DB, cycle int) {
	m.t.Helper()
	for _, c := range m.clients {
		there := map[int64]bool{}
		rows, err := db.Query("SELECT id FROM app.t WHERE client=?", c.id)
		if err != nil {
			m.t.Fatal(err)
		}
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				m.t.Fatal(err)
			}
			there[id] = true
		}
		if err := rows.Err(); err != nil {
			m.t.Fatal(err)
		}
		rows.Close()
		for _, id := range c.present {
			if !there[id] {
				m.t.Errorf("cycle %d: row %d was acknowledged and is lost", cycle, id)
			}
		}
		for _, id := range c.absent {
			if there[id] {
				m.t.Errorf("cycle %d: row %d was refused and is there", cycle, id)
			}
		}
		for _, id := range c.unknown {
			if there[id] {
				c.present = append(c.present, id)
			} else {
				c.absent = append(c.absent, id)
			}
		}
		c.unknown = nil
		var n int
		if err := db.QueryRow("SELECT n FROM app.counter WHERE id=?", c.id).Scan(&n); err != nil {
			m.t.Fatal(err)
		}
		if n < c.counted || n > c.counted+c.over {
			m.t.Errorf("cycle %d: counter %d is %d; %d increments were acknowledged, %d more are uncertain", cycle, c.id, n, c.counted, c.over)
		}
		c.counted, c.over = n, 0
	}
}
