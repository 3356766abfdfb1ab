// Command wireload is a closed-loop load generator for three wire protocols:
// HandlerSocket (hs), memcached text (mc) and the MySQL client protocol (my).
//
// It drives non-blocking sockets from one or more locked OS threads with
// epoll, so that it costs little next to the server under test, and reports
// one JSON object: operations per second, latency percentiles, the CPU time
// of the server (read from /proc/PID/stat) and its own CPU time.
//
// Linux only, standard library only.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	fAddr    = flag.String("addr", "127.0.0.1:11211", "host:port or unix:/path")
	fProto   = flag.String("proto", "mc", "mc | hs | my")
	fOp      = flag.String("op", "get", "mc: get set mget mg ms; hs: find range in update insert; my: exec execrange query update raw")
	fConns   = flag.Int("conns", 50, "connections")
	fDepth   = flag.Int("depth", 1, "requests in flight on each connection")
	fThreads = flag.Int("threads", 1, "loader threads")
	fKeys    = flag.Int("keys", 100000, "distinct keys (ids are 1..keys)")
	fKeyLen  = flag.Int("klen", 30, "mc: key length, zero padded")
	fVSize   = flag.Int("vsize", 100, "value size for writes")
	fMget    = flag.Int("mget", 100, "keys in one multi-get / rows in one range / members of IN")
	fDur     = flag.Duration("dur", 3*time.Second, "measured time")
	fWarm    = flag.Duration("warm", 500*time.Millisecond, "warm-up, not measured")
	fPid     = flag.Int("pid", 0, "server process whose CPU time is counted")
	fFill    = flag.Bool("fill", false, "mc: write every key once, then exit")
	fSeq     = flag.Bool("seq", false, "walk keys in order instead of at random")
	fDB      = flag.String("db", "bench", "hs, my: schema")
	fTable   = flag.String("table", "user", "hs: table")
	fIndex   = flag.String("index", "PRIMARY", "hs: index")
	fCols    = flag.String("cols", "id,uname,email,add_time", "hs: columns")
	fKeyFmt  = flag.String("keyfmt", "%d", "hs: format of a key from its number")
	fUser    = flag.String("user", "b", "my: user with an empty password")
	fSQL     = flag.String("sql", "", "my: statement with one integer parameter (exec, update) or complete text (raw)")
	fRate    = flag.Float64("rate", 0, "total operations a second, open loop (depth is then the limit of requests in flight); 0 = closed loop")
	fName    = flag.String("name", "", "label copied to the output")
	fCheck   = flag.Bool("check", true, "stop at the first error answer")
)

func main() {
	flag.Parse()
	var ws []*worker
	val := make([]byte, *fVSize)
	for i := range val {
		val[i] = 'a' + byte(i%26)
	}
	for i := 0; i < *fThreads; i++ {
		ws = append(ws, &worker{id: i, rng: uint64(i)*0x9E3779B97F4A7C15 + uint64(time.Now().UnixNano())*2 + 1})
	}
	for i := 0; i < *fConns; i++ {
		nc := dial()
		var p proto
		switch *fProto {
		case "mc":
			p = &mcProto{op: *fOp, val: val}
			if *fFill {
				p = &mcProto{op: "set", val: val}
			}
		case "hs":
			p = &hsProto{op: *fOp}
		case "my":
			sql := *fSQL
			if sql == "" {
				switch *fOp {
				case "exec":
					sql = "SELECT id,uname,email,add_time FROM user WHERE id=?"
				case "execrange":
					sql = "SELECT id,uname,email,add_time FROM user WHERE id>=? ORDER BY id LIMIT " + strconv.Itoa(*fMget)
				case "update":
					sql = "UPDATE user SET uname=CONCAT('name_',NOW(6)) WHERE id=?"
				}
			}
			p = &myProto{op: *fOp, sql: sql}
		default:
			die("unknown protocol %q", *fProto)
		}
		if err := p.setup(nc); err != nil {
			die("%v", err)
		}
		var f *os.File
		var err error
		switch x := nc.(type) {
		case *net.TCPConn:
			f, err = x.File()
		case *net.UnixConn:
			f, err = x.File()
		}
		if err != nil {
			die("%v", err)
		}
		nc.Close()
		fd := int(f.Fd())
		syscall.SetNonblock(fd, true)
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		files = append(files, f)
		w := ws[i%len(ws)]
		w.conns = append(w.conns, &conn{fd: fd, in: make([]byte, 64<<10), sent: make([]int64, *fDepth+1)})
		w.ps = append(w.ps, p)
	}
	var wg sync.WaitGroup
	for _, w := range ws {
		wg.Add(1)
		go w.run(&wg)
	}
	if *fFill {
		wg.Wait()
		return
	}
	time.Sleep(*fWarm)
	var u0, s0, u1, s1 float64
	if *fPid > 0 {
		u0, s0 = cpu(*fPid)
	}
	var ru0, ru1 syscall.Rusage
	syscall.Getrusage(0, &ru0)
	begin := time.Now()
	measuring.Store(true)
	time.Sleep(*fDur)
	measuring.Store(false)
	el := time.Since(begin).Seconds()
	syscall.Getrusage(0, &ru1)
	rss := 0
	if *fPid > 0 {
		u1, s1 = cpu(*fPid)
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(*fPid) + "/statm"); err == nil {
			pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
			rss = pages * os.Getpagesize() / 1024
		}
	}
	stop.Store(true)
	wg.Wait()
	var h hist
	var ops, bad uint64
	for _, w := range ws {
		h.merge(&w.h)
		ops += w.ops
		bad += w.bad
	}
	tv := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	r := result{
		Name: *fName, Op: *fProto + "/" + *fOp, Conns: *fConns, Depth: *fDepth,
		Ops: float64(ops) / el, Busy: (u1 + s1 - u0 - s0) / el,
		Loader: (tv(ru1.Utime) + tv(ru1.Stime) - tv(ru0.Utime) - tv(ru0.Stime)) / el,
		P50:    h.q(.5), P99: h.q(.99), P999: h.q(.999), Max: float64(h.max) / 1000, Bad: bad, RSS: rss,
	}
	if ops > 0 {
		m := float64(ops) / 1e6
		r.CPU, r.User, r.Sys = (u1+s1-u0-s0)/m, (u1-u0)/m, (s1-s0)/m
	}
	b, _ := json.Marshal(r)
	fmt.Println(string(b))
}

var files []*os.File // keeps descriptors from being closed by the collector
