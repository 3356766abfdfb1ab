// Package testmysql gives tests real MariaDB and MySQL servers.
//
// Two shared servers, one of each flavor, are started on first use by scripts/server-up.sh and stay for later packages
// and later runs; a test takes a schema of its own on them (Server.Schema) and changes nothing global. A test that kills
// its server, restarts it or sets global variables takes a private one (Private). The servers live in the cache folder,
// ${BINLOGCACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/binlogcache}/servers; "make clean-servers" stops them.
//
// BINLOGCACHE_TEST_MARIADB and BINLOGCACHE_TEST_MYSQL, each a DSN with all rights, replace the shared servers.
//
// A server that can't be had fails the test: a suite that skips its servers tests nothing.
package testmysql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// The flavors, as Server.Flavor has them.
const (
	MariaDB = "mariadb"
	MySQL   = "mysql"
)

// startTimeout bounds the first start, which may have to download the server.
const startTimeout = 9 * time.Minute

// Server is a running database server. Copies name the same server.
type Server struct {
	// Flavor is MariaDB or MySQL.
	Flavor string
	// DSN is the go-sql-driver form, with all rights and without a schema: "root:test@tcp(127.0.0.1:3306)/".
	DSN string
	// Dir holds the server's files (data, error.log, socket-path, bin/sql); empty where the environment names the server.
	Dir string

	private *privateServer
}

// Flavors returns both flavors, for tests that start private servers of each.
func Flavors() []string { return []string{MariaDB, MySQL} }

// Servers returns the shared servers, one of each flavor.
func Servers(t testing.TB) []Server {
	t.Helper()
	var all []Server
	for _, flavor := range Flavors() {
		all = append(all, Shared(t, flavor))
	}
	return all
}

// shared keeps the servers that this process has found running. apart precedes the names of their folders.
var shared struct {
	sync.Mutex
	apart   string
	servers map[string]Server
}

// Apart gives the calling package shared servers of its own, for tests that watch all that the log of a server holds: the
// statements of other packages would be in it. It is called from TestMain, with the package's name.
func Apart(name string) {
	shared.Lock()
	defer shared.Unlock()
	shared.apart = name + "-"
}

// Shared returns the shared server of one flavor.
func Shared(t testing.TB, flavor string) Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s, ok := shared.servers[flavor]; ok {
		return s
	}
	s, err := findShared(t.Context(), flavor, shared.apart+flavor)
	if err != nil {
		t.Fatalf("no %s server to test with: %v", flavor, err)
	}
	if shared.servers == nil {
		shared.servers = make(map[string]Server)
	}
	shared.servers[flavor] = s
	return s
}

