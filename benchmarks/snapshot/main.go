// Command snapshot measures how long the cache takes to load a table, beside the time of streaming the same table's
// SELECT into nothing with the same driver, and how much memory a row takes.
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
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
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
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	rows, err := stream("SELECT COUNT(*) FROM " + *table)
	check(err)
	n := count(rows)
	var streamed, loaded, idle []time.Duration
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
				d, rss := load("")
				idle, idleRSS = append(idle, d), append(idleRSS, rss)
			},
			func() {
				d, rss := load(*table)
				loaded, loadedRSS = append(loaded, d), append(loadedRSS, rss)
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

// load starts the daemon, waits for its readiness and returns the time and its resident memory.
func load(tables string) (time.Duration, int64) {
	admin := freeAddress()
	args := []string{
		"serve", "--source", *source, "--admin", admin, "--handlersocket-read", freeAddress(),
		"--handlersocket-write", "off", "--memcached", "off", "--log-level", "error",
	}
	if tables != "" {
		args = append(args, "--tables", tables)
	}
	cmd := exec.Command(*binary, args...)
	cmd.Stderr = os.Stderr
	begun := time.Now()
	check(cmd.Start())
	for {
		resp, err := http.Get("http://" + admin + "/readyz")
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
	took := time.Since(begun)
	time.Sleep(2 * time.Second) // what the load has used is given back
	rss := resident(cmd.Process.Pid)
	check(cmd.Process.Signal(syscall.SIGTERM))
	check(cmd.Wait())
	return took, rss
}

func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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
