package app

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/schema"
)

// followed notes which tables are followed.
type followed struct{ names []string }

func (f *followed) FollowHot(schemaName, table string) bool {
	name := schemaName + "." + table
	if slices.Contains(f.names, name) {
		return false
	}
	f.names = append(f.names, name)
	return true
}

func (f *followed) Forget(schemaName, table string) {
	f.names = slices.DeleteFunc(f.names, func(n string) bool { return n == schemaName+"."+table })
}

func (f *followed) BeginRead(string, string) (canal.Reading, bool)       { return canal.Reading{}, false }
func (f *followed) EndRead(_ canal.Reading, _ string, done func(_ bool)) { done(false) }

func newHotTables(t *testing.T, most int, idle time.Duration) (*hotTables, *followed) {
	t.Helper()
	patterns, err := schema.ParsePatterns("app.user,Shop.Item,shop.o*")
	if err != nil {
		t.Fatal(err)
	}
	store := cache.New(cache.Config{HotBytes: 4 << 20})
	t.Cleanup(store.Close)
	f := &followed{}
	return &hotTables{store: store, patterns: patterns, logger: slog.New(slog.DiscardHandler), most: most, idle: idle, follower: f}, f
}

// Tables of --tables, in any spelling, and those of the server itself are not followed for clients.
func TestWantedTables(t *testing.T) {
	h, f := newHotTables(t, 10, time.Hour)
	for _, name := range []string{
		"app.user", "shop.item", "shop.orders", "mysql.user", "SYS.x", "information_schema.TABLES", "performance_schema.threads",
	} {
		n, _ := exactName(name)
		h.Want(n.Schema, n.Table)
	}
	h.Want("app", "post")
	h.Want("app", "post")
	if !slices.Equal(f.names, []string{"app.post"}) {
		t.Errorf("followed: %v", f.names)
	}
	if h.mode("app", "post") != cache.ModeHot || h.mode("shop", "orders") != cache.ModeFull || (*hotTables)(nil).mode("a", "b") != cache.ModeFull {
		t.Error("modes")
	}
}

// However many names clients use, the tables are bounded. Those that are used stay, idle ones make room.
func TestHotTablesAreBounded(t *testing.T) {
	const most = 8
	h, f := newHotTables(t, most, time.Hour)
	for i := range 10 * most {
		h.Want("app", fmt.Sprint("t", i))
	}
	if len(f.names) != most || len(h.asked) != most {
		t.Fatalf("%d are followed, %d known", len(f.names), len(h.asked))
	}
	// t0 is asked for, and the time of the others has come.
	h.idle = 0
	def := &schema.Table{
		Schema: "app", Name: "t0", Engine: "InnoDB", Columns: []schema.Column{{Name: "id", Kind: schema.KindInt, TypeText: "int", Bytes: 4}},
		Indexes: []schema.Index{{Name: "PRIMARY", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}}},
	}
	table := h.store.Add("app", "t0", cache.ModeHot)
	g, err := table.LoadHot(def)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Live(""); err != nil {
		t.Fatal(err)
	}
	if _, start := table.BeginRead(&schema.Search{Def: def, Values: [][]byte{{'1'}}}, nil); start != cache.HotLead {
		t.Fatalf("start %d", start)
	}
	h.Want("app", "new")
	if !slices.Equal(f.names, []string{"app.t0", "app.new"}) {
		t.Errorf("followed: %v", f.names)
	}
	// A table that is gone leaves its place.
	h.removed("app", "new")
	f.Forget("app", "new")
	h.Want("app", "new")
	if !slices.Contains(f.names, "app.new") {
		t.Errorf("followed: %v", f.names)
	}
}
