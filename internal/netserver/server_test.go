package netserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lineProtocol is a small protocol that can do everything a session may do:
//
//	e TEXT        answers TEXT
//	b N           answers N bytes
//	p MS TEXT     parks for MS milliseconds, then answers TEXT ("gone" when its context ended)
//	limit N       sets the input limit
//	addr          answers the peer's address
//	quit, bad     end with ErrClose, with another error
//	panic, jobpanic
type lineProtocol struct {
	open, closed atomic.Int64
	cancelled    atomic.Int64
	waiting      atomic.Int64
}

type lineSession struct {
	p      *lineProtocol
	c      Conn
	served int
}

func (p *lineProtocol) NewSession(c Conn) Session {
	p.open.Add(1)
	return &lineSession{p: p, c: c}
}

func (s *lineSession) Close() {
	s.p.open.Add(-1)
	s.p.closed.Add(1)
}

func (s *lineSession) Serve(in []byte) (int, error) {
	out, taken := s.c.Out(), 0
	defer func() { s.c.SetOut(out) }()
	for len(out) < s.c.OutputLimit() {
		i := bytes.IndexByte(in[taken:], '\n')
		if i < 0 {
			return taken, nil
		}
		line := string(in[taken : taken+i])
		taken += i + 1
		s.served++
		cmd, arg, _ := strings.Cut(line, " ")
		switch cmd {
		case "e":
			out = append(append(out, arg...), '\n')
		case "b":
			n, _ := strconv.Atoi(arg)
			out = append(append(out, bytes.Repeat([]byte{'x'}, n)...), '\n')
		case "p":
			ms, text, _ := strings.Cut(arg, " ")
			n, _ := strconv.Atoi(ms)
			s.c.Park(func(ctx context.Context, out []byte) []byte {
				if len(out) != 0 {
					panic("a job's buffer is not empty")
				}
				s.served++ // a race if Serve could run meanwhile
				s.p.waiting.Add(1)
				defer s.p.waiting.Add(-1)
				select {
				case <-time.After(time.Duration(n) * time.Millisecond):
				case <-ctx.Done():
					s.p.cancelled.Add(1)
					text = "gone"
				}
				return append(append(out, text...), '\n')
			})
			return taken, nil
		case "limit":
			n, _ := strconv.Atoi(arg)
			s.c.SetInputLimit(n)
			out = append(out, "ok\n"...)
		case "addr":
			out = append(append(out, s.c.RemoteAddr()...), '\n')
		case "quit":
			out = append(out, "bye\n"...)
			return taken, ErrClose
		case "bad":
			out = append(out, "sorry\n"...)
			return taken, errors.New("bad request")
		case "panic":
			panic("asked for")
		case "jobpanic":
			s.c.Park(func(context.Context, []byte) []byte { panic("asked for, in a job") })
			return taken, nil
		default:
			out = append(out, "?\n"...)
		}
	}
	return taken, nil
}

// syncBuffer is a log sink for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

type testServer struct {
	*Server
	t     *testing.T
	proto *lineProtocol
	log   *syncBuffer
	ended chan error
}

// start runs a server that is shut down, and checked for leaks, when the test ends.
func start(t *testing.T, cfg Config) *testServer {
	t.Helper()
	goroutines, fds := runtime.NumGoroutine(), openFDs(t)
	ts := &testServer{t: t, proto: &lineProtocol{}, log: &syncBuffer{}, ended: make(chan error, 1)}
	cfg.Protocol = ts.proto
	cfg.Logger = slog.New(slog.NewTextHandler(ts.log, nil))
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts.Server = s
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ts.ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ts.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		st := s.Stats()
		if st.Open != 0 || st.Parking != 0 || ts.proto.open.Load() != 0 {
			t.Errorf("after the end: %+v, %d sessions open", st, ts.proto.open.Load())
		}
		var closed uint64
		for _, n := range st.Closed {
			closed += n
		}
		if closed != st.Accepted {
			t.Errorf("%d connections accepted, %d closed: %v", st.Accepted, closed, st.Closed)
		}
		waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
		waitFor(t, "descriptors to be closed", func() bool { return openFDs(t) <= fds })
	})
	return ts
}

