package cache

import (
	"fmt"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// Copy is rows of a table outside of its locks. The zero value is ready; its memory is used again.
type Copy struct {
	// Rows are valid until the next use.
	Rows []rowcodec.Row
	buf  []byte
	ends []int
}

// CopyRows copies rows of a live table in the order of its key, from behind after, or from the first row where that is nil, until
// there are about so many bytes. It reports whether there are more. Rows that are copied one after the other need not be of
// one state of the table.
func (g *Generation) CopyRows(c *Copy, after rowcodec.Row, size int) (more bool, err error) {
	t := g.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gen != g || t.State() != StateLive {
		return false, fmt.Errorf("copy rows of %s: %w", t.fullName, ErrStale)
	}
	at := g.key.seek(nil)
	if after != nil {
		key, err := g.keyEnc.AppendRow(nil, after)
		if err != nil {
			return false, fmt.Errorf("copy rows of %s: %w", t.fullName, err)
		}
		at = new(scratch).seekAfter(g.key, key)
	}
	c.buf, c.ends, c.Rows = c.buf[:0], c.ends[:0], c.Rows[:0]
	for ; !at.atEnd() && len(c.buf) < size; at = g.key.next(at) {
		row, _ := g.log.get(g.key.id(at))
		c.buf = append(c.buf, row...)
		c.ends = append(c.ends, len(c.buf))
	}
	begin := 0
	for _, end := range c.ends {
		c.Rows = append(c.Rows, rowcodec.Row(c.buf[begin:end:end]))
		begin = end
	}
	return !at.atEnd(), nil
}
