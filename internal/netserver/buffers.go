package netserver

import (
	"math/bits"
	"sync"
)

// bufferPool keeps buffers of sizes that are powers of two. Each class holds at most bufferClassBytes, so that a burst of
// large requests does not pin its memory for ever. It serves the slow paths only (incomplete requests, unsent answers,
// parked jobs), so one lock for each class is enough.
type bufferPool struct {
	classes [bufferClasses]bufferClass
}

type bufferClass struct {
	mu   sync.Mutex
	free [][]byte
}

const (
	minBufferBits    = 9  // 512 bytes
	maxBufferBits    = 20 // 1 MiB; larger ones are made and dropped
	bufferClasses    = maxBufferBits - minBufferBits + 1
	bufferClassBytes = 4 << 20
)

func bufferClassOf(size int) int {
	return max(bits.Len(uint(max(size, 1)-1))-minBufferBits, 0)
}

// get returns an empty buffer with room for at least size bytes.
func (p *bufferPool) get(size int) []byte {
	i := bufferClassOf(size)
	if i >= bufferClasses {
		return make([]byte, 0, size)
	}
	c := &p.classes[i]
	c.mu.Lock()
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free[n-1] = nil
		c.free = c.free[:n-1]
		c.mu.Unlock()
		return b
	}
	c.mu.Unlock()
	return make([]byte, 0, 1<<(i+minBufferBits))
}

// put takes a buffer that get gave, or that append made of one. The caller must not use it any more.
func (p *bufferPool) put(b []byte) {
	size := cap(b)
	if size < 1<<minBufferBits {
		return
	}
	i := bits.Len(uint(size)) - 1 - minBufferBits // the largest class that it can serve
	if i >= bufferClasses {
		return
	}
	c := &p.classes[i]
	c.mu.Lock()
	if (len(c.free)+1)<<(i+minBufferBits) <= bufferClassBytes {
		c.free = append(c.free, b[:0])
	}
	c.mu.Unlock()
}
