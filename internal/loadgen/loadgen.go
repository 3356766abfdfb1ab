// Package loadgen loads a HandlerSocket, memcached or MySQL endpoint with reads of single rows and reports throughput,
// latency percentiles and the CPU time of the server. It is a closed loop: each connection keeps a fixed number of
// requests in flight. It is meant for a look at one endpoint and for the demonstration; comparisons between servers
// live in benchmarks/.
package loadgen

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/go-sql-driver/mysql" // the driver of the mysql protocol
)

// The protocols that a Load can speak.
const (
	HandlerSocket = "hs"
	Memcached     = "mc"
	MySQL         = "my"
)

// Load describes one run. Zero values are replaced by the defaults that each field names.
type Load struct {
	Protocol string // HandlerSocket, Memcached or MySQL
	// Address is host:port or unix:/path; for MySQL a DSN in go-sql-driver form.
	Address string
	// Conns is the number of connections (50), Depth the requests in flight on each (1; MySQL has no pipelining and takes 1).
	Conns, Depth int
	// Keys: the keys 1..Keys (100,000) are read at random.
	Keys int
	// Duration is the measured time (3 s), after Warmup (a tenth of it).
	Duration, Warmup time.Duration
	// Schema, Table, Index, Columns name what HandlerSocket opens and MySQL selects; Index is PRIMARY unless given, and
	// MySQL looks rows up by the column KeyColumn (id).
	Schema, Table, Index, KeyColumn string
	Columns                         []string
	// KeyFormat turns a number into a memcached key, with one %d ("%d").
	KeyFormat string
	// PID is the process whose CPU time is counted; 0 for none.
	PID int
}

// Result is what a run measured.
type Result struct {
	Load     Load
	Ops      int64
	Elapsed  time.Duration
	Misses   int64 // answers without a row
	CPU      time.Duration
	P50, P95 time.Duration
	P99, Max time.Duration
}

// OpsPerSecond is the throughput.
func (r *Result) OpsPerSecond() float64 { return float64(r.Ops) / r.Elapsed.Seconds() }

// CPUPerOp is the server's CPU time for each answer; 0 when it was not measured.
func (r *Result) CPUPerOp() time.Duration {
	if r.Ops == 0 {
		return 0
	}
	return r.CPU / time.Duration(r.Ops)
}

func (l *Load) setDefaults() {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&l.Conns, 50)
	def(&l.Depth, 1)
	def(&l.Keys, 100_000)
	if l.Duration <= 0 {
		l.Duration = 3 * time.Second
	}
	if l.Warmup <= 0 {
		l.Warmup = l.Duration / 10
	}
	if l.Index == "" {
		l.Index = "PRIMARY"
	}
	if l.KeyColumn == "" {
		l.KeyColumn = "id"
	}
	if l.KeyFormat == "" {
		l.KeyFormat = "%d"
	}
}

// session is one connection's protocol: it sends depth requests and then reads as many answers.
type session interface {
	// round sends n requests and reads their answers; it returns how many found no row.
	round(n int, key func() int) (misses int, err error)
	io.Closer
}

