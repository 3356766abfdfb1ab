package config

import (
	"fmt"
	"slices"
	"strings"
)

// The actions of Triggers.
const (
	TriggersGenerate  = "generate"
	TriggersInstall   = "install"
	TriggersVerify    = "verify"
	TriggersUninstall = "uninstall"
)

// Triggers generates SQL that keeps a cache table, and puts it on a server, verifies it and takes it off.
type Triggers struct {
	// Action is one of the Triggers constants.
	Action string
	// Spec is the YAML file that says what is cached.
	Spec string
	// Sources has the one server.
	Sources []DSN

	// Part is what generate prints: "install", "uninstall" or "promote"; Statements asks for one statement in each line
	// of JSON instead of a file for the command-line client.
	Part       string
	Statements bool
	// DryRun shows the plan of install and uninstall and changes nothing.
	DryRun bool
	// Register is "row", "yaml" or "off".
	Register string
	// Measure is whether install measures what a write costs.
	Measure bool
	// DropTable lets uninstall, and the SQL that generate prints of it, remove the cache table, too.
	DropTable bool
	// Rows makes verify compare row by row at once; Repair mends what it finds.
	Rows, Repair bool
	// Memcached and HandlerSocket are ports of a running binlogcache that verify compares with; off for none.
	Memcached, HandlerSocket Address
}

// Name is "triggers".
func (*Triggers) Name() string { return "triggers" }

// triggersOptions says which flags belong to which action; those that are not named belong to all.
var triggersOptions = map[string][]string{
	"print":      {TriggersGenerate},
	"statements": {TriggersGenerate},
	"dry-run":    {TriggersInstall, TriggersUninstall},
	"register":   {TriggersInstall},
	"measure":    {TriggersInstall},
	"drop-table": {TriggersUninstall, TriggersGenerate},
	"rows":       {TriggersVerify},
	"repair":     {TriggersVerify},
	"memcached":  {TriggersVerify},

	"handlersocket": {TriggersVerify},
}

var triggersCommand = &command{
	name: "triggers", make: newTriggers, finish: finishTriggers, environment: []string{"source"},
	actions: []string{TriggersGenerate, TriggersInstall, TriggersVerify, TriggersUninstall},
	act:     func(cmd Command, action string) { cmd.(*Triggers).Action = action },
	summary: "SQL that keeps a cache table by triggers and events: generate, install, verify, uninstall",
	about: "triggers makes the SQL that keeps a cache table right inside the database: for values that are joined, aggregated or\n" +
		"computed. What is cached stands in a YAML file; docs/TRIGGERS.md describes it, triggers/examples has some.\n" +
		"generate prints the SQL, install puts it on the server and fills the table, verify compares the table with its sources\n" +
		"and with a running binlogcache, uninstall takes everything off.\n" +
		"Exit codes: 0 all is well; 1 something could not be done, or verify has found rows that are wrong; 2 the command line is\n" +
		"not understood. BINLOGCACHE_SOURCE stands for --source, too.",
	example: "binlogcache triggers install --spec user_card.yaml --source 'dba:secret@tcp(127.0.0.1:3306)/' --register row",
}

func newTriggers() (Command, []*option) {
	t := &Triggers{Part: "install", Register: "off", Measure: true}
	return t, []*option{
		{name: "spec", metavar: "FILE", argument: true, value: textValue{&t.Spec}, help: "The YAML file that says what is cached. Needed; --spec may be left out."},
		{
			name: "source", metavar: "DSN", value: dsnValue{&t.Sources},
			help: "The server: user:password@tcp(host:port)/ or user@unix(/path/to/socket)/. Needed: generate, too, reads the tables' definitions there.",
		},
		{
			name: "print", metavar: "PART", value: oneOf{&t.Part, []string{"install", "uninstall", "promote"}},
			help: "generate: what to print: install, uninstall, or promote (for a replica that has become the writable server).",
		},
		{name: "statements", value: switchValue{&t.Statements}, help: "generate: one statement in each line, as JSON, for drivers, instead of a file for the command-line client."},
		{name: "dry-run", value: switchValue{&t.DryRun}, help: "install, uninstall: show what would be done, and do nothing."},
		{
			name: "register", metavar: "HOW", value: oneOf{&t.Register, []string{"off", "row", "yaml"}},
			help: "install: map memcached keys to the cache table: row writes innodb_memcache.containers, yaml prints the entry for the configuration file.",
		},
		{name: "measure", metavar: "on|off", value: switchValue{&t.Measure}, help: "install: measure what the triggers add to a write, on a small copy of the source table."},
		{name: "drop-table", value: switchValue{&t.DropTable}, help: "uninstall, and generate with --print uninstall: remove the cache table, too."},
		{name: "rows", value: switchValue{&t.Rows}, help: "verify: compare row by row at once, without a look at sums first."},
		{name: "repair", value: switchValue{&t.Repair}, help: "verify: mend what is wrong."},
		{
			name: "memcached", metavar: "ADDR", value: &t.Memcached,
			help: "verify: compare with what the memcached port of a running binlogcache answers, too: host:port or unix:/path.",
		},
		{
			name: "handlersocket", metavar: "ADDR", value: &t.HandlerSocket,
			help: "verify: the same with the HandlerSocket read port, where it asks for no secret.",
		},
	}
}

func finishTriggers(cmd Command, given origins) error {
	t := cmd.(*Triggers)
	for name := range given {
		if actions := triggersOptions[name]; actions != nil && !slices.Contains(actions, t.Action) {
			return fmt.Errorf("triggers: --%s belongs to %s, not to %s", name, strings.Join(actions, " and "), t.Action)
		}
	}
	switch {
	case t.DropTable && t.Action == TriggersGenerate && t.Part != "uninstall":
		return fmt.Errorf("triggers: --drop-table belongs to --print uninstall, not to %s", t.Part)
	case t.Spec == "":
		return fmt.Errorf("triggers: --spec is missing: the YAML file that says what is cached")
	case len(t.Sources) == 0:
		return fmt.Errorf("triggers: --source is missing: want user:password@tcp(host:port)/ or user@unix(/path)/")
	}
	return nil
}
