package install

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/triggers"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// forServers runs a test on both flavours at the same time.
func forServers(t *testing.T, f func(t *testing.T, s testmysql.Server)) {
	t.Helper()
	t.Parallel()
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

// fixture is a schema with the sources of the examples and of testdata, and a session.
type fixture struct {
	server testmysql.Server
	// app is the sources' schema, cache that of the cache tables: two names for one schema, which the test's end drops.
	app     string
	session *Session
}

func newFixture(t testing.TB, server testmysql.Server) *fixture {
	t.Helper()
	f := &fixture{server: server, app: server.Schema(t)}
	db := server.DB(t)
	for _, file := range []string{"../examples/sources.sql", "../testdata/sources.sql"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for st := range strings.SplitSeq(f.local(string(text)), ";\n") {
			if st = strings.TrimSpace(st); st == "" || strings.Contains(st, "CREATE DATABASE") {
				continue
			}
			if _, err := db.ExecContext(t.Context(), st); err != nil {
				t.Fatalf("%s\n%v", st, err)
			}
		}
	}
	f.session = f.open(t)
	return f
}

func (f *fixture) open(t testing.TB) *Session {
	t.Helper()
	s, err := Open(t.Context(), f.server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	s.Logf = t.Logf
	t.Cleanup(s.Close)
	return s
}

// local puts the fixture's schema into a text about app.
func (f *fixture) local(text string) string { return strings.ReplaceAll(text, "app.", f.app+".") }

// spec reads a spec of the repository for this fixture: its cache table lies in the fixture's schema, too.
func (f *fixture) spec(t testing.TB, path string) *triggers.Spec {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f.parse(t, path, string(text))
}

func (f *fixture) parse(t testing.TB, path, text string) *triggers.Spec {
	t.Helper()
	s, err := triggers.ParseSpec(path, []byte(f.local(text)))
	if err != nil {
		t.Fatal(err)
	}
	s.Cache.Schema = f.app
	return s
}

// parseLocal is parse for specs that may be wrong.
func parseLocal(f *fixture, text string) (*triggers.Spec, error) {
	return triggers.ParseSpec("s.yaml", []byte(f.local(text)))
}

func (f *fixture) design(t testing.TB, path string) *triggers.Design {
	t.Helper()
	d, err := f.session.Design(t.Context(), f.spec(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// install puts a design on the server and fills it.
func (f *fixture) install(t *testing.T, d *triggers.Design) []Step {
	t.Helper()
	steps, err := f.session.Plan(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := f.session.Apply(t.Context(), d, steps)
	if err != nil {
		t.Fatal(err)
	}
	if fresh || d.FillProcedure() == "" {
		if err := f.session.Complete(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
	}
	return steps
}

// asApp renames the fixture's schema to app in a catalog.
func (f *fixture) asApp(c *triggers.Catalog) *triggers.Catalog {
	out := &triggers.Catalog{Tables: make(map[schema.Name]*triggers.Table)}
	for name, t := range c.Tables {
		def, table := *t.Table, *t
		def.Schema = "app"
		table.Table = &def
		table.Parents = nil
		for _, fk := range t.Parents {
			fk.Parent.Schema = "app"
			table.Parents = append(table.Parents, fk)
		}
		out.Tables[schema.Name{Schema: "app", Table: name.Table}] = &table
	}
	return out
}

// specs are all specs of the repository.
func specs(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, p := range []string{"../examples/*.yaml", "../testdata/*.yaml"} {
		m, err := filepath.Glob(p)
		if err != nil || len(m) == 0 {
			t.Fatalf("%s: %v", p, err)
		}
		all = append(all, m...)
	}
	return all
}

// TestGolden: what the generator makes of each spec stands beside it, the same for both flavours.
func TestGolden(t *testing.T) {
	forServers(t, func(t *testing.T, server testmysql.Server) {
		f := newFixture(t, server)
		for _, path := range specs(t) {
			local := f.spec(t, path)
			catalog, err := f.session.Catalog(t.Context(), local)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := triggers.ParseSpec(path, text)
			if err != nil {
				t.Fatal(err)
			}
			d, err := triggers.NewDesign(spec, f.asApp(catalog))
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".sql"
			if *rewrite && server.Flavor == testmysql.MySQL {
				if err := os.WriteFile(golden, []byte(d.Script()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Script(); got != string(want) {
				t.Errorf("%s is not what is generated (go test ./triggers/install -run TestGolden -rewrite, then look at the difference):\n%s", golden, got)
			}
		}
	})
}