// findShared starts or finds the server of the folder called name.
func findShared(ctx context.Context, flavor, name string) (Server, error) {
	variable := "BINLOGCACHE_TEST_" + strings.ToUpper(flavor)
	if dsn := os.Getenv(variable); dsn != "" {
		if err := ping(ctx, dsn); err != nil {
			return Server{}, fmt.Errorf("%s: %w", variable, err)
		}
		return Server{Flavor: flavor, DSN: dsn}, nil
	}
	folder, err := cacheFolder("shared")
	if err != nil {
		return Server{}, err
	}
	unlock, err := lockFile(filepath.Join(folder, name+".lock"))
	if err != nil {
		return Server{}, err
	}
	defer unlock()
	dir := filepath.Join(folder, name)
	if err := discardOutdated(ctx, dir); err != nil {
		return Server{}, err
	}
	// The port is remembered, so that a server that somebody stopped comes back where it was.
	portFile := filepath.Join(dir, "port")
	for attempt := 0; ; attempt++ {
		port := 0
		if b, err := os.ReadFile(portFile); err == nil {
			port, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		if port != 0 {
			dsn := dsnOf(port)
			if ping(ctx, dsn) == nil {
				return Server{Flavor: flavor, DSN: dsn, Dir: dir}, nil
			}
		} else {
			if port, err = FreePort(); err != nil {
				return Server{}, err
			}
			if err := os.WriteFile(portFile, []byte(strconv.Itoa(port)), 0o600); err != nil {
				return Server{}, err
			}
		}
		dsn, err := serverUp(ctx, os.Stderr, flavor, dir, port, nil)
		if err == nil {
			return Server{Flavor: flavor, DSN: dsn, Dir: dir}, nil
		}
		if attempt == 2 {
			return Server{}, err
		}
		// Perhaps somebody else has taken the port by now.
		os.Remove(portFile)
	}
}

// discardOutdated makes dir, and empties it first when its server was started by another version of the script.
func discardOutdated(ctx context.Context, dir string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(root, "scripts", "server-up.sh"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(script)
	want := hex.EncodeToString(sum[:8])
	versionFile := filepath.Join(dir, "script-version")
	if have, err := os.ReadFile(versionFile); err == nil && string(have) == want {
		return nil
	}
	if err := serverDown(ctx, dir, true); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(versionFile, []byte(want), 0o600)
}

// DB opens a pool without a default schema that is closed at the test's end. A query may hold several statements.
func (s Server) DB(t testing.TB) *sql.DB {
	t.Helper()
	return s.DBIn(t, "")
}

// DBIn is DB with a default schema.
func (s Server) DBIn(t testing.TB, schema string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(s.DSN)
	if err != nil {
		t.Fatalf("DSN of the %s server: %v", s.Flavor, err)
	}
	cfg.DBName = schema
	cfg.MultiStatements = true
	cfg.Logger = log0{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatalf("DSN of the %s server: %v", s.Flavor, err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// Schema makes a schema with a name of its own, utf8mb4, and drops it at the test's end.
func (s Server) Schema(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, strings.TrimPrefix(t.Name(), "Test"))
	if len(name) > 30 {
		name = name[:30]
	}
	name = fmt.Sprintf("t_%s_%08x", name, rand.Uint32())
	db := s.DB(t)
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE `"+name+"` CHARACTER SET utf8mb4"); err != nil {
		t.Fatalf("make a schema on %s: %v", s.Flavor, err)
	}
	t.Cleanup(func() {
		// t.Context has ended here. A private server may be down or gone: then its data go with it.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+name+"`"); err != nil && s.private == nil {
			t.Errorf("drop schema %s on %s: %v", name, s.Flavor, err)
		}
	})
	return name
}

// log0 drops the driver's own messages: tests see its errors.
type log0 struct{}

func (log0) Print(...any) {}

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on. It lies outside the range from which the system takes
// the ports of outgoing connections: a client that tries again and again to reach a server that is down would sooner or
// later get the server's own port and be connected to itself.
func FreePort() (int, error) {
	for range 1000 {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, errors.New("no free TCP port between 12000 and 30000")
}

func dsnOf(port int) string { return fmt.Sprintf("root:test@tcp(127.0.0.1:%d)/", port) }

// ping succeeds when the server answers a query.
func ping(ctx context.Context, dsn string) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	cfg.Logger = log0{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return db.PingContext(ctx)
}

// serverUp runs scripts/server-up.sh and returns the DSN it prints. The script's progress goes to progress.
func serverUp(ctx context.Context, progress io.Writer, flavor, dir string, port int, options []string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	args := append([]string{flavor, dir, strconv.Itoa(port)}, options...)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "server-up.sh"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = io.MultiWriter(&stderr, progress)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("server-up.sh: %w\n%s", err, tail(stderr.Bytes()))
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	return lines[len(lines)-1], nil
}

func serverDown(ctx context.Context, dir string, kill bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	args := []string{dir}
	if kill {
		args = append(args, "kill")
	}
	out, err := exec.CommandContext(ctx, filepath.Join(root, "scripts", "server-down.sh"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("server-down.sh: %w\n%s", err, tail(out))
	}
	return nil
}

// tail returns the last 20 lines.
func tail(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 20 {
		lines = lines[len(lines)-20:]
	}
	return strings.Join(lines, "\n")
}

// moduleRoot finds the checkout above the working folder, which go test sets to the package's.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "server-up.sh")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working folder is outside the module's checkout")
		}
		dir = parent
	}
}

// cacheFolder makes and returns a folder below the servers' cache.
func cacheFolder(name string) (string, error) {
	base := os.Getenv("BINLOGCACHE_CACHE")
	if base == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			cache = filepath.Join(home, ".cache")
		}
		base = filepath.Join(cache, "binlogcache")
	}
	// Relative paths mean the same to the script, which starts in this working folder.
	dir, err := filepath.Abs(filepath.Join(base, "servers", name))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// lockFile takes an exclusive lock between processes; it is freed by unlock, or by the process's end.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
