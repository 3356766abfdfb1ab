package canal

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"

	"github.com/binlogcache/binlogcache/rowcodec"
)

const (
	// largeEvent is from where on an event is looked through as it comes, instead of being kept as a whole.
	largeEvent = 1 << 20
	// keptEvent is the memory for events that is kept from one to the next.
	keptEvent = largeEvent
	// eventPiece is what is read of an event at a time: its memory grows with what comes, not with what is claimed.
	eventPiece = 4 << 20
	// mostWindow is the largest window of zstd: that of its highest level.
	mostWindow = 128 << 20
)

var (
	// errEventShort is an event that is shorter than it says, errEventLong one that does not end where it says.
	errEventShort = errors.New("an event of the log ends early")
	errEventLong  = errors.New("an event of the log is longer than it says")
)

// layer is how events are read that follow one format description.
type layer struct {
	parser *replication.BinlogParser
	sums   bool // events end with a checksum
}

func newLayer(flavor string) layer {
	p := replication.NewBinlogParser()
	p.SetFlavor(flavor)
	p.SetVerifyChecksum(true)
	p.SetRowsEventDecodeFunc(rowcodec.Capture)
	return layer{parser: p}
}

// event takes one event, which ends where e does. Nothing is handled before it is known to be whole.
func (r *logReader) event(e io.Reader) error {
	h, err := r.header(e)
	if err != nil {
		return err
	}
	if h.EventType == replication.TRANSACTION_PAYLOAD_EVENT {
		return r.payload(e, h)
	}
	ev, err := r.read(e, h, &r.log)
	if err == nil {
		err = r.ended(e)
	}
	if err != nil {
		return err
	}
	if d, ok := ev.Event.(*replication.FormatDescriptionEvent); ok {
		if err := r.describe(ev.RawData, d); err != nil {
			return err
		}
	}
	return r.handle(ev)
}

// header reads the head of an event, and keeps it in r.head.
func (r *logReader) header(e io.Reader) (*replication.EventHeader, error) {
	if _, err := io.ReadFull(e, r.head[:]); err != nil {
		return nil, short(err)
	}
	h := new(replication.EventHeader)
	if err := h.Decode(r.head[:]); err != nil {
		return nil, fmt.Errorf("head of an event of the log: %w", err)
	}
	return h, nil
}

// ended is an error when there is more of e.
func (r *logReader) ended(e io.Reader) error {
	switch n, err := e.Read(r.next[:]); {
	case n > 0:
		return errEventLong
	case err != io.EOF:
		return err
	}
	return nil
}

// describe takes the description of the format of the events to come. Those within compressed transactions have no
// checksums.
func (r *logReader) describe(data []byte, d *replication.FormatDescriptionEvent) error {
	r.log.sums = d.ChecksumAlgorithm == replication.BINLOG_CHECKSUM_ALG_CRC32
	inner := append([]byte(nil), data...)
	inner[len(inner)-replication.BinlogChecksumLength-1] = byte(replication.BINLOG_CHECKSUM_ALG_OFF)
	_, err := r.inner.parse(inner)
	return err
}

// read reads the rest of an event whose head is in r.head.
func (r *logReader) read(e io.Reader, h *replication.EventHeader, l *layer) (*replication.BinlogEvent, error) {
	size := int(h.EventSize)
	rows := rowsEvent(h.EventType)
	query := h.EventType == replication.QUERY_EVENT || h.EventType == replication.MARIADB_QUERY_COMPRESSED_EVENT
	switch {
	case rows.compressed || rows.is && size > largeEvent:
		return r.rows(e, h, l, rows)
	case query && size > largeEvent:
		return l.pass(e, h, r.head[:], largeQuery)
	case isPassed(h.EventType) || size > largeEvent && h.EventType != replication.TABLE_MAP_EVENT:
		// No others are so large; without what is in them they count as unknown.
		return l.pass(e, h, r.head[:], new(replication.GenericEvent))
	case rows.is: // and small
		var err error
		if r.buf, err = appendEvent(append(r.buf[:0], r.head[:]...), e, size-len(r.head)); err != nil {
			return nil, err
		}
		return l.parse(r.buf)
	}
	// Table maps are kept by the parser, and texts by others.
	data, err := appendEvent(append(make([]byte, 0, min(size, largeEvent)), r.head[:]...), e, size-len(r.head))
	if err != nil {
		return nil, err
	}
	if h.EventType == replication.MARIADB_QUERY_COMPRESSED_EVENT && unpackedText(data) > largeEvent {
		return l.pass(bytes.NewReader(data[len(r.head):]), h, r.head[:], largeQuery)
	}
	return l.parse(data)
}

// rowsType is what the type of an event says of it.
type rowsType struct {
	is bool // it has rows
	// plain is the type of an event with the same rows whose images are not compressed.
	plain               replication.EventType
	kind                rowcodec.EventKind
	compressed, partial bool
}

