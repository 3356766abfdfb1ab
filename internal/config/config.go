// Package config reads what the user asks for: the command line, the environment and the YAML file, into one struct for
// each command. Flags override the environment, which overrides the file, which overrides the defaults. What is not
// understood is an error of one line that says what is wrong, where it stands (the flag, the variable, or file:line)
// and what would be right.
//
// Secrets and passwords are held in types that do not print them. The package starts nothing and opens no connection;
// it reads the configuration file and files of secrets only.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EnvPrefix begins the name of every environment variable: the variable of --handlersocket-read is
// BINLOGCACHE_HANDLERSOCKET_READ.
const EnvPrefix = "BINLOGCACHE_"

// Exit codes of the program.
const (
	ExitOK    = 0
	ExitError = 1 // what was asked for could not be done
	ExitUsage = 2 // what was asked for is not understood: every error of Parse
)

// Command is what the user asked for: *Serve, *Demo, *Bench, *Triggers, *Version or *Help.
type Command interface {
	// Name is the subcommand's name.
	Name() string
}

// Help is a text that the user asked for with --help.
type Help struct{ Text string }

// Name is "help".
func (*Help) Name() string { return "help" }

// Version asks for the version.
type Version struct{}

// Name is "version".
func (*Version) Name() string { return "version" }

// command describes one subcommand: how it is parsed and how its help reads.
type command struct {
	name    string
	summary string // one line, without a full stop
	about   string // more of it, for its own --help
	example string
	// layered commands also read the environment and the file.
	layered bool
	// environment names the options that are also read from the environment where a command is not layered.
	environment []string
	// actions are the words of which one follows the command's name; act takes it.
	actions []string
	act     func(cmd Command, action string)
	// make returns a new value with defaults and the options bound to its fields.
	make func() (Command, []*option)
	// finish checks the parts against each other; given tells where each option's value came from.
	finish func(Command, origins) error
}

func (c *command) find(options []*option, name string) *option {
	i := slices.IndexFunc(options, func(o *option) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return options[i]
}

// Parse understands the arguments (without the program's name). lookupEnv is os.LookupEnv outside tests.
func Parse(args []string, lookupEnv func(string) (string, bool)) (Command, error) {
	if len(args) == 0 {
		return nil, errors.New("no command given: try binlogcache --help, or binlogcache demo")
	}
	switch args[0] {
	case "--help", "-h", "-help":
		return &Help{overview()}, nil
	case "--version", "-v":
		return &Version{}, nil
	case "help":
		if len(args) > 1 {
			if c := findCommand(args[1]); c != nil {
				return &Help{c.help()}, nil
			}
			return nil, unknownCommand(args[1])
		}
		return &Help{overview()}, nil
	}
	c := findCommand(args[0])
	if c == nil {
		return nil, unknownCommand(args[0])
	}
	for _, a := range args[1:] {
		if a == "--help" || a == "-h" || a == "-help" {
			return &Help{c.help()}, nil
		}
	}
	cmd, options := c.make()
	flags := args[1:]
	if c.actions != nil {
		if len(flags) == 0 || !slices.Contains(c.actions, flags[0]) {
			return nil, fmt.Errorf("%s: say what to do: %s; see binlogcache %s --help", c.name, strings.Join(c.actions, ", "), c.name)
		}
		c.act(cmd, flags[0])
		flags = flags[1:]
	}
	given, err := readFlags(c, options, flags)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	readEnv(slices.DeleteFunc(slices.Clone(options), func(o *option) bool { return !slices.Contains(c.environment, o.name) }), lookupEnv, given)
	if c.layered {
		readEnv(options, lookupEnv, given)
		if err := readFile(cmd, options, given); err != nil {
			return nil, err
		}
	}
	if err := given.apply(options); err != nil {
		return nil, err
	}
	if c.finish != nil {
		if err := c.finish(cmd, given); err != nil {
			return nil, err
		}
	}
	if s, ok := cmd.(*Serve); ok {
		again := slices.Clone(args)
		s.again = func() (Command, error) { return Parse(again, lookupEnv) }
	}
	return cmd, nil
}

func findCommand(name string) *command {
	for _, c := range commands {
		if c.name == name {
			return c
		}
	}
	return nil
}

func unknownCommand(name string) error {
	if strings.HasPrefix(name, "-") {
		return fmt.Errorf("%s stands before any command: binlogcache COMMAND [flags]; see binlogcache --help", flagName(name))
	}
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	return fmt.Errorf("unknown command %q%s; see binlogcache --help", name, didYouMean(name, names, ""))
}
