package router

import (
	"math/rand/v2"
	"sync/atomic"
)

// counterShards is how many cells a counter is spread over, so that cores that answer from memory don't wait for each
// other's cache lines. A power of two.
const counterShards = 16

// Counters count the answers of one protocol by where they came from. The zero value is ready; a nil *Counters counts
// nothing. Its methods may be called from any goroutine.
type Counters struct {
	shards [counterShards]counterShard
}

type counterShard struct {
	memory, database, errors atomic.Uint64
	_                        [40]byte // to a cache line of its own
}

// Counts are the sums of Counters.
type Counts struct {
	Memory   uint64 // searches answered from memory
	Database uint64 // searches answered by the database
	// Errors are searches that neither could answer. A search for a definition that has changed is none: it is made again.
	Errors uint64
}

// Counts returns the sums so far.
func (c *Counters) Counts() Counts {
	var sum Counts
	if c == nil {
		return sum
	}
	for i := range c.shards {
		s := &c.shards[i]
		sum.Memory += s.memory.Load()
		sum.Database += s.database.Load()
		sum.Errors += s.errors.Load()
	}
	return sum
}

// shard picks a cell; nil of a nil Counters.
func (c *Counters) shard() *counterShard {
	if c == nil {
		return nil
	}
	return &c.shards[rand.Uint32()%counterShards]
}

func (c *Counters) addMemory(n uint64) {
	if s := c.shard(); s != nil {
		s.memory.Add(n)
	}
}

func (c *Counters) addDatabase(err error) {
	switch s := c.shard(); {
	case s == nil:
	case err == nil:
		s.database.Add(1)
	default:
		s.errors.Add(1)
	}
}