func openFDs(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("waited in vain for %s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (s *testServer) dial() *client {
	s.t.Helper()
	a := s.Addr()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return &client{c, s.t, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// stream sends from a goroutine of its own.
func (c *client) stream(text string) {
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Error(err)
	}
}

func (c *client) expect(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		got, err := c.r.ReadString('\n')
		if got != want+"\n" {
			c.t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

func (c *client) expectEnd() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 || err != nil {
		c.t.Fatalf("got %q, %v; want the end", rest, err)
	}
}

// engines runs a test on every engine that the system has.
func engines(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Helper()
	for _, e := range []Engine{EngineEpoll, EngineGoroutine} {
		if e == EngineEpoll && !epollSupported {
			continue
		}
		t.Run(e.String(), func(t *testing.T) { test(t, e) })
	}
}

func TestSplitAndPipelined(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 2})
		c := s.dial()
		req := "e one\ne two\np 1 three\ne four\np 0 five\n\ne seven\n"
		want := []string{"one", "two", "three", "four", "five", "?", "seven"}
		c.send(req)
		c.expect(want...)
		for cut := range req {
			c.send(req[:cut])
			time.Sleep(100 * time.Microsecond)
			c.send(req[cut:])
			c.expect(want...)
		}
		for i := range req {
			c.send(req[i : i+1])
		}
		c.expect(want...)
		c.send("addr\n")
		c.expect(c.LocalAddr().String())
	})
}

func TestManyClientsAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 3, Workers: 4})
		var wg sync.WaitGroup
		for i := range 30 {
			c := s.dial()
			wg.Go(func() {
				var want []string
				var req strings.Builder
				for j := range 200 {
					if j%20 == i%20 {
						fmt.Fprintf(&req, "p 1 %d-%d\n", i, j)
					} else {
						fmt.Fprintf(&req, "e %d-%d\n", i, j)
					}
					want = append(want, fmt.Sprintf("%d-%d", i, j))
				}
				c.stream(req.String())
				for _, w := range want {
					if got, err := c.r.ReadString('\n'); got != w+"\n" {
						t.Errorf("got %q, %v; want %q", got, err, w)
						return
					}
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.Parked != 300 || st.Panics != 0 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestParkedConnectionsDoNotHoldUpOthers(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 1, Workers: 2})
		slow := make([]*client, 6)
		for i := range slow {
			slow[i] = s.dial()
			slow[i].send("p 150 slow\ne after\n")
		}
		waitFor(t, "parked requests", func() bool { return s.Stats().Parking == 6 })
		if n := s.proto.waiting.Load(); n > 2 {
			t.Errorf("%d jobs run at the same time, 2 allowed", n)
		}
		begin := time.Now()
		quick := s.dial()
		for range 20 {
			quick.send("e quick\n")
			quick.expect("quick")
		}
		if d := time.Since(begin); d > 120*time.Millisecond {
			t.Errorf("others waited %v behind parked requests", d)
		}
		for _, c := range slow {
			c.expect("slow", "after")
		}
	})
}

func TestInputWaitsWhileParked(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		c := s.dial()
		c.send("p 100 first\n")
		waitFor(t, "the parked request", func() bool { return s.Stats().Parking == 1 })
		before := s.Stats().BytesIn
		var want []string
		for range 30_000 {
			want = append(want, "yyyyyyyyyy")
		}
		c.send(strings.Repeat("e yyyyyyyyyy\n", len(want)))
		if in := s.Stats().BytesIn; in != before && s.Stats().Parking == 1 {
			t.Errorf("%d bytes were read while parked", in-before)
		}
		c.expect("first")
		c.expect(want...)
	})
}

func TestClientThatNeverReads(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxOutput: 64 << 10, WriteTimeout: 300 * time.Millisecond})
		c := s.dial()
		go func() { // until the server closes
			for {
				if _, err := io.WriteString(c, "b 20000\n"); err != nil {
					return
				}
			}
		}()
		other := s.dial()
		waitFor(t, "the slow client to be closed", func() bool { return s.Stats().Closed["slow_client"] == 1 })
		other.send("e still here\n")
		other.expect("still here")
		// What was taken in is bounded by what could be answered: the kernel's buffers and ours.
		if in := s.Stats().BytesIn; in > 64<<10+readSize {
			t.Errorf("%d bytes of requests were read from a client that reads nothing", in)
		}
	})
}

