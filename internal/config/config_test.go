package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const source = "cache:hunter2@tcp(127.0.0.1:3306)/"

// env makes a lookup of a map.
func env(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func parseServe(t *testing.T, vars map[string]string, args ...string) *Serve {
	t.Helper()
	cmd, err := Parse(append([]string{"serve"}, args...), env(vars))
	if err != nil {
		t.Fatal(err)
	}
	return cmd.(*Serve)
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "binlogcache.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServeDefaults(t *testing.T) {
	s := parseServe(t, nil, "--source", source)
	for _, c := range []struct{ name, got, want string }{
		{"read", s.HandlerSocketRead.String(), "127.0.0.1:9998"},
		{"write", s.HandlerSocketWrite.String(), "127.0.0.1:9999"},
		{"memcached", s.Memcached.String(), "127.0.0.1:11211"},
		{"admin", s.Admin.String(), "127.0.0.1:8911"},
		{"memory", s.Memory.String(), "1GiB"},
		{"compat", s.MemcachedCompat, CompatSafe},
		{"ack", s.WriteAck, AckApplied},
		{"format", s.LogFormat, "text"},
		{"level", s.LogLevel.String(), "INFO"},
		{"source", s.Sources[0].Reveal(), source},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	if !s.Hot || s.MaxStaleness != 0 || s.StateDir != "" || s.Policies != nil || s.Options != nil || len(s.Containers) != 0 {
		t.Errorf("hot is off, or something is set that nobody asked for: %+v", s)
	}
}

func TestLayers(t *testing.T) {
	file := writeFile(t, `
source: file@tcp(h:1)/
tables: [file.a, file.b]
memory: 64MiB
log-level: warn
memcached: off
admin: 127.0.0.1:1
`)
	vars := map[string]string{
		"BINLOGCACHE_CONFIG":    file,
		"BINLOGCACHE_TABLES":    "env.a, env.b",
		"BINLOGCACHE_LOG_LEVEL": "debug",
		"BINLOGCACHE_ADMIN":     "",
		// What an orchestrator adds for a service of our name does no harm.
		"BINLOGCACHE_SERVICE_HOST": "10.0.0.1",
	}
	s := parseServe(t, vars, "--log-level=error", "--handlersocket-write", "unix:/run/hs.sock")
	if got := s.Sources[0].Reveal(); got != "file@tcp(h:1)/" {
		t.Errorf("source %q, want the file's", got)
	}
	if got := strings.Join(s.Tables, " "); got != "env.a env.b" {
		t.Errorf("tables %q, want the environment's", got)
	}
	if s.LogLevel != slog.LevelError {
		t.Errorf("log level %v, want the flag's", s.LogLevel)
	}
	if s.Memory != 64<<20 || !s.Memcached.Off() || !s.Admin.Off() {
		t.Errorf("memory %v, memcached %v, admin %v", s.Memory, s.Memcached, s.Admin)
	}
	if s.HandlerSocketWrite != (Address{"unix", "/run/hs.sock"}) {
		t.Errorf("write listener %+v", s.HandlerSocketWrite)
	}
	// The flag for the file wins over the variable.
	other := writeFile(t, "source: other@tcp(h:1)/\n")
	if s := parseServe(t, vars, "--config", other); s.Sources[0].Reveal() != "other@tcp(h:1)/" {
		t.Errorf("source %q", s.Sources[0].Reveal())
	}
}

func TestRepeatedFlags(t *testing.T) {
	s := parseServe(t, nil, "--source", source, "--tables", "a.b,c.d", "--tables=e.*")
	if got := strings.Join(s.Tables, " "); got != "a.b c.d e.*" {
		t.Errorf("tables %q", got)
	}
}

func TestSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from file\r\nrest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	yaml := writeFile(t, "handlersocket-secret: from yaml\n")
	for _, c := range []struct {
		name string
		args []string
		vars map[string]string
		want string
	}{
		{"direct", []string{"--handlersocket-secret", "plain"}, nil, "plain"},
		{"file", []string{"--handlersocket-secret-file", file}, nil, "from file"},
		{"file over yaml", []string{"--config", yaml, "--handlersocket-secret-file", file}, nil, "from file"},
		{"direct over file of a lower layer", []string{"--handlersocket-secret", "plain"}, map[string]string{"BINLOGCACHE_HANDLERSOCKET_SECRET_FILE": file}, "plain"},
		{"yaml", []string{"--config", yaml}, nil, "from yaml"},
		{"none", nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parseServe(t, c.vars, append(c.args, "--source", source)...)
			if got := s.HandlerSocketSecret.Reveal(); got != c.want {
				t.Errorf("secret %q, want %q", got, c.want)
			}
			if got := s.HandlerSocketSecretWrite.Reveal(); got != "" {
				t.Errorf("write secret %q, want none", got)
			}
		})
	}
	s := parseServe(t, nil, "--source", source, "--handlersocket-secret-write-file", file)
	if s.HandlerSocketSecretWrite.Reveal() != "from file" || s.HandlerSocketSecret.Reveal() != "" {
		t.Error("the write secret's file went elsewhere")
	}
}

