// Command seed plays two tests that made people look at these protocols first, against this daemon: HandlerSocket beside
// SQL on a table of a million users, and memcslap with up to 256 threads against memcached and a table. It prints tables,
// appends them to a file, and writes plots. The servers are given; seed-handlersocket.sh and seed-memcached.sh start them.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	out := flags.String("out", ".", "folder for the table and the plots")
	sqlAddr := flags.String("sql", "", "the database: host:port or unix:/path; user b without a password, schema bench")
	clients := flags.String("clients", "", "numbers of clients, comma-separated")
	requests := flags.Int("requests", 0, "requests of each client; with memcached, its sets")
	runs := flags.Int("runs", 1, "runs of each; the median counts")
	var do func() error
	switch os.Args[1] {
	case "handlersocket":
		t := handlerSocketTest{}
		flags.StringVar(&t.read, "read", "", "the daemon's HandlerSocket port for reading")
		flags.StringVar(&t.write, "write", "", "the daemon's HandlerSocket port for writing")
		flags.IntVar(&t.rows, "rows", 1_000_000, "rows of bench.user, ids from 1")
		do = func() error {
			t.sql, t.out, t.requests, t.runs, t.clients = *sqlAddr, *out, *requests, *runs, numbers(*clients)
			return t.run()
		}
	case "memcached":
		t := memcachedTest{}
		flags.StringVar(&t.native, "native", "", "memcached")
		flags.StringVar(&t.plain, "plain", "", "a daemon without containers")
		flags.IntVar(&t.gets, "gets", 0, "gets of each client")
		flags.StringVar(&t.rows, "container", "", "a daemon with bench.kv as its default container")
		do = func() error {
			t.sql, t.out, t.sets, t.runs, t.threads = *sqlAddr, *out, *requests, *runs, numbers(*clients)
			return t.run()
		}
	default:
		usage()
	}
	_ = flags.Parse(os.Args[2:])
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: seed handlersocket|memcached FLAGS; -h lists them")
	os.Exit(2)
}

func numbers(list string) []int {
	var ns []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "seed: %q is not a number of clients\n", s)
			os.Exit(2)
		}
		ns = append(ns, n)
	}
	return ns
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
