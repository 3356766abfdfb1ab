package tests

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
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
	"github.com/binlogcache/binlogcache/internal/torture"
)

// Sizes of the model test. BINLOGCACHE_MODEL_TIME sets how long it runs ("10m"), BINLOGCACHE_MODEL_SEED what it does.
const (
	modelTime      = 60 * time.Second
	modelTimeShort = 15 * time.Second
	modelRound     = 4 * time.Second // from one quiet point to the next
	modelWriters   = 4
	modelTogether  = 8 // rows that are always changed together
)

func modelSettings(t *testing.T) (run time.Duration, seed uint64) {
	t.Helper()
	run, seed = modelTime, rand.Uint64()
	if testing.Short() {
		run = modelTimeShort
	}
	if v := os.Getenv("BINLOGCACHE_MODEL_TIME"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("BINLOGCACHE_MODEL_TIME: %v", err)
		}
		run = d
	}
	if v := os.Getenv("BINLOGCACHE_MODEL_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("BINLOGCACHE_MODEL_SEED: %v", err)
		}
		seed = n
	}
	return run, seed
}

// TestModel lets several sessions change rows and definitions of tables of different shapes at random while readers
// read. At each quiet point every table equals the server's. Readers check that what comes from memory never goes back,
// key by key, that no row is a mixture of two, and that rows which one transaction changes together are seen together.
//
// A seed gives the same statements to each session; how they meet is up to the scheduler.
func TestModel(t *testing.T) {
	t.Parallel()
	run, seed := modelSettings(t)
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor) // a long run on a shared one would be in the way of others
			t.Logf("BINLOGCACHE_MODEL_SEED=%d BINLOGCACHE_MODEL_TIME=%s", seed, run)
			newModel(t, s, seed).run(run)
		})
	}
}

type model struct {
	t      *testing.T
	server testmysql.Server
	schema string
	seed   uint64
	tables []*modelTable
	d      *daemon
	// alone is held for writing by changes that must not have writers beside them.
	alone sync.RWMutex

	statements, failures atomic.Int64
	fromMemory, batches  int64 // of the reader
}

