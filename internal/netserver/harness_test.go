package netserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
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
//	a MS TEXT     waits for MS milliseconds without a worker, then answers TEXT
//	w TEXT        answers TEXT from a worker, at once
//	limit N       sets the input limit
//	addr          answers the peer's address
//	quit, bad     end with ErrClose, with another error
//	panic, jobpanic, beginpanic
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
		case "a", "w":
			ms, text, _ := strings.Cut(arg, " ")
			n, _ := strconv.Atoi(ms)
			s.c.Await(func(ctx context.Context, resume func(bool, func(context.Context, []byte) []byte)) {
				s.served++ // a race if Serve could run meanwhile
				answer := func(_ context.Context, out []byte) []byte { return append(append(out, text...), '\n') }
				if cmd == "w" {
					text = arg
					resume(false, answer)
					return
				}
				time.AfterFunc(time.Duration(n)*time.Millisecond, func() { resume(true, answer) })
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
		case "beginpanic":
			s.c.Await(func(context.Context, func(bool, func(context.Context, []byte) []byte)) {
				panic("asked for, in a beginning")
			})
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
	// The runtime's own poller keeps descriptors from its first use on.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
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
