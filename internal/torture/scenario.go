// Package torture runs SQL scenarios that naive binlog followers get wrong, and compares what the cache answers with
// what the server has. The scenarios are in testdata/torture; its README describes their format.
//
// The oracle: when the cache has applied the server's position and every table is live or refused, each cached table has
// as many rows as the server. Every index of it is asked over HandlerSocket: it gives all rows in the server's order,
// forwards and backwards, and those for each key and around it; keys beside those that are there, and keys that there were
// at the mark, give what the server has. A container over it gives the server's values over memcached. Memory gives the
// answers about what is there. A table is refused where the scenario says so, for the reason that it names, and its
// answers then come from the database. A table that is gone must not open.
package torture

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Step is one thing that a scenario does: a statement, a switch to another session, or a pause.
type Step struct {
	Line    int
	SQL     string
	Session string
	Sleep   time.Duration
}

// CachedTable is a table that the scenario expects to be cached, and the index to look its rows up by.
type CachedTable struct {
	Schema, Table string
	Index         string // PRIMARY unless the scenario names another

	// refusal is a part of the reason for which a flavour's table is to be refused; none for one that is to be live.
	refusal map[string]string
	// database are indexes that only the database can walk.
	database []string
}

// Scenario is one file.
type Scenario struct {
	Name    string
	Flavors []string
	Tables  []CachedTable
	Needs   string
	// Steady is set where no table may be loaded anew by what follows the snapshot mark: the log tells all of it.
	Steady bool
	// Before and After are the parts above and below the snapshot mark.
	Before, After []Step
}

// For reports whether the scenario is meant for servers of that flavour ("mysql" or "mariadb").
func (s *Scenario) For(flavor string) bool { return slices.Contains(s.Flavors, flavor) }

var (
	headerLine = regexp.MustCompile(`^-- (flavors|cache|refused|database|needs|note|session|sleep): ?(.*)$`)
	cacheLine  = regexp.MustCompile(`^([^.]+)\.(.*?)(?: key=(.*))?$`)
	aboutLine  = regexp.MustCompile(`^([^. ]+)\.([^ ]+) (?:on=(\w+) )?(.+)$`)
)

// Parse reads a scenario file. Errors name file and line.
func Parse(path string) (*Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &Scenario{Name: strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".sql"), Flavors: []string{"mysql", "mariadb"}}
	p := parser{scenario: s, steps: &s.Before, delimiter: ";"}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		p.line++
		if err := p.add(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, p.line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(p.statement) > 0 {
		return nil, fmt.Errorf("%s:%d: statement without an end", path, p.start)
	}
	return s, nil
}

type parser struct {
	scenario    *Scenario
	steps       *[]Step
	delimiter   string
	statement   []string
	line, start int
}

func (p *parser) add(line string) error {
	if len(p.statement) == 0 {
		if m := headerLine.FindStringSubmatch(line); m != nil {
			return p.header(m[1], strings.TrimSpace(m[2]))
		}
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "-- SNAPSHOT":
			p.steps = &p.scenario.After
			return nil
		case trimmed == "-- steady":
			p.scenario.Steady = true
			return nil
		case strings.HasPrefix(strings.ToUpper(line), "DELIMITER "):
			p.delimiter = strings.Fields(line)[1]
			return nil
		case trimmed == "" || trimmed == "--" || strings.HasPrefix(line, "-- "):
			return nil
		}
		p.start = p.line
	}
	p.statement = append(p.statement, line)
	if strings.HasSuffix(strings.TrimRight(line, " \t"), p.delimiter) {
		text := strings.TrimRight(strings.Join(p.statement, "\n"), " \t")
		*p.steps = append(*p.steps, Step{Line: p.start, SQL: strings.TrimSuffix(text, p.delimiter)})
		p.statement = nil
	}
	return nil
}

func (p *parser) header(key, value string) error {
	switch key {
	case "flavors":
		p.scenario.Flavors = strings.Split(value, ",")
	case "cache":
		m := cacheLine.FindStringSubmatch(value)
		if m == nil {
			return fmt.Errorf("cache: %q is not schema.table", value)
		}
		t := CachedTable{Schema: m[1], Table: m[2], Index: m[3]}
		if t.Index == "" {
			t.Index = "PRIMARY"
		}
		p.scenario.Tables = append(p.scenario.Tables, t)
	case "refused", "database":
		return p.about(key, value)
	case "needs":
		p.scenario.Needs = value
	case "session":
		*p.steps = append(*p.steps, Step{Line: p.line, Session: value})
	case "sleep":
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("sleep: %w", err)
		}
		*p.steps = append(*p.steps, Step{Line: p.line, Sleep: d})
	}
	return nil
}

// about takes what is said of a table that a line above names.
func (p *parser) about(key, value string) error {
	m := aboutLine.FindStringSubmatch(value)
	if m == nil {
		return fmt.Errorf("%s: %q is not schema.table text", key, value)
	}
	known := false
	for i := range p.scenario.Tables {
		t := &p.scenario.Tables[i]
		if t.Schema != m[1] || t.Table != m[2] {
			continue
		}
		known = true
		if key == "database" {
			t.database = append(t.database, m[4])
			continue
		}
		if t.refusal == nil {
			t.refusal = map[string]string{}
		}
		for _, flavor := range p.scenario.Flavors {
			if m[3] == "" || m[3] == flavor {
				t.refusal[flavor] = m[4]
			}
		}
	}
	if !known {
		return fmt.Errorf("%s: no line before this one has %s.%s cached", key, m[1], m[2])
	}
	return nil
}
