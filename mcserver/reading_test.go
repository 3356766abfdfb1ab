package mcserver_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
)

// converse sends in and quit over a connection of its own, and reads until it is closed.
func converse(t *testing.T, addr, in string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, in+"quit\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %v after %q", in, err, got)
	}
	return string(got)
}

// TestMemoryAsDatabase asks the same of rows in memory and of rows in the database.
func TestMemoryAsDatabase(t *testing.T) {
	ci := map[string]string{testmysql.MariaDB: "utf8mb4_general_ci", testmysql.MySQL: "utf8mb4_0900_ai_ci"}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			server := testmysql.Shared(t, flavor)
			s := sourceOf(t, server)
			name := server.Schema(t)
			s.exec(t, "CREATE TABLE `"+name+"`.words (k VARCHAR(5) CHARACTER SET utf8mb4 COLLATE "+ci[flavor]+" PRIMARY KEY, v CHAR(6), n INT(5) ZEROFILL, f INT, c BIGINT UNSIGNED, e BIGINT UNSIGNED)",
				"INSERT INTO `"+name+"`.words VALUES ('a','one',7,1,10,0), ('Äb','two',NULL,-2,18446744073709551615,18446744073709551615), ('abcde','three',99999,3,12,1000000000), ('ß','',0,4,13,NULL), ('z','  x ',5,NULL,NULL,0)",
				"CREATE TABLE `"+name+"`.numbers (id SMALLINT PRIMARY KEY, u INT UNSIGNED NOT NULL, d DECIMAL(8,2), t DATETIME, UNIQUE KEY uu (u))",
				"INSERT INTO `"+name+"`.numbers VALUES (-32768, 4294967295, -1.5, '2020-01-02 03:04:05'), (0, 0, 0, NULL), (7, 8, 9, '1999-12-31'), (32767, 1, 2, NULL)",
				"CREATE TABLE `"+name+"`.bytes (k VARBINARY(4) PRIMARY KEY, v BLOB)",
				"INSERT INTO `"+name+"`.bytes VALUES ('ab', x'0d0a00ff'), (x'ff00', 'x'), ('', 'empty')")
			set := mcserver.ContainerSet{Options: mcserver.Options{Separator: "<>"}, Containers: []mcserver.Container{
				{Name: "words", Schema: name, Table: "words", KeyColumns: []string{"k"}, ValueColumns: []string{"v", "n"}, FlagsColumn: "f", CASColumn: "c", ExpiryColumn: "e"},
				{Name: "numbers", Schema: name, Table: "numbers", KeyColumns: []string{"id"}, ValueColumns: []string{"u", "d", "t"}, CASColumn: "u"},
				{Name: "unsigned", Schema: name, Table: "numbers", KeyColumns: []string{"u"}, ValueColumns: []string{"id"}, CASColumn: "u", UniqueIndex: "uu"},
				{Name: "bytes", Schema: name, Table: "bytes", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}},
			}}
			addrs := make(map[bool]string)
			for _, memory := range []bool{true, false} {
				store := cache.New(cache.Config{})
				t.Cleanup(store.Close)
				if memory {
					s.fill(t, store, name)
				}
				reader := s.newReader(t, store)
				mc := mcserver.New(mcserver.Config{Reader: reader})
				problems, err := mc.SetContainers(t.Context(), set)
				if err != nil || len(problems) > 0 {
					t.Fatal(err, problems)
				}
				addrs[memory] = listen(t, mc)
			}
			for _, c := range []struct{ in, want string }{
				{"gets a A Äb ÄB abcde ß z zz abcdef a\xff\r\n", ""},
				{"get a\r\nget A\r\n", "VALUE a 1 6\r\none<>7\r\nEND\r\nVALUE A 1 6\r\none<>7\r\nEND\r\n"},
				{"gets Äb\r\n", "VALUE Äb 4294967294 5 18446744073709551615\r\ntwo<>\r\nEND\r\n"},
				{"get @>a\r\nget @>=a\r\nget @<z\r\nget @<=z\r\nget @>=A@<Z\r\nget @<=ABCDEFG@>a\r\nget @<abcdefg\r\nget @>\r\n", ""},
				{"mg a v f c t s k O1\r\nmg Äb t\r\nmg zz v\r\n", ""},
				{"gets @@numbers.7 8 -32768 32767 32768 007 7x\r\n", "VALUE @@numbers.7 0 28 8\r\n8<>9.00<>1999-12-31 00:00:00\r\nVALUE -32768 0 38 4294967295\r\n4294967295<>-1.50<>2020-01-02 03:04:05\r\nVALUE 32767 0 9 1\r\n1<>2.00<>\r\nVALUE 007 0 28 8\r\n8<>9.00<>1999-12-31 00:00:00\r\nEND\r\n"},
				{"get @@numbers.@>-99999999\r\nget @>=0@<=7\r\nget @<0\r\nget @>32767\r\nget @>32766@<99999\r\n", ""},
				{"gets @@unsigned.4294967295 4294967296 0 -1 1\r\nget @>=1\r\nget @<4294967295@>0\r\n", ""},
				{"get @@bytes.ab abcde\r\nmg /wA= b v k\r\nmg YWI= b s\r\nget @>=a\r\n", "VALUE @@bytes.ab 0 4\r\n\r\n\x00\xff\r\nEND\r\nVA 1 k/wA= b\r\nx\r\nHD s4\r\nVALUE ab 0 4\r\n\r\n\x00\xff\r\nVALUE \xff\x00 0 1\r\nx\r\nEND\r\n"},
			} {
				fromMemory, fromDatabase := converse(t, addrs[true], c.in), converse(t, addrs[false], c.in)
				if fromMemory != fromDatabase {
					t.Errorf("%q:\nmemory   %q\ndatabase %q", c.in, fromMemory, fromDatabase)
				}
				if c.want != "" && fromMemory != c.want {
					t.Errorf("%q: got %q, want %q", c.in, fromMemory, c.want)
				}
				if strings.Contains(fromMemory, "ERROR") {
					t.Errorf("%q: %q", c.in, fromMemory)
				}
			}
		})
	}
}

