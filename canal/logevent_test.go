package canal

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// made is a log that is made by hand: of a table s.t with a number and a LONGBLOB.
type made struct {
	*logReader
	t       *testing.T
	decoder *rowcodec.Decoder
	most    int
	limit   int

	events []*replication.BinlogEvent
	rows   []rowcodec.Change // of the last event of rows
	over   int
}

func (m *made) HandleEvent(ev *replication.BinlogEvent) error {
	m.events = append(m.events, ev)
	switch e := ev.Event.(type) {
	case *replication.TableMapEvent:
		def := &schema.Table{Schema: "s", Name: "t", Columns: []schema.Column{
			{Name: "id", Kind: schema.KindInt, Bytes: 4}, {Name: "v", Kind: schema.KindBlob, Bytes: 4, Nullable: true},
		}}
		d, err := rowcodec.NewDecoder(def, e)
		m.decoder = d
		return err
	case *replication.RowsEvent:
		m.rows = nil
		return m.decoder.DecodeEvent(ev.Header, e, new(rowcodec.Arena), func(c rowcodec.Change) error {
			m.rows = append(m.rows, c)
			return nil
		})
	}
	return nil
}

func (m *made) images(uint64) wanted { return wanted{m.decoder, m.most, m.limit} }

func (m *made) outgrown() { m.over++ }

// newMade makes a log that has begun with its description and a table map.
func newMade(t *testing.T) *made {
	t.Helper()
	m := &made{t: t, most: 1000, limit: 100_000}
	m.logReader = &logReader{handler: m, log: newLayer(schema.FlavorMySQL), inner: newLayer(schema.FlavorMySQL)}
	t.Cleanup(m.free)
	body := append([]byte{4, 0}, make([]byte, 50)...)
	copy(body[2:], "9.7.0")
	body = append(append(body, 0, 0, 0, 0, replication.EventHeaderSize), make([]byte, 200)...)
	for kind, size := range map[replication.EventType]byte{
		replication.TABLE_MAP_EVENT: 8, replication.WRITE_ROWS_EVENTv1: 8, replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1: 8,
	} {
		body[57+int(kind)-1] = size
	}
	m.must(logEvent(replication.FORMAT_DESCRIPTION_EVENT, append(body, byte(replication.BINLOG_CHECKSUM_ALG_CRC32))))
	m.must(logEvent(replication.TABLE_MAP_EVENT, tableMap))
	return m
}

// Bodies of events: a table map, a row of 8 MiB of that table, and the end of a transaction.
var (
	tableMap = []byte{7, 0, 0, 0, 0, 0, 1, 0, 1, 's', 0, 1, 't', 0, 2, 3, 252, 1, 4, 2}
	rowsHead = []byte{7, 0, 0, 0, 0, 0, 0, 0, 2, 0xff}
	largeRow = append([]byte{0, 1, 0, 0, 0, 0, 0, 0x80, 0}, make([]byte, 8<<20)...)
	xid      = make([]byte, 8)
)

func (m *made) must(data []byte) {
	m.t.Helper()
	if err := m.event(bytes.NewReader(data)); err != nil {
		m.t.Fatal(err)
	}
}

// unsummed is an event without its checksum.
func unsummed(data []byte) []byte {
	data = bytes.Clone(data[:len(data)-replication.BinlogChecksumLength])
	binary.LittleEndian.PutUint32(data[9:], uint32(len(data)))
	return data
}

// payload is a compressed transaction of those events.
func payload(t *testing.T, compression byte, events ...[]byte) []byte {
	t.Helper()
	var all []byte
	for _, e := range events {
		all = append(all, unsummed(e)...)
	}
	body := []byte{2, 1, compression, 9, 2, 'x', 'x', 0}
	if compression == payloadPlain {
		body = []byte{2, 3, 0xfc, payloadPlain, 0, 0}
		return logEvent(replication.TRANSACTION_PAYLOAD_EVENT, append(body, all...))
	}
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return logEvent(replication.TRANSACTION_PAYLOAD_EVENT, append(body, z.EncodeAll(all, nil)...))
}

func packed(t *testing.T, size int, images []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	if _, err := z.Write(images); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	body := binary.BigEndian.AppendUint32(append(bytes.Clone(rowsHead), 4), uint32(size))
	return logEvent(replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1, append(body, b.Bytes()...))
}