// newModel makes the tables and starts the daemon.
func newModel(t *testing.T, s testmysql.Server, seed uint64) *model {
	m := &model{t: t, server: s, schema: s.Schema(t), seed: seed, tables: modelTables()}
	db := s.DB(t)
	use := func(q string) { mustExec(t, db, strings.ReplaceAll(q, "@@.", m.schema+".")) }
	use("CREATE TABLE @@.numbers (n BIGINT NOT NULL)")
	use("INSERT INTO @@.numbers VALUES (1)")
	use("CREATE TABLE @@." + togetherTable + " (id INT PRIMARY KEY, ver BIGINT NOT NULL, v VARCHAR(40))")
	for i := range modelTogether {
		use(fmt.Sprintf("INSERT INTO @@.%s VALUES (%d, 0, 'v0')", togetherTable, i))
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	for _, table := range m.tables {
		use("CREATE TABLE @@." + table.name + " " + table.create)
		for n := range modelKeys / 2 {
			columns, values := table.values(rng, n, "0")
			use(fmt.Sprintf("INSERT INTO @@.%s (%s) VALUES (%s)", table.name, columns, values))
		}
	}
	m.d = start(t, s.DSN, m.schema+".*").waitReady()
	return m
}

func (m *model) run(run time.Duration) {
	end := time.Now().Add(run)
	seen := map[string]int64{}
	// XA transactions come in some rounds: on MariaDB loads have to wait for seconds after each.
	for round := 0; time.Now().Before(end) && !m.t.Failed(); round++ {
		ctx, cancel := context.WithTimeout(m.t.Context(), modelRound)
		var wg sync.WaitGroup
		for i := range modelWriters {
			wg.Go(func() { m.write(ctx, rand.New(rand.NewPCG(m.seed, uint64(round*100+i))), round%3 == 2) })
		}
		wg.Go(func() { m.define(ctx, rand.New(rand.NewPCG(m.seed, uint64(round*100+50)))) })
		wg.Go(func() { m.read(ctx, rand.New(rand.NewPCG(m.seed, uint64(round*100+60))), seen) })
		wg.Wait()
		cancel()
		m.compare(round)
	}
	m.t.Logf("%d statements, %d of them failed; %d of %d batches of reads from memory", m.statements.Load(), m.failures.Load(), m.fromMemory, m.batches)
	if m.fromMemory == 0 || m.statements.Load()-m.failures.Load() < 100 {
		m.t.Error("too little of it worked to prove anything")
	}
}

// compare waits until the cache has caught up and compares every table.
func (m *model) compare(round int) {
	r := &torture.Runner{Flavor: m.server.Flavor, DSN: m.server.DSN, HandlerSocket: m.d.handlerSocket, Admin: m.d.base, Settle: settleTimeout}
	if err := r.Connect(); err != nil {
		m.t.Error(err)
		return
	}
	defer r.Close()
	tables := []torture.CachedTable{{Schema: m.schema, Table: togetherTable, Index: "PRIMARY"}}
	for _, table := range m.tables {
		for _, index := range append([]string{table.index}, table.also...) {
			tables = append(tables, torture.CachedTable{Schema: m.schema, Table: table.name, Index: index})
		}
	}
	verdicts, err := r.Judge(m.t.Context(), tables)
	if err != nil {
		m.t.Errorf("quiet point %d: %v", round, err)
	}
	for _, v := range verdicts {
		if v.State != "live" {
			m.t.Errorf("quiet point %d: %s is %s: %s", round, v.Table.Table, v.State, v.Reason)
		}
	}
}

// modelSession is one writer's connection to the server.
type modelSession struct {
	m    *model
	conn *sql.Conn
	db   *sql.DB
}

func (m *model) session(ctx context.Context) (*modelSession, error) {
	db, err := sql.Open("mysql", m.server.DSN)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	s := &modelSession{m, conn, db}
	for _, q := range []string{"USE " + m.schema, "SET SESSION lock_wait_timeout=2, innodb_lock_wait_timeout=2, sql_mode=''"} {
		if err := s.exec(q); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// exec does not end with the round: a statement that is cut off would cut its connection, too.
func (s *modelSession) exec(q string) error {
	_, err := s.conn.ExecContext(context.WithoutCancel(s.m.t.Context()), q)
	s.m.statements.Add(1)
	if err != nil {
		s.m.failures.Add(1)
	}
	return err
}

func (s *modelSession) close() {
	s.conn.Close()
	s.db.Close()
}

// write changes rows until ctx ends.
func (m *model) write(ctx context.Context, rng *rand.Rand, xa bool) {
	s, err := m.session(ctx)
	if err != nil {
		return // the round is over
	}
	defer s.close()
	for i := 0; ctx.Err() == nil; i++ {
		m.alone.RLock()
		xid := ""
		if xa && rng.IntN(4) == 0 {
			xid = fmt.Sprintf("x%d-%d", rng.Uint64(), i)
		}
		m.writeOnce(s, rng, xid)
		m.alone.RUnlock()
	}
}

// writeOnce is one transaction, of XA where it has a name. Errors are those of definitions that change meanwhile, and deadlocks; they end it.
func (m *model) writeOnce(s *modelSession, rng *rand.Rand, xid string) {
	for _, q := range m.settings(rng) {
		_ = s.exec(q)
		defer func() {
			variable, _, _ := strings.Cut(strings.TrimPrefix(q, "SET SESSION "), "=")
			_ = s.exec("SET SESSION " + variable + "=@@GLOBAL." + variable)
		}()
	}
	if rng.IntN(4) == 0 {
		_ = s.exec(m.tables[rng.IntN(len(m.tables))].wild(rng))
		return
	}
	begin, end := []string{"START TRANSACTION"}, []string{"COMMIT"}
	giveUp := []string{"ROLLBACK"}
	if xid != "" {
		begin, end = []string{"XA START '" + xid + "'"}, []string{"XA END '" + xid + "'", "XA PREPARE '" + xid + "'", "XA COMMIT '" + xid + "'"}
		giveUp = []string{"XA END '" + xid + "'", "XA ROLLBACK '" + xid + "'"}
		switch rng.IntN(4) {
		case 0:
			end[2] = giveUp[1]
		case 1:
			end = []string{end[0], "XA COMMIT '" + xid + "' ONE PHASE"}
		}
	} else if rng.IntN(6) == 0 {
		end = giveUp
	}
	// The lock on the number orders all transactions that write it.
	body := append(begin, fmt.Sprintf("UPDATE numbers SET n=LAST_INSERT_ID(n+%d)", verStep), "SET @ver=LAST_INSERT_ID()")
	for range 1 + rng.IntN(4) {
		body = append(body, m.tables[rng.IntN(len(m.tables))].change(rng))
		if rng.IntN(6) == 0 {
			body = append(body, "SAVEPOINT s1", m.tables[rng.IntN(len(m.tables))].change(rng), "ROLLBACK TO SAVEPOINT s1")
		}
	}
	if rng.IntN(2) == 0 {
		body = append(body, fmt.Sprintf("UPDATE %s SET ver=@ver, v=CONCAT('v',@ver DIV %d)", togetherTable, verStep))
	}
	for _, q := range append(body, end...) {
		if err := s.exec(q); err != nil {
			for _, q := range giveUp {
				_ = s.exec(q)
			}
			return
		}
	}
}

// settings are what a session changes for one transaction, now and then.
func (m *model) settings(rng *rand.Rand) []string {
	switch rng.IntN(60) {
	case 0:
		return []string{"SET SESSION binlog_format='STATEMENT'"}
	case 1, 2:
		return []string{"SET SESSION binlog_row_image='MINIMAL'"}
	case 3, 4, 5, 6:
		if m.server.Flavor == testmysql.MySQL {
			return []string{"SET SESSION binlog_transaction_compression=ON"}
		}
		return []string{"SET SESSION skip_replication=ON"}
	case 7, 8:
		return []string{"SET SESSION time_zone='-07:00'"}
	}
	return nil
}

// define changes definitions until ctx ends.
func (m *model) define(ctx context.Context, rng *rand.Rand) {
	s, err := m.session(ctx)
	if err != nil {
		return
	}
	defer s.close()
	for ctx.Err() == nil {
		statements, alone := m.tables[rng.IntN(len(m.tables))].alter(rng)
		if alone {
			m.alone.Lock()
		} else {
			m.alone.RLock()
		}
		for _, q := range statements {
			// A statement that fails by a lock leaves half of the sequence: what follows mends it.
			for range 20 {
				if err := s.exec(q); err == nil || !strings.Contains(err.Error(), "Lock wait timeout") && !strings.Contains(err.Error(), "Deadlock") {
					break
				}
			}
		}
		if alone {
			m.alone.Unlock()
		} else {
			m.alone.RUnlock()
		}
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
	}
}

// read reads until ctx ends, in batches that are either all from memory or not looked at for their order.
func (m *model) read(ctx context.Context, rng *rand.Rand, seen map[string]int64) {
	conn, err := net.DialTimeout("tcp", m.d.handlerSocket, 5*time.Second)
	if err != nil {
		m.t.Errorf("reader: %v", err)
		return
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 1<<16)
	ask := func(request string) ([]string, error) {
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return nil, err
		}
		if _, err := conn.Write([]byte(request)); err != nil {
			return nil, err
		}
		line, err := in.ReadString('\n')
		return strings.Split(strings.TrimSuffix(line, "\n"), "\t"), err
	}
	opened := map[int]bool{}
	for ctx.Err() == nil && !m.t.Failed() {
		before := m.d.status().Reads.HandlerSocket.Database
		batch := map[string]int64{}
		var err error
		for range 30 {
			err = errors.Join(err, m.readOne(rng, ask, opened, batch, seen))
		}
		m.batches++
		if m.d.status().Reads.HandlerSocket.Database == before {
			// Only now are the numbers known to be those of the memory.
			m.fromMemory++
			for key, ver := range batch {
				seen[key] = max(seen[key], ver)
			}
			if err != nil {
				m.t.Errorf("reads from memory: %v", err)
			}
		}
	}
}

// readOne reads one key, or the rows that belong together. What it finds wrong at once fails the test; the error says
// that a number went back, which counts for reads from memory alone.
func (m *model) readOne(rng *rand.Rand, ask func(string) ([]string, error), opened map[int]bool, batch, seen map[string]int64) error {
	at := rng.IntN(len(m.tables) + 1)
	name, index, find := togetherTable, "PRIMARY", fmt.Sprintf("%d\t>=\t1\t0\t100\n", at)
	var n int
	if at < len(m.tables) {
		table := m.tables[at]
		n = rng.IntN(modelKeys)
		key := table.key(n)
		if table.spell != nil {
			key = []string{table.spell(rng, n)}
		}
		name, index, find = table.name, table.index, fmt.Sprintf("%d\t=\t%d\t%s\t100\n", at, len(key), strings.Join(key, "\t"))
	}
	if !opened[at] {
		answer, err := ask(fmt.Sprintf("P\t%d\t%s\t%s\t%s\tver,v\n", at, m.schema, name, index))
		if err != nil {
			m.t.Errorf("open %s: %v", name, err)
			return nil
		}
		if answer[0] != "0" {
			return nil // the table is away
		}
		opened[at] = true
	}
	answer, err := ask(find)
	if err != nil {
		m.t.Errorf("find in %s: %v", name, err)
		return nil
	}
	if answer[0] != "0" {
		opened[at] = false // away, or changed: open it again
		return nil
	}
	rows := answer[2:]
	if at < len(m.tables) && len(rows) > 2 || at == len(m.tables) && len(rows) != 2*modelTogether {
		m.t.Errorf("%s: %q gives %q", name, find, answer)
		return nil
	}
	var back error
	for i := 0; i+1 < len(rows); i += 2 {
		ver, err := strconv.ParseInt(rows[i], 10, 64)
		if err != nil || rows[i+1] != fmt.Sprint("v", ver/verStep) {
			m.t.Errorf("%s: a row of %q that was never written", name, rows[i:i+2])
			return nil
		}
		if at == len(m.tables) && rows[i] != rows[0] {
			m.t.Errorf("%s: rows of one transaction are seen apart: %q", name, rows)
			return nil
		}
		key := fmt.Sprint(name, " ", n)
		if ver < max(seen[key], batch[key]) {
			back = fmt.Errorf("%s: %d after %d", key, ver, max(seen[key], batch[key]))
		}
		batch[key] = max(batch[key], ver)
	}
	return back
}
