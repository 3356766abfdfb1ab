package config

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Serve is the configuration of the main job.
type Serve struct {
	// ConfigFile is the path of the YAML file, empty for none.
	ConfigFile string
	// Sources has at least one DSN. The first is the server to follow, others are candidates for a fail-over.
	Sources []DSN
	// Tables are the patterns of tables that are cached in full: "app.user", "shop.*".
	Tables []string
	// Hot keeps rows that were asked for of other tables, and of those of Tables that do not fit into Memory.
	Hot bool

	// The listeners.
	HandlerSocketRead  Address
	HandlerSocketWrite Address
	Memcached          Address
	Admin              Address

	// The secrets that clients of the two HandlerSocket ports must show; empty asks for none.
	HandlerSocketSecret      Secret
	HandlerSocketSecretWrite Secret

	// MemcachedCompat is CompatSafe or CompatStrict.
	MemcachedCompat string
	// MemcachedFlush are the names of the containers of which flush_all may empty the table.
	MemcachedFlush []string
	// Memory is the budget of everything cached, in bytes.
	Memory Size
	// MemcachedMemory is the part of Memory for memcached items that are in no table. Serve has it settled: never 0.
	MemcachedMemory Size
	// MemcachedItemSize bounds one such item with its key, in bytes.
	MemcachedItemSize Size
	// MemcachedAuthFile has the users of the memcached port, name:password in each line; empty asks for nothing.
	MemcachedAuthFile string
	// MaxStaleness sends reads to the database when memory is older; 0 is off.
	MaxStaleness time.Duration
	// WriteAck is AckApplied or AckCommitted.
	WriteAck string
	// StateDir is the folder for a warm restart; empty for none.
	// VerifyRate is how many rows are compared with the database in a second, in the background.
	VerifyRate int
	StateDir   string

	LogLevel slog.Level
	// LogFormat is "text" or "json".
	LogFormat string

	// Containers, Policies and Options map memcached keys to rows; they come from the file only.
	Containers []Container
	// Policies is nil where the file says nothing.
	Policies *Policies
	// Options is nil where the file says nothing.
	Options *ContainerOptions

	// as the options stand in LogValue.
	options []*option
	// again is Parse with the same arguments.
	again func() (Command, error)
}

// Reload reads file and environment again, as at the start; s stays as it is.
func (s *Serve) Reload() (*Serve, error) {
	cmd, err := s.again()
	if err != nil {
		return nil, err
	}
	return cmd.(*Serve), nil
}

// Differences names the options that have another value in other. Secrets are not compared.
func (s *Serve) Differences(other *Serve) (names []string) {
	for i, o := range s.options {
		if o.value.String() != other.options[i].value.String() {
			names = append(names, o.name)
		}
	}
	return names
}

// The modes of MemcachedCompat and WriteAck.
const (
	CompatSafe   = "safe"
	CompatStrict = "strict"
	AckApplied   = "applied"
	AckCommitted = "committed"
)

// Container maps memcached keys to the rows of one table.
type Container struct {
	// Name is what clients write after @@.
	Name string
	// Schema and Table name the table.
	Schema, Table string
	KeyColumns    []string
	ValueColumns  []string
	// FlagsColumn, CASColumn and ExpiryColumn are empty where there is none.
	FlagsColumn, CASColumn, ExpiryColumn string
	// UniqueIndex is the index over the key column; empty for the primary key.
	UniqueIndex string
	// Place is where the container stands: file:line.
	Place string
}

// Policies say where the memcached operations go, for all containers: "innodb_only", "cache_only", "caching",
// "disabled", or "" where the file says nothing.
type Policies struct{ Get, Set, Delete, Flush string }

// ContainerOptions are the texts of innodb_memcache.config_options; "" where the file says nothing.
type ContainerOptions struct{ Separator, TableMapDelimiter string }

// Name is "serve".
func (*Serve) Name() string { return "serve" }

// LogValue gives all options and their values to slog, without secrets.
func (s *Serve) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, o := range s.options {
		attrs = append(attrs, slog.String(strings.ReplaceAll(o.name, "-", "_"), o.value.String()))
	}
	attrs = append(attrs, slog.Int("containers", len(s.Containers)))
	return slog.GroupValue(attrs...)
}

// secretFile reads a secret from the first line of a file.
type secretFile struct {
	path   *string
	secret *Secret
}

func (v secretFile) String() string { return *v.path }

func (v secretFile) set(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return fmt.Errorf("%s: %w", path, errEmpty)
	}
	*v.path = path
	*v.secret = Secret{line}
	return nil
}

