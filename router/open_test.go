package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// gate is a database that lets loads through one by one.
type gate struct {
	Database
	arrived chan struct{}
	pass    chan struct{}
	loads   atomic.Int32
}

func (g *gate) Load(ctx context.Context, schemaName, table string) (*schema.Table, error) {
	g.loads.Add(1)
	def, err := g.Database.Load(ctx, schemaName, table)
	g.arrived <- struct{}{}
	select {
	case <-g.pass:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return def, err
}

func TestOpensShareOneLoad(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.exec("CREATE TABLE DB.t (id INT PRIMARY KEY)")
		g := &gate{Database: r.reads, arrived: make(chan struct{}, 100), pass: make(chan struct{})}
		router := New(Config{Database: g})
		defer router.Close()
		var wg sync.WaitGroup
		tables := make([]*Table, 8)
		open := func(i int) {
			var err error
			if tables[i], err = router.Open(t.Context(), r.db, "t"); err != nil {
				t.Error(err)
			}
		}
		wg.Go(func() { open(0) })
		<-g.arrived
		for i := range tables[1:] {
			wg.Go(func() { open(i + 1) })
		}
		// Who gives up does not take the load with it.
		gone, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("gone")
		cancel(cause)
		if _, err := router.Open(gone, r.db, "t"); !errors.Is(err, cause) {
			t.Errorf("ended context: %v", err)
		}
		g.pass <- struct{}{}
		wg.Wait()
		for i, tab := range tables {
			if tab == nil || tab != tables[0] {
				t.Errorf("caller %d got another table", i)
			}
		}
		if n := g.loads.Load(); n != 1 {
			t.Errorf("%d loads", n)
		}

		// A definition that was read before a change of the table is read again.
		router.ForgetAll()
		wg.Go(func() { open(0) })
		<-g.arrived
		r.exec("ALTER TABLE DB.t ADD COLUMN n INT")
		router.Forget(r.db, "t")
		g.pass <- struct{}{}
		<-g.arrived
		g.pass <- struct{}{}
		wg.Wait()
		if def := tables[0].Def(); def == nil || len(def.Columns) != 2 {
			t.Errorf("definition from before the change: %+v", def)
		}

		// One that never settles is an error.
		router.ForgetAll()
		wg.Go(func() {
			if _, err := router.Open(t.Context(), r.db, "t"); !errors.Is(err, ErrUnsettled) {
				t.Errorf("restless table: %v", err)
			}
		})
		for range loadAttempts {
			<-g.arrived
			router.ForgetAll()
			g.pass <- struct{}{}
		}
		wg.Wait()

		// Close ends a load that hangs.
		wg.Go(func() {
			if _, err := router.Open(t.Context(), r.db, "t"); !errors.Is(err, context.Canceled) {
				t.Errorf("closed meanwhile: %v", err)
			}
		})
		<-g.arrived
		router.Close()
		wg.Wait()
		if _, err := router.Open(t.Context(), r.db, "t"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Definitions are bounded, and a table that had to go comes back when it is asked for.
func TestDefinitionsAreBounded(t *testing.T) {
	r := newRig(t, testmysql.Servers(t)[0])
	router := New(Config{Database: r.reads, Definitions: 3})
	t.Cleanup(router.Close)
	r.Router = router
	var first *Table
	for i := range 8 {
		r.exec(fmt.Sprintf("CREATE TABLE DB.t%d (id INT PRIMARY KEY)", i))
		r.exec(fmt.Sprintf("INSERT INTO DB.t%d VALUES (%d)", i, i))
		tab := r.open(fmt.Sprintf("t%d", i))
		if first == nil {
			first = tab
		}
		if n := len(router.tables); n > 3 {
			t.Fatalf("%d tables kept", n)
		}
	}
	known := 0
	for i := range 8 {
		if _, ok := router.Lookup(r.db, fmt.Sprintf("t%d", i)); ok {
			known++
		}
	}
	if known != 3 {
		t.Errorf("%d definitions known", known)
	}
	for range 3 {
		r.expect(first, "PRIMARY", "0", "database", "0")
	}
	// A name that the server spells otherwise is no second table.
	router.mu.Lock()
	for i := range 10 {
		def := *first.last0()
		def.Schema, def.Name = r.db, "t0"
		router.install(schema.Name{Schema: r.db, Table: fmt.Sprintf("T0%d", i)}, &def)
		if len(router.aliases) > 3 {
			t.Errorf("%d aliases kept", len(router.aliases))
		}
	}
	router.mu.Unlock()
	alias, ok := router.Lookup(r.db, "T09")
	if same, _ := router.Lookup(r.db, "t0"); !ok || alias != same {
		t.Errorf("alias: %v, %v", alias, ok)
	}
	router.Forget(r.db, "T0")
	if _, ok := router.Lookup(r.db, "T09"); ok {
		t.Error("alias outlives Forget")
	}
}

// last0 is some definition of the table.
func (t *Table) last0() *schema.Table {
	if t.last != nil {
		return t.last
	}
	return &schema.Table{Key: -1}
}
