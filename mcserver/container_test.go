package mcserver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/schema"
)

func TestSettingsValidate(t *testing.T) {
	good := Container{Name: "a", Schema: "app", Table: "t", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
	with := func(change func(*Container)) []Container {
		c := good
		change(&c)
		return []Container{c}
	}
	tests := []struct {
		name string
		s    Settings
		want string // part of the error; empty for none
	}{
		{"good", Settings{Containers: []Container{good}, Policies: &Policies{}, Options: &Options{}}, ""},
		{"no name", Settings{Containers: with(func(c *Container) { c.Name = "" })}, `containers[0]: container "": name: missing`},
		{"place", Settings{Containers: with(func(c *Container) { c.Name, c.Place = "", "f.yaml:7" })}, `f.yaml:7: container "": name`},
		{"twice", Settings{Containers: []Container{good, good}}, `containers[1]: container "a": name: twice`},
		{"blank in the name", Settings{Containers: with(func(c *Container) { c.Name = "a b" })}, "can't be written in a key"},
		{"delimiter in the name", Settings{Containers: with(func(c *Container) { c.Name = "a.b" })}, "can't be written in a key"},
		{"other delimiter in the name", Settings{Containers: with(func(c *Container) { c.Name = "a:b" }), Options: &Options{TableMapDelimiter: ":;"}}, "can't be written in a key"},
		{"dot is no delimiter", Settings{Containers: with(func(c *Container) { c.Name = "a.b" }), Options: &Options{TableMapDelimiter: ":"}}, ""},
		{"no schema", Settings{Containers: with(func(c *Container) { c.Schema = "" })}, "schema: missing"},
		{"no table", Settings{Containers: with(func(c *Container) { c.Table = "" })}, "table: missing"},
		{"two key columns", Settings{Containers: with(func(c *Container) { c.KeyColumns = []string{"a", "b"} })}, "key_columns: exactly one"},
		{"no key column", Settings{Containers: with(func(c *Container) { c.KeyColumns = nil })}, "key_columns: exactly one"},
		{"no value column", Settings{Containers: with(func(c *Container) { c.ValueColumns = nil })}, "value_columns: missing"},
		{"empty value column", Settings{Containers: with(func(c *Container) { c.ValueColumns = []string{"v", ""} })}, "value_columns[1]: empty"},
		{"long separator", Settings{Options: &Options{Separator: strings.Repeat("x", 33)}}, "options.separator"},
		{"line end as separator", Settings{Options: &Options{Separator: "\n"}}, "options.separator"},
		{"@ as delimiter", Settings{Options: &Options{TableMapDelimiter: "@"}}, "options.table_map_delimiter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.s.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestContainerSetAdd(t *testing.T) {
	set := ContainerSet{
		Containers: []Container{{Name: "a", Table: "source"}, {Name: "b", Table: "source"}},
		Policies:   Policies{Get: PolicyDisabled}, Options: Options{Separator: ";"},
	}
	set.Add(Settings{Containers: []Container{{Name: "b", Table: "file"}, {Name: "c", Table: "file"}}})
	var got []string
	for _, c := range set.Containers {
		got = append(got, c.Name+" "+c.Table)
	}
	if want := []string{"a source", "b file", "c file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if set.Policies.Get != PolicyDisabled || set.Options.Separator != ";" {
		t.Errorf("the source's policies and options are gone: %+v", set)
	}
	set.Add(Settings{Policies: &Policies{Get: PolicyCaching}, Options: &Options{TableMapDelimiter: ":"}})
	if set.Policies.Get != PolicyCaching || set.Options != (Options{Separator: "|", TableMapDelimiter: ":"}) {
		t.Errorf("the file's policies and options are not used: %+v", set)
	}
}

func TestPolicyText(t *testing.T) {
	for _, p := range []Policy{PolicyInnoDBOnly, PolicyCacheOnly, PolicyCaching, PolicyDisabled} {
		if got, err := ParsePolicy(p.String()); got != p || err != nil {
			t.Errorf("%v: got %v, %v", p, got, err)
		}
	}
	if _, err := ParsePolicy("sometimes"); err == nil {
		t.Error("no error for an unknown policy")
	}
	for _, c := range []Compat{CompatSafe, CompatStrict} {
		if got, err := ParseCompat(c.String()); got != c || err != nil {
			t.Errorf("%v: got %v, %v", c, got, err)
		}
	}
	if _, err := ParseCompat("loose"); err == nil {
		t.Error("no error for an unknown mode")
	}
}

func TestContainerFromRow(t *testing.T) {
	row := func(values ...string) [][]byte {
		var r [][]byte
		for _, v := range values {
			if v == "NULL" {
				r = append(r, nil)
			} else {
				r = append(r, []byte(v))
			}
		}
		return r
	}
	tests := []struct {
		row    [][]byte
		values []string
		reason string
	}{
		{row("a", "s", "t", "k", "v", "0", "0", "0", "PRIMARY"), []string{"v"}, ""},
		{row("a", "s", "t", "k", "v1, v2;v3|v4\nv5  v6", "0", "0", "0", "PRIMARY"), []string{"v1", "v2", "v3", "v4", "v5", "v6"}, ""},
		{row("a", "s", "t", "k", " ,", "0", "0", "0", "PRIMARY"), nil, "value_columns is empty"},
		{row("a", "s", "t", "k", "NULL", "0", "0", "0", "PRIMARY"), nil, "value_columns is NULL (0 marks a column that is not used)"},
		{row("a", "s", "t", "k", "v", "0", "NULL", "0", "PRIMARY"), nil, "cas_column is NULL (0 marks a column that is not used)"},
		{row("a", "s", "t", "k", "v", "0", "0", "NULL", "PRIMARY"), nil, "expire_time_column is NULL (0 marks a column that is not used)"},
		{row("a", "s", "t", "k", "v", "0", "0", "0", "NULL"), nil, "unique_idx_name_on_key is NULL (0 marks a column that is not used)"},
	}
	for _, tt := range tests {
		c, reason := containerFromRow(tt.row)
		if reason != tt.reason {
			t.Errorf("%q: %q, want %q", tt.row, reason, tt.reason)
		}
		if reason == "" && !slices.Equal(c.ValueColumns, tt.values) {
			t.Errorf("%q: value columns %q, want %q", tt.row, c.ValueColumns, tt.values)
		}
	}
}

func TestBind(t *testing.T) {
	columns := []string{"k varchar(20)", "v text", "f int", "d datetime", "kb varbinary(10)", "n int"}
	base := Container{Name: "c", Schema: "app", Table: "t", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
	tests := []struct {
		name   string
		change func(*Container, *schema.Table)
		plugin string // the problem under the plugin's rules; empty for none
		file   string // the problem of a container of a file
	}{
		{"good", func(*Container, *schema.Table) {}, "", ""},
		{"zero is no column", func(c *Container, _ *schema.Table) { c.FlagsColumn, c.CASColumn, c.ExpiryColumn = "0", "0", "0" }, "", ""},
		{"unknown flags column", func(c *Container, _ *schema.Table) { c.FlagsColumn = "F" }, "", `flags column "F": app.t has no such column`},
		{"unknown key column", func(c *Container, _ *schema.Table) { c.KeyColumns = []string{"K"} }, `key column "K": app.t has no such column`, `key column "K": app.t has no such column`},
		{"unknown value column", func(c *Container, _ *schema.Table) { c.ValueColumns = []string{"v", "w"} }, `value column "w"`, `value column "w"`},
		{"key and value at once", func(c *Container, _ *schema.Table) { c.ValueColumns = []string{"k", "k"} }, "", ""},
		{"key of another type", func(c *Container, d *schema.Table) { c.KeyColumns[0] = "d"; d.Indexes[0].Parts[0].Column = 3 }, `key column "d" is datetime`, `key column "d" is datetime`},
		{"binary key", func(c *Container, d *schema.Table) { c.KeyColumns[0] = "kb"; d.Indexes[0].Parts[0].Column = 4 }, `key column "kb" is varbinary(10): the plugin knows`, ""},
		{"single value of another type", func(c *Container, _ *schema.Table) { c.ValueColumns = []string{"d"} }, "", ""},
		{"several values, one of another type", func(c *Container, _ *schema.Table) { c.ValueColumns = []string{"v", "d"} }, `value column "d" is datetime`, ""},
		{"flags of another type", func(c *Container, _ *schema.Table) { c.FlagsColumn = "v" }, `flags column "v" is text: an integer type is needed`, `flags column "v" is text`},
		{"cas of another type", func(c *Container, _ *schema.Table) { c.CASColumn = "v" }, `cas column "v" is text`, `cas column "v" is text`},
		{"expiry of another type", func(c *Container, _ *schema.Table) { c.ExpiryColumn = "d" }, `expiry column "d" is datetime`, `expiry column "d" is datetime`},
		{"unknown index", func(c *Container, _ *schema.Table) { c.UniqueIndex = "u" }, `index "u": app.t has no such index; unique ones: PRIMARY, uk`, `index "u"`},
		{"secondary unique index", func(c *Container, _ *schema.Table) { c.UniqueIndex = "uk" }, "", ""},
		{"index that is not unique", func(c *Container, _ *schema.Table) { c.UniqueIndex = "nu" }, `index "nu" is not unique`, `index "nu" is not unique`},
		{"index over two columns", func(c *Container, d *schema.Table) {
			d.Indexes[0].Parts = append(d.Indexes[0].Parts, schema.Part{Column: 2})
		}, `index "PRIMARY" is not over column "k" alone`, `index "PRIMARY" is not over`},
		{"index over another column", func(c *Container, d *schema.Table) { c.KeyColumns[0] = "n" }, `index "PRIMARY" is not over column "n" alone`, `index "PRIMARY" is not over`},
		{"prefix index", func(c *Container, d *schema.Table) { d.Indexes[0].Parts[0].Prefix = 5 }, "only a prefix", "only a prefix"},
		{"hash index", func(c *Container, d *schema.Table) { d.Indexes[0].BTree = false }, "not a B-tree", "not a B-tree"},
	}
	for _, tt := range tests {
		for _, plugin := range []bool{true, false} {
			table := makeTable(t, "t", columns)
			def := table.def.Load()
			def.Indexes = append(def.Indexes,
				schema.Index{Name: "uk", Unique: true, BTree: true, Parts: []schema.Part{{Column: 0}}},
				schema.Index{Name: "nu", BTree: true, Parts: []schema.Part{{Column: 0}}})
			c := base
			c.KeyColumns = slices.Clone(base.KeyColumns)
			c.plugin = plugin
			tt.change(&c, def)
			want := tt.file
			if plugin {
				want = tt.plugin
			}
			_, err := bind(&c, table, def, Options{}.withDefaults(), CompatSafe)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s (plugin %v): got %v, want %q", tt.name, plugin, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: more than one line: %q", tt.name, err)
			}
		}
	}
}

// TestDefaultContainer checks which container connections begin with.
func TestDefaultContainer(t *testing.T) {
	reader := testReader{"app.a": makeTable(t, "a", []string{"k varchar(9)", "v varchar(9)"}, "x,from a")}
	reader["app.b"] = makeTable(t, "b", []string{"k varchar(9)", "v varchar(9)"}, "x,from b")
	on := func(name, table string) Container {
		return Container{Name: name, Schema: "app", Table: table, KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
	}
	tests := []struct {
		name     string
		list     []Container
		want     string
		problems []string
	}{
		{"the first", []Container{on("one", "a"), on("two", "b")}, "VALUE x 0 6\r\nfrom a\r\nEND\r\n", nil},
		{"the first usable", []Container{on("one", "gone"), on("two", "b")}, "VALUE x 0 6\r\nfrom b\r\nEND\r\n", []string{`container "one": there is no base table app.gone`}},
		{"default by name", []Container{on("one", "a"), on("default", "b")}, "VALUE x 0 6\r\nfrom b\r\nEND\r\n", nil},
		{"a broken default does not count", []Container{on("one", "a"), on("default", "gone")}, "VALUE x 0 6\r\nfrom a\r\nEND\r\n", []string{`container "default": there is no base table app.gone`}},
		{"none", nil, "END\r\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Config{Reader: reader})
			problems, err := s.SetContainers(t.Context(), ContainerSet{Containers: tt.list})
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, p := range problems {
				texts = append(texts, p.String())
			}
			if !slices.Equal(texts, tt.problems) {
				t.Errorf("problems %q, want %q", texts, tt.problems)
			}
			if got := newConn(s).send(t, "get x\r\n"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	for policy, want := range map[Policy]string{
		PolicyInnoDBOnly: "VALUE AA 8 5\r\nHELLO\r\nEND\r\nHD\r\n",
		PolicyCaching:    "VALUE AA 8 5\r\nHELLO\r\nEND\r\nHD\r\n",
		PolicyCacheOnly:  "END\r\nEN\r\n",
		PolicyDisabled:   "END\r\nEN\r\n",
	} {
		s, _ := demoServer(t, CompatSafe)
		set := ContainerSet{Policies: Policies{Get: policy}}
		for _, c := range s.containers.Load().inOrder {
			set.Containers = append(set.Containers, c.Container)
		}
		if _, err := s.SetContainers(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if got := newConn(s).send(t, "get AA\r\nmg AA\r\n"); got != want {
			t.Errorf("%v: got %q, want %q", policy, got, want)
		}
	}
}

// TestSetContainersAgain checks that connections stay at their container by name.
func TestSetContainersAgain(t *testing.T) {
	s, _ := demoServer(t, CompatSafe)
	conn := newConn(s)
	if got, want := conn.send(t, "get @@city.3\r\n"), "VALUE @@city.3 0 11\r\nDelhi||1000\r\nEND\r\n"; got != want {
		t.Fatalf("got %q", got)
	}
	var set ContainerSet
	for _, c := range s.containers.Load().inOrder {
		set.Containers = append(set.Containers, c.Container)
	}
	set.Containers[1].ValueColumns = []string{"name"}
	if _, err := s.SetContainers(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if got, want := conn.send(t, "get 3\r\n"), "VALUE 3 0 5\r\nDelhi\r\nEND\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	set.Containers = set.Containers[:1]
	if _, err := s.SetContainers(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if got, want := conn.send(t, "get AA\r\n"), "SERVER_ERROR container \"city\" is no longer known\r\n"; got != want {
		t.Errorf("the container is gone: got %q, want %q", got, want)
	}
	if got, want := conn.send(t, "get @@demo.AA\r\n"), "VALUE @@demo.AA 8 5\r\nHELLO\r\nEND\r\n"; got != want {
		t.Errorf("at another container: got %q, want %q", got, want)
	}
}

func TestNotStarted(t *testing.T) {
	s := New(Config{Reader: testReader{}})
	if got, want := newConn(s).send(t, "get a\r\nmg a\r\nmn\r\nbind a\r\n"), strings.Repeat("SERVER_ERROR containers are not loaded yet\r\n", 2)+"MN\r\nSERVER_ERROR containers are not loaded yet\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.Containers() != nil {
		t.Error("containers before they were set")
	}
}

// TestChangedDefinition changes a table below a container in use.
func TestChangedDefinition(t *testing.T) {
	s, reader := demoServer(t, CompatSafe)
	conn := newConn(s)
	table := reader["app.demo"]
	const hit = "VALUE AA 8 5\r\nHELLO\r\nEND\r\n"
	if got := conn.send(t, "get AA\r\n"); got != hit {
		t.Fatalf("got %q", got)
	}
	same := *table.def.Load()
	table.def.Store(&same)
	if got := conn.send(t, "get AA\r\n"); got != hit {
		t.Errorf("after a change that keeps the columns: got %q", got)
	}
	without := same
	without.Columns = slices.Clone(same.Columns)
	without.Columns[1].Name = "renamed"
	table.def.Store(&without)
	want := "SERVER_ERROR value column \"c2\": app.demo has no such column (names are compared byte by byte)\r\n"
	for range 2 {
		if got := conn.send(t, "get AA\r\n"); got != want {
			t.Errorf("after a value column is gone: got %q, want %q", got, want)
		}
	}
	if st := s.Containers()[0]; !strings.Contains(st.Problem, `value column "c2"`) || !st.Default {
		t.Errorf("status %+v", st)
	}
	table.def.Store(&same)
	if got := conn.send(t, "get AA\r\n"); got != hit {
		t.Errorf("after it came back: got %q", got)
	}
	if st := s.Containers()[0]; st.Problem != "" {
		t.Errorf("status %+v", st)
	}
	table.def.Store(nil)
	if got := conn.send(t, "get AA\r\nmg AA v\r\n"); got != "SERVER_ERROR table is not open\r\nSERVER_ERROR table is not open\r\n" {
		t.Errorf("without a definition: got %q", got)
	}
	delete(reader, "app.demo")
	if got := conn.send(t, "get AA\r\n"); got != "SERVER_ERROR there is no base table app.demo\r\n" {
		t.Errorf("without the table: got %q", got)
	}
	reader["app.demo"] = table
	table.def.Store(&same)
	if got := conn.send(t, "get AA\r\n"); got != hit {
		t.Errorf("after the table came back: got %q", got)
	}
}

// TestDatabaseErrors checks what clients see of an error, and that it is one line.
func TestDatabaseErrors(t *testing.T) {
	s, reader := demoServer(t, CompatSafe)
	table := reader["app.demo"]
	table.inMemory.Store(false)
	err := errors.New("connection refused\r\nget secret " + strings.Repeat("long ", 200))
	table.fail.Store(&err)
	conn := newConn(s)
	got := conn.send(t, "get zz AA BB\r\nmg AA v k O1\r\nmn\r\n")
	lines := strings.Split(got, "\r\n")
	if len(lines) != 4 || lines[2] != "MN" || !strings.HasPrefix(lines[0], "SERVER_ERROR connection refused  get secret long") || lines[0] != lines[1] || len(lines[0]) > 400 {
		t.Errorf("got %q", got)
	}
	table.fail.Store(nil)
	if got := conn.send(t, "get AA\r\n"); got != "VALUE AA 8 5\r\nHELLO\r\nEND\r\n" {
		t.Errorf("after the error: got %q", got)
	}
}
