package testmysql

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Proxy is a TCP relay to a server that knows which of its connections is a replication stream: the one on which the
// client has asked for the log. Tests hurt that one at chosen bytes, and leave or hurt the others.
type Proxy struct {
	// DSN is the server's, by way of the proxy.
	DSN string
	// Down refuses new connections; Cut ends those that are there.
	Down atomic.Bool
	// Stalled holds back everything that streams bring.
	Stalled atomic.Bool
	// CutAfter is how many bytes of streams are still passed on before the stream is cut, in the middle of whatever is
	// being sent; negative for no cut. It is negative again after a cut. Reset makes the cut a reset in place of an end.
	CutAfter atomic.Int64
	Reset    atomic.Bool
	// PauseAfter is like CutAfter for a pause of PauseFor nanoseconds.
	PauseAfter, PauseFor atomic.Int64
	// Budget is how many bytes the server may still send, over all connections, until all are cut; 0 for no cut. It is 0
	// again after a cut.
	Budget atomic.Int64
	// Streamed counts the bytes that streams have brought, Cuts the cuts of CutAfter and Budget, Streams the streams that began.
	Streamed, Cuts, Streams atomic.Int64

	target   string
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool // true for streams; guarded by mu
}

// NewProxy starts a relay that ends with the test.
func NewProxy(t testing.TB, s Server) *Proxy {
	t.Helper()
	cfg, err := mysql.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: cfg.Addr, conns: map[net.Conn]bool{}}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	cfg.Addr = p.listener.Addr().String()
	p.DSN = cfg.FormatDSN()
	p.CutAfter.Store(-1)
	p.PauseAfter.Store(-1)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.listener.Close()
		p.Down.Store(true)
		p.Stalled.Store(false)
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut ends all connections.
func (p *Proxy) Cut() { p.cut(false) }

// CutStreams ends the streams.
func (p *Proxy) CutStreams() { p.cut(true) }

func (p *Proxy) cut(streams bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, stream := range p.conns {
		if stream || !streams {
			if p.Reset.Load() {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.Down.Load() {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = false, false
		p.mu.Unlock()
		stream := new(atomic.Bool)
		p.wg.Go(func() { p.relay(server, client, stream, false) })
		p.wg.Go(func() { p.relay(client, server, stream, true) })
	}
}

// The commands that ask for a log.
const (
	comBinlogDump     = 0x12
	comBinlogDumpGTID = 0x1e
)

func (p *Proxy) relay(to, from net.Conn, stream *atomic.Bool, down bool) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		b := buffer[:n]
		if !down && n > 4 && b[3] == 0 && (b[4] == comBinlogDump || b[4] == comBinlogDumpGTID) && !stream.Swap(true) {
			p.mu.Lock()
			p.conns[to], p.conns[from] = true, true
			p.mu.Unlock()
			p.Streams.Add(1)
		}
		if down && n > 0 && p.Budget.Load() > 0 {
			if left := p.Budget.Add(-int64(n)); left <= 0 {
				_, _ = to.Write(b[:int64(n)+left])
				p.Budget.Store(0)
				p.Cuts.Add(1)
				p.Cut()
				return
			}
		}
		if down && stream.Load() {
			b = p.hurt(to, b)
			if b == nil {
				return
			}
		}
		if len(b) > 0 {
			if _, werr := to.Write(b); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hurt does what is planned for these bytes of a stream. It returns what is left to pass on, nil when that is the end.
func (p *Proxy) hurt(to net.Conn, b []byte) []byte {
	for p.Stalled.Load() {
		time.Sleep(time.Millisecond)
	}
	if left := p.PauseAfter.Load(); left >= 0 {
		if p.PauseAfter.Store(left - int64(len(b))); int64(len(b)) > left {
			p.PauseAfter.Store(-1)
			if _, err := to.Write(b[:left]); err != nil {
				return nil
			}
			time.Sleep(time.Duration(p.PauseFor.Load()))
			p.Streamed.Add(left)
			b = b[left:]
		}
	}
	if left := p.CutAfter.Load(); left >= 0 && int64(len(b)) > 0 {
		if p.CutAfter.Store(left - int64(len(b))); int64(len(b)) > left {
			p.CutAfter.Store(-1)
			_, _ = to.Write(b[:left])
			p.Streamed.Add(left)
			p.Cuts.Add(1)
			p.CutStreams()
			return nil
		}
	}
	p.Streamed.Add(int64(len(b)))
	return b
}
