package mcserver

import (
	"context"

	"github.com/binlogcache/binlogcache/internal/item"
)

// Items keep what clients store that is in no table. Its methods are called from many goroutines at once and do no I/O.
type Items interface {
	// Get shows the item of key to emit, if there is one. The view is valid during the call only.
	Get(key []byte, emit func(*item.View)) bool
	// Fetch is Get with the rest of r; emit may be nil.
	Fetch(r *item.Request, emit func(*item.View)) bool
	Store(r *item.Request) item.Result
	Arithmetic(r *item.Request) item.Result
	Delete(r *item.Request) item.Result
	// Flush drops all items, at the time that exptime says.
	Flush(exptime int64)
	// SetMemoryLimit changes the limit, up to the one of the start. It may take a while.
	SetMemoryLimit(limit int64) bool
}

// place is where an operation goes.
type place uint8

const (
	unknownPlace place = iota // the containers are not known yet
	inTable
	inItems
	nowhere
)

// operation is a kind of request that a policy of its own holds for.
type operation uint8

const (
	operationGet operation = iota
	operationSet
	operationDelete
	operationFlush
	numOperations
)

func operationOf(cmd command) operation {
	switch cmd {
	case cmdDelete, cmdMetaDelete:
		return operationDelete
	case cmdFlushAll:
		return operationFlush
	case cmdGAT, cmdGATS:
		return operationGet
	}
	return operationSet
}

// placesOf says where operations go. Without any container there is nothing but items.
func (s *Server) placesOf(cs *containers) (places [numOperations]place) {
	for op, p := range []Policy{cs.policies.Get, cs.policies.Set, cs.policies.Delete, cs.policies.Flush} {
		switch {
		case p == PolicyDisabled:
			places[op] = nowhere
		case p != PolicyCacheOnly && len(cs.inOrder) > 0:
			places[op] = inTable
		case s.items != nil:
			places[op] = inItems
		case op == int(operationGet):
			places[op] = nowhere
		default:
			places[op] = inTable // nothing is kept, and not to say so would be a lie
		}
	}
	return places
}

func (s *session) place(op operation) place {
	if cs := s.server.containers.Load(); cs != nil {
		return cs.places[op]
	}
	return unknownPlace
}

// findItem is lookup for items.
func (s *session) findItem(key []byte) outcome {
	var found bool
	if s.cmd == cmdGAT || s.cmd == cmdGATS {
		s.request = item.Request{Key: key, Touch: true, Exptime: s.request.Exptime}
		found = s.server.items.Fetch(&s.request, s.emitItem)
	} else {
		found = s.server.items.Get(key, s.emitItem)
	}
	if found {
		return outcomeHit
	}
	return outcomeMiss
}

// metaGetItem answers mg and me, which stand in s.meta.
func (s *session) metaGetItem() {
	m, r := &s.meta, &s.r
	key, _ := m.decodeKey(&s.keyBytes)
	debug := s.cmd == cmdMetaDebug
	s.request = item.Request{
		Key: key, BinaryKey: m.binaryKey, Touch: m.touch && !debug, Exptime: int64(m.exptime), Create: m.vivify && !debug,
		CreateExptime: int64(m.vivifyFor), GiveCAS: m.hasNewCAS, NewCAS: m.newCAS, Lease: !debug, Recache: m.recache, NoBump: m.noBump || debug,
	}
	r.key, r.found, r.expired, r.created = key, false, false, false
	hit := s.server.items.Fetch(&s.request, s.emitItem)
	switch {
	case hit || m.quiet && !debug:
	case debug:
		s.text("EN")
	default:
		r.out = m.appendMiss(r.out)
	}
	r.found = hit && !r.created
	s.countRead()
}

// requestOf makes s.request of w.
func (s *session) requestOf(w *writeRequest, value []byte) {
	q := &s.request
	*q = item.Request{
		Key: w.key, Value: value, Flags: w.flags, Exptime: w.exptime, CAS: w.cas, Compare: w.cmd == cmdCAS || w.cas != 0,
		Delta: w.delta, Decrement: w.cmd == cmdDecr, Initial: w.initial, Create: w.create, CreateExptime: w.exptime,
	}
	if m := &w.meta; w.isMeta() {
		q.Key, _ = m.decodeKey(&s.keyBytes)
		q.BinaryKey, q.Flags, q.Exptime, q.Touch = m.binaryKey, m.flags, int64(m.exptime), m.touch
		q.Compare, q.CAS, q.GiveCAS, q.NewCAS = m.hasCAS, m.cas, m.hasNewCAS, m.newCAS
		q.Create, q.CreateExptime, q.Stale, q.DropValue = m.vivify, int64(m.vivifyFor), m.stale, m.dropValue
		q.Delta, q.Initial, q.Decrement = m.delta, m.initial, m.mode == 'D' || m.mode == 'd' || m.mode == '-'
	}
	q.MaxBytes = s.server.maxItem - itemHeaderBytes - len(q.Key)
	switch w.cmd {
	case cmdAdd:
		q.Mode = item.Add
	case cmdReplace:
		q.Mode = item.Replace
	case cmdAppend:
		q.Mode = item.Append
	case cmdPrepend:
		q.Mode = item.Prepend
	case cmdCAS, cmdMetaSet:
		q.Mode = w.mode()
	}
}

