package canal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// eventHandler takes the events of a log one after the other.
type eventHandler interface {
	// HandleEvent takes an event, whose bytes are valid during the call only if it is one of rows. An error ends the stream.
	HandleEvent(ev *replication.BinlogEvent) error
	// images says what is wanted of an event of rows that is looked through as it comes.
	images(tableID uint64) wanted
	// outgrown says that the images of an event were more than wanted.limit: the event comes without them.
	outgrown()
}

// wanted is what a handler wants of the images of an event: nothing where decoder is nil.
type wanted struct {
	decoder *rowcodec.Decoder
	// most is how many bytes of a row are kept, 0 for all: a larger row may come cut off, see rowcodec.Decoder.Cut.
	most int
	// limit is how many bytes of images are kept.
	limit int
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
	handler eventHandler
	// log is how the log's events are read, inner how those within compressed transactions are.
	log, inner layer
	head       [replication.EventHeaderSize]byte
	next       [1]byte       // what should not be there
	buf        []byte        // of events of rows
	zstd       *zstd.Decoder // of compressed transactions
	zlib       io.ReadCloser // of compressed events
}

const (
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
	r := &logReader{conn: conn, options: o, handler: handler, log: newLayer(src.flavor), inner: newLayer(src.flavor)}
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
func (r *logReader) close() {
	r.conn.Close()
	r.free()
}

// free lets go of what unpacks.
func (r *logReader) free() {
	if r.zstd != nil {
		r.zstd.Close()
	}
}

// run has the source send its log until something ends it.
func (r *logReader) run(ctx context.Context) error {
	patience := func() time.Duration {
		limit := silentHeartbeats * r.options.heartbeat
		if !r.options.found.Load() {
			limit = max(limit, searchTime)
		}
		return limit
	}
	return r.conn.ReadLog(ctx, r.command, r.arg, patience, r.event)
}

// errFault is a panic of what takes events. What it has left half done is not known.
var errFault = errors.New("a fault of the program")

// handle gives an event to the handler, and lets go of its memory. A panic there ends the stream, and not the process.
func (r *logReader) handle(ev *replication.BinlogEvent) (err error) {
	defer func() {
		if cap(r.buf) > keptEvent {
			r.buf = nil
		}
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errFault, p, debug.Stack())
		}
	}()
	return r.handler.HandleEvent(ev)
}

// errSeen ends a stream of which one event is enough.
var errSeen = errors.New("an event came")

// firstEvent is a handler that ends the stream with the first event.
type firstEvent struct{}

// HandleEvent implements eventHandler.
func (firstEvent) HandleEvent(*replication.BinlogEvent) error { return errSeen }

func (firstEvent) images(uint64) wanted { return wanted{} }

func (firstEvent) outgrown() {}

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
