package torture

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"time"
)

// handlerSocket is a client of the read port.
type handlerSocket struct {
	conn net.Conn
	in   *bufio.Reader
}

// answerTime bounds the wait for an answer.
const answerTime = 20 * time.Second

func dialHandlerSocket(address string) (*handlerSocket, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &handlerSocket{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// ask sends one line of tokens, which the caller has escaped, and returns the tokens of the answer.
func (h *handlerSocket) ask(tokens ...[]byte) (answer [][]byte, err error) {
	err = h.pipeline(append(bytes.Join(tokens, []byte{'\t'}), '\n'), 1, func(_ int, tokens [][]byte) error {
		answer = tokens
		return nil
	})
	return answer, err
}

// pipeline sends n lines and gives the tokens of each answer to take.
func (h *handlerSocket) pipeline(lines []byte, n int, take func(i int, answer [][]byte) error) error {
	if err := h.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	// The server stops reading while nobody takes its answers.
	sent := make(chan error, 1)
	go func() {
		_, err := h.conn.Write(lines)
		sent <- err
	}()
	for i := range n {
		line, err := h.in.ReadBytes('\n')
		if err == nil {
			err = take(i, bytes.Split(line[:len(line)-1], []byte{'\t'}))
		}
		if err != nil {
			_ = h.conn.SetDeadline(time.Unix(1, 0)) // what is left of the lines is not sent
			<-sent
			return err
		}
	}
	return <-sent
}

func special(c byte) bool { return c < 16 }

func escape(v []byte) []byte {
	switch {
	case v == nil:
		return []byte{0}
	case !slices.ContainsFunc(v, special):
		return v
	}
	out := make([]byte, 0, len(v)+len(v)/8)
	for _, c := range v {
		if special(c) {
			out = append(out, 1, c+64)
		} else {
			out = append(out, c)
		}
	}
	return out
}

func unescape(v []byte) []byte {
	if len(v) == 1 && v[0] == 0 {
		return nil
	}
	if bytes.IndexByte(v, 1) < 0 {
		return v
	}
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == 1 && i+1 < len(v) {
			i++
			out = append(out, v[i]-64)
		} else {
			out = append(out, v[i])
		}
	}
	return out
}
