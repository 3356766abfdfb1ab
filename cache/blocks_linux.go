package cache

import "golang.org/x/sys/unix"

// mapRegion returns address space, or nil when the system has none to give.
func mapRegion(size int) []byte {
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // without huge pages it is only slower
	return m
}

// unmapRegion gives up what mapRegion returned.
func unmapRegion(m []byte) { _ = unix.Munmap(m) } // fails for no region that was mapped

// forgetBlock lets the system take the memory behind b; the addresses stay.
func forgetBlock(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) } // where it fails, the memory is kept for reuse

// fetchBlock has the system put memory behind b, whatever is there already; who has b meanwhile notices nothing. Where it fails,
// the first use of b does it.
func fetchBlock(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
