package cache

import (
	"bytes"
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/binlogcache/binlogcache/internal/item"
)

// fakeClock is a clock that stands still until a test moves it.
type fakeClock struct{ t int64 }

func (c *fakeClock) now() int64 { return c.t }

func testItems(limit int64) (*Items, *fakeClock) {
	c := &fakeClock{t: 1_700_000_000}
	return NewItems(ItemsConfig{MemoryLimit: limit, Clock: c.now}), c
}

func mustStore(t testing.TB, s *Items, key, value string, exptime int64) item.Result {
	t.Helper()
	r := s.Store(&item.Request{Key: []byte(key), Value: []byte(value), Exptime: exptime})
	if r.Status != item.Done {
		t.Fatalf("store %s: %+v", key, r)
	}
	return r
}

// valueOf returns the value of key, and whether there is one.
func valueOf(s *Items, key string) (value string, ok bool) {
	ok = s.Get([]byte(key), func(v *item.View) { value = string(v.Value) })
	return value, ok
}

func wantValue(t testing.TB, s *Items, key, want string) {
	t.Helper()
	if got, ok := valueOf(s, key); !ok || got != want {
		t.Errorf("%s is %q (%v), want %q", key, got, ok, want)
	}
}

func wantGone(t testing.TB, s *Items, key string) {
	t.Helper()
	if got, ok := valueOf(s, key); ok {
		t.Errorf("%s is there: %q", key, got)
	}
}

// TestItemsModel runs random requests against a plain map.
func TestItemsModel(t *testing.T) {
	type kept struct {
		value  string
		flags  uint32
		cas    uint64
		expiry int64
	}
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s, clock := testItems(64 << 20)
		model := map[string]*kept{}
		live := func(k string) *kept {
			if m := model[k]; m != nil && (m.expiry == 0 || m.expiry > clock.t) {
				return m
			}
			return nil
		}
		expiry := func(x int64) int64 { return item.Expires(x, clock.t) }
		for n := range 60_000 {
			key := "key" + strconv.Itoa(rnd.IntN(500))
			m := live(key)
			r := &item.Request{Key: []byte(key), Flags: rnd.Uint32(), Value: bytes.Repeat([]byte{byte('a' + n%26)}, rnd.IntN(300))}
			if rnd.IntN(400) == 0 {
				r.Value = bytes.Repeat([]byte("L"), rnd.IntN(200_000))
			}
			if rnd.IntN(4) == 0 {
				r.Exptime = int64(rnd.IntN(40) - 2)
			}
			if m != nil && rnd.IntN(4) == 0 {
				r.Compare, r.CAS = true, m.cas-uint64(rnd.IntN(2))
			}
			want := item.Done
			switch op := rnd.IntN(12); op {
			case 0, 1, 2, 3, 4:
				r.Mode = item.Mode(op)
				switch {
				case m == nil && r.Compare:
					want = item.NotFound
				case m == nil && r.Mode != item.Set && r.Mode != item.Add, m != nil && r.Mode == item.Add:
					want = item.NotStored
				case r.Compare && r.CAS != m.cas:
					want = item.Exists
				}
				got := s.Store(r)
				if got.Status != want {
					t.Fatalf("%d: store %+v: %+v, want %d", n, r.Mode, got, want)
				}
				if want != item.Done {
					break
				}
				switch r.Mode {
				case item.Append:
					m.value += string(r.Value)
				case item.Prepend:
					m.value = string(r.Value) + m.value
				default:
					m = &kept{value: string(r.Value), flags: r.Flags, expiry: expiry(r.Exptime)}
					model[key] = m
				}
				m.cas = got.CAS
			case 5, 6:
				if m == nil || rnd.IntN(2) == 0 {
					mustStore(t, s, key, "00012", 0)
					m = &kept{value: "00012"}
					model[key] = m
					s.Get([]byte(key), func(v *item.View) { m.cas = v.CAS })
					r.Compare = false
				}
				number, ok := parseNumber([]byte(m.value))
				r.Delta, r.Decrement = rnd.Uint64()>>uint(rnd.IntN(64)), op == 6
				got := s.Arithmetic(r)
				switch {
				case r.Compare && r.CAS != m.cas:
					want = item.Exists
				case !ok:
					want = item.NotNumber
				}
				if got.Status != want {
					t.Fatalf("%d: arithmetic on %q: %+v, want %d", n, m.value, got, want)
				}
				if want != item.Done {
					break
				}
				switch {
				case op == 5:
					number += r.Delta
				default:
					number -= min(number, r.Delta)
				}
				if got.Number != number {
					t.Fatalf("%d: got %d, want %d", n, got.Number, number)
				}
				m.value, m.cas = fmt.Sprintf("%-*d", len(m.value), number), got.CAS
			case 7:
				switch {
				case m == nil:
					want = item.NotFound
				case r.Compare && r.CAS != m.cas:
					want = item.Exists
				default:
					delete(model, key)
				}
				if got := s.Delete(r); got.Status != want {
					t.Fatalf("%d: delete: %+v, want %d", n, got, want)
				}
			case 8:
				r.Touch = true
				if s.Fetch(r, nil) != (m != nil) {
					t.Fatalf("%d: touch of %v", n, m)
				}
				if m != nil {
					m.expiry = expiry(r.Exptime)
				}
			case 9:
				if rnd.IntN(10) == 0 {
					clock.t += int64(rnd.IntN(5))
				}
				if rnd.IntN(6000) == 0 {
					s.Flush(0)
					clear(model)
				}
			default:
				var got *kept
				found := s.Get([]byte(key), func(v *item.View) { got = &kept{value: string(v.Value), flags: v.Flags, cas: v.CAS} })
				if found != (m != nil) || found && (got.value != m.value || got.cas != m.cas || got.flags != m.flags && m.flags != 0) {
					t.Fatalf("%d: get %s: %v, want %v", n, key, got, m)
				}
			}
		}
		for k := range model {
			if m := live(k); m != nil {
				wantValue(t, s, k, m.value)
			}
		}
		s.check(t)
	}
}

