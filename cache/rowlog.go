package cache

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/binlogcache/binlogcache/rowcodec"
)

var (
	// errRowIDs ends the growth of a table at 2^32-1 rows.
	errRowIDs = errors.New("more than 4294967295 rows")
	// errRowSize is for rows that the servers do not send either.
	errRowSize = errors.New("a row of a gigabyte or more")
)

const (
	// Chunks grow with the table, to a sixteenth of its live bytes: the chunk being filled, the one being compacted and
	// the spare one together stay below a fifth of the table, and an empty table costs one small chunk.
	minChunkBytes = 4 << 10
	maxChunkBytes = blockBytes
	// A row larger than this share of a chunk gets a chunk of its own, so that at most an eighth of a chunk stays empty
	// at its end.
	ownChunkShare = 8

	rowHeadBytes = 16 // version u64, row id u32, length and origin u32
	lengthBits   = 30
	lengthMask   = 1<<lengthBits - 1
	noRow        = ^uint32(0)
	noChunk      = ^uint32(0)
	slotBytes    = 8
	slotShift    = 17 // slots of a block
	slotMask     = 1<<slotShift - 1
	slotFirst    = 64
)

// slot says where a row is: bit 63 is set when the id is free, the low half is then the next free id. Else the chunk
// (27 bits: all of them would be 8 TiB at the least), the length of the row (16 bits, all set when it is larger than fits)
// and the offset in the chunk (20 bits) follow. The length is here as well as before the row so that reading a row does not wait for that.
type slot uint64

const (
	slotFree slot = 1 << 63
	slotLong      = 1<<16 - 1
)

func makeSlot(chunk uint32, off, length int) slot {
	return slot(chunk)<<36 | slot(min(length, slotLong))<<20 | slot(off)
}

func (s slot) chunk() uint32 { return uint32(s >> 36) }
func (s slot) off() int      { return int(s & (1<<20 - 1)) }
func (s slot) length() int   { return int(s >> 20 & slotLong) }

// rowLog keeps the rows of a table: a log of chunks without pointers, and a table of slots that finds a row by its id.
// A row that changes is written anew at the end of the log unless its length is the same; the bytes that it leaves are
// dead. Chunks that are all dead are freed at once, and the deadest of the others are rewritten bit by bit, in
// proportion to what is written, so that memory stays below twice the live rows and no call takes long.
//
// Ids are dense and used again. Rows returned by get alias the log: they are valid until the next call of a method that
// changes it. A rowLog has no lock of its own.
type rowLog struct {
	pool       *blockPool
	chunks     []chunk
	freeChunks []uint32 // unused places in chunks
	head       uint32   // the chunk that is being filled, or noChunk
	sealed     []uint32 // full chunks of several rows, without the victim
	spare      []byte   // memory of one freed chunk, kept for the next

	victim   uint32 // the chunk that is being rewritten, or noChunk
	victimAt int    // how far that has got

	slots    blockArray // by id
	ids      uint32     // ids ever given out
	freeID   uint32     // first of the free ids, or noRow
	rows     int
	live     int64 // bytes of live rows with their heads
	dead     int64 // waste of the sealed chunks
	resident int64 // bytes of all chunks
}

type chunk struct {
	buf  []byte
	used int
	dead int
	at   int // place in sealed, -1 when not there
	own  bool
}

// waste returns the bytes of a sealed chunk that rewriting it would free: dead rows and what was left empty at its end.
func (c *chunk) waste() int64 { return int64(c.dead + len(c.buf) - c.used) }

func newRowLog(pool *blockPool) *rowLog {
	l := &rowLog{pool: pool, slots: blockArray{pool: pool}}
	l.reset()
	return l
}

// reset drops all rows and gives up all memory.
func (l *rowLog) reset() {
	for i := range l.chunks {
		l.pool.release(l.chunks[i].buf)
	}
	l.pool.release(l.spare)
	l.slots.reset()
	*l = rowLog{pool: l.pool, slots: l.slots, head: noChunk, victim: noChunk, freeID: noRow}
}

// get returns the row with that id, which must be in use.
func (l *rowLog) get(id uint32) (rowcodec.Row, uint64) {
	b, n := l.entry(l.slot(id))
	return rowcodec.Row(b[rowHeadBytes : rowHeadBytes+n : rowHeadBytes+n]), binary.LittleEndian.Uint64(b)
}

// version returns the version of the row with that id.
func (l *rowLog) version(id uint32) uint64 {
	b, _ := l.entry(l.slot(id))
	return binary.LittleEndian.Uint64(b)
}

