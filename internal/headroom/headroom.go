// Package headroom lets those who are about to make large temporary buffers, such as one for a row of megabytes, have the
// memory of earlier ones collected first. Left to itself the collector begins when such a buffer is made, and does its work
// beside those that follow: several times the largest row would then be garbage.
package headroom

import "sync/atomic"

// Large is from how many bytes on a buffer counts.
const Large = 1 << 20

var keep atomic.Pointer[func(n int)]

// Set has f called by Want, from any goroutine; nil for nothing. It is for the process's main part.
func Set(f func(n int)) {
	if f == nil {
		keep.Store(nil)
		return
	}
	keep.Store(&f)
}

// Want says that n bytes are about to be made. For fewer than Large it does nothing.
func Want(n int) {
	if n < Large {
		return
	}
	if f := keep.Load(); f != nil {
		(*f)(n)
	}
}
