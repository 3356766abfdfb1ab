package adopt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// askTimeout bounds one request: behind it may be a database that is busy.
	askTimeout = 30 * time.Second
	// maxValue bounds a value that is read.
	maxValue = 1 << 30
	// maxAnswerLine bounds a line of an answer.
	maxAnswerLine = 4096
)

// client speaks the text protocol of memcached, one key at a time: the plugin of 5.x takes no more.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	stop func() bool
}

func dialMemcached(ctx context.Context, network, address string) (*client, error) {
	dialer := net.Dialer{Timeout: askTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &client{conn, bufio.NewReaderSize(conn, maxAnswerLine), context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

func (c *client) close() {
	c.stop()
	_ = c.conn.Close()
}

// answer is what came of a get.
type answer struct {
	found      bool
	flags, cas string
	value      []byte
	// failure is an error line; the rest means nothing then.
	failure string
}

func (a answer) same(b answer) bool {
	return a.found == b.found && a.flags == b.flags && a.cas == b.cas && a.failure == b.failure && bytes.Equal(a.value, b.value)
}

// describe is the answer for people.
func (a answer) describe(cas bool) string {
	switch {
	case a.failure != "":
		return "answers " + strconv.Quote(a.failure)
	case !a.found:
		return "has nothing"
	case cas:
		return fmt.Sprintf("has %s with the flags %s and the cas %s", show(a.value), a.flags, a.cas)
	}
	return fmt.Sprintf("has %s with the flags %s", show(a.value), a.flags)
}

// get asks for one key. An error means that the connection can't be used any more.
func (c *client) get(key []byte, cas bool) (answer, error) {
	var a answer
	if err := c.conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return a, err
	}
	command := "get "
	if cas {
		command = "gets "
	}
	if _, err := c.conn.Write(append(append([]byte(command), key...), "\r\n"...)); err != nil {
		return a, err
	}
	for {
		line, err := c.line()
		if err != nil {
			return a, err
		}
		fields := strings.Fields(line)
		switch {
		case line == "END":
			return a, nil
		case len(fields) > 0 && (fields[0] == "ERROR" || strings.HasSuffix(fields[0], "_ERROR")):
			return answer{failure: line}, nil
		case len(fields) < 4 || fields[0] != "VALUE":
			return a, fmt.Errorf("the answer is %q", line)
		}
		n, err := strconv.Atoi(fields[3])
		if err != nil || n < 0 || n > maxValue {
			return a, fmt.Errorf("the answer is %q", line)
		}
		// The value grows as it comes, so that a length alone takes no memory.
		var value bytes.Buffer
		if _, err := io.CopyN(&value, c.in, int64(n)); err != nil {
			return a, err
		}
		end := make([]byte, 2)
		if _, err := io.ReadFull(c.in, end); err != nil {
			return a, err
		}
		if string(end) != "\r\n" {
			return a, errors.New("the value does not end where its length says")
		}
		a = answer{found: true, flags: fields[2], value: value.Bytes()}
		if cas && len(fields) > 4 {
			a.cas = fields[4]
		}
	}
}

func (c *client) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("the answer is a line of more than %d bytes", maxAnswerLine)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}