// TestTableChanges alters tables below containers, with the rows left to the database.
func TestTableChanges(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			server := testmysql.Shared(t, flavor)
			s := sourceOf(t, server)
			name := server.Schema(t)
			reader := s.newReader(t, nil)
			mc := mcserver.New(mcserver.Config{Reader: reader})
			s.exec(t, "CREATE TABLE `"+name+"`.t (k VARCHAR(9) PRIMARY KEY, v VARCHAR(9), f INT)", "INSERT INTO `"+name+"`.t VALUES ('a','one',5)")
			if _, err := mc.SetContainers(t.Context(), mcserver.ContainerSet{Containers: []mcserver.Container{
				{Name: "t", Schema: name, Table: "t", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}, FlagsColumn: "f"},
			}}); err != nil {
				t.Fatal(err)
			}
			addr := listen(t, mc)
			for _, step := range []struct{ sql, want string }{
				{"", "VALUE a 5 3\r\none\r\nEND\r\n"},
				{"ALTER TABLE `" + name + "`.t ADD COLUMN x INT FIRST", "VALUE a 5 3\r\none\r\nEND\r\n"},
				{"ALTER TABLE `" + name + "`.t DROP COLUMN v", "SERVER_ERROR value column \"v\": " + name + ".t has no such column (names are compared byte by byte)\r\n"},
				{"ALTER TABLE `" + name + "`.t ADD COLUMN v VARCHAR(9) DEFAULT 'new'", "VALUE a 5 3\r\nnew\r\nEND\r\n"},
				{"DROP TABLE `" + name + "`.t", "SERVER_ERROR there is no base table " + name + ".t\r\n"},
				{"CREATE TABLE `" + name + "`.t AS SELECT 'a' k, 'two' v, 6 f", "SERVER_ERROR index \"PRIMARY\": " + name + ".t has no such index; unique ones: \r\n"},
				{"ALTER TABLE `" + name + "`.t ADD PRIMARY KEY (k)", "VALUE a 6 3\r\ntwo\r\nEND\r\n"},
			} {
				if step.sql != "" {
					s.exec(t, step.sql)
				}
				// Here nobody hears of the change but by the errors of searches, so what no search sees is seen late.
				reader.Forget(name, "t")
				if got := converse(t, addr, "get a\r\n"); got != step.want {
					t.Errorf("after %q: got %q, want %q", step.sql, got, step.want)
				}
			}
		})
	}
}

// TestSourceAway asks while the database is down.
func TestSourceAway(t *testing.T) {
	s := newSource(t, testmysql.MariaDB)
	s.exec(t, "CREATE DATABASE app", "CREATE TABLE app.t (k VARCHAR(9) PRIMARY KEY, v VARCHAR(9))", "INSERT INTO app.t VALUES ('a','one')")
	mc := mcserver.New(mcserver.Config{Reader: s.newReader(t, nil), FindContainers: s.load})
	addr := listen(t, mc)
	set := mcserver.ContainerSet{Containers: []mcserver.Container{{Name: "t", Schema: "app", Table: "t", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}}}
	s.Stop()
	if _, err := mc.SetContainers(t.Context(), set); err == nil {
		t.Error("containers were set without a database")
	}
	if got, want := converse(t, addr, "get a\r\n"), "SERVER_ERROR containers are not loaded yet\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Start()
	if _, err := mc.SetContainers(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	hit := "VALUE a 0 3\r\none\r\nEND\r\n"
	if got := converse(t, addr, "get a\r\n"); got != hit {
		t.Errorf("got %q", got)
	}
	s.Stop()
	if got := converse(t, addr, "get a\r\nmn\r\nget @@other.a\r\n"); !strings.HasPrefix(got, "SERVER_ERROR ") || strings.Count(got, "\r\n") != 3 || !strings.Contains(got, "\r\nMN\r\nSERVER_ERROR ") {
		t.Errorf("got %q", got)
	}
	s.Start()
	if got := converse(t, addr, "get a\r\n"); got != hit {
		t.Errorf("after the restart: got %q", got)
	}
}