// allocated is how much memory f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What is compressed takes the memory that is wanted of it, and not what it has unpacked.
func TestUnpackedAsItComes(t *testing.T) {
	plainRows := logEvent(replication.WRITE_ROWS_EVENTv1, append(bytes.Clone(rowsHead), largeRow...))
	for name, data := range map[string][]byte{
		"MySQL":   payload(t, payloadZstd, logEvent(replication.TABLE_MAP_EVENT, tableMap), plainRows, logEvent(replication.XID_EVENT, xid)),
		"plain":   payload(t, payloadPlain, logEvent(replication.TABLE_MAP_EVENT, tableMap), plainRows, logEvent(replication.XID_EVENT, xid)),
		"MariaDB": packed(t, len(largeRow), largeRow),
	} {
		t.Run(name, func(t *testing.T) {
			m := newMade(t)
			if n := allocated(func() { m.must(data) }); n > 4<<20 {
				t.Errorf("%d bytes of memory", n)
			}
			if len(m.rows) != 1 || m.over != 0 {
				t.Fatalf("%d rows, over %d", len(m.rows), m.over)
			}
			if v, _ := m.rows[0].After.Value(1); len(v) != 1001 {
				t.Errorf("a value of %d bytes", len(v))
			}
			if last := m.events[len(m.events)-1].Header; name != "MariaDB" && (last.EventType != replication.XID_EVENT || last.LogPos != 0) {
				t.Errorf("at the end %+v", last)
			}
			m.most = 0
			if n := allocated(func() { m.must(data) }); n > 4<<20 {
				t.Errorf("%d bytes of memory", n)
			}
			if m.over != 1 || len(m.rows) != 0 {
				t.Errorf("over %d, %d rows", m.over, len(m.rows))
			}
			m.limit = len(largeRow)
			m.must(data)
			if len(m.rows) != 1 || len(m.rows[0].After) < 8<<20 {
				t.Errorf("%d rows", len(m.rows))
			}
			if n := cap(m.buf); n > keptEvent {
				t.Errorf("%d bytes are kept", n)
			}
		})
	}
}

// Many rows of one event, none of them too large, are not more than the limit either.
func TestManyRowsOfAnEvent(t *testing.T) {
	m := newMade(t)
	row := append([]byte{0, 1, 0, 0, 0, 0, 1, 0, 0}, make([]byte, 256)...)
	data := logEvent(replication.WRITE_ROWS_EVENTv1, append(bytes.Clone(rowsHead), bytes.Repeat(row, 20_000)...))
	if n := allocated(func() { m.must(data) }); n > 2<<20 || m.over != 1 || len(m.rows) != 0 {
		t.Errorf("%d bytes of memory, over %d, %d rows", n, m.over, len(m.rows))
	}
}

// What a log may not have is an error, before anything is handled that ends a transaction; it takes no memory and tells
// nothing of the rows.
func TestHostileEvents(t *testing.T) {
	table := logEvent(replication.TABLE_MAP_EVENT, tableMap)
	end := logEvent(replication.XID_EVENT, xid)
	rows := logEvent(replication.WRITE_ROWS_EVENTv1, append(bytes.Clone(rowsHead), 2, 1, 0, 0, 0))
	changed := func(data []byte, at int, b byte) []byte {
		data = bytes.Clone(data)
		data[(at+len(data))%len(data)] ^= b
		return data
	}
	claims := func(data []byte, size uint32) []byte {
		data = bytes.Clone(data)
		binary.LittleEndian.PutUint32(data[9:], size)
		return data
	}
	whole := payload(t, payloadZstd, table, rows, end)
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"a byte too many":              {append(bytes.Clone(end), 0), errEventLong},
		"a byte too few":               {end[:len(end)-1], errEventShort},
		"a head that is too short":     {end[:18], errEventShort},
		"4 GB that do not come":        {claims(rows, 1<<32-1), errEventShort},
		"4 GB of a text":               {claims(logEvent(replication.QUERY_EVENT, nil), 1<<32-1), errEventShort},
		"4 GB of an unknown event":     {claims(logEvent(200, nil), 1<<32-1), errEventShort},
		"less than a head":             {claims(end, 3), nil},
		"another byte":                 {changed(rows, -8, 1), nil},
		"labels":                       {logEvent(replication.TABLE_MAP_EVENT, append(bytes.Clone(tableMap), enumLabels, 9, 0xfe, 0, 0, 0, 0, 1, 0, 0, 0)), errCounts},
		"columns":                      {logEvent(replication.TABLE_MAP_EVENT, append(bytes.Clone(tableMap[:14]), 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0)), nil},
		"a type that is none":          {logEvent(replication.TABLE_MAP_EVENT, append(append(bytes.Clone(tableMap[:15]), 247, 252), tableMap[17:]...)), nil},
		"too many columns":             {packed(t, 5, nil)[:0], errEventShort},
		"images longer than they say":  {packed(t, 5, make([]byte, 10)), nil},
		"images shorter than they say": {packed(t, 1<<32-1, []byte{2, 1, 0, 0, 0}), errEventShort},
		"no zlib":                      {changed(packed(t, 5, []byte{2, 1, 0, 0, 0}), replication.EventHeaderSize+len(rowsHead)+5, 0xff), nil},
		"a payload in another way":     {payload(t, 7, table), nil},
		"a payload without an end":     {logEvent(replication.TRANSACTION_PAYLOAD_EVENT, []byte{1, 200, 1}), errEventShort},
		"a payload that is no zstd":    {logEvent(replication.TRANSACTION_PAYLOAD_EVENT, []byte{2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7}), nil},
		"a payload within a payload":   {payload(t, payloadZstd, whole), nil},
		"a payload with an end":        {append(bytes.Clone(whole), 0), errEventLong},
		"a payload, changed":           {changed(whole, -1, 1), replication.ErrChecksumMismatch},
		"a payload cut off":            {claims(whole, uint32(len(whole)+1)), errEventShort},
		"half an event in a payload":   {payload(t, payloadPlain, table, rows, end[:19]), errEventShort},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMade(t)
			n := len(m.events)
			var err error
			if used := allocated(func() { err = m.event(bytes.NewReader(c.data)) }); used > 8<<20 {
				t.Errorf("%d bytes of memory", used)
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v", err)
			} else if len(err.Error()) > 200 || strings.Contains(err.Error(), `\x`) {
				t.Errorf("error of %d bytes: %.200q", len(err.Error()), err)
			}
			for _, ev := range m.events[n:] {
				if ev.Header.EventType == replication.XID_EVENT {
					t.Error("the transaction has ended")
				}
			}
		})
	}
}

