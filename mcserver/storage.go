package mcserver

import "bytes"

// writeRequest is a parsed request that changes something. Its slices are valid until the next request.
type writeRequest struct {
	cmd     command
	noreply bool
	key     []byte // as it was written
	flags   uint32
	exptime int64
	cas     uint64 // of cas; in the binary protocol of any, 0 for none
	delta   uint64 // of incr and decr
	initial uint64 // of a binary incr or decr, and whether to create it
	create  bool
	// length is that of the value, without the line end behind it.
	length int
	// meta are the flags of a meta command.
	meta metaRequest
}

// storage reads a line of set, add, replace, append, prepend or cas.
func (s *session) storage(rest []byte) {
	w, args := s.begin(isNoreply(rest)), rest
	var tok [5][]byte
	n := 4
	if s.cmd == cmdCAS {
		n = 5
	}
	for i := range n {
		tok[i], args = token(args)
	}
	length, ok := parseUint(tok[3])
	if !ok || length > maxValueAnnounce {
		// Without a length the data block can't be told from commands.
		s.failUnless(w.noreply, errBadFormat)
		return
	}
	w.length = int(length)
	good := len(tok[0]) <= maxKeyBytes && len(tok[n-1]) > 0
	flags, ok := parseUint(tok[1])
	w.flags = uint32(flags) // memcached, too, wraps what is over 32 bits
	good = good && ok
	w.exptime, ok = parseExptime(tok[2])
	good = good && ok
	if s.cmd == cmdCAS && good {
		w.cas, good = parseUint(tok[4])
	}
	problem := errBadFormat
	if good && s.asPlugin() {
		problem = pluginExptime(tok[2])
		good = problem == ""
	}
	s.awaitBlock(w, tok[0], good, problem)
}

// metaSet reads a line of ms.
func (s *session) metaSet(rest []byte) {
	w := s.begin(false)
	key, args := token(rest)
	size, args := token(args)
	length, ok := parseUint(size)
	if !ok || length > maxValueAnnounce {
		s.fail(errBadFormat)
		return
	}
	w.length = int(length)
	w.meta.key = key
	problem := errBadFormat
	if len(key) <= maxKeyBytes {
		if problem = w.meta.parseFlags(args); problem == "" {
			problem = w.meta.check(s.cmd, &s.keyBytes)
		}
	}
	s.awaitBlock(w, key, problem == "", problem)
}

// check looks at what the flags of one command mean.
func (m *metaRequest) check(cmd command, scratch *[]byte) string {
	modes, problem := "\x00EAPRS", errMetaSetMode // upper case only, as memcached
	if cmd == cmdMetaArithmetic {
		modes, problem = "\x00Ii+Dd-", errMetaArithMode
	}
	if cmd != cmdMetaDelete && bytes.IndexByte([]byte(modes), m.mode) < 0 {
		return problem
	}
	if _, ok := m.decodeKey(scratch); !ok {
		return errMetaKey
	}
	return ""
}

// awaitBlock goes on to the data block of a storage line. Of a line that is no good, and of a value that is too large,
// the block is passed over; the answer is given at once.
func (s *session) awaitBlock(w *writeRequest, key []byte, good bool, problem string) {
	switch {
	case !good:
		s.failUnless(w.noreply, problem)
	case w.length+len(key)+itemHeaderBytes > s.server.maxItem:
		s.count.add(s.cmd, resultServerError)
		s.server.tooLarge.Add(1)
		if !w.noreply {
			s.text(errTooLarge)
		}
		w.key, w.meta.key = key, key
		s.dropOld(w)
	default:
		// The line is gone when the block comes.
		s.line = append(append(s.line[:0], key...), w.meta.args...)
		w.key, w.meta.args = s.line[:len(key)], s.line[len(key):]
		w.meta.key = w.key
		s.state = stateBlock
		s.conn.SetInputLimit(w.length + 2 + inputLimitBytes)
		return
	}
	s.skip = w.length + 2
	s.state = stateSwallow
}

// dataBlock takes a data block once all of it is there.
func (s *session) dataBlock(in []byte) (taken int, err error) {
	w := &s.pending
	if len(in) < w.length+2 {
		return 0, nil
	}
	s.state = stateText
	s.conn.SetInputLimit(inputLimitBytes)
	if in[w.length] != '\r' || in[w.length+1] != '\n' {
		// As memcached does, what follows is read as a command.
		s.failUnless(w.noreply, errBadChunk)
		return w.length + 2, nil
	}
	s.write(w, in[:w.length])
	return w.length + 2, nil
}

