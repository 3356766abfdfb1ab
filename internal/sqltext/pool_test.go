package sqltext

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

func get(t testing.TB, p *Pool) *Conn {
	t.Helper()
	c, err := p.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPool(t *testing.T) {
	each(t, func(t *testing.T, s testmysql.Server) {
		p := NewPool(config(t, s), 2, nil)
		defer p.Close()
		a, b := get(t, p), get(t, p)

		// The third waits, as long as its context lets it.
		cause := errors.New("waited enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
		if _, err := p.Get(ctx); !errors.Is(err, cause) {
			t.Errorf("full pool: %v", err)
		}
		cancel()
		got := make(chan *Conn)
		go func() {
			c, err := p.Get(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		id := a.ID()
		p.Put(a)
		c := <-got
		if c.ID() != id {
			t.Errorf("connection %d, want the one put back, %d", c.ID(), id)
		}

		// A broken one is not given again, and makes room.
		c.Close()
		p.Put(c)
		if c = get(t, p); c.ID() == id || c.Broken() {
			t.Errorf("got the broken connection back")
		}

		// Nor is one that the server closed while it was idle.
		if err := b.Exec(t.Context(), fmt.Sprintf("KILL CONNECTION %d", c.ID())); err != nil {
			t.Fatal(err)
		}
		id = c.ID()
		p.Put(c)
		time.Sleep(100 * time.Millisecond) // the server's last word arrives
		if c = get(t, p); c.ID() == id {
			t.Error("got the killed connection back")
		}
		if got := rows(t, c, "SELECT 1"); fmt.Sprint(got) != "[1]" {
			t.Errorf("rows %q", got)
		}

		// Close: idle ones at once, those in use when they come back, nobody waits for ever.
		p.Put(c)
		waiting := make(chan error)
		taken := get(t, p)
		go func() {
			_, err := p.Get(t.Context())
			waiting <- err
		}()
		time.Sleep(20 * time.Millisecond)
		p.Close()
		p.Close()
		if err := <-waiting; !errors.Is(err, ErrPoolClosed) {
			t.Errorf("waiting at Close: %v", err)
		}
		if taken.Broken() {
			t.Error("Close broke a connection in use")
		}
		p.Put(taken)
		p.Put(b)
		if !taken.Broken() || !b.Broken() {
			t.Error("connections stay open after Close")
		}
		if _, err := p.Get(t.Context()); !errors.Is(err, ErrPoolClosed) {
			t.Errorf("Get after Close: %v", err)
		}
	})
}

func TestPoolFailedDialGivesItsPlaceBack(t *testing.T) {
	p := NewPool(&Config{Network: "tcp", Address: "127.0.0.1:1"}, 1, nil)
	defer p.Close()
	for range 3 {
		if _, err := p.Get(t.Context()); !IsConnectionError(err) {
			t.Fatalf("Get: %v", err)
		}
	}
}

func TestPoolBound(t *testing.T) {
	s := testmysql.Servers(t)[0]
	const size = 3
	p := NewPool(config(t, s), size, nil)
	defer p.Close()
	var used, most atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for range 20 {
				c, err := p.Get(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				n := used.Add(1)
				for {
					m := most.Load()
					if n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				if err := c.Exec(t.Context(), "DO 1"); err != nil {
					t.Error(err)
				}
				if i == 0 {
					c.Close()
				}
				used.Add(-1)
				p.Put(c)
			}
		})
	}
	wg.Wait()
	if most.Load() > size {
		t.Errorf("%d connections in use at a time, want at most %d", most.Load(), size)
	}
}
