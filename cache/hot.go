package cache

import "github.com/binlogcache/binlogcache/rowcodec"

// HotRows keeps the rows of a table in ModeHot by their whole row-identity key. It is bounded and may lose rows at any
// time, so what it does not have says nothing about the table: only a hit is an answer, and an absence, a range or a
// count is the database's. No implementation exists yet, and such tables answer Pass.
//
// Methods may be called from any goroutine. Keys and rows passed in are copied.
type HotRows interface {
	// Get appends the row of key to dst, with its version.
	Get(dst, key []byte) (row rowcodec.Row, version uint64, ok bool)
	// Put keeps a row unless a row or a removal of a higher version is known for its key.
	Put(key []byte, row rowcodec.Row, version uint64)
	// Remove drops the row of key; a Put of a lower version that comes late must not bring it back.
	Remove(key []byte, version uint64)
	// Bytes returns the memory that is held.
	Bytes() int64
}