func rowsEvent(t replication.EventType) rowsType {
	switch t {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		return rowsType{is: true, plain: t, kind: rowcodec.EventInsert}
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2:
		return rowsType{is: true, plain: t, kind: rowcodec.EventUpdate}
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		return rowsType{is: true, plain: t, kind: rowcodec.EventDelete}
	case replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:
		return rowsType{is: true, plain: replication.WRITE_ROWS_EVENTv1, kind: rowcodec.EventInsert, compressed: true}
	case replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1:
		return rowsType{is: true, plain: replication.UPDATE_ROWS_EVENTv1, kind: rowcodec.EventUpdate, compressed: true}
	case replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		return rowsType{is: true, plain: replication.DELETE_ROWS_EVENTv1, kind: rowcodec.EventDelete, compressed: true}
	case replication.PARTIAL_UPDATE_ROWS_EVENT:
		return rowsType{is: true, plain: t, kind: rowcodec.EventUpdate, partial: true}
	}
	return rowsType{}
}

// isPassed tells events of which nobody wants more than the head.
func isPassed(t replication.EventType) bool {
	switch t {
	case replication.ROWS_QUERY_EVENT, replication.MARIADB_ANNOTATE_ROWS_EVENT, replication.PREVIOUS_GTIDS_EVENT,
		replication.MARIADB_GTID_LIST_EVENT, replication.MARIADB_BINLOG_CHECKPOINT_EVENT, replication.INTVAR_EVENT,
		replication.RAND_EVENT, replication.USER_VAR_EVENT, replication.BEGIN_LOAD_QUERY_EVENT, replication.APPEND_BLOCK_EVENT:
		return true
	}
	return false
}

// largeQuery stands for a statement that is larger than what is kept of one: nobody knows what it does.
var largeQuery = &replication.QueryEvent{Query: []byte("A LARGE STATEMENT")}

// pass reads over an event of which no more than the head is wanted.
func (l *layer) pass(e io.Reader, h *replication.EventHeader, head []byte, stead replication.Event) (*replication.BinlogEvent, error) {
	body, err := l.body(e, h, head)
	if err == nil {
		err = body.finish()
	}
	return &replication.BinlogEvent{Header: h, Event: stead}, err
}

// appendEvent reads n bytes of an event.
func appendEvent(b []byte, e io.Reader, n int) ([]byte, error) {
	for n > 0 {
		at, piece := len(b), min(n, eventPiece)
		if cap(b)-at < piece {
			// What is claimed is not made room for at once, but in few steps.
			grown := make([]byte, at, at+min(n, max(piece, at)))
			copy(grown, b)
			b = grown
		}
		b = b[:at+piece]
		if _, err := io.ReadFull(e, b[at:]); err != nil {
			return b, short(err)
		}
		n -= piece
	}
	return b, nil
}

// short tells the end of an event from that of the connection.
func short(err error) error {
	switch err {
	case io.EOF, io.ErrUnexpectedEOF: // not what wraps them: that is an error of the connection
		return errEventShort
	}
	return err
}

// parse reads an event that is there as a whole. The parser trusts the lengths in it, and its errors quote the event.
func (l *layer) parse(data []byte) (ev *replication.BinlogEvent, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an event of the log can't be read: %v", p)
		}
	}()
	if len(data) < replication.EventHeaderSize {
		return nil, errEventShort
	}
	if data[4] == byte(replication.TABLE_MAP_EVENT) {
		end := len(data)
		if l.sums {
			end = max(end-replication.BinlogChecksumLength, replication.EventHeaderSize)
		}
		if err := checkTableMap(data[:end]); err != nil {
			return nil, err
		}
	}
	ev, err = l.parser.Parse(data)
	if e := (*replication.EventError)(nil); errors.As(err, &e) {
		err = fmt.Errorf("an event of type %d at %d can't be read: %s", e.Header.EventType, e.Header.LogPos, e.Err)
	}
	return ev, err
}

