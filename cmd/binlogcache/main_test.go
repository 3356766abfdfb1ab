package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"version"}, 0, "binlogcache ", ""},
		{[]string{"--help"}, 0, "Commands:", ""},
		{[]string{"serve", "--help"}, 0, "--tables", ""},
		{nil, 2, "", "no command"},
		{[]string{"serve", "--frobnicate"}, 2, "", "--frobnicate"},
		{[]string{"adopt"}, 2, "", "adopt"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), c.args, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: code %d, stdout %q, stderr %q", c.args, code, stdout.String(), stderr.String())
		}
		if (c.stderr == "") != (stderr.Len() == 0) || strings.Count(stderr.String(), "\n") > 1 {
			t.Errorf("%v: standard error has %q", c.args, stderr.String())
		}
	}
}
