package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile reads the YAML file that --config or its variable names. Every key that is not known is an error, wherever
// it stands.
func readFile(cmd Command, options []*option, given origins) error {
	named := given["config"]
	if named == nil || named.values[0] == "" {
		return nil
	}
	path := named.values[0]
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", named.place, err)
	}
	serve, ok := cmd.(*Serve)
	if !ok {
		serve = cmd.(*Doctor).Serve
	}
	return (&file{path: path}).read(text, serve, options, given)
}

// file gives messages the name of the file they are about.
type file struct{ path string }

func (f *file) place(n *yaml.Node) string { return fmt.Sprintf("%s:%d", f.path, n.Line) }

func (f *file) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", f.place(n), fmt.Sprintf(format, args...))
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (f *file) read(text []byte, s *Serve, options []*option, given origins) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // nothing but comments
		}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			return fmt.Errorf("%s:%s: not YAML: %s", f.path, m[1], strings.TrimPrefix(err.Error(), m[0]))
		}
		return fmt.Errorf("%s: not YAML: %s", f.path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one YAML document: leave one", f.path)
	}
	known := []string{"containers", "policies", "options"}
	byName := make(map[string]*option)
	for _, o := range options {
		if !o.flagOnly {
			byName[o.name] = o
			known = append(known, o.name)
		}
	}
	return f.mapping(doc.Content[0], "the file", known, func(key, value *yaml.Node) error {
		switch key.Value {
		case "containers":
			return f.containers(value, s)
		case "policies":
			s.Policies = new(Policies)
			return f.policies(value, s.Policies)
		case "options":
			s.Options = new(ContainerOptions)
			return f.mapping(value, "options", []string{"separator", "table_map_delimiter"}, func(key, value *yaml.Node) error {
				return f.text(key, value, map[string]*string{
					"separator": &s.Options.Separator, "table_map_delimiter": &s.Options.TableMapDelimiter,
				}[key.Value])
			})
		}
		o := byName[key.Value]
		values, err := f.texts(key, value, o.several)
		if err != nil {
			return err
		}
		given.offer(o.name, &origin{layer: layerFile, place: f.place(key) + ": " + o.name, values: values})
		return nil
	})
}

// mapping calls each for every pair. Keys must be known and come once.
func (f *file) mapping(n *yaml.Node, what string, known []string, each func(key, value *yaml.Node) error) error {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		return f.errorf(n, "%s: want keys with values, as in \"key: value\"", what)
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], follow(n.Content[i+1])
		if !slices.Contains(known, key.Value) {
			return f.errorf(key, "unknown key %q%s; known in %s: %s", key.Value, didYouMean(key.Value, known, ""), what, strings.Join(known, ", "))
		}
		if line, twice := seen[key.Value]; twice {
			return f.errorf(key, "%s stands here for the second time, first in line %d: leave one", key.Value, line)
		}
		seen[key.Value] = key.Line
		if err := each(key, value); err != nil {
			return err
		}
	}
	return nil
}

// follow returns the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text reads one scalar. Its spelling is kept: an option reads "off" or 1_000 by its own rules, not by YAML's.
func (f *file) text(key, n *yaml.Node, p *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return f.errorf(key, "%s: want one value", key.Value)
	}
	*p = n.Value
	return nil
}

// texts reads a scalar, or where several are allowed a list of them.
func (f *file) texts(key, n *yaml.Node, several bool) ([]string, error) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode && several {
		items = n.Content
		if len(items) == 0 {
			return nil, f.errorf(key, "%s: the list is empty: give a value or leave the key out", key.Value)
		}
	}
	values := make([]string, len(items))
	for i, item := range items {
		if err := f.text(key, follow(item), &values[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (f *file) containers(n *yaml.Node, s *Serve) error {
	if n.Kind != yaml.SequenceNode {
		return f.errorf(n, "containers: want a list, each entry with name, schema, table, key_columns and value_columns")
	}
	names := make(map[string]bool)
	for _, item := range n.Content {
		item = follow(item)
		c := Container{Place: f.place(item)}
		texts := map[string]*string{
			"name": &c.Name, "schema": &c.Schema, "table": &c.Table, "flags_column": &c.FlagsColumn,
			"cas_column": &c.CASColumn, "expiry_column": &c.ExpiryColumn, "unique_index": &c.UniqueIndex,
		}
		known := []string{
			"name", "schema", "table", "key_columns", "value_columns", "flags_column", "cas_column", "expiry_column", "unique_index",
		}
		err := f.mapping(item, "a container", known, func(key, value *yaml.Node) error {
			if p := texts[key.Value]; p != nil {
				return f.text(key, value, p)
			}
			columns, err := f.texts(key, value, true)
			if key.Value == "key_columns" {
				c.KeyColumns = columns
			} else {
				c.ValueColumns = columns
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, name := range []string{"name", "schema", "table"} {
			if *texts[name] == "" {
				return f.errorf(item, "the container has no %s", name)
			}
		}
		switch {
		case len(c.KeyColumns) == 0:
			return f.errorf(item, "container %q has no key_columns", c.Name)
		case len(c.ValueColumns) == 0:
			return f.errorf(item, "container %q has no value_columns", c.Name)
		case names[c.Name]:
			return f.errorf(item, "container %q is there twice: give each its own name", c.Name)
		}
		names[c.Name] = true
		s.Containers = append(s.Containers, c)
	}
	return nil
}

func (f *file) policies(n *yaml.Node, p *Policies) error {
	places := map[string]*string{"get": &p.Get, "set": &p.Set, "delete": &p.Delete, "flush": &p.Flush}
	return f.mapping(n, "policies", []string{"get", "set", "delete", "flush"}, func(key, value *yaml.Node) error {
		if err := f.text(key, value, places[key.Value]); err != nil {
			return err
		}
		switch value.Value {
		case "innodb_only", "cache_only", "caching", "disabled":
			return nil
		}
		return f.errorf(key, "%s: %q is unknown: want innodb_only, cache_only, caching or disabled", key.Value, value.Value)
	})
}
