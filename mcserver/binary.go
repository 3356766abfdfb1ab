package mcserver

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/binlogcache/binlogcache/internal/netserver"
)

// The frame of the binary protocol.
const (
	magicRequest      = 0x80
	magicAnswer       = 0x81
	binaryHeaderBytes = 24
	// maxBodyBytes is what memcached takes as a body.
	maxBodyBytes = 1 << 30
	// noCreate is the time by which an incr or decr says that it makes no item.
	noCreate = 0xffffffff
)

// The opcodes. Those from opSetQ to opPrependQ are the quiet forms.
const (
	opGet       = 0x00
	opSet       = 0x01
	opAdd       = 0x02
	opReplace   = 0x03
	opDelete    = 0x04
	opIncrement = 0x05
	opDecrement = 0x06
	opQuit      = 0x07
	opFlush     = 0x08
	opGetQ      = 0x09
	opNoop      = 0x0a
	opVersion   = 0x0b
	opGetK      = 0x0c
	opGetKQ     = 0x0d
	opAppend    = 0x0e
	opPrepend   = 0x0f
	opStat      = 0x10
	opSetQ      = 0x11
	opPrependQ  = 0x1a
	opQuitQ     = 0x17
	opFlushQ    = 0x18
	opTouch     = 0x1c
	opGAT       = 0x1d
	opGATQ      = 0x1e
	opGATK      = 0x23
	opGATKQ     = 0x24
)

// The status codes.
const (
	statusOK          = 0x0000
	statusNotFound    = 0x0001
	statusExists      = 0x0002
	statusTooLarge    = 0x0003
	statusInvalid     = 0x0004
	statusNotStored   = 0x0005
	statusNotNumber   = 0x0006
	statusAuth        = 0x0020
	statusUnknown     = 0x0081
	statusNoMemory    = 0x0082
	statusUnsupported = 0x0083
	statusInternal    = 0x0084
	statusTemporary   = 0x0086
)

const (
	textNotFound  = "Not found"
	textInvalid   = "Invalid arguments"
	textUnknown   = "Unknown command"
	textTooLarge  = "Too large."
	textExists    = "Data exists for key."
	textNotStored = "Not stored."
	textNotNumber = "Non-numeric server-side value for incr or decr"
	textNoMemory  = "Out of memory"
	textAuth      = "Auth failure."
)

// binaryFrame is a request's header.
type binaryFrame struct {
	// active tells that the connection speaks the binary protocol.
	active  bool
	withKey bool
	opcode  byte
	key     int
	extras  int
	body    int
	opaque  uint32
	cas     uint64
}

func (f *binaryFrame) parse(in []byte) {
	f.opcode = in[1]
	f.key = int(binary.BigEndian.Uint16(in[2:]))
	f.extras = int(in[4])
	f.body = int(binary.BigEndian.Uint32(in[8:]))
	f.opaque = binary.BigEndian.Uint32(in[12:])
	f.cas = binary.BigEndian.Uint64(in[16:])
	f.withKey = f.opcode == opGetK || f.opcode == opGetKQ || f.opcode == opGATK || f.opcode == opGATKQ
}

// appendHeader appends an answer's header.
func (f *binaryFrame) appendHeader(out []byte, status uint16, extras, key, body int, cas uint64) []byte {
	out = append(out, magicAnswer, f.opcode)
	out = binary.BigEndian.AppendUint16(out, uint16(key))
	out = append(out, byte(extras), 0)
	out = binary.BigEndian.AppendUint16(out, status)
	out = binary.BigEndian.AppendUint32(out, uint32(body))
	out = binary.BigEndian.AppendUint32(out, f.opaque)
	return binary.BigEndian.AppendUint64(out, cas)
}

// shape is what an opcode's request has to look like.
type shape struct {
	cmd     command
	extras  int  // length of the extras
	other   int  // another length of the extras that is good; 0 for none
	key     bool // a key is needed; without it none is allowed
	optKey  bool // a key is allowed
	value   bool // a value is allowed
	isQuiet bool
}

