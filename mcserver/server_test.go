package mcserver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFindContainers checks that a name that isn't known is looked for on the source, once a second at most, and that
// known containers stay as they are.
func TestFindContainers(t *testing.T) {
	_, reader := demoServer(t, CompatSafe)
	var found ContainerSet
	var fail error
	calls := 0
	s := New(Config{Reader: reader, FindContainers: func(context.Context) (ContainerSet, error) {
		calls++
		return found, fail
	}})
	demo := Container{Name: "demo", Schema: "app", Table: "demo", KeyColumns: []string{"c1"}, ValueColumns: []string{"c2"}}
	city := Container{Name: "city", Schema: "app", Table: "city", KeyColumns: []string{"id"}, ValueColumns: []string{"name"}}
	gone := Container{Name: "gone", Schema: "app", Table: "gone", KeyColumns: []string{"id"}, ValueColumns: []string{"name"}}
	if _, err := s.SetContainers(t.Context(), ContainerSet{Containers: []Container{demo}}); err != nil {
		t.Fatal(err)
	}
	conn := newConn(s)
	send := func(in, want string) {
		t.Helper()
		if got := conn.send(t, in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	demo.ValueColumns = []string{"c1"} // a change that is not seen
	found.Containers = []Container{city, demo, gone}
	send("get @@city.2 AA\r\nget @@demo.AA\r\n", "VALUE @@city.2 0 7\r\nChennai\r\nEND\r\nVALUE @@demo.AA 0 5\r\nHELLO\r\nEND\r\n")
	if calls != 1 {
		t.Errorf("%d calls for one name", calls)
	}
	send("get @@other.1\r\nget @@gone.1\r\nbind other\r\n", "END\r\nSERVER_ERROR there is no base table app.gone\r\nNOT_FOUND\r\n")
	if calls != 1 {
		t.Errorf("%d calls within a second", calls)
	}
	s.refreshed.Store(0)
	found.Containers = append(found.Containers, Container{Name: "default", Schema: "app", Table: "city", KeyColumns: []string{"id"}, ValueColumns: []string{"state"}})
	send("bind default\r\n", "SUCCEED\r\n")
	if got := newConn(s).send(t, "get AA\r\n"); got != "VALUE AA 0 5\r\nHELLO\r\nEND\r\n" {
		t.Errorf("a container found later became the default: %q", got)
	}
	s.refreshed.Store(0)
	fail = errors.New("no connection")
	send("get @@third.1\r\nmg @@third.1\r\n", "SERVER_ERROR no connection\r\nSERVER_ERROR no connection\r\n")
	if calls != 4 {
		t.Errorf("%d calls", calls)
	}
}

func TestStats(t *testing.T) {
	s, _ := demoServer(t, CompatSafe)
	s.info = func() Info {
		return Info{OpenConnections: 3, MaxConnections: 100, AcceptedConnections: 9, RejectedConnections: 2, BytesRead: 11, BytesWritten: 22, Threads: 2, Port: 11211, Rows: 77, MemoryUsed: 5000, MemoryLimit: 90000}
	}
	conn := newConn(s)
	conn.send(t, "get AA BB zz OLD\r\nmg AA\r\nmg zz q\r\nset a 0 0 1\r\nx\r\nnosuch\r\n"+strings.Repeat("mn\r\n", 3))
	general := conn.send(t, "stats\r\n")
	// What prometheus/memcached_exporter and the usual monitors read.
	for _, name := range strings.Fields(`pid uptime time version pointer_size rusage_user rusage_system curr_items total_items bytes max_connections
		curr_connections total_connections rejected_connections cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses get_expired delete_hits
		delete_misses incr_hits incr_misses decr_hits decr_misses cas_hits cas_misses cas_badval touch_hits touch_misses auth_cmds auth_errors
		evictions reclaimed bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num threads conn_yields hash_power_level
		hash_bytes hash_is_expanding expired_unfetched evicted_unfetched store_too_large store_no_memory lru_crawler_starts direct_reclaims
		crawler_items_checked crawler_reclaimed moves_to_cold moves_to_warm moves_within_lru`) {
		if n := len(regexp.MustCompile(`(?m)^STAT `+name+` [0-9.]+\r$`).FindAllString(general, -1)); n != 1 {
			t.Errorf("%d lines of %s", n, name)
		}
	}
	for _, line := range []string{
		"cmd_get 6", "get_hits 3", "get_misses 3", "get_expired 1", "cmd_set 0", "curr_connections 3", "total_connections 9", "rejected_connections 2", "max_connections 100",
		"bytes_read 11", "bytes_written 22", "threads 2", "curr_items 77", "bytes 5000", "limit_maxbytes 90000", "version 1.6.45", "pointer_size 64",
	} {
		if !strings.Contains(general, "STAT "+line+"\r\n") {
			t.Errorf("no line %q", line)
		}
	}
	if !regexp.MustCompile(`STAT rusage_user [0-9]+\.[0-9]{6}\r\n`).MatchString(general) || !strings.HasSuffix(general, "\r\nEND\r\n") {
		t.Errorf("general statistics: %q", general)
	}
	settings := conn.send(t, "stats settings\r\n")
	for _, line := range []string{
		"maxconns 100", "tcpport 11211", "udpport 0", "maxbytes 90000", "verbosity 0", "evictions on", "cas_enabled yes", "item_size_max 1048576",
		"num_threads 2", "flush_enabled no", "auth_enabled_sasl no", "lru_crawler no", "compat safe", "containers 3", "get_policy innodb_only", `separator "|"`,
	} {
		if !strings.Contains(settings, "STAT "+line+"\r\n") {
			t.Errorf("no line %q in settings", line)
		}
	}
	if got, want := conn.send(t, "stats slabs \r\n"), "STAT active_slabs 0\r\nSTAT total_malloced 5000\r\nEND\r\n"; got != want {
		t.Errorf("slabs: %q", got)
	}
	if got, want := conn.send(t, "stats conns\r\n"), "STAT 7:addr tcp:192.0.2.1:5\r\nEND\r\n"; got != want {
		t.Errorf("conns: %q", got)
	}
	conn.session.Close()
	if got, want := newConn(s).send(t, "stats reset\r\nget AA\r\nstats\r\n"), "STAT cmd_get 1\r\n"; !strings.HasPrefix(got, "RESET\r\n") || !strings.Contains(got, want) {
		t.Errorf("after a reset: %q", got)
	}
	// Metrics go on over a reset.
	var counts []string
	for _, c := range s.Counts() {
		counts = append(counts, fmt.Sprintf("%s %s %d", c.Command, c.Result, c.N))
	}
	want := "unknown client_error 1, get hit 3, get miss 1, get expired 1, mg hit 1, mg miss 1, mn ok 3, set refused 1, stats ok 6"
	if got := strings.Join(counts, ", "); got != want {
		t.Errorf("counts %s\nwant   %s", got, want)
	}
}

// TestTogether runs connections while containers and definitions change: for the race detector.
func TestTogether(t *testing.T) {
	s, reader := demoServer(t, CompatSafe)
	var set ContainerSet
	for _, c := range s.containers.Load().inOrder {
		set.Containers = append(set.Containers, c.Container)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			conn := newConn(s)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := conn.send(t, "get @@demo.AA @@city.1 zz\r\nmg BB v\r\nstats\r\nstats conns\r\n"); !strings.HasPrefix(got, "VALUE @@demo.AA 8 5\r\nHELLO\r\nEND\r\nVA 7\r\nGOODBYE\r\n") {
					t.Errorf("got %.200q", got)
					return
				}
			}
		})
	}
	table := reader["app.demo"]
	for i := range 200 {
		def := *table.def.Load()
		table.def.Store(&def)
		table.inMemory.Store(i%3 > 0)
		if _, err := s.SetContainers(t.Context(), set); err != nil {
			t.Error(err)
		}
		s.Containers()
		s.Counts()
		time.Sleep(100 * time.Microsecond)
	}
	close(stop)
	wg.Wait()
}