// entry returns the memory from a row's head on, and the length of the row.
func (l *rowLog) entry(s slot) (b []byte, n int) {
	b = l.chunks[s.chunk()].buf[s.off():]
	if n = s.length(); n == slotLong {
		n = int(binary.LittleEndian.Uint32(b[12:]) & lengthMask)
	}
	return b, n
}

// origin returns how the row with that id came.
func (l *rowLog) origin(id uint32) Origin {
	b, _ := l.entry(l.slot(id))
	return Origin(binary.LittleEndian.Uint32(b[12:]) >> lengthBits)
}

// inUse tells whether a row has that id.
func (l *rowLog) inUse(id uint32) bool { return id < l.ids && l.slot(id)&slotFree == 0 }

func (l *rowLog) slot(id uint32) slot {
	return slot(binary.LittleEndian.Uint64(l.slots.blocks[id>>slotShift][id&slotMask*slotBytes:]))
}

func (l *rowLog) setSlot(id uint32, s slot) {
	binary.LittleEndian.PutUint64(l.slots.blocks[id>>slotShift][id&slotMask*slotBytes:], uint64(s))
}

// add stores a new row and returns its id.
func (l *rowLog) add(row rowcodec.Row, version uint64, origin Origin) (uint32, error) {
	id, err := l.put(row, version, origin)
	if err == nil {
		l.compact(rowHeadBytes + len(row))
	}
	return id, err
}

// put is add, but for the compaction, which is the caller's to do.
func (l *rowLog) put(row rowcodec.Row, version uint64, origin Origin) (uint32, error) {
	if len(row) > lengthMask {
		return 0, errRowSize
	}
	id := l.freeID
	if id == noRow {
		if l.ids == noRow {
			return 0, errRowIDs
		}
		id = l.ids
		if int64(id)*slotBytes == l.slots.size() {
			l.slots.grow(slotFirst * slotBytes)
		}
		l.ids++
	} else {
		l.freeID = uint32(l.slot(id))
	}
	l.rows++
	l.append(id, row, version, origin)
	return id, nil
}

// set replaces the row with that id.
func (l *rowLog) set(id uint32, row rowcodec.Row, version uint64, origin Origin) error {
	if len(row) > lengthMask {
		return errRowSize
	}
	s := l.slot(id)
	b, n := l.entry(s)
	if n == len(row) {
		binary.LittleEndian.PutUint64(b, version)
		binary.LittleEndian.PutUint32(b[12:], uint32(n)|uint32(origin)<<lengthBits)
		copy(b[rowHeadBytes:], row)
		return nil
	}
	l.kill(s)
	l.append(id, row, version, origin)
	l.compact(rowHeadBytes + len(row))
	return nil
}

// remove drops the row with that id.
func (l *rowLog) remove(id uint32) {
	if l.rows == 1 {
		l.reset()
		return
	}
	l.rows--
	size := l.kill(l.slot(id))
	l.setSlot(id, slotFree|slot(l.freeID))
	l.freeID = id
	l.compact(size)
}

// append writes a row to the end of the log and points its slot there.
func (l *rowLog) append(id uint32, row rowcodec.Row, version uint64, origin Origin) {
	size := rowHeadBytes + len(row)
	n, off := l.room(size)
	b := l.chunks[n].buf[off:]
	binary.LittleEndian.PutUint64(b, version)
	binary.LittleEndian.PutUint32(b[8:], id)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(row))|uint32(origin)<<lengthBits)
	copy(b[rowHeadBytes:], row)
	l.setSlot(id, makeSlot(n, off, len(row)))
	l.live += int64(size)
}

// room takes size bytes at the end of the log.
func (l *rowLog) room(size int) (n uint32, off int) {
	if l.head != noChunk {
		c := &l.chunks[l.head]
		if c.used+size <= len(c.buf) {
			off = c.used
			c.used += size
			return l.head, off
		}
	}
	want := l.chunkBytes()
	if size > want/ownChunkShare {
		buf := slices.Grow([]byte(nil), size)
		buf = buf[:cap(buf)]
		if len(buf) == blockBytes {
			buf = buf[:size] // must not be taken for a block of the pool
		}
		n = l.addChunk(chunk{buf: buf, used: size, at: -1, own: true})
		return n, 0
	}
	l.seal()
	buf := l.spare
	if len(buf) == want {
		l.spare = nil
		l.resident -= int64(want)
	} else {
		l.dropSpare()
		buf = l.pool.alloc(want)
	}
	l.head = l.addChunk(chunk{buf: buf, used: size, at: -1})
	return l.head, 0
}

// chunkBytes returns the size of the next chunk.
func (l *rowLog) chunkBytes() int {
	share := l.live / 16
	if share <= minChunkBytes {
		return minChunkBytes
	}
	return min(1<<(bits.Len64(uint64(share))-1), maxChunkBytes)
}

