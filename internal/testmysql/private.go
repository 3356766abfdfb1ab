package testmysql

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

type privateServer struct {
	t       testing.TB
	flavor  string
	dir     string
	port    int
	options []string
}

// Private starts a server of its own on fresh data for this test, with more options if wanted ("--gtid-mode=OFF"; the
// last one of a name counts), and removes it at the test's end. It takes a second or two.
func Private(t testing.TB, flavor string, options ...string) Server {
	t.Helper()
	dir, err := privateDir(t.Context())
	if err != nil {
		t.Fatalf("private %s server: %v", flavor, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if b, err := os.ReadFile(filepath.Join(dir, "error.log")); err == nil {
				t.Logf("end of the private %s server's log:\n%s", flavor, tail(b))
			}
		}
		if err := discard(dir); err != nil {
			t.Errorf("remove the private %s server: %v", flavor, err)
		}
	})
	var dsn string
	p := &privateServer{t: t, flavor: flavor, dir: dir, options: options}
	for attempt := 0; ; attempt++ {
		if p.port, err = FreePort(); err != nil {
			t.Fatalf("private %s server: %v", flavor, err)
		}
		dsn, err = serverUp(t.Context(), io.Discard, flavor, dir, p.port, options)
		if err == nil {
			return Server{Flavor: flavor, DSN: dsn, Dir: dir, private: p}
		}
		if attempt == 2 {
			t.Fatalf("private %s server: %v", flavor, err)
		}
	}
}

// Kill ends a private server as a crash does, without any warning to it. Like Stop and Start it belongs to the test's
// own goroutine, and fails the test when it does not work.
func (s Server) Kill() {
	p := s.mustBePrivate()
	p.t.Helper()
	if err := serverDown(p.t.Context(), p.dir, true); err != nil {
		p.t.Fatalf("kill the private %s server: %v", p.flavor, err)
	}
}

// Stop shuts a private server down in order and waits for its end.
func (s Server) Stop() {
	p := s.mustBePrivate()
	p.t.Helper()
	if err := serverDown(p.t.Context(), p.dir, false); err != nil {
		p.t.Fatalf("stop the private %s server: %v", p.flavor, err)
	}
}

// Start starts a stopped or killed private server again on the same data and port, and waits until it answers. More
// options may be given, for this and later starts.
func (s Server) Start(options ...string) {
	p := s.mustBePrivate()
	p.t.Helper()
	p.options = append(p.options, options...)
	if _, err := serverUp(p.t.Context(), io.Discard, p.flavor, p.dir, p.port, p.options); err != nil {
		p.t.Fatalf("start the private %s server again: %v", p.flavor, err)
	}
}

func (s Server) mustBePrivate() *privateServer {
	if s.private == nil {
		panic("testmysql: only a server from Private can be stopped: the shared ones are everybody's")
	}
	return s.private
}

var privateCount atomic.Int64

// privateDir makes an instance folder that names this process as its owner, and removes those whose owner has ended
// without a clean-up (a test that ran into its time limit).
func privateDir(ctx context.Context) (string, error) {
	folder, err := cacheFolder("private")
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(folder, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		owner, _, _ := strings.Cut(e.Name(), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		if err := discard(filepath.Join(folder, e.Name())); err != nil {
			return "", fmt.Errorf("remove the server that an ended test left: %w", err)
		}
	}
	dir := filepath.Join(folder, fmt.Sprintf("%d-%d", os.Getpid(), privateCount.Add(1)))
	if err := discard(dir); err != nil { // an earlier process may have had this number
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// discard kills the instance of dir, if it runs, and removes the folder. It is used where a test's context has ended.
func discard(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	if err := serverDown(ctx, dir, true); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
