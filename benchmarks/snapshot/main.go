// Command snapshot measures how long the cache takes to load a table, beside the time of streaming the same table's
// SELECT into nothing with the same driver, and how much memory a row takes; how long a start from a saved state takes
// instead, and a comparison of all rows with the database's; and what the comparison in the background costs.
//
//	snapshot -binary ./binlogcache -source 'root:test@tcp(127.0.0.1:3306)/' -table bench.user -rounds 5
//
// Odd rounds run in the other order. The time of a load is that from the start of the process to its readiness, less
// the same of a process without tables.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
)

var (
	binary = flag.String("binary", "./binlogcache", "the daemon")
	source = flag.String("source", "", "DSN")
	table  = flag.String("table", "bench.user", "schema.table")
	rounds = flag.Int("rounds", 5, "rounds")
	pid    = flag.Int("pid", 0, "process of the database, for its CPU time")
	beside = flag.Duration("beside", 20*time.Second, "how long to watch the comparison in the background; 0 to leave it out")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	rows, err := stream("SELECT COUNT(*) FROM " + *table)
	check(err)
	n := count(rows)
	dir, err := os.MkdirTemp("", "binlogcache-state-")
	check(err)
	defer os.RemoveAll(dir)
	start(*table, "--state-dir", dir).stop(func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "manifest")); err == nil {
				return
			}
		}
		log.Fatal("snapshot: no state was saved")
	})
	var streamed, loaded, idle, warm, verified []time.Duration
	var idleRSS, loadedRSS []int64
	for round := range *rounds {
		steps := []func(){
			func() {
				begun := time.Now()
				_, err := stream("SELECT * FROM " + *table)
				check(err)
				streamed = append(streamed, time.Since(begun))
			},
			func() {
				d := start("")
				d.stop(func() { idle, idleRSS = append(idle, d.took), append(idleRSS, d.resident()) })
			},
			func() {
				d := start(*table)
				d.stop(func() {
					loaded, loadedRSS = append(loaded, d.took), append(loadedRSS, d.resident())
					verified = append(verified, d.verify())
				})
			},
			func() {
				d := start(*table, "--state-dir", dir)
				d.stop(func() { warm = append(warm, d.took) })
			},
		}
		if round%2 == 1 {
			slices.Reverse(steps)
		}
		for _, s := range steps {
			s()
		}
	}
	s, l, i := median(streamed), median(loaded), median(idle)
	bytesPerRow := float64(median(loadedRSS)-median(idleRSS)) / float64(n)
	fmt.Printf("| rows | SELECT streamed into nothing | load | ratio | resident bytes a row |\n|---|---|---|---|---|\n| %d | %s | %s | %.2f | %.0f |\n",
		n, s.Round(time.Millisecond), (l - i).Round(time.Millisecond), float64(l-i)/float64(s), bytesPerRow)
	w, v := median(warm)-i, median(verified)
	fmt.Printf("\n| start from a saved state | of the load | verify | of the SELECT |\n|---|---|---|---|\n| %s | %.2f | %s | %.2f |\n",
		w.Round(time.Millisecond), float64(w)/float64(l-i), v.Round(time.Millisecond), float64(v)/float64(s))
	if *beside > 0 {
		off, offDB := watch("--verify-rate", "0")
		on, onDB := watch()
		fmt.Printf("\n| CPU in %s | without | with verification in the background | more |\n|---|---|---|---|\n", *beside)
		fmt.Printf("| daemon | %.2f s | %.2f s | %.2f %% |\n", off, on, 100*(on-off)/beside.Seconds())
		fmt.Printf("| database | %.2f s | %.2f s | %.2f %% |\n", offDB, onDB, 100*(onDB-offDB)/beside.Seconds())
	}
}

// watch gives the CPU seconds that a daemon and the database take while nothing is asked of them.
func watch(args ...string) (own, database float64) {
	d := start(*table, args...)
	d.stop(func() {
		time.Sleep(3 * time.Second)
		own, database = cpu(d.cmd.Process.Pid), cpu(*pid)
		time.Sleep(*beside)
		own, database = cpu(d.cmd.Process.Pid)-own, cpu(*pid)-database
	})
	return own, database
}

// cpu is the CPU time that a process has taken, in seconds; 0 for none.
func cpu(pid int) float64 {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(err)
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	return float64(count(f[11])+count(f[12])) / 100
}

func median[T int64 | time.Duration](v []T) T {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// stream runs a query and returns its last row's first value.
func stream(query string) (string, error) {
	cfg, err := sqltext.ParseDSN(*source)
	if err != nil {
		return "", err
	}
	conn, err := sqltext.Dial(context.Background(), cfg)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	last := ""
	err = conn.Stream(context.Background(), query, func(f sqltext.Fields) error {
		first := true
		for {
			v, _, ok := f.Next()
			if !ok {
				return nil
			}
			if first && strings.Contains(query, "COUNT") {
				last = string(v)
			}
			first = false
		}
	})
	return last, err
}

// daemon is a running one.
type daemon struct {
	cmd   *exec.Cmd
	admin string
	took  time.Duration // from its start to its readiness
}

// start starts the daemon and waits for its readiness.
func start(tables string, more ...string) *daemon {
	d := &daemon{admin: freeAddress()}
	args := []string{
		"serve", "--source", *source, "--admin", d.admin, "--handlersocket-read", freeAddress(),
		"--handlersocket-write", "off", "--memcached", "off", "--log-level", "error",
	}
	if tables != "" {
		args = append(args, "--tables", tables)
	}
	d.cmd = exec.Command(*binary, append(args, more...)...)
	d.cmd.Stderr = os.Stderr
	begun := time.Now()
	check(d.cmd.Start())
	for {
		resp, err := http.Get("http://" + d.admin + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(begun) > 5*time.Minute {
			log.Fatal("snapshot: the daemon is not ready after 5 minutes")
		}
		time.Sleep(2 * time.Millisecond)
	}
	d.took = time.Since(begun)
	return d
}

// stop ends the daemon when work is done.
func (d *daemon) stop(work func()) {
	work()
	check(d.cmd.Process.Signal(syscall.SIGTERM))
	check(d.cmd.Wait())
}

// verify compares all rows with the database's and returns how long that takes.
func (d *daemon) verify() time.Duration {
	begun := time.Now()
	resp, err := http.Post("http://"+d.admin+"/api/v1/verify", "application/json", strings.NewReader("{}"))
	check(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(err)
	if !strings.Contains(string(b), `"differences":0`) {
		log.Fatalf("snapshot: verify: %s", b)
	}
	return time.Since(begun)
}

// resident is the physical memory of the daemon, once what the load has used is given back.
func (d *daemon) resident() int64 {
	time.Sleep(2 * time.Second)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	check(err)
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	return int64(count(strings.Fields(rest)[0])) << 10
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	return l.Addr().String()
}

func count(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		log.Fatalf("snapshot: %v", err)
	}
}
