package cache

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/binlogcache/binlogcache/internal/item"
)

// An item lies in the log as
//
//	cas u64, expiry u32, last use u32, flags u32, length of the value u32, length of the key u8, bits u8, key, value
//
// Times are Unix times; an expiry of 0 is never.
const (
	itemHead     = 26
	itemExpiry   = 8
	itemUsed     = 12
	itemFlags    = 16
	itemValueLen = 20
	itemKeyLen   = 24
	itemBits     = 25
)

// The bits of an item.
const (
	itemUse     = 1 << 0 // it was used since it was written or the eviction has looked at it
	itemFetched = 1 << 2 // there was a fetch
	itemStale   = 1 << 3 // the value is out of date
	itemSent    = 1 << 4 // somebody was told to compute it anew
	itemBinary  = 1 << 5 // its key came in base64
	itemDead    = 1 << 7 // it is in the table no longer
)

// The queues of a shard: new items go to the small one, and on to the main one when they were used before their turn
// came.
const (
	queueSmall = iota
	queueMain
	queueCount
	// smallShare is the part of the memory that the small queue keeps when the store is full: 1/smallShare.
	smallShare = 10
	// deadShare: the dead bytes are made use of before a live item is given up, once they are 1/deadShare.
	deadShare = 8
	// ownItemShare: an item larger than this share of a chunk gets a chunk of its own.
	ownItemShare = 4
	// patience is how many chunks in turn may be passed on without a gain before use is no longer asked for.
	patience = 8
)

// A slot of the table: 28 bits of the key's hash, the chunk (16 bits, from 1), the offset there (20 bits). 0 is empty.
// The hash decides the place, so a table grows without a look at the items.
const (
	itemHashBits  = 28
	itemHashShift = 36
	itemChunkBits = 16
	itemOffBits   = 20
	firstSlots    = 16
)

type itemSlot uint64

func (w itemSlot) hash() uint64  { return uint64(w >> itemHashShift) }
func (w itemSlot) chunk() uint32 { return uint32(w>>itemOffBits) & (1<<itemChunkBits - 1) }
func (w itemSlot) off() int      { return int(w & (1<<itemOffBits - 1)) }

// itemChunk is a piece of the log.
type itemChunk struct {
	buf        []byte
	used, dead int
	prev, next uint32 // in its queue: older, newer; 0 for none
	queue      uint8
	sealed     bool
	own        bool // holds one large item
}

// itemQueue is a list of chunks by age. Its newest is the one that is being filled, unless that is sealed.
type itemQueue struct {
	oldest, newest uint32
	bytes          int
}

// itemShard is a part of an Items with the keys of some hashes. Everything of it is protected by mu.
type itemShard struct {
	mu    sync.Mutex
	items *Items
	epoch uint32 // of the last flush that it has followed

	slots []itemSlot
	shift uint // a slot's hash, shifted by this, is its place
	count int

	chunks []itemChunk // 0 is not used
	free   []uint32    // unused places in chunks
	queues [queueCount]itemQueue
	bytes  int // of all chunks
	dead   int // bytes of dead items in sealed chunks
	sweep  uint32
	expiry bool // some items have one
	// sweepDue asks the next call for a sweep: one in the midst of a call could take away what that holds.
	sweepDue bool
	// ghost remembers what was evicted from the small queue: fingerprints by hash, older ones are overwritten.
	ghost []uint32

	stats itemShardStats

	// What is written for the call at hand.
	view   item.View
	digits [maxNumberBytes]byte
}

type itemShardStats struct {
	total, evictions, evictedUnfetched, expiredUnfetched, reclaimed uint64
	live                                                            int // bytes of items
}

func slotHash(h uint64) uint64 { return h >> 16 & (1<<itemHashBits - 1) }

// find returns the item of key and its place in the table; nil when there is none.
func (s *itemShard) find(h uint64, key []byte) (place int, e []byte) {
	if len(s.slots) == 0 {
		return -1, nil
	}
	want := slotHash(h)
	mask := len(s.slots) - 1
	for i := int(want >> s.shift); ; i = (i + 1) & mask {
		w := s.slots[i]
		if w == 0 {
			return -1, nil
		}
		if w.hash() != want {
			continue
		}
		e := s.chunks[w.chunk()].buf[w.off():]
		if int(e[itemKeyLen]) == len(key) && bytes.Equal(e[itemHead:itemHead+len(key)], key) {
			return i, e
		}
	}
}

