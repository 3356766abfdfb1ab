package canal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Diagnosis is what Diagnose found out about a source.
type Diagnosis struct {
	Flavor, Version string
	// Account is the one that the login came to, quoted for SQL; empty when there was no login.
	Account string
	// Retention is how long the source keeps its log; 0 for ever, or where it is not known.
	Retention time.Duration
	// Problems are what has to be mended or known, those that keep from following first.
	Problems []Problem
	// Tables are those that the patterns match and the account may see.
	Tables []TableDiagnosis
}

// TableDiagnosis says how a table would be kept.
type TableDiagnosis struct {
	Name string
	// Refusal says why it can't be; empty where it can.
	Refusal string
	// Key is the name of the index that tells rows apart.
	Key string
	// Passed are the indexes over which the database answers all searches, with the reason.
	Passed []PassedIndex
}

// PassedIndex is an index that memory can't keep.
type PassedIndex struct{ Name, Reason string }

// Safe reports that nothing keeps the source and the tables that were named in full from being followed.
func (d *Diagnosis) Safe() bool {
	return !slices.ContainsFunc(d.Problems, Problem.Serious)
}

// Purpose is what the source is to do besides being followed.
type Purpose struct {
	// Writes is set when clients may write.
	Writes bool
	// Memory is what there is for the tables, in bytes; 0 where that is not known.
	Memory int64
}

// Diagnose is Check for people: it goes on after what Check stops at, tries each privilege by itself, and tells of what is
// not wrong but dangerous. The error is that of a source that can't be reached.
func Diagnose(ctx context.Context, cfg *sqltext.Config, tables schema.Patterns, purpose Purpose) (*Diagnosis, error) {
	d := &Diagnosis{}
	conn, err := sqltext.Dial(ctx, cfg)
	if err != nil {
		if p, ok := accessProblem(err, false); ok {
			d.Problems = []Problem{p}
			return d, nil
		}
		return nil, err
	}
	defer conn.Close()
	d.Flavor, d.Version = conn.Flavor(), conn.ServerVersion()
	if d.Account, err = accountOf(ctx, conn); err != nil {
		return nil, err
	}
	if err := d.source(ctx, cfg, conn, tables); err != nil {
		return nil, err
	}
	if err := d.hazards(ctx, conn); err != nil {
		return nil, err
	}
	defs, err := d.tables(ctx, conn, tables)
	if err == nil && purpose.Writes {
		if err = d.readOnly(ctx, conn); err == nil {
			err = d.writing(ctx, conn, defs)
		}
	}
	if err == nil && purpose.Memory > 0 {
		err = d.memory(ctx, conn, defs, purpose.Memory)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(d.Problems, func(a, b Problem) int { return cmp.Compare(weight(a), weight(b)) })
	return d, nil
}

// weight sorts problems, the worst first.
func weight(p Problem) int {
	switch {
	case p.Fatal:
		return 0
	case p.Serious():
		return 1
	default:
		return 2
	}
}

// source looks at settings, and tries the two privileges that following takes.
func (d *Diagnosis) source(ctx context.Context, cfg *sqltext.Config, c *sqltext.Conn, tables schema.Patterns) error {
	src, err := inspect(ctx, c)
	if p, ok := accessProblem(err, true); ok {
		p.Text, p.Mend = "the account lacks the privilege REPLICATION CLIENT on the source", ""
		p.SQL = []string{"GRANT REPLICATION CLIENT ON *.* TO " + d.Account}
		d.Problems = append(d.Problems, p)
		// What everybody may see is enough to go on.
		if src, err = inspectOpenly(ctx, c); err == nil && src.vars["log_bin"] == "ON" {
			err = src.readSets(ctx, c)
		}
	}
	if err != nil {
		return err
	}
	settings := src.problems(tables)
	d.Problems = append(d.Problems, settings...)
	if len(fatalProblems(settings)) > 0 {
		d.Problems = append(d.Problems, Problem{
			Code: "stream.untried", Text: "reading the source's log could not be tried", Mend: "mend its settings first, then run this again",
		})
		return nil
	}
	err = tryStream(ctx, cfg, c, src)
	if err == nil {
		return nil
	}
	end := (*failure)(nil)
	if !errors.As(streamFailure(ctx, err), &end) || len(end.mend) == 0 {
		return fmt.Errorf("the source's log cannot be read: %w", err)
	}
	for _, p := range end.mend {
		if p.Code == codeSlave {
			p.SQL, p.Mend = []string{"GRANT REPLICATION SLAVE ON *.* TO " + d.Account}, ""
		}
		d.Problems = append(d.Problems, p)
	}
	return nil
}

const (
	// shortRetention is how long a log should be kept at least: a follower that was away for longer loads all tables anew.
	shortRetention = time.Hour
	// clockDrift is how far clocks may differ before ages that are shown mislead.
	clockDrift = 2 * time.Second
)

// hazards looks at what does not keep from following, but can hurt later.
func (d *Diagnosis) hazards(ctx context.Context, c *sqltext.Conn) error {
	vars := map[string]string{}
	names := []string{"binlog_expire_logs_seconds", "expire_logs_days", "sync_binlog", "innodb_flush_log_at_trx_commit"}
	err := c.Query(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')", func(v [][]byte) error {
		vars[strings.ToLower(string(v[0]))] = string(v[1])
		return nil
	})
	if err != nil {
		return err
	}
	s := &source{flavor: d.Flavor}
	for _, name := range []string{"sync_binlog", "innodb_flush_log_at_trx_commit"} {
		if value, ok := vars[name]; ok && value != "1" {
			d.Problems = append(d.Problems, Problem{
				Code: name, Text: "the source has " + name + "=" + value + ": a crash of its machine can take back what readers have seen",
				SQL: []string{s.setGlobal(name, "1")},
			})
		}
	}
	seconds, _ := strconv.ParseFloat(vars["binlog_expire_logs_seconds"], 64)
	days, _ := strconv.ParseFloat(vars["expire_logs_days"], 64)
	// Either may be the one that counts; 0 means for ever.
	kept := time.Duration(max(seconds, days*24*3600)) * time.Second
	d.Retention = kept
	if kept > 0 && kept < shortRetention {
		d.Problems = append(d.Problems, Problem{
			Code: "binlog_expire_logs_seconds",
			Text: fmt.Sprintf("the source keeps its log for %v only: after a longer outage all tables are loaded anew", kept),
			SQL:  []string{s.setGlobal("binlog_expire_logs_seconds", "259200")},
		})
	}
	before := time.Now()
	return c.Query(ctx, "SELECT UNIX_TIMESTAMP(NOW(6))", func(v [][]byte) error {
		there, err := strconv.ParseFloat(string(v[0]), 64)
		if err != nil {
			return fmt.Errorf("the source's clock says %q", v[0])
		}
		after := time.Now()
		whole, fraction := math.Modf(there)
		at := time.Unix(int64(whole), int64(fraction*1e9))
		// The answer was made between the two.
		if drift := max(before.Sub(at), at.Sub(after)); drift > clockDrift {
			d.Problems = append(d.Problems, Problem{
				Code: "clock", Text: fmt.Sprintf("the clocks of the source and of this machine differ by %v: ages that are shown are wrong by as much", drift.Round(time.Millisecond)),
				Mend: "synchronise both with NTP",
			})
		}
		return nil
	})
}

