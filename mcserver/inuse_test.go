package mcserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// twoTables has app.a and app.b, each with a row x that says whose it is.
func twoTables(t *testing.T) testReader {
	columns := []string{"k varchar(9)", "v varchar(9)"}
	return testReader{"app.a": makeTable(t, "a", columns, "x,from a"), "app.b": makeTable(t, "b", columns, "x,from b")}
}

func containerOn(name, table string) Container {
	return Container{Name: name, Schema: "app", Table: table, KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}
}

const (
	hitA   = "VALUE x 0 6\r\nfrom a\r\nEND\r\n"
	hitB   = "VALUE x 0 6\r\nfrom b\r\nEND\r\n"
	errorA = "SERVER_ERROR there is no base table app.a\r\n"
	errorB = "SERVER_ERROR there is no base table app.b\r\n"
)

// setContainers puts containers to use and checks the problems.
func setContainers(t *testing.T, s *Server, set ContainerSet, problems ...string) {
	t.Helper()
	got, err := s.SetContainers(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range got {
		texts = append(texts, p.String())
	}
	if !slices.Equal(texts, problems) {
		t.Errorf("problems %q, want %q", texts, problems)
	}
}

func expect(t *testing.T, what string, c *testConn, in, want string) {
	t.Helper()
	if got := c.send(t, in); got != want {
		t.Errorf("%s: %q: got %q, want %q", what, in, got, want)
	}
}

// TestUnusableContainers loads the containers again while a table is away: no connection may get another table's row.
func TestUnusableContainers(t *testing.T) {
	reader := twoTables(t)
	s := New(Config{Reader: reader})
	set := ContainerSet{Containers: []Container{containerOn("A", "a"), containerOn("B", "b")}}
	setContainers(t, s, set)
	atDefault, atA, atB := newConn(s), newConn(s), newConn(s)
	expect(t, "before", atDefault, "get x\r\n", hitA)
	expect(t, "before", atA, "get @@A.x\r\n", strings.Replace(hitA, "x", "@@A.x", 1))
	expect(t, "before", atB, "bind B\r\nget x\r\n", "SUCCEED\r\n"+hitB)

	a, b := reader["app.a"], reader["app.b"]
	delete(reader, "app.b")
	setContainers(t, s, set, `container "B": there is no base table app.b`)
	expect(t, "B is away", atB, "get x\r\nmg x v\r\nget @@B.x\r\n", strings.Repeat(errorB, 3))
	expect(t, "B is away", newConn(s), "get @@B.x\r\nget x\r\nmg x v\r\n", strings.Repeat(errorB, 3))
	expect(t, "B is away", newConn(s), "bind B\r\nget x y\r\n", "SUCCEED\r\n"+errorB)
	expect(t, "B is away", atDefault, "get x\r\n", hitA)
	in := request(opGet, 1, "", "@@B.x", "") + request(opGetQ, 2, "", "x", "")
	want := "op 0x0 status 0x86 opaque 1 cas 0 extras  key \"\" value \"there is no base table app.b\"\n" +
		"op 0x9 status 0x86 opaque 2 cas 0 extras  key \"\" value \"there is no base table app.b\"\n"
	if got := describe(t, newConn(s).send(t, in)); got != want {
		t.Errorf("binary: got %q, want %q", got, want)
	}
	reader["app.b"] = b
	expect(t, "B is back", atB, "get x\r\n", hitB)

	delete(reader, "app.a")
	setContainers(t, s, set, `container "A": there is no base table app.a`)
	for _, c := range []*testConn{atDefault, atA, newConn(s)} {
		expect(t, "the default is away", c, "get x\r\nmg x v\r\n", errorA+errorA)
	}
	if st := s.Containers(); len(st) != 2 || !st[0].Default || st[0].Problem != "there is no base table app.a" || st[1].Problem != "" {
		t.Errorf("status %+v", st)
	}
	setContainers(t, s, set, `container "A": there is no base table app.a`)
	expect(t, "the default is still away", atDefault, "get x\r\n", errorA)
	reader["app.a"] = a
	expect(t, "the default is back", atDefault, "get x\r\n", hitA)
	expect(t, "the default is back", atA, "get x\r\n", hitA)

	setContainers(t, s, ContainerSet{Containers: set.Containers[1:]})
	expect(t, "A is no longer configured", atA, "get x\r\n", "SERVER_ERROR container \"A\" is no longer known\r\n")
	expect(t, "A is no longer configured", atA, "get @@A.x\r\n", "END\r\n")
	expect(t, "A is no longer configured", atDefault, "get x\r\n", hitB)
	setContainers(t, s, set)
	expect(t, "A is configured again", atA, "get x\r\n", hitA)
}

// TestDefaultStays checks that only the first usable set and other names choose the default.
func TestDefaultStays(t *testing.T) {
	reader := twoTables(t)
	a, b := reader["app.a"], reader["app.b"]
	set := ContainerSet{Containers: []Container{containerOn("A", "a"), containerOn("default", "b")}}

	t.Run("broken at first", func(t *testing.T) {
		delete(reader, "app.b")
		s := New(Config{Reader: reader})
		setContainers(t, s, set, `container "default": there is no base table app.b`)
		conn := newConn(s)
		expect(t, "broken default", conn, "get x\r\n", hitA)
		expect(t, "broken default", newConn(s), "get @@default.x\r\n", errorB)
		reader["app.b"] = b
		setContainers(t, s, set)
		expect(t, "mended", conn, "get x\r\n", hitA)
		expect(t, "mended", newConn(s), "get x\r\n", hitA)
		setContainers(t, s, ContainerSet{Containers: append(slices.Clone(set.Containers), containerOn("C", "b"))})
		expect(t, "other names", conn, "get x\r\n", hitB)
	})
	t.Run("none usable at first", func(t *testing.T) {
		clear(reader)
		s := New(Config{Reader: reader})
		setContainers(t, s, set, `container "A": there is no base table app.a`, `container "default": there is no base table app.b`)
		conn := newConn(s)
		expect(t, "none usable", conn, "get x\r\n", errorB)
		reader["app.a"] = a
		setContainers(t, s, set, `container "default": there is no base table app.b`)
		expect(t, "A is usable", conn, "get x\r\n", hitA)
		reader["app.b"] = b
		setContainers(t, s, set)
		expect(t, "both are usable", conn, "get x\r\n", hitA)
	})
}

// TestWrongRows checks the rows of the plugin's table that do not describe a container.
func TestWrongRows(t *testing.T) {
	reader := twoTables(t)
	good := containerOn("B", "b")
	good.plugin = true
	wrong := good
	wrong.ValueColumns = []string{"w"}
	a := containerOn("A", "a")
	a.plugin = true
	const noColumn = `value column "w": app.b has no such column (names are compared byte by byte)`
	null := barredContainer{Container: good, reason: "cas_column is NULL", wrongRow: true}

	s := New(Config{Reader: reader})
	setContainers(t, s, ContainerSet{Containers: []Container{a, wrong}}, `container "B": `+noColumn)
	expect(t, "never usable", newConn(s), "get @@B.x\r\n", "END\r\n")
	setContainers(t, s, ContainerSet{Containers: []Container{a}, barred: []barredContainer{null}})
	expect(t, "never usable", newConn(s), "get @@B.x\r\n", "END\r\n")

	setContainers(t, s, ContainerSet{Containers: []Container{a, good}})
	conn := newConn(s)
	expect(t, "usable", conn, "bind B\r\nget x\r\n", "SUCCEED\r\n"+hitB)
	setContainers(t, s, ContainerSet{Containers: []Container{a, wrong}}, `container "B": `+noColumn)
	expect(t, "no longer usable", conn, "get x\r\n", "SERVER_ERROR "+noColumn+"\r\n")
	setContainers(t, s, ContainerSet{Containers: []Container{a}, barred: []barredContainer{null}})
	expect(t, "with a NULL", conn, "get x\r\nget @@B.x\r\n", strings.Repeat("SERVER_ERROR cas_column is NULL\r\n", 2))
	setContainers(t, s, ContainerSet{Containers: []Container{a, good}})
	expect(t, "usable again", conn, "get x\r\n", hitB)

	file := containerOn("B", "b")
	file.ValueColumns = wrong.ValueColumns
	s = New(Config{Reader: reader})
	setContainers(t, s, ContainerSet{Containers: []Container{a, file}}, `container "B": `+noColumn)
	expect(t, "a file's container", newConn(s), "get @@B.x\r\n", "SERVER_ERROR "+noColumn+"\r\n")
}

// TestContainerFoundWithoutTable names a new container while its table is away.
func TestContainerFoundWithoutTable(t *testing.T) {
	reader := twoTables(t)
	b := reader["app.b"]
	delete(reader, "app.b")
	set := ContainerSet{Containers: []Container{containerOn("A", "a"), containerOn("B", "b")}}
	s := New(Config{Reader: reader, FindContainers: func(context.Context) (ContainerSet, error) { return set, nil }})
	setContainers(t, s, ContainerSet{Containers: set.Containers[:1]})
	conn := newConn(s)
	expect(t, "found without its table", conn, "get @@B.x\r\nget x\r\n", errorB+errorB)
	reader["app.b"] = b
	expect(t, "the table is there", conn, "get x\r\n", hitB)

	// Whether a new default is first found by its name or by another look at all containers must make no difference.
	s.refreshed.Store(0)
	set.Containers = append(set.Containers, containerOn("default", "b"))
	expect(t, "a new default", newConn(s), "get @@default.x\r\n", strings.Replace(hitB, "x", "@@default.x", 1))
	expect(t, "a new default", newConn(s), "get x\r\n", hitA)
	setContainers(t, s, set)
	expect(t, "a new default, read with all", newConn(s), "get x\r\n", hitB)
}

// TestBarredByMissingPolicies checks containers that all wait for another of the plugin's tables.
func TestBarredByMissingPolicies(t *testing.T) {
	s := New(Config{Reader: twoTables(t)})
	a, b := containerOn("A", "a"), containerOn("B", "b")
	a.plugin, b.plugin = true, true
	const reason = "no container is used: table innodb_memcache.cache_policies is missing or empty"
	set := ContainerSet{Problems: []Problem{{Reason: reason}}, barred: []barredContainer{{Container: a, reason: reason}, {Container: b, reason: reason}}}
	setContainers(t, s, set, reason)
	conn := newConn(s)
	expect(t, "barred", conn, "get x\r\nget @@B.x\r\n", strings.Repeat("SERVER_ERROR "+reason+"\r\n", 2))
	setContainers(t, s, ContainerSet{Containers: []Container{a, b}})
	expect(t, "mended", conn, "get x\r\n", hitB)
	expect(t, "mended", newConn(s), "get x\r\n", hitA)
	set.Add(Settings{Containers: []Container{containerOn("B", "b")}})
	setContainers(t, s, set, reason)
	expect(t, "barred again, B in a file", conn, "get x\r\n", hitB)
	expect(t, "barred again, B in a file", newConn(s), "get x\r\n", "SERVER_ERROR "+reason+"\r\n")
}

// TestContainersChangeDuringReads reads while the containers are loaded again and again with a table that comes and goes.
func TestContainersChangeDuringReads(t *testing.T) {
	reader := twoTables(t)
	b := reader["app.b"]
	def := b.def.Load()
	s := New(Config{Reader: reader})
	set := ContainerSet{Containers: []Container{containerOn("A", "a"), containerOn("B", "b")}}
	setContainers(t, s, set)
	misfit := *def
	misfit.Columns = slices.Clone(def.Columns)
	misfit.Columns[1].Name = "renamed"
	var wg sync.WaitGroup
	for range 2 {
		conn := newConn(s)
		expect(t, "before", conn, "bind B\r\n", "SUCCEED\r\n")
		wg.Go(func() {
			for range 2000 {
				if got := conn.send(t, "get x\r\n"); got != hitB && !strings.HasPrefix(got, `SERVER_ERROR value column "v"`) && !strings.HasPrefix(got, "SERVER_ERROR "+ErrChanged.Error()) {
					t.Errorf("got %q", got)
					return
				}
			}
		})
	}
	for i := range 500 {
		if b.def.Store(def); i%2 == 0 {
			b.def.Store(&misfit)
		}
		if _, err := s.SetContainers(t.Context(), set); err != nil && !errors.Is(err, errReopen) {
			t.Error(err)
		}
	}
	b.def.Store(def)
	wg.Wait()
}

// A description that was read before a client's look found a new container must not take its place.
func TestReadContainersInOrder(t *testing.T) {
	reader := testReader{"app.a": makeTable(t, "a", []string{"k varchar(9)", "v varchar(9)"}, "x,one")}
	set := func(names ...string) (set ContainerSet) {
		for _, name := range names {
			set.Containers = append(set.Containers, Container{Name: name, Schema: "app", Table: "a", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}})
		}
		return set
	}
	s := New(Config{Reader: reader, FindContainers: func(context.Context) (ContainerSet, error) { return set("old", "fresh"), nil }})
	if _, err := s.SetContainers(t.Context(), set("old")); err != nil {
		t.Fatal(err)
	}
	looked := make(chan error)
	_, err := s.ReadContainers(t.Context(), func(context.Context) (*ContainerSet, error) {
		before := set("old")
		go func() {
			_, err := s.refresh(t.Context(), []byte("fresh"))
			looked <- err
		}()
		time.Sleep(50 * time.Millisecond) // for a look that would not wait
		return &before, nil
	})
	if err := errors.Join(err, <-looked); err != nil {
		t.Fatal(err)
	}
	if s.containers.Load().byName["fresh"] == nil {
		t.Error("the container that was read last is not known")
	}
}
