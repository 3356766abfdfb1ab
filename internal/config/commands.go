package config

import (
	"fmt"
	"strings"
	"time"
)

// Doctor examines the source of a Serve.
type Doctor struct {
	Serve *Serve
	// JSON prints for programs instead of people.
	JSON bool
}

// Name is "doctor".
func (*Doctor) Name() string { return "doctor" }

func newDoctor() (Command, []*option) {
	serve, options := newServe()
	d := &Doctor{Serve: serve.(*Serve)}
	return d, append(options, &option{name: "json", flagOnly: true, value: switchValue{&d.JSON}, help: "Print JSON."})
}

func finishDoctor(cmd Command, given origins) error { return finishServe(cmd.(*Doctor).Serve, given) }

// defaultAdmin is the admin port of a Serve that was not told otherwise.
var defaultAdmin = Address{"tcp", "127.0.0.1:8911"}

// adminOption is that of commands that ask a running daemon.
func adminOption(a *Address) *option {
	return &option{name: "admin", metavar: "ADDR", value: a, help: "Admin port of the running daemon: host:port or unix:/path."}
}

func noAdmin(c Command) error {
	return fmt.Errorf("%s: --admin: want host:port or unix:/path of the running daemon's admin port", c.Name())
}

// Verify asks a running Serve to compare its cache with the database.
type Verify struct {
	// Admin is the daemon's admin port.
	Admin Address
	// Tables are compared, schema.table; none for all that are live.
	Tables []string
	// Key are the values of the row-identity key of one row of one table; none for whole tables.
	Key []string
	// Repair has the cache take the database's rows where they differ.
	Repair bool
	// Rate bounds the rows compared in a second; 0 for no bound.
	Rate int
	// JSON prints for programs instead of people.
	JSON bool
}

// Name is "verify".
func (*Verify) Name() string { return "verify" }

func newVerify() (Command, []*option) {
	v := &Verify{Admin: defaultAdmin}
	return v, []*option{
		adminOption(&v.Admin),
		{name: "table", metavar: "SCHEMA.TABLE", several: true, value: textsValue{&v.Tables}, help: "Compare this table; may be repeated. Default: all that are live."},
		{
			name: "key", metavar: "VALUE", several: true, value: textsValue{&v.Key},
			help: "Compare the one row with this key of the one table; repeated for each column of the key, in its order.",
		},
		{name: "repair", value: switchValue{&v.Repair}, help: "Have the cache take the database's rows where they differ."},
		{name: "rate", metavar: "ROWS", value: intValue{&v.Rate, 0, 1_000_000_000}, help: "Rows compared in a second at most; 0 for no bound."},
		{name: "json", value: switchValue{&v.JSON}, help: "Print the result as JSON."},
	}
}

func finishVerify(cmd Command, _ origins) error {
	v := cmd.(*Verify)
	switch {
	case v.Admin.Off():
		return noAdmin(v)
	case len(v.Key) > 0 && len(v.Tables) != 1:
		return fmt.Errorf("verify: --key is a key of one table: give that one with --table")
	}
	return nil
}

// Explain asks a running Serve what its cache knows of a table and of a row.
type Explain struct {
	// Admin is the daemon's admin port.
	Admin Address
	// Table is schema.table.
	Table string
	// Key are the values of the row-identity key; none for the table alone.
	Key []string
	// JSON prints for programs instead of people.
	JSON bool

	row string // SCHEMA.TABLE:KEY as it was given
}

// Name is "explain".
func (*Explain) Name() string { return "explain" }

func newExplain() (Command, []*option) {
	x := &Explain{Admin: defaultAdmin}
	return x, []*option{
		adminOption(&x.Admin),
		{name: "row", metavar: "SCHEMA.TABLE:KEY", argument: true, value: textValue{&x.row}, help: "The table and the row's key, if that is one column. --row may be left out."},
		{name: "table", metavar: "SCHEMA.TABLE", value: textValue{&x.Table}, help: "The table."},
		{
			name: "key", metavar: "VALUE", several: true, value: textsValue{&x.Key},
			help: "The row's key; repeated for each column of the key, in its order. Without it, the table alone.",
		},
		{name: "json", value: switchValue{&x.JSON}, help: "Print JSON."},
	}
}

func finishExplain(cmd Command, _ origins) error {
	x := cmd.(*Explain)
	table, key, keyed := strings.Cut(x.row, ":")
	switch {
	case x.Admin.Off():
		return noAdmin(x)
	case table != "" && x.Table != "" || keyed && len(x.Key) > 0:
		return fmt.Errorf("explain: %s names what --table or --key name too: give it once", x.row)
	case table != "":
		x.Table = table
	}
	if keyed {
		x.Key = []string{key}
	}
	if x.Table == "" {
		return fmt.Errorf("explain: no table is given: want schema.table:key, or --table and --key")
	}
	return nil
}

