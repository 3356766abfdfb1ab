package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/binlogcache/binlogcache/benchmarks/mywire"
)

type proto interface {
	// request appends one request for key number id.
	request(b []byte, id uint64) []byte
	// parse returns the bytes of complete answers at the start of b and their
	// number; bad counts error or miss answers.
	parse(c *conn, b []byte) (used, done, bad int)
	setup(c net.Conn) error
}

type conn struct {
	fd       int
	in       []byte
	inN      int
	out      []byte
	sent     []int64
	head     int
	inflight int
	state    int // protocol state
	skip     int // bytes of a value still to skip
}

var (
	measuring atomic.Bool
	stop      atomic.Bool
)

func nowns() int64 { return time.Since(t0).Nanoseconds() }

var t0 = time.Now()

// ---- memcached text protocol

type mcProto struct {
	op  string
	val []byte
}

func (p *mcProto) setup(net.Conn) error { return nil }

func appendKey(b []byte, id uint64) []byte {
	b = append(b, 'k')
	var tmp [20]byte
	s := strconv.AppendUint(tmp[:0], id, 10)
	for i := *fKeyLen - 1 - len(s); i > 0; i-- {
		b = append(b, '0')
	}
	return append(b, s...)
}

func (p *mcProto) request(b []byte, id uint64) []byte {
	switch p.op {
	case "get":
		b = append(b, "get "...)
		b = appendKey(b, id)
	case "mg":
		b = append(b, "mg "...)
		b = appendKey(b, id)
		b = append(b, " v"...)
	case "mget":
		b = append(b, "get"...)
		for i := 0; i < *fMget; i++ {
			b = append(b, ' ')
			b = appendKey(b, (id+uint64(i)*7919)%uint64(*fKeys)+1)
		}
	case "set":
		b = append(b, "set "...)
		b = appendKey(b, id)
		b = append(b, " 0 0 "...)
		b = strconv.AppendInt(b, int64(len(p.val)), 10)
		b = append(b, "\r\n"...)
		b = append(b, p.val...)
	case "ms":
		b = append(b, "ms "...)
		b = appendKey(b, id)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(len(p.val)), 10)
		b = append(b, "\r\n"...)
		b = append(b, p.val...)
	}
	return append(b, "\r\n"...)
}

func indexByte(b []byte, c byte) int {
	return strings.IndexByte(unsafe.String(unsafe.SliceData(b), len(b)), c)
}

func (p *mcProto) parse(c *conn, b []byte) (used, done, bad int) {
	for {
		if c.skip > 0 {
			n := len(b) - used
			if n > c.skip {
				n = c.skip
			}
			c.skip -= n
			used += n
			if c.skip > 0 {
				return
			}
			if c.state == 2 { // meta value
				c.state = 0
				done++
				continue
			}
		}
		i := indexByte(b[used:], '\n')
		if i < 0 {
			return
		}
		line := b[used : used+i]
		used += i + 1
		switch {
		case len(line) > 6 && line[0] == 'V' && line[1] == 'A' && line[2] == 'L':
			e := len(line) - 1
			s := e
			for line[s-1] != ' ' {
				s--
			}
			n, _ := strconv.Atoi(string(line[s:e]))
			c.skip = n + 2
			c.state = 1
		case len(line) >= 3 && line[0] == 'E' && line[1] == 'N' && line[2] == 'D':
			if c.state != 1 {
				bad++
			}
			c.state = 0
			done++
		case len(line) > 3 && line[0] == 'V' && line[1] == 'A':
			n, _ := strconv.Atoi(strings.Fields(string(line[3:]))[0])
			c.skip = n + 2
			c.state = 2
		case len(line) >= 2 && line[0] == 'H' && line[1] == 'D', len(line) >= 6 && line[0] == 'S' && line[1] == 'T':
			done++
		default:
			if len(line) >= 2 && line[0] == 'E' && line[1] == 'N' {
				bad++
				done++
				continue
			}
			fmt.Fprintf(os.Stderr, "wireload: answer %q\n", line)
			bad++
			done++
		}
	}
}

// ---- HandlerSocket

type hsProto struct {
	op string
}

func (p *hsProto) setup(c net.Conn) error {
	fmt.Fprintf(c, "P\t1\t%s\t%s\t%s\t%s\n", *fDB, *fTable, *fIndex, *fCols)
	var b [256]byte
	n, err := c.Read(b[:])
	if err != nil {
		return err
	}
	if n < 2 || b[0] != '0' {
		return fmt.Errorf("open_index: %q", b[:n])
	}
	return nil
}

func (p *hsProto) key(b []byte, id uint64) []byte {
	if *fKeyFmt == "%d" {
		return strconv.AppendUint(b, id, 10)
	}
	return fmt.Appendf(b, *fKeyFmt, id)
}

