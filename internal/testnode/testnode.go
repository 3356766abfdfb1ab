// Package testnode makes client libraries of the npm registry ready for tests.
package testnode

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Command returns a command that runs a Node script which requires the packages, each given as name@version. They are
// installed once, into the user's cache folder. The test is skipped where Node is not installed or the packages can't be had.
func Command(t testing.TB, script string, packages ...string) *exec.Cmd {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed; not tested without it: ", script)
	}
	script, err = filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, script)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules(t, packages))
	return cmd
}

// modules returns a folder that holds the packages.
func modules(t testing.TB, packages []string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "binlogcache", "node", strings.Join(packages, "+"))
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "node_modules")
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh) // of what was not renamed
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{"install", "--prefix", fresh, "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"}, packages...)
	if out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput(); err != nil {
		t.Skipf("%s can't be installed, and is not tested: %v\n%s", strings.Join(packages, ", "), err, out)
	}
	// Another test may have been faster.
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "node_modules")
}
