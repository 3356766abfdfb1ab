package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/state"
	"github.com/binlogcache/binlogcache/schema"
)

// doctorTimeout bounds the examination of one source.
const doctorTimeout = 5 * time.Minute

// errSick ends doctor with code 1; the findings have been printed.
var errSick = errors.New("doctor: there is something to be mended before serve can do its work")

// examined is what doctor tells of one source, with the names of its JSON form.
type examined struct {
	Source   string          `json:"source"`
	Flavor   string          `json:"flavor,omitempty"`
	Version  string          `json:"version,omitempty"`
	Account  string          `json:"account,omitempty"`
	OK       bool            `json:"ok"`
	Findings []finding       `json:"findings"`
	Tables   []examinedTable `json:"tables"`

	retention time.Duration // of the source's log, 0 for ever
}

// state compares the age of a saved state with how long the log is kept that has to be replayed over it.
func (e *examined) state(dir string) {
	if dir == "" || e.retention == 0 {
		return
	}
	if saved := state.SavedAt(dir); !saved.IsZero() && time.Since(saved) > e.retention {
		e.Findings = append(e.Findings, finding{
			Severity: "warning", Code: "state.old",
			Text: fmt.Sprintf("the saved state in %s is of %s, and the source keeps its log for %v: the next start loads all tables", dir, saved.Format(time.RFC3339), e.retention),
		})
	}
}

type finding struct {
	// Severity is "error" for what keeps serve from its work, else "warning".
	Severity string   `json:"severity"`
	Code     string   `json:"code"`
	Table    string   `json:"table,omitempty"`
	Text     string   `json:"text"`
	SQL      []string `json:"sql,omitempty"`
	Mend     string   `json:"mend,omitempty"`
}

type examinedTable struct {
	Name    string `json:"name"`
	Key     string `json:"key,omitempty"`
	Refusal string `json:"refusal,omitempty"`
	// Passed are the indexes over which the database answers, with the reason.
	Passed map[string]string `json:"passed_indexes,omitempty"`
}

// doctor examines every source and prints what it found.
func doctor(ctx context.Context, cfg *config.Doctor, stdout io.Writer) error {
	patterns, err := schema.ParsePatterns(strings.Join(cfg.Serve.Tables, ","))
	if err != nil {
		return fmt.Errorf("--tables: %w", err)
	}
	healthy := true
	var all []*examined
	for _, dsn := range cfg.Serve.Sources {
		source, err := sqltext.ParseDSN(dsn.Reveal())
		if err != nil {
			return fmt.Errorf("--source: %w", err)
		}
		e := examine(ctx, source, patterns, purpose(cfg.Serve))
		e.state(cfg.Serve.StateDir)
		healthy = healthy && e.OK
		all = append(all, e)
	}
	if cfg.JSON {
		err = printJSON(stdout, struct {
			OK      bool        `json:"ok"`
			Sources []*examined `json:"sources"`
		}{healthy, all})
	} else {
		var text strings.Builder
		for _, e := range all {
			e.print(&text)
		}
		_, err = io.WriteString(stdout, text.String())
	}
	if err == nil && !healthy {
		err = errSick
	}
	return err
}

// purpose is what serve would do with the source.
func purpose(cfg *config.Serve) canal.Purpose {
	return canal.Purpose{
		Writes: !cfg.HandlerSocketWrite.Off() || !cfg.Memcached.Off() && len(cfg.Containers) > 0,
		Memory: tableMemory(cfg),
	}
}

func examine(ctx context.Context, source *sqltext.Config, patterns schema.Patterns, purpose canal.Purpose) *examined {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	e := &examined{Source: source.String(), Findings: []finding{}, Tables: []examinedTable{}}
	d, err := canal.Diagnose(ctx, source, patterns, purpose)
	if err != nil {
		e.Findings = append(e.Findings, finding{Severity: "error", Code: "unreachable", Text: err.Error()})
		return e
	}
	e.Flavor, e.Version, e.Account, e.OK, e.retention = d.Flavor, d.Version, d.Account, d.Safe(), d.Retention
	for _, p := range d.Problems {
		severity := "warning"
		if p.Serious() {
			severity = "error"
		}
		e.Findings = append(e.Findings, finding{severity, p.Code, p.Table, p.Text, p.SQL, p.Mend})
	}
	for _, t := range d.Tables {
		table := examinedTable{Name: t.Name, Key: t.Key, Refusal: t.Refusal}
		for _, i := range t.Passed {
			if table.Passed == nil {
				table.Passed = map[string]string{}
			}
			table.Passed[i.Name] = i.Reason
		}
		e.Tables = append(e.Tables, table)
	}
	return e
}

// print writes the findings for people.
func (e *examined) print(w *strings.Builder) {
	fmt.Fprintf(w, "source   %s", e.Source)
	if e.Account != "" {
		fmt.Fprintf(w, "   %s %s   account %s", e.Flavor, e.Version, e.Account)
	}
	w.WriteString("\n")
	counts := map[string]int{}
	for _, f := range e.Findings {
		counts[f.Severity]++
		fmt.Fprintf(w, "%-8s %s\n", f.Severity, f.Text)
		for _, sql := range f.SQL {
			fmt.Fprintf(w, "         %s;\n", sql)
		}
		if f.Mend != "" {
			fmt.Fprintf(w, "         %s\n", f.Mend)
		}
	}
	for _, t := range e.Tables {
		switch {
		case t.Refusal != "":
			counts["table"]++
			fmt.Fprintf(w, "table    %s is answered by the database: %s\n", t.Name, t.Refusal)
		case len(t.Passed) == 0:
			fmt.Fprintf(w, "table    %s can be kept, by its key %s and all its indexes\n", t.Name, t.Key)
		default:
			counts["table"]++
			fmt.Fprintf(w, "table    %s can be kept, by its key %s; the database answers searches by\n", t.Name, t.Key)
			for _, name := range slices.Sorted(maps.Keys(t.Passed)) {
				fmt.Fprintf(w, "         %s\n", t.Passed[name])
			}
		}
	}
	if len(e.Findings) == 0 && counts["table"] == 0 {
		w.WriteString("all is well\n")
		return
	}
	fmt.Fprintf(w, "%d to be mended, %d to be known", counts["error"], counts["warning"])
	if n := counts["table"]; n > 0 {
		fmt.Fprintf(w, ", %d tables for which the database answers searches", n)
	}
	w.WriteString("\n")
}
