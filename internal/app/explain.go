package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/schema"
)

// Explain implements admin.Prover.
func (d *daemon) Explain(table string, key []string) (*admin.Explanation, error) {
	name, err := exactName(table)
	if err != nil {
		return nil, err
	}
	t := d.store.Table(name)
	if t == nil {
		return nil, fmt.Errorf("%w: the cache does not know the table %s: the database answers", admin.ErrNotFound, name)
	}
	s := t.Status()
	f := d.follower.Status()
	e := &admin.Explanation{
		Table: s.Name, Mode: s.Mode.String(), State: s.State.String(), Reason: s.Reason, AnsweredBy: "database",
		Applied: admin.Position{GTID: f.Applied.GTID, File: f.Applied.File, Pos: f.Applied.Pos, Seq: f.Applied.Seq}, LagMS: milliseconds(f.Behind),
	}
	if def := t.Def(); def != nil {
		e.KeyIndex = def.Indexes[def.Key].Name
		for i := range def.Columns {
			e.Columns = append(e.Columns, admin.ExplainedColumn{Name: def.Columns[i].Name, Type: def.Columns[i].TypeText})
		}
	}
	if s.State == cache.StateLive {
		e.AnsweredBy = "memory"
	} else if s.State != cache.StateHot {
		return e, nil
	}
	if len(key) == 0 {
		return e, nil
	}
	values := make([][]byte, len(key))
	for i := range key {
		values[i] = []byte(key[i])
	}
	x, err := t.Explain(values)
	switch {
	case errors.Is(err, cache.ErrStale):
		e.State, e.AnsweredBy = t.State().String(), "database"
	case err != nil:
		return nil, fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
	case x.Found:
		e.AnsweredBy = "memory" // of a hot table only what is found
		e.Row = d.explainRow(&x)
	}
	return e, nil
}

func (d *daemon) explainRow(x *cache.Explanation) *admin.ExplainedRow {
	r := &admin.ExplainedRow{
		Values: map[string]*string{}, Version: x.Version, Epoch: uint16(x.Version >> 48), Seq: x.Version & (1<<48 - 1), Origin: x.Origin.String(),
	}
	for i := range x.Def.Columns {
		var text *string
		if v, null := x.Row.Value(i); !null {
			s := strings.ToValidUTF8(string(v), "\uFFFD")
			text = &s
		}
		r.Values[x.Def.Columns[i].Name] = text
	}
	if c, ok := d.follower.Commit(x.Version); ok {
		r.GTID, r.AppliedAt = c.GTID, &c.Applied
		r.AgeMS = new(max(time.Since(c.Applied).Milliseconds(), 0))
		if !c.Committed.IsZero() {
			r.CommittedAt = &c.Committed
		}
	}
	return r
}

// exactName reads schema.table.
func exactName(text string) (schema.Name, error) {
	patterns, err := schema.ParsePatterns(text)
	if err != nil || len(patterns.Exact()) != 1 {
		return schema.Name{}, fmt.Errorf("%w: %q is no table: want schema.table", admin.ErrBadRequest, text)
	}
	return patterns.Exact()[0], nil
}

// askExplain has a running daemon tell what it knows, and prints it.
func askExplain(ctx context.Context, x *config.Explain, stdout io.Writer) error {
	query := url.Values{"table": {x.Table}, "key": x.Key}
	resp, err := askAdmin(ctx, x.Admin, http.MethodGet, "/api/v1/explain?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if x.JSON {
		_, err = stdout.Write(body)
		return err
	}
	var e admin.Explanation
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	_, err = io.WriteString(stdout, explainText(&e, len(x.Key) > 0))
	return err
}

// explainText is the explanation for people.
func explainText(e *admin.Explanation, keyed bool) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("table", "%s, %s (%s)%s", e.Table, e.State, e.Mode, because(e.Reason))
	line("answers", "come from the %s", e.AnsweredBy)
	if e.KeyIndex != "" {
		var columns []string
		for _, c := range e.Columns {
			columns = append(columns, c.Name+" "+c.Type)
		}
		line("kept by", "%s of (%s)", e.KeyIndex, strings.Join(columns, ", "))
	}
	lag := "not known"
	if e.LagMS != nil {
		lag = (time.Duration(*e.LagMS) * time.Millisecond).String()
	}
	line("applied", "up to %s (%s:%d), lag at most %s", e.Applied.GTID, e.Applied.File, e.Applied.Pos, lag)
	switch {
	case !keyed || e.AnsweredBy != "memory":
		return b.String()
	case e.Row == nil:
		line("row", "none: memory is complete, so the table has none")
		return b.String()
	}
	for _, c := range e.Columns {
		value := "NULL"
		if v := e.Row.Values[c.Name]; v != nil {
			value = fmt.Sprintf("%q", *v)
		}
		line("column", "%s = %s", c.Name, value)
	}
	line("version", "%d (epoch %d, commit %d)", e.Row.Version, e.Row.Epoch, e.Row.Seq)
	line("origin", "%s", e.Row.Origin)
	if e.Row.GTID == "" {
		line("commit", "not remembered: before the start, or long ago")
		return b.String()
	}
	committed := "at a time that the log does not tell"
	if e.Row.CommittedAt != nil {
		committed = e.Row.CommittedAt.Format(time.RFC3339Nano)
	}
	line("commit", "%s, committed %s, applied %s", e.Row.GTID, committed, e.Row.AppliedAt.Format(time.RFC3339Nano))
	line("age", "as it is for %s", time.Duration(*e.Row.AgeMS)*time.Millisecond)
	return b.String()
}
