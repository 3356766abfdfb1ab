package mcserver

import (
	"context"
	"errors"
	"strings"
)

// outcome is how a look-up ended.
type outcome uint8

const (
	outcomeMiss   outcome = iota
	outcomeHit            // its answer is written
	outcomePark           // only a parked job can tell
	outcomeFailed         // session.failure says why
)

// memoryOnly is the context of what runs outside parked jobs and so must do no I/O.
var memoryOnly context.Context = context.WithValue(context.Background(), memoryOnlyKey{}, nil)

type memoryOnlyKey struct{}

// lookup answers key, which is written as a client writes it: with a container's name before it or without. With
// memoryOnly it gives outcomePark where I/O is needed; nothing has happened then, so that the key can be looked up again
// from a job. The form of the answer stands in the renderer.
func (s *session) lookup(ctx context.Context, key []byte) outcome {
	r := &s.r
	r.key, r.found, r.expired = key, false, false
	cs := s.server.containers.Load()
	if cs == nil {
		s.failure = errNotStarted
		return outcomeFailed
	}
	s.follow(cs)
	switch cs.places[operationGet] {
	case inItems:
		return s.findItem(key)
	case nowhere:
		return outcomeMiss
	}
	touch := s.cmd == cmdGAT || s.cmd == cmdGATS || r.form == formMeta && s.meta.touch
	if touch && ctx == memoryOnly {
		return outcomePark
	}
	name, rest := splitKey(key, cs.options.TableMapDelimiter)
	if name != nil {
		// In a multiple get only the first key can change the container: later names are passed over.
		if !s.searched {
			if o := s.switchTo(ctx, name); o != outcomeHit {
				return o
			}
		}
		if len(rest) == 0 {
			if s.at == nil {
				return outcomeMiss
			}
			r.writeText(s.at.Schema + "/" + s.at.Table)
			return outcomeHit
		}
	}
	if s.at == nil {
		return outcomeMiss
	}
	if touch {
		s.searched = true
		if cs.places[operationSet] != inTable {
			s.failure = errNoTouch
			return outcomeFailed
		}
		return s.touchAndFind(ctx, rest)
	}
	if len(rest) > 1 && rest[0] == '@' && (rest[1] == '<' || rest[1] == '>') && (r.form == formText || r.form == formCAS) {
		// However many rows it has, a range does not hold up other connections.
		if ctx == memoryOnly {
			return outcomePark
		}
		s.searched = true
		return s.findRange(ctx, rest)
	}
	o := s.find(ctx, rest)
	if o != outcomePark {
		s.searched = true
	}
	return o
}

// splitKey parts @@name.key; name is nil in other keys. The first byte that is in delimiter ends the name.
func splitKey(key []byte, delimiter string) (name, rest []byte) {
	if len(key) <= 3 || key[0] != '@' || key[1] != '@' {
		return nil, key
	}
	name = key[2:]
	for i, c := range name {
		if strings.IndexByte(delimiter, c) >= 0 {
			return name[:i], name[i+1:]
		}
	}
	return name, nil
}

// follow makes the session's container one of cs, which are in use now: the one of the name that the client has chosen,
// or else the default. Where the chosen one is gone, the client is told so: another container's row with the same key
// would be a wrong answer.
func (s *session) follow(cs *containers) {
	if s.containers == cs || s.searched && s.at != nil {
		return // a get of several keys ends where it began
	}
	at := cs.first
	if s.switched {
		if at = cs.byName[s.at.Name]; at == nil {
			at = s.server.gone(s.at)
		}
	}
	s.containers, s.at = cs, at
}

// switchTo changes the session's container, also to one that can't be read at present. A name that isn't known changes
// nothing.
func (s *session) switchTo(ctx context.Context, name []byte) outcome {
	cs := s.server.containers.Load()
	if cs == nil {
		s.failure = errNotStarted
		return outcomeFailed
	}
	s.follow(cs)
	c := cs.byName[string(name)]
	if c == nil && len(name) > 0 && s.server.mayRefresh() {
		if ctx == memoryOnly {
			return outcomePark
		}
		var err error
		if cs, err = s.server.refresh(ctx, name); err != nil {
			return s.failed(err)
		}
		s.follow(cs)
		c = cs.byName[string(name)]
	}
	if c == nil {
		return outcomeMiss
	}
	s.at, s.switched = c, true
	return outcomeHit
}

