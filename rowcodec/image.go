package rowcodec

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/schema"
)

// Errors of decoding. Both mean that the table in memory can't be carried forward: load its definition and rows anew.
var (
	// ErrShape says that a table map does not describe the table that the decoder was made for.
	ErrShape = errors.New("table map does not fit the table's definition")
	// ErrImage says that row images can't be turned into whole rows: columns are left out (binlog_row_image=MINIMAL or
	// NOBLOB), a JSON value comes as a difference (binlog_row_value_options=PARTIAL_JSON), or the bytes are malformed.
	ErrImage = errors.New("row image cannot be decoded")
)

// maxEventSize bounds what a compressed event may unpack to: the servers' own limit of a packet.
const maxEventSize = 1 << 30

// EventKind is what an event does to its rows.
type EventKind uint8

// The kinds of row events.
const (
	EventInsert EventKind = iota
	EventUpdate
	EventDelete
)

// Capture is a function for BinlogParser.SetRowsEventDecodeFunc that decodes the event's head only and keeps the images, for
// Decoder.DecodeEvent, in e.NdbData: a field that no InnoDB table's event uses. data stays shared.
func Capture(e *replication.RowsEvent, data []byte) (err error) {
	defer func() {
		// DecodeHeader trusts the lengths in the data.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: event head: %v", ErrImage, r)
		}
	}()
	n, err := e.DecodeHeader(data)
	if err != nil {
		return err
	}
	e.NdbData = data[n:]
	return nil
}

// Decoder turns the row images of one table, as one table map describes them, into rows. It serves one goroutine.
type Decoder struct {
	def     *schema.Table
	columns []imageColumn
	shape   shape
	json    int // JSON columns, for the bitmap of partial updates
	builder Builder
	// unpacked is the memory for compressed events.
	unpacked bytes.Buffer
}

// Def returns the definition that the decoder's rows belong to.
func (d *Decoder) Def() *schema.Table { return d.def }

// DecodeEvent calls fn for each row of an event that Capture has taken in, in the event's order. The rows are made in
// arena. An error of fn ends the work and is returned as it is; other errors are ErrImage, wrapped.
//
// The caller has checked Matches(e.Table) since it got the event.
func (d *Decoder) DecodeEvent(h *replication.EventHeader, e *replication.RowsEvent, arena *Arena, fn func(Change) error) error {
	body := e.NdbData
	var kind EventKind
	compressed, partial := false, false
	switch h.EventType {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		kind = EventInsert
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2:
		kind = EventUpdate
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		kind = EventDelete
	case replication.PARTIAL_UPDATE_ROWS_EVENT:
		kind, partial = EventUpdate, true
	case replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:
		kind, compressed = EventInsert, true
	case replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1:
		kind, compressed = EventUpdate, true
	case replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		kind, compressed = EventDelete, true
	default:
		return d.imageError("event type %v is not supported", h.EventType)
	}
	if e.ColumnCount != uint64(len(d.columns)) {
		return d.imageError("%d columns in the event, %d in the table map", e.ColumnCount, len(d.columns))
	}
	if compressed {
		var err error
		if body, err = d.unpack(body); err != nil {
			return d.imageError("compressed event: %w", err)
		}
	}
	return d.Decode(kind, e.ColumnBitmap1, e.ColumnBitmap2, body, partial, arena, fn)
}

// Decode is DecodeEvent on the parts of an event: the bitmaps of columns that the images hold (present2 for the second
// image of an update), and the images. partial says that the event is a PARTIAL_UPDATE_ROWS_EVENT.
func (d *Decoder) Decode(kind EventKind, present1, present2, body []byte, partial bool, arena *Arena, fn func(Change) error) error {
	if err := d.checkPresent(present1); err != nil {
		return err
	}
	if kind == EventUpdate {
		if err := d.checkPresent(present2); err != nil {
			return err
		}
	}
	for len(body) > 0 {
		var change Change
		row, rest, err := d.image(body, arena)
		if err != nil {
			return err
		}
		switch kind {
		case EventInsert:
			change.After = row
		case EventDelete:
			change.Before = row
		default:
			change.Before = row
			if partial {
				if rest, err = d.skipPartial(rest); err != nil {
					return err
				}
			}
			if change.After, rest, err = d.image(rest, arena); err != nil {
				return err
			}
		}
		if len(rest) == len(body) {
			return d.imageError("empty image") // a table without columns, which would be decoded for ever
		}
		body = rest
		if err := fn(change); err != nil {
			return err
		}
	}
	return nil
}

