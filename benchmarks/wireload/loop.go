package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/binlogcache/binlogcache/benchmarks/mywire"
)

type worker struct {
	id    int
	conns []*conn
	ps    []proto
	h     hist
	ops   uint64
	bad   uint64
	rng   uint64
	seq   uint64
}

func (w *worker) next() uint64 {
	if *fSeq || *fFill {
		w.seq++
		return (w.seq*uint64(*fThreads)+uint64(w.id))%uint64(*fKeys) + 1
	}
	w.rng ^= w.rng << 13
	w.rng ^= w.rng >> 7
	w.rng ^= w.rng << 17
	return (w.rng>>11)%uint64(*fKeys) + 1
}

func die(f string, a ...any) { fmt.Fprintf(os.Stderr, "wireload: "+f+"\n", a...); os.Exit(1) }

func dial() net.Conn {
	c, err := mywire.Dial(*fAddr)
	if err != nil {
		die("%v", err)
	}
	return c
}

func (w *worker) send(c *conn, p proto, n int) {
	if n == 0 {
		return
	}
	out := c.out[:0]
	for i := 0; i < n; i++ {
		out = p.request(out, w.next())
	}
	t := nowns()
	for i := 0; i < n; i++ {
		c.sent[(c.head+c.inflight)%len(c.sent)] = t
		c.inflight++
	}
	c.out = out
	for len(out) > 0 {
		k, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)))
		if e == syscall.EAGAIN {
			// The socket is full: take answers in the meantime.
			runtime.Gosched()
			w.recv(c, p)
			continue
		}
		if e != 0 {
			die("write: %v", e)
		}
		out = out[k:]
	}
}

// recv reads what has arrived and returns how many answers were completed.
func (w *worker) recv(c *conn, p proto) int {
	total := 0
	for {
		if c.inN == len(c.in) {
			c.in = append(c.in, make([]byte, len(c.in))...)
		}
		room := len(c.in) - c.inN
		k, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&c.in[c.inN])), uintptr(room))
		if e == syscall.EAGAIN {
			return total
		}
		if e != 0 || k == 0 {
			die("read: closed or failed: %v", e)
		}
		c.inN += int(k)
		used, done, bad := p.parse(c, c.in[:c.inN])
		if used > 0 {
			copy(c.in, c.in[used:c.inN])
			c.inN -= used
		}
		if bad > 0 {
			w.bad += uint64(bad)
		}
		if done > 0 {
			t := nowns()
			m := measuring.Load()
			for i := 0; i < done; i++ {
				if m {
					w.h.add(uint64(t - c.sent[c.head]))
				}
				c.head = (c.head + 1) % len(c.sent)
			}
			c.inflight -= done
			if m {
				w.ops += uint64(done)
			}
			total += done
		}
		if int(k) < room {
			return total
		}
	}
}

func (w *worker) run(wg *sync.WaitGroup) {
	defer wg.Done()
	runtime.LockOSThread()
	ep, err := syscall.EpollCreate1(0)
	if err != nil {
		die("epoll: %v", err)
	}
	for i, c := range w.conns {
		ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
			die("epoll: %v", err)
		}
	}
	evs := make([]syscall.EpollEvent, 256)
	if *fFill {
		left := *fKeys / *fThreads
		fly := 0
		for i, c := range w.conns {
			n := min(*fDepth, left)
			w.send(c, w.ps[i], n)
			left -= n
			fly += n
		}
		for fly > 0 {
			n, _ := syscall.EpollWait(ep, evs, 1000)
			for i := 0; i < n; i++ {
				c, p := w.conns[evs[i].Fd], w.ps[evs[i].Fd]
				d := w.recv(c, p)
				fly -= d
				k := min(d, left)
				w.send(c, p, k)
				left -= k
				fly += k
			}
		}
		return
	}
	if *fRate > 0 {
		w.openLoop(ep, evs)
		return
	}
	for i, c := range w.conns {
		w.send(c, w.ps[i], *fDepth)
	}
	for !stop.Load() {
		n, _ := syscall.EpollWait(ep, evs, 100)
		for i := 0; i < n; i++ {
			c, p := w.conns[evs[i].Fd], w.ps[evs[i].Fd]
			w.send(c, p, w.recv(c, p))
		}
	}
}

// openLoop sends at a fixed rate; latency counts from the time a request was due.
func (w *worker) openLoop(ep int, evs []syscall.EpollEvent) {
	gap := int64(float64(*fThreads) * 1e9 / *fRate)
	due := nowns() + gap
	k := 0
	for !stop.Load() {
		for n := nowns(); due <= n; due += gap {
			sent := false
			for try := 0; try < len(w.conns); try++ {
				k = (k + 1) % len(w.conns)
				c := w.conns[k]
				if c.inflight < *fDepth {
					at := (c.head + c.inflight) % len(c.sent)
					w.send(c, w.ps[k], 1)
					c.sent[at] = due
					sent = true
					break
				}
			}
			if !sent {
				break
			}
		}
		ms := 0
		if d := due - nowns(); d > 2e6 {
			ms = 1
		}
		n, _ := syscall.EpollWait(ep, evs, ms)
		for i := 0; i < n; i++ {
			w.recv(w.conns[evs[i].Fd], w.ps[evs[i].Fd])
		}
	}
}

// cpu returns user and system seconds of a process.
func cpu(pid int) (u, s float64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		die("%v", err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	x, _ := strconv.ParseFloat(f[11], 64)
	y, _ := strconv.ParseFloat(f[12], 64)
	return x / 100, y / 100
}

type result struct {
	Name   string  `json:"name"`
	Op     string  `json:"op"`
	Conns  int     `json:"conns"`
	Depth  int     `json:"depth"`
	Ops    float64 `json:"ops_s"`
	CPU    float64 `json:"cpu_s_per_mop"`
	User   float64 `json:"user_s_per_mop"`
	Sys    float64 `json:"sys_s_per_mop"`
	Busy   float64 `json:"server_cores"`
	Loader float64 `json:"loader_cores"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
	P999   float64 `json:"p999_us"`
	Max    float64 `json:"max_us"`
	Bad    uint64  `json:"bad"`
	RSS    int     `json:"rss_kb"`
}
