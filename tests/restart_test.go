package tests

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// verifies compares all tables of the daemon with the database, as a user would.
func (d *daemon) verifies(when string) {
	d.t.Helper()
	out, err := exec.CommandContext(d.t.Context(), binary, "verify", "--admin", strings.TrimPrefix(d.base, "http://")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), ": 0 differences") {
		d.t.Fatalf("%s: verify: %v: %s", when, err, out)
	}
}

// from tells what a table that is live was filled from. The line of the log may come after the readiness.
func (d *daemon) from(table string) (from string) {
	d.t.Helper()
	eventually(d.t, "the log tells how "+table+" came", func() error {
		for line := range strings.Lines(d.log.String()) {
			if strings.Contains(line, `msg="table is live" table=`+table+" ") {
				_, from, _ = strings.Cut(strings.TrimSpace(line), " from=")
			}
		}
		if from == "" {
			return errors.New("not yet")
		}
		return nil
	})
	return strings.Trim(from, `"`)
}

// manifest is what is written last of an image.
func manifest(dir string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, "manifest"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	return b
}

// waitImage waits for another image than that one.
func waitImage(t *testing.T, dir string, old []byte) {
	t.Helper()
	eventually(t, "an image in "+dir, func() error {
		if now := manifest(dir); len(now) == 0 || bytes.Equal(now, old) {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestKilledWithState: kill -9 at any moment under writers, also while an image is written, and a start with what is in
// the folder then. The tables come from the image each time and equal the database. The short form does it a few
// times; BINLOGCACHE_TORTURE_RESTARTS says how often.
func TestKilledWithState(t *testing.T) {
	t.Parallel()
	rounds, err := strconv.Atoi(os.Getenv("BINLOGCACHE_TORTURE_RESTARTS"))
	if err != nil {
		rounds = 4
	}
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			fillTable(t, db, schema+".w", 3000)
			fillTable(t, db, schema+".quiet", 100)
			dir := filepath.Join(t.TempDir(), "state")
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			w := startWriters(t, db, schema+".w", 2)
			images := 0
			for i := range rounds + 1 {
				before := manifest(dir)
				if i%2 == 1 {
					// One that does not come to its first answer, or only just.
					early := start(t, s.DSN, schema+".*", "--state-dir", dir)
					time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
					early.kill()
				}
				d := start(t, s.DSN, schema+".*", "--state-dir", dir).waitReady()
				for _, table := range []string{".w", ".quiet"} {
					if from := d.from(schema + table); i > 0 && from != "saved state" {
						t.Fatalf("start %d: %s came from %q", i, table, from)
					}
				}
				d.verifies(fmt.Sprintf("start %d", i))
				if i == rounds {
					w.stop()
					mustEqual(t, s, d, schema, "w")
					d.verifies("in the end")
					break
				}
				if i == 0 || rng.IntN(3) == 0 {
					waitImage(t, dir, before)
				}
				time.Sleep(time.Duration(rng.IntN(600)) * time.Millisecond)
				d.kill()
				if !bytes.Equal(manifest(dir), before) {
					images++
				}
			}
			t.Logf("%d starts, %d of them left another image", rounds, images)
		})
	}
}

// TestStateRefused: whatever is wrong with a saved state, or has happened to the source since, the tables that it
// concerns are loaded instead, and a new image replaces it.
func TestStateRefused(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			db := s.DB(t)
			mustExec(t, db, "CREATE DATABASE k")
			fillTable(t, db, "k.w", 3000)
			fillTable(t, db, "k.u", 3000)
			dir := t.TempDir()
			begin := func(dir string) *daemon {
				t.Helper()
				return start(t, s.DSN, "k.*", "--state-dir", dir).waitReady()
			}
			first := begin(dir)
			waitImage(t, dir, nil)
			refuse(t, 1, s.DSN, "k.*", []string{"--state-dir", dir, "in use by another process"}, "--state-dir", dir)
			first.kill()

			edit := func(change func(b []byte) []byte) func(path string) error {
				return func(path string) error {
					b, err := os.ReadFile(path)
					if err != nil {
						return err
					}
					return os.WriteFile(path, change(b), 0o600)
				}
			}
			flip := edit(func(b []byte) []byte { b[len(b)/2] ^= 0x10; return b })
			cut := edit(func(b []byte) []byte { return b[:len(b)*2/3] })
			reset := "RESET MASTER"
			if flavor == testmysql.MySQL {
				reset = "RESET BINARY LOGS AND GTIDS"
			}
			for _, tt := range []struct {
				name string
				// files changes those of the folder: its manifest, and the rows of two tables.
				files func(manifest, one, other string) error
				// source changes the source.
				source func(db *sql.DB)
				// loaded is how many of the two tables are loaded then, why is in the log.
				loaded int
				why    string
			}{
				{name: "untouched", files: func(_, _, _ string) error { return nil }},
				{name: "rows cut off", files: func(_, one, _ string) error { return cut(one) }, loaded: 1, why: "not usable"},
				{name: "a bit of rows", files: func(_, _, other string) error { return flip(other) }, loaded: 1, why: "a checksum is wrong"},
				{name: "rows are gone", files: func(_, one, _ string) error { return os.Remove(one) }, loaded: 1, why: "not usable"},
				{name: "rows are swapped", files: func(_, one, other string) error {
					return errors.Join(os.Rename(one, one+".x"), os.Rename(other, one), os.Rename(one+".x", other))
				}, loaded: 2, why: "belongs to another image"},
				{name: "a bit of the manifest", files: func(m, _, _ string) error { return flip(m) }, loaded: 2, why: "checksum of the manifest"},
				{name: "manifest cut off", files: func(m, _, _ string) error { return cut(m) }, loaded: 2, why: "checksum of the manifest"},
				{name: "an older version", files: func(m, _, _ string) error {
					return edit(func(b []byte) []byte { return bytes.Replace(b, []byte("-state 1 "), []byte("-state 0 "), 1) })(m)
				}, loaded: 2, why: "it has the format 0"},
				{name: "altered meanwhile", source: func(db *sql.DB) { mustExec(t, db, "ALTER TABLE k.u ADD COLUMN more INT") }, loaded: 1, why: "definition is another"},
				{name: "purged meanwhile", source: func(db *sql.DB) {
					mustExec(t, db, "FLUSH BINARY LOGS")
					mustExec(t, db, "INSERT INTO k.w VALUES (100001, 'in a log that goes', 1)")
					mustExec(t, db, "FLUSH BINARY LOGS")
					eventually(t, "purge", func() error {
						logs, err := db.QueryContext(t.Context(), "SHOW BINARY LOGS")
						if err != nil {
							return err
						}
						defer logs.Close()
						columns, err := logs.Columns()
						if err != nil {
							return err
						}
						var n int
						var last string
						for logs.Next() {
							into := make([]any, len(columns))
							for i := range into {
								into[i] = new(sql.RawBytes)
							}
							if err := logs.Scan(into...); err != nil {
								return err
							}
							last = string(*into[0].(*sql.RawBytes))
							n++
						}
						if n == 1 {
							return nil
						}
						_, err = db.ExecContext(t.Context(), "PURGE BINARY LOGS TO '"+last+"'")
						return errors.Join(errors.New("there are older logs"), err)
					})
				}, loaded: 2, why: "the saved state is not used"},
				{name: "reset meanwhile", source: func(db *sql.DB) {
					mustExec(t, db, reset)
					mustExec(t, db, "UPDATE k.w SET v='after the reset'")
				}, loaded: 2, why: "the saved state is not used"},
			} {
				d := (*daemon)(nil)
				folder := dir
				if tt.files != nil {
					folder = filepath.Join(t.TempDir(), "copy")
					if err := os.CopyFS(folder, os.DirFS(dir)); err != nil {
						t.Fatal(err)
					}
					rows, err := filepath.Glob(filepath.Join(folder, "rows-*"))
					if err != nil || len(rows) != 2 {
						t.Fatal(rows, err)
					}
					if err := tt.files(filepath.Join(folder, "manifest"), rows[0], rows[1]); err != nil {
						t.Fatal(err)
					}
				} else {
					tt.source(db)
				}
				old := manifest(folder)
				d = begin(folder)
				loaded := 0
				for _, table := range []string{"k.w", "k.u"} {
					if d.from(table) != "saved state" {
						loaded++
					}
				}
				if loaded != tt.loaded || !strings.Contains(d.log.String(), tt.why) {
					t.Errorf("%s: %d tables were loaded, want %d, and %q in\n%s", tt.name, loaded, tt.loaded, tt.why, d.log)
				}
				d.verifies(tt.name)
				if tt.loaded > 0 {
					waitImage(t, folder, old)
				}
				d.kill()
			}
			d := begin(dir)
			if d.from("k.w") != "saved state" || d.from("k.u") != "saved state" {
				t.Errorf("the image that replaced those was not used: %s, %s", d.from("k.w"), d.from("k.u"))
			}
			d.verifies("in the end")
		})
	}
}
