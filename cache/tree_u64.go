package cache

import (
	"encoding/binary"
	"math/bits"
)

// u64Page is a page of a u64Tree: the number of entries and the links to the next and the previous leaf (u32 each), then
// entries of a key (u64) and a value (u32) in the order of their keys. A key and its value stand side by side because
// reading the one fetches the other from memory.
type u64Page [u64PageSize]byte

const (
	u64PageSize   = 2048
	u64BlockShift = 9
	u64BlockMask  = 1<<u64BlockShift - 1
	u64PageHead   = 16
	u64Entry      = 12
	u64PageCap    = (u64PageSize - u64PageHead) / u64Entry // 169
	// u64MergeMax is the fill up to which two neighbours are merged: below the capacity, so that the next insert does
	// not split them again.
	u64MergeMax = u64PageCap * 7 / 8
)

func (p *u64Page) n() int              { return int(binary.LittleEndian.Uint32(p[0:])) }
func (p *u64Page) next() uint32        { return binary.LittleEndian.Uint32(p[4:]) }
func (p *u64Page) prev() uint32        { return binary.LittleEndian.Uint32(p[8:]) }
func (p *u64Page) setN(n int)          { binary.LittleEndian.PutUint32(p[0:], uint32(n)) }
func (p *u64Page) setNext(page uint32) { binary.LittleEndian.PutUint32(p[4:], page) }
func (p *u64Page) setPrev(page uint32) { binary.LittleEndian.PutUint32(p[8:], page) }

func (p *u64Page) key(i int) uint64 { return binary.LittleEndian.Uint64(p[u64PageHead+i*u64Entry:]) }

func (p *u64Page) value(i int) uint32 {
	return binary.LittleEndian.Uint32(p[u64PageHead+i*u64Entry+8:])
}

func (p *u64Page) setKey(i int, k uint64) {
	binary.LittleEndian.PutUint64(p[u64PageHead+i*u64Entry:], k)
}

func (p *u64Page) setValue(i int, v uint32) {
	binary.LittleEndian.PutUint32(p[u64PageHead+i*u64Entry+8:], v)
}

// span returns the bytes of the entries from i up to but not including j.
func (p *u64Page) span(i, j int) []byte { return p[u64PageHead+i*u64Entry : u64PageHead+j*u64Entry] }

// insert puts an entry at pos; the page must not be full.
func (p *u64Page) insert(pos int, k uint64, v uint32) {
	n := p.n()
	copy(p.span(pos+1, n+1), p.span(pos, n))
	p.setKey(pos, k)
	p.setValue(pos, v)
	p.setN(n + 1)
}

func (p *u64Page) remove(pos int) {
	n := p.n()
	copy(p.span(pos, n-1), p.span(pos+1, n))
	p.setN(n - 1)
}

// split moves the entries from m on to the empty page r.
func (p *u64Page) split(m int, r *u64Page) {
	n := p.n()
	copy(r.span(0, n-m), p.span(m, n))
	r.setN(n - m)
	p.setN(m)
}

// merge appends the entries of r, if that leaves some room.
func (p *u64Page) merge(r *u64Page) bool {
	n, m := p.n(), r.n()
	if n+m > u64MergeMax {
		return false
	}
	copy(p.span(n, n+m), r.span(0, m))
	p.setN(n + m)
	return true
}

// countLess returns the number of keys below k among the entries from first up to but not including end, plus first.
func (p *u64Page) countLess(k uint64, first, end int) int {
	for first < end {
		mid := int(uint(first+end) >> 1)
		if p.key(mid) < k {
			first = mid + 1
		} else {
			end = mid
		}
	}
	return first
}

// find is countLess for the entries from first on of a page whose keys are from lo up to but not including hi. It looks
// first where k would be if the keys were evenly spread, as the values of AUTO_INCREMENT are: that touches one or two
// cache lines of a page where halving touches six.
func (p *u64Page) find(k, lo, hi uint64, first int) int {
	n := p.n()
	if first == n {
		return n
	}
	high, low := bits.Mul64(k-lo, uint64(n))
	guess, _ := bits.Div64(high, low, hi-lo)
	at, step := max(int(guess), first), 1
	if p.key(at) < k {
		for at+step < n && p.key(at+step) < k {
			at += step
			step *= 2
		}
		return p.countLess(k, at+1, min(at+step, n))
	}
	for at-step >= first && p.key(at-step) >= k {
		at -= step
		step *= 2
	}
	return p.countLess(k, max(at-step+1, first), at)
}

// u64Tree is a B+tree over keys of one fixed width of at most eight bytes, held as integers whose order is that of the
// bytes. Leaves stay full under ascending inserts, also in the middle of the key range.
//
// Inner pages have the child i for the keys from key i up to but not including key i+1; the first child has everything
// below key 1, its own key is not looked at.
type u64Tree struct {
	pages  pages
	root   uint32 // a leaf when height is 0
	height int
	count  int
	// lastLeaf and lastPos are the place of the last insert: an insert right behind it is taken as part of an ascending
	// run, and a full leaf is then split there and not in its middle.
	lastLeaf uint32
	lastPos  int
}

