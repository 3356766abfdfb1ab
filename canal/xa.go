package canal

import (
	"encoding/binary"
	"fmt"

	"github.com/binlogcache/binlogcache/rowcodec"
)

// maxPrepared bounds the number of prepared transactions that are remembered. Of one beyond it nothing is known but that
// it was.
const maxPrepared = 10_000

// prepared holds XA transactions between their preparation and their commit, which may be days later. It belongs to the
// stream's goroutine and survives reconnects.
type prepared struct {
	held  map[string]*preparedXA
	bytes int64
}

type preparedXA struct {
	tables     []*tableChanges
	bytes      int64
	everything string
	touched    map[*table]string
}

// parseXID reads the body of an XA_PREPARE event: whether the transaction ends with it, and its name in the form in which
// the servers write it in XA COMMIT.
func parseXID(data []byte) (name string, onePhase bool, err error) {
	const head = 1 + 3*4
	if len(data) < head {
		return "", false, fmt.Errorf("XA_PREPARE event of %d bytes", len(data))
	}
	format := binary.LittleEndian.Uint32(data[1:])
	global := uint64(binary.LittleEndian.Uint32(data[5:]))
	branch := uint64(binary.LittleEndian.Uint32(data[9:]))
	data, onePhase = data[head:], data[0] != 0
	if global+branch > uint64(len(data)) {
		return "", false, fmt.Errorf("XA_PREPARE event with a name of %d bytes in %d", global+branch, len(data))
	}
	return fmt.Sprintf("x'%x',x'%x',%d", data[:global], data[global:global+branch], format), onePhase, nil
}

// hold keeps a transaction that has been prepared. limit bounds the memory of all.
func (p *prepared) hold(name string, x *transaction, limit int64) {
	p.forget(name)
	if p.bytes+x.bytes > limit {
		x.drop()
	}
	if len(p.held) >= maxPrepared {
		return
	}
	h := &preparedXA{bytes: x.bytes, everything: x.everything, touched: x.touched}
	for _, tc := range x.tables {
		tc.changes = append([]rowcodec.Change(nil), tc.changes...)
		h.tables = append(h.tables, tc)
	}
	if p.held == nil {
		p.held = map[string]*preparedXA{}
	}
	p.held[name] = h
	p.bytes += h.bytes
	// The rows are in the arena, which goes with them.
	x.arena = nil
	x.tables = nil
}

// take gives a held transaction to be committed in x; false when it is not known.
func (p *prepared) take(name string, x *transaction) bool {
	h := p.held[name]
	if h == nil {
		return false
	}
	p.forget(name)
	x.tables = append(x.tables, h.tables...)
	if h.everything != "" {
		x.touchAll(h.everything)
	}
	for t, reason := range h.touched {
		x.touch(t, reason)
	}
	return true
}

func (p *prepared) forget(name string) {
	if h := p.held[name]; h != nil {
		p.bytes -= h.bytes
		delete(p.held, name)
	}
}
