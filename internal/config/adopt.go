package config

import (
	"fmt"
	"strings"
)

// The parts that Adopt prints.
const (
	AdoptConfig = "config"
	AdoptGrants = "grants"
	AdoptReport = "report"
)

// Adopt makes a configuration out of a site of the InnoDB memcached plugin or of HandlerSocket, and compares the answers of
// the old port with ours.
type Adopt struct {
	// Sources has the server, or nothing.
	Sources []DSN
	// Dump is a file of mysqldump or mariadb-dump, "-" for the standard input; empty for none.
	Dump string
	// Variables is a file of the plugins' variables; empty for none.
	Variables string
	// Tables are patterns of more tables that are to be kept in full.
	Tables []string
	// User and Host are the account of the cache; Host is empty where it is to follow from the source.
	User, Host string
	// Print is one of the Adopt constants.
	Print string

	// Check is the plugin's port; off for none.
	Check Address
	// Memcached is the port of a running Serve that Check is compared with.
	Memcached Address
	// Sample is the number of keys of each container that are read.
	Sample int

	account string
}

// Name is "adopt".
func (*Adopt) Name() string { return "adopt" }

var adoptCommand = &command{
	name: "adopt", make: newAdopt, finish: finishAdopt, environment: []string{"source"},
	summary: "take over a site of the InnoDB memcached plugin or of HandlerSocket: configuration, rights, what differs",
	about: "adopt reads the plugins' tables and variables from a server, or from a dump of it, and prints a configuration for serve,\n" +
		"with the rights that its account needs and what clients will see otherwise. It changes nothing. docs/MIGRATION.md has the\n" +
		"steps around it.\n" +
		"With --check it reads keys of each container from the plugin's port and from a running serve, and prints where the\n" +
		"answers differ.\n" +
		"Exit codes: 0 all is well; 1 something could not be done, a container that the plugin may have served is left out, or\n" +
		"answers differ; 2 the command line is not understood. BINLOGCACHE_SOURCE stands for --source, too.",
	example: "binlogcache adopt --source 'dba:secret@tcp(127.0.0.1:3306)/'",
}

func newAdopt() (Command, []*option) {
	a := &Adopt{Print: AdoptConfig, Memcached: Address{"tcp", "127.0.0.1:11211"}, Sample: 1000, account: "cache"}
	return a, []*option{
		{
			name: "source", metavar: "DSN", value: dsnValue{&a.Sources},
			help: "The server: user:password@tcp(host:port)/ or user@unix(/path/to/socket)/. The account needs SELECT on innodb_memcache and on the tables that it maps.",
		},
		{
			name: "dump", metavar: "FILE", value: textValue{&a.Dump},
			help: "Read the plugin's tables from a file of mysqldump or mariadb-dump, plain or gzip, instead of from the server; - is the standard input. With --source, too, the tables' definitions come from there, else from the dump where it has them.",
		},
		{
			name: "variables", metavar: "FILE", value: textValue{&a.Variables},
			help: "The plugins' variables where the server no longer has them: the output of mysql -e 'SHOW GLOBAL VARIABLES', or an option file (my.cnf). They override the server's.",
		},
		{name: "tables", metavar: "PATTERN,...", several: true, value: listValue{&a.Tables}, help: "More tables to keep in full, for HandlerSocket clients: app.user,shop.*."},
		{
			name: "account", metavar: "NAME@HOST", value: textValue{&a.account},
			help: "The cache's account on the server. Without @HOST that follows from the source: its own address on this machine, else %.",
		},
		{
			name: "print", metavar: "PART", value: oneOf{&a.Print, []string{AdoptConfig, AdoptGrants, AdoptReport}},
			help: "config, with everything else in comments; grants, as a script for the mysql client; or report, what is left out and what differs.",
		},
		{
			name: "check", metavar: "ADDR", value: &a.Check,
			help: "Compare instead: the plugin's memcached port, host:port or unix:/path. Keys are chosen from the tables of --source.",
		},
		{name: "memcached", metavar: "ADDR", value: &a.Memcached, help: "With --check: the memcached port of the running serve."},
		{name: "sample", metavar: "N", value: intValue{&a.Sample, 1, 10_000_000}, help: "With --check: how many keys of each container are read."},
	}
}

func finishAdopt(cmd Command, given origins) error {
	a := cmd.(*Adopt)
	a.User, a.Host, _ = strings.Cut(a.account, "@")
	for _, t := range a.Tables {
		if schema, table, ok := strings.Cut(t, "."); !ok || schema == "" || table == "" {
			return fmt.Errorf("adopt: --tables: %q is no table: want schema.table or schema.*", t)
		}
	}
	switch {
	case len(a.Sources) == 0 && a.Dump == "":
		return fmt.Errorf("adopt: nothing to read: give --source user:password@tcp(host:port)/ or --dump FILE")
	case a.User == "":
		return fmt.Errorf("adopt: --account: %q has no name: want name@host", a.account)
	case a.Check.Off():
		for _, name := range []string{"memcached", "sample"} {
			if given[name] != nil {
				return fmt.Errorf("adopt: --%s belongs to --check", name)
			}
		}
	case len(a.Sources) == 0:
		return fmt.Errorf("adopt: --check chooses its keys from the tables: give --source, too")
	case a.Memcached.Off():
		return fmt.Errorf("adopt: --memcached: want host:port or unix:/path of the running serve")
	case a.Check == a.Memcached:
		return fmt.Errorf("adopt: --check and --memcached are both %s: one is the plugin's port, the other ours", a.Check)
	}
	return nil
}