func TestSlowReaderGetsEverything(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxOutput: 128 << 10, WriteTimeout: time.Second})
		c := s.dial()
		const n, size = 300, 40_000 // 12 MB, more than the kernel holds
		go c.stream(strings.Repeat("b "+strconv.Itoa(size)+"\n", n) + "p 1 end\nquit\n")
		total, buf := 0, make([]byte, 100_000)
		for total < n*(size+1) {
			m, err := c.Read(buf[:min(len(buf), n*(size+1)-total)])
			if err != nil {
				t.Fatal(err)
			}
			total += m
			time.Sleep(time.Millisecond)
		}
		c.expect("end", "bye")
		c.expectEnd()
	})
}

func TestOneLargeAnswerAndRequest(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxInput: 8 << 20})
		c := s.dial()
		text := strings.Repeat("0123456789", 400_000)
		go c.stream("e " + text + "\ne small\n")
		c.expect(text, "small")
		go c.stream("p 0 " + text + "\ne small\n")
		c.expect(text, "small")
	})
}

func TestInputLimit(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxInput: 1000})
		c := s.dial()
		c.send("limit 100000\n")
		c.expect("ok")
		text := strings.Repeat("z", 90_000)
		c.send("e " + text + "\n")
		c.expect(text)
		c.send(strings.Repeat("y", 300_000))
		c.expectEnd()
		_ = c.Close()
		waitFor(t, "the cause to be counted", func() bool { return s.Stats().Closed["input_limit"] == 1 })
	})
}

func TestEnds(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		bystander := s.dial()
		bystander.send("e hello\n")
		bystander.expect("hello")
		for _, tc := range []struct{ send, cause, log string }{
			{"quit\n", "session", ""},
			{"bad\n", "protocol", "bad request"},
			{"panic\n", "panic", "asked for"},
			{"jobpanic\n", "panic", "asked for, in a job"},
		} {
			c := s.dial()
			c.send("e before\n" + tc.send + "e never served\n" + strings.Repeat("e more\n", 1000))
			c.expect("before")
			switch tc.send {
			case "quit\n":
				c.expect("bye")
			case "bad\n":
				c.expect("sorry")
			}
			c.expectEnd()
			_ = c.Close()
			waitFor(t, tc.cause, func() bool { return s.Stats().Closed[tc.cause] > 0 })
			if !strings.Contains(s.log.String(), tc.log) {
				t.Errorf("%q: log %q", tc.send, s.log.String())
			}
		}
		waitFor(t, "the panics to be counted", func() bool { st := s.Stats(); return st.Panics == 2 && st.Closed["panic"] == 2 })
		if !strings.Contains(s.log.String(), "lineSession") {
			t.Error("no stack in the log")
		}
		bystander.send("e still here\n")
		bystander.expect("still here")
	})
}

func TestHalfClosedClientGetsItsAnswers(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		c := s.dial()
		c.send("e one\np 50 two\ne three\nincomplete")
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.expect("one", "two", "three")
		c.expectEnd()
	})
}

func TestIdleTimeout(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, IdleTimeout: 100 * time.Millisecond})
		idle, parked := s.dial(), s.dial()
		parked.send("p 250 done\n")
		parked.expect("done") // a parked connection is not idle
		idle.expectEnd()
		waitFor(t, "both to be closed", func() bool { return s.Stats().Closed["idle"] == 2 })
	})
}

func TestConnectionLimit(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxConns: 2, Refusal: []byte("full\n")})
		a, b := s.dial(), s.dial()
		for _, c := range []*client{a, b} {
			c.send("e in\n")
			c.expect("in")
		}
		c := s.dial()
		c.expect("full")
		c.expectEnd()
		_ = a.Close()
		waitFor(t, "room", func() bool { return s.Stats().Open == 1 })
		d := s.dial()
		d.send("e in\n")
		d.expect("in")
		if n := s.Stats().Closed["connection_limit"]; n != 1 {
			t.Errorf("%d refused", n)
		}
	})
}

func TestOpenAndCloseThousands(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 2})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 250 {
					c, err := net.Dial("tcp", s.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					switch i % 4 {
					case 0: // leaves without a word
					case 1:
						fmt.Fprint(c, "e hi\n")
						if got, err := bufio.NewReader(c).ReadString('\n'); got != "hi\n" {
							t.Errorf("got %q, %v", got, err)
						}
					case 2:
						fmt.Fprint(c, "p 1 gone soon\n") // leaves while parked
					case 3:
						_ = c.(*net.TCPConn).SetLinger(0) // resets
						fmt.Fprint(c, "e hi\nb 100000\n")
					}
					_ = c.Close()
				}
			})
		}
		wg.Wait()
		waitFor(t, "all to be closed", func() bool { return s.Stats().Open == 0 && s.proto.closed.Load() == 2000 })
	})
}

