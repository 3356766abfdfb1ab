package cache

import "math/bits"

// reclaim makes room in the shard by at most one chunk, and tells whether it had something to work on. First come the
// dead bytes, then the items that were used least and longest ago; force gives up also those that were used.
func (s *itemShard) reclaim(now int64, force bool) bool {
	if s.dead*deadShare > s.bytes {
		if n := s.deadest(); n != 0 {
			s.compact(n, now)
			return true
		}
	}
	queue := queueSmall
	if s.queues[queueSmall].oldest == 0 || s.queues[queueMain].oldest != 0 && s.queues[queueSmall].bytes*smallShare < s.bytes {
		queue = queueMain
	}
	n := s.queues[queue].oldest
	if n == 0 {
		return false
	}
	s.evict(n, queue, now, force)
	return true
}

// deadest returns the sealed chunk with the largest share of dead bytes; 0 for none.
func (s *itemShard) deadest() uint32 {
	worst := uint32(0)
	for i := range s.chunks {
		c := &s.chunks[i]
		if !c.sealed || c.own {
			continue
		}
		if w := &s.chunks[worst]; worst == 0 || c.dead*len(w.buf) > w.dead*len(c.buf) {
			worst = uint32(i)
		}
	}
	return worst
}

// compact writes the live items of a chunk anew and gives it up.
func (s *itemShard) compact(n uint32, now int64) {
	queue := int(s.chunks[n].queue)
	s.eachLive(n, now, func(off int, e []byte) { s.move(n, off, e, queue) })
	s.freeChunk(n)
}

// evict empties the oldest chunk of a queue.
func (s *itemShard) evict(n uint32, queue int, now int64, force bool) {
	if c := &s.chunks[n]; c.own && c.buf[itemBits]&itemUse != 0 && !force && !expired(c.buf, now) {
		// A large item goes on without being copied.
		c.buf[itemBits] &^= itemUse
		s.detach(n)
		s.attach(n, queueMain)
		return
	}
	s.seal(n)
	s.eachLive(n, now, func(off int, e []byte) {
		if e[itemBits]&itemUse != 0 && !force {
			s.move(n, off, e, queueMain)[itemBits] &^= itemUse
			return
		}
		h := s.items.hash(itemKey(e))
		if queue == queueSmall {
			s.remember(h)
		}
		s.removeSlot(s.findAt(slotHash(h), n, off))
		s.stats.live -= itemSize(e)
		s.stats.evictions++
		if e[itemBits]&itemFetched == 0 {
			s.stats.evictedUnfetched++
		}
	})
	s.freeChunk(n)
}

// eachLive calls fn, which takes them away, for the items of a chunk that are alive. Those whose time is over go out of
// the table.
func (s *itemShard) eachLive(n uint32, now int64, fn func(off int, e []byte)) {
	buf, used := s.chunks[n].buf, s.chunks[n].used
	for off := 0; off < used; {
		e := buf[off:]
		size := itemSize(e)
		switch {
		case e[itemBits]&itemDead != 0:
		case expired(e, now):
			s.removeSlot(s.findAt(slotHash(s.items.hash(itemKey(e))), n, off))
			s.stats.live -= size
			e[itemBits] |= itemDead
			s.countExpired(e)
		default:
			fn(off, e[:size])
			e[itemBits] |= itemDead // it is elsewhere now, or nowhere
		}
		off += size
	}
}

func (s *itemShard) countExpired(e []byte) {
	s.stats.reclaimed++
	if e[itemBits]&itemFetched == 0 {
		s.stats.expiredUnfetched++
	}
}

// sweepOne looks through one chunk for items whose time is over, so that each is found before everything that was there
// with it has been written anew once.
func (s *itemShard) sweepOne(now int64) {
	if s.sweep++; int(s.sweep) >= len(s.chunks) {
		s.sweep = 1
	}
	n := s.sweep
	c := &s.chunks[n]
	if !c.sealed {
		return
	}
	buf, used := c.buf, c.used
	for off := 0; off < used && s.chunks[n].sealed; {
		e := buf[off:]
		size := itemSize(e)
		if e[itemBits]&itemDead == 0 && expired(e, now) {
			s.countExpired(e)
			s.unlink(s.findAt(slotHash(s.items.hash(itemKey(e))), n, off))
		}
		off += size
	}
}

// remember notes that the key of that hash was evicted before it was used: if it comes again soon, it is no passer-by.
func (s *itemShard) remember(h uint64) {
	if want := max(s.count, firstSlots); len(s.ghost) < want {
		size := 1 << bits.Len(uint(want-1))
		s.items.used.Add(4 * int64(size-len(s.ghost)))
		s.ghost = make([]uint32, size)
	}
	s.ghost[int(h>>28)&(len(s.ghost)-1)] = uint32(h)
}

// remembered tells whether remember was told of that hash not too long ago.
func (s *itemShard) remembered(h uint64) bool {
	return len(s.ghost) > 0 && s.ghost[int(h>>28)&(len(s.ghost)-1)] == uint32(h)
}