func newServe() (Command, []*option) {
	s := &Serve{
		HandlerSocketRead:  Address{"tcp", "127.0.0.1:9998"},
		HandlerSocketWrite: Address{"tcp", "127.0.0.1:9999"},
		Memcached:          Address{"tcp", "127.0.0.1:11211"},
		Admin:              defaultAdmin,
		MemcachedCompat:    CompatSafe,
		Memory:             1 << 30,
		Hot:                true,
		MemcachedMemory:    defaultMemcachedMemory,
		MemcachedItemSize:  1 << 20,
		WriteAck:           AckApplied,
		VerifyRate:         1000,
		LogFormat:          "text",
	}
	var secretPath, secretWritePath string
	s.options = []*option{
		{
			name: "config", metavar: "FILE", flagOnly: true, value: textValue{&s.ConfigFile},
			help: "YAML file with the same keys as these flags, and containers for memcached.",
		},
		{
			name: "source", metavar: "DSN", several: true, value: dsnValue{&s.Sources},
			help: "The server to follow: user:password@tcp(host:port)/ or user@unix(/path/to/socket)/. Needed. Repeated for replicas that take over, in this order, when it is lost. A password is better kept in the file or in the variable: other users of the machine can see flags.",
		},
		{
			name: "tables", metavar: "PATTERN,...", several: true, value: listValue{&s.Tables},
			help: "Tables that are cached in full: app.user,shop.*. Of other tables that are used, rows are kept hot; see --hot.",
		},
		{
			name: "hot", metavar: "on|off", value: switchValue{&s.Hot},
			help: "Keep rows that were asked for by their whole key, of tables that clients use and --tables does not name, and of tables that do not fit into --memory. Off: the database answers for those.",
		},
		{
			name: "handlersocket-read", metavar: "ADDR", value: &s.HandlerSocketRead,
			help: "HandlerSocket port for reading: host:port, unix:/path or off. So for the other listeners.",
		},
		{
			name: "handlersocket-write", metavar: "ADDR", value: &s.HandlerSocketWrite,
			help: "HandlerSocket port for writing.",
		},
		{
			name: "handlersocket-secret", metavar: "SECRET", value: &s.HandlerSocketSecret,
			help: "What clients of the read port must show, as the plugin's handlersocket_plain_secret. Empty asks for nothing.",
		},
		{
			name: "handlersocket-secret-file", metavar: "FILE", value: secretFile{&secretPath, &s.HandlerSocketSecret},
			help: "The same, read from a file's first line.",
		},
		{
			name: "handlersocket-secret-write", metavar: "SECRET", value: &s.HandlerSocketSecretWrite,
			help: "What clients of the write port must show, as the plugin's handlersocket_plain_secret_wr.",
		},
		{
			name: "handlersocket-secret-write-file", metavar: "FILE", value: secretFile{&secretWritePath, &s.HandlerSocketSecretWrite},
			help: "The same, read from a file's first line.",
		},
		{
			name: "memcached", metavar: "ADDR", value: &s.Memcached,
			help: "memcached port.",
		},
		{
			name: "memcached-compat", metavar: "MODE", value: oneOf{&s.MemcachedCompat, []string{CompatSafe, CompatStrict}},
			help: "What containers do with rows: safe, or strict, which is what the InnoDB memcached plugin does, also where that cuts values or loses columns.",
		},
		{
			name: "memcached-flush", metavar: "NAME,...", several: true, value: listValue{&s.MemcachedFlush},
			help: "Containers of which flush_all deletes all rows; with --memcached-compat=strict it does for all.",
		},
		{
			name: "memcached-memory", metavar: "SIZE", value: &s.MemcachedMemory,
			help: "The part of --memory for memcached items that are in no table, as memcached's -m. When it is not given it is at most a quarter of --memory.",
		},
		{
			name: "memcached-item-size", metavar: "SIZE", value: &s.MemcachedItemSize,
			help: "The largest such item with its key, as memcached's -I.",
		},
		{
			name: "memcached-auth-file", metavar: "FILE", value: textValue{&s.MemcachedAuthFile},
			help: "Lines of name:password. Clients of the memcached port must show one of them, as memcached's -Y (text) and SASL PLAIN (binary).",
		},
		{
			name: "admin", metavar: "ADDR", value: &s.Admin,
			help: "HTTP port for people and monitoring: dashboard, /livez, /readyz, /metrics, /api/v1/status.",
		},
		{
			name: "memory", metavar: "SIZE", value: &s.Memory,
			help: "Budget of everything cached, rows, indexes and items: 64MiB, 1.5GiB or bytes.",
		},
		{
			name: "max-staleness", metavar: "DURATION", value: durationValue{&s.MaxStaleness, true},
			help: "When memory is older than this, the database answers, or nobody while that is down: the time since everything was applied that the source had then.",
		},
		{
			name: "write-ack", metavar: "MODE", value: oneOf{&s.WriteAck, []string{AckApplied, AckCommitted}},
			help: "When a write is answered: applied (the cache shows it) or committed.",
		},
		{
			name: "state-dir", metavar: "DIR", value: textValue{&s.StateDir},
			help: "Folder for the state of a warm restart.",
		},
		{
			name: "verify-rate", metavar: "ROWS", value: intValue{&s.VerifyRate, 0, 1_000_000_000},
			help: "Rows that are compared with the database in a second, in the background; differences are logged and mended. 0 for none.",
		},
		{
			name: "log-level", metavar: "LEVEL", value: levelValue{&s.LogLevel},
			help: "debug, info, warn or error.",
		},
		{
			name: "log-format", metavar: "FORMAT", value: oneOf{&s.LogFormat, []string{"text", "json"}},
			help: "text or json.",
		},
	}
	return s, s.options
}

