package cache

import (
	"bytes"
	"encoding/binary"
)

// A page of a bytesTree:
//
//	0  entries u16    2  lowest byte in use of the heap u16    4  dead heap bytes u16    6  length of the prefix u16
//	8  next leaf u32   12  previous leaf u32
//	16 slots of 8 bytes, in key order: head u32, offset of the cell u16, length of the suffix u16
//	…  free
//	   heap: cells, then the prefix at the very end
//
// All keys of a page begin with its prefix, so only the suffixes are kept. The head is the first four bytes of the
// suffix as a big-endian number, padded with zeros: most comparisons end there. A cell is the value (u32) and the suffix;
// a key longer than maxInlineKey has its bytes in bytesTree.long, and its cell is the value and the number there (u32).
type bytesPage [pageSize]byte

const (
	pageSize       = 4096
	pageBlockShift = 8
	pageBlockMask  = 1<<pageBlockShift - 1
	pageHead       = 16
	pageSlot       = 8
	maxInlineKey   = 512 // seven keys to a page at the least
	maxPrefix      = 256
	longSuffix     = 0xffff // slot length of a key in bytesTree.long
	longCell       = 8
	noLong         = ^uint32(0)
)

func (p *bytesPage) u16(off int) int          { return int(binary.LittleEndian.Uint16(p[off:])) }
func (p *bytesPage) setU16(off, v int)        { binary.LittleEndian.PutUint16(p[off:], uint16(v)) }
func (p *bytesPage) u32(off int) uint32       { return binary.LittleEndian.Uint32(p[off:]) }
func (p *bytesPage) setU32(off int, v uint32) { binary.LittleEndian.PutUint32(p[off:], v) }

func (p *bytesPage) n() int              { return p.u16(0) }
func (p *bytesPage) top() int            { return p.u16(2) }
func (p *bytesPage) dead() int           { return p.u16(4) }
func (p *bytesPage) prefixLen() int      { return p.u16(6) }
func (p *bytesPage) next() uint32        { return p.u32(8) }
func (p *bytesPage) prev() uint32        { return p.u32(12) }
func (p *bytesPage) setNext(page uint32) { p.setU32(8, page) }
func (p *bytesPage) setPrev(page uint32) { p.setU32(12, page) }
func (p *bytesPage) prefix() []byte      { return p[pageSize-p.prefixLen():] }

func (p *bytesPage) slotHead(i int) uint32 { return p.u32(pageHead + i*pageSlot) }
func (p *bytesPage) slotOff(i int) int     { return p.u16(pageHead + i*pageSlot + 4) }
func (p *bytesPage) slotLen(i int) int     { return p.u16(pageHead + i*pageSlot + 6) }

func (p *bytesPage) value(i int) uint32       { return p.u32(p.slotOff(i)) }
func (p *bytesPage) setValue(i int, v uint32) { p.setU32(p.slotOff(i), v) }

// long returns the number in bytesTree.long of entry i's key, or noLong.
func (p *bytesPage) long(i int) uint32 {
	if p.slotLen(i) != longSuffix {
		return noLong
	}
	return p.u32(p.slotOff(i) + 4)
}

// suffix returns the key of entry i, which must not be long, after the prefix.
func (p *bytesPage) suffix(i int) []byte {
	off := p.slotOff(i) + 4
	return p[off : off+p.slotLen(i)]
}

func cellSize(slotLen int) int {
	if slotLen == longSuffix {
		return longCell
	}
	return 4 + slotLen
}

// init empties the page and gives it a prefix. The links stay.
func (p *bytesPage) init(prefix []byte) {
	p.setU16(0, 0)
	p.setU16(2, pageSize-len(prefix))
	p.setU16(4, 0)
	p.setU16(6, len(prefix))
	copy(p[pageSize-len(prefix):], prefix)
}

// used returns the bytes that the entries, the prefix and the head take.
func (p *bytesPage) used() int { return pageHead + pageSlot*p.n() + pageSize - p.top() - p.dead() }

// insert puts an entry at pos, if there is room for it. key is the whole key and begins with the prefix; long is
// its number in bytesTree.long, or noLong.
func (p *bytesPage) insert(pos int, key []byte, long, value uint32) bool {
	suffix := key[p.prefixLen():]
	slotLen := len(suffix)
	if long != noLong {
		slotLen = longSuffix
	}
	size := cellSize(slotLen)
	n, top := p.n(), p.top()
	if free := top - pageHead - pageSlot*n; free < size+pageSlot {
		if free+p.dead() < size+pageSlot {
			return false
		}
		p.squeeze()
		top = p.top()
	}
	top -= size
	p.setU16(2, top)
	p.setU32(top, value)
	if long != noLong {
		p.setU32(top+4, long)
	} else {
		copy(p[top+4:], suffix)
	}
	slot := pageHead + pos*pageSlot
	copy(p[slot+pageSlot:pageHead+(n+1)*pageSlot], p[slot:pageHead+n*pageSlot])
	p.setU32(slot, keyHead(suffix))
	p.setU16(slot+4, top)
	p.setU16(slot+6, slotLen)
	p.setU16(0, n+1)
	return true
}

// remove takes entry pos out.
func (p *bytesPage) remove(pos int) {
	n := p.n()
	p.setU16(4, p.dead()+cellSize(p.slotLen(pos)))
	slot := pageHead + pos*pageSlot
	copy(p[slot:], p[slot+pageSlot:pageHead+n*pageSlot])
	p.setU16(0, n-1)
}

// dropKey makes the key of entry pos empty; its value stays.
func (p *bytesPage) dropKey(pos int) {
	p.setU16(4, p.dead()+cellSize(p.slotLen(pos))-cellSize(0))
	slot := pageHead + pos*pageSlot
	p.setU32(slot, 0)
	p.setU16(slot+6, 0)
}

// squeeze moves the cells together so that the dead bytes of the heap are free.
func (p *bytesPage) squeeze() {
	old := *p
	top := pageSize - p.prefixLen()
	for i := range p.n() {
		off, size := p.slotOff(i), cellSize(p.slotLen(i))
		top -= size
		copy(p[top:], old[off:off+size])
		p.setU16(pageHead+i*pageSlot+4, top)
	}
	p.setU16(2, top)
	p.setU16(4, 0)
}

// keyHead returns the first four bytes of b as a big-endian number, as if zeros followed b.
func keyHead(b []byte) uint32 {
	if len(b) >= 4 {
		return binary.BigEndian.Uint32(b)
	}
	var h uint32
	for i, c := range b {
		h |= uint32(c) << (24 - 8*i)
	}
	return h
}

// commonPrefix returns the number of leading bytes that a and b share.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// comparePrefix compares the first bytes of key with prefix: 0 when key begins with it.
func comparePrefix(key, prefix []byte) int {
	return bytes.Compare(key[:min(len(key), len(prefix))], prefix)
}
