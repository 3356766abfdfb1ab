package cache

import "bytes"

// pageMergeMax is the fill in bytes up to which two neighbours are merged, pageMergeTry the fill below which it is
// tried.
const (
	pageMergeMax = pageSize * 7 / 8
	pageMergeTry = pageSize * 2 / 5
)

// bytesTree is a B+tree over byte strings of any length. Pages hold their keys without the prefix that these share, so
// an index with few distinct values costs little more than the part of the key that differs. Leaves stay full under
// ascending inserts, also in the middle of the key range.
//
// Inner pages have the child i for the keys from key i up to but not including key i+1; the first child has everything
// below key 1, its own key is empty and not looked at.
type bytesTree struct {
	pages  pages
	root   uint32 // a leaf when height is 0
	height int
	count  int
	// long holds the keys of more than maxInlineKey bytes, the separators of inner pages included; each belongs to one
	// cell.
	long      [][]byte
	longFree  []uint32
	longBytes int64
	// lastLeaf and lastPos are the place of the last insert, see u64Tree.
	lastLeaf uint32
	lastPos  int

	// Memory of splits and merges, used by the writer alone.
	entries []pageEntry
	arena   []byte
	sep     []byte
}

// pageEntry is an entry that is on its way from one page to another. Its key is arena[off:off+size], or
// bytesTree.long[long].
type pageEntry struct {
	off, size   int
	long, value uint32
}

func newBytesTree(pool *blockPool) *bytesTree {
	t := &bytesTree{pages: pages{blockArray: blockArray{pool: pool}, size: pageSize}}
	t.reset()
	return t
}

func (t *bytesTree) at(page uint32) *bytesPage {
	return (*bytesPage)(t.pages.blocks[page>>pageBlockShift][page&pageBlockMask*pageSize:])
}

// reset makes the tree empty.
func (t *bytesTree) reset() {
	t.release()
	*t = bytesTree{pages: t.pages, lastLeaf: noPage}
	t.root = t.pages.alloc()
	p := t.at(t.root)
	p.init(nil)
	p.setNext(noPage)
	p.setPrev(noPage)
}

func (t *bytesTree) addLong(key []byte) uint32 {
	k := bytes.Clone(key)
	t.longBytes += int64(cap(k))
	if n := len(t.longFree); n > 0 {
		i := t.longFree[n-1]
		t.longFree = t.longFree[:n-1]
		t.long[i] = k
		return i
	}
	t.long = append(t.long, k)
	return uint32(len(t.long) - 1)
}

func (t *bytesTree) freeLong(i uint32) {
	if i == noLong {
		return
	}
	t.longBytes -= int64(cap(t.long[i]))
	t.long[i] = nil
	t.longFree = append(t.longFree, i)
}

