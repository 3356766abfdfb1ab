package netserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
		if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
			c.Close()
			if e == EngineGoroutine {
				t.Error("connections are accepted during a shutdown")
			}
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