// findAt returns the place in the table of the item that lies there in the log.
func (s *itemShard) findAt(hash uint64, chunk uint32, off int) int {
	want := itemSlot(hash<<itemHashShift) | itemSlot(chunk)<<itemOffBits | itemSlot(off)
	mask := len(s.slots) - 1
	for i := int(hash >> s.shift); ; i = (i + 1) & mask {
		if s.slots[i] == want {
			return i
		}
	}
}

// insert puts a slot into the table.
func (s *itemShard) insert(w itemSlot) {
	if s.count >= len(s.slots)*7/8 {
		s.grow()
	}
	s.count++
	s.put(w)
}

func (s *itemShard) put(w itemSlot) {
	mask := len(s.slots) - 1
	i := int(w.hash() >> s.shift)
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = w
}

func (s *itemShard) grow() {
	old := s.slots
	s.slots = make([]itemSlot, max(2*len(old), firstSlots))
	s.shift = itemHashBits - uint(bits.TrailingZeros(uint(len(s.slots))))
	s.items.used.Add(8 * int64(len(s.slots)-len(old)))
	for _, w := range old {
		if w != 0 {
			s.put(w)
		}
	}
}

// removeSlot takes a place out of the table and closes the gap.
func (s *itemShard) removeSlot(i int) {
	s.count--
	mask := len(s.slots) - 1
	for j := i; ; {
		j = (j + 1) & mask
		w := s.slots[j]
		if w == 0 {
			break
		}
		home := int(w.hash() >> s.shift)
		if (j-home)&mask >= (j-i)&mask {
			s.slots[i] = w
			i = j
		}
	}
	s.slots[i] = 0
}

func itemSize(e []byte) int {
	return itemHead + int(e[itemKeyLen]) + int(get32(e, itemValueLen))
}

func itemKey(e []byte) []byte { return e[itemHead : itemHead+int(e[itemKeyLen])] }

func itemValue(e []byte) []byte {
	from := itemHead + int(e[itemKeyLen])
	to := from + int(get32(e, itemValueLen))
	return e[from:to:to]
}

// expired tells that an item's time is over.
func expired(e []byte, now int64) bool {
	x := get32(e, itemExpiry)
	return x != 0 && int64(x) <= now
}

// room takes size bytes in a queue.
func (s *itemShard) room(size, queue int) (chunk uint32, off int) {
	q := &s.queues[queue]
	if n := q.newest; n != 0 && !s.chunks[n].sealed {
		c := &s.chunks[n]
		if c.used+size <= len(c.buf) {
			off = c.used
			c.used += size
			return n, off
		}
	}
	if size > s.items.chunkBytes/ownItemShare {
		n := s.addChunk(itemChunk{buf: make([]byte, size), used: size, own: true, sealed: true}, queue)
		return n, 0
	}
	s.seal(q.newest)
	return s.addChunk(itemChunk{buf: s.items.pool.get(), used: size}, queue), 0
}

// addChunk makes c the newest of a queue.
func (s *itemShard) addChunk(c itemChunk, queue int) uint32 {
	var n uint32
	if k := len(s.free); k > 0 {
		n = s.free[k-1]
		s.free = s.free[:k-1]
	} else {
		if len(s.chunks) == 0 {
			s.chunks = append(s.chunks, itemChunk{})
		}
		n = uint32(len(s.chunks))
		s.chunks = append(s.chunks, itemChunk{})
	}
	s.chunks[n] = c
	s.attach(n, queue)
	s.bytes += len(c.buf)
	s.items.used.Add(int64(len(c.buf)))
	s.sweepDue = s.expiry && !c.own
	return n
}

// attach makes a chunk the newest of a queue; one with a single item stands behind the one that is being filled.
func (s *itemShard) attach(n uint32, queue int) {
	c, q := &s.chunks[n], &s.queues[queue]
	c.queue, c.prev, c.next = uint8(queue), q.newest, 0
	if c.own && q.newest != 0 && !s.chunks[q.newest].sealed {
		c.next = q.newest
		c.prev = s.chunks[q.newest].prev
		s.chunks[q.newest].prev = n
	} else {
		q.newest = n
	}
	if c.prev != 0 {
		s.chunks[c.prev].next = n
	} else {
		q.oldest = n
	}
	q.bytes += len(c.buf)
}

