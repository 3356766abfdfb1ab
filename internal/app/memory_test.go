package app

import (
	"runtime"
	"testing"

	"github.com/binlogcache/binlogcache/internal/headroom"
)

// Garbage is collected before a large buffer for which there is no room, and for no other.
func TestHeapGuard(t *testing.T) {
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	var most int64
	guard := heapGuard{most: func() int64 { return most }}
	headroom.Set(guard.want)
	defer headroom.Set(nil)
	for _, tt := range []struct {
		most int64
		n    int
		want uint32
	}{{0, headroom.Large - 1, 0}, {0, headroom.Large, 1}, {1 << 40, 1 << 30, 0}, {1 << 30, 1 << 31, 1}} {
		most = tt.most
		before := collections()
		headroom.Want(tt.n)
		if got := collections() - before; got != tt.want {
			t.Errorf("%d bytes of %d: %d collections, want %d", tt.n, tt.most, got, tt.want)
		}
	}
	headroom.Set(nil)
	before := collections()
	headroom.Want(1 << 40)
	if collections() != before {
		t.Error("a guard that has gone collects")
	}
}

func TestTransactionBytes(t *testing.T) {
	for memory, want := range map[int64]int64{1 << 20: 4 << 20, 64 << 20: 16 << 20, 1 << 30: 64 << 20} {
		if got := transactionBytes(memory); got != want {
			t.Errorf("of %d: %d, want %d", memory, got, want)
		}
	}
}