// writeItem does what w asks for to an item.
func (s *session) writeItem(w *writeRequest, value []byte) {
	s.requestOf(w, value)
	q := &s.request
	var res item.Result
	switch w.cmd {
	case cmdIncr, cmdDecr, cmdMetaArithmetic:
		res = s.server.items.Arithmetic(q)
	case cmdDelete, cmdMetaDelete:
		res = s.server.items.Delete(q)
	case cmdTouch:
		q.Touch = true
		if !s.server.items.Fetch(q, s.emitTouched) {
			res.Status = item.NotFound
		}
		res.CAS = s.touched.cas
	case cmdFlushAll:
		s.server.items.Flush(w.exptime)
	default:
		res = s.server.items.Store(q)
	}
	s.answerWrite(w, &res)
}

// isMeta tells that the request came in the meta protocol.
func (w *writeRequest) isMeta() bool {
	return w.cmd == cmdMetaSet || w.cmd == cmdMetaDelete || w.cmd == cmdMetaArithmetic
}

// mode returns how a set of the meta protocol, or a binary one with a cas, stores.
func (w *writeRequest) mode() item.Mode {
	switch w.meta.mode {
	case 'E':
		return item.Add
	case 'A':
		return item.Append
	case 'P':
		return item.Prepend
	case 'R':
		return item.Replace
	}
	return item.Set
}

// writeNothing answers under the policy that is called disabled: as if it were done.
func (s *session) writeNothing(w *writeRequest) {
	res := item.Result{Left: -1}
	switch w.cmd {
	case cmdTouch, cmdIncr, cmdDecr, cmdMetaArithmetic:
		res.Status = item.NotFound // there is no number to answer with
	}
	s.answerWrite(w, &res)
}

// dropOld removes the item that a value which is too large was to replace: what is there is no longer what its client
// believes.
func (s *session) dropOld(w *writeRequest) {
	switch w.cmd {
	case cmdAdd, cmdAppend, cmdPrepend:
		return
	case cmdMetaSet:
		if m := w.mode(); m != item.Set && m != item.Replace {
			return
		}
	}
	if s.place(operationSet) != inItems {
		return
	}
	key := w.key
	if w.meta.binaryKey {
		key, _ = w.meta.decodeKey(&s.keyBytes)
	}
	s.request = item.Request{Key: key}
	s.server.items.Delete(&s.request)
}

// memoryLimit answers cache_memlimit, which counts in MiB. More than the operator has given is refused.
func (s *session) memoryLimit(rest []byte) {
	noreply := isNoreply(rest)
	arg, _ := token(rest)
	n, ok := parseUint(arg)
	switch {
	case !ok:
		s.failUnless(noreply, errBadFormat)
		return
	case n < 8:
		s.failUnless(noreply, errLimitTooSmall)
		return
	}
	cmd := s.cmd
	s.park(func(context.Context) {
		s.cmd = cmd
		if s.server.items == nil || n > 1<<30 || !s.server.items.SetMemoryLimit(int64(n)<<20) {
			s.failUnless(noreply, errLimitBounds)
			return
		}
		s.count.add(s.cmd, resultOK)
		if !noreply {
			s.text("OK")
		}
	})
}

// tune answers the commands that tune memcached's slabs and lists. There are none here; what is only advice is taken as
// that.
func (s *session) tune(name, rest []byte) {
	noreply := isNoreply(rest)
	sub, args := token(rest)
	arg, _ := token(args)
	good := len(arg) > 0
	switch string(name) + " " + string(sub) {
	case "slabs reassign":
		s.failUnless(noreply, errSlabClass)
		return
	case "lru_crawler metadump", "lru_crawler mgdump":
		s.failUnless(noreply, errNoDump)
		return
	case "lru_crawler enable", "lru_crawler disable":
		good = true
	case "slabs automove", "lru mode", "lru tune", "lru temp_ttl", "lru_crawler crawl", "lru_crawler sleep", "lru_crawler tocrawl":
	default:
		good = false
	}
	if !good {
		s.failUnless(noreply, errLine)
		return
	}
	s.count.add(s.cmd, resultOK)
	if !noreply {
		s.text("OK")
	}
}