func (l *rowLog) dropSpare() {
	l.resident -= int64(len(l.spare))
	l.pool.release(l.spare)
	l.spare = nil
}

func (l *rowLog) addChunk(c chunk) uint32 {
	l.resident += int64(len(c.buf))
	if n := len(l.freeChunks); n > 0 {
		i := l.freeChunks[n-1]
		l.freeChunks = l.freeChunks[:n-1]
		l.chunks[i] = c
		return i
	}
	l.chunks = append(l.chunks, c)
	return uint32(len(l.chunks) - 1)
}

// seal ends the filling of the head chunk.
func (l *rowLog) seal() {
	if l.head == noChunk {
		return
	}
	n := l.head
	l.head = noChunk
	c := &l.chunks[n]
	if c.dead == c.used {
		l.freeChunk(n)
		return
	}
	c.at = len(l.sealed)
	l.sealed = append(l.sealed, n)
	l.dead += c.waste()
}

// unlist takes a chunk out of the sealed ones.
func (l *rowLog) unlist(n uint32) {
	c := &l.chunks[n]
	last := l.sealed[len(l.sealed)-1]
	l.sealed[c.at] = last
	l.chunks[last].at = c.at
	l.sealed = l.sealed[:len(l.sealed)-1]
	c.at = -1
	l.dead -= c.waste()
}

func (l *rowLog) freeChunk(n uint32) {
	c := &l.chunks[n]
	want := l.chunkBytes()
	if len(l.spare) != want {
		l.dropSpare()
	}
	if len(c.buf) == want && l.spare == nil && !c.own {
		l.spare = c.buf
	} else {
		l.resident -= int64(len(c.buf))
		l.pool.release(c.buf)
	}
	*c = chunk{at: -1}
	l.freeChunks = append(l.freeChunks, n)
}

// kill counts the row at a place of the log as dead and returns its size there.
func (l *rowLog) kill(s slot) int {
	n := s.chunk()
	c := &l.chunks[n]
	_, length := l.entry(s)
	size := rowHeadBytes + length
	l.live -= int64(size)
	c.dead += size
	if c.at >= 0 {
		l.dead += int64(size)
	}
	if c.dead == c.used && n != l.head {
		if c.at >= 0 {
			l.unlist(n)
		}
		if n == l.victim {
			l.victim = noChunk
		}
		l.freeChunk(n)
	}
	return size
}

// compact rewrites some of the deadest chunk when the log has too many dead bytes. wrote is the size of the change that
// gives the occasion. Eight bytes looked at for each byte written are enough: at the limit two sevenths of the sealed
// chunks are dead, so of eight bytes more than two come free. Chunks that are large for what the table has become go faster.
func (l *rowLog) compact(wrote int) {
	// A table that has shrunk must not keep a large spare chunk, nor dead bytes in a large head.
	if large := 4 * l.chunkBytes(); len(l.spare) > large {
		l.dropSpare()
	} else if l.head != noChunk && len(l.chunks[l.head].buf) > large {
		l.seal()
	}
	if l.victim == noChunk {
		if l.dead*5 <= l.live*2 {
			return
		}
		worst := l.sealed[0]
		for _, n := range l.sealed[1:] {
			a, b := &l.chunks[n], &l.chunks[worst]
			if a.waste()*int64(len(b.buf)) > b.waste()*int64(len(a.buf)) {
				worst = n
			}
		}
		l.unlist(worst)
		l.victim, l.victimAt = worst, 0
	}
	victim := l.victim
	budget := 8 * wrote * max(1, len(l.chunks[victim].buf)/l.chunkBytes())
	for budget > 0 {
		from := &l.chunks[victim]
		if l.victimAt == from.used {
			l.victim = noChunk
			l.freeChunk(victim)
			return
		}
		b := from.buf[l.victimAt:]
		id := binary.LittleEndian.Uint32(b[8:])
		size := rowHeadBytes + int(binary.LittleEndian.Uint32(b[12:])&lengthMask)
		if l.slot(id) == makeSlot(victim, l.victimAt, size-rowHeadBytes) {
			n, off := l.room(size)
			copy(l.chunks[n].buf[off:], b[:size])
			l.setSlot(id, makeSlot(n, off, size-rowHeadBytes))
			l.chunks[victim].dead += size
		}
		l.victimAt += size
		budget -= size
	}
}

// bytes returns the memory that the log holds.
func (l *rowLog) bytes() int64 {
	return l.resident + l.slots.bytes() + 56*int64(cap(l.chunks)) + 4*int64(cap(l.freeChunks)+cap(l.sealed))
}
