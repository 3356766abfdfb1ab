package sqltext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// frames makes frames of payloads as a server numbers them after a command.
func frames(payloads ...[]byte) (b []byte) {
	for i, p := range payloads {
		b = append(b, byte(len(p)), byte(len(p)>>8), byte(len(p)>>16), byte(i+1))
		b = append(b, p...)
	}
	return b
}

// readLog reads a log that is there already, and tells what came of it.
func readLog(answer []byte, step int, event func(e io.Reader) error) (sizes []int, err error) {
	s := &script{in: answer, step: step}
	c := &Conn{raw: s}
	c.init(s, 0, 0)
	err = c.ReadLog(context.Background(), 0x12, "", func() time.Duration { return 0 }, func(e io.Reader) error {
		if event != nil {
			return event(e)
		}
		b, err := io.ReadAll(e)
		sizes = append(sizes, len(b))
		return err
	})
	if !c.Broken() {
		err = errors.Join(err, errors.New("the connection is not broken"))
	}
	return sizes, err
}

// Events of any number of frames are put together, and everything else that a server may send is an error.
func TestReadLog(t *testing.T) {
	full := bytes.Repeat([]byte{0}, maxPayload)
	event := append([]byte{0}, make([]byte, 30)...)
	end := []byte{headEOF, 0, 0, 2, 0}
	refused := append([]byte{headError, 0xd4, 0x04}, "#HY000gone"...)
	wrong := frames(event, event)
	wrong[len(event)+4+3] = 7
	long := frames(event)
	long[0]++ // and then the server is gone
	for name, c := range map[string]struct {
		answer []byte
		sizes  string
		want   error
		text   string
		step   int
	}{
		"events, then the end":     {frames(event, []byte{0}, event, end), "[30 0 30]", ErrLogEnd, "ended the log", 5},
		"an error":                 {frames(event, refused), "[30]", nil, "gone", 1000},
		"a full frame and nothing": {frames(full, nil, end), fmt.Sprint([]int{maxPayload - 1}), ErrLogEnd, "", 1 << 20},
		"a full frame and a byte":  {frames(full, []byte{9}, event, end), fmt.Sprint([]int{maxPayload, 30}), ErrLogEnd, "", 1 << 20},
		"two full frames":          {frames(full, full, nil, event, end), fmt.Sprint([]int{2*maxPayload - 1, 30}), ErrLogEnd, "", 1 << 20},
		"another number":           {wrong, "[30]", ErrMalformed, "sequence", 1000},
		"an unknown kind":          {frames([]byte{7, 1, 2}), "[]", ErrMalformed, "", 1000},
		"an empty packet":          {frames(nil), "[]", ErrMalformed, "", 1000},
		"a frame that is cut off":  {long, "[30]", io.EOF, "", 1000},
		"nothing":                  {nil, "[]", io.EOF, "", 1000},
	} {
		sizes, err := readLog(c.answer, c.step, nil)
		if fmt.Sprint(sizes) != c.sizes || err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: events of %v bytes, %v", name, sizes, err)
		}
		if c.want != nil && !IsConnectionError(err) {
			t.Errorf("%s: no error of the connection: %v", name, err)
		}
	}
	// Who leaves a part of an event has read it wrong.
	if _, err := readLog(frames(event, event), 1000, func(e io.Reader) error {
		_, err := io.ReadFull(e, make([]byte, 10))
		return err
	}); !errors.Is(err, ErrMalformed) {
		t.Errorf("an event that is left: %v", err)
	}
	own := errors.New("own")
	if _, err := readLog(frames(event), 1000, func(io.Reader) error { return own }); err != own {
		t.Errorf("an error of the callback: %v", err)
	}
}

// A wait for an event, or for the rest of one, ends with the context, or when it was too long.
func TestReadLogWaits(t *testing.T) {
	stop := errors.New("stop")
	for _, begun := range [][]byte{nil, {40, 0, 0, 1, 0, 5, 5}} {
		for _, silent := range []bool{true, false} {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Read(make([]byte, 100)) // the command
				if len(begun) > 0 {
					_, _ = there.Write(begun)
				}
			}()
			c := &Conn{raw: here}
			c.init(here, 0, 0)
			ctx, cancel := context.WithCancelCause(t.Context())
			patience, want := 20*time.Millisecond, ErrSilent
			if !silent {
				patience, want = time.Minute, stop
				time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
			}
			err := c.ReadLog(ctx, 0x12, "", func() time.Duration { return patience }, func(e io.Reader) error {
				_, err := io.Copy(io.Discard, e)
				return err
			})
			if !errors.Is(err, want) || IsConnectionError(err) != silent {
				t.Errorf("after %d bytes: %v", len(begun), err)
			}
			cancel(nil)
			there.Close()
		}
	}
}
