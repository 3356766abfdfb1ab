package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// A file of rows is a head and blocks. A block is the length of its payload, the number of its rows, the checksum of both
// and the payload, and the payload: each row's length as a uvarint, and the row. A block without rows is the last: its
// payload is the number of all rows. All numbers are little-endian.
const (
	rowsMagic   = "blcrows\x01"
	headBytes   = 12
	blockBytes  = 256 << 10 // aimed at
	mostBlock   = 1 << 31   // a row that is longer can't be
	lastPayload = 8
	// mostPieces is how many blocks are in memory at a time when they are read: one for each of the three goroutines, and one on its way.
	mostPieces = 4
	// keptBlock is the largest memory of a block that is used again.
	keptBlock = 4 * blockBytes
)

// TableWriter writes the rows of one table.
type TableWriter struct {
	round *Round
	def   *schema.Table
	name  string
	file  *os.File
	block []byte // payload
	rows  uint32
	total uint64
}

// Table begins the file of a table's rows. The writer must be closed, or dropped.
func (r *Round) Table(def *schema.Table) (*TableWriter, error) {
	w := &TableWriter{round: r, def: def, name: "rows-" + r.image + "-" + strconv.Itoa(len(r.all))}
	var err error
	if w.file, err = os.OpenFile(filepath.Join(r.dir.path, w.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if _, err = w.file.Write(rowsHead(r.image, len(r.all))); err != nil {
		w.Drop()
		return nil, err
	}
	return w, nil
}

// rowsHead ties a file to its image and to its place in the manifest.
func rowsHead(image string, place int) []byte {
	b := append([]byte(rowsMagic), image...)
	return binary.LittleEndian.AppendUint32(b, uint32(place))
}

// Add writes a row, which is copied.
func (w *TableWriter) Add(row rowcodec.Row) error {
	if len(w.block) > 0 && len(w.block)+len(row) > blockBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.block = binary.AppendUvarint(w.block, uint64(len(row)))
	w.block = append(w.block, row...)
	w.rows++
	w.total++
	return nil
}

func (w *TableWriter) flush() error {
	if w.rows == 0 {
		return nil
	}
	err := w.write(w.block, w.rows)
	w.block, w.rows = w.block[:0], 0
	return err
}

func (w *TableWriter) write(payload []byte, rows uint32) error {
	var head [headBytes]byte
	binary.LittleEndian.PutUint32(head[0:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[4:], rows)
	binary.LittleEndian.PutUint32(head[8:], blockSum(head[:8], payload))
	if _, err := w.file.Write(head[:]); err != nil {
		return err
	}
	_, err := w.file.Write(payload)
	return err
}

func blockSum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// Close ends the file, and makes the table part of the image. After an error it is not.
func (w *TableWriter) Close() error {
	err := w.flush()
	if err == nil {
		err = w.write(binary.LittleEndian.AppendUint64(nil, w.total), 0)
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return errors.Join(err, os.Remove(w.file.Name()))
	}
	w.round.all = append(w.round.all, tableManifest{Def: w.def, File: w.name, Rows: w.total})
	return nil
}

// Drop removes the file: the table is no part of the image.
func (w *TableWriter) Drop() {
	// Where these fail, the next round cleans up.
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
}

// Read gives all rows to prepare, some at a time, in the order in which they were written, and calls use, which that
// returns, for one piece while prepare has the next, and a third one is read. The rows' memory may be used again after use
// has returned. An error of what is read wraps ErrDamaged; rows that were given before it must not be used then.
func (t *Table) Read(prepare func(rows []rowcodec.Row) (use func() error)) error {
	f, size, err := openFile(t.path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	return readRows(f, size, t, prepare)
}

// piece is a block that has been read, with its rows.
type piece struct {
	payload []byte
	rows    []rowcodec.Row // they alias payload
	use     func() error
}

// errStopped ends the reading of pieces that nobody wants any more.
var errStopped = errors.New("stopped")

// readRows is Read on a stream of that size.
func readRows(r io.Reader, size int64, t *Table, prepare func(rows []rowcodec.Row) (use func() error)) error {
	free, read, ready := make(chan *piece, mostPieces), make(chan *piece), make(chan *piece)
	for range mostPieces {
		free <- new(piece)
	}
	var stopped atomic.Bool
	var readErr error
	go func() {
		defer close(read)
		readErr = t.readPieces(r, size, free, func(p *piece) error {
			if stopped.Load() {
				return errStopped
			}
			read <- p
			return nil
		})
	}()
	go func() {
		defer close(ready)
		for p := range read {
			if !stopped.Load() {
				p.use = prepare(p.rows)
			}
			ready <- p
		}
	}()
	var err error
	for p := range ready { // to its end: then both goroutines have ended
		if err == nil {
			if err = p.use(); err != nil {
				stopped.Store(true)
			}
		}
		if cap(p.payload) > keptBlock {
			*p = piece{}
		}
		free <- p
	}
	if err != nil {
		return err
	}
	return readErr
}

// readPieces reads all pieces, each into one of free, and gives them away.
func (t *Table) readPieces(r io.Reader, size int64, free <-chan *piece, give func(*piece) error) error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%w: rows of %s: %s", ErrDamaged, t.Def.FullName(), fmt.Sprintf(format, args...))
	}
	want := rowsHead(t.image, t.place)
	head := make([]byte, len(want))
	if _, err := io.ReadFull(r, head); err != nil {
		return damaged("%v", err)
	}
	if string(head) != string(want) {
		return damaged("the file belongs to another image")
	}
	var total uint64
	for p := <-free; ; p = <-free {
		var head [headBytes]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return damaged("the end is missing: %v", err)
		}
		n, count := binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:])
		if int64(n) > size || n > mostBlock {
			return damaged("a block of %d bytes", n)
		}
		if cap(p.payload) < int(n) {
			p.payload = make([]byte, n)
		}
		payload := p.payload[:n]
		if _, err := io.ReadFull(r, payload); err != nil {
			return damaged("the end is missing: %v", err)
		}
		if blockSum(head[:8], payload) != binary.LittleEndian.Uint32(head[8:]) {
			return damaged("a checksum is wrong")
		}
		if count == 0 {
			if n != lastPayload || binary.LittleEndian.Uint64(payload) != total || total != t.Rows {
				return damaged("%d rows where %d should be", total, t.Rows)
			}
			return nil
		}
		var err error
		if p.rows, err = splitRows(p.rows[:0], payload, len(t.Def.Columns)); err != nil {
			return damaged("%v", err)
		}
		if len(p.rows) != int(count) {
			return damaged("%d rows in a block where %d should be", len(p.rows), count)
		}
		total += uint64(count)
		if err := give(p); err != nil {
			return err
		}
	}
}

// splitRows cuts a payload into its rows, which alias it.
func splitRows(rows []rowcodec.Row, payload []byte, columns int) ([]rowcodec.Row, error) {
	for len(payload) > 0 {
		n, width := binary.Uvarint(payload)
		if width <= 0 || n > uint64(len(payload)-width) {
			return nil, errors.New("a row is cut off")
		}
		row := rowcodec.Row(payload[width : width+int(n)])
		if err := row.Check(columns); err != nil {
			return nil, err
		}
		rows = append(rows, row)
		payload = payload[width+int(n):]
	}
	return rows, nil
}
