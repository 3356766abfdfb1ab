package tests

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

const (
	memoryBudget = 64 << 20
	// mostResident is what the process may take with that --memory.
	mostResident = memoryBudget*13/10 + 64<<20
	// largestRow is just below what a server lets a client send by default.
	largestRow = 16<<20 - 1<<10
)

// residentBytes is the physical memory of a process.
func residentBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in %q", b)
}

// TestMemoryKept: tables that do not fit, one that fits alone, one that grows until they do not fit together, rows of 16 MB, all of them
// rewritten again and again and read, and a memcached share that is full: the process stays within its memory, and what
// it has is right. BINLOGCACHE_MEMORY_TEST=5m runs it for so long, on both flavours, with tables of about 1 GB.
func TestMemoryKept(t *testing.T) {
	run, large, flavors := 4*time.Second, 1, []string{testmysql.MariaDB}
	if d, err := time.ParseDuration(os.Getenv("BINLOGCACHE_MEMORY_TEST")); err == nil {
		run, large, flavors = d, 8, testmysql.Flavors()
	}
	// The race detector takes several times the memory.
	plain := filepath.Join(t.TempDir(), "binlogcache")
	if out, err := exec.Command("go", "build", "-o", plain, "../cmd/binlogcache").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, flavor := range flavors {
		t.Run(flavor, func(t *testing.T) {
			s := testmysql.Private(t, flavor, "--max-allowed-packet=64M")
			db := s.DB(t)
			mustExec(t, db, "CREATE DATABASE m")
			mustExec(t, db, "CREATE TABLE m.fits (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000), KEY (v(20)))")
			mustExec(t, db, "CREATE TABLE m.big (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(4000))")
			mustExec(t, db, "CREATE TABLE m.huge (id INT PRIMARY KEY, v MEDIUMBLOB)")
			mustExec(t, db, "CREATE TABLE m.grows (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(4000))")
			for _, table := range []string{"fits", "big"} {
				mustExec(t, db, "INSERT INTO m."+table+" (v) VALUES (REPEAT('x',900)),(REPEAT('y',700)),(REPEAT('z',100)),(NULL)")
			}
			for range 10 {
				mustExec(t, db, "INSERT INTO m.fits (v) SELECT v FROM m.fits")
				mustExec(t, db, "INSERT INTO m.big (v) SELECT REPEAT('b', 4000) FROM m.big")
			}
			for range large * 8 {
				mustExec(t, db, "INSERT INTO m.big (v) SELECT REPEAT('c', 4000) FROM m.big LIMIT 4096")
			}
			huge := 12 * large
			for id := range huge {
				mustExec(t, db, "INSERT INTO m.huge VALUES (?, REPEAT('h', ?))", id, largestRow>>(id%3))
			}

			started := time.Now()
			d := startBinary(t, plain, s.DSN, "m.*", "--memory", "64MiB", "--state-dir", t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			var peak int64
			wg.Go(func() {
				for ctx.Err() == nil {
					if n, err := residentBytes(d.cmd.Process.Pid); err == nil && n > peak {
						peak = n
						if n > mostResident {
							t.Logf("after %.1f s: %d MiB resident", time.Since(started).Seconds(), n>>20)
						}
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
			d.waitReady()
			for i := range 3 {
				wg.Go(func() { rewriteMemory(ctx, t, db, rand.New(rand.NewPCG(uint64(i), 3)), huge) })
				wg.Go(func() { readMemory(ctx, t, d, i, huge) })
			}
			wg.Go(func() { fillItems(ctx, t, d) })
			time.Sleep(run)
			if m := d.status().Memory; m.Used > m.Limit {
				t.Errorf("memory as counted: %+v", m)
			}
			d.verifies("beside all that")
			cancel()
			wg.Wait()
			d.waitReady()
			d.verifies("in the end")
			d.waitState("m.big", "hot")
			t.Logf("at most %d MiB resident of %d", peak>>20, mostResident>>20)
			if peak > mostResident {
				t.Errorf("%d MiB resident, %d are allowed", peak>>20, mostResident>>20)
			}
		})
	}
}

// rewriteMemory changes all tables until ctx ends.
func rewriteMemory(ctx context.Context, t *testing.T, db *sql.DB, rng *rand.Rand, huge int) {
	for i := 0; ctx.Err() == nil; i++ {
		letter := string(rune('a' + rng.IntN(26)))
		q := fmt.Sprintf("UPDATE m.fits SET v = REPEAT('%s', %d) WHERE id BETWEEN %d AND %[3]d + 50", letter, rng.IntN(1000), rng.IntN(4096))
		switch i % 20 {
		case 3, 8, 13:
			q = fmt.Sprintf("UPDATE m.big SET v = REPEAT('%s', %d) WHERE id BETWEEN %d AND %[3]d + 100", letter, rng.IntN(4000), rng.IntN(20000))
		case 5:
			q = fmt.Sprintf("REPLACE INTO m.huge VALUES (%d, REPEAT('%s', %d))", rng.IntN(huge), letter, rng.IntN(largestRow))
		case 10:
			q = fmt.Sprintf("UPDATE m.huge SET v = REPEAT('%s', %d) WHERE id = %d", letter, largestRow, rng.IntN(huge))
		case 15:
			q = fmt.Sprintf("INSERT INTO m.grows (v) SELECT REPEAT('%s', 4000) FROM m.fits LIMIT 200", letter)
		}
		if _, err := db.ExecContext(ctx, q); err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "Deadlock") {
			t.Errorf("%.80s: %v", q, err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// readMemory finds rows; each value is one letter many times, whatever was written last. The reader 0 asks for the
// largest as well: what is on its way to a client is not the cache's.
func readMemory(ctx context.Context, t *testing.T, d *daemon, i, huge int) {
	rng := rand.New(rand.NewPCG(uint64(i), 4))
	for ctx.Err() == nil {
		table, id := "fits", rng.IntN(4096)
		switch n := rng.IntN(40); {
		case n == 0 && i == 0:
			table, id = "huge", rng.IntN(huge)
		case n < 6:
			table, id = "big", rng.IntN(20000)
		}
		got := askLine(t, d.handlerSocket, fmt.Sprintf("P\t1\tm\t%s\tPRIMARY\tv\n1\t=\t1\t%d\n", table, id), 2)[1]
		value, ok := strings.CutPrefix(got, "0\t1")
		value = strings.TrimPrefix(value, "\t")
		if !ok || value != "" && value != "\x00" && strings.Count(value, value[:1]) != len(value) {
			t.Errorf("%s %d: %.60q", table, id, got)
			return
		}
	}
}

// fillItems writes memcached items until ctx ends.
func fillItems(ctx context.Context, t *testing.T, d *daemon) {
	c, err := net.Dial("tcp", d.memcached)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	value := strings.Repeat("i", 10_000)
	reply := make([]byte, 64)
	for i := 0; ctx.Err() == nil; i++ {
		fmt.Fprintf(c, "set item%d 0 0 %d\r\n%s\r\n", i%20_000, len(value), value)
		if n, err := c.Read(reply); ctx.Err() == nil && (err != nil || string(reply[:n]) != "STORED\r\n") {
			t.Errorf("set: %q, %v", reply[:n], err)
			return
		}
	}
}
