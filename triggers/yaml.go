package triggers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader reads the YAML of a spec and gives each error its file and line.
type reader struct{ path string }

// SpecError is a fault of a spec, or one that shows against the server's tables: one line, with the place in the file.
type SpecError struct {
	Path string
	Line int // 0 where no line is to blame
	Text string
}

// Error is path:line: text.
func (e *SpecError) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Text)
}

func (r reader) errorf(n *yaml.Node, format string, args ...any) error {
	return &SpecError{r.path, n.Line, fmt.Sprintf(format, args...)}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (r reader) document(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		e := &SpecError{Path: r.path, Text: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			_, _ = fmt.Sscan(m[1], &e.Line)
			e.Text = "not YAML: " + strings.TrimPrefix(err.Error(), m[0])
		}
		return nil, e
	}
	if len(doc.Content) == 0 {
		return nil, &SpecError{r.path, 0, "the file is empty: see docs/TRIGGERS.md for what stands in it"}
	}
	return doc.Content[0], nil
}

// mapping calls each for every pair, whose key must be known and come once.
func (r reader) mapping(n *yaml.Node, what string, known []string, each func(key string, at, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return r.errorf(n, "%s: want keys with values, as in \"key: value\"", what)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case known != nil && !slices.Contains(known, key.Value):
			return r.errorf(key, "unknown key %q; known in %s: %s", key.Value, what, strings.Join(known, ", "))
		case seen[key.Value]:
			return r.errorf(key, "%s stands here for the second time: leave one", key.Value)
		case value.Kind == yaml.AliasNode:
			return r.errorf(value, "%s: aliases are not read: write the value out", key.Value)
		}
		seen[key.Value] = true
		if err := each(key.Value, key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r reader) text(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		if n.Kind == yaml.MappingNode {
			return "", r.errorf(n, "want one text; one that begins with a brace needs quotes: \"{column}\"")
		}
		return "", r.errorf(n, "want one text")
	}
	return n.Value, nil
}

// texts reads a list of texts.
func (r reader) texts(n *yaml.Node) ([]*yaml.Node, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, r.errorf(n, "want a list: [a, b]")
	}
	for _, item := range n.Content {
		if _, err := r.text(item); err != nil {
			return nil, err
		}
	}
	return n.Content, nil
}

func (r reader) oneOf(n *yaml.Node, values ...string) (string, error) {
	s, err := r.text(n)
	if err == nil && !slices.Contains(values, s) {
		err = r.errorf(n, "%q is unknown: want %s", s, strings.Join(values, " or "))
	}
	return s, err
}
