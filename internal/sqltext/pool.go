package sqltext

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maxIdle is how long a connection may lie unused before it is replaced: shorter than the time after which firewalls and
// proxies commonly forget one.
const maxIdle = 4 * time.Minute

// Pool keeps connections to one server. At most its size are open at a time, idle ones included. It may be used by many
// goroutines. It has no goroutine of its own.
type Pool struct {
	cfg    *Config
	log    *slog.Logger
	tokens chan struct{} // one for each connection that may be in use
	closed chan struct{}

	mu   sync.Mutex
	idle []*Conn // the one put last is taken first; guarded by mu
	shut bool    // guarded by mu
}

// NewPool makes a pool of at most size connections, at least 1; it opens none yet. A nil logger means silence.
func NewPool(cfg *Config, size int, logger *slog.Logger) *Pool {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, log: logger, closed: make(chan struct{})}
	size = max(size, 1)
	p.tokens = make(chan struct{}, size)
	for range size {
		p.tokens <- struct{}{}
	}
	return p
}

// Get gives a connection, waiting for one to be put back when all are in use. It must be given back with Put. A
// connection that the server has closed meanwhile is replaced. The errors are ErrPoolClosed, the cause of ctx, and those
// of Dial.
func (p *Pool) Get(ctx context.Context) (*Conn, error) {
	select {
	case <-p.tokens:
	default:
		select {
		case <-p.tokens:
		case <-p.closed:
			return nil, ErrPoolClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a database connection: %w", context.Cause(ctx))
		}
	}
	for {
		c, err := p.takeIdle()
		if err != nil {
			p.tokens <- struct{}{}
			return nil, err
		}
		if c == nil {
			break
		}
		if time.Since(c.idle) < maxIdle && !c.Broken() && alive(c.raw) {
			return c, nil
		}
		p.log.Debug("database connection dropped", "id", c.id, "idle", time.Since(c.idle))
		c.Close()
	}
	c, err := Dial(ctx, p.cfg)
	if err != nil {
		p.tokens <- struct{}{}
		return nil, err
	}
	return c, nil
}

// takeIdle gives the connection that was put last, nil when there is none.
func (p *Pool) takeIdle() (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return nil, ErrPoolClosed
	}
	n := len(p.idle)
	if n == 0 {
		return nil, nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c, nil
}

// Put gives a connection back that Get gave. A broken one is dropped; so is every one after Close.
func (p *Pool) Put(c *Conn) {
	keep := false
	if !c.Broken() {
		c.idle = time.Now()
		p.mu.Lock()
		if !p.shut {
			p.idle = append(p.idle, c)
			keep = true
		}
		p.mu.Unlock()
	}
	if !keep {
		c.Close()
	}
	p.tokens <- struct{}{}
}

// Close closes the idle connections and makes Get fail; those in use are closed when they are put back. It does not wait
// and may be called more than once.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	if !p.shut {
		p.shut = true
		close(p.closed)
	}
	p.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}
