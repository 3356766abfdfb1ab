// Package clients runs client libraries and tools of memcached that people use against this server.
package clients

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/internal/testnode"
	"github.com/binlogcache/binlogcache/mcserver"
)

// serve runs a server without containers until the test ends, and returns its address.
func serve(t *testing.T, listen string, users *mcserver.Users) string {
	t.Helper()
	items := cache.NewItems(cache.ItemsConfig{MemoryLimit: 64 << 20})
	info := func() mcserver.Info { return mcserver.Info{Items: mcserver.ItemsInfo{Items: items.Stats().Items}} }
	server := mcserver.New(mcserver.Config{Items: items, Users: users, Info: info})
	if _, err := server.SetContainers(t.Context(), mcserver.ContainerSet{}); err != nil {
		t.Fatal(err)
	}
	s, err := netserver.New(netserver.Config{Name: "memcached", Listen: listen, Protocol: server})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return s.Addr().String()
}

// program is a client: a command line, and what to try whether its library is installed.
type program struct {
	name string
	args []string
	have []string
	want string // stands in its output
}

// Debian's libraries are those of its own interpreters.
const (
	python       = "/usr/bin/python3"
	spymemcached = "/usr/share/java/spymemcached.jar"
)

var programs = []program{
	{"memccapable", []string{"memccapable", "-h", "HOST", "-p", "PORT"}, []string{"memccapable", "--help"}, "All tests passed"},
	{"libmemcached tools", []string{"bash", "libmemcached_tools.sh"}, []string{"memcslap", "--help"}, "OK"},
	{"php-memcached", []string{"php", "php_memcached.php"}, []string{"php", "-r", "exit(class_exists('Memcached') ? 0 : 1);"}, "OK"},
	{"pymemcache", []string{python, "pymemcache_smoke.py"}, []string{python, "-c", "import pymemcache"}, "OK"},
	{"bmemcached", []string{python, "bmemcached_smoke.py"}, []string{python, "-c", "import bmemcached"}, "OK"},
	{"spymemcached", []string{"java", "-cp", spymemcached, "SpySmoke.java"}, []string{"sh", "-c", "command -v javac && test -f " + spymemcached}, "OK"},
	{"pylibmc", []string{python, "pylibmc_smoke.py"}, []string{python, "-c", "import pylibmc"}, "OK"},
	{"gomemcache", []string{"go", "run", "-C", "gomemcache", "."}, []string{"go", "build", "-C", "gomemcache", "-o", os.DevNull, "."}, "OK"},
	{"Cache::Memcached::Fast", []string{"perl", "fast_smoke.pl"}, []string{"perl", "-MCache::Memcached::Fast", "-e", "1"}, "OK"},
}

func (p *program) run(t *testing.T, addr string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := exec.CommandContext(ctx, p.have[0], p.have[1:]...).Run(); err != nil {
		t.Skipf("%s is not there: scripts/install-deps.sh test installs it where it can (%v)", p.name, err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := make([]string, 0, len(p.args))
	for _, a := range p.args[1:] {
		args = append(args, strings.NewReplacer("HOST", host, "PORT", port).Replace(a))
	}
	cmd := exec.CommandContext(ctx, p.args[0], args...)
	cmd.Env = append(append(os.Environ(), "MC_HOST="+host, "MC_PORT="+port, "MC_FLUSH=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), p.want) || strings.Contains(string(out), "[FAIL]") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNodeClients is TestClients for libraries of the npm registry.
func TestNodeClients(t *testing.T) {
	for script, library := range map[string]string{"node/memjs_smoke.js": "memjs@1.3.2", "node/node_memcached_smoke.js": "memcached@2.2.2"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			cmd := testnode.Command(t, script, library)
			host, port, err := net.SplitHostPort(serve(t, "127.0.0.1:0", nil))
			if err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(cmd.Env, "MC_HOST="+host, "MC_PORT="+port)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "OK") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestClients(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t, serve(t, "127.0.0.1:0", nil))
		})
	}
	t.Run("libmemcached over a Unix socket", func(t *testing.T) {
		t.Parallel()
		if exec.Command("memcping", "--help").Run() != nil {
			t.Skip("libmemcached-tools is not installed")
		}
		path := filepath.Join(t.TempDir(), "mc.sock")
		serve(t, "unix:"+path, nil)
		if out, err := exec.CommandContext(t.Context(), "memcping", "-s", path).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("pylibmc with SASL", func(t *testing.T) {
		t.Parallel()
		users, err := mcserver.ReadUsers(strings.NewReader("someone:else\nuser:pass:word\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range programs {
			if p.name == "pylibmc" {
				p.run(t, serve(t, "127.0.0.1:0", users), "MC_USER=user", "MC_PASSWORD=pass:word")
			}
		}
	})
}
