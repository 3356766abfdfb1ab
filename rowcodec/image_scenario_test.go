package rowcodec_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/internal/torture"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// aboutValues are the scenarios whose row images have something of their own.
var aboutValues = regexp.MustCompile(`/(0[01][0-9]|02[2356]|07[67]|091|092|098|100|22[456]|23[0123]|24[6789]|26[67]|270)-`)

// shape is a table with a table map of it and an event of that map.
type shape struct {
	def   *schema.Table
	event rowEvent
}

// scenarioEvents plays the scenarios on a server and returns the row events of the tables that are left at their ends.
func (s source) scenarioEvents() (shapes []shape) {
	s.t.Helper()
	files, err := filepath.Glob("../testdata/torture/*.sql")
	if err != nil || len(files) == 0 {
		s.t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		if !aboutValues.MatchString(file) {
			continue
		}
		sc, err := torture.Parse(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if !sc.For(s.Flavor()) {
			continue
		}
		events := s.record(func() {
			for _, step := range append(sc.Before, sc.After...) {
				if strings.Contains(step.SQL, "GLOBAL") || step.Session != "" {
					continue // the server is shared
				}
				// What fails without what was left out makes no events.
				_ = s.Exec(s.t.Context(), strings.ReplaceAll(step.SQL, "tort", s.schema))
			}
		})
		s.exec("USE " + schema.QuoteName(s.schema))
		defs := map[string]*schema.Table{}
		for _, e := range events {
			name := string(e.rows.Table.Table)
			def, known := defs[name]
			if !known {
				def, err = schema.Load(s.t.Context(), s, s.Flavor(), s.schema, name)
				if err != nil && !errors.Is(err, schema.ErrNoTable) {
					s.t.Fatal(err)
				}
				defs[name] = def
			}
			if def != nil && def.Refusal == "" && len(e.rows.NdbData) < 10_000 {
				shapes = append(shapes, shape{def, e})
			}
		}
	}
	return shapes
}

// FuzzScenarios changes row events that servers wrote for the scenarios, and compares their rows with those that are cut off.
func FuzzScenarios(f *testing.F) {
	var shapes []shape
	for _, server := range testmysql.Servers(f) {
		shapes = append(shapes, openSource(f, server).scenarioEvents()...)
	}
	if len(shapes) < 100 {
		f.Fatalf("%d events", len(shapes))
	}
	for i, s := range shapes {
		f.Add(uint16(i), byte(s.event.header.EventType), uint16(1+i%40), s.event.rows.NdbData)
	}
	f.Fuzz(func(t *testing.T, i uint16, kind byte, most uint16, body []byte) {
		s := shapes[int(i)%len(shapes)]
		d, err := rowcodec.NewDecoder(s.def, s.event.rows.Table)
		if err != nil {
			if !errors.Is(err, rowcodec.ErrShape) {
				t.Fatal(err)
			}
			return // from before a statement that changed the table
		}
		header, rows := *s.event.header, *s.event.rows
		if rows.ColumnBitmap2 == nil {
			rows.ColumnBitmap2 = rows.ColumnBitmap1 // an event of another kind
		}
		header.EventType = replication.EventType(kind)
		decode := func(body []byte) (found []rowcodec.Row, err error) {
			rows.NdbData = body
			err = d.DecodeEvent(&header, &rows, new(rowcodec.Arena), func(c rowcodec.Change) error {
				found = append(found, c.Before, c.After)
				return nil
			})
			return found, err
		}
		whole, err := decode(body)
		if err != nil && !errors.Is(err, rowcodec.ErrImage) {
			t.Fatal(err)
		}
		compressed := strings.Contains(header.EventType.String(), "Compressed")
		if len(whole)/2 > len(body) && !compressed {
			t.Fatalf("%d bytes became %d changes", len(body), len(whole)/2)
		}
		for _, row := range whole {
			if row != nil && row.Columns() != len(s.def.Columns) {
				t.Fatalf("%d columns", row.Columns())
			}
		}
		if compressed || header.EventType == replication.PARTIAL_UPDATE_ROWS_EVENT {
			return
		}
		short, cutErr := d.Cut(nil, bytes.NewReader(body), int(most), len(body))
		if cutErr != nil || len(short) > len(body) {
			t.Fatalf("%d bytes became %d, %v", len(body), len(short), cutErr)
		}
		cut, cutErr := decode(short)
		if len(cut) != len(whole) || (err == nil) != (cutErr == nil) {
			t.Fatalf("%d rows, %v; cut %d rows, %v", len(whole), err, len(cut), cutErr)
		}
		for i, row := range whole {
			if row != nil && len(row) <= int(most) && !bytes.Equal(row, cut[i]) || row != nil && len(row) > int(most) && len(cut[i]) <= int(most) {
				t.Fatalf("a row of %d bytes became one of %d where %d may be kept", len(row), len(cut[i]), most)
			}
			for c := range s.def.Columns {
				if row == nil {
					break
				}
				v, null := row.Value(c)
				got, gotNull := cut[i].Value(c)
				if null != gotNull || !bytes.HasPrefix(v, got) || len(got) < min(len(v), int(most)+1, 3072) {
					t.Fatalf("column %d: %q became %q", c, v, got)
				}
			}
		}
	})
}
