package cache

import "bytes"

func (t *bytesTree) del(key []byte) (uint32, bool) {
	var path [treeMaxDepth]treeStep
	page := t.descend(key, &path)
	p := t.at(page)
	pos, ok := t.find(p, 0, key)
	if !ok {
		return 0, false
	}
	id := p.value(pos)
	t.count--
	if t.count == 0 {
		t.reset()
		return id, true
	}
	t.lastLeaf = noPage
	t.freeLong(p.long(pos))
	p.remove(pos)
	if t.height == 0 || p.used() >= pageMergeTry && p.n() > 0 {
		return id, true
	}
	parent := path[t.height-1]
	if p.n() == 0 {
		t.unlinkLeaf(page)
		t.dropChild(&path, t.height-1, parent.pos)
		return id, true
	}
	up := t.at(parent.page)
	if parent.pos+1 < up.n() && t.merge(up, parent.pos, false) {
		t.dropChild(&path, t.height-1, parent.pos+1)
	} else if parent.pos > 0 && t.merge(up, parent.pos-1, false) {
		t.dropChild(&path, t.height-1, parent.pos)
	}
	return id, true
}

// merge moves the entries of child pos+1 of the inner page up to child pos when they fit well, and frees the page. The
// key that parted them moves along between inner pages; between leaves it is left to dropChild.
func (t *bytesTree) merge(up *bytesPage, pos int, inner bool) bool {
	left, right := up.value(pos), up.value(pos+1)
	l, r := t.at(left), t.at(right)
	if l.used()+r.used()-pageHead > pageMergeMax {
		return false
	}
	t.entries, t.arena = t.entries[:0], t.arena[:0]
	t.gather(l, inner, nil, noLong)
	if inner {
		long := up.long(pos + 1)
		t.sep = t.sep[:0]
		if long == noLong {
			t.sep = append(append(t.sep, up.prefix()...), up.suffix(pos+1)...)
		}
		t.gather(r, true, t.sep, long)
	} else {
		t.gather(r, false, nil, noLong)
	}
	if t.size(t.entries, inner) > pageMergeMax {
		return false
	}
	t.build(l, t.entries, inner)
	if inner {
		up.dropKey(pos + 1)
		t.pages.release(right)
	} else {
		t.unlinkLeaf(right)
	}
	return true
}

func (t *bytesTree) unlinkLeaf(page uint32) {
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
func (t *bytesTree) dropChild(path *[treeMaxDepth]treeStep, level, pos int) {
	for ; ; level-- {
		page := path[level].page
		p := t.at(page)
		t.freeLong(p.long(pos))
		p.remove(pos)
		if pos == 0 && p.n() > 0 {
			t.freeLong(p.long(0))
			p.dropKey(0)
		}
		if level == 0 {
			break
		}
		if p.used() >= pageMergeTry && p.n() > 0 {
			return
		}
		up := path[level-1]
		pos = up.pos
		if p.n() == 0 {
			t.pages.release(page)
			continue
		}
		parent := t.at(up.page)
		if pos+1 < parent.n() && t.merge(parent, pos, true) {
			pos++
		} else if pos == 0 || !t.merge(parent, pos-1, true) {
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

func (t *bytesTree) seek(key []byte) cursor {
	page := t.leafOf(key)
	p := t.at(page)
	pos, _ := t.find(p, 0, key)
	if pos < p.n() {
		return cursor{page: page, pos: uint32(pos)}
	}
	return cursor{page: p.next()}
}

func (t *bytesTree) end() cursor { return cursor{page: noPage} }

func (t *bytesTree) next(c cursor) cursor {
	p := t.at(c.page)
	if int(c.pos)+1 < p.n() {
		return cursor{page: c.page, pos: c.pos + 1}
	}
	return cursor{page: p.next()}
}

func (t *bytesTree) prev(c cursor) cursor {
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

func (t *bytesTree) id(c cursor) uint32 { return t.at(c.page).value(int(c.pos)) }

func (t *bytesTree) hasPrefix(c cursor, prefix []byte) bool {
	p := t.at(c.page)
	if long := p.long(int(c.pos)); long != noLong {
		return bytes.HasPrefix(t.long[long], prefix)
	}
	shared := p.prefix()
	if len(prefix) <= len(shared) {
		return bytes.HasPrefix(shared, prefix)
	}
	return bytes.HasPrefix(prefix, shared) && bytes.HasPrefix(p.suffix(int(c.pos)), prefix[len(shared):])
}

func (t *bytesTree) len() int { return t.count }

func (t *bytesTree) bytes() int64 {
	return t.pages.bytes() + t.longBytes + 24*int64(cap(t.long)+cap(t.entries)) + 4*int64(cap(t.longFree)) +
		int64(cap(t.arena)+cap(t.sep))
}

func (t *bytesTree) release() { t.pages.reset() }
