package mcserver_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/dialogue"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
)

// listen serves p on a port of its own until the test ends, and returns its address.
func listen(t *testing.T, p netserver.Protocol) string {
	t.Helper()
	s, err := netserver.New(netserver.Config{Name: "memcached", Listen: "127.0.0.1:0", Protocol: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return s.Addr().String()
}

func dial(addr string) func(ctx context.Context, kind string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// otherwise are the dialogues with the plugin that this server answers differently, with the reason.
var otherwise = map[string]string{
	"multi-get-57":     "several keys in a get are answered, as MySQL 8.0 does",
	"unknown-commands": "the meta commands exist, touch and gat are known",
	"char-value":       "CHAR values are not filled up",
	"int-key":          "3abc is no number",
}

// noRows are those whose writes reach no row, so that they are played whole.
var noRows = map[string]bool{"policy-cache-only": true, "policy-disabled": true}

// writes are the commands that change something.
var writes = []string{"set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "delete", "touch", "flush_all"}

// reading returns the part of a dialogue before the first command that changes something, and nil when that part sends
// nothing.
func reading(d *dialogue.Dialogue) *dialogue.Dialogue {
	if noRows[nameOf(d)] {
		return d
	}
	sent := false
	for i, l := range d.Lines {
		if l.Kind != dialogue.Send {
			continue
		}
		for line := range bytes.Lines(l.Data) {
			if slices.Contains(writes, string(bytes.Fields(line)[0])) {
				if !sent {
					return nil
				}
				return &dialogue.Dialogue{Path: d.Path, Title: d.Title, Lines: d.Lines[:i]}
			}
		}
		sent = true
	}
	return d
}

func nameOf(d *dialogue.Dialogue) string {
	base := filepath.Base(d.Path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// TestPluginDialogues plays what was recorded from the plugin on both databases: as far as it only reads, with the rows
// in memory and with the rows left to the database; what writes, with the database, for nobody tells memory of it here.
func TestPluginDialogues(t *testing.T) {
	all, err := dialogue.ReadDir("../testdata/dialogues/innodb-memcached")
	if err != nil {
		t.Fatal(err)
	}
	_, strictOtherwise := deviations(t)
	var parts, written []*dialogue.Dialogue
	for _, whole := range all {
		d := reading(whole)
		if d != nil && otherwise[nameOf(d)] == "" {
			parts = append(parts, d)
		}
		if d != whole && writtenOtherwise[nameOf(whole)] == "" {
			written = append(written, whole)
		}
	}
	if len(parts) < 29 || len(written) < 18 {
		t.Fatalf("only %d and %d of %d dialogues", len(parts), len(written), len(all))
	}
	ways := []struct {
		name   string
		mode   dialogue.Mode
		memory bool
	}{{"memory", dialogue.Whole, true}, {"memory pipelined", dialogue.Pipelined, true}, {"database bytewise", dialogue.Bytewise, false}}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, flavor)
			for _, d := range parts {
				for _, way := range ways {
					t.Run(nameOf(d)+"/"+way.name, func(t *testing.T) {
						if err := s.play(t, d, mcserver.CompatSafe, way.mode, way.memory); err != nil {
							t.Error(err)
						}
					})
				}
			}
			for _, d := range written {
				t.Run(nameOf(d)+"/written", func(t *testing.T) {
					if err := s.play(t, d, mcserver.CompatSafe, dialogue.Pipelined, false); err != nil {
						t.Error(err)
					}
				})
			}
			for _, d := range all {
				t.Run(nameOf(d)+"/strict", func(t *testing.T) {
					err := s.play(t, d, mcserver.CompatStrict, dialogue.Pipelined, false)
					if listed := strictOtherwise[nameOf(d)]; !listed && err != nil {
						t.Error(err)
					} else if listed && err == nil {
						t.Error("it is answered as by the plugin, and docs/PROTOCOLS.md says that it is not")
					}
				})
				if part := reading(d); part != nil && !strictOtherwise[nameOf(d)] {
					t.Run(nameOf(d)+"/strict memory", func(t *testing.T) {
						if err := s.play(t, part, mcserver.CompatStrict, dialogue.Bytewise, true); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
}

// writtenOtherwise are the dialogues with writes that are answered differently, with the reason. docs/PROTOCOLS.md lists them
// for users (TestDeviations).
var writtenOtherwise = map[string]string{
	"append":                "flags stay, as memcached leaves them",
	"bad-data-chunk":        "a data block of another length is an error",
	"char-value":            otherwise["char-value"],
	"columns-incr":          "the other columns keep their values",
	"columns-set":           "every column needs its field, and every field its column",
	"columns-set-empty":     "fields stay where they are",
	"expire-30-days":        "30 days are a time from now, as for memcached",
	"expire-negative":       "a negative time is over at once, as for memcached",
	"expired-add":           "a row whose time is over is not there",
	"flush-all":             "refused",
	"flush-all-container":   "refused",
	"incr-text":             "text is no number",
	"int-key":               otherwise["int-key"],
	"key-rewrite":           "the key keeps its spelling",
	"multi-get-57":          otherwise["multi-get-57"],
	"no-meta-columns":       "the version of the row is its cas",
	"switch-not-for-delete": "delete and incr know container names",
	"triggers":              "triggers fire",
	"unknown-commands":      otherwise["unknown-commands"],
	"unmapped-column":       "columns outside the mapping keep their values, and get their defaults",
	"value-truncated":       "a value that is too long is an error",
}

// play plays one dialogue against a server of its own.
func (s *source) play(t *testing.T, d *dialogue.Dialogue, compat mcserver.Compat, mode dialogue.Mode, memory bool) error {
	s.exec(t, "DROP DATABASE IF EXISTS innodb_memcache")
	store := cache.New(cache.Config{})
	t.Cleanup(store.Close)
	reader := s.newReader(t, store)
	server := mcserver.New(mcserver.Config{Reader: reader, Compat: compat, FindContainers: s.load, Writer: s.newWriter(t), Items: cache.NewItems(cache.ItemsConfig{MemoryLimit: 1 << 20})})
	started := false
	settle := func(ctx context.Context) error {
		if memory {
			s.fill(t, store, "dlg")
		}
		if started {
			return nil // as for the plugin, what is in use stays as it is
		}
		started = true
		set, err := s.load(ctx)
		if err != nil {
			return err
		}
		_, err = server.SetContainers(ctx, set)
		return err
	}
	p := dialogue.Player{DB: s.db, Schema: "dlg", Dial: dial(listen(t, server)), Settle: settle, Mode: mode}
	return p.Play(t.Context(), d)
}

// TestMemcachedDialogues plays what was recorded from memcached against a server without containers.
func TestMemcachedDialogues(t *testing.T) {
	t.Parallel()
	all, err := dialogue.ReadMemcachedDir("../testdata/dialogues/memcached")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 214 {
		t.Fatalf("only %d dialogues", len(all))
	}
	// Some wait for seconds, so they are played side by side, each against a server of its own.
	var wg sync.WaitGroup
	slots := make(chan struct{}, 48)
	modes := []dialogue.Mode{dialogue.Whole, dialogue.Bytewise, dialogue.Pipelined}
	if testing.Short() {
		modes = modes[:1]
	}
	for _, d := range all {
		for _, mode := range modes {
			slots <- struct{}{}
			addr := listen(t, plainServer(t))
			wg.Go(func() {
				defer func() { <-slots }()
				p := dialogue.Player{Dial: dial(addr), Mode: mode}
				if err := p.Play(t.Context(), d); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

// plainServer is a server without containers.
func plainServer(t testing.TB) *mcserver.Server {
	t.Helper()
	server := mcserver.New(mcserver.Config{Reader: routed{}, Items: cache.NewItems(cache.ItemsConfig{MemoryLimit: 8 << 20})})
	if _, err := server.SetContainers(t.Context(), mcserver.ContainerSet{}); err != nil {
		t.Fatal(err)
	}
	return server
}