// check looks at the inner order of a store that nobody uses.
func (s *Items) check(t testing.TB) {
	t.Helper()
	used := int64(0)
	for i := range s.shards {
		sh := &s.shards[i]
		count, live, dead, bytes := 0, 0, 0, 0
		for q := range sh.queues {
			queued, prev := 0, uint32(0)
			for n := sh.queues[q].oldest; n != 0; n = sh.chunks[n].next {
				c := &sh.chunks[n]
				if c.prev != prev || int(c.queue) != q {
					t.Fatalf("shard %d, chunk %d: not in order", i, n)
				}
				prev = n
				queued += len(c.buf)
				gone := 0
				for off := 0; off < c.used; {
					e := c.buf[off:]
					size := itemSize(e)
					if e[itemBits]&itemDead != 0 {
						gone += size
					} else {
						count++
						live += size
						if at, found := sh.find(s.hash(itemKey(e)), itemKey(e)); found == nil || &found[0] != &e[0] || at < 0 {
							t.Fatalf("shard %d: %q is not in the table", i, itemKey(e))
						}
					}
					off += size
				}
				if gone != c.dead {
					t.Fatalf("shard %d, chunk %d: %d dead bytes, counted %d", i, n, gone, c.dead)
				}
				if c.sealed {
					dead += gone
				}
			}
			if prev != sh.queues[q].newest || queued != sh.queues[q].bytes {
				t.Fatalf("shard %d, queue %d: %d bytes, counted %d", i, q, queued, sh.queues[q].bytes)
			}
			bytes += queued
		}
		if count != sh.count || live != sh.stats.live || dead != sh.dead || bytes != sh.bytes {
			t.Fatalf("shard %d: %d items of %d bytes, %d dead, %d in all; counted %d, %d, %d, %d", i, count, live, dead, bytes, sh.count, sh.stats.live, sh.dead, sh.bytes)
		}
		used += int64(bytes + 8*len(sh.slots) + 4*len(sh.ghost))
	}
	if used != s.used.Load() {
		t.Fatalf("%d bytes, counted %d", used, s.used.Load())
	}
}

// TestItemsExpiry: times count from the store's clock, relative or not, and are over at their second.
func TestItemsExpiry(t *testing.T) {
	s, clock := testItems(8 << 20)
	begin := clock.t
	mustStore(t, s, "never", "v", 0)
	mustStore(t, s, "past", "v", -1)
	mustStore(t, s, "ten", "v", 10)
	mustStore(t, s, "month", "v", item.RelativeSeconds)
	mustStore(t, s, "long ago", "v", item.RelativeSeconds+1)
	mustStore(t, s, "at", "v", begin+5)
	mustStore(t, s, "far", "v", math.MaxUint32)
	for _, tt := range []struct {
		after int64
		gone  string
	}{{0, "past"}, {0, "long ago"}, {5, "at"}, {10, "ten"}, {item.RelativeSeconds, "month"}} {
		if tt.after > 0 {
			clock.t = begin + tt.after - 1
			wantValue(t, s, tt.gone, "v")
		}
		clock.t = begin + tt.after
		wantGone(t, s, tt.gone)
	}
	clock.t = begin + 1<<31
	wantValue(t, s, "never", "v")
	wantValue(t, s, "far", "v")
	s.check(t)
}