func TestVanishedClientEndsItsJob(t *testing.T) {
	if !epollSupported {
		t.Skip("the goroutine engine notices when the job has ended")
	}
	s := start(t, Config{Engine: EngineEpoll})
	c := s.dial()
	c.send("p 60000 never\n")
	waitFor(t, "the parked request", func() bool { return s.proto.waiting.Load() == 1 })
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	waitFor(t, "the job to be cancelled", func() bool { return s.proto.cancelled.Load() == 1 })
	waitFor(t, "the session to end", func() bool { return s.proto.closed.Load() == 1 })
}

func TestShutdownAnswersWhatWasReceived(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 2})
		idle, parked, reading := s.dial(), s.dial(), s.dial()
		idle.send("e x\n")
		idle.expect("x")
		parked.send("p 150 one\np 50 two\ne three\n")
		reading.send("b 8000000\n")
		waitFor(t, "the requests", func() bool { return s.Stats().Parking == 1 && s.Stats().BytesIn >= 40 })
		done := make(chan error)
		go func() { done <- s.Shutdown(t.Context()) }()
		idle.expectEnd()
		if _, err := net.Dial("tcp", s.Addr().String()); err == nil && e == EngineGoroutine {
			t.Error("connections are accepted during a shutdown")
		}
		parked.expect("one", "two", "three")
		parked.expectEnd()
		reading.expect(strings.Repeat("x", 8_000_000))
		reading.expectEnd()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestShutdownIsBounded(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		stuck, unread := s.dial(), s.dial()
		stuck.send("p 60000 never\n")
		unread.send("b 50000000\n")
		waitFor(t, "the requests", func() bool { return s.proto.waiting.Load() == 1 && s.Stats().BytesOut > 0 })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("it took %v", d)
		}
		if n := s.proto.cancelled.Load(); n != 1 {
			t.Errorf("%d jobs cancelled", n)
		}
	})
}

func TestContextCutsConnections(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		p := &lineProtocol{}
		s, err := New(Config{Listen: "127.0.0.1:0", Protocol: p, Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "p 60000 never\n")
		waitFor(t, "the job", func() bool { return p.waiting.Load() == 1 })
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if p.open.Load() != 0 {
			t.Error("a session is left")
		}
	})
}

func TestShutdownWithoutRun(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		fds := openFDs(t)
		s, err := New(Config{Listen: "127.0.0.1:0", Protocol: &lineProtocol{}, Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if n := openFDs(t); n > fds {
			t.Errorf("%d descriptors before, %d after", fds, n)
		}
	})
}

func TestUnixSocket(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		path := filepath.Join(t.TempDir(), "s")
		s := start(t, Config{Engine: e, Listen: "unix:" + path})
		c := s.dial()
		c.send("e hi\naddr\np 1 parked\n")
		c.expect("hi", "unix", "parked")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		second, err := New(Config{Listen: "unix:" + path, Option: "--memcached", Protocol: s.proto})
		if err != nil {
			t.Fatal(err)
		}
		err = second.Listen(t.Context())
		if want := "listen on unix:" + path + " (--memcached): address already in use"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("second listener: %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket file is still there: %v", err)
		}
	})
}

func TestStaleUnixSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill -9
	_ = l.Close()
	s := start(t, Config{Listen: "unix:" + path, SocketMode: 0o600})
	c := s.dial()
	c.send("e hi\n")
	c.expect("hi")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ listen, want string }{
		{addr, "listen on " + addr + " (--opt): address already in use: another program listens there; stop it or choose another address"},
		{"unix:" + file, "listen on unix:" + file + " (--opt): the file exists and is no socket"},
		{"unix:", "listen on unix: (--opt): no path after unix"},
		{"nonsense", "listen on nonsense (--opt): address nonsense: missing port in address"},
	} {
		s, err := New(Config{Listen: tc.listen, Option: "--opt", Protocol: &lineProtocol{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || err.Error() != tc.want {
			t.Errorf("%s: got %v, want %s", tc.listen, err, tc.want)
		}
	}
}

func TestNewChecks(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Listen: "127.0.0.1:0"},
		{Listen: "127.0.0.1:0", Protocol: &lineProtocol{}, Engine: 77},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
