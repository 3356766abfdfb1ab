package main

import "math/bits"

type hist struct {
	n   uint64
	b   [64 * 32]uint64
	max uint64
}

func (h *hist) add(v uint64) {
	h.n++
	if v > h.max {
		h.max = v
	}
	if v < 32 {
		h.b[v]++
		return
	}
	e := bits.Len64(v) - 6
	h.b[(e+1)*32+int(v>>uint(e))-32]++
}

func (h *hist) merge(o *hist) {
	h.n += o.n
	for i := range h.b {
		h.b[i] += o.b[i]
	}
	if o.max > h.max {
		h.max = o.max
	}
}

func (h *hist) q(p float64) float64 {
	want := uint64(p * float64(h.n))
	var c uint64
	for i, x := range h.b {
		c += x
		if c > want {
			if i < 32 {
				return float64(i) / 1000
			}
			e := i/32 - 1
			return float64(uint64(i%32+32)<<uint(e)) / 1000
		}
	}
	return float64(h.max) / 1000
}
