package netserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSplitAndPipelined(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 2})
		c := s.dial()
		req := "e one\ne two\np 1 three\ne four\np 0 five\n\ne seven\n"
		want := []string{"one", "two", "three", "four", "five", "?", "seven"}
		c.send(req)
		c.expect(want...)
		for cut := range req {
			c.send(req[:cut])
			time.Sleep(100 * time.Microsecond)
			c.send(req[cut:])
			c.expect(want...)
		}
		for i := range req {
			c.send(req[i : i+1])
		}
		c.expect(want...)
		c.send("addr\n")
		c.expect(c.LocalAddr().String())
	})
}

func TestManyClientsAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 3, Workers: 4})
		var wg sync.WaitGroup
		for i := range 30 {
			c := s.dial()
			wg.Go(func() {
				var want []string
				var req strings.Builder
				for j := range 200 {
					if j%20 == i%20 {
						fmt.Fprintf(&req, "p 1 %d-%d\n", i, j)
					} else {
						fmt.Fprintf(&req, "e %d-%d\n", i, j)
					}
					want = append(want, fmt.Sprintf("%d-%d", i, j))
				}
				c.stream(req.String())
				for _, w := range want {
					if got, err := c.r.ReadString('\n'); got != w+"\n" {
						t.Errorf("got %q, %v; want %q", got, err, w)
						return
					}
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.Parked != 300 || st.Panics != 0 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestParkedConnectionsDoNotHoldUpOthers(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 1, Workers: 2})
		slow := make([]*client, 6)
		for i := range slow {
			slow[i] = s.dial()
			slow[i].send("p 500 slow\ne after\n")
		}
		waitFor(t, "parked requests", func() bool { return s.Stats().Parking == 6 })
		if n := s.proto.waiting.Load(); n > 2 {
			t.Errorf("%d jobs run at the same time, 2 allowed", n)
		}
		quick := s.dial()
		for range 20 {
			quick.send("e quick\n")
			quick.expect("quick")
		}
		if s.Stats().Parking == 0 { // two at a time, they take 1.5 s
			t.Error("others waited behind all parked requests")
		}
		for _, c := range slow {
			c.expect("slow", "after")
		}
	})
}

// TestAwait: many more requests than workers wait at the same time, each connection's answers keep their order, and a
// connection that goes away, or whose session panics, ends alone.
func TestAwait(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Workers: 1})
		var clients []*client
		for range 20 {
			c := s.dial()
			c.send("a 300 one\ne two\na 1 three\nw four\ne five\n")
			clients = append(clients, c)
		}
		waitFor(t, "requests that wait", func() bool { return s.Stats().Parking == 20 })
		gone := s.dial()
		gone.send("a 300 lost\n")
		waitFor(t, "one more", func() bool { return s.Stats().Parking == 21 })
		_ = gone.Close()
		began := time.Now()
		for _, c := range clients {
			c.expect("one", "two", "three", "four", "five")
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("took %v", d)
		}
		c := s.dial()
		c.send("e ok\nbeginpanic\ne never\n")
		c.expect("ok")
		c.expectEnd()
		waitFor(t, "the end of all", func() bool { return s.Stats().Parking == 0 })
	})
}

func TestInputWaitsWhileParked(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		c := s.dial()
		c.send("p 100 first\n")
		waitFor(t, "the parked request", func() bool { return s.Stats().Parking == 1 })
		before := s.Stats().BytesIn
		var want []string
		for range 30_000 {
			want = append(want, "yyyyyyyyyy")
		}
		c.send(strings.Repeat("e yyyyyyyyyy\n", len(want)))
		if in := s.Stats().BytesIn; in != before && s.Stats().Parking == 1 {
			t.Errorf("%d bytes were read while parked", in-before)
		}
		c.expect("first")
		c.expect(want...)
	})
}

