package canal

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// recordedLog is what a server sent, as it came.
type recordedLog struct {
	flavor string
	def    *schema.Table
	format []byte   // the event that says how the others look
	events [][]byte // from the table's map on
}

// recordLog has a server log changes of a table.
func recordLog(t testing.TB, s testmysql.Server) recordedLog {
	t.Helper()
	cfg, err := sqltext.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c, err := sqltext.Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := s.Schema(t)
	exec := func(sql string) {
		if err := c.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("USE " + name)
	exec("CREATE TABLE w (id INT PRIMARY KEY, v LONGBLOB, n INT, s VARCHAR(300), d DECIMAL(20,4))")
	rec := recordedLog{flavor: s.Flavor}
	if rec.def, err = schema.Load(ctx, c, s.Flavor, name, "w"); err != nil {
		t.Fatal(err)
	}
	src, err := inspect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	exec("INSERT INTO w VALUES (1, REPEAT('a', 60), 1, 'one', 1.5), (2, NULL, NULL, NULL, NULL), (3, '', 3, REPEAT('b', 300), -7)")
	exec("UPDATE w SET v = REPEAT('c', 300), n = n + 1")
	exec("DELETE FROM w WHERE id < 3")
	o := streamOptions{source: cfg, serverID: freeServerID(ctx, c), from: src.start, heartbeat: defaultHeartbeat, found: new(atomic.Bool)}
	r, err := openLog(ctx, src, o, firstEvent{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	ours := false
	err = r.conn.ReadLog(ctx, r.command, r.arg, func() time.Duration { return time.Minute }, func(e *sqltext.LogEvent) error {
		b, err := io.ReadAll(e)
		if err != nil {
			return err
		}
		kind := replication.EventType(b[4])
		switch {
		case kind == replication.FORMAT_DESCRIPTION_EVENT:
			rec.format = b
		case kind == replication.TABLE_MAP_EVENT && bytes.Contains(b, []byte(name)):
			ours = true
		}
		if ours {
			rec.events = append(rec.events, b)
		}
		if ours && (kind == replication.DELETE_ROWS_EVENTv1 || kind == replication.DELETE_ROWS_EVENTv2) {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) || rec.format == nil {
		t.Fatal(err)
	}
	return rec
}

// eventBytes is an event that has come as a whole.
type eventBytes struct{ bytes.Reader }

// Skip implements incoming.
func (b *eventBytes) Skip() error { _, err := b.Seek(0, io.SeekEnd); return err }

func incomingBytes(data []byte) *eventBytes { return &eventBytes{*bytes.NewReader(data)} }

// rowsTaker keeps the last event of rows. It asks for large ones with values of no more than most bytes.
type rowsTaker struct {
	decoder *rowcodec.Decoder
	most    int
	last    *replication.BinlogEvent
}

// HandleEvent implements eventHandler.
func (h *rowsTaker) HandleEvent(ev *replication.BinlogEvent) error { h.last = ev; return nil }

func (h *rowsTaker) images(uint64) (*rowcodec.Decoder, int) { return h.decoder, h.most }

// FuzzLogEvents changes events that servers sent. None may bring the reader down or have it take much more memory than the
// event has; and what is read as it comes is what is read as a whole.
func FuzzLogEvents(f *testing.F) {
	var logs []recordedLog
	for _, s := range testmysql.Servers(f) {
		rec := recordLog(f, s)
		for _, b := range append([][]byte{rec.format}, rec.events...) {
			f.Add(uint8(len(logs)), uint8(50), b)
		}
		logs = append(logs, rec)
	}
	f.Fuzz(func(t *testing.T, i, most uint8, data []byte) {
		rec := logs[int(i)%len(logs)]
		h := &rowsTaker{most: int(most)}
		r := &logReader{parser: replication.NewBinlogParser(), handler: h}
		r.parser.SetFlavor(rec.flavor)
		r.parser.SetVerifyChecksum(i&0x80 == 0) // most that is changed would not come further
		r.parser.SetRowsEventDecodeFunc(rowcodec.Capture)
		for _, b := range [][]byte{rec.format, rec.events[0]} {
			if err := r.event(incomingBytes(b)); err != nil {
				t.Fatal(err)
			}
		}
		d, err := rowcodec.NewDecoder(rec.def, h.last.Event.(*replication.TableMapEvent))
		if err != nil {
			t.Fatal(err)
		}
		h.decoder, h.last = d, nil
		wholeErr := r.event(incomingBytes(data))
		if (wholeErr == nil) != (h.last != nil) {
			t.Fatalf("%v, and the handler got %v", wholeErr, h.last)
		}
		if cap(r.buf) > 2*len(data)+eventPiece+512 {
			t.Fatalf("%d bytes for %d", cap(r.buf), len(data))
		}
		if len(data) < replication.EventHeaderSize {
			return
		}
		var head replication.EventHeader
		kind, _, plain := rowsEvent(replication.EventType(data[4]))
		if !plain || head.Decode(data[:replication.EventHeaderSize]) != nil || head.EventSize < replication.EventHeaderSize {
			return
		}
		whole := h.last
		for _, h.most = range []int{0, int(most)} {
			body := incomingBytes(data)
			if _, err := body.Seek(replication.EventHeaderSize, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			ev, err := r.large(body, bytes.Clone(data[:replication.EventHeaderSize]), int(head.EventSize), kind)
			if cap(r.buf) > 2*len(data)+eventPiece+512 {
				t.Fatalf("%d bytes for %d", cap(r.buf), len(data))
			}
			if err != nil || whole == nil || h.most > 0 {
				continue
			}
			a, okA := whole.Event.(*replication.RowsEvent)
			b, okB := ev.Event.(*replication.RowsEvent)
			if !okA || !okB || !bytes.Equal(a.NdbData, b.NdbData) || a.TableID != b.TableID {
				t.Fatalf("as a whole %+v, as it comes %+v", a, b)
			}
		}
	})
}