// TestItemsFlush: a flush takes what was stored before it, one with a delay also what is stored until then.
func TestItemsFlush(t *testing.T) {
	s, clock := testItems(8 << 20)
	mustStore(t, s, "a", "v", 0)
	s.Flush(0)
	wantGone(t, s, "a")
	mustStore(t, s, "a", "w", 0)
	wantValue(t, s, "a", "w")
	s.Flush(10)
	clock.t += 9
	mustStore(t, s, "b", "v", 0)
	wantValue(t, s, "a", "w")
	clock.t++
	mustStore(t, s, "c", "v", 0)
	wantGone(t, s, "a")
	wantGone(t, s, "b")
	wantValue(t, s, "c", "v")
	s.Flush(clock.t + 5) // a Unix time
	s.Flush(20)          // in its place
	clock.t += 19
	wantValue(t, s, "c", "v")
	clock.t++
	wantGone(t, s, "c")
	mustStore(t, s, "d", "v", 0)
	s.Flush(5)
	s.Flush(-1) // at once, and nothing is left to come
	wantGone(t, s, "d")
	mustStore(t, s, "d", "v", 0)
	clock.t += 6
	wantValue(t, s, "d", "v")
	s.check(t)
}

// TestItemsSweep: items whose time is over leave room before others are evicted.
func TestItemsSweep(t *testing.T) {
	s, clock := testItems(4 << 20)
	value := strings.Repeat("v", 1000)
	for n := range 1500 {
		mustStore(t, s, fmt.Sprintf("short%d", n), value, 10)
		mustStore(t, s, fmt.Sprintf("long%d", n), value, 0)
		wantValue(t, s, fmt.Sprintf("long%d", n), value)
	}
	clock.t += 11
	for n := range 1900 {
		mustStore(t, s, fmt.Sprintf("new%d", n), value, 0)
	}
	st := s.Stats()
	if st.Reclaimed < 800 || st.ExpiredUnfetched != st.Reclaimed || st.Evictions > 100 {
		t.Errorf("%+v", st)
	}
	s.check(t)
}

// TestItemsLimit changes the limit.
func TestItemsLimit(t *testing.T) {
	s, _ := testItems(8 << 20)
	for n := range 40_000 {
		mustStore(t, s, strconv.Itoa(n), "some value of some length", 0)
	}
	if s.SetMemoryLimit(8<<20 + 1) {
		t.Error("more than the limit of the start is taken")
	}
	if before := s.Stats(); !s.SetMemoryLimit(1<<20) || s.Stats().Used > 1<<20 || s.Stats().Items >= before.Items {
		t.Errorf("%+v, before %+v", s.Stats(), before)
	}
	if r := s.Store(&item.Request{Key: []byte("big"), Value: make([]byte, 600<<10)}); r.Status != item.NoMemory {
		t.Errorf("an item of more than half of the memory: %+v", r)
	}
	s.check(t)
}

// TestItemsBounded rewrites items of all sizes for ever: memory stays below the limit, and what is read now and then
// stays, as long as the live items fit.
func TestItemsBounded(t *testing.T) {
	for _, largest := range []int{200, 3000, 100_000} {
		s, _ := testItems(8 << 20)
		rnd := rand.New(rand.NewPCG(3, uint64(largest)))
		keys := 5 << 20 / (largest/2 + 60)
		value := bytes.Repeat([]byte("v"), largest)
		most := int64(0)
		for n := range 5 * keys {
			k := strconv.Itoa(n % keys)
			if n >= keys {
				if v, ok := valueOf(s, k); !ok || v[:1] != "v" {
					t.Fatalf("items up to %d bytes: %s is lost after %d stores", largest, k, n)
				}
			}
			mustStore(t, s, k, string(value[:1+rnd.IntN(largest)]), 0)
			most = max(most, s.used.Load())
		}
		if most > 8<<20+int64(largest)+int64(s.chunkBytes) {
			t.Errorf("items up to %d bytes: %d bytes were used", largest, most)
		}
		s.check(t)
		// Far more than fits.
		for n := range 6 * keys {
			mustStore(t, s, strconv.Itoa(n), string(value[:1+rnd.IntN(largest)]), int64(n%3*100))
			most = max(most, s.used.Load())
		}
		if most > 8<<20+int64(largest)+int64(s.chunkBytes) {
			t.Errorf("items up to %d bytes: %d bytes were used", largest, most)
		}
		if s.Stats().Evictions == 0 {
			t.Error("nothing was evicted")
		}
		s.check(t)
	}
}

// zipf draws from 0..n-1 with probabilities that fall as 1/(i+1)^alpha.
type zipf struct{ sum []float64 }

