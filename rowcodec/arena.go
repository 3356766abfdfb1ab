package rowcodec

// Sizes of an Arena's chunks: small enough that a transaction of one row costs little, large enough that one of many
// rows costs few allocations.
const (
	arenaFirst = 4 << 10
	arenaMost  = 1 << 20
)

// Arena is memory for many rows that live and die together, such as those of one transaction. The zero value is ready.
// It serves one goroutine.
type Arena struct {
	chunk []byte
	next  int // size of the next chunk
	size  int
}

// Row makes the finished row of b a row in the arena. It stays valid until Reset. b is to be Reset before it is used again.
func (a *Arena) Row(b *Builder) Row {
	need := b.size()
	if need > arenaMost {
		// It would have a chunk of its own: the builder's memory does as well.
		if row, ok := b.take(); ok {
			a.size += len(row)
			return row
		}
	}
	if cap(a.chunk)-len(a.chunk) < need {
		a.next = min(max(2*a.next, arenaFirst), arenaMost)
		// Rows in the old chunk keep it alive; nothing is copied.
		a.chunk = make([]byte, 0, max(a.next, need))
	}
	start := len(a.chunk)
	a.chunk = b.AppendRow(a.chunk)
	a.size += len(a.chunk) - start
	return Row(a.chunk[start:len(a.chunk):len(a.chunk)])
}

// Size returns the number of bytes of the rows made since Reset.
func (a *Arena) Size() int { return a.size }

// Reset forgets all rows: the memory is used again, so nobody may hold one any longer.
func (a *Arena) Reset() {
	a.size = 0
	a.chunk = a.chunk[:0]
	if cap(a.chunk) > arenaMost {
		a.chunk = nil // one huge row must not hold its memory for ever
	}
}
