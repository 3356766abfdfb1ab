package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// memcachedTest is memcslap --binary with many threads, get and set. memcslap gives all threads the same keys and values, so
// that most of its sets of a row change nothing and a database need write nothing. Beside it runs a load in which each
// thread has keys of its own and each set a value of its own; SQL takes part in that.
type memcachedTest struct {
	sql, native, plain, rows, out string
	gets, sets, runs              int // gets and sets of each thread
	threads                       []int
}

// keysOfThread is how many keys a thread of our own load works on.
const keysOfThread = 100

func keyName(thread, k int) string { return fmt.Sprintf("k%05d_%024d", thread, k) }

// kvClient gets or sets, over one of two protocols.
type kvClient struct {
	mc     *mcWire
	sql    *sqlWire
	set    bool
	thread int
	last   [keysOfThread]string // what was acknowledged
	rnd    *rand.Rand
	value  string // the same end of all values
}

func (c *kvClient) close() {
	if c.sql != nil {
		c.sql.close()
	} else {
		c.mc.close()
	}
}

func (c *kvClient) do(n int) error {
	k := c.rnd.IntN(keysOfThread)
	if !c.set {
		v, err := c.mc.get(keyName(c.thread, k))
		if err == nil && len(v) == 0 {
			err = fmt.Errorf("key %s: the value is empty", keyName(c.thread, k))
		}
		return err
	}
	return c.put(k, fmt.Sprintf("%d_%d_%d_%s", c.thread, k, n, c.value))
}

func (c *kvClient) put(k int, value string) (err error) {
	if c.sql != nil {
		err = c.sql.execute(keyName(c.thread, k), value)
	} else {
		err = c.mc.set(keyName(c.thread, k), value)
	}
	if err == nil {
		c.last[k] = value
	}
	return err
}

// target is one of the things that are compared.
type target struct {
	name, addr string
	sql        bool
	durable    bool // sets must be found in the table
}

func (t *memcachedTest) run() error {
	targets := []target{
		{name: "memcached", addr: t.native},
		{name: "plain item", addr: t.plain},
		{name: "row of a table", addr: t.rows, durable: true},
	}
	report := filepath.Join(t.out, "seed-memcached.md")
	_ = os.Remove(report)
	for _, tg := range targets {
		if err := t.fill(tg); err != nil {
			return fmt.Errorf("%s: %w", tg.name, err)
		}
	}
	withSQL := append(targets, target{name: "SQL autocommit", addr: t.sql, sql: true, durable: true})
	if path, err := exec.LookPath("memcslap"); err == nil {
		for _, op := range []string{"get", "set"} {
			one := func(tg target, n int) (time.Duration, error) { return t.memcslap(path, tg, op, n) }
			if err := t.compare(report, "memcslap", op, targets, one); err != nil {
				return err
			}
		}
	} else {
		say("memcslap (Debian: libmemcached-tools) is not installed: only our own load")
	}
	for _, op := range []string{"get", "set"} {
		one := func(tg target, n int) (time.Duration, error) { return t.own(tg, op, n) }
		tgs := targets
		if op == "set" {
			tgs = withSQL
		}
		if err := t.compare(report, "own keys", op, tgs, one); err != nil {
			return err
		}
	}
	return nil
}