// checkPresent reports images that leave columns out. Bits beyond the last column may have either value.
func (d *Decoder) checkPresent(bitmap []byte) error {
	n := len(d.columns)
	if len(bitmap) < (n+7)/8 {
		return d.imageError("bitmap of %d bytes for %d columns", len(bitmap), n)
	}
	present := 0
	for i, b := range bitmap[:(n+7)/8] {
		if left := n - 8*i; left < 8 {
			b &= 1<<left - 1
		}
		present += bits.OnesCount8(b)
	}
	if present < n {
		return d.imageError("%d of %d columns are left out: set binlog_row_image=FULL", n-present, n)
	}
	return nil
}

// skipPartial reads what stands before the second image of a PARTIAL_UPDATE_ROWS_EVENT: the options, and a bit for each
// JSON column that comes as a difference. An image without such is a whole one.
func (d *Decoder) skipPartial(b []byte) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, d.imageError("ends before its second image")
	}
	options := b[0]
	b = b[1:]
	switch options {
	case 0:
		return b, nil
	case 1:
	default:
		return nil, d.imageError("unknown row value options %#x", options)
	}
	n := (d.json + 7) / 8
	if len(b) < n {
		return nil, d.imageError("ends before its second image")
	}
	for i, c := range b[:n] {
		if left := d.json - 8*i; left < 8 {
			c &= 1<<left - 1
		}
		if c != 0 {
			return nil, d.imageError("a JSON value comes as a difference: set binlog_row_value_options=''")
		}
	}
	return b[n:], nil
}

// unpack decompresses the body of a MariaDB compressed event: a byte whose low bits give the size of the length, the
// length, high byte first, and a zlib stream.
func (d *Decoder) unpack(b []byte) ([]byte, error) {
	if len(b) < 1 {
		return nil, io.ErrUnexpectedEOF
	}
	n := int(b[0] & 7)
	if len(b) < 1+n || n > 4 {
		return nil, fmt.Errorf("length of %d bytes", n)
	}
	size := 0
	for _, c := range b[1 : 1+n] {
		size = size<<8 | int(c)
	}
	if size > maxEventSize {
		return nil, fmt.Errorf("%d bytes are more than a server sends", size)
	}
	z, err := zlib.NewReader(bytes.NewReader(b[1+n:]))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	d.unpacked.Reset()
	// The buffer grows with what comes, not with what is claimed.
	got, err := io.Copy(&d.unpacked, io.LimitReader(z, int64(size)+1))
	if err == nil && got != int64(size) {
		err = fmt.Errorf("%d bytes instead of %d", got, size)
	}
	return d.unpacked.Bytes(), err
}

// image decodes one row image into arena.
func (d *Decoder) image(data []byte, arena *Arena) (row Row, rest []byte, err error) {
	n := len(d.columns)
	nulls := data
	if len(data) < (n+7)/8 {
		return nil, nil, d.imageError("ends within its NULL bits")
	}
	data = data[(n+7)/8:]
	b := &d.builder
	b.Reset()
	for i := range d.columns {
		if nulls[i>>3]&(1<<(i&7)) != 0 {
			b.Null()
			continue
		}
		size, err := d.columns[i].decode(b, data)
		if err != nil {
			return nil, nil, d.imageError("column %q: %w", d.def.Columns[i].Name, err)
		}
		data = data[size:]
		b.End()
	}
	return arena.Row(b), data, nil
}

func (d *Decoder) imageError(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrImage, d.def.FullName(), fmt.Errorf(format, args...))
}