// Run loads the endpoint until the time is over or ctx ends. An error answer or a broken connection ends the run with an
// error that holds the server's words.
func Run(ctx context.Context, l Load) (*Result, error) {
	l.setDefaults()
	if l.Protocol == MySQL {
		l.Depth = 1
	}
	dial, closeAll, err := dialer(&l)
	if err != nil {
		return nil, err
	}
	defer closeAll()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sessions := make([]session, 0, l.Conns)
	closeSessions := func() {
		for _, s := range sessions {
			s.Close()
		}
	}
	defer closeSessions()
	for range l.Conns {
		s, err := dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", l.Protocol, err)
		}
		sessions = append(sessions, s)
	}

	workers := make([]worker, l.Conns)
	start := time.Now().Add(l.Warmup)
	end := start.Add(l.Duration)
	// A round that waits for an answer ends with its connection: when ctx does, or the server has gone mute.
	stop := context.AfterFunc(ctx, closeSessions)
	defer stop()
	mute := time.AfterFunc(time.Until(end)+muteTimeout, func() { cancel(errMute) })
	defer mute.Stop()
	var wg sync.WaitGroup
	cpu := make(chan time.Duration, 1)
	wg.Go(func() {
		sleep(ctx, time.Until(start))
		before, err := processCPU(l.PID)
		sleep(ctx, time.Until(end))
		after, err2 := processCPU(l.PID)
		if err := errors.Join(err, err2); err != nil {
			cancel(fmt.Errorf("CPU time of process %d: %w", l.PID, err))
		}
		cpu <- after - before
	})
	for i := range workers {
		wg.Go(func() {
			if err := workers[i].run(ctx, &l, sessions[i], start, end); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}

	res := &Result{Load: l, Elapsed: l.Duration, CPU: <-cpu}
	total := newHistogram()
	for i := range workers {
		// Rounds that began within the time are counted whole, so it lasts until the last of them.
		res.Elapsed = max(res.Elapsed, workers[i].last.Sub(start))
		res.Ops += workers[i].ops
		res.Misses += workers[i].misses
		total.Merge(workers[i].latency)
	}
	at := func(q float64) time.Duration { return time.Duration(total.ValueAtQuantile(q)) }
	res.P50, res.P95, res.P99, res.Max = at(50), at(95), at(99), time.Duration(total.Max())
	return res, nil
}

// muteTimeout is how long a run goes on waiting for answers after its time.
const muteTimeout = 10 * time.Second

var errMute = errors.New("the server does not answer any more")

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// newHistogram covers 1 µs to 60 s in nanoseconds with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1000, int64(time.Minute), 3) }

type worker struct {
	ops, misses int64
	last        time.Time // end of the last counted round
	latency     *hdrhistogram.Histogram
}

func (w *worker) run(ctx context.Context, l *Load, s session, start, end time.Time) error {
	w.latency = newHistogram()
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	key := func() int { return 1 + rng.IntN(l.Keys) }
	for ctx.Err() == nil {
		t0 := time.Now()
		if t0.After(end) {
			return nil
		}
		misses, err := s.round(l.Depth, key)
		if err != nil {
			return err
		}
		if t0.After(start) {
			w.ops += int64(l.Depth)
			w.misses += int64(misses)
			w.last = time.Now()
			// A latency outside the histogram's range is a run that hangs: the end of the run shows it.
			_ = w.latency.RecordValues(int64(time.Since(t0)), int64(l.Depth))
		}
	}
	return nil
}

func dialer(l *Load) (dial func(context.Context) (session, error), closeAll func(), err error) {
	nothing := func() {}
	switch l.Protocol {
	case HandlerSocket:
		if l.Schema == "" || l.Table == "" || len(l.Columns) == 0 {
			return nil, nothing, errors.New("a HandlerSocket load needs a schema, a table and columns")
		}
		return func(ctx context.Context) (session, error) { return dialHandlerSocket(ctx, l) }, nothing, nil
	case Memcached:
		if strings.Count(l.KeyFormat, "%") != 1 || !strings.Contains(l.KeyFormat, "%d") {
			return nil, nothing, fmt.Errorf("key format %q needs exactly one %%d", l.KeyFormat)
		}
		return func(ctx context.Context) (session, error) { return dialMemcached(ctx, l) }, nothing, nil
	case MySQL:
		if l.Table == "" || len(l.Columns) == 0 {
			return nil, nothing, errors.New("a MySQL load needs a table and columns")
		}
		db, err := sql.Open("mysql", l.Address)
		if err != nil {
			return nil, nothing, err
		}
		db.SetMaxIdleConns(l.Conns)
		return func(ctx context.Context) (session, error) { return dialMySQL(ctx, db, l) }, func() { db.Close() }, nil
	}
	return nil, nothing, fmt.Errorf("unknown protocol %q: hs, mc or my", l.Protocol)
}

func dialNet(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, "tcp", address)
}

// lineConn is the connection of the two line protocols.
type lineConn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func newLineConn(c net.Conn) lineConn { return lineConn{Conn: c, in: bufio.NewReaderSize(c, 64<<10)} }

type handlerSocket struct {
	lineConn
	columns int
}

