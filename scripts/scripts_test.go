package scripts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// script runs one of the scripts with a cache folder of its own and returns its exit code and all it said.
func script(t *testing.T, cache, name string, args ...string) (int, string) {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "BINLOGCACHE_CACHE="+cache)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", name, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestEmbedded(t *testing.T) {
	for name, text := range map[string][]byte{"server-up.sh": ServerUp, "server-down.sh": ServerDown} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file, text) || !bytes.HasPrefix(text, []byte("#!/bin/bash\n# "+name)) {
			t.Errorf("%s is not what is embedded", name)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"server-up.sh", nil, "usage:"},
		{"server-up.sh", []string{"mysql", "dir"}, "usage:"},
		{"server-up.sh", []string{"oracle", "dir", "1"}, `unknown flavor "oracle"`},
		{"server-up.sh", []string{"mysql", "dir", "x"}, `port "x" is not a number`},
		{"server-down.sh", nil, "usage:"},
	} {
		code, out := script(t, t.TempDir(), c.name, c.args...)
		if code != 1 || !strings.Contains(out, c.want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s %q: code %d, %q; want one line with %q", c.name, c.args, code, out, c.want)
		}
	}
}

// TestForeignProcess: a number left in a pid file, as after a reboot, costs nobody's life.
func TestForeignProcess(t *testing.T) {
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = other.Wait()
	}()
	defer func() {
		_ = other.Process.Kill()
		<-ended
	}()
	cache := t.TempDir()
	dir := filepath.Join(cache, "servers", "shared", "mysql")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(dir, "pid")
	for _, args := range [][]string{{dir}, {dir, "kill"}, {"--all"}} {
		if err := os.WriteFile(pidFile, []byte(strconv.Itoa(other.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := script(t, cache, "server-down.sh", args...); code != 0 || out != "" {
			t.Errorf("%q: code %d, %q", args, code, out)
		}
		if _, err := os.Stat(pidFile); !os.IsNotExist(err) {
			t.Errorf("%q: the pid file is still there", args)
		}
		select {
		case <-ended:
			t.Fatalf("%q killed a process that is not a server", args)
		default:
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("--all left the folder")
	}
	// Nothing to stop is no error.
	if code, out := script(t, cache, "server-down.sh", "--all"); code != 0 || out != "" {
		t.Errorf("--all without servers: code %d, %q", code, out)
	}
	if code, out := script(t, cache, "server-down.sh", filepath.Join(cache, "none")); code != 0 || out != "" {
		t.Errorf("a folder that is not there: code %d, %q", code, out)
	}
}
