// Command catchup measures what it costs the cache to catch up with a stored binlog, beside go-mysql's BinlogSyncer that
// reads and decodes the same log into nothing.
//
// It makes a table user(id, uname, email, add_time) in a schema of its own, starts the given binary on it through a relay,
// cuts the relay, writes row images on the server (half a million inserts, updates of all, deletes of most), opens the relay
// again and takes the process's CPU time until it has applied the last of them.
//
//	catchup -binary ../bin/binlogcache -dsn 'root:pw@tcp(127.0.0.1:3306)/' -rows 500000
//
// The server needs binlog_format=ROW and GTIDs; the account makes and drops the schema bench_catchup.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	driver "github.com/go-sql-driver/mysql"
)

var (
	binary = flag.String("binary", "../bin/binlogcache", "the cache")
	dsn    = flag.String("dsn", "root@tcp(127.0.0.1:3306)/", "the server, over TCP")
	rows   = flag.Int("rows", 500_000, "rows; row images are 3.8 times as many")
	batch  = flag.Int("batch", 1000, "rows of a transaction")
	base   = flag.Int("port", 25950, "the cache listens on this port and the three after it")
	limit  = flag.Duration("limit", 10*time.Minute, "for catching up")
)

const table = "bench_catchup.user"

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "catchup:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3**limit)
	defer cancel()
	cfg, err := driver.ParseDSN(*dsn)
	if err != nil {
		return err
	}
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		"DROP DATABASE IF EXISTS bench_catchup", "CREATE DATABASE bench_catchup",
		"CREATE TABLE " + table + " (id INT UNSIGNED PRIMARY KEY, uname VARCHAR(32) NOT NULL, email VARCHAR(64) NOT NULL, add_time DATETIME NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	defer func() {
		_, drop := db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE bench_catchup")
		err = errors.Join(err, drop)
	}()
	relay, err := newRelay(cfg.Addr)
	if err != nil {
		return err
	}
	defer relay.close()
	through := cfg.Clone()
	through.Addr = relay.listener.Addr().String()
	cache, stop, err := start(ctx, through.FormatDSN())
	if err != nil {
		return err
	}
	defer stop()
	if err := wait(ctx, func() (bool, error) { return cache.ready(ctx) }); err != nil {
		return fmt.Errorf("the cache is not ready: %w", err)
	}
	from, err := position(ctx, db)
	if err != nil {
		return err
	}
	states, err := cache.transitions(ctx)
	if err != nil {
		return err
	}
	relay.cut()
	begin := time.Now()
	images, err := write(ctx, db)
	if err != nil {
		return err
	}
	to, err := position(ctx, db)
	if err != nil {
		return err
	}
	fmt.Printf("%d row images were written in %.1f s\n\n", images, time.Since(begin).Seconds())
	goal, err := executed(ctx, db)
	if err != nil {
		return err
	}
	var left int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&left); err != nil {
		return err
	}

	cpu, err := cpuOf(cache.pid)
	if err != nil {
		return err
	}
	begin = time.Now()
	relay.open()
	if err := wait(ctx, func() (bool, error) { return cache.applied(ctx, goal, left) }); err != nil {
		return fmt.Errorf("the cache does not catch up: %w", err)
	}
	wall := time.Since(begin)
	after, err := cpuOf(cache.pid)
	if err != nil {
		return err
	}
	if n, err := cache.transitions(ctx); err != nil || n != states {
		return errors.Join(err, errors.New("the table was loaded anew"))
	}
	million := float64(images) / 1e6
	fmt.Printf("| reader | wall s | images/s | CPU s | CPU s per million images |\n|---|---|---|---|---|\n")
	line := func(name string, wall, cpu time.Duration) {
		fmt.Printf("| %s | %.1f | %.0fk | %.2f | %.2f |\n", name, wall.Seconds(), float64(images)/1000/wall.Seconds(), cpu.Seconds(), cpu.Seconds()/million)
	}
	line("binlogcache, into memory", wall, after-cpu)
	wall, cpu, n, err := syncer(ctx, cfg, from, to)
	if err != nil {
		return err
	}
	if n != images {
		return fmt.Errorf("BinlogSyncer read %d row images", n)
	}
	line("BinlogSyncer, into nothing", wall, cpu)
	return nil
}

