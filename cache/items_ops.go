package cache

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/binlogcache/binlogcache/internal/item"
)

// maxNumberBytes is the longest text that is a number of 64 bits.
const maxNumberBytes = 20

// Get shows the item of key to emit and counts it as used. It tells whether there is one.
func (s *Items) Get(key []byte, emit func(*item.View)) bool {
	now := s.now()
	h := s.hash(key)
	sh := s.shard(h, now)
	_, e := sh.live(h, key, now)
	if e == nil {
		sh.mu.Unlock()
		return false
	}
	v := &sh.view
	show(v, e, now)
	use(e, now)
	emit(v)
	sh.mu.Unlock()
	return true
}

// Fetch is Get with what r asks for besides: touching, creating, leases, leaving no trace. emit may be nil.
func (s *Items) Fetch(r *item.Request, emit func(*item.View)) bool {
	now := s.now()
	h := s.hash(r.Key)
	sh := s.shard(h, now)
	_, e := sh.live(h, r.Key, now)
	v := &sh.view
	created := e == nil && r.Create
	switch {
	case created:
		e = sh.create(h, r, nil, queueSmall)
		put32(e, itemExpiry, sh.expires(r.CreateExptime, now))
		put32(e, itemUsed, uint32(now))
		e[itemBits] |= itemSent
		show(v, e, now)
		v.Created, v.Won, v.Sent = true, true, false
	case e == nil:
		sh.mu.Unlock()
		return false
	default:
		show(v, e, now)
		if r.Lease {
			left := int64(get32(e, itemExpiry)) - now
			if v.Won = !v.Sent && (v.Stale || left > -now && left < int64(r.Recache)); v.Won {
				e[itemBits] |= itemSent
			}
		}
		if !r.NoBump {
			use(e, now)
		}
		if r.Touch {
			put32(e, itemExpiry, sh.expires(r.Exptime, now))
			v.Left = left(e, now)
		}
	}
	if emit != nil {
		emit(v)
	}
	sh.mu.Unlock()
	if created {
		s.settle(now)
	}
	return true
}

// Store stores r.Value as r.Mode says.
func (s *Items) Store(r *item.Request) item.Result {
	now := s.now()
	h := s.hash(r.Key)
	if res, bad := s.tooMuch(r, len(r.Value)); bad {
		return res
	}
	sh := s.shard(h, now)
	res := sh.store(h, r, now)
	sh.mu.Unlock()
	s.settle(now)
	return res
}

// tooMuch refuses an item that could never be kept.
func (s *Items) tooMuch(r *item.Request, valueLen int) (item.Result, bool) {
	size := itemHead + len(r.Key) + valueLen
	if len(r.Key) > math.MaxUint8 || int64(size) > s.limit.Load()/2 {
		return item.Result{Status: item.NoMemory}, true
	}
	return item.Result{}, false
}

func (s *itemShard) store(h uint64, r *item.Request, now int64) item.Result {
	place, e := s.live(h, r.Key, now)
	mode := r.Mode
	if e == nil && (mode == item.Append || mode == item.Prepend) && r.Create {
		created := *r
		created.Mode, created.Exptime = item.Set, r.CreateExptime
		return s.store(h, &created, now)
	}
	stale := false
	switch {
	case r.Compare && e == nil:
		return item.Result{Status: item.NotFound}
	case e == nil && mode != item.Set && mode != item.Add:
		return item.Result{Status: item.NotStored}
	case e != nil && mode == item.Add:
		bump(e) // memcached, too, takes this for a use
		put32(e, itemUsed, uint32(now))
		return item.Result{Status: item.NotStored}
	case r.Compare && r.CAS != binary.LittleEndian.Uint64(e):
		if stale = r.Stale && r.CAS < binary.LittleEndian.Uint64(e); !stale {
			return item.Result{Status: item.Exists}
		}
	}
	s.stats.total++
	if mode == item.Append || mode == item.Prepend {
		return s.extend(h, r, place, e, now)
	}
	var x uint32
	if r.Exptime != 0 {
		if x = s.expires(r.Exptime, now); int64(x) <= now {
			// It is over at once, so it need not be there.
			if e != nil {
				s.unlink(place)
			}
			return item.Result{CAS: s.giveCAS(r), Length: len(r.Value), Left: 0, BinaryKey: r.BinaryKey}
		}
	}
	old := e
	e = s.replace(h, r, place, e, r.Value, nil)
	put32(e, itemFlags, r.Flags)
	put32(e, itemExpiry, x)
	put32(e, itemUsed, uint32(now))
	e[itemBits] &= itemUse
	if stale {
		e[itemBits] |= itemStale
	}
	if r.BinaryKey {
		e[itemBits] |= itemBinary
	}
	return item.Result{CAS: binary.LittleEndian.Uint64(e), Length: len(r.Value), Left: left(e, now), BinaryKey: r.BinaryKey, Created: old == nil}
}

