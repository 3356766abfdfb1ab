package app

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/headroom"
)

const (
	// gcPercent keeps the heap's head room small: what is on it are mostly rows and indexes, which hold no pointers and cost
	// the collector next to nothing. A GOGC in the environment counts more.
	gcPercent = 25
	// heapRoom is what the process may take besides --memory and a quarter of it: connections, buffers, rows on their way.
	heapRoom = 24 << 20
	// heapLimitEvery is how often the collector is told how much of that is left to Go's heap.
	heapLimitEvery = 250 * time.Millisecond
	// heapLimitStep is the least change that is worth telling.
	heapLimitStep = 1 << 20
)

// tableMemory is what tables have of --memory.
func tableMemory(cfg *config.Serve) int64 {
	if cfg.Memcached.Off() {
		return int64(cfg.Memory)
	}
	return int64(cfg.Memory - cfg.MemcachedMemory)
}

// transactionBytes is what is kept of one transaction until its end, beside what is cached.
func transactionBytes(memory int64) int64 { return min(max(memory/4, 4<<20), 64<<20) }

// limitHeap makes the collector keep the whole process within --memory, a quarter of it, and heapRoom. What rows and
// indexes take outside of Go's heap is not the collector's to count, so it gets what they leave. It is a goal and no wall: where
// more is live the collector takes up to half of the processors' time, and the heap grows. A GOMEMLIMIT in the environment
// counts more. It is for a process that is this daemon and nothing else, and runs until ctx ends.
func (d *daemon) limitHeap(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	defer debug.SetMemoryLimit(math.MaxInt64)
	all := int64(d.cfg.Memory) + int64(d.cfg.Memory)/4 + heapRoom
	guard := heapGuard{most: func() int64 { return all - heapOverhead - d.store.OutsideHeap() }}
	headroom.Set(guard.want)
	defer headroom.Set(nil)
	for told := int64(0); ; {
		if left := all - d.store.OutsideHeap(); max(left-told, told-left) >= heapLimitStep {
			debug.SetMemoryLimit(left)
			told = left
		}
		if !pause(ctx, heapLimitEvery) {
			return
		}
	}
}

// heapOverhead is what Go's runtime takes besides the objects on its heap.
const heapOverhead = 16 << 20

// heapGuard runs the garbage collector before large buffers are made for which there is no room.
type heapGuard struct {
	most func() int64 // that objects on the heap may take
	mu   sync.Mutex
}

func (c *heapGuard) want(n int) {
	if c.full(n) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.full(n) { // and nobody has collected meanwhile
			runtime.GC()
		}
	}
}

func (c *heapGuard) full(n int) bool {
	objects := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(objects)
	return int64(objects[0].Value.Uint64())+int64(n) > c.most()
}
