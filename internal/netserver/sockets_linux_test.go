package netserver

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// optionProtocol looks at the socket of its connection.
type optionProtocol struct {
	constProtocol
	noDelay, keepAlive atomic.Int64
}

func (p *optionProtocol) NewSession(c Conn) Session {
	fd := c.(*epollConn).fd
	v, _ := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY)
	p.noDelay.Store(int64(v))
	v, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
	p.keepAlive.Store(int64(v))
	return p.constProtocol.NewSession(c)
}

func TestAcceptedSocketsInheritTheirOptions(t *testing.T) {
	p := &optionProtocol{}
	s, err := New(Config{Listen: "127.0.0.1:0", Protocol: p, Engine: EngineEpoll})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Run(t.Context()) }()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waitFor(t, "the options", func() bool { return p.noDelay.Load() == 1 && p.keepAlive.Load() == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNoDescriptorsLeft(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		first := s.dial()
		first.send("e in\n")
		first.expect("in")
		var old unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		// The limit is on the number of the next descriptor; the lowest free one goes to the dialling side.
		next, err := unix.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(next)
		tight := old
		tight.Cur = uint64(next + 1)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &tight); err != nil {
			t.Fatal(err)
		}
		restored := false
		restore := func() {
			if !restored {
				restored = true
				if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
					t.Error(err)
				}
			}
		}
		defer restore()
		c := s.dial()
		waitFor(t, "a failure to accept", func() bool { return s.Stats().AcceptErrors > 0 })
		time.Sleep(300 * time.Millisecond)
		if n := s.Stats().AcceptErrors; n > 10 {
			t.Errorf("%d attempts in 0.3 s", n)
		}
		first.send("e still served\n")
		first.expect("still served")
		restore()
		c.send("e late\n")
		c.expect("late")
	})
}