// tables looks at every table that matches, and returns their definitions.
func (d *Diagnosis) tables(ctx context.Context, c *sqltext.Conn, tables schema.Patterns) ([]*schema.Table, error) {
	problems, found, err := tableProblems(ctx, c, d.Flavor, d.Account, tables)
	d.Problems = append(d.Problems, problems...)
	if err != nil {
		return nil, err
	}
	var defs []*schema.Table
	for _, name := range found.names {
		def := found.defs[name]
		exact := def != nil
		if !exact {
			def, err = schema.Load(ctx, c, d.Flavor, name.Schema, name.Table)
			if errors.Is(err, schema.ErrNoTable) {
				continue // dropped meanwhile
			}
			if denied(err) {
				if !slices.Contains(tables.Exact(), name) { // those have been told of
					d.Tables = append(d.Tables, TableDiagnosis{Name: name.String(), Refusal: fmt.Sprintf("its rows cannot be read: %v", err)})
				}
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		t := TableDiagnosis{Name: name.String(), Refusal: def.Refusal}
		if def.Refusal == "" {
			t.examine(def)
			if t.Refusal != "" && exact {
				d.Problems = append(d.Problems, Problem{
					Code: codeRefused, Table: t.Name, Text: "table " + t.Name + " cannot be kept in memory: " + t.Refusal,
				})
			}
		}
		if p, ok := oneRead(def); ok && t.Refusal == "" {
			d.Problems = append(d.Problems, p)
		}
		d.Tables = append(d.Tables, t)
		defs = append(defs, def)
	}
	return defs, nil
}

// examine looks at the indexes of a table that can be followed.
func (t *TableDiagnosis) examine(def *schema.Table) {
	t.Key = def.Indexes[def.Key].Name
	for i := range def.Indexes {
		_, err := rowcodec.NewKeyEncoder(def, i)
		switch {
		case err != nil && i == def.Key:
			t.Refusal = err.Error()
		case err != nil:
			t.Passed = append(t.Passed, PassedIndex{def.Indexes[i].Name, err.Error()})
		}
	}
}