// find returns the first entry of p, from the entry first on, whose key is not less than key, and whether it is equal.
func (t *bytesTree) find(p *bytesPage, first int, key []byte) (pos int, equal bool) {
	lo, hi := first, p.n()
	plen := p.prefixLen()
	if plen > 0 {
		if c := comparePrefix(key, p[pageSize-plen:]); c < 0 {
			return lo, false
		} else if c > 0 {
			return hi, false
		}
	}
	rest := key[plen:]
	head := keyHead(rest)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		h := p.slotHead(mid)
		if h == head {
			c := t.compareSuffix(p, mid, key, rest)
			if c == 0 {
				return mid, true
			}
			if c < 0 {
				lo = mid + 1
			} else {
				hi = mid
			}
			continue
		}
		if h < head {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, false
}

// compareSuffix compares entry i with key, of which rest is what follows the page's prefix.
func (t *bytesTree) compareSuffix(p *bytesPage, i int, key, rest []byte) int {
	if long := p.long(i); long != noLong {
		return bytes.Compare(t.long[long], key)
	}
	return bytes.Compare(p.suffix(i), rest)
}

// child returns the child of the inner page p for key.
func (t *bytesTree) child(p *bytesPage, key []byte) int {
	pos, equal := t.find(p, 1, key)
	if equal {
		return pos
	}
	return pos - 1
}

func (t *bytesTree) leafOf(key []byte) uint32 {
	page := t.root
	for h := t.height; h > 0; h-- {
		p := t.at(page)
		page = p.value(t.child(p, key))
	}
	return page
}

func (t *bytesTree) descend(key []byte, path *[treeMaxDepth]treeStep) uint32 {
	page := t.root
	for i := range t.height {
		p := t.at(page)
		pos := t.child(p, key)
		path[i] = treeStep{page: page, pos: pos}
		page = p.value(pos)
	}
	return page
}

func (t *bytesTree) get(key []byte) (uint32, bool) {
	p := t.at(t.leafOf(key))
	pos, ok := t.find(p, 0, key)
	if !ok {
		return 0, false
	}
	return p.value(pos), true
}

func (t *bytesTree) put(key []byte, id uint32) (uint32, bool) {
	var path [treeMaxDepth]treeStep
	page := t.descend(key, &path)
	p := t.at(page)
	pos, equal := t.find(p, 0, key)
	if equal {
		old := p.value(pos)
		p.setValue(pos, id)
		return old, true
	}
	t.count++
	long := noLong
	if len(key) > maxInlineKey {
		long = t.addLong(key)
	}
	ascending := page == t.lastLeaf && pos == t.lastPos+1 || pos == p.n() && p.next() == noPage
	if t.insert(p, false, pos, key, long, id) {
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
	m := t.splitPoint(false, pos, ascending)
	t.build(p, t.entries[:m], false)
	t.build(r, t.entries[m:], false)
	if pos < m {
		t.lastLeaf, t.lastPos = page, pos
	} else {
		t.lastLeaf, t.lastPos = right, pos-m
	}
	// The shortest key that parts the two is enough for the inner pages.
	last, first := t.key(&t.entries[m-1]), t.key(&t.entries[m])
	t.sep = append(t.sep[:0], first[:commonPrefix(last, first)+1]...)
	long = noLong
	if len(t.sep) > maxInlineKey {
		long = t.addLong(t.sep)
	}
	t.addChild(&path, long, right, ascending)
	return 0, false
}

// addChild links kid, which has the keys from t.sep on, into the inner pages behind the child that path took. long is
// the number of t.sep in t.long or noLong.
func (t *bytesTree) addChild(path *[treeMaxDepth]treeStep, long, kid uint32, ascending bool) {
	for level := t.height - 1; level >= 0; level-- {
		page, pos := path[level].page, path[level].pos+1
		p := t.at(page)
		if t.insert(p, true, pos, t.sep, long, kid) {
			return
		}
		right := t.pages.alloc()
		p = t.at(page)
		m := t.splitPoint(true, pos, ascending && pos == len(t.entries)-1)
		up := t.entries[m]
		t.sep = append(t.sep[:0], t.key(&up)...)
		long, kid = up.long, right
		t.build(p, t.entries[:m], true)
		t.build(t.at(right), t.entries[m:], true)
	}
	root := t.pages.alloc()
	p := t.at(root)
	p.init(nil)
	p.insert(0, nil, noLong, t.root)
	t.entries, t.arena = t.entries[:0], t.arena[:0]
	t.gather(p, true, nil, noLong)
	t.addEntry(1, t.sep, long, kid)
	t.build(p, t.entries, true)
	t.root = root
	t.height++
}

// insert puts an entry into a page, which is built anew when its prefix does not fit the key or a longer prefix makes
// room. When it returns false, t.entries holds the entries of the page and the new one, in order.
func (t *bytesTree) insert(p *bytesPage, inner bool, pos int, key []byte, long, value uint32) bool {
	if comparePrefix(key, p.prefix()) == 0 && p.insert(pos, key, long, value) {
		return true
	}
	t.entries, t.arena = t.entries[:0], t.arena[:0]
	t.gather(p, inner, nil, noLong)
	t.addEntry(pos, key, long, value)
	if t.size(t.entries, inner) > pageSize {
		return false
	}
	t.build(p, t.entries, inner)
	return true
}

// gather appends the entries of a page to t.entries. The first key of an inner page is given by first and its number.
func (t *bytesTree) gather(p *bytesPage, inner bool, first []byte, firstLong uint32) {
	prefix := p.prefix()
	for i := range p.n() {
		e := pageEntry{off: len(t.arena), long: p.long(i), value: p.value(i)}
		switch {
		case inner && i == 0:
			e.long = firstLong
			if firstLong == noLong {
				t.arena = append(t.arena, first...)
			}
		case e.long == noLong:
			t.arena = append(t.arena, prefix...)
			t.arena = append(t.arena, p.suffix(i)...)
		}
		e.size = len(t.arena) - e.off
		t.entries = append(t.entries, e)
	}
}

// addEntry puts one entry into t.entries.
func (t *bytesTree) addEntry(pos int, key []byte, long, value uint32) {
	e := pageEntry{off: len(t.arena), long: long, value: value}
	if long == noLong {
		t.arena = append(t.arena, key...)
		e.size = len(key)
	}
	t.entries = append(t.entries, pageEntry{})
	copy(t.entries[pos+1:], t.entries[pos:])
	t.entries[pos] = e
}

// key returns the key of an entry of t.entries.
func (t *bytesTree) key(e *pageEntry) []byte {
	if e.long != noLong {
		return t.long[e.long]
	}
	return t.arena[e.off : e.off+e.size]
}

// sharedPrefix returns the prefix of a page with these entries.
func (t *bytesTree) sharedPrefix(entries []pageEntry, inner bool) []byte {
	if inner {
		entries = entries[min(1, len(entries)):]
	}
	if len(entries) == 0 {
		return nil
	}
	first, last := t.key(&entries[0]), t.key(&entries[len(entries)-1])
	return first[:min(commonPrefix(first, last), maxPrefix)]
}

// size returns the bytes that a page with these entries has in use.
func (t *bytesTree) size(entries []pageEntry, inner bool) int {
	plen := len(t.sharedPrefix(entries, inner))
	size := pageHead + plen
	for i := range entries {
		size += entries[i].cost(inner && i == 0, plen)
	}
	return size
}

// cost returns the bytes that an entry takes in a page with a prefix of plen bytes.
func (e *pageEntry) cost(keyless bool, plen int) int {
	switch {
	case keyless:
		return pageSlot + cellSize(0)
	case e.long != noLong:
		return pageSlot + longCell
	default:
		return pageSlot + cellSize(e.size-plen)
	}
}

// build fills a page with entries that fit.
func (t *bytesTree) build(p *bytesPage, entries []pageEntry, inner bool) {
	p.init(t.sharedPrefix(entries, inner))
	for i := range entries {
		e := &entries[i]
		key, long := t.key(e), e.long
		if inner && i == 0 {
			key, long = p.prefix(), noLong
		}
		if !p.insert(i, key, long, e.value) {
			panic("cache: index page overflow") // an entry would be lost: size or splitPoint is wrong
		}
	}
}

// splitPoint tells how many of t.entries stay in the left page. pos is the new entry.
func (t *bytesTree) splitPoint(inner bool, pos int, ascending bool) int {
	n, plen := len(t.entries), len(t.sharedPrefix(t.entries, inner))
	fits := func(m int) bool {
		return m > 0 && m < n && t.size(t.entries[:m], inner) <= pageSize && t.size(t.entries[m:], inner) <= pageSize
	}
	if ascending {
		m := pos + 1
		if m == n {
			m = pos
		}
		if fits(m) {
			return m
		}
	}
	half, m := 0, 0
	for total := t.size(t.entries, inner); m < n-1 && half < total/2; m++ {
		half += t.entries[m].cost(inner && m == 0, plen)
	}
	switch {
	case fits(m):
		return m
	case fits(pos):
		// Only a new key at an end of the page, where the old keys have a long prefix that it does not share, comes
		// here: alone in a page it leaves the others their prefix.
		return pos
	default:
		return pos + 1
	}
}
