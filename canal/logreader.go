package canal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// eventHandler takes the events of a log one after the other.
type eventHandler interface {
	// HandleEvent takes an event, whose bytes are valid during the call only if it is one of rows. An error ends the stream.
	HandleEvent(ev *replication.BinlogEvent) error
	// images says what is wanted of a large event of rows: nothing if d is nil, else the rows, of which values of more than
	// most bytes may be cut off behind those; all where most is 0.
	images(tableID uint64) (d *rowcodec.Decoder, most int)
}

// streamOptions say how to open a stream.
type streamOptions struct {
	source    *sqltext.Config
	serverID  uint32
	from      gtidSet
	heartbeat time.Duration
	// found is set when the source has found the place in its log: before that it may say nothing for long.
	found *atomic.Bool
}

// logReader is a connection over which a source sends its log.
type logReader struct {
	conn    *sqltext.Conn
	options streamOptions
	command byte
	arg     string
	parser  *replication.BinlogParser
	handler eventHandler
	sums    bool // events end with a checksum
	head    [replication.EventHeaderSize]byte
	buf     []byte // of events of rows
}

const (
	// largeEvent is from where on an event of rows is looked through as it comes, instead of being kept as a whole.
	largeEvent = 1 << 20
	// keptEvent is the memory for events that is kept from one to the next.
	keptEvent = largeEvent
	// eventPiece is what is read of an event at a time: its memory grows with what comes, not with what is claimed.
	eventPiece = 4 << 20
	// logStart is where every log file begins, and annotated asks MariaDB for the events that hold statements.
	logStart  = 4
	annotated = replication.BINLOG_SEND_ANNOTATE_ROWS_EVENT
)

// openLog connects and makes ready for the log from a set on; its events go to handler. It has to be closed.
func openLog(ctx context.Context, src *source, o streamOptions, handler eventHandler) (*logReader, error) {
	conn, err := sqltext.Dial(ctx, o.source)
	if err != nil {
		return nil, err
	}
	r := &logReader{conn: conn, options: o, parser: replication.NewBinlogParser(), handler: handler}
	r.parser.SetFlavor(src.flavor)
	r.parser.SetVerifyChecksum(true)
	r.parser.SetRowsEventDecodeFunc(rowcodec.Capture)
	if err := r.register(ctx, src); err != nil {
		conn.Close()
		return nil, err
	}
	return r, nil
}

// register tells the source what replicas tell: see the replication protocol in MySQL's source documentation, and "Replica
// registration" in MariaDB's.
func (r *logReader) register(ctx context.Context, src *source) error {
	id := uuid.NewString()
	statements := []string{
		// Events are sent as the file has them; this is of those that the server makes for the stream.
		"SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %[1]d", r.options.heartbeat.Nanoseconds()),
		"SET @slave_uuid = '" + id + "', @replica_uuid = '" + id + "'",
	}
	set := r.options.from.forSyncer()
	if src.flavor == schema.FlavorMariaDB {
		statements = append(statements,
			"SET @mariadb_slave_capability = 4", // GTIDs are understood
			"SET @slave_connect_state = '"+set.String()+"'",
			"SET @slave_gtid_strict_mode = 1")
		var flags uint16
		if src.positionless() {
			// MariaDB 11.4 and later leave positions out of events, so stream.move adds up the sizes of all of them.
			flags = annotated
		}
		r.command, r.arg = mysql.COM_BINLOG_DUMP, string(dumpArgument(flags, r.options.serverID))
	} else {
		r.command, r.arg = mysql.COM_BINLOG_DUMP_GTID, string(dumpGTIDArgument(r.options.serverID, set.Encode()))
	}
	for _, sql := range statements {
		if err := r.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("ask for the log: %w", err)
		}
	}
	if err := r.conn.Command(ctx, mysql.COM_REGISTER_SLAVE, registration(r.options.serverID, r.options.source.User)); err != nil {
		return fmt.Errorf("register as a replica: %w", err)
	}
	return nil
}

// replicaName is the product's name among the source's replicas.
const replicaName = "binlogcache"

