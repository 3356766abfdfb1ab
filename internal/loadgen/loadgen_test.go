package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// serve answers each line of each connection with answer(line); nothing where that is empty.
func serve(t *testing.T, answer func(line string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewScanner(c)
				for in.Scan() {
					if a := answer(in.Text()); a != "" {
						fmt.Fprint(c, a)
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestCounts(t *testing.T) {
	address := serve(t, func(line string) string {
		switch {
		case strings.HasPrefix(line, "P\t"):
			return "0\t1\n"
		case strings.HasSuffix(line, "\t1"):
			return "0\t2\n" // key 1 is not there
		}
		return "0\t2\ta\tb\n"
	})
	r, err := Run(t.Context(), Load{
		Protocol: HandlerSocket, Address: address, Conns: 3, Depth: 4, Keys: 2, Duration: 200 * time.Millisecond,
		Schema: "s", Table: "t", Columns: []string{"a", "b"}, PID: os.Getpid(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops == 0 || r.Ops%4 != 0 || r.Misses == 0 || r.Misses >= r.Ops || r.P50 <= 0 || r.Max < r.P99 || r.Elapsed < 200*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

func TestErrors(t *testing.T) {
	refuse := serve(t, func(line string) string {
		if strings.HasPrefix(line, "P\t") {
			return "0\t1\n"
		}
		return "2\t1\tkpnum\n"
	})
	load := Load{Protocol: HandlerSocket, Address: refuse, Conns: 2, Duration: 100 * time.Millisecond, Schema: "s", Table: "t", Columns: []string{"a"}}
	if _, err := Run(t.Context(), load); err == nil || !strings.Contains(err.Error(), "kpnum") {
		t.Errorf("an error answer: %v", err)
	}
	load.PID = 1 << 29
	if _, err := Run(t.Context(), load); err == nil {
		t.Error("no error for a process that is not there")
	}
	// A server that goes mute ends with the context.
	mute := serve(t, func(line string) string {
		if strings.HasPrefix(line, "P\t") {
			return "0\t1\n"
		}
		return ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	load.Address, load.PID = mute, 0
	begun := time.Now()
	if _, err := Run(ctx, load); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a mute server: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
