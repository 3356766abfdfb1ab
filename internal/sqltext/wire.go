package sqltext

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/binlogcache/binlogcache/internal/headroom"
)

const (
	// readBuffer is the fixed part of a connection's memory. A larger one saves system calls when much is streamed,
	// and costs that much for each pooled connection.
	readBuffer = 64 << 10
	// keepBuffer is the largest extra memory that a connection keeps between statements.
	keepBuffer = 1 << 20
	// maxPacket is the largest packet that a server can be told to send (max_allowed_packet), with some room.
	maxPacket  = 1<<30 + 1<<20
	maxPayload = mysql.MaxPayloadLen // of one frame; a packet of more is sent in several
)

// wire sends and receives packets. go-mysql's client does the login and then hands its socket over: reading here gives
// each packet in place, with one copy where go-mysql's reader makes three.
type wire struct {
	nc                        net.Conn
	readTimeout, writeTimeout time.Duration

	buf  []byte // readBuffer bytes; buf[r:w] is received and not yet taken
	r, w int
	big  []byte // a packet that does not fit in buf
	out  []byte // the packet being sent
	seq  byte   // of the next frame, either way
	most int    // the largest packet that is wanted; 0 for no limit
}

func (w *wire) init(nc net.Conn, readTimeout, writeTimeout time.Duration) {
	w.nc, w.readTimeout, w.writeTimeout = nc, readTimeout, writeTimeout
	w.buf = make([]byte, readBuffer)
}

// shrink gives back the memory of an unusually large packet.
func (w *wire) shrink() {
	if cap(w.big) > keepBuffer {
		w.big = nil
	}
	if cap(w.out) > keepBuffer {
		w.out = nil
	}
}

// command sends one command packet, which starts a new sequence.
func (w *wire) command(code byte, arg string) error {
	w.seq = 0
	left := len(arg) + 1
	w.out = w.out[:0]
	first := true
	for {
		n := min(left, maxPayload)
		w.out = append(w.out, byte(n), byte(n>>8), byte(n>>16), w.seq)
		w.seq++
		if first {
			w.out = append(w.out, code)
			w.out = append(w.out, arg[:n-1]...)
			arg = arg[n-1:]
			first = false
		} else {
			w.out = append(w.out, arg[:n]...)
			arg = arg[n:]
		}
		left -= n
		if n < maxPayload {
			break
		}
	}
	if w.writeTimeout > 0 {
		if err := w.nc.SetWriteDeadline(time.Now().Add(w.writeTimeout)); err != nil {
			return &connError{"send a statement", err}
		}
	}
	if _, err := w.nc.Write(w.out); err != nil {
		return &connError{"send a statement", err}
	}
	return nil
}

// read receives more bytes into b, at least one.
func (w *wire) read(b []byte) (int, error) {
	if w.readTimeout > 0 {
		if err := w.nc.SetReadDeadline(time.Now().Add(w.readTimeout)); err != nil {
			return 0, &connError{"wait for the server", err}
		}
	}
	n, err := w.nc.Read(b)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, &connError{"wait for the server", err}
}

// fill makes buf hold n bytes from r on; n is at most readBuffer.
func (w *wire) fill(n int) error {
	if w.r == w.w {
		w.r, w.w = 0, 0
	}
	if w.r+n > len(w.buf) {
		w.w = copy(w.buf, w.buf[w.r:w.w])
		w.r = 0
	}
	for w.w-w.r < n {
		got, err := w.read(w.buf[w.w:])
		if err != nil {
			return err
		}
		w.w += got
	}
	return nil
}

// frame reads the head of a frame and returns its length.
func (w *wire) frame() (int, error) {
	if err := w.fill(4); err != nil {
		return 0, err
	}
	h := w.buf[w.r:]
	n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	if h[3] != w.seq {
		return 0, &connError{"read an answer", fmt.Errorf("%w: sequence number %d in place of %d", ErrMalformed, h[3], w.seq)}
	}
	w.seq++
	w.r += 4
	return n, nil
}

// packet receives the next packet. Its bytes are valid until the next call.
func (w *wire) packet() ([]byte, error) {
	n, err := w.frame()
	if err != nil {
		return nil, err
	}
	if n <= readBuffer { // never too large
		if err := w.fill(n); err != nil {
			return nil, err
		}
		p := w.buf[w.r : w.r+n : w.r+n]
		w.r += n
		return p, nil
	}
	w.big = w.big[:0]
	for {
		if w.most > 0 && len(w.big)+n > w.most {
			return nil, ErrTooLarge
		}
		if err := w.body(n); err != nil {
			return nil, err
		}
		if n < maxPayload {
			return w.big, nil
		}
		if n, err = w.frame(); err != nil {
			return nil, err
		}
		if len(w.big)+n > maxPacket {
			return nil, &connError{"read an answer", fmt.Errorf("%w: more than %d bytes", ErrMalformed, maxPacket)}
		}
	}
}

