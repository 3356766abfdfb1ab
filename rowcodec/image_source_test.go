package rowcodec_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// source is a server with a schema of its own, a connection as the product makes them, and a way to read its log.
type source struct {
	*sqltext.Conn
	t      testing.TB
	schema string
	cfg    *sqltext.Config
}

// onSources runs f on both flavors.
func onSources(t *testing.T, f func(t *testing.T, s source)) {
	for _, server := range testmysql.Servers(t) {
		t.Run(server.Flavor, func(t *testing.T) { f(t, openSource(t, server)) })
	}
}

func openSource(t testing.TB, server testmysql.Server) source {
	t.Helper()
	cfg, err := sqltext.ParseDSN(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	name := server.Schema(t)
	c, err := sqltext.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := source{Conn: c, t: t, schema: name, cfg: cfg}
	s.exec("USE " + schema.QuoteName(name))
	return s
}

func (s source) exec(sql string) {
	s.t.Helper()
	if err := s.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%.300s: %v", sql, err)
	}
}

func (s source) mariadb() bool { return s.Flavor() == schema.FlavorMariaDB }

// rows reads a whole result; nil is NULL.
func (s source) rows(sql string) (rows [][][]byte) {
	s.t.Helper()
	err := s.Query(s.t.Context(), sql, func(values [][]byte) error {
		row := make([][]byte, len(values))
		for i, v := range values {
			if v != nil {
				row[i] = append([]byte{}, v...)
			}
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		s.t.Fatalf("%.300s: %v", sql, err)
	}
	return rows
}

func (s source) load(table string) *schema.Table {
	s.t.Helper()
	def, err := schema.Load(s.t.Context(), s, s.Flavor(), s.schema, table)
	if err != nil {
		s.t.Fatal(err)
	}
	return def
}

func (s source) position() mysql.Position {
	s.t.Helper()
	for _, sql := range []string{"SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"} {
		var at mysql.Position
		err := s.Query(s.t.Context(), sql, func(v [][]byte) error {
			n, err := strconv.ParseUint(string(v[1]), 10, 32)
			at = mysql.Position{Name: string(v[0]), Pos: uint32(n)}
			return err
		})
		if err == nil && at.Name != "" {
			return at
		}
	}
	s.t.Fatal("server tells no binlog position")
	return mysql.Position{}
}

// rowEvent is an event of one table with its table map.
type rowEvent struct {
	header *replication.EventHeader
	rows   *replication.RowsEvent
}

// record runs f and returns the row events of the schema's tables that it caused.
func (s source) record(f func()) (events []rowEvent) {
	s.t.Helper()
	from := s.position()
	f()
	// The end is found by an event of our own: the position of a busy server moves on.
	mark := fmt.Sprintf("mark_%d", rand.Uint64())
	s.exec("CREATE TABLE " + mark + " (a INT)")
	defer s.exec("DROP TABLE " + mark)

	host, port, err := net.SplitHostPort(s.cfg.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	portNumber, _ := strconv.ParseUint(port, 10, 16)
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 1<<31 | rand.Uint32()>>1, Flavor: s.Flavor(), Host: host, Port: uint16(portNumber), User: s.cfg.User, Password: s.cfg.Password,
		RowsEventDecodeFunc: rowcodec.Capture, DisableRetrySync: true, Logger: slog.New(slog.DiscardHandler),
	})
	defer syncer.Close()
	stream, err := syncer.StartSync(from)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		event, err := stream.GetEvent(ctx)
		if err != nil {
			s.t.Fatalf("read the log: %v", err)
		}
		all := []*replication.BinlogEvent{event}
		if payload, ok := event.Event.(*replication.TransactionPayloadEvent); ok {
			all = payload.Events
		}
		for _, event := range all {
			switch e := event.Event.(type) {
			case *replication.RowsEvent:
				if string(e.Table.Schema) == s.schema {
					events = append(events, rowEvent{event.Header, e})
				}
			case *replication.QueryEvent:
				if strings.Contains(string(e.Query), mark) {
					return events
				}
			}
		}
	}
}

// decode returns the changes of the events of one table.
func (s source) decode(def *schema.Table, events []rowEvent) (changes []rowcodec.Change) {
	s.t.Helper()
	var d *rowcodec.Decoder
	var arena rowcodec.Arena
	for _, e := range events {
		if string(e.rows.Table.Table) != def.Name {
			continue
		}
		if d == nil || !d.Matches(e.rows.Table) {
			var err error
			if d, err = rowcodec.NewDecoder(def, e.rows.Table); err != nil {
				s.t.Fatal(err)
			}
		}
		err := d.DecodeEvent(e.header, e.rows, &arena, func(c rowcodec.Change) error {
			changes = append(changes, c)
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return changes
}

// columnNames returns the quoted names of all columns, for a SELECT that gives what a Row holds.
func columnNames(def *schema.Table) string {
	var names []string
	for _, c := range def.Columns {
		names = append(names, schema.QuoteName(c.Name))
	}
	return strings.Join(names, ", ")
}

// comparer compares rows with the server's texts and reports the first differences of each column.
type comparer struct {
	t      testing.TB
	def    *schema.Table
	faults map[string]int
}

func newComparer(t *testing.T, def *schema.Table) *comparer {
	return &comparer{t, def, make(map[string]int)}
}

func (c *comparer) same(what string, row rowcodec.Row, want [][]byte) {
	c.t.Helper()
	if row.Columns() != len(want) {
		c.t.Errorf("%s: %d columns, want %d", what, row.Columns(), len(want))
		return
	}
	for i, w := range want {
		got, null := row.Value(i)
		if null == (w == nil) && string(got) == string(w) {
			continue
		}
		column := &c.def.Columns[i]
		if c.faults[column.Name]++; c.faults[column.Name] > 3 {
			c.t.Fail()
			continue
		}
		at := 0
		for at < len(got) && at < len(w) && got[at] == w[at] {
			at++
		}
		from := max(at-20, 0)
		c.t.Errorf("%.200s: column %s %.80s: from byte %d on got %.80q (NULL: %v), server says %.80q (NULL: %v)", what, column.Name, column.TypeText,
			from, got[min(from, len(got)):], null, w[min(from, len(w)):], w == nil)
	}
}
