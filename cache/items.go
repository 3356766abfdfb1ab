package cache

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/item"
)

const (
	// Shards have a share of about this size each, so that neither growing a table nor looking for a chunk takes long.
	itemShareBytes = 4 << 20
	minItemShards  = 16
	maxItemShards  = 1 << 14
	// chunksPerShare: the queues turn in steps of 1/chunksPerShare of a shard.
	chunksPerShare = 64
	minItemChunk   = 4 << 10
	// keptChunks are the unused chunks whose memory is kept for the next ones.
	keptChunks = 16

	// MinItemsMemory is the least memory that an Items can work with.
	MinItemsMemory = 256 << 10
)

// ItemsConfig has the settings of an Items.
type ItemsConfig struct {
	// MemoryLimit is the most bytes that the items may take with all that belongs to them; at least MinItemsMemory.
	// Connections that store at the same moment may go over it by a chunk or one item each, until they are done.
	MemoryLimit int64
	// Clock gives the Unix time; nil is the system's at the start plus what has passed since, so that a clock that is
	// set does not end or prolong the life of items.
	Clock func() int64
}

// Items keeps the items of the memcached protocols that are in no table: bounded, lossy, each with an expiry of its own.
// What it does not have may have been evicted. All methods may be called from any goroutine.
//
// The keys are spread over shards by a seeded hash. A shard is a log of chunks without pointers in two queues by age and
// a hash table into it. New items go to the end of a small queue; when its oldest chunk is given up, items that were used
// go on to the main queue, the others are evicted and remembered by their hash for a while: stored again in that time,
// they go to the main queue at once. From its oldest chunk, items that were used since they were written there go round
// once more. So items that nobody asks for pass through a tenth of the memory.
type Items struct {
	limit      atomic.Int64
	most       int64 // the limit of the start
	clock      func() int64
	chunkBytes int
	seed       maphash.Seed
	shards     []itemShard
	shardShift uint
	pool       chunkPool
	used       atomic.Int64  // chunks, tables and ghosts
	cas        atomic.Uint64 // the last number given
	turn       atomic.Uint32 // the shard to reclaim from next
	epoch      atomic.Uint32 // number of flushes
	flushAt    atomic.Int64  // when the next flush takes effect; 0 for none
}

// NewItems returns an empty store.
func NewItems(cfg ItemsConfig) *Items {
	limit := max(cfg.MemoryLimit, MinItemsMemory)
	n := 1 << bits.Len64(uint64(min(max(limit/itemShareBytes, minItemShards), maxItemShards)-1))
	s := &Items{
		most: limit, clock: cfg.Clock, seed: maphash.MakeSeed(), shards: make([]itemShard, n), shardShift: uint(64 - bits.TrailingZeros(uint(n))),
		chunkBytes: 1 << (bits.Len64(uint64(min(max(limit/int64(n)/chunksPerShare, minItemChunk), blockBytes))) - 1),
	}
	if s.clock == nil {
		start := time.Now()
		unix := start.Unix()
		// The part of a second at the start counts, or every time would be over up to a second late.
		offset := time.Duration(start.Nanosecond())
		s.clock = func() int64 { return unix + int64((time.Since(start)+offset)/time.Second) }
	}
	s.pool = chunkPool{blocks: newBlockPool(), size: s.chunkBytes}
	s.limit.Store(limit)
	// Numbers from before a restart must not be good after it; below 2^53 they are exact in every client's language.
	s.cas.Store(uint64(max(s.now(), 0)) << 20)
	for i := range s.shards {
		s.shards[i].items = s
	}
	return s
}

func (s *Items) now() int64 { return s.clock() }

func (s *Items) hash(key []byte) uint64 { return maphash.Bytes(s.seed, key) }

// shard returns the locked shard of a hash.
func (s *Items) shard(h uint64, now int64) *itemShard {
	if at := s.flushAt.Load(); at != 0 && now >= at && s.flushAt.CompareAndSwap(at, 0) {
		s.epoch.Add(1)
	}
	sh := &s.shards[h>>s.shardShift]
	sh.mu.Lock()
	sh.follow(now)
	return sh
}

