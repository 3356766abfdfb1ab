package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestItems: under cache_only the memcached port keeps items in their part of the memory, for those who know a password.
func TestItems(t *testing.T) {
	t.Parallel()
	s := testmysql.Servers(t)[0]
	schema := s.Schema(t)
	mustExec(t, s.DB(t), "CREATE TABLE "+schema+".t (id INT PRIMARY KEY)")
	dir := t.TempDir()
	config, users := filepath.Join(dir, "binlogcache.yaml"), filepath.Join(dir, "users")
	yaml := "policies: {get: cache_only, set: cache_only, delete: cache_only, flush: cache_only}\nmemory: 64MiB\nmemcached-memory: 4MiB\nmemcached-item-size: 2MiB\nmemcached-auth-file: " + users + "\n"
	for path, text := range map[string]string{config: yaml, users: "ann:pa55wd\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := start(t, s.DSN, schema+".t", "--config", config).waitReady()
	if got := askLine(t, d.memcached, "get a\r\n", 1); got[0] != "CLIENT_ERROR unauthenticated" {
		t.Errorf("without a password: %q", got)
	}
	var in strings.Builder
	in.WriteString("set auth 0 0 10\r\nann pa55wd\r\nset a 7 0 5\r\nhello\r\nincr n 1\r\nget a\r\n")
	want := []string{"STORED", "STORED", "NOT_FOUND", "VALUE a 7 5", "hello", "END"}
	for n := range 100 { // far more than there is room for
		fmt.Fprintf(&in, "set big%d 0 0 200000 noreply\r\n%s\r\n", n, strings.Repeat("x", 200_000))
	}
	in.WriteString("set last 0 0 1\r\n1\r\n")
	want = append(want, "STORED")
	if got := askLine(t, d.memcached, in.String(), len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	port := d.memcached[strings.LastIndexByte(d.memcached, ':')+1:]
	settings := strings.Join(askLine(t, d.memcached, "set auth 0 0 10\r\nann pa55wd\r\nstats settings\r\n", 20), "\n")
	for _, line := range []string{"STAT maxconns 10000\n", "STAT tcpport " + port + "\n", "STAT num_threads ", "STAT auth_enabled_ascii yes\n"} {
		if !strings.Contains(settings, line) || strings.Contains(settings, "num_threads 0\n") {
			t.Errorf("no %q in %s", line, settings)
		}
	}
	_, body, err := d.get("/api/v1/status")
	if err != nil || !strings.Contains(body, `"limit": 67108864`) && !strings.Contains(body, `"limit":67108864`) {
		t.Errorf("status: %v, %s", err, body)
	}
	_, metrics, err := d.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"binlogcache_items_memory_limit_bytes 4.194304e+06\n", "binlogcache_items_stored_total 102\n"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no line %q in the metrics", line)
		}
	}
	if strings.Contains(metrics, "binlogcache_items_evicted_total 0\n") || strings.Contains(d.log.String(), "pa55wd") {
		t.Error("nothing was evicted, or a password is in the log")
	}
}
