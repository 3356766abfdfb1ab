package config

import (
	"errors"
	"fmt"
	"strings"
)

// value is a place that an option's text is read into.
type value interface {
	set(text string) error
	String() string // what --help shows as the default, and logs show: without secrets
}

// option is one setting: a flag, and for layered commands also a variable and a key of the file.
type option struct {
	name    string // without dashes
	metavar string // what stands for the value in --help; empty for a switch that takes none
	help    string
	value   value
	// several allows the flag to be repeated.
	several bool
	// flagOnly options are not read from the file.
	flagOnly bool
	// argument options may be given without their name, as the command's one argument.
	argument bool
}

func (o *option) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// layer orders the places that a value may come from; a higher one wins.
type layer int

const (
	layerDefault layer = iota
	layerFile
	layerEnv
	layerFlag
)

// origin is where an option's value was found.
type origin struct {
	layer  layer
	place  string // --memory, BINLOGCACHE_MEMORY, or binlogcache.yaml:3: memory
	values []string
}

// origins holds the winning origin of each option that was given, by its name.
type origins map[string]*origin

// of names the place of an option, for messages about its value.
func (g origins) of(name string) string {
	if o := g[name]; o != nil {
		return o.place
	}
	return "--" + name
}

// offer takes the values unless a higher layer has given some.
func (g origins) offer(name string, o *origin) {
	if have := g[name]; have == nil || have.layer < o.layer {
		g[name] = o
	}
}

// apply reads the winning texts into the options' fields.
func (g origins) apply(options []*option) error {
	for _, o := range options {
		from := g[o.name]
		if from == nil {
			continue
		}
		if r, ok := o.value.(interface{ reset() }); ok {
			r.reset()
		}
		for _, text := range from.values {
			if err := o.value.set(text); err != nil {
				return fmt.Errorf("%s: %w", from.place, err)
			}
		}
	}
	return nil
}

// readFlags reads --name value and --name=value.
func readFlags(c *command, options []*option, args []string) (origins, error) {
	given := make(origins)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if o := argumentOf(options); o != nil && !strings.HasPrefix(arg, "-") && given[o.name] == nil {
			given[o.name] = &origin{layer: layerFlag, place: o.metavar, values: []string{arg}}
			continue
		}
		if !strings.HasPrefix(arg, "-") {
			return nil, fmt.Errorf("unexpected argument %q: everything is given by flags; see binlogcache %s --help", arg, c.name)
		}
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		o := c.find(options, name)
		if o == nil || !strings.HasPrefix(arg, "--") {
			var names []string
			for _, o := range options {
				names = append(names, o.name)
			}
			return nil, fmt.Errorf("unknown flag %s%s; see binlogcache %s --help",
				flagName(arg), didYouMean(strings.TrimLeft(name, "-"), names, "--"), c.name)
		}
		if !hasText {
			switch {
			case o.metavar == "":
				text = "on"
			case i+1 == len(args):
				return nil, fmt.Errorf("--%s: no value given: want --%s %s", o.name, o.name, o.metavar)
			default:
				i++
				text = args[i]
			}
		}
		if have := given[o.name]; have != nil {
			if !o.several {
				return nil, fmt.Errorf("--%s is given twice: leave one", o.name)
			}
			have.values = append(have.values, text)
			continue
		}
		given[o.name] = &origin{layer: layerFlag, place: "--" + o.name, values: []string{text}}
	}
	return given, nil
}

// argumentOf returns the option that may be given without its name, or nil.
func argumentOf(options []*option) *option {
	for _, o := range options {
		if o.argument {
			return o
		}
	}
	return nil
}

// flagName is the flag as far as it may be shown: its value could be a secret.
func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}

// readEnv takes the variables of the options. Other variables with our prefix are no error: an orchestrator puts some
// there by itself for a service of our name (BINLOGCACHE_SERVICE_HOST, BINLOGCACHE_PORT).
func readEnv(options []*option, lookup func(string) (string, bool), given origins) {
	for _, o := range options {
		text, ok := lookup(o.env())
		if !ok {
			continue
		}
		values := []string{text}
		if _, ok := o.value.(dsnValue); ok {
			values = strings.Fields(text)
		}
		given.offer(o.name, &origin{layer: layerEnv, place: o.env(), values: values})
	}
}

// didYouMean returns ` (did you mean "x"?)` where a known name is near, or nothing.
func didYouMean(name string, known []string, prefix string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, best)
}

// editDistance counts the bytes to change, insert or delete that make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// errEmpty is the error of a file of a secret without one.
var errEmpty = errors.New("the file is empty: put the secret on its first line")
