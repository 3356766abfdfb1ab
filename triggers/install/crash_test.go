package install

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/triggers"
)

// crashes is how often a test of kills kills; BINLOGCACHE_TRIGGER_CRASHES has more.
func crashes(few int) int {
	if n, err := strconv.Atoi(os.Getenv("BINLOGCACHE_TRIGGER_CRASHES")); err == nil {
		return n
	}
	return few
}

// all installs as the command does: what it measures with is made and dropped as well.
func (f *fixture) all(ctx context.Context, spec *triggers.Spec) error {
	d, err := f.session.Design(ctx, spec)
	if err != nil {
		return err
	}
	steps, err := f.session.Plan(ctx, d)
	if err != nil {
		return err
	}
	_, _ = f.session.Measure(ctx, d, 1) // what keeps it from measuring keeps nobody from installing
	fresh, err := f.session.Apply(ctx, d, steps)
	if err != nil || !fresh {
		return err
	}
	return f.session.Complete(ctx, d, nil)
}

// objects counts what is on the server of any spec.
func (f *fixture) objects(t *testing.T) string {
	t.Helper()
	in := " = '" + f.app + "'"
	return f.value(t, "SELECT CONCAT_WS(' ', (SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA"+in+"), (SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA"+in+
		"), (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA"+in+"), (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA"+in+
		" AND (TABLE_COMMENT LIKE 'binlogcache%' OR TABLE_NAME LIKE 'probe%')))")
}

// TestServerKilled: the server dies at any moment of installing and of taking off. Doing it again completes it: nothing is
// lost, nothing is left.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, testmysql.Private(t, flavor, "--event-scheduler=ON"))
			var rows []string
			for i := range 300 {
				rows = append(rows, fmt.Sprintf("(%d, %d, %s, '%d', 1)", i%10, i, "NULL", i))
			}
			f.exec(t, "INSERT INTO app.items (shop, no, kind, title, qty) VALUES "+strings.Join(rows, ", "))
			const path = "../testdata/item_tolerant.yaml" // tables, procedures, triggers on several tables, an event, marks
			spec := f.spec(t, path)
			install := func(ctx context.Context) error { return f.all(ctx, spec) }
			uninstall := func(ctx context.Context) error {
				_, err := f.session.Uninstall(ctx, spec, true)
				return err
			}
			begun := time.Now()
			if err := install(t.Context()); err != nil {
				t.Fatal(err)
			}
			whole := f.objects(t)
			took := [2]time.Duration{time.Since(begun)}
			begun = time.Now()
			if err := uninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			took[1] = time.Since(begun)
			if o := f.objects(t); o != "0 0 0 0" {
				t.Fatalf("uninstalled: %s", o)
			}
			for i := range crashes(1) {
				for half, work := range []func(context.Context) error{install, uninstall} {
					at := took[half] * time.Duration(i+1) / time.Duration(crashes(1)+1)
					var wg sync.WaitGroup
					var ended error
					wg.Go(func() { ended = work(context.WithoutCancel(t.Context())) })
					time.Sleep(at)
					f.server.Kill()
					wg.Wait()
					f.server.Start()
					f.session.Close()
					f.session = f.open(t)
					t.Logf("killed after %s of %s: %v; there: %s", at.Round(time.Millisecond), took[half].Round(time.Millisecond), ended, f.objects(t))
					if half == 0 {
						// Writers go on, with whatever is there.
						f.exec(t, fmt.Sprintf("UPDATE app.items SET title = '7%d' WHERE no %% 7 = 0", i), fmt.Sprintf("DELETE FROM app.items WHERE no %% 100 = %d", i),
							fmt.Sprintf("UPDATE app.items SET no = no + 10000 WHERE no %% 400 = %d", i))
					}
					for range 2 {
						if err := work(t.Context()); err != nil {
							t.Fatalf("again: %v", err)
						}
					}
					if half == 0 {
						d := f.design(t, path)
						if err := f.session.Refresh(t.Context(), d); err != nil {
							t.Fatal(err)
						}
						f.check(t, d)
						if o := f.objects(t); o != whole {
							t.Errorf("installed: %s objects, want %s", o, whole)
						}
					} else if o := f.objects(t); o != "0 0 0 0" {
						t.Errorf("uninstalled: %s objects are left", o)
					}
				}
			}
		})
	}
}

// TestClientKilled: this process dies at any moment; the server goes on with the statement that it has.
func TestClientKilled(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		killer := f.open(t)
		var rows []string
		for i := range 600 {
			rows = append(rows, fmt.Sprintf("(%d, %d, '%d', 1)", i%10, i, i))
		}
		f.exec(t, "INSERT INTO app.items (shop, no, title, qty) VALUES "+strings.Join(rows, ", "))
		const path = "../testdata/item.yaml"
		spec := f.spec(t, path)
		begun := time.Now()
		if err := f.all(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		whole, took := f.objects(t), time.Since(begun)
		for i := range crashes(2) {
			for half, work := range []func(ctx context.Context) error{
				func(ctx context.Context) error { _, err := f.session.Uninstall(ctx, spec, true); return err },
				func(ctx context.Context) error { return f.all(ctx, spec) },
			} {
				var id string
				if err := f.session.one(t.Context(), "SELECT CONNECTION_ID()", nil, &id); err != nil {
					t.Fatal(err)
				}
				at := took * time.Duration(i+1) / time.Duration(crashes(2)+1)
				if half == 0 {
					at /= 3
				}
				var wg sync.WaitGroup
				var ended error
				wg.Go(func() { ended = work(context.WithoutCancel(t.Context())) })
				time.Sleep(at)
				_ = killer.exec(t.Context(), "KILL CONNECTION "+id) // or it has ended
				wg.Wait()
				f.session.Close()
				f.session = f.open(t)
				t.Logf("killed after %s: %v; there: %s", at.Round(time.Millisecond), ended, f.objects(t))
				f.exec(t, fmt.Sprintf("UPDATE app.items SET title = '7%d' WHERE no %% 7 = 0", i), fmt.Sprintf("DELETE FROM app.items WHERE no %% 100 = %d", i))
				for range 2 {
					if err := work(t.Context()); err != nil {
						t.Fatalf("again: %v", err)
					}
				}
				want := "0 0 0 0"
				if half == 1 {
					f.check(t, f.design(t, path))
					want = whole
				}
				if o := f.objects(t); o != want {
					t.Errorf("%s objects, want %s", o, want)
				}
			}
		}
	})
}