// body appends the n bytes of a frame to big.
func (w *wire) body(n int) error {
	at := len(w.big)
	if cap(w.big)-at < n {
		headroom.Want(2 * n) // a row of it is likely to be made as well
		grown := make([]byte, at, max(at+n, cap(w.big)+cap(w.big)/2))
		copy(grown, w.big)
		w.big = grown
	}
	w.big = w.big[:at+n]
	to := w.big[at:]
	got := copy(to, w.buf[w.r:w.w])
	w.r += got
	for got < n {
		more, err := w.read(to[got:])
		if err != nil {
			return err
		}
		got += more
	}
	return nil
}

const (
	statusMoreResults = mysql.SERVER_MORE_RESULTS_EXISTS
	headOK            = mysql.OK_HEADER
	headError         = mysql.ERR_HEADER
	headEOF           = mysql.EOF_HEADER
	headLocalInfile   = mysql.LocalInFile_HEADER
)

// isEOF tells the packet that ends columns and rows from a row whose first value is very long.
func isEOF(p []byte) bool { return len(p) > 0 && len(p) < 9 && p[0] == headEOF }

// eofStatus is the server status in an EOF packet.
func eofStatus(p []byte) uint16 {
	if len(p) < 5 {
		return 0
	}
	return binary.LittleEndian.Uint16(p[3:])
}

// okStatus is the server status in an OK packet.
func okStatus(p []byte) (uint16, bool) {
	p = p[1:]
	for range 2 { // affected rows, last insert id
		_, null, n := lenenc(p)
		if n == 0 || null {
			return 0, false
		}
		p = p[n:]
	}
	if len(p) < 2 {
		return 0, false
	}
	return binary.LittleEndian.Uint16(p), true
}

// serverError reads an ERR packet; the message is copied.
func serverError(p []byte) error {
	if len(p) < 3 {
		return ErrMalformed
	}
	e := &mysql.MyError{Code: binary.LittleEndian.Uint16(p[1:]), State: mysql.DEFAULT_MYSQL_STATE}
	p = p[3:]
	if len(p) >= 6 && p[0] == '#' {
		e.State = string(p[1:6])
		p = p[6:]
	}
	e.Message = string(p)
	return e
}

// lenenc reads a length-encoded integer; size is 0 when p is too short or starts with a byte that no such integer has.
func lenenc(p []byte) (v uint64, null bool, size int) {
	if len(p) == 0 {
		return 0, false, 0
	}
	switch b := p[0]; {
	case b < 0xfb:
		return uint64(b), false, 1
	case b == 0xfb:
		return 0, true, 1
	case b == 0xfc && len(p) >= 3:
		return uint64(binary.LittleEndian.Uint16(p[1:])), false, 3
	case b == 0xfd && len(p) >= 4:
		return uint64(p[1]) | uint64(p[2])<<8 | uint64(p[3])<<16, false, 4
	case b == 0xfe && len(p) >= 9:
		return binary.LittleEndian.Uint64(p[1:]), false, 9
	}
	return 0, false, 0
}

// columnName reads the name or alias in a column definition: the fifth of its strings, after catalog, schema, table and
// original table.
func columnName(p []byte) ([]byte, bool) {
	f := Fields{rest: p, left: 5}
	if !f.Skip(4) {
		return nil, false
	}
	name, null, ok := f.Next()
	return name, ok && !null
}

// Fields are the values of one row, in the packet that brought them.
type Fields struct {
	rest []byte
	left int
}

// Next gives the next value. It aliases the connection's buffer and is valid during the row's callback only. ok is false
// after the last value, and early when the packet is malformed: whoever asked for n columns must treat fewer as
// ErrMalformed.
func (f *Fields) Next() (v []byte, null, ok bool) {
	if f.left == 0 || len(f.rest) == 0 {
		return nil, false, false
	}
	if b := int(f.rest[0]); b < 0xfb { // short values are most values
		if len(f.rest) <= b {
			return nil, false, false
		}
		v = f.rest[1 : 1+b : 1+b]
		f.rest = f.rest[1+b:]
		f.left--
		return v, false, true
	}
	n, null, size := lenenc(f.rest)
	if size == 0 || n > uint64(len(f.rest)-size) {
		return nil, false, false
	}
	f.left--
	if null {
		f.rest = f.rest[size:]
		return nil, true, true
	}
	end := size + int(n)
	v = f.rest[size:end:end]
	f.rest = f.rest[end:]
	return v, false, true
}

// Len is the number of values not taken yet.
func (f *Fields) Len() int { return f.left }

// Skip passes over n values.
func (f *Fields) Skip(n int) (ok bool) {
	for range n {
		if _, _, ok := f.Next(); !ok {
			return false
		}
	}
	return true
}