func (p *hsProto) request(b []byte, id uint64) []byte {
	switch p.op {
	case "find":
		b = append(b, "1\t=\t1\t"...)
		b = p.key(b, id)
	case "range":
		b = append(b, "1\t>=\t1\t"...)
		b = p.key(b, id)
		b = append(b, '\t')
		b = strconv.AppendInt(b, int64(*fMget), 10)
		b = append(b, "\t0"...)
	case "in":
		b = append(b, "1\t=\t1\t\t"...)
		b = strconv.AppendInt(b, int64(*fMget), 10)
		b = append(b, "\t0\t@\t0\t"...)
		b = strconv.AppendInt(b, int64(*fMget), 10)
		for i := 0; i < *fMget; i++ {
			b = append(b, '\t')
			b = p.key(b, (id+uint64(i)*7919)%uint64(*fKeys)+1)
		}
	case "update": // columns: id,uname,email,add_time
		b = append(b, "1\t=\t1\t"...)
		b = p.key(b, id)
		b = append(b, "\t1\t0\tU\t"...)
		b = p.key(b, id)
		b = append(b, "\tname_"...)
		b = strconv.AppendInt(b, nowns(), 10)
		b = append(b, "\tx@example.com\t2024-05-06 07:08:09"...)
	case "insert": // columns without the automatic key
		b = append(b, "1\t+\t3\tname_"...)
		b = strconv.AppendInt(b, nowns(), 10)
		b = append(b, "\tx@example.com\t2024-05-06 07:08:09"...)
	}
	return append(b, '\n')
}

func (p *hsProto) parse(c *conn, b []byte) (used, done, bad int) {
	for {
		i := indexByte(b[used:], '\n')
		if i < 0 {
			return
		}
		if b[used] != '0' || i < 3 {
			bad++
			if *fCheck {
				fmt.Fprintf(os.Stderr, "wireload: answer %q\n", b[used:used+i])
			}
		}
		used += i + 1
		done++
	}
}

// ---- MySQL client protocol, just enough of it

type myProto struct {
	op   string
	stmt uint32
	sql  string
}

func (p *myProto) setup(c net.Conn) error {
	r := bufio.NewReader(c)
	if err := mywire.Login(c, r, *fUser, *fDB); err != nil {
		return err
	}
	if p.op == "query" || p.op == "raw" {
		return nil
	}
	if err := mywire.WritePacket(c, 0, append([]byte{0x16}, p.sql...)); err != nil {
		return err
	}
	k, err := mywire.ReadPacket(r)
	if err != nil {
		return err
	}
	if k[0] != 0 {
		return fmt.Errorf("prepare: %q", k)
	}
	p.stmt = binary.LittleEndian.Uint32(k[1:])
	nc, np := int(binary.LittleEndian.Uint16(k[5:])), int(binary.LittleEndian.Uint16(k[7:]))
	n := nc + np
	if nc > 0 {
		n++
	}
	if np > 0 {
		n++
	}
	for i := 0; i < n; i++ {
		if _, err = mywire.ReadPacket(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *myProto) request(b []byte, id uint64) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	switch p.op {
	case "raw":
		b = append(b, 3)
		b = append(b, p.sql...)
	case "query":
		b = append(b, 3)
		b = append(b, "SELECT id,uname,email,add_time FROM user WHERE id="...)
		b = strconv.AppendUint(b, id, 10)
	default:
		b = append(b, 0x17)
		b = binary.LittleEndian.AppendUint32(b, p.stmt)
		b = append(b, 0, 1, 0, 0, 0, 0, 1, 3, 0) // one parameter, not null, type LONG
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	n := len(b) - at - 4
	b[at], b[at+1], b[at+2] = byte(n), byte(n>>8), byte(n>>16)
	return b
}

// states: 0 start of an answer, 1 columns, 2 rows
func (p *myProto) parse(c *conn, b []byte) (used, done, bad int) {
	for len(b)-used >= 4 {
		n := int(b[used]) | int(b[used+1])<<8 | int(b[used+2])<<16
		if len(b)-used < 4+n {
			return
		}
		k := b[used+4 : used+4+n]
		used += 4 + n
		switch {
		case k[0] == 0xff:
			bad++
			done++
			c.state = 0
			if *fCheck {
				fmt.Fprintf(os.Stderr, "wireload: answer %q\n", k)
			}
		case c.state == 0 && k[0] == 0:
			done++
		case c.state == 0:
			c.state = 1
		case k[0] == 0xfe && n < 9:
			c.state++
			if c.state == 3 {
				c.state = 0
				done++
			}
		}
	}
	return
}
