// Package state keeps the rows of tables on disk for a warm restart: one image of the whole cache at a time, with the
// places of the log between which it was taken. Everything is checksummed and carries the format's version: what is
// damaged, cut off, of another format or not of this image is found when it is read, never used.
//
// A folder holds one manifest and a file of rows for each table. A new image is written beside the old one, which stays
// until the new manifest has taken the old one's place; so a crash or a full disk at any time leaves a whole image.
package state

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/binlogcache/binlogcache/schema"
)

// format is the version of the files' layout and of what the cached form of a row means.
const format = 1

var (
	// ErrNone says that a folder holds no image.
	ErrNone = errors.New("no saved state")
	// ErrDamaged is wrapped by everything that is wrong with an image.
	ErrDamaged = errors.New("saved state is not usable")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Place is a point of the source's log.
type Place struct {
	// GTID is the set of transactions up to it, in the server's form.
	GTID string `json:"gtid"`
	File string `json:"file"`
	Pos  uint64 `json:"pos"`
	// Origins is, on MariaDB, the last transaction of each domain and server, in the form of gtid_binlog_state.
	Origins string `json:"origins,omitempty"`
	// Made is when the server made that file, in Unix seconds by its clock.
	Made uint32 `json:"made"`
}

// Meta says of which moment an image is.
type Meta struct {
	// Flavor is the server's, Identity tells it from others.
	Flavor   string `json:"flavor"`
	Identity string `json:"identity"`
	// Low is the place before the first row was taken, High that after the last: each row is as the table had it at some
	// place between. What is missing between Low and a row's place is in the log.
	Low  Place `json:"low"`
	High Place `json:"high"`
}

// manifest is the content of the file of that name.
type manifest struct {
	Format int `json:"format"`
	// Image is a random name, which stands in each file of rows as well.
	Image  string          `json:"image"`
	Meta   Meta            `json:"meta"`
	Tables []tableManifest `json:"tables"`
}

type tableManifest struct {
	Def  *schema.Table `json:"def"`
	File string        `json:"file"`
	Rows uint64        `json:"rows"`
}

const (
	manifestName = "manifest"
	freshSuffix  = ".new" // of a manifest that is being written
	lockName     = "lock"
	rowsPattern  = `^rows-[0-9a-f]{16}-[0-9]+$`
)

var rowsName = regexp.MustCompile(rowsPattern)

// Dir is a folder that this process alone uses.
type Dir struct {
	path string
	lock *os.File
}

// Open takes a folder, which is made if need be. It is an error when another process has it, or nothing can be written there.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another process", path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// What would otherwise show with the first image. A full disk may have room again by then.
	fresh := filepath.Join(path, manifestName+freshSuffix)
	if err = writeSynced(fresh, nil); err == nil {
		err = os.Remove(fresh)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		lock.Close()
		return nil, fmt.Errorf("write to %s: %w", path, err)
	}
	return &Dir{path: path, lock: lock}, nil
}

// Close lets others use the folder.
func (d *Dir) Close() error { return d.lock.Close() }

// Image is a saved image that can be read. Its files stay until the next Round is committed.
type Image struct {
	Meta   Meta
	Tables []*Table
}

// Table is one table of an Image.
type Table struct {
	// Def is the definition with which the rows were cached.
	Def *schema.Table
	// Rows is their number.
	Rows uint64

	path  string
	image string
	place int
}