// extend appends or prepends to the item e.
func (s *itemShard) extend(h uint64, r *item.Request, place int, e []byte, now int64) item.Result {
	had := itemValue(e)
	if res, bad := s.items.tooMuch(r, len(had)+len(r.Value)); bad {
		return res
	}
	if r.MaxBytes > 0 && len(had)+len(r.Value) > r.MaxBytes {
		return item.Result{Status: item.TooLarge}
	}
	binaryKey := e[itemBits]&itemBinary != 0
	if len(r.Value) > 0 {
		flags, x, state := get32(e, itemFlags), get32(e, itemExpiry), e[itemBits]&itemBinary
		first, second := had, r.Value
		if r.Mode == item.Prepend {
			first, second = second, first
		}
		e = s.replace(h, r, place, e, first, second)
		put32(e, itemFlags, flags)
		put32(e, itemExpiry, x)
		e[itemBits] |= state
	} else {
		s.setCAS(e, r)
	}
	put32(e, itemUsed, uint32(now))
	return item.Result{CAS: binary.LittleEndian.Uint64(e), Length: len(itemValue(e)), Left: left(e, now), BinaryKey: binaryKey}
}

// Arithmetic adds to a number, or takes off.
func (s *Items) Arithmetic(r *item.Request) item.Result {
	now := s.now()
	h := s.hash(r.Key)
	sh := s.shard(h, now)
	res := sh.arithmetic(h, r, now)
	sh.mu.Unlock()
	s.settle(now)
	return res
}

func (s *itemShard) arithmetic(h uint64, r *item.Request, now int64) item.Result {
	place, e := s.live(h, r.Key, now)
	if e == nil {
		if !r.Create {
			return item.Result{Status: item.NotFound}
		}
		if res, bad := s.items.tooMuch(r, maxNumberBytes); bad {
			return res
		}
		n := strconv.AppendUint(s.digits[:0], r.Initial, 10)
		created := item.Request{
			Key: r.Key, BinaryKey: r.BinaryKey, Value: n, Exptime: r.CreateExptime, GiveCAS: r.GiveCAS, NewCAS: r.NewCAS,
		}
		res := s.store(h, &created, now)
		res.Number = r.Initial
		return res
	}
	if r.Compare && r.CAS != binary.LittleEndian.Uint64(e) {
		return item.Result{Status: item.Exists}
	}
	n, ok := parseNumber(itemValue(e))
	if !ok {
		return item.Result{Status: item.NotNumber}
	}
	switch {
	case !r.Decrement:
		n += r.Delta
	case n < r.Delta:
		n = 0
	default:
		n -= r.Delta
	}
	text := strconv.AppendUint(s.digits[:0], n, 10)
	v := itemValue(e)
	if len(text) > len(v) {
		flags, x, state := get32(e, itemFlags), get32(e, itemExpiry), e[itemBits]&itemBinary
		e = s.replace(h, r, place, e, text, nil)
		put32(e, itemFlags, flags)
		put32(e, itemExpiry, x)
		e[itemBits] |= state
	} else {
		// As memcached does, a number that became shorter keeps its place: blanks fill it up.
		for i := copy(v, text); i < len(v); i++ {
			v[i] = ' '
		}
		s.setCAS(e, r)
		bump(e)
	}
	put32(e, itemUsed, uint32(now))
	if r.Touch {
		put32(e, itemExpiry, s.expires(r.Exptime, now))
	}
	return item.Result{
		CAS: binary.LittleEndian.Uint64(e), Number: n, Length: len(text), Left: left(e, now), BinaryKey: e[itemBits]&itemBinary != 0,
	}
}