// textsValue collects texts as they are. The option's first value replaces the default.
type textsValue struct{ p *[]string }

func (v textsValue) set(text string) error { *v.p = append(*v.p, text); return nil }
func (v textsValue) String() string        { return strings.Join(*v.p, " ") }
func (v textsValue) reset()                { *v.p = nil }

// Demo is the guided tour on a private server.
type Demo struct {
	// Flavor is "mariadb" or "mysql".
	Flavor string
	// Rows is the size of the sample table.
	Rows int
	// Once ends after the tour instead of leaving the daemon running.
	Once bool
	// Dir is where the private server lives; empty for a new temporary folder.
	Dir string
	// Keep leaves Dir behind.
	Keep bool
}

// Name is "demo".
func (*Demo) Name() string { return "demo" }

func newDemo() (Command, []*option) {
	d := &Demo{Flavor: "mariadb", Rows: 100_000}
	return d, []*option{
		{
			name: "flavor", metavar: "FLAVOR", value: oneOf{&d.Flavor, []string{"mariadb", "mysql"}},
			help: "The private server: mariadb or mysql.",
		},
		{name: "rows", metavar: "N", value: intValue{&d.Rows, 100, 100_000_000}, help: "Rows of the sample table."},
		{name: "once", value: switchValue{&d.Once}, help: "End after the tour instead of leaving everything running."},
		{
			name: "dir", metavar: "DIR", value: textValue{&d.Dir},
			help: "Folder for the private server's files. Without it a temporary one is made.",
		},
		{name: "keep", value: switchValue{&d.Keep}, help: "Leave the folder with the data behind at the end."},
	}
}

// The protocols of Bench.
const (
	ProtocolHandlerSocket = "hs"
	ProtocolMemcached     = "mc"
	ProtocolMySQL         = "my"
)

// Bench loads an endpoint with reads of single rows.
type Bench struct {
	// Protocol is one of the Protocol constants.
	Protocol string
	// Address is host:port or unix:/path; for MySQL a DSN.
	Address Secret
	// Conns is the number of connections, Depth that of the requests in flight on each.
	Conns, Depth int
	// Keys: the keys 1 to Keys are read at random.
	Keys     int
	Duration time.Duration
	// Schema, Table, Index, KeyColumn and Columns say what HandlerSocket opens and MySQL selects.
	Schema, Table, Index, KeyColumn string
	Columns                         []string
	// KeyFormat makes a memcached key of a number, with one %d.
	KeyFormat string
	// PID is the process whose CPU time is counted; 0 for none.
	PID int
}

// Name is "bench".
func (*Bench) Name() string { return "bench" }

func newBench() (Command, []*option) {
	b := &Bench{
		Conns: 50, Depth: 1, Keys: 100_000, Duration: 3 * time.Second,
		Index: "PRIMARY", KeyColumn: "id", KeyFormat: "%d",
	}
	return b, []*option{
		{
			name: "protocol", metavar: "hs|mc|my", help: "HandlerSocket, memcached or MySQL. Needed.",
			value: oneOf{&b.Protocol, []string{ProtocolHandlerSocket, ProtocolMemcached, ProtocolMySQL}},
		},
		{
			name: "addr", metavar: "ADDR", value: &b.Address,
			help: "host:port or unix:/path; for my a DSN: user:password@tcp(host:port)/. Default: the port of serve on this machine.",
		},
		{name: "conns", metavar: "N", value: intValue{&b.Conns, 1, 10_000}, help: "Connections."},
		{name: "depth", metavar: "N", value: intValue{&b.Depth, 1, 1000}, help: "Requests in flight on each connection (my: always 1)."},
		{name: "keys", metavar: "N", value: intValue{&b.Keys, 1, 1_000_000_000}, help: "The keys 1 to N are read at random."},
		{name: "duration", metavar: "DURATION", value: durationValue{&b.Duration, false}, help: "How long to measure."},
		{name: "table", metavar: "SCHEMA.TABLE", value: tableValue{&b.Schema, &b.Table}, help: "The table to read (hs, my)."},
		{name: "index", metavar: "INDEX", value: textValue{&b.Index}, help: "The index to open (hs)."},
		{name: "key-column", metavar: "COLUMN", value: textValue{&b.KeyColumn}, help: "The column to look rows up by (my)."},
		{name: "columns", metavar: "COLUMN,...", several: true, value: listValue{&b.Columns}, help: "The columns to read (hs, my)."},
		{name: "key-format", metavar: "FORMAT", value: textValue{&b.KeyFormat}, help: "Makes a key of a number, with one %d (mc): @@user.%d"},
		{name: "pid", metavar: "PID", value: intValue{&b.PID, 1, 1 << 30}, help: "Count the CPU time of this process of this machine."},
	}
}

