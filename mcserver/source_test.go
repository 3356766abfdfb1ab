package mcserver_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/dbreader"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// pluginTables are those that the plugin's script makes.
var pluginTables = []string{
	"CREATE DATABASE innodb_memcache",
	"CREATE TABLE innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY, get_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, set_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, delete_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, flush_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"CREATE TABLE innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, db_schema VARCHAR(250) NOT NULL, db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=latin1",
	"CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
}

// source is a database server.
type source struct {
	testmysql.Server
	db     *sql.DB
	config *sqltext.Config
	pool   *sqltext.Pool
}

// newSource starts a private server, for tests that use the plugin's tables: their names are fixed.
func newSource(t *testing.T, flavor string) *source {
	t.Helper()
	return sourceOf(t, testmysql.Private(t, flavor))
}

func sourceOf(t *testing.T, server testmysql.Server) *source {
	t.Helper()
	s := &source{Server: server}
	s.db = s.DB(t)
	var err error
	if s.config, err = sqltext.ParseDSN(s.DSN); err != nil {
		t.Fatal(err)
	}
	s.pool = sqltext.NewPool(s.config, 4, nil)
	t.Cleanup(s.pool.Close)
	return s
}

func (s *source) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := s.db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func (s *source) load(ctx context.Context) (mcserver.ContainerSet, error) {
	c, err := s.pool.Get(ctx)
	if err != nil {
		return mcserver.ContainerSet{}, err
	}
	defer s.pool.Put(c)
	return mcserver.LoadContainers(ctx, c)
}

// routed is the Reader of a router.
type routed struct{ *router.Router }

func (r routed) Open(ctx context.Context, schemaName, table string) (mcserver.Table, error) {
	t, err := r.Router.Open(ctx, schemaName, table)
	if err != nil {
		return nil, err
	}
	return routedTable{t}, nil
}

type routedTable struct{ t *router.Table }

func (t routedTable) Def() *schema.Table { return t.t.Def() }

func (t routedTable) SearchMemory(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
	served, err := t.t.SearchMemory(nil, s, emit)
	return served, changed(err)
}

func (t routedTable) SearchDatabase(ctx context.Context, s *schema.Search, emit func(rowcodec.Row) bool) error {
	return changed(t.t.SearchDatabase(ctx, nil, s, emit))
}

func (t routedTable) ViewMemory(fn func(search func(*schema.Search, func(rowcodec.Row, uint64) bool) (bool, error))) {
	t.t.ViewMemory(nil, func(search router.SearchFunc) {
		fn(func(s *schema.Search, emit func(rowcodec.Row, uint64) bool) (bool, error) {
			served, err := search(s, emit)
			return served, changed(err)
		})
	})
}

func changed(err error) error {
	if errors.Is(err, router.ErrChanged) {
		return errors.Join(mcserver.ErrChanged, err)
	}
	return err
}

// newReader makes a router over the source; what is put into the store is answered from memory.
func (s *source) newReader(t *testing.T, store *cache.Store) routed {
	t.Helper()
	db := dbreader.New(s.config, dbreader.Config{})
	t.Cleanup(db.Close)
	r := router.New(router.Config{Store: store, Database: db})
	t.Cleanup(r.Close)
	return routed{r}
}

