package writeback

import (
	"sync"
	"sync/atomic"
	"time"
)

// recent remembers for a while what has happened to some keys.
type recent[K comparable] struct {
	ttl time.Duration

	n  atomic.Int64 // of keys; there are none most of the time
	mu sync.Mutex
	at map[K]time.Time // no more than maxRecent
}

func (r *recent[K]) add(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || len(r.at) >= maxRecent {
		r.at = map[K]time.Time{}
	}
	r.at[key] = time.Now()
	r.n.Store(int64(len(r.at)))
}

func (r *recent[K]) has(key K) bool {
	if r.n.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[key]
	if ok && time.Since(at) >= r.ttl {
		delete(r.at, key)
		r.n.Store(int64(len(r.at)))
		return false
	}
	return ok
}