func newZipf(n int, alpha float64) *zipf {
	z := &zipf{sum: make([]float64, n)}
	total := 0.0
	for i := range z.sum {
		total += math.Pow(float64(i+1), -alpha)
		z.sum[i] = total
	}
	return z
}

func (z *zipf) draw(rnd *rand.Rand) int {
	return sort.SearchFloat64s(z.sum, rnd.Float64()*z.sum[len(z.sum)-1])
}

// TestItemsHitRatio: on zipf traces over four times what fits, also one whose favourites change all the time, the store finds at least what a least recently used list
// of the same memory does, with memcached's 208 bytes for an item of 30 + 100 bytes.
func TestItemsHitRatio(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of arithmetic; the long form has it")
	}
	const limit, footprint, requests = 2 << 20, 208, 250_000
	for _, trace := range []struct {
		alpha float64
		drift int // the favourites move on by one after so many requests; 0 for never
	}{{0.7, 0}, {0.99, 0}, {1.2, 0}, {0.99, 20}, {0.99, 200}} {
		alpha := trace.alpha
		rnd := rand.New(rand.NewPCG(11, 12))
		z := newZipf(4*limit/footprint, alpha)
		s, _ := testItems(limit)
		lru := list.New()
		places := map[int]*list.Element{}
		hits, lruHits := 0, 0
		value := bytes.Repeat([]byte("v"), 100)
		key := make([]byte, 0, 30)
		show := func(*item.View) {}
		for n := range requests {
			k := z.draw(rnd)
			if trace.drift > 0 {
				k = (k + n/trace.drift) % len(z.sum)
			}
			if e := places[k]; e != nil {
				lruHits++
				lru.MoveToFront(e)
			} else {
				if lru.Len() == limit/footprint {
					delete(places, lru.Remove(lru.Back()).(int))
				}
				places[k] = lru.PushFront(k)
			}
			key = fmt.Appendf(key[:0], "key:%026d", k)
			if s.Get(key, show) {
				hits++
			} else {
				s.Store(&item.Request{Key: key, Value: value})
			}
		}
		ours, theirs := float64(hits)/requests, float64(lruHits)/requests
		t.Logf("alpha %.2f, drift %d: %.4f, least recently used %.4f", alpha, trace.drift, ours, theirs)
		if ours < theirs {
			t.Errorf("alpha %.2f, drift %d: hit ratio %.4f, least recently used has %.4f", alpha, trace.drift, ours, theirs)
		}
	}
}

func TestItemsMemoryPerItem(t *testing.T) {
	s, _ := testItems(80 << 20)
	const n = 300_000
	value := bytes.Repeat([]byte("v"), 100)
	r := &item.Request{Value: value}
	for i := range n {
		r.Key = fmt.Appendf(r.Key[:0], "key:%026d", i)
		s.Store(r)
	}
	st := s.Stats()
	per := float64(st.Used) / n
	t.Logf("%.1f bytes for an item of 30 + 100", per)
	if st.Items != n || per > 192 {
		t.Errorf("%d items, %.1f bytes each", st.Items, per)
	}
}

func TestItemsDoNotAllocate(t *testing.T) {
	s, _ := testItems(8 << 20)
	key, value := []byte("some key"), bytes.Repeat([]byte("v"), 100)
	r := &item.Request{Key: key, Value: value}
	s.Store(r)
	out := make([]byte, 0, 1000)
	show := func(v *item.View) { out = append(out[:0], v.Value...) }
	if n := testing.AllocsPerRun(100, func() { s.Get(key, show) }); n != 0 {
		t.Errorf("get: %v allocations", n)
	}
	n := 0
	if a := testing.AllocsPerRun(1000, func() { n++; r.Value = value[:n%50]; s.Store(r) }); a != 0 {
		t.Errorf("store: %v allocations", a)
	}
}

func TestItemsConcurrent(t *testing.T) {
	s := NewItems(ItemsConfig{MemoryLimit: 2 << 20})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			value := bytes.Repeat([]byte{byte('a' + g)}, 2000)
			for range 20_000 {
				key := []byte(strconv.Itoa(rnd.IntN(3000)))
				switch rnd.IntN(12) {
				case 0:
					s.Delete(&item.Request{Key: key})
				case 1:
					s.Arithmetic(&item.Request{Key: key, Delta: 1, Create: true, CreateExptime: 1})
				case 2, 3, 4:
					s.Store(&item.Request{Key: key, Value: value[:rnd.IntN(len(value))], Exptime: int64(rnd.IntN(3)), Mode: item.Mode(rnd.IntN(5))})
				case 5:
					if rnd.IntN(1000) == 0 {
						s.Flush(int64(rnd.IntN(2)))
					}
				default:
					s.Get(key, func(*item.View) {})
				}
			}
		})
	}
	wg.Wait()
	s.check(t)
}