func newU64Tree(pool *blockPool) *u64Tree {
	t := &u64Tree{pages: pages{blockArray: blockArray{pool: pool}, size: u64PageSize}}
	t.reset()
	return t
}

func (t *u64Tree) at(page uint32) *u64Page {
	return (*u64Page)(t.pages.blocks[page>>u64BlockShift][page&u64BlockMask*u64PageSize:])
}

// reset makes the tree empty.
func (t *u64Tree) reset() {
	t.pages.reset()
	t.height, t.count, t.lastLeaf = 0, 0, noPage
	t.root = t.pages.alloc()
	p := t.at(t.root)
	p.setN(0)
	p.setNext(noPage)
	p.setPrev(noPage)
}

// u64Key gives the bytes of a key, or of its beginning, as an integer with the first byte highest. Integers compare as
// bytes.Compare does for keys of one width.
func u64Key(b []byte) uint64 {
	switch len(b) {
	case 8:
		return binary.BigEndian.Uint64(b)
	case 4:
		return uint64(binary.BigEndian.Uint32(b)) << 32
	}
	var k uint64
	for i, c := range b {
		k |= uint64(c) << (56 - 8*i)
	}
	return k
}

// locate returns the leaf for key k and the number of its keys below k. It notes its way in path unless that is nil.
func (t *u64Tree) locate(k uint64, path *[treeMaxDepth]treeStep) (page uint32, pos int) {
	page = t.root
	var lo, hi uint64 // bounds of the keys of page, where there are any
	var haveLo, haveHi bool
	for i := 0; ; i++ {
		p := t.at(page)
		n, first := p.n(), 0
		if i < t.height {
			first = 1
		}
		if haveLo && haveHi {
			pos = p.find(k, lo, hi, first)
		} else {
			pos = p.countLess(k, first, n)
		}
		if i == t.height {
			return page, pos
		}
		if pos == n || p.key(pos) != k {
			pos--
		}
		if pos > 0 {
			lo, haveLo = p.key(pos), true
		}
		if pos+1 < n {
			hi, haveHi = p.key(pos+1), true
		}
		if path != nil {
			path[i] = treeStep{page: page, pos: pos}
		}
		page = p.value(pos)
	}
}

func (t *u64Tree) get(key []byte) (uint32, bool) {
	k := u64Key(key)
	page, pos := t.locate(k, nil)
	p := t.at(page)
	if pos < p.n() && p.key(pos) == k {
		return p.value(pos), true
	}
	return 0, false
}

// push puts a key behind all others if the last one went there too and there is room: so snapshots come.
func (t *u64Tree) push(k uint64, id uint32) bool {
	if t.lastLeaf == noPage {
		return false
	}
	p := t.at(t.lastLeaf)
	n := p.n()
	if t.lastPos != n-1 || n == u64PageCap || p.next() != noPage || p.key(n-1) >= k {
		return false
	}
	p.insert(n, k, id)
	t.lastPos = n
	t.count++
	return true
}

func (t *u64Tree) put(key []byte, id uint32) (uint32, bool) {
	k := u64Key(key)
	if t.push(k, id) {
		return 0, false
	}
	var path [treeMaxDepth]treeStep
	page, pos := t.locate(k, &path)
	p := t.at(page)
	n := p.n()
	if pos < n && p.key(pos) == k {
		old := p.value(pos)
		p.setValue(pos, id)
		return old, true
	}
	t.count++
	ascending := page == t.lastLeaf && pos == t.lastPos+1 || pos == n && p.next() == noPage
	if n < u64PageCap {
		p.insert(pos, k, id)
		t.lastLeaf, t.lastPos = page, pos
		return 0, false
	}

	right := t.pages.alloc()
	p = t.at(page)
	r := t.at(right)
	r.setNext(p.next())
	r.setPrev(page)
	if p.next() != noPage {
		t.at(p.next()).setPrev(right)
	}
	p.setNext(right)
	m := (u64PageCap + 1) / 2
	if ascending {
		m = pos
	}
	p.split(m, r)
	// An ascending run goes on in the left page until that is full, then in a new one.
	if pos < m || pos == m && m < n {
		p.insert(pos, k, id)
		t.lastLeaf, t.lastPos = page, pos
	} else {
		r.insert(pos-m, k, id)
		t.lastLeaf, t.lastPos = right, pos-m
	}
	t.addChild(&path, r.key(0), right, ascending)
	return 0, false
}

