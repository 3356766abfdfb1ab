// Package tests runs the built binary against real servers: what a user does, from the outside.
package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// binary is the program under test, built with the race detector.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "binlogcache-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "binlogcache")
	build := exec.Command("go", "build", "-race", "-o", binary, "../cmd/binlogcache")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the binary:", err)
		return 1
	}
	return m.Run()
}

// settleTimeout bounds every wait for the daemon to catch up.
const settleTimeout = 60 * time.Second

// daemon is a running `serve`.
type daemon struct {
	t                                         *testing.T
	cmd                                       *exec.Cmd
	handlerSocket, writePort, memcached, base string
	log                                       *logBuffer
	exited                                    chan struct{}
	err                                       error // of Wait, valid once exited is closed
	stopped                                   bool
}

// logBuffer keeps what the daemon writes.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// givenPorts are the ports that freeAddress has given: the system may name one twice before anybody listens on it.
var givenPorts sync.Map

func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		port, err := testmysql.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
}

// start starts `serve` on free ports and does not wait for it.
func start(t *testing.T, dsn, tables string, args ...string) *daemon {
	t.Helper()
	return startBinary(t, binary, dsn, tables, args...)
}

// startBinary is start with another build of the program.
func startBinary(t *testing.T, binary, dsn, tables string, args ...string) *daemon {
	t.Helper()
	return startServe(t, binary, append([]string{"--source", dsn, "--tables", tables}, args...)...)
}

// startServe starts `serve` with these flags, and free ports where they name none.
func startServe(t *testing.T, binary string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, handlerSocket: freeAddress(t), writePort: freeAddress(t), memcached: freeAddress(t), log: &logBuffer{}, exited: make(chan struct{})}
	admin := freeAddress(t)
	d.base = "http://" + admin
	all := append([]string{"serve"}, args...)
	for flag, address := range map[string]string{
		"--handlersocket-read": d.handlerSocket, "--handlersocket-write": d.writePort, "--memcached": d.memcached, "--admin": admin,
	} {
		if !slices.Contains(args, flag) {
			all = append(all, flag, address)
		}
	}
	d.cmd = exec.Command(binary, all...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	d.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0")
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", tail(d.log.String(), 60))
		}
	})
	return d
}

func tail(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// stop ends the daemon as a service manager does; it must exit 0 within 10 seconds.
func (d *daemon) stop() {
	d.t.Helper()
	if d.stopped {
		return
	}
	d.stopped = true
	select {
	case <-d.exited:
		d.t.Errorf("the daemon ended by itself: %v", d.err)
		return
	default:
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Errorf("signal: %v", err)
	}
	select {
	case <-d.exited:
		if d.err != nil {
			d.t.Errorf("the daemon's end: %v", d.err)
		}
	case <-time.After(10 * time.Second):
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines go to the log
		time.Sleep(time.Second)
		_ = d.cmd.Process.Kill()
		<-d.exited
		d.t.Errorf("the daemon did not end within 10 s of SIGTERM")
	}
}

// waitExit waits for the daemon to end by itself and returns its exit code.
func (d *daemon) waitExit(timeout time.Duration) int {
	d.t.Helper()
	select {
	case <-d.exited:
		d.stopped = true
		var exit *exec.ExitError
		if errors.As(d.err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(timeout):
		d.t.Fatalf("still running after %s", timeout)
		return -1
	}
}

// get asks the admin interface.
func (d *daemon) get(path string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// eventually repeats check until it gives no error.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(settleTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// waitReady waits for /readyz.
func (d *daemon) waitReady() *daemon {
	d.t.Helper()
	eventually(d.t, "ready", func() error {
		select {
		case <-d.exited:
			d.t.Fatalf("the daemon ended: %v", d.err)
		default:
		}
		code, body, err := d.get("/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, strings.TrimSpace(body))
		}
		return err
	})
	return d
}

// status is /api/v1/status, with the names that users rely on.
type status struct {
	Version string  `json:"version"`
	Uptime  float64 `json:"uptime_s"`
	Source  struct {
		Flavor, Version, Address string
		Connected                bool
		Failovers                int
	} `json:"source"`
	Applied struct {
		GTID string `json:"gtid"`
		File string `json:"file"`
		Pos  uint64 `json:"pos"`
		Seq  uint64 `json:"seq"`
	} `json:"applied"`
	Tables []struct {
		Name, Mode, State, Reason string
		Rows                      uint64
	} `json:"tables"`
	Reads struct {
		HandlerSocket struct{ Memory, Database uint64 } `json:"handlersocket"`
		Memcached     struct{ Memory, Database uint64 } `json:"memcached"`
	} `json:"reads"`
	Writes struct {
		Done        uint64 `json:"done"`
		AckTimeouts uint64 `json:"ack_timeouts"`
	} `json:"writes"`
	Memory struct{ Limit, Used int64 } `json:"memory"`
}

func (d *daemon) status() status {
	d.t.Helper()
	var st status
	_, body, err := d.get("/api/v1/status")
	if err == nil {
		err = json.Unmarshal([]byte(body), &st)
	}
	if err != nil {
		d.t.Fatalf("status: %v", err)
	}
	return st
}