// follow does what has come due in the shard: a flush, a look for items whose time is over.
func (s *itemShard) follow(now int64) {
	if e := s.items.epoch.Load(); s.epoch != e {
		s.epoch = e
		s.reset()
	}
	if s.sweepDue {
		s.sweepDue = false
		s.sweepOne(now)
	}
	for s.full() && s.reclaim(now, true) {
	}
}

// settle brings the memory below the limit. No shard may be locked by the caller.
func (s *Items) settle(now int64) {
	idle, vain := 0, 0
	for idle < len(s.shards) {
		used := s.used.Load()
		if used <= s.limit.Load() {
			return
		}
		sh := &s.shards[int(s.turn.Add(1))&(len(s.shards)-1)]
		sh.mu.Lock()
		sh.follow(now)
		if sh.reclaim(now, vain > patience) {
			idle = 0
		} else {
			idle++
		}
		sh.mu.Unlock()
		if s.used.Load() < used {
			vain = 0
		} else {
			vain++
		}
	}
}

// Flush drops all items. With an exptime that is a time to come (see item.Expires) it does so then, with everything that
// is stored until that; a flush takes the place of one that waits for its time.
func (s *Items) Flush(exptime int64) {
	now := s.now()
	if at := item.Expires(exptime, now); at > now {
		s.flushAt.Store(at)
		return
	}
	s.flushAt.Store(0)
	s.epoch.Add(1)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.follow(now)
		sh.mu.Unlock()
	}
}

// SetMemoryLimit changes the limit and evicts what is over it, which may take a while. False: the limit is more than
// ItemsConfig gave.
func (s *Items) SetMemoryLimit(limit int64) bool {
	if limit > s.most {
		return false
	}
	s.limit.Store(max(limit, MinItemsMemory))
	s.settle(s.now())
	return true
}

// ItemsStats are the figures of an Items.
type ItemsStats struct {
	// Items are those in the table, some of which may be over; Bytes is what they take in the log.
	Items, Bytes int64
	// Used is all memory, Limit its bound.
	Used, Limit int64
	// Total counts everything that was stored, Evictions items that had to go before their time, EvictedUnfetched those
	// of them that nobody had fetched.
	Total, Evictions, EvictedUnfetched uint64
	// Reclaimed counts items whose memory was used again after their time was over, ExpiredUnfetched those of them that
	// nobody had fetched.
	Reclaimed, ExpiredUnfetched uint64
}

// Stats sums the figures of all shards.
func (s *Items) Stats() ItemsStats {
	st := ItemsStats{Used: s.used.Load(), Limit: s.limit.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		st.Items += int64(sh.count)
		st.Bytes += int64(sh.stats.live)
		st.Total += sh.stats.total
		st.Evictions += sh.stats.evictions
		st.EvictedUnfetched += sh.stats.evictedUnfetched
		st.Reclaimed += sh.stats.reclaimed
		st.ExpiredUnfetched += sh.stats.expiredUnfetched
		sh.mu.Unlock()
	}
	return st
}

// chunkPool hands out chunks of one size, which it cuts from blocks.
type chunkPool struct {
	blocks *blockPool
	size   int
	mu     sync.Mutex
	free   [][]byte
	clean  [][]byte // the system has their memory
}

func (p *chunkPool) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := &p.free
	if len(*from) == 0 {
		if from = &p.clean; len(*from) == 0 {
			b := p.blocks.get()
			for off := len(b) - p.size; off >= 0; off -= p.size {
				*from = append(*from, b[off:off+p.size:off+p.size])
			}
		}
	}
	c := (*from)[len(*from)-1]
	*from = (*from)[:len(*from)-1]
	return c
}

// put takes a chunk back and keeps its memory, if there is little of that.
func (p *chunkPool) put(c []byte) {
	p.mu.Lock()
	if len(p.free) < keptChunks {
		p.free = append(p.free, c)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.forget(c)
}

// forget takes a chunk back and lets the system have its memory.
func (p *chunkPool) forget(c []byte) {
	forgetBlock(c)
	p.mu.Lock()
	p.clean = append(p.clean, c)
	p.mu.Unlock()
}

// nextCAS gives the number of a change.
func (s *Items) nextCAS() uint64 { return s.cas.Add(1) }

func put32(e []byte, at int, v uint32) { binary.LittleEndian.PutUint32(e[at:], v) }

func get32(e []byte, at int) uint32 { return binary.LittleEndian.Uint32(e[at:]) }
