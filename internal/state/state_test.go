package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

func testDef(name string) *schema.Table {
	return &schema.Table{
		Schema: "app", Name: name, Flavor: schema.FlavorMySQL, Engine: "InnoDB",
		Columns: []schema.Column{{Name: "id", Kind: schema.KindInt, Bytes: 4}, {Name: "v", Kind: schema.KindVarchar, Nullable: true, Members: [][]byte{{0xff}}}},
		Indexes: []schema.Index{{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}}},
	}
}

func testRow(id int, v string) rowcodec.Row {
	var b rowcodec.Builder
	b.Add(fmt.Append(nil, id))
	if v == "" {
		b.Null()
	} else {
		b.Add([]byte(v))
	}
	return b.AppendRow(nil)
}

var testMeta = Meta{
	Flavor: schema.FlavorMySQL, Identity: "a server",
	Low:  Place{GTID: "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5", File: "binlog.000001", Pos: 4, Made: 9},
	High: Place{GTID: "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-7", File: "binlog.000001", Pos: 99},
}

// save writes an image of tables a and b with that many rows.
func save(t testing.TB, d *Dir, rows int, value string) {
	t.Helper()
	r, err := d.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		w, err := r.Table(testDef(name))
		if err != nil {
			t.Fatal(err)
		}
		for id := range rows {
			if err := w.Add(testRow(id, value)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Commit(testMeta); err != nil {
		t.Fatal(err)
	}
}

// load reads everything and returns the rows of each table.
func load(d *Dir) (all map[string][]string, err error) {
	image, err := d.Load()
	if err != nil {
		return nil, err
	}
	all = map[string][]string{}
	for _, t := range image.Tables {
		err := t.Read(func(rows []rowcodec.Row) (use func() error) {
			return func() error {
				for _, r := range rows {
					all[t.Def.Name] = append(all[t.Def.Name], string(r))
				}
				return nil
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func open(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "state")
	d := open(t, path)
	if _, err := d.Load(); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second user: %v", err)
	}
	for _, rows := range []int{0, 1, 30_000} {
		save(t, d, rows, strings.Repeat("x", 50))
		image, err := d.Load()
		if err != nil || image.Meta != testMeta || len(image.Tables) != 2 || image.Tables[1].Rows != uint64(rows) ||
			!SameDef(image.Tables[0].Def, testDef("a")) || SameDef(image.Tables[0].Def, testDef("b")) {
			t.Fatalf("image %+v, error %v", image, err)
		}
		all, err := load(d)
		if err != nil || len(all["a"]) != rows || len(all["b"]) != rows {
			t.Fatalf("%d and %d rows, error %v", len(all["a"]), len(all["b"]), err)
		}
		for id, row := range all["b"] {
			if row != string(testRow(id, strings.Repeat("x", 50))) {
				t.Fatalf("row %d is %q", id, row)
			}
		}
	}
	// A row that is larger than a block; and nothing is left of earlier images.
	save(t, d, 2, strings.Repeat("y", 3*blockBytes))
	if all, err := load(d); err != nil || len(all["a"]) != 2 {
		t.Errorf("large rows: %d, error %v", len(all["a"]), err)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 4 {
		t.Errorf("files %v, error %v", entries, err)
	}
}

// TestReadStops: an error of use ends the reading, whatever is on its way, and nothing is used or prepared after it has been
// returned. Pieces are used in their order, each while its rows are what they were.
func TestReadStops(t *testing.T) {
	d := open(t, t.TempDir())
	save(t, d, 60_000, strings.Repeat("x", 50)) // a dozen blocks
	image, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	errUse := errors.New("no more")
	for stop := range 15 {
		var prepared atomic.Int64
		used, next := 0, 0
		err := image.Tables[0].Read(func(rows []rowcodec.Row) (use func() error) {
			prepared.Add(1)
			return func() error {
				if used == stop {
					return errUse
				}
				used++
				for _, row := range rows {
					if v, _ := row.Value(0); string(v) != strconv.Itoa(next) {
						return fmt.Errorf("row %s where %d should be", v, next)
					}
					next++
				}
				return nil
			}
		})
		n := prepared.Load()
		switch {
		case err == nil && next == 60_000 && used <= stop:
		case errors.Is(err, errUse) && used == stop && n <= int64(stop+1+mostPieces):
		default:
			t.Errorf("stop at piece %d: %d prepared, %d used with %d rows, error %v", stop, n, used, next, err)
		}
		time.Sleep(time.Millisecond)
		if prepared.Load() != n {
			t.Error("pieces were prepared after the end")
		}
	}
}

// TestDamage changes, cuts off and exchanges files in every way: each is noticed.
func TestDamage(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	save(t, d, 3, "v")
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string) {
		t.Helper()
		if _, err := load(d); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s: error %v", what, err)
		}
	}
	for _, f := range files {
		if filepath.Base(f) == lockName {
			continue
		}
		good, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte) {
			t.Helper()
			if err := os.WriteFile(f, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			write(bad)
			expect(fmt.Sprintf("%s with byte %d changed", f, i))
			write(good[:i])
			expect(fmt.Sprintf("%s cut off at %d", f, i))
		}
		write(good)
	}
	rows, _ := filepath.Glob(filepath.Join(path, "rows-*"))
	a, _ := os.ReadFile(rows[0])
	b, _ := os.ReadFile(rows[1])
	if len(rows) != 2 || os.WriteFile(rows[0], b, 0o600) != nil || os.WriteFile(rows[1], a, 0o600) != nil {
		t.Fatal("files cannot be exchanged")
	}
	expect("exchanged tables")
	save(t, d, 3, "v")
	rows, _ = filepath.Glob(filepath.Join(path, "rows-*-0"))
	if err := os.WriteFile(rows[0], a, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("a file of another image")
	if err := os.Remove(rows[0]); err != nil {
		t.Fatal(err)
	}
	expect("a missing file")
	save(t, d, 3, "v")
	text, _ := os.ReadFile(filepath.Join(path, manifestName))
	if err := os.WriteFile(filepath.Join(path, manifestName), bytes.Replace(text, []byte("state 1 "), []byte("state 0 "), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(d); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "format 0") {
		t.Errorf("an older format: %v", err)
	}
	// A new image takes the place of a damaged one.
	save(t, d, 4, "w")
	if all, err := load(d); err != nil || len(all["b"]) != 4 {
		t.Errorf("after the damage: %d rows, error %v", len(all["b"]), err)
	}
}

// TestOtherThanFiles: what is no file is damage, and a pipe is not waited for.
func TestOtherThanFiles(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	save(t, d, 3, "v")
	rows, _ := filepath.Glob(filepath.Join(path, "rows-*"))
	for _, name := range []string{rows[0], filepath.Join(path, manifestName)} {
		for _, replace := range []func() error{func() error { return syscall.Mkfifo(name, 0o600) }, func() error { return os.Mkdir(name, 0o700) }} {
			if err := errors.Join(os.Rename(name, name+".kept"), replace()); err != nil {
				t.Fatal(err)
			}
			if _, err := load(d); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: error %v", filepath.Base(name), err)
			}
			if err := errors.Join(os.Remove(name), os.Rename(name+".kept", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := load(d); err != nil {
		t.Error(err)
	}
}

// TestUnwritable: a folder in which nothing can be written shows at once. To root no mode forbids it, so something else does.
func TestUnwritable(t *testing.T) {
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, manifestName+freshSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "write to "+path) {
		t.Errorf("error %v", err)
	}
}

// TestFullDisk: an image that can't be written leaves the one before.
func TestFullDisk(t *testing.T) {
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=256k"); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("a small file system can be mounted by root only")
		}
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	}()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	save(t, d, 100, "old")
	r, err := d.Begin()
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Table(testDef("a"))
	if err != nil {
		t.Fatal(err)
	}
	for id := range 20_000 {
		if err = w.Add(testRow(id, strings.Repeat("z", 30))); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Close()
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v", err)
	}
	w.Drop()
	if err := r.Abort(); err != nil {
		t.Fatal(err)
	}
	if all, err := load(d); err != nil || len(all["a"]) != 100 {
		t.Errorf("%d rows, error %v", len(all["a"]), err)
	}
	save(t, d, 120, "new")
	if all, err := load(d); err != nil || len(all["a"]) != 120 {
		t.Errorf("with room again: %d rows, error %v", len(all["a"]), err)
	}
}

// FuzzRows reads anything as a file of rows, with the checksums made right so that the rest is reached.
func FuzzRows(f *testing.F) {
	path := f.TempDir()
	d := open(f, path)
	save(f, d, 3, "v")
	files, _ := filepath.Glob(filepath.Join(path, "rows-*"))
	good, err := os.ReadFile(files[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[len(rowsHead(strings.Repeat("0", 16), 0)):])
	table := &Table{Def: testDef("a"), Rows: 3, image: strings.Repeat("0", 16)}
	f.Fuzz(func(t *testing.T, body []byte) {
		file := append(rowsHead(table.image, 0), mendSums(body)...)
		n := 0
		err := readRows(bytes.NewReader(file), int64(len(file)), table, func(rows []rowcodec.Row) (use func() error) {
			for _, r := range rows {
				for i := range r.Columns() {
					r.Value(i)
				}
			}
			return func() error {
				n += len(rows)
				return nil
			}
		})
		if err != nil && !errors.Is(err, ErrDamaged) || err == nil && n != 3 {
			t.Errorf("%d rows, error %v", n, err)
		}
	})
}

// mendSums makes the checksums of whole blocks right.
func mendSums(body []byte) []byte {
	body = bytes.Clone(body)
	for at := 0; at+headBytes <= len(body); {
		head := body[at : at+headBytes]
		n := int(uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16 | uint32(head[3])<<24)
		if n > len(body)-at-headBytes {
			break
		}
		s := blockSum(head[:8], body[at+headBytes:at+headBytes+n])
		for i := range 4 {
			head[8+i] = byte(s >> (8 * i))
		}
		at += headBytes + n
	}
	return body
}

func FuzzManifest(f *testing.F) {
	d := open(f, f.TempDir())
	save(f, d, 1, "v")
	text, err := os.ReadFile(filepath.Join(d.path, manifestName))
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(text, []byte("\n"))
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parseManifest(append([]byte("binlogcache-state 1 "+sum(body)+"\n"), body...))
		if err != nil && !errors.Is(err, ErrDamaged) || err == nil && m == nil {
			t.Error(err)
		}
	})
}