func TestClientThatNeverReads(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxOutput: 64 << 10, WriteTimeout: 300 * time.Millisecond})
		c := s.dial()
		go func() { // until the server closes
			for {
				if _, err := io.WriteString(c, "b 20000\n"); err != nil {
					return
				}
			}
		}()
		other := s.dial()
		waitFor(t, "the slow client to be closed", func() bool { return s.Stats().Closed["slow_client"] == 1 })
		other.send("e still here\n")
		other.expect("still here")
		// What was taken in is bounded by what could be answered: the kernel's buffers and ours.
		if in := s.Stats().BytesIn; in > 64<<10+readSize {
			t.Errorf("%d bytes of requests were read from a client that reads nothing", in)
		}
	})
}

func TestSlowReaderGetsEverything(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxOutput: 128 << 10, WriteTimeout: time.Second})
		c := s.dial()
		const n, size = 300, 40_000 // 12 MB, more than the kernel holds
		go c.stream(strings.Repeat("b "+strconv.Itoa(size)+"\n", n) + "p 1 end\nquit\n")
		total, buf := 0, make([]byte, 100_000)
		for total < n*(size+1) {
			m, err := c.Read(buf[:min(len(buf), n*(size+1)-total)])
			if err != nil {
				t.Fatal(err)
			}
			total += m
			time.Sleep(time.Millisecond)
		}
		c.expect("end", "bye")
		c.expectEnd()
	})
}

func TestOneLargeAnswerAndRequest(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxInput: 8 << 20})
		c := s.dial()
		text := strings.Repeat("0123456789", 400_000)
		go c.stream("e " + text + "\ne small\n")
		c.expect(text, "small")
		go c.stream("p 0 " + text + "\ne small\n")
		c.expect(text, "small")
	})
}

// TestWaitingLimit: half requests and answers that nobody takes are bounded for all connections together. Those that hold
// most are closed; small clients are served, and one large request is, too.
func TestWaitingLimit(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		const limit = 2 << 20
		s := start(t, Config{Engine: e, MaxInput: 1 << 20, MaxOutput: 1 << 20, MaxWaiting: limit})
		text := strings.Repeat("0123456789", 60_000)
		for range 3 {
			lone := s.dial()
			go lone.stream("e " + text + "\nb 8000000\n")
			lone.expect(text, strings.Repeat("x", 8_000_000))
			_ = lone.Close()
			waitFor(t, "buffers to be given back", func() bool { return s.Stats().Waiting == 0 })
		}
		if n := s.Stats().Closed["memory"]; n > 0 {
			t.Errorf("%d closed", n)
		}

		small := s.dial()
		small.send("e hello\n")
		small.expect("hello")
		for range 8 {
			c := s.dial()
			go io.WriteString(c, "e "+text) //nolint:errcheck // some are closed meanwhile
		}
		waitFor(t, "connections to be closed", func() bool { return s.Stats().Closed["memory"] >= 3 })
		for range 8 {
			c := s.dial()
			go io.WriteString(c, "b 9000000\n") //nolint:errcheck // some are closed meanwhile
		}
		waitFor(t, "more to be closed", func() bool { return s.Stats().Closed["memory"] >= 10 })
		waitFor(t, "the limit to be kept", func() bool { n := s.Stats().Waiting; return n > 0 && n <= limit })
		small.send("e still here\n")
		small.expect("still here")
	})
}

func TestInputLimit(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxInput: 1000})
		c := s.dial()
		c.send("limit 100000\n")
		c.expect("ok")
		text := strings.Repeat("z", 90_000)
		c.send("e " + text + "\n")
		c.expect(text)
		c.send(strings.Repeat("y", 300_000))
		c.expectEnd()
		_ = c.Close()
		waitFor(t, "the cause to be counted", func() bool { return s.Stats().Closed["input_limit"] == 1 })
	})
}