// Load reads the manifest. The error is ErrNone where there is none, or wraps ErrDamaged.
func (d *Dir) Load() (*Image, error) {
	f, size, err := openFile(filepath.Join(d.path, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > mostManifest {
		return nil, fmt.Errorf("%w: a manifest of %d bytes", ErrDamaged, size)
	}
	text, err := io.ReadAll(io.LimitReader(f, mostManifest))
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	image := &Image{Meta: m.Meta}
	for i, t := range m.Tables {
		image.Tables = append(image.Tables, &Table{
			Def: t.Def, Rows: t.Rows, path: filepath.Join(d.path, t.File), image: m.Image, place: i,
		})
	}
	return image, nil
}

// SavedAt returns when the image in a folder was written; the zero time where there is none. It needs no Dir, and does not look
// at the image.
func SavedAt(path string) time.Time {
	info, err := os.Stat(filepath.Join(path, manifestName))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// mostManifest is more than the definitions of any server's tables take.
const mostManifest = 1 << 30

// openFile opens a file for reading. Anything else of that name, a pipe for one, is an error and is not waited for.
func openFile(path string) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no file", ErrDamaged, filepath.Base(path))
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// parseManifest reads a line with format and checksum, and the JSON that follows.
func parseManifest(text []byte) (*manifest, error) {
	head, body, ok := bytes.Cut(text, []byte("\n"))
	words := strings.Fields(string(head))
	if !ok || len(words) != 3 || words[0] != "binlogcache-state" {
		return nil, fmt.Errorf("%w: %s is no manifest", ErrDamaged, manifestName)
	}
	if words[1] != strconv.Itoa(format) {
		return nil, fmt.Errorf("%w: it has the format %.20s, this version reads %d", ErrDamaged, words[1], format)
	}
	if words[2] != sum(body) {
		return nil, fmt.Errorf("%w: the checksum of the manifest is wrong", ErrDamaged)
	}
	m := new(manifest)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: the manifest: %w", ErrDamaged, err)
	}
	for _, t := range m.Tables {
		if !rowsName.MatchString(t.File) || !soundDef(t.Def) {
			return nil, fmt.Errorf("%w: the manifest names no table", ErrDamaged)
		}
	}
	return m, nil
}

// soundDef reports that what is needed to keep a table is there.
func soundDef(def *schema.Table) bool {
	if def == nil || def.Key < 0 || def.Key >= len(def.Indexes) {
		return false
	}
	for _, part := range def.Indexes[def.Key].Parts {
		if part.Column < 0 || part.Column >= len(def.Columns) {
			return false
		}
	}
	return true
}

func sum(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
}

// SameDef reports that two definitions are one and the same.
func SameDef(a, b *schema.Table) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Round writes a new image. It is for one goroutine.
type Round struct {
	dir   *Dir
	image string
	all   []tableManifest
}

// Begin begins a new image. Files that an earlier one left unfinished are removed.
func (d *Dir) Begin() (*Round, error) {
	if err := d.clean(d.named()); err != nil {
		return nil, err
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	return &Round{dir: d, image: hex.EncodeToString(b[:])}, nil
}

// named returns the files of rows that the present manifest names.
func (d *Dir) named() (files []string) {
	image, err := d.Load()
	if err != nil {
		return nil
	}
	for _, t := range image.Tables {
		files = append(files, filepath.Base(t.path))
	}
	return files
}

// clean removes all files of rows but those.
func (d *Dir) clean(keep []string) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if rowsName.MatchString(e.Name()) && !slices.Contains(keep, e.Name()) {
			if err := os.Remove(filepath.Join(d.path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Commit makes the image the folder's, and removes the one before.
func (r *Round) Commit(meta Meta) error {
	body, err := json.Marshal(manifest{Format: format, Image: r.image, Meta: meta, Tables: r.all})
	if err != nil {
		return err
	}
	text := append([]byte("binlogcache-state "+strconv.Itoa(format)+" "+sum(body)+"\n"), body...)
	path := filepath.Join(r.dir.path, manifestName)
	if err := writeSynced(path+freshSuffix, text); err != nil {
		return err
	}
	if err := os.Rename(path+freshSuffix, path); err != nil {
		return err
	}
	if err := syncDir(r.dir.path); err != nil {
		return err
	}
	return r.dir.clean(r.files())
}

// Abort removes what was written. The image before stays.
func (r *Round) Abort() error {
	r.all = nil
	return r.dir.clean(r.dir.named())
}

func (r *Round) files() (files []string) {
	for _, t := range r.all {
		files = append(files, t.File)
	}
	return files
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
