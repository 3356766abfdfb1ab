package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/binlogcache/binlogcache/benchmarks/mywire"
)

// wire is a connection with a buffer for its answers.
type wire struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func dialWire(addr string) (wire, error) {
	c, err := mywire.Dial(addr)
	if err != nil {
		return wire{}, err
	}
	return wire{Conn: c, in: bufio.NewReaderSize(c, 16<<10)}, nil
}

func (w *wire) close() { _ = w.Close() }

// --- MySQL client protocol -----------------------------------------------------------------------------------------

type sqlWire struct {
	wire
	stmt uint32
}

// dialSQL logs in as the user b without a password.
func dialSQL(addr string) (*sqlWire, error) {
	w, err := dialWire(addr)
	if err != nil {
		return nil, err
	}
	s := &sqlWire{wire: w}
	if err := mywire.Login(s.Conn, s.in, "b", "bench"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func failed(packet []byte) error {
	if len(packet) == 0 {
		return errors.New("empty packet")
	}
	if packet[0] == 0xff {
		return fmt.Errorf("the database says %q", packet)
	}
	return nil
}

// lenenc reads a length-encoded number; of NULL it is 0.
func lenenc(b []byte) (v uint64, rest []byte) {
	switch {
	case len(b) == 0:
		return 0, nil
	case b[0] == 0xfc && len(b) >= 3:
		return uint64(binary.LittleEndian.Uint16(b[1:])), b[3:]
	case b[0] == 0xfd && len(b) >= 4:
		return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16, b[4:]
	case b[0] == 0xfe && len(b) >= 9:
		return binary.LittleEndian.Uint64(b[1:]), b[9:]
	case b[0] == 0xfb:
		return 0, b[1:]
	}
	return uint64(b[0]), b[1:]
}

// exec runs a statement without rows and returns the automatic key that it made.
func (s *sqlWire) exec(sql string) (uint64, error) {
	if err := s.send(3, sql); err != nil {
		return 0, err
	}
	return s.ok()
}

func (s *sqlWire) ok() (insertID uint64, err error) {
	p, err := mywire.ReadPacket(s.in)
	if err == nil {
		err = failed(p)
	}
	if err != nil {
		return 0, err
	}
	_, rest := lenenc(p[1:])
	insertID, _ = lenenc(rest)
	return insertID, nil
}

func (s *sqlWire) send(command byte, payload string) error {
	s.out = append(s.out[:0], 0, 0, 0, 0, command)
	s.out = append(s.out, payload...)
	return s.flush()
}

func (s *sqlWire) flush() error {
	n := len(s.out) - 4
	s.out[0], s.out[1], s.out[2], s.out[3] = byte(n), byte(n>>8), byte(n>>16), 0
	_, err := s.Write(s.out)
	return err
}

// query hands each row's fields, as text, to row; they are good until it returns.
func (s *sqlWire) query(sql string, row func(fields []string)) error {
	if err := s.send(3, sql); err != nil {
		return err
	}
	var fields []string
	// The number of columns, their definitions, an end, the rows, an end.
	for ends, first := 0, true; ends < 2; first = false {
		p, err := mywire.ReadPacket(s.in)
		if err == nil {
			err = failed(p)
		}
		switch {
		case err != nil:
			return err
		case first:
		case p[0] == 0xfe && len(p) < 9:
			ends++
		case ends == 1:
			fields = fields[:0]
			for len(p) > 0 {
				var n uint64
				n, p = lenenc(p)
				fields = append(fields, string(p[:n]))
				p = p[n:]
			}
			row(fields)
		}
	}
	return nil
}

// prepare makes the statement that execute runs; all its parameters are strings.
func (s *sqlWire) prepare(sql string) error {
	if err := s.send(0x16, sql); err != nil {
		return err
	}
	p, err := mywire.ReadPacket(s.in)
	if err == nil {
		err = failed(p)
	}
	if err != nil {
		return err
	}
	s.stmt = binary.LittleEndian.Uint32(p[1:])
	for _, n := range []uint16{binary.LittleEndian.Uint16(p[7:]), binary.LittleEndian.Uint16(p[5:])} {
		for i := 0; n > 0 && i <= int(n); i++ { // definitions and an end
			if _, err := mywire.ReadPacket(s.in); err != nil {
				return err
			}
		}
	}
	return nil
}

// execute runs the prepared statement with up to eight parameters, each shorter than 251 bytes.
func (s *sqlWire) execute(args ...string) error {
	s.out = append(s.out[:0], 0, 0, 0, 0, 0x17)
	s.out = binary.LittleEndian.AppendUint32(s.out, s.stmt)
	s.out = append(s.out, 0, 1, 0, 0, 0, 0, 1) // no cursor, once, no NULLs, types follow
	for range args {
		s.out = append(s.out, 0xfe, 0)
	}
	for _, a := range args {
		s.out = append(append(s.out, byte(len(a))), a...)
	}
	if err := s.flush(); err != nil {
		return err
	}
	_, err := s.ok()
	return err
}

// --- HandlerSocket -------------------------------------------------------------------------------------------------

type hsWire struct{ wire }

// dialHS opens the primary key of bench.user as index 1.
func dialHS(addr, columns string) (*hsWire, error) {
	w, err := dialWire(addr)
	if err != nil {
		return nil, err
	}
	h := &hsWire{wire: w}
	h.out = fmt.Appendf(h.out, "P\t1\tbench\tuser\tPRIMARY\t%s\n", columns)
	answer, err := h.ask()
	if err == nil && answer != "0\t1" {
		err = fmt.Errorf("open_index: %q", answer)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// ask sends what is in out, one request, and returns its answer.
func (h *hsWire) ask() (string, error) {
	if err := h.send(); err != nil {
		return "", err
	}
	return h.answer()
}

func (h *hsWire) send() error {
	_, err := h.Write(h.out)
	return err
}

func (h *hsWire) answer() (string, error) {
	line, err := h.in.ReadSlice('\n')
	return strings.TrimSuffix(string(line), "\n"), err
}

// --- memcached, binary protocol --------------------------------------------------------------------------------------

type mcWire struct{ wire }

func dialMC(addr string) (*mcWire, error) {
	w, err := dialWire(addr)
	return &mcWire{wire: w}, err
}

const opGet, opSet = 0x00, 0x01

// get returns the value of a key; it is good until the next request.
func (m *mcWire) get(key string) ([]byte, error) { return m.request(opGet, key, "") }

func (m *mcWire) set(key, value string) error {
	_, err := m.request(opSet, key, value)
	return err
}

func (m *mcWire) request(op byte, key, value string) ([]byte, error) {
	extras := 0
	if op == opSet {
		extras = 8 // flags and expiry, both 0
	}
	m.out = append(m.out[:0], 0x80, op)
	m.out = binary.BigEndian.AppendUint16(m.out, uint16(len(key)))
	m.out = append(m.out, byte(extras), 0, 0, 0)
	m.out = binary.BigEndian.AppendUint32(m.out, uint32(extras+len(key)+len(value)))
	m.out = append(m.out, make([]byte, 12+extras)...) // opaque, cas, extras
	m.out = append(append(m.out, key...), value...)
	if _, err := m.Write(m.out); err != nil {
		return nil, err
	}
	var head [24]byte
	if _, err := io.ReadFull(m.in, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[8:]))
	if cap(m.out) < n {
		m.out = make([]byte, n)
	}
	body := m.out[:n]
	if _, err := io.ReadFull(m.in, body); err != nil {
		return nil, err
	}
	if status := binary.BigEndian.Uint16(head[6:]); status != 0 {
		return nil, fmt.Errorf("key %s: status %d: %q", key, status, body)
	}
	return body[int(head[4])+int(binary.BigEndian.Uint16(head[2:])):], nil
}