// TestNothingShowsSecrets prints the configuration in every way that a log or an error could.
func TestNothingShowsSecrets(t *testing.T) {
	s := parseServe(t, nil, "--source", source, "--handlersocket-secret", "hunter2", "--handlersocket-secret-write", "hunter2")
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "config", s, "dsn", s.Sources[0], "secret", s.HandlerSocketSecret)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", s, "dsn", s.Sources, "whole", *s)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&b, format, *s)
		fmt.Fprintf(&b, format, s.Sources[0])
		fmt.Fprintf(&b, format, s.HandlerSocketSecret)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(text)
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("a secret shows in:\n%s", b.String())
	}
	if !strings.Contains(b.String(), "cache:(hidden)@tcp(127.0.0.1:3306)/") {
		t.Error("the DSN should show but for its password")
	}
}

func TestDSN(t *testing.T) {
	for _, good := range []string{
		source, "root@unix(/run/mysqld/mysqld.sock)/", "u:p@ss:w@tcp([::1]:3306)/db?timeout=5s", "u@tcp(h)/",
	} {
		if _, err := ParseDSN(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for text, want := range map[string]string{
		"not a dsn":                   "missing the slash",
		"":                            "no user",
		"cache:hunter2/":              "not a DSN",
		"cache:hunter2@tcp(h:1":       "slash",
		"cache:hunter2@ftp(h:1)/":     "network",
		"cache:hunter2@/hunter2":      "",
		"tcp(h:1)/":                   "",
		"@tcp(h:1)/":                  "no user",
		source + "?timeout=soon":      "parameters",
		source + "?parseTime=hunter3": "parameters",
	} {
		_, err := ParseDSN(text)
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the password shows: %v", text, err)
		}
	}
	for dsn, want := range map[string]string{
		"u:p@ss:w@tcp(h:1)/": "u:(hidden)@tcp(h:1)/", "u@tcp(h:1)/": "u@tcp(h:1)/", "u:@tcp(h:1)/": "u:(hidden)@tcp(h:1)/",
	} {
		if got := (DSN{dsn}).String(); got != want {
			t.Errorf("%s shows as %s, want %s", dsn, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1048576": 1 << 20, "64MiB": 64 << 20, "1GiB": 1 << 30, "1.5GiB": 3 << 29, "2 GB": 2e9, "10k": 10 << 10,
		"1g": 1 << 30, "3TB": 3e12, "7B": 7, "1kB": 1000,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1e3", "0x10", "1 XiB", "1.2.3MiB", "9999999999TiB", "9223372036854775808", "inf", "NaN", "1_0"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q gives %d, want an error", text, got)
		}
	}
	for size, want := range map[Size]string{0: "0", 1: "1", 1024: "1KiB", 3 << 29: "1536MiB", 1 << 40: "1TiB", 1000: "1000"} {
		if got := size.String(); got != want {
			t.Errorf("%d shows as %s, want %s", int64(size), got, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]Address{
		"": {}, "off": {}, ":9998": {"tcp", ":9998"}, "127.0.0.1:0": {"tcp", "127.0.0.1:0"}, "[::1]:1": {"tcp", "[::1]:1"},
		"cache.example:11211": {"tcp", "cache.example:11211"}, "unix:/run/x.sock": {"unix", "/run/x.sock"},
	} {
		got, err := ParseAddress(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		if back, err := ParseAddress(got.String()); err != nil || back != got {
			t.Errorf("%q: written %q and read back %+v, %v", text, got, back, err)
		}
	}
	for _, text := range []string{"on", "9998", "localhost", "h:http", "h:65536", "h:-1", "unix:", "unix:/" + strings.Repeat("x", 107)} {
		if got, err := ParseAddress(text); err == nil {
			t.Errorf("%q gives %+v, want an error", text, got)
		}
	}
}

const goodContainer = `
  - name: user
    schema: app
    table: user
    key_columns: id
    value_columns: [uname, email]
    flags_column: f
`

func TestFile(t *testing.T) {
	file := writeFile(t, `# everything
source:
  - cache@tcp(h:1)/
tables: app.user,shop.*
handlersocket-read: ":19998"
max-staleness: off
hot: off
containers:`+goodContainer+`  - {name: b, schema: app, table: b, key_columns: [k], value_columns: v, cas_column: c, expiry_column: e, unique_index: uk}
policies: {get: innodb_only, flush: disabled}
options:
  separator: "|"
`)
	s := parseServe(t, nil, "--config", file)
	if len(s.Containers) != 2 {
		t.Fatalf("%d containers", len(s.Containers))
	}
	want := Container{
		Name: "user", Schema: "app", Table: "user", KeyColumns: []string{"id"}, ValueColumns: []string{"uname", "email"},
		FlagsColumn: "f", Place: file + ":9",
	}
	if got := fmt.Sprintf("%+v", s.Containers[0]); got != fmt.Sprintf("%+v", want) {
		t.Errorf("first container %s, want %+v", got, want)
	}
	if c := s.Containers[1]; c.CASColumn != "c" || c.ExpiryColumn != "e" || c.UniqueIndex != "uk" || c.ValueColumns[0] != "v" {
		t.Errorf("second container %+v", c)
	}
	if *s.Policies != (Policies{Get: "innodb_only", Flush: "disabled"}) || *s.Options != (ContainerOptions{Separator: "|"}) {
		t.Errorf("policies %+v, options %+v", s.Policies, s.Options)
	}
	if s.HandlerSocketRead.String() != ":19998" || s.Hot || s.MaxStaleness != 0 {
		t.Errorf("read back %+v", s)
	}
	// A file of comments alone says nothing.
	parseServe(t, nil, "--source", source, "--config", writeFile(t, "# nothing yet\n"))
}

// TestErrors: what is wrong, where it stands and what would be right are in one line.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(args ...string) []string { return append([]string{"serve", "--source", source}, args...) }
	for _, c := range []struct {
		name string
		args []string
		vars map[string]string
		file string // contents for --config
		want []string
	}{
		{"no command", nil, nil, "", []string{"no command", "--help"}},
		{"unknown command", []string{"serv"}, nil, "", []string{`"serv"`, `"serv" (did you mean serve?)`}},
		{"flag before the command", []string{"--memory=1", "serve"}, nil, "", []string{"--memory", "COMMAND"}},
		{"unknown flag", serve("--frobnicate=hunter2"), nil, "", []string{"--frobnicate", "serve --help"}},
		{"misspelt flag", serve("--tabels", "a.b"), nil, "", []string{"--tabels", "--tables"}},
		{"one dash", serve("-tables", "a.b"), nil, "", []string{"-tables", "--tables"}},
		{"argument", serve("a.b"), nil, "", []string{`"a.b"`}},
		{"no value", serve("--memory"), nil, "", []string{"--memory SIZE"}},
		{"twice", serve("--memory=1GiB", "--memory=2GiB"), nil, "", []string{"--memory", "twice"}},
		{"no source", []string{"serve"}, nil, "", []string{"--source", "BINLOGCACHE_SOURCE"}},
		{"bad DSN", []string{"serve", "--source", "not a dsn"}, nil, "", []string{"--source", "tcp(host:port)"}},
		{"bad DSN in a variable", []string{"serve"}, map[string]string{"BINLOGCACHE_SOURCE": "nope"}, "", []string{"BINLOGCACHE_SOURCE", "tcp(host:port)"}},
		{"bad DSN in the file", []string{"serve"}, nil, "\nsource: nope\n", []string{"binlogcache.yaml:2: source", "tcp(host:port)"}},
		{"bad size", serve("--memory", "lots"), nil, "", []string{"--memory", `"lots"`, "64MiB"}},
		{"small size", serve("--memory", "1000"), nil, "", []string{"--memory", "1MiB"}},
		{"bad duration", serve("--max-staleness", "5"), nil, "", []string{"--max-staleness", "5s"}},
		{"bad address", serve("--admin", "8911"), nil, "", []string{"--admin", "host:port"}},
		{"bad level", serve(), map[string]string{"BINLOGCACHE_LOG_LEVEL": "loud"}, "", []string{"BINLOGCACHE_LOG_LEVEL", "debug, info"}},
		{"bad pattern", serve("--tables", "user"), nil, "", []string{"--tables", `"user"`, "schema.table"}},
		{"empty pattern", serve("--tables", "a.b,,c.d"), nil, "", []string{"--tables", "empty"}},
		{"bad switch", serve("--hot", "maybe"), nil, "", []string{"--hot", "on or off"}},
		{"same address", serve("--memcached", "127.0.0.1:9998"), nil, "", []string{"--handlersocket-read", "--memcached", "127.0.0.1:9998"}},
		{"all off", serve("--memcached=", "--handlersocket-read=off", "--handlersocket-write=off"), nil, "", []string{"all off"}},
		{"secret twice", serve("--handlersocket-secret=a", "--handlersocket-secret-file="+empty), nil, "", []string{"--handlersocket-secret", "empty"}},
		{"no file of a secret", serve("--handlersocket-secret-file", dir+"/none"), nil, "", []string{"--handlersocket-secret-file", "none"}},
		{"no file", serve("--config", dir+"/none"), nil, "", []string{"--config", "none", "no such file"}},
		{"unknown key", serve(), nil, "memory: 1GiB\nnonsense: 1\n", []string{"binlogcache.yaml:2", `"nonsense"`}},
		{"misspelt key", serve(), nil, "memori: 1GiB\n", []string{"binlogcache.yaml:1", "memory"}},
		{"key twice", serve(), nil, "memory: 1GiB\nadmin: off\nmemory: 1GiB\n", []string{"binlogcache.yaml:3", "line 1"}},
		{"config in the file", serve(), nil, "config: x.yaml\n", []string{"binlogcache.yaml:1", `"config"`}},
		{"a value missing", serve(), nil, "memory:\n", []string{"binlogcache.yaml:1", "memory", "one value"}},
		{"a list for one value", serve(), nil, "memory: [1GiB]\n", []string{"binlogcache.yaml:1", "memory", "one value"}},
		{"an empty list", serve(), nil, "tables: []\n", []string{"binlogcache.yaml:1", "tables"}},
		{"not YAML", serve(), nil, "memory: 1GiB\n\t- x\n", []string{"binlogcache.yaml:2", "not YAML"}},
		{"no mapping", serve(), nil, "- memory\n", []string{"binlogcache.yaml:1", "key: value"}},
		{"two documents", serve(), nil, "memory: 1GiB\n---\nmemory: 1GiB\n", []string{"binlogcache.yaml", "more than one"}},
		{"bad value in the file", serve(), nil, "# x\n\nmemory: lots\n", []string{"binlogcache.yaml:3: memory", "64MiB"}},
		{"containers no list", serve(), nil, "containers: x\n", []string{"binlogcache.yaml:1", "list"}},
		{"unknown key of a container", serve(), nil, "containers:" + goodContainer + "    cas: x\n", []string{"binlogcache.yaml:8", `"cas"`}},
		{"container without a table", serve(), nil, "containers:\n  - name: a\n    schema: b\n", []string{"binlogcache.yaml:2", "table"}},
		{"container without a key", serve(), nil, "containers:\n  - {name: a, schema: b, table: c, value_columns: v}\n", []string{"binlogcache.yaml:2", "key_columns"}},
		{"container without a value", serve(), nil, "containers:\n  - {name: a, schema: b, table: c, key_columns: v}\n", []string{"binlogcache.yaml:2", "value_columns"}},
		{"container twice", serve(), nil, "containers:" + goodContainer + goodContainer, []string{"binlogcache.yaml:9", `"user"`, "twice"}},
		{"bad policy", serve(), nil, "policies:\n  get: sometimes\n", []string{"binlogcache.yaml:2", "sometimes", "innodb_only"}},
		{"unknown option", serve(), nil, "options:\n  sep: x\n", []string{"binlogcache.yaml:2", `"sep"`}},
		{"staleness in the file", serve(), nil, "max-staleness: 5ms\n", []string{"binlogcache.yaml:1: max-staleness", "5ms", "50ms"}},
		{"explain without a table", []string{"explain", "--key", "1"}, nil, "", []string{"explain", "--table"}},
		{"explain with two keys", []string{"explain", "a.b:1", "--key", "2"}, nil, "", []string{"a.b:1", "--key"}},
		{"explain with two tables", []string{"explain", "a.b", "--table", "a.c"}, nil, "", []string{"a.b", "--table"}},
		{"explain two rows", []string{"explain", "a.b:1", "a.b:2"}, nil, "", []string{"a.b:2"}},
		{"verify with a key and no table", []string{"verify", "--key", "1"}, nil, "", []string{"--key", "--table"}},
		{"verify without an address", []string{"verify", "--admin", "off"}, nil, "", []string{"--admin"}},
		{"doctor without a source", []string{"doctor"}, nil, "", []string{"no server to follow"}},
		{"doctor with json in the file", []string{"doctor", "--source", source}, nil, "json: on\n", []string{"binlogcache.yaml:1", "json"}},
		{"bench without protocol", []string{"bench"}, nil, "", []string{"--protocol", "hs, mc or my"}},
		{"bench without columns", []string{"bench", "--protocol=hs", "--table=a.b"}, nil, "", []string{"--columns"}},
		{"bench without DSN", []string{"bench", "--protocol=my"}, nil, "", []string{"--addr", "DSN"}},
		{"bench with a bad DSN", []string{"bench", "--protocol=my", "--addr", "hunter2"}, nil, "", []string{"--addr", "DSN"}},
		{"bench with a bad address", []string{"bench", "--protocol=mc", "--addr=x"}, nil, "", []string{"--addr", "host:port"}},
		{"bench with a bad key", []string{"bench", "--protocol=mc", "--key-format=%s"}, nil, "", []string{"--key-format", "%d"}},
		{"bench with a bad table", []string{"bench", "--protocol=hs", "--table=b"}, nil, "", []string{"--table", "schema.table"}},
		{"demo with few rows", []string{"demo", "--rows=1"}, nil, "", []string{"--rows", "100"}},
		{"demo with another server", []string{"demo", "--flavor=oracle"}, nil, "", []string{"--flavor", "mariadb or mysql"}},
		{"version with a flag", []string{"version", "--short"}, nil, "", []string{"--short"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if c.file != "" {
				args = append(args, "--config", writeFile(t, c.file))
			}
			cmd, err := Parse(args, env(c.vars))
			if err == nil {
				t.Fatalf("no error but %+v", cmd)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in %q", w, err)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("more than a line, or a secret: %q", err)
			}
		})
	}
}

func TestOtherCommands(t *testing.T) {
	parse := func(args ...string) Command {
		t.Helper()
		cmd, err := Parse(args, env(map[string]string{"BINLOGCACHE_ROWS": "7"}))
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	if d := parse("demo").(*Demo); *d != (Demo{Flavor: "mariadb", Rows: 100_000}) {
		t.Errorf("demo: %+v", d)
	}
	if d := parse("demo", "--once", "--keep=true", "--rows", "10000000", "--flavor", "mysql", "--dir", "x").(*Demo); *d != (Demo{"mysql", 10_000_000, true, "x", true}) {
		t.Errorf("demo: %+v", d)
	}
	for _, args := range [][]string{{"version"}, {"--version"}, {"-v"}} {
		if _, ok := parse(args...).(*Version); !ok {
			t.Errorf("%v is no version", args)
		}
	}
	b := parse("bench", "--protocol=hs", "--table=demo.user", "--columns=uname,email", "--depth=32", "--duration=1m").(*Bench)
	if b.Address.Reveal() != "127.0.0.1:9998" || b.Schema != "demo" || b.Table != "user" || len(b.Columns) != 2 || b.Duration != time.Minute || b.Index != "PRIMARY" {
		t.Errorf("bench: %+v", b)
	}
	if b := parse("bench", "--protocol=mc", "--key-format=@@user.%d").(*Bench); b.Address.Reveal() != "127.0.0.1:11211" {
		t.Errorf("bench: %+v", b)
	}
}

func TestHelp(t *testing.T) {
	help := func(args ...string) string {
		t.Helper()
		cmd, err := Parse(args, env(nil))
		if err != nil {
			t.Fatal(err)
		}
		return cmd.(*Help).Text
	}
	all := help("--help")
	if help("help") != all || help("-h") != all {
		t.Error("help, -h and --help differ")
	}
	for _, c := range commands {
		if !strings.Contains(all, "\n  "+c.name) {
			t.Errorf("the overview lacks %s", c.name)
		}
		text := help(c.name, "--help")
		if help("help", c.name) != text {
			t.Errorf("help %s and %s --help differ", c.name, c.name)
		}
		if !strings.Contains(text, "Example:\n  binlogcache "+c.name) {
			t.Errorf("%s has no example:\n%s", c.name, text)
		}
		for line := range strings.Lines(text) {
			if len(line) > 125 {
				t.Errorf("%s: a long line: %s", c.name, line)
			}
		}
		if c.make == nil {
			continue
		}
		_, options := c.make()
		for _, o := range options {
			if !strings.Contains(text, "--"+o.name) || o.help == "" {
				t.Errorf("%s: --%s is not explained", c.name, o.name)
			}
		}
		// The example is right.
		words := strings.Fields(strings.ReplaceAll(c.example, "'", ""))
		if _, err := Parse(words[1:], env(nil)); err != nil {
			t.Errorf("the example of %s: %v", c.name, err)
		}
	}
}

// TestDocuments keeps the flags' table of the operations document true.
func TestDocuments(t *testing.T) {
	const path = "../../docs/OPERATIONS.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- flags of serve: begin -->\n", "<!-- flags of serve: end -->"
	_, rest, ok := strings.Cut(string(text), begin)
	table, _, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of the flags' table", path)
	}
	if want := FlagsTable(); table != want {
		t.Errorf("the flags' table of %s is not that of the program, which is:\n%s", path, want)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("source: x@tcp(h:1)/\ncontainers:" + goodContainer)
	f.Add("a: &a [*a]\n")
	f.Add("policies: {get: x}\noptions: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, options := newServe()
		given := make(origins)
		err := (&file{path: "f.yaml"}).read([]byte(text), s.(*Serve), options, given)
		if err == nil {
			err = given.apply(options)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f.yaml") {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