// compare measures all targets with all numbers of threads and writes a table and a plot.
func (t *memcachedTest) compare(report, load, op string, targets []target, one func(target, int) (time.Duration, error)) error {
	took := make([]map[int][]timing, len(targets))
	for i := range took {
		took[i] = map[int][]timing{}
	}
	for r := range t.runs {
		for k, n := range t.threads {
			for i := range targets {
				i = (i + r + k) % len(targets) // none always follows the same one
				d, err := one(targets[i], n)
				if err != nil {
					return fmt.Errorf("%s, %s, %s, %d threads: %w", load, op, targets[i].name, n, err)
				}
				took[i][n] = append(took[i][n], timing{total: d})
				say("run %d of %d: %s, %s, %d threads, %s: %.2f s, %.0f a second", r+1, t.runs, load, op, n, targets[i].name, d.Seconds(), rate(n*t.requests(op), d))
			}
		}
	}
	head := []string{"threads"}
	lines := make([]line, len(targets))
	for i, tg := range targets {
		head = append(head, tg.name+", s", "a second")
		if i > 0 {
			head = append(head, "×")
		}
		lines[i].name = tg.name
	}
	var rows [][]string
	for _, n := range t.threads {
		row := []string{strconv.Itoa(n)}
		for i := range targets {
			m := median(took[i][n]).total
			row = append(row, seconds(m), fmt.Sprintf("%.0f", rate(n*t.requests(op), m)))
			if i > 0 {
				var ratios []timing // of what ran next to each other
				for r, own := range took[i][n] {
					ratios = append(ratios, timing{total: time.Duration(float64(time.Second) * float64(took[0][n][r].total) / float64(own.total))})
				}
				row = append(row, fmt.Sprintf("%.2f", median(ratios).total.Seconds()))
			}
			lines[i].y = append(lines[i].y, rate(n*t.requests(op), m))
		}
		rows = append(rows, row)
	}
	title := fmt.Sprintf("%s, %s: %d of each thread, binary protocol, median of %d; × is the rate beside %s", op, load, t.requests(op), t.runs, targets[0].name)
	if err := table(report, title, head, rows); err != nil {
		return err
	}
	file := fmt.Sprintf("seed-memcached-%s-%s.svg", op, strings.ReplaceAll(load, " ", "-"))
	return chart(filepath.Join(t.out, file), fmt.Sprintf("%s, %s", op, load), "threads", op+"s a second", t.threads, lines, true)
}

var slapTime = regexp.MustCompile(`Time to [gs]et\s+(\d+) keys by\s+\d+ threads:\s+([0-9.]+) seconds`)

// requests of each thread.
func (t *memcachedTest) requests(op string) int {
	if op == "get" {
		return t.gets
	}
	return t.sets
}

// memcslap returns the time that memcslap says for all its threads.
func (t *memcachedTest) memcslap(path string, tg target, op string, n int) (time.Duration, error) {
	out, err := exec.Command(path, "--servers="+tg.addr, "--binary", "--test="+op, "--concurrency="+strconv.Itoa(n), "--execute-number="+strconv.Itoa(t.requests(op))).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	m := slapTime.FindSubmatch(out)
	if m == nil || string(m[1]) != strconv.Itoa(n*t.requests(op)) {
		return 0, fmt.Errorf("memcslap says %q", out)
	}
	return time.ParseDuration(string(m[2]) + "s")
}

// fill sets all keys that get asks for.
func (t *memcachedTest) fill(tg target) error {
	most := 0
	for _, n := range t.threads {
		most = max(most, n)
	}
	say("%s: %d keys", tg.name, most*keysOfThread)
	_, err := run(most, keysOfThread, func(i int) (client, error) {
		mc, err := dialMC(tg.addr)
		return &filler{kvClient{mc: mc, thread: i, value: strings.Repeat("x", 70)}}, err
	})
	return err
}

// filler sets its keys in order.
type filler struct{ kvClient }

func (f *filler) do(n int) error { return f.put(n, "0_"+f.value) }

// own runs our own load. After sets to the table each key must have there what was acknowledged last.
func (t *memcachedTest) own(tg target, op string, n int) (time.Duration, error) {
	set := op == "set"
	clients := make([]*kvClient, n)
	took, err := run(n, t.requests(op), func(i int) (_ client, err error) {
		c := &kvClient{set: set, thread: i, value: strings.Repeat("x", 70), rnd: rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))}
		clients[i] = c
		if !tg.sql {
			c.mc, err = dialMC(tg.addr)
			return c, err
		}
		if c.sql, err = dialSQL(tg.addr); err != nil {
			return nil, err
		}
		return c, c.sql.prepare("INSERT INTO kv (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v), cas = cas + 1")
	})
	if err != nil || !set || !tg.durable {
		return took.total, err
	}
	s, err := dialSQL(t.sql)
	if err != nil {
		return 0, err
	}
	defer s.close()
	values := map[string]string{}
	if err := s.query("SELECT k, v FROM kv WHERE k LIKE 'k%\\_%'", func(f []string) { values[f[0]] = f[1] }); err != nil {
		return 0, err
	}
	for _, c := range clients {
		for k, want := range c.last {
			if want != "" && values[keyName(c.thread, k)] != want {
				return 0, fmt.Errorf("key %s: %q was acknowledged, the table has %q", keyName(c.thread, k), want, values[keyName(c.thread, k)])
			}
		}
	}
	return took.total, nil
}