// shapes are those of all opcodes; cmdUnknown where there is no such opcode.
var shapes = [256]shape{
	opGet:       {cmd: cmdGet, key: true},
	opGetQ:      {cmd: cmdGet, key: true, isQuiet: true},
	opGetK:      {cmd: cmdGet, key: true},
	opGetKQ:     {cmd: cmdGet, key: true, isQuiet: true},
	opSet:       {cmd: cmdSet, extras: 8, key: true, value: true},
	opAdd:       {cmd: cmdAdd, extras: 8, key: true, value: true},
	opReplace:   {cmd: cmdReplace, extras: 8, key: true, value: true},
	opDelete:    {cmd: cmdDelete, key: true},
	opIncrement: {cmd: cmdIncr, extras: 20, key: true},
	opDecrement: {cmd: cmdDecr, extras: 20, key: true},
	opQuit:      {cmd: cmdQuit},
	opQuitQ:     {cmd: cmdQuit, isQuiet: true},
	opFlush:     {cmd: cmdFlushAll, other: 4},
	opFlushQ:    {cmd: cmdFlushAll, other: 4, isQuiet: true},
	opNoop:      {cmd: cmdMetaNoop},
	opVersion:   {cmd: cmdVersion},
	opAppend:    {cmd: cmdAppend, key: true, value: true},
	opPrepend:   {cmd: cmdPrepend, key: true, value: true},
	opStat:      {cmd: cmdStats, optKey: true},
	opSetQ:      {cmd: cmdSet, extras: 8, key: true, value: true, isQuiet: true},
	0x12:        {cmd: cmdAdd, extras: 8, key: true, value: true, isQuiet: true},
	0x13:        {cmd: cmdReplace, extras: 8, key: true, value: true, isQuiet: true},
	0x14:        {cmd: cmdDelete, key: true, isQuiet: true},
	0x15:        {cmd: cmdIncr, extras: 20, key: true, isQuiet: true},
	0x16:        {cmd: cmdDecr, extras: 20, key: true, isQuiet: true},
	0x19:        {cmd: cmdAppend, key: true, value: true, isQuiet: true},
	opPrependQ:  {cmd: cmdPrepend, key: true, value: true, isQuiet: true},
	opTouch:     {cmd: cmdTouch, extras: 4, key: true},
	opGAT:       {cmd: cmdGAT, extras: 4, key: true},
	opGATQ:      {cmd: cmdGAT, extras: 4, key: true, isQuiet: true},
	opGATK:      {cmd: cmdGAT, extras: 4, key: true},
	opGATKQ:     {cmd: cmdGAT, extras: 4, key: true, isQuiet: true},
}

// binaryRequest takes one binary request.
func (s *session) binaryRequest(in []byte) (taken int, err error) {
	f := &s.frame
	f.active = true
	if len(in) == 0 {
		return 0, nil
	}
	if in[0] != magicRequest {
		return 0, netserver.ErrClose
	}
	if len(in) < binaryHeaderBytes {
		return 0, nil
	}
	f.parse(in)
	if s.server.users != nil {
		if taken, handled, err := s.sasl(in); handled {
			return taken, err
		}
	}
	sh := &shapes[f.opcode]
	s.cmd = sh.cmd
	known := sh.cmd != cmdUnknown
	if sh.cmd != cmdMetaNoop && s.lacks(sh.cmd) {
		known, s.cmd = false, cmdUnknown
	}
	value := f.body - f.key - f.extras
	switch {
	case value < 0:
		s.binaryError(statusUnknown, textUnknown)
		return binaryHeaderBytes, netserver.ErrClose
	case f.key > maxKeyBytes,
		known && f.extras != sh.extras && (sh.other == 0 || f.extras != sh.other),
		known && sh.key != (f.key > 0) && !(sh.optKey && f.key > 0),
		known && !sh.value && value > 0,
		f.body > maxBodyBytes:
		s.binaryError(statusInvalid, textInvalid)
		return binaryHeaderBytes, netserver.ErrClose
	case !known:
		s.binaryError(statusUnknown, textUnknown)
		return s.swallow(binaryHeaderBytes, f.body), nil
	case value+f.key+itemHeaderBytes > s.server.maxItem:
		head := binaryHeaderBytes + f.extras + f.key
		if len(in) < head {
			return 0, nil
		}
		s.binaryError(statusTooLarge, textTooLarge)
		s.server.tooLarge.Add(1)
		w := s.begin(sh.isQuiet)
		w.key = in[head-f.key : head]
		s.dropOld(w)
		return s.swallow(head, value), nil
	}
	if len(in) < binaryHeaderBytes+f.body {
		s.conn.SetInputLimit(binaryHeaderBytes + f.body + inputLimitBytes)
		return 0, nil
	}
	s.conn.SetInputLimit(inputLimitBytes)
	body := in[binaryHeaderBytes:][:f.body]
	return binaryHeaderBytes + f.body, s.binaryCommand(sh, body[:f.extras], body[f.extras:][:f.key], body[f.extras+f.key:])
}

