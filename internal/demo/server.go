package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/binlogcache/binlogcache/scripts"
)

// server is the private database server of the tour.
type server struct {
	flavor, dir string
	port        int
	out         io.Writer
}

// start brings the server up, on the data it had before if it ran already, and returns its DSN.
func (s *server) start(ctx context.Context) (string, error) {
	if s.port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return "", err
		}
	}
	var out bytes.Buffer
	if err := s.script(ctx, "server-up.sh", scripts.ServerUp, &out, s.flavor, s.dir, strconv.Itoa(s.port)); err != nil {
		return "", fmt.Errorf("start the private server: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1], nil
}

// stop ends the server in order.
func (s *server) stop() error {
	if s.port == 0 {
		return nil
	}
	return s.script(context.Background(), "server-down.sh", scripts.ServerDown, io.Discard, s.dir)
}

// kill ends it as a crash would.
func (s *server) kill() error {
	data, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("pid of the private server: %w", err)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// client is the command line of the server's own client.
func (s *server) client() string {
	socket, err := os.ReadFile(filepath.Join(s.dir, "socket-path"))
	if err != nil {
		return fmt.Sprintf("mysql -h127.0.0.1 -P%d -uroot -ptest %s", s.port, Schema)
	}
	return fmt.Sprintf("%s --socket=%s -uroot %s", filepath.Join(s.dir, "bin", "sql"), strings.TrimSpace(string(socket)), Schema)
}

// script runs a script of this binary. Ctrl-C on the terminal must not reach it: the server is stopped in order later.
func (s *server) script(ctx context.Context, name string, text []byte, stdout io.Writer, args ...string) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, text, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "bash", append([]string{path}, args...)...)
	cmd.Stdout = stdout
	log := &indenter{out: s.out}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// indenter shows the script's own progress lines and leaves out what package tools say.
type indenter struct {
	out  io.Writer
	rest []byte
}

func (w *indenter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte{'\n'})
		if !ok {
			return len(p), nil
		}
		w.rest = rest
		if text, ok := bytes.CutPrefix(line, []byte("server-up: ")); ok {
			fmt.Fprintf(w.out, "   %s\n", text)
		}
	}
}
