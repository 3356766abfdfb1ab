package cache

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
	"unsafe" // for asString alone

	"github.com/allegro/bigcache/v3"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// hotRows keeps the rows of all hot tables in one bigcache. It may lose any of them at any time: to make room (the oldest
// go first), or because two keys have one hash. A hit has been compared with the whole key.
//
// A key is the generation's number and the encoded row-identity key; an entry is the version and the row. Rows of a
// generation that has ended can't be found any more and leave as they get old.
type hotRows struct {
	cache *bigcache.BigCache
	// limit is what was set aside, mostEntry the largest key and entry together that are kept.
	limit     int64
	mostEntry int
	// sum hashes keys; never 0, which is how bigcache marks an entry that is gone.
	sum    func(key string) uint64
	counts *hotCounts
	// held has the number of rows of each generation.
	held sync.Map // uint64 → *atomic.Int64
}

const (
	// hotShardBytes is the least size of a shard, of which bigcache has a power of two, and hotShards the most of them.
	hotShardBytes = 1 << 20
	hotShards     = 256
	// hotEntryShare is the part of a shard that one row may take. One that were larger than its shard would empty it, and
	// large ones crowd out many.
	hotEntryShare = 8
	// hotEntryBytes is what bigcache's map takes for each row, about. A quarter of the limit is left for that.
	hotEntryBytes = 32
	// hotKeyBytes is the longest key: bigcache has 16 bits for the length.
	hotKeyBytes = 16 << 10
	// hotFloorShare is the part of all memory that full tables leave in any case.
	hotFloorShare = 32
	// hotMinimum is the least memory with which rows are kept.
	hotMinimum = 4 * hotShardBytes / 3
)

// hotRows returns the store of hot rows, made when it is first wanted: with HotBytes, or with what full tables have left.
func (s *Store) hotRows() (*hotRows, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hot.Load(); h != nil {
		return h, nil
	}
	limit := s.cfg.HotBytes
	if s.cfg.MemoryLimit > 0 {
		// Tables that are being loaded may be over their limit for a moment.
		limit = min(limit, max(s.cfg.MemoryLimit-s.used.Load(), s.hotFloor()))
	}
	if limit < hotMinimum {
		return nil, fmt.Errorf("%w: %d bytes are left for hot rows, %d are needed", ErrMemory, max(limit, 0), hotMinimum)
	}
	h, err := newHotRows(limit, &s.hotCounts)
	if err != nil {
		return nil, err
	}
	s.hot.Store(h)
	return h, nil
}

// hotFloor is what full tables leave to hot rows, even while there are none: one that turns out not to fit, when others
// have taken the rest, can be kept hot then.
func (s *Store) hotFloor() int64 {
	floor := min(s.cfg.HotBytes, s.cfg.MemoryLimit/hotFloorShare)
	if floor < hotMinimum {
		floor = hotMinimum
	}
	if s.cfg.HotBytes < floor || s.cfg.MemoryLimit < 4*floor {
		return 0
	}
	return floor
}

func newHotRows(limit int64, counts *hotCounts) (*hotRows, error) {
	seed := maphash.MakeSeed()
	h := &hotRows{limit: limit, counts: counts, sum: func(key string) uint64 { return max(maphash.String(seed, key), 1) }}
	megabytes := int(limit / 4 * 3 >> 20)
	shards := 1
	for shards < hotShards && 2*shards*hotShardBytes <= megabytes<<20 {
		shards *= 2
	}
	h.mostEntry = megabytes << 20 / shards / hotEntryShare
	config := bigcache.Config{
		Shards: shards, HardMaxCacheSize: megabytes, Hasher: h,
		// Rows do not get too old: the log keeps them right. Without CleanWindow there is no goroutine.
		LifeWindow: 100 * 365 * 24 * time.Hour,
		// The first size of a shard, which then grows as it is filled.
		MaxEntriesInWindow: 64 * shards, MaxEntrySize: 256,
		OnRemoveWithReason: h.evicted,
	}
	var err error
	h.cache, err = bigcache.New(context.Background(), config.OnRemoveFilterSet(bigcache.NoSpace, bigcache.Expired))
	return h, err
}

// Sum64 implements bigcache.Hasher.
func (h *hotRows) Sum64(key string) uint64 { return h.sum(key) }

// asString is key as a string, for calls that only read it and do not keep it.
func asString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// evicted counts a row that left to make room. It is for people's eyes: what is true of a row never hangs on it.
func (h *hotRows) evicted(key string, _ []byte, _ bigcache.RemoveReason) {
	h.counts.evicted.Add(1)
	if n, ok := h.held.Load(binary.BigEndian.Uint64([]byte(key[:8]))); ok {
		n.(*atomic.Int64).Add(-1)
	}
}

// get returns the row under key, which is new memory.
func (h *hotRows) get(key []byte) (row rowcodec.Row, version uint64, ok bool) {
	entry, err := h.cache.Get(asString(key))
	if err != nil || len(entry) < 8 {
		return nil, 0, false
	}
	return entry[8:], binary.LittleEndian.Uint64(entry), true
}

// fits tells whether a row can be kept.
func (h *hotRows) fits(key []byte, row rowcodec.Row) bool {
	return len(key) <= hotKeyBytes && len(key)+len(row)+hotEntryBytes <= h.mostEntry
}

// set keeps a row that fits. scratch is memory for the entry, which it returns.
func (h *hotRows) set(scratch, key []byte, row rowcodec.Row, version uint64) ([]byte, error) {
	scratch = append(binary.LittleEndian.AppendUint64(scratch[:0], version), row...)
	return scratch, h.cache.Set(asString(key), scratch)
}

// remove drops the row under key, if it is there.
func (h *hotRows) remove(key []byte) {
	_ = h.cache.Delete(asString(key)) // the error says that it is not there
}

// bytes returns the memory that is held.
func (h *hotRows) bytes() int64 {
	return int64(h.cache.Capacity()) + int64(h.cache.Len())*hotEntryBytes
}