// find looks up one row by its key.
func (s *session) find(ctx context.Context, key []byte) outcome {
	r := &s.r
	start := len(r.out)
	for attempt := 0; ; attempt++ {
		b, err := s.binding()
		if err != nil {
			if ctx == memoryOnly {
				return outcomePark
			}
			if b, err = s.server.reopen(ctx, s.at); err != nil {
				return s.failed(err)
			}
		}
		value, ok := b.keyValue(key, &s.scratch)
		if !ok {
			s.meta.age.known = true // there never was such a row
			return outcomeMiss
		}
		r.b = b
		s.value[0] = value
		s.search.Def, s.search.Index, s.search.Columns = b.def, b.index, b.columns
		s.search.Limit = 1
		aged := s.asksAge()
		served := false
		if !aged || s.agedMemory(b) {
			served, err = s.searchMemory(b)
		}
		if served && err == nil {
			return r.outcome()
		}
		if ctx == memoryOnly {
			return outcomePark
		}
		if err == nil {
			if aged {
				err = s.searchAged(ctx, b)
			} else {
				err = b.table.SearchDatabase(ctx, &s.search, s.emitOnly)
			}
			if err == nil {
				return r.outcome()
			}
		}
		// What was written before the error is no answer.
		r.out = r.out[:start]
		r.found, r.expired = false, false
		r.traced = traced{}
		if !errors.Is(err, ErrChanged) || attempt == reopenAttempts {
			return s.failed(err)
		}
		if _, err := s.server.reopen(ctx, s.at); err != nil {
			return s.failed(err)
		}
	}
}

// binding returns what the session's container is bound to now, or in a view what it was when that began.
func (s *session) binding() (*binding, error) {
	switch {
	case s.viewed == nil:
		return s.at.bound()
	case s.viewedAt != s.at:
		return nil, errReopen // another container since the view began: to be looked up outside
	}
	return s.viewed, nil
}

// searchMemory runs the prepared search over b.
func (s *session) searchMemory(b *binding) (served bool, err error) {
	if s.viewed != nil {
		return s.view(&s.search, s.emit)
	}
	return b.table.SearchMemory(&s.search, s.emit)
}

// outcome is that of a search which has ended well.
func (r *renderer) outcome() outcome {
	if r.found {
		return outcomeHit
	}
	return outcomeMiss
}

// countRead counts the read of one key.
func (s *session) countRead() {
	switch {
	case s.r.found:
		s.count.add(s.cmd, resultHit)
	case s.r.expired:
		s.count.add(s.cmd, resultExpired)
	default:
		s.count.add(s.cmd, resultMiss)
	}
}

// metaGet answers mg and me, whose key and flags are in line.
func (s *session) metaGet(line []byte) {
	if problem := s.meta.parseMeta(line); problem != "" {
		s.fail(problem)
		return
	}
	if _, ok := s.meta.decodeKey(&s.line); !ok {
		s.fail(errMetaKey)
		return
	}
	if s.meta.age.bad {
		s.fail(errMetaToken)
		return
	}
	s.r.form = formMeta
	if s.cmd == cmdMetaDebug {
		s.r.form = formDebug
	}
	if s.place(operationGet) == inItems {
		s.metaGetItem()
		return
	}
	if s.cmd != cmdMetaDebug && s.meta.touch && !s.server.writable() {
		s.refuseWrite(false, errNoWriting)
		return
	}
	if !s.metaLookup(memoryOnly) {
		// The flags are parts of the line, so the job reads them again from a copy.
		s.line = append(s.line[:0], line...)
		s.park(func(ctx context.Context) {
			s.meta.parseMeta(s.line)
			s.metaLookup(ctx)
		})
	}
}

// metaLookup answers s.meta. With memoryOnly it may have to be called again from a job, which false says.
func (s *session) metaLookup(ctx context.Context) bool {
	s.searched, s.unavailable = false, false
	key, _ := s.meta.decodeKey(&s.keyBytes)
	switch s.lookup(ctx, key) {
	case outcomePark:
		return false
	case outcomeFailed:
		s.metaFailed()
		return true
	case outcomeHit:
		if s.r.traced.row {
			s.appendTrace()
		}
	case outcomeMiss:
		if s.cmd == cmdMetaDebug {
			s.text("EN")
			break
		}
		if s.meta.vivify {
			s.refuseWrite(false, errNoVivify)
			return true
		}
		if !s.meta.quiet {
			s.r.out = s.meta.appendMiss(s.r.out)
		}
	}
	s.countRead()
	return true
}