// fill loads all tables of a schema into the store as they are now.
func (s *source) fill(t *testing.T, store *cache.Store, schemaName string) {
	t.Helper()
	c, err := s.pool.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.pool.Put(c)
	var names []string
	err = c.Query(t.Context(), "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+schemaName+"'", func(v [][]byte) error {
		names = append(names, string(v[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		def, err := schema.Load(t.Context(), c, c.Flavor(), schemaName, name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := store.Add(schemaName, name, cache.ModeFull).Load(def)
		if err != nil {
			t.Fatal(err)
		}
		var rows []rowcodec.Row
		var b rowcodec.Builder
		err = c.Query(t.Context(), "SELECT * FROM "+schema.QuoteName(schemaName)+"."+schema.QuoteName(name), func(v [][]byte) error {
			b.Reset()
			for _, value := range v {
				if value == nil {
					b.Null()
				} else {
					b.Add(value)
				}
			}
			rows = append(rows, b.AppendRow(nil))
			return nil
		})
		if err == nil {
			err = g.Install(rows, 1, 1)
		}
		if err == nil {
			err = g.Live()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadContainers(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, flavor)
			load := func() mcserver.ContainerSet {
				t.Helper()
				set, err := s.load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return set
			}
			names := func(set mcserver.ContainerSet) (names []string) {
				for _, c := range set.Containers {
					names = append(names, c.Name)
				}
				return names
			}
			problems := func(set mcserver.ContainerSet) (texts []string) {
				for _, p := range set.Problems {
					texts = append(texts, p.String())
				}
				return texts
			}

			if set := load(); len(set.Containers) > 0 || len(set.Problems) > 0 || set.Options.Separator != "|" {
				t.Errorf("without the schema: %+v", set)
			}
			s.exec(t, pluginTables...)
			if set := load(); len(set.Containers) > 0 || len(set.Problems) > 0 {
				t.Errorf("without rows: %+v", set)
			}
			s.exec(t, "INSERT INTO innodb_memcache.containers VALUES ('B','app','t','k','v1, v2;v3','f','c','e','PRIMARY'), ('a','app','u','k','v','0','0','0','uk'), ('nul','app','u','k','v','0',NULL,'0','uk'), (_latin1'\xe4','app','u','k','v','0','0','0','uk')")
			set := load()
			want := []string{`container "nul": cas_column is NULL (0 marks a column that is not used)`, "no container is used: table innodb_memcache.cache_policies is missing or empty"}
			if len(set.Containers) > 0 || !slices.Equal(problems(set), want) {
				t.Errorf("without policies: %+v", set)
			}
			server := mcserver.New(mcserver.Config{Reader: s.newReader(t, nil)})
			if _, err := server.SetContainers(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			if st := server.Containers(); len(st) != 3 || st[0].Name != "a" || !st[0].Default || st[0].Problem != want[1] {
				t.Errorf("in use without policies: %+v", st)
			}
			s.exec(t, "INSERT INTO innodb_memcache.cache_policies VALUES ('z','disabled','disabled','disabled','disabled'), ('m','caching','cache_only','disabled','innodb_only')")
			set = load()
			if len(set.Containers) > 0 || !slices.Contains(problems(set), "no container is used: table innodb_memcache.config_options is missing or empty") {
				t.Errorf("without options: %+v", set)
			}
			s.exec(t, "INSERT INTO innodb_memcache.config_options VALUES ('other','x')")
			set = load()
			if got, want := names(set), []string{"a", "B", "\xe4"}; !slices.Equal(got, want) {
				t.Errorf("containers %q, want %q", got, want)
			}
			if got := set.Containers[1]; got.Schema != "app" || got.Table != "t" || !slices.Equal(got.KeyColumns, []string{"k"}) ||
				!slices.Equal(got.ValueColumns, []string{"v1", "v2", "v3"}) || got.FlagsColumn != "f" || got.CASColumn != "c" || got.ExpiryColumn != "e" || got.UniqueIndex != "PRIMARY" {
				t.Errorf("container %+v", got)
			}
			if want := (mcserver.Policies{Get: mcserver.PolicyCaching, Set: mcserver.PolicyCacheOnly, Delete: mcserver.PolicyDisabled, Flush: mcserver.PolicyInnoDBOnly}); set.Policies != want {
				t.Errorf("policies %+v, want those of the first row", set.Policies)
			}
			if want := (mcserver.Options{Separator: "|", TableMapDelimiter: "."}); set.Options != want {
				t.Errorf("options %+v", set.Options)
			}
			s.exec(t, "INSERT INTO innodb_memcache.config_options VALUES ('separator', REPEAT('x', 40)), ('table_map_delimiter', ':;')")
			if want := (mcserver.Options{Separator: strings.Repeat("x", 32), TableMapDelimiter: ":;"}); load().Options != want {
				t.Errorf("options %+v", load().Options)
			}
			s.exec(t, "DROP TABLE innodb_memcache.cache_policies")
			if set := load(); len(set.Containers) > 0 || len(set.Problems) != 2 {
				t.Errorf("without the table of policies: %+v", set)
			}
			s.exec(t, "DROP TABLE innodb_memcache.containers")
			if set := load(); len(set.Containers) > 0 || len(set.Problems) > 0 {
				t.Errorf("without the table of containers: %+v", set)
			}
		})
	}
}