// swallow passes over n bytes behind the taken ones.
func (s *session) swallow(taken, n int) int {
	if n > 0 {
		s.skip = n
		s.state = stateSwallow
	}
	return taken
}

// binaryCommand runs a request that is there whole.
func (s *session) binaryCommand(sh *shape, extras, key, value []byte) error {
	switch sh.cmd {
	case cmdGAT:
		if s.place(operationGet) == inTable && !s.server.writable() {
			s.refuseWrite(false, errNoWriting)
			return nil
		}
		s.request.Exptime = int64(binary.BigEndian.Uint32(extras))
		fallthrough
	case cmdGet:
		s.r.form = formBinary
		if !s.binaryLookup(memoryOnly, key, sh.isQuiet) {
			s.line = append(s.line[:0], key...)
			s.park(func(ctx context.Context) { s.binaryLookup(ctx, s.line, sh.isQuiet) })
		}
	case cmdMetaNoop:
		s.count.add(s.cmd, resultOK)
		s.binaryAnswer(statusOK, "")
	case cmdVersion:
		s.count.add(s.cmd, resultOK)
		s.binaryAnswer(statusOK, ProtocolVersion)
	case cmdStats:
		s.binaryStats(key)
	case cmdQuit:
		s.count.add(s.cmd, resultOK)
		if !sh.isQuiet {
			s.binaryAnswer(statusOK, "")
		}
		return netserver.ErrClose
	default:
		s.write(s.binaryWrite(sh, extras, key), value)
	}
	return nil
}

// binaryWrite makes the request of a frame that is to change something.
func (s *session) binaryWrite(sh *shape, extras, key []byte) *writeRequest {
	w := s.begin(sh.isQuiet)
	w.key, w.cas = key, s.frame.cas
	switch sh.cmd {
	case cmdSet, cmdAdd, cmdReplace:
		w.flags = binary.BigEndian.Uint32(extras)
		w.exptime = int64(binary.BigEndian.Uint32(extras[4:])) // without a sign, as memcached
		if w.cas != 0 {
			// With a number, all three replace the item that has it.
			s.cmd, w.cmd = cmdCAS, cmdCAS
		}
	case cmdIncr, cmdDecr:
		w.delta = binary.BigEndian.Uint64(extras)
		w.initial = binary.BigEndian.Uint64(extras[8:])
		w.exptime = int64(binary.BigEndian.Uint32(extras[16:]))
		w.create = binary.BigEndian.Uint32(extras[16:]) != noCreate
	case cmdTouch, cmdFlushAll:
		if len(extras) > 0 {
			w.exptime = int64(binary.BigEndian.Uint32(extras))
		}
	}
	return w
}

const serverErrorPrefix = "SERVER_ERROR "

// binaryLookup answers a get. With memoryOnly it may have to be called again from a job, which false says.
func (s *session) binaryLookup(ctx context.Context, key []byte, quiet bool) bool {
	s.searched = false
	switch s.lookup(ctx, key) {
	case outcomePark:
		return false
	case outcomeFailed:
		status := uint16(statusInternal)
		if s.at != nil && s.at.problem() != nil {
			status = statusTemporary
		}
		s.binaryError(status, strings.TrimPrefix(s.failure, serverErrorPrefix))
		return true
	case outcomeMiss:
		switch {
		case quiet:
		case s.frame.withKey:
			s.r.out = s.frame.appendHeader(s.r.out, statusNotFound, 0, len(key), len(key), 0)
			s.r.out = append(s.r.out, key...)
		default:
			s.binaryAnswer(statusNotFound, textNotFound)
		}
	}
	s.countRead()
	return true
}

// binaryAnswer writes an answer whose body is text.
func (s *session) binaryAnswer(status uint16, text string) {
	s.r.out = s.frame.appendHeader(s.r.out, status, 0, 0, len(text), 0)
	s.r.out = append(s.r.out, text...)
}

// binaryError answers a request that failed.
func (s *session) binaryError(status uint16, text string) {
	r := resultClientError
	if status == statusInternal || status == statusTemporary || status == statusTooLarge {
		r = resultServerError
	}
	s.count.add(s.cmd, r)
	s.binaryAnswer(status, text)
}
