package cache

// tree is an ordered map from memcomparable keys to row ids. There are two: u64Tree for keys of a fixed width of at most
// eight bytes, bytesTree for all others. Both keep their pages in blocks without pointers, so the garbage collector has
// nothing to scan, and both link their leaves for walks up and down.
//
// A tree has no lock of its own. Cursors are valid until the next change. Keys passed in are not kept.
type tree interface {
	// get returns the id of a whole key.
	get(key []byte) (id uint32, ok bool)
	// put sets the id of a key; replaced tells that the key was there with the id old.
	put(key []byte, id uint32) (old uint32, replaced bool)
	// del removes a key and returns the id that it had.
	del(key []byte) (id uint32, ok bool)
	// seek returns the first entry whose key is not less than key, or the end.
	seek(key []byte) cursor
	// end returns the place after the last entry; prev of it is the last entry.
	end() cursor
	// next and prev step from one entry to its neighbour; next of the last and prev of the first give the end.
	next(c cursor) cursor
	prev(c cursor) cursor
	// id returns the id of the entry under c, which must not be the end.
	id(c cursor) uint32
	// hasPrefix tells whether the key under c, which must not be the end, begins with prefix.
	hasPrefix(c cursor, prefix []byte) bool
	// len returns the number of entries.
	len() int
	// bytes returns the memory that the tree holds.
	bytes() int64
	// release gives up the memory; the tree must not be used any more.
	release()
}

// newTree returns the tree for keys of the width that keyEncoder.FixedWidth reports.
func newTree(pool *blockPool, fixedWidth int) tree {
	if fixedWidth > 0 && fixedWidth <= 8 {
		return newU64Tree(pool)
	}
	return newBytesTree(pool)
}

// cursor is a place in a tree: a leaf and a position in it. page is noPage at the end.
type cursor struct {
	page uint32
	pos  uint32
}

func (c cursor) atEnd() bool { return c.page == noPage }

const (
	noPage = ^uint32(0)
	// treeMaxDepth bounds the inner levels of a tree. 2^32 entries need 5 of them in a u64Tree; a bytesTree whose
	// separators are as long as they can be has 7 children in an inner page, half filled 4: 16 levels.
	treeMaxDepth = 24
)

// treeStep is one inner page on the way down to a leaf, and the child that was taken.
type treeStep struct {
	page uint32
	pos  int
}

// pages hands out the pages of a tree by number. Their memory moves when it grows: pointers to pages are valid only
// until the next alloc.
type pages struct {
	blockArray
	size uint32 // bytes of a page
	used uint32 // pages ever handed out
	free []uint32
}

// alloc returns a page whose content is undefined.
func (s *pages) alloc() uint32 {
	if n := len(s.free); n > 0 {
		page := s.free[n-1]
		s.free = s.free[:n-1]
		return page
	}
	if int64(s.used)*int64(s.size) == s.blockArray.size() {
		s.grow(int(s.size))
	}
	s.used++
	return s.used - 1
}

func (s *pages) release(page uint32) { s.free = append(s.free, page) }

// bytes returns the memory that is held.
func (s *pages) bytes() int64 { return s.blockArray.bytes() + 4*int64(cap(s.free)) }

// reset gives up all pages.
func (s *pages) reset() {
	s.blockArray.reset()
	s.used, s.free = 0, nil
}