// write makes the log, and returns the number of row images in it.
func write(ctx context.Context, db *sql.DB) (images int, err error) {
	r := rand.New(rand.NewPCG(1, 1))
	for first := 0; first < *rows; first += *batch {
		var q strings.Builder
		q.WriteString("INSERT INTO " + table + " VALUES ")
		for id := first; id < min(first+*batch, *rows); id++ {
			if id > first {
				q.WriteByte(',')
			}
			fmt.Fprintf(&q, "(%d,'user%d_%d','u%d@example.com','2024-01-01' + INTERVAL %d SECOND)", id, id, r.IntN(1000), id, r.IntN(1e8))
		}
		if _, err := db.ExecContext(ctx, q.String()); err != nil {
			return images, err
		}
		images += min(first+*batch, *rows) - first
	}
	change := func(q string, until, each int) error {
		for first := 0; first < until; first += *batch {
			result, err := db.ExecContext(ctx, fmt.Sprintf(q, first, min(first+*batch, until)-1))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			images += each * int(n)
		}
		return nil
	}
	if err := change("UPDATE "+table+" SET uname=CONCAT('new', id), add_time=add_time + INTERVAL 1 DAY WHERE id BETWEEN %d AND %d", *rows, 2); err != nil {
		return images, err
	}
	return images, change("DELETE FROM "+table+" WHERE id BETWEEN %d AND %d", *rows*4/5, 1)
}

func flavor(ctx context.Context, db *sql.DB) (string, error) {
	var version string
	err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	if strings.Contains(version, "MariaDB") {
		return mysql.MariaDBFlavor, err
	}
	return mysql.MySQLFlavor, err
}

// position is the log's end.
func position(ctx context.Context, db *sql.DB) (p mysql.Position, err error) {
	f, err := flavor(ctx, db)
	if err != nil {
		return p, err
	}
	q := "SHOW BINARY LOG STATUS"
	if f == mysql.MariaDBFlavor {
		q = "SHOW MASTER STATUS"
	}
	result, err := db.QueryContext(ctx, q)
	if err != nil {
		return p, err
	}
	defer result.Close()
	columns, err := result.Columns()
	if err != nil {
		return p, err
	}
	rest := make([]any, len(columns))
	for i := range rest {
		rest[i] = new(sql.RawBytes)
	}
	rest[0], rest[1] = &p.Name, &p.Pos
	if !result.Next() {
		return p, errors.New("the server has no binlog")
	}
	return p, errors.Join(result.Scan(rest...), result.Err())
}

// executed is the set of transactions, as the cache shows its own.
func executed(ctx context.Context, db *sql.DB) (set string, err error) {
	f, err := flavor(ctx, db)
	if err != nil {
		return "", err
	}
	q := "SELECT @@global.gtid_executed"
	if f == mysql.MariaDBFlavor {
		q = "SELECT @@gtid_binlog_pos"
	}
	err = db.QueryRowContext(ctx, q).Scan(&set)
	return strings.ReplaceAll(set, "\n", ""), err
}

// syncer reads the log with go-mysql alone, decoding rows.
func syncer(ctx context.Context, cfg *driver.Config, from, to mysql.Position) (wall, cpu time.Duration, images int, err error) {
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return 0, 0, 0, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, 0, 0, err
	}
	f := mysql.MySQLFlavor
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err == nil {
		f, err = flavor(ctx, db)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return 0, 0, 0, err
	}
	s := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 4_000_000_000, Flavor: f, Host: host, Port: uint16(number), User: cfg.User, Password: cfg.Passwd,
		Logger: slog.New(slog.DiscardHandler),
	})
	defer s.Close()
	used := ownCPU()
	begin := time.Now()
	at := from // not what the syncer says: its buffer is ahead
	streamer, err := s.StartSync(from)
	for err == nil {
		var ev *replication.BinlogEvent
		if ev, err = streamer.GetEvent(ctx); err != nil {
			break
		}
		if ev.Header.LogPos > 0 {
			at.Pos = ev.Header.LogPos
		}
		switch e := ev.Event.(type) {
		case *replication.RotateEvent:
			at = mysql.Position{Name: string(e.NextLogName), Pos: uint32(e.Position)}
		case *replication.RowsEvent:
			images += len(e.Rows)
		case *replication.XIDEvent:
			if at.Compare(to) >= 0 {
				return time.Since(begin), ownCPU() - used, images, nil
			}
		}
	}
	return 0, 0, images, err
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf reads the CPU time of a process.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond // USER_HZ is 100 on Linux
	a, errA := strconv.Atoi(fields[user])
	c, errB := strconv.Atoi(fields[system])
	return time.Duration(a+c) * tick, errors.Join(errA, errB)
}