// rows reads an event of rows without keeping more of it than is wanted, as an event whose images stand in it as they are.
func (r *logReader) rows(e io.Reader, h *replication.EventHeader, l *layer, t rowsType) (*replication.BinlogEvent, error) {
	body, err := l.body(e, h, r.head[:])
	if err != nil {
		return nil, err
	}
	b := append(r.buf[:0], r.head[:]...)
	take := func(n int) []byte {
		at := len(b)
		b = append(b, make([]byte, n)...)
		if err == nil {
			_, err = io.ReadFull(body, b[at:])
		}
		return b[at:]
	}
	// What stands before the images: MySQL's source documentation, Rows_event. The head of events is 10 bytes in version 2.
	id := take(6)
	tableID := uint64(binary.LittleEndian.Uint32(id)) | uint64(binary.LittleEndian.Uint16(id[4:]))<<32
	take(2)
	switch h.EventType {
	case replication.WRITE_ROWS_EVENTv2, replication.UPDATE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT:
		take(max(int(binary.LittleEndian.Uint16(take(2)))-2, 0))
	}
	count := take(1)[0]
	columns := int(count)
	switch {
	case count == 0xfc:
		columns = int(binary.LittleEndian.Uint16(take(2)))
	case count > 0xfc:
		return nil, errors.New("an event of the log has more columns than a table may have")
	}
	bitmaps := 1
	if t.kind == rowcodec.EventUpdate {
		bitmaps = 2
	}
	take(bitmaps * ((columns + 7) / 8))
	if err != nil {
		return nil, short(err)
	}
	if b, err = r.images(b, body, r.handler.images(tableID), t); err != nil {
		return nil, short(body.cause(err))
	}
	if err := body.finish(); err != nil {
		return nil, err
	}
	// For the parser it is an event of what is there.
	sum := 0
	if l.sums {
		sum = replication.BinlogChecksumLength
	}
	b[4] = byte(t.plain)
	binary.LittleEndian.PutUint32(b[9:], uint32(len(b)+sum))
	if l.sums {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	r.buf = b
	ev, err := l.parse(b)
	if err == nil {
		ev.Header.EventSize = h.EventSize // the place in the log is counted with it
	}
	return ev, err
}

// images appends what is wanted of an event's images.
func (r *logReader) images(b []byte, body *eventBody, w wanted, t rowsType) (_ []byte, err error) {
	if w.decoder == nil {
		return b, nil
	}
	var src rowcodec.Source = body
	if t.compressed {
		if src, err = r.inflate(body); err != nil {
			return b, err
		}
	}
	at := len(b)
	switch {
	case w.most > 0 && !t.partial:
		b, err = w.decoder.Cut(b, src, w.most, w.limit)
	case src.Len() > w.limit:
		err = rowcodec.ErrOver
	default:
		b, err = appendEvent(b, src, src.Len())
	}
	if errors.Is(err, rowcodec.ErrOver) {
		r.handler.outgrown()
		return b[:at], nil
	}
	if err == nil && t.compressed && src.Len() == 0 {
		err = r.ended(src.(*inflated).r) // which compares checksums
	}
	return b, err
}

// inflated is what a compressed event holds.
type inflated struct {
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (c *inflated) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(b[:min(len(b), c.left)])
	c.left -= n
	if err == io.EOF && c.left == 0 && n > 0 {
		err = nil
	}
	return n, err
}

// Len implements rowcodec.Source.
func (c *inflated) Len() int { return c.left }

// inflate reads what stands before the images of a compressed event: a byte whose low bits give the size of the length, and
// the length, high byte first. A zlib stream follows.
func (r *logReader) inflate(body *eventBody) (*inflated, error) {
	var b [8]byte
	if _, err := io.ReadFull(body, b[:1]); err != nil {
		return nil, err
	}
	n := int(b[0] & 7)
	if n > 4 {
		return nil, fmt.Errorf("a compressed event of the log has a length of %d bytes", n)
	}
	if _, err := io.ReadFull(body, b[8-n:]); err != nil {
		return nil, err
	}
	b[0] = 0
	src := &inflated{left: int(binary.BigEndian.Uint64(b[:]))}
	var err error
	if r.zlib == nil {
		r.zlib, err = zlib.NewReader(body)
	} else {
		err = r.zlib.(zlib.Resetter).Reset(body, nil)
	}
	src.r = r.zlib
	return src, err
}

// Fields of what stands before a compressed transaction, and its compressions: mysql::binlog::event::Transaction_payload_event
// in MySQL's source documentation.
const (
	payloadEnd         = 0
	payloadCompression = 2
	payloadZstd        = 0
	payloadPlain       = 255
)

// payload takes a compressed transaction. Its events are read as they come, and the last one, which ends the
// transaction, is handled when all is known to be whole.
func (r *logReader) payload(e io.Reader, h *replication.EventHeader) error {
	body, err := r.log.body(e, h, r.head[:])
	if err != nil {
		return err
	}
	src, err := r.unpack(body)
	if err != nil {
		return short(body.cause(err))
	}
	if err := r.handle(&replication.BinlogEvent{Header: h, Event: &replication.TransactionPayloadEvent{}}); err != nil {
		return err
	}
	var held *replication.BinlogEvent
	for {
		if _, err := io.ReadFull(src, r.head[:1]); err == io.EOF {
			break
		} else if err != nil {
			return short(body.cause(err))
		}
		if held != nil {
			if err := r.handle(held); err != nil {
				return err
			}
			held = nil
		}
		ev, err := r.within(src)
		if err != nil {
			return body.cause(err)
		}
		if !rowsEvent(ev.Header.EventType).is {
			held = ev
		} else if err := r.handle(ev); err != nil {
			return err
		}
	}
	if err := body.finish(); err != nil {
		return err
	}
	if err := r.ended(e); err != nil || held == nil {
		return err
	}
	return r.handle(held)
}

// within reads an event of a compressed transaction of which the first byte is in r.head. It has no place in the log.
func (r *logReader) within(src io.Reader) (*replication.BinlogEvent, error) {
	if _, err := io.ReadFull(src, r.head[1:]); err != nil {
		return nil, short(err)
	}
	h := new(replication.EventHeader)
	if err := h.Decode(r.head[:]); err != nil {
		return nil, fmt.Errorf("head of an event of a compressed transaction: %w", err)
	}
	switch h.EventType {
	case replication.TRANSACTION_PAYLOAD_EVENT, replication.FORMAT_DESCRIPTION_EVENT, replication.ROTATE_EVENT:
		return nil, fmt.Errorf("a compressed transaction has an event of type %d", h.EventType)
	}
	ev, err := r.read(src, h, &r.inner)
	if err == nil {
		ev.Header.LogPos = 0
	}
	return ev, err
}

// unpack reads what stands before the events of a compressed transaction, and gives those.
func (r *logReader) unpack(body *eventBody) (io.Reader, error) {
	compression := uint64(payloadPlain)
	for {
		field, err := readInteger(body)
		if err != nil {
			return nil, err
		}
		if field == payloadEnd {
			break
		}
		size, err := readInteger(body)
		if err != nil {
			return nil, err
		}
		if size > uint64(body.left) {
			return nil, errEventShort
		}
		after := body.left - int(size)
		if field == payloadCompression {
			if compression, err = readInteger(body); err != nil {
				return nil, err
			}
		}
		if body.left < after {
			return nil, errEventShort
		}
		if _, err := io.CopyN(io.Discard, body, int64(body.left-after)); err != nil {
			return nil, err
		}
	}
	switch compression {
	case payloadPlain:
		return body, nil
	case payloadZstd:
	default:
		return nil, fmt.Errorf("a transaction is compressed in the unknown way %d", compression)
	}
	if r.zstd == nil {
		// One goroutine, which is this one: the stream's.
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		if err != nil {
			return nil, err
		}
		r.zstd = z
	}
	return r.zstd, r.zstd.Reset(body)
}

// readInteger reads an integer of variable length, as the protocol has them.
func readInteger(src io.Reader) (uint64, error) {
	var b [9]byte
	if _, err := io.ReadFull(src, b[:1]); err != nil {
		return 0, err
	}
	n := 0
	switch b[0] {
	case 0xfb, 0xff:
		return 0, errors.New("an event of the log has no integer where one should be")
	case 0xfc:
		n = 2
	case 0xfd:
		n = 3
	case 0xfe:
		n = 8
	default:
		return uint64(b[0]), nil
	}
	_, err := io.ReadFull(src, b[1:1+n])
	return binary.LittleEndian.Uint64(b[1:]), err
}

// eventBody is what is left of an event before its checksum.
type eventBody struct {
	r    io.Reader
	left int
	sums bool
	sum  uint32 // of what has been read
	err  error  // of r
}

// body is what an event holds behind its head.
func (l *layer) body(e io.Reader, h *replication.EventHeader, head []byte) (*eventBody, error) {
	c := &eventBody{r: e, left: int(h.EventSize) - len(head), sums: l.sums}
	if l.sums {
		c.left -= replication.BinlogChecksumLength
		c.sum = crc32.ChecksumIEEE(head)
	}
	if c.left < 0 {
		return nil, errEventShort
	}
	return c, nil
}

// Read implements io.Reader.
func (c *eventBody) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(b[:min(len(b), c.left)])
	c.left -= n
	if c.sums {
		c.sum = crc32.Update(c.sum, crc32.IEEETable, b[:n])
	}
	if err == io.EOF && c.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// Len is the number of bytes that are left.
func (c *eventBody) Len() int { return c.left }

// cause is the error of the connection, if there was one, in place of what others have made of it.
func (c *eventBody) cause(err error) error {
	if c.err != nil {
		return short(c.err)
	}
	return err
}

// finish reads the rest, and compares the checksum.
func (c *eventBody) finish() error {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return short(err)
	}
	if !c.sums {
		return nil
	}
	var want [replication.BinlogChecksumLength]byte
	if _, err := io.ReadFull(c.r, want[:]); err != nil {
		return short(err)
	}
	if c.sum != binary.LittleEndian.Uint32(want[:]) {
		return replication.ErrChecksumMismatch
	}
	return nil
}
