package netserver

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

func TestServingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	engines(t, func(t *testing.T, e Engine) {
		proto := &constProtocol{}
		s, err := New(Config{Listen: "127.0.0.1:0", Protocol: proto, Engine: e, IdleTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context()) }()
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		req, answer := []byte("0123456789"), make([]byte, 4)
		if n := testing.AllocsPerRun(2000, func() {
			if _, err := c.Write(req); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, answer); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("%v allocations a request", n)
		}
		_ = c.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// constProtocol answers four bytes to every ten.
type constProtocol struct{}

type constSession struct{ c Conn }

func (constProtocol) NewSession(c Conn) Session { return constSession{c} }

func (s constSession) Serve(in []byte) (int, error) {
	n := len(in) / 10
	out := s.c.Out()
	for range n {
		out = append(out, "four"...)
	}
	s.c.SetOut(out)
	return n * 10, nil
}

func (constSession) Close() {}

func TestBufferPool(t *testing.T) {
	var p bufferPool
	for _, size := range []int{0, 1, 511, 512, 513, 4096, 70_000, 1 << 20, 1<<20 + 1} {
		b := p.get(size)
		if len(b) != 0 || cap(b) < size || cap(b) > max(2*size, 512) {
			t.Errorf("get(%d): length %d, capacity %d", size, len(b), cap(b))
		}
		p.put(append(b, make([]byte, size)...))
		if again := p.get(size); size <= 1<<20 && &again[:1][0] != &b[:1][0] {
			t.Errorf("get(%d) did not use the buffer that was put back", size)
		}
	}
	// A buffer that has grown oddly serves the class below.
	p.put(make([]byte, 0, 3000))
	if b := p.get(2048); cap(b) != 3000 {
		t.Errorf("capacity %d", cap(b))
	}
	for range 10 * bufferClassBytes / 65536 {
		p.put(make([]byte, 0, 65536))
	}
	if n := len(p.classes[bufferClassOf(65536)].free) * 65536; n > bufferClassBytes {
		t.Errorf("a class keeps %d bytes", n)
	}
}

func TestWorkers(t *testing.T) {
	w := workers{max: 3}
	var running, worst, done atomic.Int64
	release := make(chan struct{})
	for range 50 {
		w.run(func() {
			if n := running.Add(1); n > worst.Load() {
				worst.Store(n)
			}
			<-release
			running.Add(-1)
			done.Add(1)
		})
	}
	close(release)
	w.wait()
	if done.Load() != 50 || worst.Load() > 3 || w.running != 0 || w.first != nil || w.last != nil {
		t.Errorf("%d done, at most %d at a time", done.Load(), worst.Load())
	}
}
