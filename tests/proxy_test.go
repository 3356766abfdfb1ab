package tests

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// proxy is a TCP relay between the daemon and its source, which tests cut.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
	// budget is the number of bytes from the server after which all connections are cut; 0 or less: no cut is planned.
	budget atomic.Int64
	cuts   atomic.Int64
	down   atomic.Bool
}

func newProxy(t *testing.T, s testmysql.Server) (p *proxy, dsn string) {
	t.Helper()
	before, rest, ok := strings.Cut(s.DSN, "tcp(")
	address, after, ok2 := strings.Cut(rest, ")")
	if !ok || !ok2 {
		t.Fatalf("no TCP address in the DSN of the %s server", s.Flavor)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{listener: l, target: address, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.down.Store(true)
		p.cut()
		p.wg.Wait()
	})
	return p, before + "tcp(" + l.Addr().String() + ")" + after
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.down.Load() {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.relay(server, client, nil) })
		p.wg.Go(func() { p.relay(client, server, &p.budget) })
	}
}

// relay copies until one side ends, or the budget is used up: then every connection is cut, in the middle of what was
// being sent.
func (p *proxy) relay(to, from net.Conn, budget *atomic.Int64) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if n > 0 && budget != nil && budget.Load() > 0 {
			if left := budget.Add(-int64(n)); left <= 0 {
				_, _ = to.Write(buffer[:int64(n)+left])
				budget.Store(0)
				p.cut()
				return
			}
		}
		if n > 0 {
			if _, werr := to.Write(buffer[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			if err != io.EOF {
				_ = to.(*net.TCPConn).SetLinger(0)
			}
			to.Close()
			from.Close()
			p.mu.Lock()
			delete(p.conns, to)
			delete(p.conns, from)
			p.mu.Unlock()
			return
		}
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.cuts.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// cutAfter plans a cut after n more bytes from the server.
func (p *proxy) cutAfter(n int64) { p.budget.Store(n) }