// write is where requests that change something arrive, once they are read whole and found good. Both slices of w and
// value are valid during the call.
func (s *session) write(w *writeRequest, value []byte) {
	switch s.place(operationOf(w.cmd)) {
	case inItems:
		s.writeItem(w, value)
	case nowhere:
		s.writeNothing(w)
	case unknownPlace:
		s.failure = errNotStarted
		s.answerError(w)
	default:
		s.writeRow(w, value)
	}
}

// refuseWrite is the answer to a request that would have to change something that can't be changed.
func (s *session) refuseWrite(noreply bool, line string) {
	s.count.add(s.cmd, resultRefused)
	switch {
	case s.frame.active: // quiet requests, too, answer when they fail
		s.binaryAnswer(statusUnsupported, line[len(serverErrorPrefix):])
	case !noreply:
		s.text(line)
	}
}

// begin starts a request that is whole with its line.
func (s *session) begin(noreply bool) *writeRequest {
	s.pending = writeRequest{cmd: s.cmd, noreply: noreply}
	return &s.pending
}

// metaChange reads a line of md or ma.
func (s *session) metaChange(rest []byte) {
	w := s.begin(false)
	problem := w.meta.parseMeta(rest)
	switch {
	case problem == errBadFormat, problem == errMetaTooMany, problem == errMetaOpaque:
	case problem != "":
		problem = errMetaEither
	default:
		problem = w.meta.check(s.cmd, &s.keyBytes)
	}
	if problem != "" {
		s.fail(problem)
		return
	}
	w.key = w.meta.key
	s.write(w, nil)
}

// arithmetic reads a line of incr or decr.
func (s *session) arithmetic(rest []byte) {
	w := s.begin(isNoreply(rest))
	var amount []byte
	w.key, rest = token(rest)
	amount, _ = token(rest)
	if len(amount) == 0 || len(w.key) > maxKeyBytes {
		s.failUnless(w.noreply, errBadFormat)
		return
	}
	var ok bool
	if w.delta, ok = parseUint(amount); !ok {
		s.failUnless(w.noreply, errBadDelta)
		return
	}
	s.write(w, nil)
}

// delete reads a line of delete.
func (s *session) delete(rest []byte) {
	w := s.begin(isNoreply(rest))
	w.key, rest = token(rest)
	if len(w.key) == 0 || len(w.key) > maxKeyBytes {
		s.failUnless(w.noreply, errBadFormat)
		return
	}
	arg, rest := token(rest)
	if string(arg) == "0" { // the delay that old clients send
		arg, rest = token(rest)
	}
	end, _ := token(rest)
	if len(arg) > 0 && string(arg) != "noreply" || len(end) > 0 {
		s.failUnless(w.noreply, errDeleteUsage)
		return
	}
	s.write(w, nil)
}

// touch reads a line of touch.
func (s *session) touch(rest []byte) {
	w := s.begin(isNoreply(rest))
	w.key, rest = token(rest)
	exptime, _ := token(rest)
	if len(exptime) == 0 || len(w.key) > maxKeyBytes {
		s.failUnless(w.noreply, errBadFormat)
		return
	}
	var ok bool
	if w.exptime, ok = parseExptime(exptime); !ok {
		s.failUnless(w.noreply, errBadExptime)
		return
	}
	s.write(w, nil)
}

// getAndTouch reads a line of gat or gats. It returns the keys that are to be taken as those of a get are, or nil.
func (s *session) getAndTouch(rest []byte) (keys []byte) {
	w := s.begin(false)
	exptime, keys := token(rest)
	if key, _ := token(keys); len(key) == 0 {
		s.fail(errBadFormat)
		return nil
	}
	var ok bool
	if w.exptime, ok = parseExptime(exptime); !ok {
		s.fail(errBadExptime)
		return nil
	}
	if !goodKeys(keys) {
		s.fail(errBadFormat)
		return nil
	}
	w.key = keys
	if s.place(operationGet) == inTable && !s.server.writable() {
		s.refuseWrite(false, errNoWriting)
		return nil
	}
	s.beginGet(s.cmd)
	s.request.Exptime = w.exptime
	return keys
}

// flushAll reads a line of flush_all.
func (s *session) flushAll(rest []byte) {
	w := s.begin(isNoreply(rest))
	if delay, _ := token(rest); len(delay) > 0 && string(delay) != "noreply" {
		var ok bool
		if w.exptime, ok = parseExptime(delay); !ok {
			s.failUnless(w.noreply, errBadExptime)
			return
		}
	}
	s.write(w, nil)
}