// registration is the argument of COM_REGISTER_SLAVE: server id, host, user, password, port, rank and source's id.
func registration(serverID uint32, user string) string {
	user = user[:min(len(user), 255)]
	b := binary.LittleEndian.AppendUint32(nil, serverID)
	b = append(append(b, byte(len(replicaName))), replicaName...)
	b = append(append(b, byte(len(user))), user...)
	return string(append(b, make([]byte, 1+2+4+4)...))
}

// dumpArgument is that of COM_BINLOG_DUMP, with no file: where to begin stands in a variable.
func dumpArgument(flags uint16, serverID uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0)
	b = binary.LittleEndian.AppendUint16(b, flags)
	return binary.LittleEndian.AppendUint32(b, serverID)
}

// dumpGTIDArgument is that of COM_BINLOG_DUMP_GTID: no flags, no file, the first position of one, and the set.
func dumpGTIDArgument(serverID uint32, set []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, 0)
	b = binary.LittleEndian.AppendUint32(b, serverID)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, logStart)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(set)))
	return append(b, set...)
}

// close ends the connection.
func (r *logReader) close() { r.conn.Close() }

// run has the source send its log until something ends it.
func (r *logReader) run(ctx context.Context) error {
	patience := func() time.Duration {
		limit := silentHeartbeats * r.options.heartbeat
		if !r.options.found.Load() {
			limit = max(limit, searchTime)
		}
		return limit
	}
	return r.conn.ReadLog(ctx, r.command, r.arg, patience, func(e *sqltext.LogEvent) error { return r.event(e) })
}

// errFault is a panic of what takes events. What it has left half done is not known.
var errFault = errors.New("a fault of the program")

// handle gives an event to the handler. A panic there ends the stream, and not the process.
func (r *logReader) handle(ev *replication.BinlogEvent) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errFault, p, debug.Stack())
		}
	}()
	return r.handler.HandleEvent(ev)
}

// incoming is an event as it comes; see sqltext.LogEvent.
type incoming interface {
	io.Reader
	Skip() error
}

// event takes one event.
func (r *logReader) event(e incoming) error {
	head := r.head[:]
	if _, err := io.ReadFull(e, head); err != nil {
		return short(err)
	}
	var h replication.EventHeader
	if err := h.Decode(head); err != nil {
		return fmt.Errorf("head of an event: %w", err)
	}
	size := int(h.EventSize)
	if size < len(head) {
		return errEventShort
	}
	var ev *replication.BinlogEvent
	var err error
	kind, rows, plain := rowsEvent(h.EventType)
	switch {
	case plain && size > largeEvent:
		ev, err = r.large(e, head, size, kind)
	case size > largeEvent && isText(h.EventType):
		// The text of a statement whose rows follow: nobody wants it, and a large one least.
		ev = &replication.BinlogEvent{Header: &h, Event: &replication.GenericEvent{}}
		err = e.Skip()
	case rows:
		if r.buf, err = appendEvent(append(r.buf[:0], head...), e, size-len(head)); err == nil {
			ev, err = r.parse(r.buf)
		}
	default:
		// Table maps are kept by the parser, and texts by others.
		data := append(make([]byte, 0, min(size, largeEvent)), head...)
		if data, err = appendEvent(data, e, size-len(head)); err == nil {
			ev, err = r.parse(data)
		}
	}
	if err != nil {
		return err
	}
	if d, ok := ev.Event.(*replication.FormatDescriptionEvent); ok {
		r.sums = d.ChecksumAlgorithm == replication.BINLOG_CHECKSUM_ALG_CRC32
	}
	err = r.handle(ev)
	if cap(r.buf) > keptEvent {
		r.buf = nil
	}
	return err
}

// rowsEvent tells events of rows, and what those do whose images stand in them as they are: plain.
func rowsEvent(t replication.EventType) (kind rowcodec.EventKind, rows, plain bool) {
	switch t {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		return rowcodec.EventInsert, true, true
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2:
		return rowcodec.EventUpdate, true, true
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		return rowcodec.EventDelete, true, true
	case replication.PARTIAL_UPDATE_ROWS_EVENT, replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1,
		replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		return 0, true, false
	}
	return 0, false, false
}