// addChild links kid, which has the keys from sep on, into the inner pages behind the child that path took.
func (t *u64Tree) addChild(path *[treeMaxDepth]treeStep, sep uint64, kid uint32, ascending bool) {
	for level := t.height - 1; level >= 0; level-- {
		page, pos := path[level].page, path[level].pos+1
		p := t.at(page)
		if p.n() < u64PageCap {
			p.insert(pos, sep, kid)
			return
		}
		right := t.pages.alloc()
		p = t.at(page)
		r := t.at(right)
		if ascending && pos == u64PageCap {
			r.setN(0)
			r.insert(0, sep, kid)
		} else {
			m := u64PageCap / 2
			p.split(m, r)
			up := r.key(0)
			if pos <= m {
				p.insert(pos, sep, kid)
			} else {
				r.insert(pos-m, sep, kid)
			}
			sep = up
		}
		kid = right
	}
	root := t.pages.alloc()
	p := t.at(root)
	p.setN(0)
	p.insert(0, 0, t.root)
	p.insert(1, sep, kid)
	t.root = root
	t.height++
}

func (t *u64Tree) del(key []byte) (uint32, bool) {
	k := u64Key(key)
	var path [treeMaxDepth]treeStep
	page, pos := t.locate(k, &path)
	p := t.at(page)
	if pos == p.n() || p.key(pos) != k {
		return 0, false
	}
	id := p.value(pos)
	t.count--
	if t.count == 0 {
		t.reset()
		return id, true
	}
	t.lastLeaf = noPage
	p.remove(pos)
	if t.height == 0 || p.n() >= u64PageCap/2 {
		return id, true
	}
	level := t.height - 1
	up, at := t.at(path[level].page), path[level].pos
	switch {
	case p.n() == 0:
		t.unlinkLeaf(page)
	case at+1 < up.n() && p.merge(t.at(up.value(at+1))):
		at++
		t.unlinkLeaf(up.value(at))
	case at > 0 && t.at(up.value(at-1)).merge(p):
		t.unlinkLeaf(page)
	default:
		return id, true
	}
	t.dropChild(&path, level, at)
	return id, true
}

func (t *u64Tree) unlinkLeaf(page uint32) {
	p := t.at(page)
	if p.prev() != noPage {
		t.at(p.prev()).setNext(p.next())
	}
	if p.next() != noPage {
		t.at(p.next()).setPrev(p.prev())
	}
	t.pages.release(page)
}

// dropChild removes child pos of the inner page at level, whose page is free already, and mends the levels above.
func (t *u64Tree) dropChild(path *[treeMaxDepth]treeStep, level, pos int) {
	for ; ; level-- {
		page := path[level].page
		p := t.at(page)
		p.remove(pos)
		if level == 0 {
			break
		}
		if p.n() >= u64PageCap/2 {
			return
		}
		up := t.at(path[level-1].page)
		pos = path[level-1].pos
		switch {
		case p.n() == 0:
			t.pages.release(page)
		case pos+1 < up.n() && t.mergeInner(p, up, pos+1):
			pos++
			t.pages.release(up.value(pos))
		case pos > 0 && t.mergeInner(t.at(up.value(pos-1)), up, pos):
			t.pages.release(page)
		default:
			return
		}
	}
	for t.height > 0 {
		p := t.at(t.root)
		if p.n() > 1 {
			return
		}
		old := t.root
		t.root = p.value(0)
		t.pages.release(old)
		t.height--
	}
}

// mergeInner moves the children of child right of the inner page up to its left neighbour, if they fit well.
func (t *u64Tree) mergeInner(left, up *u64Page, right int) bool {
	n := left.n()
	if !left.merge(t.at(up.value(right))) {
		return false
	}
	left.setKey(n, up.key(right))
	return true
}

func (t *u64Tree) seek(key []byte) cursor {
	page, pos := t.locate(u64Key(key), nil)
	p := t.at(page)
	if pos < p.n() {
		return cursor{page: page, pos: uint32(pos)}
	}
	return cursor{page: p.next()}
}

func (t *u64Tree) end() cursor { return cursor{page: noPage} }

func (t *u64Tree) next(c cursor) cursor {
	p := t.at(c.page)
	if int(c.pos)+1 < p.n() {
		return cursor{page: c.page, pos: c.pos + 1}
	}
	return cursor{page: p.next()}
}

func (t *u64Tree) prev(c cursor) cursor {
	if c.page != noPage && c.pos > 0 {
		return cursor{page: c.page, pos: c.pos - 1}
	}
	var page uint32
	if c.page == noPage {
		if t.count == 0 {
			return c
		}
		page = t.root
		for h := t.height; h > 0; h-- {
			p := t.at(page)
			page = p.value(p.n() - 1)
		}
	} else if page = t.at(c.page).prev(); page == noPage {
		return cursor{page: noPage}
	}
	return cursor{page: page, pos: uint32(t.at(page).n() - 1)}
}

func (t *u64Tree) id(c cursor) uint32 { return t.at(c.page).value(int(c.pos)) }

func (t *u64Tree) hasPrefix(c cursor, prefix []byte) bool {
	if len(prefix) == 0 {
		return true
	}
	shift := 64 - 8*len(prefix)
	return t.at(c.page).key(int(c.pos))>>shift == u64Key(prefix)>>shift
}

func (t *u64Tree) len() int { return t.count }

func (t *u64Tree) bytes() int64 { return t.pages.bytes() }

func (t *u64Tree) release() { t.pages.reset() }
