package mcserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Container maps keys to the rows of one table. It is what a row of innodb_memcache.containers says, or an entry of a
// configuration file. Column names are compared byte by byte with the table's.
type Container struct {
	// Name is what clients write after @@. The container named "default" is the one that connections begin with, if it
	// is usable; without it that is the first usable one.
	Name string
	// Schema and Table name a base table.
	Schema string
	Table  string
	// KeyColumns has exactly one column: CHAR, VARCHAR or of an integer type; in a
	// configuration file also BINARY, VARBINARY and UUID.
	KeyColumns []string
	// ValueColumns are joined by Options.Separator.
	ValueColumns []string
	// FlagsColumn, CASColumn and ExpiryColumn are of integer types; empty or "0" is a column that is not used. A
	// container without a cas column shows the row's version as its cas. Expiry is in seconds since 1970, 0 and NULL
	// are never.
	FlagsColumn  string
	CASColumn    string
	ExpiryColumn string
	// UniqueIndex names a unique index over the key column alone; empty means PRIMARY.
	UniqueIndex string
	// Place is where the container is described, for messages: file:line. It may be empty.
	Place string

	// plugin marks a container that was read from the plugin's own table. The plugin's rules hold for it: a name of a
	// flags, cas or expiry column that is no column is one that is not used, and columns of other types than the
	// plugin knows are refused.
	plugin bool
}

// Policy says where an operation goes.
type Policy uint8

// The cache policies of innodb_memcache.cache_policies.
const (
	// PolicyInnoDBOnly reads and writes the table.
	PolicyInnoDBOnly Policy = iota
	// PolicyCacheOnly uses items that are in no table; the key is the whole key, with its prefix.
	PolicyCacheOnly
	// PolicyCaching is the plugin's copy beside the table, which could be stale; here the table answers.
	PolicyCaching
	// PolicyDisabled finds nothing, and writes nothing although it says so.
	PolicyDisabled
)

var policyNames = [...]string{"innodb_only", "cache_only", "caching", "disabled"}

// String returns the name that stands in innodb_memcache.cache_policies.
func (p Policy) String() string { return policyNames[p] }

// ParsePolicy is the inverse of String.
func ParsePolicy(name string) (Policy, error) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), nil
		}
	}
	return PolicyInnoDBOnly, fmt.Errorf("unknown policy %q: one of %s", name, strings.Join(policyNames[:], ", "))
}

// Policies are the policies of all containers: the plugin, too, has one set for all. The zero value is innodb_only for
// everything.
type Policies struct {
	Get    Policy
	Set    Policy
	Delete Policy
	Flush  Policy
}

// Options are the texts of innodb_memcache.config_options.
type Options struct {
	// Separator stands between the columns of a value. Empty means "|".
	Separator string
	// TableMapDelimiter is the set of bytes that end the name in @@name.key. Empty means ".".
	TableMapDelimiter string
}

const (
	defaultSeparator = "|"
	defaultDelimiter = "."
	// maxOptionBytes is the plugin's bound of an option's text; it cuts what is longer.
	maxOptionBytes = 32
	// maxKeyBytes is the longest key, prefix included.
	maxKeyBytes = 250
	// defaultContainer is the name that makes a container the default.
	defaultContainer = "default"
)

func (o Options) withDefaults() Options {
	if o.Separator == "" {
		o.Separator = defaultSeparator
	}
	if o.TableMapDelimiter == "" {
		o.TableMapDelimiter = defaultDelimiter
	}
	return o
}

// Settings is the part of a configuration file that describes containers.
type Settings struct {
	Containers []Container
	// Policies and Options hold for all containers, also those that the source's tables describe; nil leaves
	// what these tables say.
	Policies *Policies
	Options  *Options
}

// Validate tells what is wrong in itself, without a look at the tables; each line of the error names the place.
func (s *Settings) Validate() error {
	delimiter := defaultDelimiter
	var errs []error
	if s.Options != nil {
		o := s.Options.withDefaults()
		delimiter = o.TableMapDelimiter
		if len(o.Separator) > maxOptionBytes {
			errs = append(errs, fmt.Errorf("options.separator: longer than %d bytes", maxOptionBytes))
		}
		if strings.ContainsAny(o.Separator, "\r\n") {
			errs = append(errs, errors.New("options.separator: a line end can't be a separator"))
		}
		if len(delimiter) > maxOptionBytes || strings.ContainsAny(delimiter, "@ \r\n") {
			errs = append(errs, fmt.Errorf("options.table_map_delimiter: up to %d bytes, none of them @, blank or line end", maxOptionBytes))
		}
	}
	seen := make(map[string]bool)
	for i := range s.Containers {
		c := &s.Containers[i]
		place := c.Place
		if place == "" {
			place = fmt.Sprintf("containers[%d]", i)
		}
		bad := func(field, format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s: container %q: %s: %s", place, c.Name, field, fmt.Sprintf(format, args...)))
		}
		switch {
		case c.Name == "":
			bad("name", "missing")
		case seen[c.Name]:
			bad("name", "twice in the list")
		case !validName(c.Name, delimiter):
			bad("name", "can't be written in a key: no blanks, control characters or any of %q, at most %d bytes", delimiter, maxKeyBytes-3)
		}
		seen[c.Name] = true
		if c.Schema == "" {
			bad("schema", "missing")
		}
		if c.Table == "" {
			bad("table", "missing")
		}
		if len(c.KeyColumns) != 1 || c.KeyColumns[0] == "" {
			bad("key_columns", "exactly one column is needed")
		}
		if len(c.ValueColumns) == 0 {
			bad("value_columns", "missing")
		}
		for j, v := range c.ValueColumns {
			if v == "" {
				bad(fmt.Sprintf("value_columns[%d]", j), "empty")
			}
		}
	}
	return errors.Join(errs...)
}

func validName(name, delimiter string) bool {
	if len(name) > maxKeyBytes-3 || strings.ContainsAny(name, delimiter) {
		return false
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] == 0x7f {
			return false
		}
	}
	return true
}

// Problem is a reason why something can't be used. The rest stays usable.
type Problem struct {
	// Container is the container's name; empty when the problem is with all of them.
	Container string
	// Reason is one line.
	Reason string
}

// String is the problem on one line.
func (p Problem) String() string {
	if p.Container == "" {
		return p.Reason
	}
	return fmt.Sprintf("container %q: %s", p.Container, p.Reason)
}

// ContainerSet is everything that is known about containers before a look at their tables.
type ContainerSet struct {
	// Containers are in the order in which the first usable one is the default.
	Containers []Container
	Policies   Policies
	Options    Options
	// Problems tells what was left out of Containers, and why.
	Problems []Problem

	// barred are the containers that were left out.
	barred []barredContainer
}

// barredContainer is a container that the plugin's tables name and that can't be used, whatever its table is.
type barredContainer struct {
	Container
	reason   string
	wrongRow bool // the reason is its own row
}

// Add puts the containers of a configuration file to those of the source. A container of the same name replaces the
// source's; other ones stand behind the source's.
func (cs *ContainerSet) Add(s Settings) {
	for _, c := range s.Containers {
		cs.barred = slices.DeleteFunc(cs.barred, func(b barredContainer) bool { return b.Name == c.Name })
		replaced := false
		for i := range cs.Containers {
			if cs.Containers[i].Name == c.Name {
				cs.Containers[i], replaced = c, true
				break
			}
		}
		if !replaced {
			cs.Containers = append(cs.Containers, c)
		}
	}
	if s.Policies != nil {
		cs.Policies = *s.Policies
	}
	if s.Options != nil {
		cs.Options = s.Options.withDefaults()
	}
}