// finishServe checks what no single value can tell.
func finishServe(cmd Command, given origins) error {
	s := cmd.(*Serve)
	for _, name := range []string{"handlersocket-secret", "handlersocket-secret-write"} {
		if err := pickSecret(name, s, given); err != nil {
			return err
		}
	}
	if len(s.Sources) == 0 {
		return fmt.Errorf("%s: no server to follow: give --source 'user:password@tcp(host:port)/', the variable %sSOURCE, or source: in the file",
			given.of("source"), EnvPrefix)
	}
	for _, t := range s.Tables {
		schema, table, ok := strings.Cut(t, ".")
		if !ok || schema == "" || table == "" {
			return fmt.Errorf("%s: %q is no table: want schema.table or schema.*", given.of("tables"), t)
		}
	}
	if s.Memory < 1<<20 {
		return fmt.Errorf("%s: %s is too little to work with: give at least 1MiB", given.of("memory"), s.Memory)
	}
	if s.MaxStaleness != 0 && s.MaxStaleness < leastStaleness {
		return fmt.Errorf("%s: %s is less than a network and a busy machine can keep; give at least %s, or off", given.of("max-staleness"), s.MaxStaleness, leastStaleness)
	}
	if err := settleItems(s, given); err != nil {
		return err
	}
	return checkListeners(s, given)
}

// leastStaleness leaves room for the proofs that memory is not older: a fifth of it, a round trip, and a garbage
// collection.
const leastStaleness = 50 * time.Millisecond

const (
	// defaultMemcachedMemory is memcached's own default.
	defaultMemcachedMemory = 64 << 20
	// maxMemcachedItem is the largest item size that may be asked for: a connection holds one while it arrives.
	maxMemcachedItem = 128 << 20
)

// settleItems checks what is set for memcached items.
func settleItems(s *Serve, given origins) error {
	switch {
	case given["memcached-memory"] == nil:
		s.MemcachedMemory = min(s.MemcachedMemory, s.Memory/4)
	case s.MemcachedMemory < 1<<20:
		return fmt.Errorf("%s: %s is too little to work with: give at least 1MiB", given.of("memcached-memory"), s.MemcachedMemory)
	case s.MemcachedMemory > s.Memory-s.Memory/16:
		return fmt.Errorf("%s: %s is a part of --memory, which is %s: leave a sixteenth of that to the tables", given.of("memcached-memory"), s.MemcachedMemory, s.Memory)
	}
	if s.MemcachedItemSize < 1<<10 || s.MemcachedItemSize > maxMemcachedItem {
		return fmt.Errorf("%s: %s: from 1KiB to 128MiB", given.of("memcached-item-size"), s.MemcachedItemSize)
	}
	return nil
}

// pickSecret settles which of a secret and its file counts: the one from the higher layer.
func pickSecret(name string, s *Serve, given origins) error {
	direct, file := given[name], given[name+"-file"]
	if direct == nil || file == nil {
		return nil
	}
	if direct.layer == file.layer {
		return fmt.Errorf("%s and %s: give one of the two", direct.place, file.place)
	}
	secret := &s.HandlerSocketSecret
	if name == "handlersocket-secret-write" {
		secret = &s.HandlerSocketSecretWrite
	}
	if direct.layer > file.layer {
		return secret.set(direct.values[0])
	}
	return nil // the file's option stands behind and has overwritten it
}

func checkListeners(s *Serve, given origins) error {
	listeners := []struct {
		name    string
		address Address
	}{
		{"handlersocket-read", s.HandlerSocketRead},
		{"handlersocket-write", s.HandlerSocketWrite},
		{"memcached", s.Memcached},
		{"admin", s.Admin},
	}
	serving := false
	for i, l := range listeners {
		if l.address.Off() {
			continue
		}
		serving = serving || l.name != "admin"
		if strings.HasSuffix(l.address.Address, ":0") && l.address.Network == "tcp" {
			continue // any free port
		}
		for _, other := range listeners[:i] {
			if l.address == other.address {
				return fmt.Errorf("%s and %s are both %s: give each listener its own address, or switch one off",
					given.of(other.name), given.of(l.name), l.address)
			}
		}
	}
	if !serving {
		return fmt.Errorf("--handlersocket-read, --handlersocket-write and --memcached are all off: nobody could ask anything; leave one on")
	}
	return nil
}
