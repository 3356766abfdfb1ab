package app

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/schema"
)

const (
	// hotTablesMost bounds the tables that are kept hot. Each takes some 40 KB beside its rows, and its changes are decoded.
	hotTablesMost = 256
	// hotIdle is how long a table must not have been asked for when it makes room for another.
	hotIdle = time.Minute
	// hotShare is the part of --memory that hot rows may take.
	hotShare = 4
	// fullAgain is how long a table that did not fit into memory stays hot before a load of it tries again.
	fullAgain = 10 * time.Minute
)

// follower is what hotTables needs of canal.Follower.
type follower interface {
	FollowHot(schemaName, table string) bool
	Forget(schemaName, table string)
	BeginRead(schemaName, table string) (canal.Reading, bool)
	EndRead(r canal.Reading, server string, done func(applied bool))
}

// hotTables chooses the tables that are kept hot: those that clients use and that --tables does not name, and those of
// --tables that do not fit into memory. The zero value with its first fields set is ready; a nil one keeps none.
type hotTables struct {
	store    *cache.Store
	patterns schema.Patterns
	logger   *slog.Logger
	most     int
	idle     time.Duration

	// follower is set before the first use.
	follower follower

	mu sync.Mutex
	// asked has the tables that are followed because clients use them.
	asked map[schema.Name]askedTable
	// looked is when they were last looked through for idle ones.
	looked time.Time
	// full says that a table was turned away; it is logged once for each time that the bound is met.
	full bool
	// tooLarge has the tables of --tables that did not fit, and since when they are hot.
	tooLarge map[schema.Name]time.Time
}

// askedTable is how much a table was asked for at the last look that found more than the one before.
type askedTable struct {
	count uint64
	since time.Time
}

var _ router.Hot = (*hotTables)(nil)

// systemSchema tells the schemas of the server's own tables, whose changes the log does not show as rows.
func systemSchema(name string) bool {
	switch strings.ToLower(name) {
	case "mysql", "sys", "information_schema", "performance_schema":
		return true
	}
	return false
}

// Want implements router.Hot.
func (h *hotTables) Want(schemaName, table string) {
	name := schema.Name{Schema: schemaName, Table: table}
	if systemSchema(schemaName) || h.patterns.Match(schemaName, table) || h.named(schemaName, table) {
		return
	}
	var forget []schema.Name
	h.mu.Lock()
	_, known := h.asked[name]
	if !known && len(h.asked) >= h.most {
		forget = h.idleTables()
		if len(h.asked) >= h.most {
			if !h.full {
				h.full = true
				h.logger.Warn("no more tables are kept hot: the others that clients use are answered by the database", "table", name.String(), "limit", h.most)
			}
			known = true // as good as
		}
	}
	if !known {
		if h.asked == nil {
			h.asked = map[schema.Name]askedTable{}
		}
		h.asked[name] = askedTable{since: time.Now()}
		h.full = false
	}
	h.mu.Unlock()
	for _, name := range forget {
		h.follower.Forget(name.Schema, name.Table)
	}
	if !known && !h.follower.FollowHot(schemaName, table) {
		h.removed(schemaName, table) // it is followed in full, under another spelling
	}
}

// named tells whether --tables may name the table in another spelling, which some servers take for the same.
func (h *hotTables) named(schemaName, table string) bool {
	for _, n := range h.patterns.Exact() {
		if strings.EqualFold(n.Schema, schemaName) && strings.EqualFold(n.Table, table) {
			return true
		}
	}
	return false
}

// idleTables takes the tables out that nobody has asked for long, and returns them. It looks for them once a second at
// most: it is called for each search in a table that has found no room. h.mu is held.
func (h *hotTables) idleTables() (idle []schema.Name) {
	now := time.Now()
	if now.Sub(h.looked) < min(h.idle, time.Second) {
		return nil
	}
	h.looked = now
	for name, asked := range h.asked {
		count := uint64(0)
		if t := h.store.Table(name); t != nil {
			count = t.Asked()
		}
		switch {
		case count != asked.count:
			h.asked[name] = askedTable{count, now}
		case now.Sub(asked.since) >= h.idle:
			idle = append(idle, name)
			delete(h.asked, name)
		}
	}
	return idle
}

// removed notes that a table is followed no more.
func (h *hotTables) removed(schemaName, table string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.asked, schema.Name{Schema: schemaName, Table: table})
}

// mode says how a table is to be kept that the follower tells of.
func (h *hotTables) mode(schemaName, table string) cache.Mode {
	if h == nil || h.patterns.Match(schemaName, table) {
		return cache.ModeFull
	}
	return cache.ModeHot
}

// BeginRead implements router.Hot.
func (h *hotTables) BeginRead(schemaName, table string) (version uint64, end func(server string, done func(applied bool)), ok bool) {
	r, ok := h.follower.BeginRead(schemaName, table)
	return r.Version, func(server string, done func(bool)) { h.follower.EndRead(r, server, done) }, ok
}

// demote makes a table of --tables hot because it does not fit into memory, and reports whether it does.
func (h *hotTables) demote(t *cache.Table) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tooLarge == nil {
		h.tooLarge = map[schema.Name]time.Time{}
	}
	h.tooLarge[t.Ident()] = time.Now()
	t.SetMode(cache.ModeHot)
	return true
}

// tooLargeReason is why a table of --tables is hot; empty for other tables.
func (h *hotTables) tooLargeReason(name schema.Name) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.tooLarge[name]; ok {
		return "it does not fit into --memory: only rows that are asked for are kept"
	}
	return ""
}

// again makes a table full again that became hot for want of memory some time ago: it may have shrunk.
func (h *hotTables) again(t *cache.Table) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if since, ok := h.tooLarge[t.Ident()]; ok && time.Since(since) > fullAgain {
		delete(h.tooLarge, t.Ident())
		t.SetMode(cache.ModeFull)
	}
}