// parseNumber reads a value as incr does: digits, behind which blanks may stand.
func parseNumber(v []byte) (uint64, bool) {
	for len(v) > 0 && v[len(v)-1] == ' ' {
		v = v[:len(v)-1]
	}
	if len(v) == 0 || len(v) > maxNumberBytes {
		return 0, false
	}
	var n uint64
	for _, c := range v {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// Delete drops the item, or leaves it as stale or without its value, as r says.
func (s *Items) Delete(r *item.Request) item.Result {
	now := s.now()
	h := s.hash(r.Key)
	sh := s.shard(h, now)
	defer sh.mu.Unlock()
	place, e := sh.live(h, r.Key, now)
	switch {
	case e == nil:
		return item.Result{Status: item.NotFound}
	case r.Compare && r.CAS != binary.LittleEndian.Uint64(e):
		return item.Result{Status: item.Exists}
	}
	binaryKey := e[itemBits]&itemBinary != 0
	if !r.Stale && !r.DropValue {
		sh.unlink(place)
		return item.Result{BinaryKey: binaryKey}
	}
	if r.DropValue {
		x := e[itemBits] & (itemBinary | itemUse)
		e = sh.replace(h, r, place, e, nil, nil)
		put32(e, itemFlags, 0)
		put32(e, itemExpiry, 0)
		put32(e, itemUsed, uint32(now))
		e[itemBits] = x
	} else {
		sh.setCAS(e, r)
	}
	if r.Stale {
		e[itemBits] = e[itemBits]&^itemSent | itemStale
	}
	if r.Touch {
		put32(e, itemExpiry, sh.expires(r.Exptime, now))
	}
	return item.Result{CAS: binary.LittleEndian.Uint64(e), Left: left(e, now), BinaryKey: binaryKey}
}

// live is find for an item whose time is not over; one whose time is over is taken out.
func (s *itemShard) live(h uint64, key []byte, now int64) (place int, e []byte) {
	place, e = s.find(h, key)
	if e != nil && expired(e, now) {
		s.countExpired(e)
		s.unlink(place)
		return -1, nil
	}
	return place, e
}

// replace gives the item of r's key the value that first and second make, and a new CAS. place and e are what live has
// found. The parts may lie in e, if the length changes.
func (s *itemShard) replace(h uint64, r *item.Request, place int, e, first, second []byte) []byte {
	if e == nil {
		queue := queueSmall
		if s.remembered(h) {
			queue = queueMain
		}
		return s.create(h, r, first, queue)
	}
	if int(get32(e, itemValueLen)) == len(first)+len(second) {
		copy(itemValue(e), first)
		bump(e)
		s.setCAS(e, r)
		return e
	}
	was := s.slots[place]
	w, e := s.write(h, r.Key, first, second, int(s.chunks[was.chunk()].queue))
	bump(e)
	s.setCAS(e, r)
	s.slots[place] = w
	s.kill(was.chunk(), was.off())
	return e
}

// create puts a new item into the log and the table.
func (s *itemShard) create(h uint64, r *item.Request, value []byte, queue int) []byte {
	w, e := s.write(h, r.Key, value, nil, queue)
	if r.BinaryKey {
		e[itemBits] |= itemBinary
	}
	s.setCAS(e, r)
	s.insert(w)
	return e
}

func (s *itemShard) giveCAS(r *item.Request) uint64 {
	if r.GiveCAS {
		return r.NewCAS
	}
	return s.items.nextCAS()
}

func (s *itemShard) setCAS(e []byte, r *item.Request) { binary.LittleEndian.PutUint64(e, s.giveCAS(r)) }

// expires is item.Expires for this shard's items.
func (s *itemShard) expires(exptime, now int64) uint32 {
	x := item.Expires(exptime, now)
	if x != 0 {
		s.expiry = true
	}
	return uint32(min(x, math.MaxUint32))
}

// bump notes a use.
func bump(e []byte) { e[itemBits] |= itemUse }

// use notes a fetch.
func use(e []byte, now int64) {
	e[itemBits] |= itemUse | itemFetched
	put32(e, itemUsed, uint32(now))
}

// left returns the time that an item has left, -1 for ever.
func left(e []byte, now int64) int64 {
	x := get32(e, itemExpiry)
	if x == 0 {
		return -1
	}
	return max(int64(x)-now, 0)
}

// show makes v the view of an item.
func show(v *item.View, e []byte, now int64) {
	b := e[itemBits]
	*v = item.View{
		Value: itemValue(e), Flags: get32(e, itemFlags), CAS: binary.LittleEndian.Uint64(e), Left: left(e, now),
		Idle:    max(now-int64(get32(e, itemUsed)), 0), // another call may have seen a later second
		Fetched: b&itemFetched != 0, Size: itemSize(e),
		Stale: b&itemStale != 0, Sent: b&itemSent != 0, BinaryKey: b&itemBinary != 0,
	}
}