// isText tells events that hold nothing but the text of a statement.
func isText(t replication.EventType) bool {
	return t == replication.ROWS_QUERY_EVENT || t == replication.MARIADB_ANNOTATE_ROWS_EVENT
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

// errEventShort is an event that is shorter than it says.
var errEventShort = errors.New("an event of the log ends early")

// short tells the end of an event from that of the connection.
func short(err error) error {
	switch err {
	case io.EOF, io.ErrUnexpectedEOF: // not what wraps them: that is an error of the connection
		return errEventShort
	}
	return err
}

// parse reads an event that is there as a whole. The parser trusts the lengths in it.
func (r *logReader) parse(data []byte) (ev *replication.BinlogEvent, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an event of the log can't be read: %v", p)
		}
	}()
	if len(data) <= replication.EventHeaderSize {
		return nil, errEventShort
	}
	return r.parser.Parse(data)
}

// large reads a large event of rows without keeping more of it than is wanted.
func (r *logReader) large(e io.Reader, head []byte, size int, kind rowcodec.EventKind) (*replication.BinlogEvent, error) {
	sum := 0
	if r.sums {
		sum = replication.BinlogChecksumLength
	}
	if size < len(head)+sum {
		return nil, errEventShort
	}
	src := &eventBody{r: e, left: size - len(head) - sum, sum: crc32.ChecksumIEEE(head)}
	b := append(r.buf[:0], head...)
	var err error
	take := func(n int) []byte {
		if err != nil {
			return make([]byte, n)
		}
		at := len(b)
		b = append(b, make([]byte, n)...)
		_, err = io.ReadFull(src, b[at:])
		return b[at:]
	}
	// What stands before the images: MySQL's source documentation, Rows_event. The head of events is 10 bytes in version 2.
	id := take(6)
	tableID := uint64(binary.LittleEndian.Uint32(id)) | uint64(binary.LittleEndian.Uint16(id[4:]))<<32
	take(2)
	switch replication.EventType(head[4]) {
	case replication.WRITE_ROWS_EVENTv2, replication.UPDATE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2:
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
	if kind == rowcodec.EventUpdate {
		bitmaps = 2
	}
	take(bitmaps * ((columns + 7) / 8))
	if err != nil {
		return nil, short(err)
	}
	d, most := r.handler.images(tableID)
	if d != nil && most > 0 {
		b, err = d.Cut(b, src, most)
	} else if d != nil {
		b, err = appendEvent(b, src, src.left)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, src)
	}
	if err == nil && r.sums {
		var want [replication.BinlogChecksumLength]byte
		if _, err = io.ReadFull(e, want[:]); err == nil && src.sum != binary.LittleEndian.Uint32(want[:]) {
			err = replication.ErrChecksumMismatch
		}
	}
	if err != nil {
		return nil, short(err)
	}
	// For the parser it is an event of what is there.
	binary.LittleEndian.PutUint32(b[9:], uint32(len(b)+sum))
	if r.sums {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	r.buf = b
	ev, err := r.parse(b)
	if err == nil {
		ev.Header.EventSize = uint32(size)
	}
	return ev, err
}

// eventBody is what is left of an event before its checksum.
type eventBody struct {
	r    io.Reader
	left int
	sum  uint32 // of what has been read
}

// Read implements io.Reader.
func (c *eventBody) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(b[:min(len(b), c.left)])
	c.left -= n
	c.sum = crc32.Update(c.sum, crc32.IEEETable, b[:n])
	return n, err
}

// Len is the number of bytes that are left.
func (c *eventBody) Len() int { return c.left }

// errSeen ends a stream of which one event is enough.
var errSeen = errors.New("an event came")

// firstEvent is a handler that ends the stream with the first event.
type firstEvent struct{}

// HandleEvent implements eventHandler.
func (firstEvent) HandleEvent(*replication.BinlogEvent) error { return errSeen }

func (firstEvent) images(uint64) (*rowcodec.Decoder, int) { return nil, 0 }

// tryStream opens the log at its end and closes it again.
func tryStream(ctx context.Context, cfg *sqltext.Config, c *sqltext.Conn, src *source) error {
	o := streamOptions{source: cfg, serverID: freeServerID(ctx, c), from: src.start, heartbeat: defaultHeartbeat, found: new(atomic.Bool)}
	r, err := openLog(ctx, src, o, firstEvent{})
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.run(ctx); !errors.Is(err, errSeen) {
		return err
	}
	return nil
}