func TestEnds(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		bystander := s.dial()
		bystander.send("e hello\n")
		bystander.expect("hello")
		for _, tc := range []struct{ send, cause, log string }{
			{"quit\n", "session", ""},
			{"bad\n", "protocol", "bad request"},
			{"panic\n", "panic", "asked for"},
			{"jobpanic\n", "panic", "asked for, in a job"},
		} {
			c := s.dial()
			c.send("e before\n" + tc.send + "e never served\n" + strings.Repeat("e more\n", 1000))
			c.expect("before")
			switch tc.send {
			case "quit\n":
				c.expect("bye")
			case "bad\n":
				c.expect("sorry")
			}
			c.expectEnd()
			_ = c.Close()
			waitFor(t, tc.cause, func() bool { return s.Stats().Closed[tc.cause] > 0 })
			if !strings.Contains(s.log.String(), tc.log) {
				t.Errorf("%q: log %q", tc.send, s.log.String())
			}
		}
		waitFor(t, "the panics to be counted", func() bool { st := s.Stats(); return st.Panics == 2 && st.Closed["panic"] == 2 })
		if !strings.Contains(s.log.String(), "lineSession") {
			t.Error("no stack in the log")
		}
		bystander.send("e still here\n")
		bystander.expect("still here")
	})
}

func TestHalfClosedClientGetsItsAnswers(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e})
		c := s.dial()
		c.send("e one\np 50 two\ne three\nincomplete")
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.expect("one", "two", "three")
		c.expectEnd()
	})
}

func TestIdleTimeout(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, IdleTimeout: 100 * time.Millisecond})
		idle, parked := s.dial(), s.dial()
		parked.send("p 250 done\n")
		parked.expect("done") // a parked connection is not idle
		idle.expectEnd()
		waitFor(t, "both to be closed", func() bool { return s.Stats().Closed["idle"] == 2 })
	})
}

func TestConnectionLimit(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, MaxConns: 2, Refusal: []byte("full\n")})
		a, b := s.dial(), s.dial()
		for _, c := range []*client{a, b} {
			c.send("e in\n")
			c.expect("in")
		}
		c := s.dial()
		c.expect("full")
		c.expectEnd()
		_ = a.Close()
		waitFor(t, "room", func() bool { return s.Stats().Open == 1 })
		d := s.dial()
		d.send("e in\n")
		d.expect("in")
		if n := s.Stats().Closed["connection_limit"]; n != 1 {
			t.Errorf("%d refused", n)
		}
	})
}

func TestOpenAndCloseThousands(t *testing.T) {
	engines(t, func(t *testing.T, e Engine) {
		s := start(t, Config{Engine: e, Loops: 2})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 250 {
					c, err := net.Dial("tcp", s.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					switch i % 4 {
					case 0: // leaves without a word
					case 1:
						fmt.Fprint(c, "e hi\n")
						if got, err := bufio.NewReader(c).ReadString('\n'); got != "hi\n" {
							t.Errorf("got %q, %v", got, err)
						}
					case 2:
						fmt.Fprint(c, "p 1 gone soon\n") // leaves while parked
					case 3:
						_ = c.(*net.TCPConn).SetLinger(0) // resets
						fmt.Fprint(c, "e hi\nb 100000\n")
					}
					_ = c.Close()
				}
			})
		}
		wg.Wait()
		waitFor(t, "all to be closed", func() bool { return s.Stats().Open == 0 && s.proto.closed.Load() == 2000 })
	})
}

func TestVanishedClientEndsItsJob(t *testing.T) {
	if !epollSupported {
		t.Skip("the goroutine engine notices when the job has ended")
	}
	s := start(t, Config{Engine: EngineEpoll})
	c := s.dial()
	c.send("p 60000 never\n")
	waitFor(t, "the parked request", func() bool { return s.proto.waiting.Load() == 1 })
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	waitFor(t, "the job to be cancelled", func() bool { return s.proto.cancelled.Load() == 1 })
	waitFor(t, "the session to end", func() bool { return s.proto.closed.Load() == 1 })
}
