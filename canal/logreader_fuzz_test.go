package canal

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"

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
	err = r.conn.ReadLog(ctx, r.command, r.arg, func() time.Duration { return time.Minute }, func(e io.Reader) error {
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

// rowsTaker keeps the last event. It asks for rows of no more than most bytes.
type rowsTaker struct {
	decoder *rowcodec.Decoder
	most    int
	last    *replication.BinlogEvent
	over    bool
}

// HandleEvent implements eventHandler.
func (h *rowsTaker) HandleEvent(ev *replication.BinlogEvent) error { h.last = ev; return nil }

func (h *rowsTaker) images(uint64) wanted { return wanted{h.decoder, h.most, fuzzLimit} }

func (h *rowsTaker) outgrown() { h.over = true }

// fuzzLimit is what is kept of the images of an event.
const fuzzLimit = 10_000

// compressedTransaction has the events of a transaction as MySQL compresses them, without their checksums.
func compressedTransaction(f *testing.F, events [][]byte) []byte {
	var all []byte
	for _, e := range events {
		at := len(all)
		all = append(all, e[:len(e)-replication.BinlogChecksumLength]...)
		binary.LittleEndian.PutUint32(all[at+9:], uint32(len(all)-at))
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer z.Close()
	body := append([]byte{2, 1, 0, 3, 3, 0xfc, byte(len(all)), byte(len(all) >> 8), 0}, z.EncodeAll(all, nil)...)
	return logEvent(replication.TRANSACTION_PAYLOAD_EVENT, body)
}

// logEvent makes an event of its body.
func logEvent(kind replication.EventType, body []byte) []byte {
	b := make([]byte, replication.EventHeaderSize)
	b[4] = byte(kind)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[9:], uint32(len(b)+replication.BinlogChecksumLength))
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// compressedRows is an event of rows as MariaDB compresses it; images is where they begin in the plain one.
func compressedRows(f *testing.F, plain []byte, images int) []byte {
	kinds := map[replication.EventType]replication.EventType{
		replication.WRITE_ROWS_EVENTv1: replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1, replication.UPDATE_ROWS_EVENTv1: replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1,
		replication.DELETE_ROWS_EVENTv1: replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1,
	}
	kind, ok := kinds[replication.EventType(plain[4])]
	if !ok {
		f.Fatalf("an event of type %d", plain[4])
	}
	rest := plain[images : len(plain)-replication.BinlogChecksumLength]
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(rest); err != nil || z.Close() != nil {
		f.Fatal(err)
	}
	body := append(bytes.Clone(plain[replication.EventHeaderSize:images]), 2, byte(len(rest)>>8), byte(len(rest)))
	return logEvent(kind, append(body, packed.Bytes()...))
}

// FuzzLogEvents changes events that servers sent, and such that were compressed. None may bring the reader down or have it
// take much more memory than the event has; and what is read as it comes is what is read as a whole.
func FuzzLogEvents(f *testing.F) {
	var logs []recordedLog
	for _, s := range testmysql.Servers(f) {
		rec := recordLog(f, s)
		for _, b := range append([][]byte{rec.format}, rec.events...) {
			f.Add(uint8(len(logs)), uint8(50), b)
			f.Add(uint8(len(logs))|0x80, uint8(50), b)
			if s.Flavor == testmysql.MariaDB && rowsEvent(replication.EventType(b[4])).is {
				images := replication.EventHeaderSize + 6 + 2 + 1 + 1
				if replication.EventType(b[4]) == replication.UPDATE_ROWS_EVENTv1 {
					images++
				}
				f.Add(uint8(len(logs))|0x80, uint8(50), compressedRows(f, b, images))
			}
		}
		f.Add(uint8(len(logs))|0x80, uint8(50), compressedTransaction(f, rec.events))
		f.Add(uint8(len(logs))|0x80, uint8(50), logEvent(replication.TRANSACTION_PAYLOAD_EVENT, append([]byte{2, 3, 0xfc, 0xff, 0, 0}, rec.events[0]...)))
		logs = append(logs, rec)
	}
	f.Fuzz(func(t *testing.T, i, most uint8, data []byte) {
		rec := logs[int(i&0x7f)%len(logs)]
		h := &rowsTaker{most: int(most)}
		r := &logReader{handler: h, log: newLayer(rec.flavor), inner: newLayer(rec.flavor)}
		defer r.free()
		if i&0x80 != 0 && len(data) >= replication.EventHeaderSize+replication.BinlogChecksumLength {
			// Most that is changed would not come further.
			data = bytes.Clone(data)
			binary.LittleEndian.PutUint32(data[9:], uint32(len(data)))
			end := len(data) - replication.BinlogChecksumLength
			binary.LittleEndian.PutUint32(data[end:], crc32.ChecksumIEEE(data[:end]))
		}
		for _, b := range [][]byte{rec.format, rec.events[0]} {
			if err := r.event(bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
		}
		d, err := rowcodec.NewDecoder(rec.def, h.last.Event.(*replication.TableMapEvent))
		if err != nil {
			t.Fatal(err)
		}
		h.decoder, h.last = d, nil
		wholeErr := r.event(bytes.NewReader(data))
		if wholeErr == nil && h.last == nil {
			t.Fatal("no error, and nothing came")
		}
		fits := func() {
			t.Helper()
			if cap(r.buf) > 2*(len(data)+fuzzLimit)+eventPiece+512 {
				t.Fatalf("%d bytes for %d", cap(r.buf), len(data))
			}
		}
		fits()
		if len(data) < replication.EventHeaderSize {
			return
		}
		var head replication.EventHeader
		kind := rowsEvent(replication.EventType(data[4]))
		if !kind.is || kind.compressed || head.Decode(data[:replication.EventHeaderSize]) != nil {
			return
		}
		whole := h.last
		for _, h.most = range []int{0, int(most)} {
			copy(r.head[:], data)
			h.over = false
			ev, err := r.rows(bytes.NewReader(data[replication.EventHeaderSize:]), &head, &r.log, kind)
			fits()
			if err != nil || whole == nil || h.most > 0 || h.over {
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