// detach takes a chunk out of its queue.
func (s *itemShard) detach(n uint32) {
	c := &s.chunks[n]
	q := &s.queues[c.queue]
	if c.prev != 0 {
		s.chunks[c.prev].next = c.next
	} else {
		q.oldest = c.next
	}
	if c.next != 0 {
		s.chunks[c.next].prev = c.prev
	} else {
		q.newest = c.prev
	}
	q.bytes -= len(c.buf)
}

func (s *itemShard) seal(n uint32) {
	if n == 0 || s.chunks[n].sealed {
		return
	}
	c := &s.chunks[n]
	c.sealed = true
	s.dead += c.dead
}

// freeChunk gives a chunk up, whatever is in it.
func (s *itemShard) freeChunk(n uint32) {
	c := &s.chunks[n]
	s.detach(n)
	if c.sealed {
		s.dead -= c.dead
	}
	size := len(c.buf)
	s.bytes -= size
	s.items.used.Add(int64(-size))
	if !c.own {
		s.items.pool.put(c.buf)
	}
	*c = itemChunk{}
	s.free = append(s.free, n)
}

// full tells that no further chunk can be named.
func (s *itemShard) full() bool {
	return len(s.free) == 0 && len(s.chunks) >= 1<<itemChunkBits-patience
}

// unlink takes the item at a place of the table out of it; its bytes are dead from then on.
func (s *itemShard) unlink(place int) {
	w := s.slots[place]
	s.removeSlot(place)
	s.kill(w.chunk(), w.off())
}

// kill counts an item of the log as dead, and gives its chunk up when that was the last one.
func (s *itemShard) kill(n uint32, off int) {
	c := &s.chunks[n]
	e := c.buf[off:]
	size := itemSize(e)
	e[itemBits] |= itemDead
	c.dead += size
	s.stats.live -= size
	if c.sealed {
		s.dead += size
		if c.dead == c.used {
			s.freeChunk(n)
		}
	}
}

// write puts an item into the log, behind the other ones of a queue. Its value is first and second, one after the other.
func (s *itemShard) write(h uint64, key, first, second []byte, queue int) (w itemSlot, e []byte) {
	valueLen := len(first) + len(second)
	size := itemHead + len(key) + valueLen
	n, off := s.room(size, queue)
	e = s.chunks[n].buf[off : off+size]
	clear(e[:itemHead])
	put32(e, itemValueLen, uint32(valueLen))
	e[itemKeyLen] = byte(len(key))
	at := itemHead + copy(e[itemHead:], key)
	at += copy(e[at:], first)
	copy(e[at:], second)
	s.stats.live += size
	return itemSlot(slotHash(h)<<itemHashShift) | itemSlot(n)<<itemOffBits | itemSlot(off), e
}

// move writes a live item anew at the end of a queue.
func (s *itemShard) move(n uint32, off int, e []byte, queue int) (moved []byte) {
	size := itemSize(e)
	hash := slotHash(s.items.hash(itemKey(e)))
	place := s.findAt(hash, n, off)
	m, to := s.room(size, queue)
	moved = s.chunks[m].buf[to : to+size]
	copy(moved, e)
	s.slots[place] = itemSlot(hash<<itemHashShift) | itemSlot(m)<<itemOffBits | itemSlot(to)
	return moved
}

// reset drops everything.
func (s *itemShard) reset() {
	for i := range s.chunks {
		if c := &s.chunks[i]; c.buf != nil && !c.own {
			s.items.pool.forget(c.buf)
		}
	}
	s.items.used.Add(-int64(s.bytes + 8*len(s.slots) + 4*len(s.ghost)))
	s.slots, s.shift, s.count = nil, 0, 0
	s.chunks, s.free, s.ghost = nil, nil, nil
	s.queues = [queueCount]itemQueue{}
	s.bytes, s.dead, s.sweep, s.expiry, s.sweepDue = 0, 0, 0, false, false
	s.stats.live = 0
}