// A checksum is no part of a table map, whatever it looks like.
func TestChecksumsOfTableMaps(t *testing.T) {
	m := newMade(t)
	body := bytes.Clone(tableMap)
	for i := range 100_000 {
		binary.LittleEndian.PutUint32(body, uint32(i))
		if _, err := m.log.parse(logEvent(replication.TABLE_MAP_EVENT, body)); err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
	}
}

// Events that hold more than is wanted of them are passed over, and so are statements that are very large: those can have
// changed anything.
func TestPassedEvents(t *testing.T) {
	m := newMade(t)
	query := append(make([]byte, 8), 1, 0, 0, 0, 0, 's', 0)
	for name, data := range map[string][]byte{
		"a list":                 logEvent(replication.MARIADB_GTID_LIST_EVENT, []byte{0xff, 0xff, 0xff, 0x0f}),
		"a text":                 logEvent(replication.ROWS_QUERY_EVENT, make([]byte, 3<<20)),
		"an unknown event":       logEvent(200, make([]byte, 3<<20)),
		"an end":                 logEvent(replication.STOP_EVENT, nil),
		"a statement":            logEvent(replication.QUERY_EVENT, append(bytes.Clone(query), bytes.Repeat([]byte("x"), 3<<20)...)),
		"a compressed statement": logEvent(replication.MARIADB_QUERY_COMPRESSED_EVENT, append(bytes.Clone(query), 7, 1, 0, 0, 0, 0, 0, 0)),
	} {
		if n := allocated(func() { m.must(data) }); n > 1<<20 {
			t.Errorf("%s: %d bytes of memory", name, n)
		}
		ev := m.events[len(m.events)-1]
		if q, ok := ev.Event.(*replication.QueryEvent); ok {
			if st := classify(q.Query, q.StatusVars); st.effect != effectAll || !st.ddl {
				t.Errorf("%s: %+v", name, st)
			}
		} else if strings.Contains(name, "statement") {
			t.Errorf("%s: %T", name, ev.Event)
		}
	}
}

// An error of the connection stays one, whatever was being unpacked.
func TestConnectionLostWithinEvent(t *testing.T) {
	lost := errors.New("lost")
	data := payload(t, payloadZstd, logEvent(replication.TABLE_MAP_EVENT, tableMap), logEvent(replication.XID_EVENT, xid))
	rows := packed(t, 10, make([]byte, 10))
	for _, data := range [][]byte{data, rows} {
		for n := range data {
			m := newMade(t)
			if err := m.event(io.MultiReader(bytes.NewReader(data[:n]), &failing{lost})); !errors.Is(err, lost) {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
