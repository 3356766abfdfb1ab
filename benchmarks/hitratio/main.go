// Command hitratio plays one zipf trace of requests, get and on a miss set, against servers of the memcached protocol
// one after the other, and prints how many gets each answered from memory.
//
//	hitratio -addr 127.0.0.1:11211 -addr 127.0.0.1:11212 -requests 10000000 -keys 1300000
//
// Give all servers the same memory, and keys that need a multiple of it.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"sort"
	"strings"
)

type addrs []string

func (a *addrs) String() string     { return strings.Join(*a, " ") }
func (a *addrs) Set(s string) error { *a = append(*a, s); return nil }

func main() {
	var servers addrs
	flag.Var(&servers, "addr", "host:port; repeat for more servers")
	requests := flag.Int("requests", 10_000_000, "gets")
	keys := flag.Int("keys", 1_300_000, "distinct keys")
	alpha := flag.Float64("alpha", 0.99, "exponent of the zipf distribution")
	vsize := flag.Int("vsize", 100, "value size")
	batch := flag.Int("batch", 50, "keys in one multi-get")
	flag.Parse()

	sums := make([]float64, *keys)
	total := 0.0
	for i := range sums {
		total += math.Pow(float64(i+1), -*alpha)
		sums[i] = total
	}
	for _, addr := range servers {
		rnd := rand.New(rand.NewPCG(1, 2)) // the same trace for all
		hits, err := play(addr, *requests, *batch, *vsize, func() int { return sort.SearchFloat64s(sums, rnd.Float64()*total) })
		if err != nil {
			log.Fatalf("%s: %v", addr, err)
		}
		fmt.Printf("%s: %d of %d, hit ratio %.4f\n", addr, hits, *requests, float64(hits)/float64(*requests))
	}
}

// play sends the trace in multi-gets; what one misses is set before the next. A key twice in a batch is asked for once.
func play(addr string, requests, batch, vsize int, draw func() int) (hits int, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	in := bufio.NewReaderSize(c, 1<<20)
	value := bytes.Repeat([]byte("v"), vsize)
	var out []byte
	for done := 0; done < requests; {
		want := map[int]int{}
		for range min(batch, requests-done) {
			want[draw()]++
			done++
		}
		out = append(out[:0], "get"...)
		for k := range want {
			out = fmt.Appendf(out, " key:%026d", k)
		}
		if _, err := c.Write(append(out, "\r\n"...)); err != nil {
			return 0, err
		}
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return 0, err
			}
			if string(line) == "END\r\n" {
				break
			}
			var k, flags, n int
			if _, err := fmt.Sscanf(string(line), "VALUE key:%d %d %d", &k, &flags, &n); err != nil {
				return 0, fmt.Errorf("%q: %w", line, err)
			}
			hits += want[k]
			delete(want, k)
			if _, err := in.Discard(n + 2); err != nil {
				return 0, err
			}
		}
		out = out[:0]
		for k, times := range want {
			hits += times - 1 // the set would have answered the further ones
			out = fmt.Appendf(out, "set key:%026d 0 0 %d noreply\r\n%s\r\n", k, vsize, value)
		}
		if _, err := c.Write(out); err != nil {
			return 0, err
		}
	}
	return hits, nil
}