func finishBench(cmd Command, given origins) error {
	b := cmd.(*Bench)
	addr := b.Address.Reveal()
	switch b.Protocol {
	case "":
		return fmt.Errorf("bench: --protocol is missing: want hs, mc or my")
	case ProtocolMySQL:
		if addr == "" {
			return fmt.Errorf("bench: --addr is missing: with --protocol my it is a DSN, user:password@tcp(host:port)/")
		}
		if _, err := ParseDSN(addr); err != nil {
			return fmt.Errorf("bench: --addr: %w", err)
		}
	default:
		if addr == "" {
			addr = map[string]string{ProtocolHandlerSocket: "127.0.0.1:9998", ProtocolMemcached: "127.0.0.1:11211"}[b.Protocol]
			b.Address = NewSecret(addr)
		}
		if a, err := ParseAddress(addr); err != nil || a.Off() {
			return fmt.Errorf("bench: --addr: want host:port or unix:/path")
		}
	}
	if b.Protocol == ProtocolMemcached {
		if strings.Count(b.KeyFormat, "%") != 1 || !strings.Contains(b.KeyFormat, "%d") {
			return fmt.Errorf("bench: --key-format: %q needs one %%d and no other %%", b.KeyFormat)
		}
		return nil
	}
	if b.Table == "" || len(b.Columns) == 0 {
		return fmt.Errorf("bench: --table and --columns are needed with --protocol %s", b.Protocol)
	}
	return nil
}

// tableValue is schema.table.
type tableValue struct{ schema, table *string }

func (v tableValue) set(text string) error {
	schema, table, ok := strings.Cut(text, ".")
	if !ok || schema == "" || table == "" {
		return fmt.Errorf("%q is no table: want schema.table", text)
	}
	*v.schema, *v.table = schema, table
	return nil
}

func (v tableValue) String() string {
	if *v.table == "" {
		return ""
	}
	return *v.schema + "." + *v.table
}

// commands in the order of the overview.
var commands = []*command{
	{
		name: "serve", layered: true, make: newServe, finish: finishServe,
		summary: "follow a server's binlog and answer reads from memory",
		about: "serve loads the tables of --tables, follows the server's binlog from there, and answers HandlerSocket and\n" +
			"memcached clients from memory. What memory does not have is answered by the database.\n" +
			"It ends in order on SIGTERM and SIGINT.",
		example: "binlogcache serve --source 'cache:secret@tcp(127.0.0.1:3306)/' --tables app.user,shop.*",
	},
	{
		name: "doctor", layered: true, make: newDoctor, finish: finishDoctor,
		summary: "try every privilege and setting that is needed, and print the SQL that mends what is wrong",
		about: "doctor takes the flags, variables and file of serve, and looks at the source as serve would use it. It changes\n" +
			"nothing. It exits with 0 when serve would work, 1 when something has to be mended first.",
		example: "binlogcache doctor --source 'cache:secret@tcp(127.0.0.1:3306)/' --tables app.user,shop.*",
	},
	{
		name: "verify", make: newVerify, finish: finishVerify,
		summary: "compare the cache of a running daemon with the database",
		about: "verify asks the daemon to compare, while clients and writers go on. It exits with 0 when all rows that could be\n" +
			"compared agree, 1 when some did not, mended or not.",
		example: "binlogcache verify --table app.user --repair",
	},
	{
		name: "explain", make: newExplain, finish: finishExplain,
		summary: "tell what the cache of a running daemon knows of a table and of a row, and how it came to know it",
		about:   "explain shows a row as memory has it, with the transaction that wrote it, when that was committed and applied.",
		example: "binlogcache explain app.user:42",
	},
	{
		name: "demo", make: newDemo,
		summary: "start a private MariaDB or MySQL with sample data and show the cache at work",
		about:   "demo needs Debian or Ubuntu. It installs nothing into the system and removes what it made at its end (Ctrl-C).",
		example: "binlogcache demo --rows 1000000",
	},
	{
		name: "bench", make: newBench, finish: finishBench,
		summary: "load a HandlerSocket, memcached or MySQL port with reads and report rates and latencies",
		about:   "bench reads single rows by their key from as many connections as asked for.",
		example: "binlogcache bench --protocol hs --table demo.user --columns uname,email --conns 50 --depth 32",
	},
	triggersCommand,
	adoptCommand,
	{
		name: "version", make: func() (Command, []*option) { return &Version{}, nil },
		summary: "print the version",
		example: "binlogcache version",
	},
}