func dialHandlerSocket(ctx context.Context, l *Load) (session, error) {
	c, err := dialNet(ctx, l.Address)
	if err != nil {
		return nil, err
	}
	s := &handlerSocket{lineConn: newLineConn(c), columns: len(l.Columns)}
	if _, err := fmt.Fprintf(c, "P\t1\t%s\t%s\t%s\t%s\n", l.Schema, l.Table, l.Index, strings.Join(l.Columns, ",")); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	line, err := s.in.ReadString('\n')
	if err == nil && line != "0\t1\n" {
		err = fmt.Errorf("open %s.%s: %q", l.Schema, l.Table, line)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

func (s *handlerSocket) round(n int, key func() int) (misses int, err error) {
	s.out = s.out[:0]
	for range n {
		s.out = append(s.out, "1\t=\t1\t"...)
		s.out = strconv.AppendInt(s.out, int64(key()), 10)
		s.out = append(s.out, '\n')
	}
	if _, err := s.Write(s.out); err != nil {
		return 0, err
	}
	for range n {
		line, err := s.in.ReadSlice('\n')
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
		case len(line) < 3 || line[0] != '0':
			return 0, fmt.Errorf("answer %q", line)
		case err == nil && strings.Count(string(line), "\t") == 1:
			misses++
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = s.in.ReadSlice('\n')
		}
	}
	return misses, nil
}

type memcached struct {
	lineConn
	format string
}

func dialMemcached(ctx context.Context, l *Load) (session, error) {
	c, err := dialNet(ctx, l.Address)
	if err != nil {
		return nil, err
	}
	return &memcached{lineConn: newLineConn(c), format: l.KeyFormat}, nil
}

func (s *memcached) round(n int, key func() int) (misses int, err error) {
	s.out = s.out[:0]
	for range n {
		s.out = append(s.out, "get "...)
		s.out = fmt.Appendf(s.out, s.format, key())
		s.out = append(s.out, "\r\n"...)
	}
	if _, err := s.Write(s.out); err != nil {
		return 0, err
	}
	for range n {
		hit, err := s.answer()
		if err != nil {
			return 0, err
		}
		if !hit {
			misses++
		}
	}
	return misses, nil
}

// answer reads VALUE, data and END, or just END.
func (s *memcached) answer() (hit bool, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return false, err
		}
		if line == "END\r\n" {
			return hit, nil
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "VALUE" {
			return false, fmt.Errorf("answer %q", line)
		}
		length, err := strconv.Atoi(fields[3])
		if err != nil {
			return false, fmt.Errorf("answer %q: %w", line, err)
		}
		if _, err := s.in.Discard(length + 2); err != nil {
			return false, err
		}
		hit = true
	}
}

type mysqlSession struct {
	conn *sql.Conn
	stmt *sql.Stmt
	dest []any
}

func dialMySQL(ctx context.Context, db *sql.DB, l *Load) (session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	quote := func(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
	cols := make([]string, len(l.Columns))
	dest := make([]any, len(l.Columns))
	for i, c := range l.Columns {
		cols[i] = quote(c)
		dest[i] = new(sql.RawBytes)
	}
	table := quote(l.Table)
	if l.Schema != "" {
		table = quote(l.Schema) + "." + table
	}
	stmt, err := conn.PrepareContext(ctx, "SELECT "+strings.Join(cols, ",")+" FROM "+table+" WHERE "+quote(l.KeyColumn)+"=?")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &mysqlSession{conn: conn, stmt: stmt, dest: dest}, nil
}

func (s *mysqlSession) round(n int, key func() int) (misses int, err error) {
	for range n {
		rows, err := s.stmt.Query(key())
		if err != nil {
			return 0, err
		}
		found := false
		for rows.Next() {
			found = true
			if err := rows.Scan(s.dest...); err != nil {
				return 0, errors.Join(err, rows.Close())
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return 0, err
		}
		if !found {
			misses++
		}
	}
	return misses, nil
}

func (s *mysqlSession) Close() error { return errors.Join(s.stmt.Close(), s.conn.Close()) }

// processCPU reads user and system time of a process from /proc (proc(5), fields 14 and 15, in ticks of 10 ms); 0 for no
// process.
func processCPU(pid int) (time.Duration, error) {
	if pid <= 0 {
		return 0, nil
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command name in parentheses may hold blanks.
	_, rest, ok := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("unknown form of /proc/%d/stat", pid)
	}
	var ticks time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond, nil
}
