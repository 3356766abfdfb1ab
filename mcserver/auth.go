package mcserver

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"

	"github.com/binlogcache/binlogcache/internal/netserver"
)

// maxAuthBytes bounds what a client may send before it has shown who it is: names and passwords, or a line.
const maxAuthBytes = 512

// The opcodes of SASL.
const (
	opSASLList = 0x20
	opSASLAuth = 0x21
	opSASLStep = 0x22
)

// Users are names with their passwords. It is immutable and shared.
type Users struct {
	digests map[[sha256.Size]byte]bool // of name, zero byte, password
}

// ReadUsers reads lines of name:password, as memcached's -Y takes them. Empty lines are passed over. An error names the
// line, and no password.
func ReadUsers(r io.Reader) (*Users, error) {
	u := &Users{digests: make(map[[sha256.Size]byte]bool)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimRight(lines.Bytes(), "\r")
		if len(line) == 0 {
			continue
		}
		name, password, ok := bytes.Cut(line, []byte{':'})
		switch {
		case !ok || len(name) == 0 || len(password) == 0:
			return nil, fmt.Errorf("line %d: want name:password", n)
		case len(line) > maxAuthBytes/2:
			return nil, fmt.Errorf("line %d: longer than %d bytes", n, maxAuthBytes/2)
		case bytes.ContainsAny(line, " \x00"):
			return nil, fmt.Errorf("line %d: a blank or a zero byte can't be told from what stands between name and password", n)
		}
		u.digests[digest(name, password)] = true
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(u.digests) == 0 {
		return nil, errors.New("no line with name:password")
	}
	return u, nil
}

func digest(name, password []byte) [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{name, password}, []byte{0}))
}

// know tells whether there is such a user, in a time that says nothing about how near a guess was.
func (u *Users) know(name, password []byte) bool {
	want := digest(name, password)
	found := 0
	for d := range u.digests {
		found |= subtle.ConstantTimeCompare(d[:], want[:])
	}
	return found == 1
}

// textAuth takes what a text client sends before it has shown who it is: a set of any key, whose data are name and
// password parted by a blank.
func (s *session) textAuth(in []byte) (taken int, err error) {
	s.cmd = cmdAuth
	end := bytes.IndexByte(in, '\n')
	switch {
	case end > maxAuthBytes, end < 0 && len(in) > maxAuthBytes:
		return 0, netserver.ErrClose
	case end < 0:
		return 0, nil
	}
	line := bytes.TrimSuffix(in[:end], []byte{'\r'})
	name, rest := token(line)
	if textCommand(name) == cmdQuit {
		return end + 1, netserver.ErrClose
	}
	var tok [4][]byte
	for i := range tok {
		tok[i], rest = token(rest)
	}
	length, ok := parseUint(tok[3])
	if string(name) != "set" || !ok || length > maxAuthBytes {
		s.fail(errUnauthenticated)
		return end + 1, nil
	}
	n := int(length)
	data := in[end+1:]
	if len(data) < n+2 {
		return 0, nil
	}
	if data[n] != '\r' || data[n+1] != '\n' {
		s.fail(errBadChunk)
		return end + 1 + n + 2, nil
	}
	user, password, _ := bytes.Cut(data[:n], []byte{' '})
	if s.server.users.know(user, password) {
		s.authenticated()
		s.state = stateText
		s.ok("STORED")
	} else {
		s.fail(errAuthFailed)
	}
	return end + 1 + n + 2, nil
}

func (s *session) authenticated() {
	s.known = true
	s.conn.SetInputLimit(inputLimitBytes)
}

// sasl takes a binary request of a server that has users, if it is one of SASL, or one of a client that has not shown who
// it is. Not handled: the request is like any other.
func (s *session) sasl(in []byte) (taken int, handled bool, err error) {
	f := &s.frame
	op := f.opcode
	isSASL := op == opSASLList || op == opSASLAuth || op == opSASLStep
	if !isSASL && (s.known || op == opVersion) {
		return 0, false, nil
	}
	s.cmd = cmdAuth
	if !isSASL || f.body > maxAuthBytes {
		s.binaryError(statusAuth, textAuth)
		return binaryHeaderBytes, true, netserver.ErrClose
	}
	if f.key+f.extras > f.body {
		s.binaryError(statusInvalid, textInvalid)
		return binaryHeaderBytes, true, netserver.ErrClose
	}
	if len(in) < binaryHeaderBytes+f.body {
		return 0, true, nil
	}
	body := in[binaryHeaderBytes:][:f.body]
	mechanism, value := body[f.extras:][:f.key], body[f.extras+f.key:]
	switch {
	case op == opSASLList:
		s.count.add(s.cmd, resultOK)
		s.binaryAnswer(statusOK, "PLAIN")
	case op == opSASLAuth && string(mechanism) == "PLAIN" && s.plain(value):
		s.authenticated()
		s.count.add(s.cmd, resultOK)
		s.binaryAnswer(statusOK, "Authenticated")
	default:
		s.binaryError(statusAuth, textAuth)
	}
	return binaryHeaderBytes + f.body, true, nil
}

// plain checks what the mechanism PLAIN sends: who to act as (which must be nobody or the user), name and password,
// parted by zero bytes.
func (s *session) plain(value []byte) bool {
	parts := bytes.Split(value, []byte{0})
	return len(parts) == 3 && (len(parts[0]) == 0 || bytes.Equal(parts[0], parts[1])) && s.server.users.know(parts[1], parts[2])
}
