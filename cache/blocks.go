package cache

import (
	"runtime"
	"sync"
)

const (
	// Tables of more than 16 times blockBytes use blocks for their rows: smaller blocks would split more huge pages
	// (usually 2 MiB) when they are freed, larger ones would leave more rows in Go's heap.
	blockBytes  = 1 << 20
	regionBytes = 64 * blockBytes
	// lastBlockBytes is what the last block of a large blockArray begins with.
	lastBlockBytes = 64 << 10
)

// blockPool hands out blocks of blockBytes that lie outside of Go's heap, where the system allows that: the collector
// does not wait for as much garbage again before it runs, and large pages save the processor most of its address
// look-ups, which cost a random read in a large table more than the read itself. A block that comes back is given to the
// system at once and its addresses are used again. The address space goes when the pool is collected, so whoever holds
// a block holds the pool.
type blockPool struct {
	mu      sync.Mutex
	free    [][]byte
	inUse   int
	regions *regions
	ahead   *byte // where the block begins that was last fetched ahead
}

// regions is the address space of a pool.
type regions struct{ maps [][]byte }

func newBlockPool() *blockPool {
	p := &blockPool{regions: &regions{}}
	runtime.AddCleanup(p, func(r *regions) {
		for _, m := range r.maps {
			unmapRegion(m)
		}
	}, p.regions)
	return p
}

// get returns a block whose content is undefined.
func (p *blockPool) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse++
	if len(p.free) == 0 {
		m := mapRegion(regionBytes)
		if m == nil {
			return make([]byte, blockBytes)
		}
		p.regions.maps = append(p.regions.maps, m)
		for off := regionBytes - blockBytes; off >= 0; off -= blockBytes {
			p.free = append(p.free, m[off:off+blockBytes:off+blockBytes])
		}
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return b
}

// fetch has the system give its memory to the block that comes next, if any are in use: to be called beside what fills
// them, which would otherwise spend a third of its time on waiting for that.
func (p *blockPool) fetch() {
	p.mu.Lock()
	var next []byte
	if n := len(p.free); n > 0 && p.inUse > 0 && p.ahead != &p.free[n-1][0] {
		next = p.free[n-1]
		p.ahead = &next[0]
	}
	p.mu.Unlock()
	if next != nil {
		fetchBlock(next)
	}
}

// put takes back a block that get gave.
func (p *blockPool) put(b []byte) {
	forgetBlock(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
	p.free = append(p.free, b)
}

// outside returns the bytes of the blocks in use that are outside of Go's heap. Where the system can't give such memory
// it may be more than there is.
func (p *blockPool) outside() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(int64(p.inUse)*blockBytes, int64(len(p.regions.maps))*regionBytes)
}

// alloc returns size bytes, from the pool when that is the size of a block.
func (p *blockPool) alloc(size int) []byte {
	if size == blockBytes {
		return p.get()
	}
	return make([]byte, size)
}

// release gives up what alloc returned.
func (p *blockPool) release(b []byte) {
	if len(b) == blockBytes {
		p.put(b)
	}
}

// blockArray is memory that grows by blocks. All blocks have blockBytes but the last, which grows to that by doubling:
// small tables stay small, and no more than the last block is ever copied or half empty. What lies in it moves when it
// grows.
type blockArray struct {
	pool   *blockPool
	blocks [][]byte
}

// grow adds room; first is the size that the whole array begins with.
func (a *blockArray) grow(first int) {
	n := len(a.blocks)
	switch {
	case n == 0:
		a.blocks = append(a.blocks, make([]byte, first))
	case len(a.blocks[n-1]) == blockBytes:
		a.blocks = append(a.blocks, make([]byte, lastBlockBytes))
	default:
		last := a.blocks[n-1]
		grown := a.pool.alloc(min(2*len(last), blockBytes))
		copy(grown, last)
		a.blocks[n-1] = grown
	}
}

// size returns the bytes that there is room for.
func (a *blockArray) size() int64 {
	n := len(a.blocks)
	if n == 0 {
		return 0
	}
	return int64(n-1)*blockBytes + int64(len(a.blocks[n-1]))
}

// bytes returns the memory that the array holds.
func (a *blockArray) bytes() int64 { return a.size() + 24*int64(cap(a.blocks)) }

// reset gives up all memory.
func (a *blockArray) reset() {
	for _, b := range a.blocks {
		a.pool.release(b)
	}
	a.blocks = nil
}