// wait asks again and again, not so often that the answers cost much.
func wait(ctx context.Context, done func() (bool, error)) error {
	for deadline := time.Now().Add(*limit); ; time.Sleep(50 * time.Millisecond) {
		ok, err := done()
		if ok {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(errors.New("time is over"), err)
		}
	}
}

// process is the cache that runs.
type process struct {
	pid  int
	base string
}

func start(ctx context.Context, source string) (p *process, stop func(), err error) {
	at := func(n int) string { return fmt.Sprintf("127.0.0.1:%d", *base+n) }
	cmd := exec.CommandContext(ctx, *binary, "serve", "--source", source, "--tables", table, "--handlersocket-read", at(0),
		"--handlersocket-write", at(1), "--memcached", at(2), "--admin", at(3), "--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return &process{pid: cmd.Process.Pid, base: "http://" + at(3)}, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}

func (p *process) get(ctx context.Context, path string, into any) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if into != nil {
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	return resp.StatusCode, err
}

func (p *process) ready(ctx context.Context) (bool, error) {
	code, err := p.get(ctx, "/readyz", nil)
	return code == http.StatusOK, err
}

// transitions are the lines of the metrics that count changes of table states: they are the same as long as nothing is
// loaded anew.
func (p *process) transitions(ctx context.Context) (lines string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); ; {
		if !in.Scan() {
			if err = in.Err(); err == nil && lines == "" {
				err = errors.New("the metrics do not count changes of table states")
			}
			return lines, err
		}
		if strings.HasPrefix(in.Text(), "binlogcache_table_transitions_total{") {
			lines += in.Text() + "\n"
		}
	}
}

// applied reports that the cache has come to the server's set, with the table live and of the right size: it has not
// loaded it anew.
func (p *process) applied(ctx context.Context, goal string, rows int) (bool, error) {
	var st struct {
		Applied struct {
			GTID string `json:"gtid"`
		} `json:"applied"`
		Tables []struct {
			Name, State, Reason string
			Rows                int
		} `json:"tables"`
	}
	if _, err := p.get(ctx, "/api/v1/status", &st); err != nil {
		return false, err
	}
	if st.Applied.GTID != goal || len(st.Tables) != 1 {
		return false, fmt.Errorf("applied %s of %s", st.Applied.GTID, goal)
	}
	if t := st.Tables[0]; t.State != "live" || t.Rows != rows {
		return false, fmt.Errorf("%s is %s (%s) with %d rows of %d", t.Name, t.State, t.Reason, t.Rows, rows)
	}
	return true, nil
}

// relay passes connections on until it is cut; new ones then end at once.
type relay struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	closed   bool
	conns    map[net.Conn]bool
}

func newRelay(target string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, target: target, conns: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(c)
		}
	}()
	return r, nil
}

func (r *relay) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	ok := !r.closed
	if ok {
		r.conns[client], r.conns[server] = true, true
	}
	r.mu.Unlock()
	if !ok {
		return
	}
	defer func() {
		r.mu.Lock()
		delete(r.conns, client)
		delete(r.conns, server)
		r.mu.Unlock()
	}()
	go func() {
		_, _ = server.(*net.TCPConn).ReadFrom(client)
		_ = server.Close()
	}()
	_, _ = client.(*net.TCPConn).ReadFrom(server)
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = false
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.cut()
}
