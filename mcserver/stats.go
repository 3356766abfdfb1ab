package mcserver

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Info is what `stats` shows and other parts of the program count.
type Info struct {
	// Connections of this port: open now, at most, since the start, and turned away.
	OpenConnections, MaxConnections          int64
	AcceptedConnections, RejectedConnections uint64
	BytesRead, BytesWritten                  uint64
	// Threads is the number of event loops.
	Threads int
	// Port is the TCP port; 0 where there is none.
	Port int
	// Rows is the number of rows in memory, MemoryUsed their bytes with all that belongs to them, MemoryLimit the
	// bound of that.
	Rows                    uint64
	MemoryUsed, MemoryLimit int64
}

// stat is one line of statistics.
type stat struct{ name, value string }

// statLines collects statistics.
type statLines []stat

func (l *statLines) text(name, value string) { *l = append(*l, stat{name, value}) }

func (l *statLines) count(name string, n uint64) { l.text(name, strconv.FormatUint(n, 10)) }

func (l *statLines) zeros(names ...string) {
	for _, n := range names {
		l.text(n, "0")
	}
}

// stats answers `stats` and its kinds over the text protocol.
func (s *session) stats(rest []byte) {
	kind, args := token(rest)
	switch string(kind) {
	case "reset":
		s.server.counters.reset()
		s.ok("RESET")
		return
	case "cachedump":
		s.refuse(errNoCachedump)
		return
	case "detail":
		s.statsDetail(args)
		return
	}
	lines, ok := s.server.statistics(string(kind))
	if !ok {
		s.fail(errLine)
		return
	}
	for _, l := range lines {
		s.r.out = append(s.r.out, "STAT "...)
		s.r.out = append(s.r.out, l.name...)
		s.r.out = append(s.r.out, ' ')
		s.text(l.value)
	}
	s.ok("END")
}

// statsDetail answers `stats detail`: counting by the beginnings of keys, which is not done, so a dump is empty.
func (s *session) statsDetail(args []byte) {
	switch arg, _ := token(args); string(arg) {
	case "on", "off":
		s.ok("OK")
	case "dump":
		s.ok("END")
	default:
		s.fail("CLIENT_ERROR usage: stats detail on|off|dump")
	}
}

// binaryStats answers a binary stat request.
func (s *session) binaryStats(kind []byte) {
	var lines statLines
	if string(kind) == "reset" {
		s.server.counters.reset()
	} else {
		var ok bool
		if lines, ok = s.server.statistics(string(kind)); !ok {
			s.binaryError(statusNotFound, textNotFound)
			return
		}
	}
	for _, l := range lines {
		s.r.out = s.frame.appendHeader(s.r.out, statusOK, 0, len(l.name), len(l.name)+len(l.value), 0)
		s.r.out = append(s.r.out, l.name...)
		s.r.out = append(s.r.out, l.value...)
	}
	s.count.add(s.cmd, resultOK)
	s.binaryAnswer(statusOK, "")
}

// statistics returns the lines of one kind of statistics, the general ones for an empty kind.
func (s *Server) statistics(kind string) (statLines, bool) {
	switch kind {
	case "":
		return s.generalStats(), true
	case "settings":
		return s.settingsStats(), true
	case "items":
		return nil, true // classes of items, of which there are none
	case "slabs":
		return statLines{{"active_slabs", "0"}, {"total_malloced", strconv.FormatInt(s.info().MemoryUsed, 10)}}, true
	case "sizes":
		return statLines{{"sizes_status", "disabled"}}, true
	case "conns":
		return s.connectionStats(), true
	}
	return nil, false
}

func (s *Server) generalStats() statLines {
	var l statLines
	info := s.info()
	n := s.counters.sinceReset()
	reads := func(r result) uint64 { return n[cmdGet][r] + n[cmdGets][r] + n[cmdMetaGet][r] }
	now := time.Now()
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails for a wrong argument only
	l.text("pid", strconv.Itoa(os.Getpid()))
	l.count("uptime", uint64(now.Sub(s.started)/time.Second))
	l.text("time", strconv.FormatInt(now.Unix(), 10))
	l.text("version", ProtocolVersion)
	l.text("pointer_size", strconv.Itoa(strconv.IntSize))
	l.text("rusage_user", seconds(usage.Utime))
	l.text("rusage_system", seconds(usage.Stime))
	l.count("max_connections", uint64(info.MaxConnections))
	l.count("curr_connections", uint64(info.OpenConnections))
	l.count("total_connections", info.AcceptedConnections)
	l.count("rejected_connections", info.RejectedConnections)
	l.count("connection_structures", uint64(info.OpenConnections))
	hits, misses, expired := reads(resultHit), reads(resultMiss), reads(resultExpired)
	l.count("cmd_get", hits+misses+expired)
	sets := uint64(0)
	for _, cmd := range []command{cmdSet, cmdAdd, cmdReplace, cmdAppend, cmdPrepend, cmdCAS, cmdMetaSet} {
		sets += n[cmd][resultOK]
	}
	l.count("cmd_set", sets)
	l.count("cmd_flush", n[cmdFlushAll][resultOK])
	l.count("cmd_touch", n[cmdTouch][resultHit]+n[cmdTouch][resultMiss])
	l.count("cmd_meta", n[cmdMetaGet][resultHit]+n[cmdMetaGet][resultMiss]+n[cmdMetaGet][resultExpired]+n[cmdMetaNoop][resultOK])
	l.count("get_hits", hits)
	// memcached counts an item whose time is over as a miss, too.
	l.count("get_misses", misses+expired)
	l.count("get_expired", expired)
	l.zeros("get_flushed", "delete_misses", "delete_hits", "incr_misses", "incr_hits", "decr_misses", "decr_hits",
		"cas_misses", "cas_hits", "cas_badval", "touch_hits", "touch_misses", "store_too_large", "store_no_memory", "auth_cmds", "auth_errors")
	l.count("bytes_read", info.BytesRead)
	l.count("bytes_written", info.BytesWritten)
	l.count("limit_maxbytes", uint64(info.MemoryLimit))
	l.text("accepting_conns", "1")
	l.zeros("listen_disabled_num", "time_in_listen_disabled_us")
	l.count("threads", uint64(info.Threads))
	l.zeros("conn_yields", "hash_power_level", "hash_bytes", "hash_is_expanding", "slab_reassign_running", "slabs_moved",
		"lru_crawler_running", "lru_crawler_starts", "lru_maintainer_juggles", "malloc_fails")
	l.count("bytes", uint64(info.MemoryUsed))
	l.count("curr_items", info.Rows)
	l.count("total_items", info.Rows)
	l.zeros("expired_unfetched", "evicted_unfetched", "evicted_active", "evictions", "reclaimed", "crawler_reclaimed",
		"crawler_items_checked", "lrutail_reflocked", "moves_to_cold", "moves_to_warm", "moves_within_lru", "direct_reclaims")
	return l
}

func seconds(t syscall.Timeval) string {
	micros := strconv.FormatInt(int64(t.Usec)+1_000_000, 10)
	return strconv.FormatInt(int64(t.Sec), 10) + "." + micros[1:]
}

func (s *Server) settingsStats() statLines {
	info := s.info()
	var l statLines
	l.text("maxbytes", strconv.FormatInt(info.MemoryLimit, 10))
	l.text("maxconns", strconv.FormatInt(info.MaxConnections, 10))
	l.text("tcpport", strconv.Itoa(info.Port))
	for _, st := range []stat{
		{"udpport", "0"}, {"inter", "NULL"}, {"verbosity", "0"}, {"oldest", "0"}, {"evictions", "off"}, {"domain_socket", "NULL"},
	} {
		l = append(l, st)
	}
	l.text("num_threads", strconv.Itoa(info.Threads))
	for _, st := range []stat{
		{"stat_key_prefix", ":"},
		{"detail_enabled", "no"},
		{"reqs_per_event", "0"},
		{"cas_enabled", "yes"},
		{"tcp_backlog", "0"},
		{"binding_protocol", "auto-negotiate"},
		{"auth_enabled_sasl", "no"},
		{"auth_enabled_ascii", "no"},
		{"item_size_max", strconv.Itoa(maxItemBytes)},
		{"maxconns_fast", "yes"},
		{"slab_reassign", "no"},
		{"slab_automove", "0"},
		{"lru_crawler", "no"},
		{"lru_segmented", "no"},
		{"flush_enabled", "no"},
		{"dump_enabled", "no"},
		{"idle_timeout", "0"},
	} {
		l = append(l, st)
	}
	l.text("compat", s.compat.String())
	if now := s.containers.Load(); now != nil {
		l.text("containers", strconv.Itoa(len(now.inOrder)))
		l.text("get_policy", now.policies.Get.String())
		l.text("separator", strconv.Quote(now.options.Separator))
		l.text("table_map_delimiter", strconv.Quote(now.options.TableMapDelimiter))
	}
	return l
}

// connectionStats lists the open connections by number. What a connection does is its own loop's knowledge, so the
// container it is at is not told.
func (s *Server) connectionStats() statLines {
	type open struct {
		id   uint64
		addr string
	}
	var all []open
	s.sessions.Range(func(id, se any) bool {
		all = append(all, open{id.(uint64), se.(*session).conn.RemoteAddr()})
		return true
	})
	slices.SortFunc(all, func(a, b open) int { return cmp.Compare(a.id, b.id) })
	var l statLines
	for _, c := range all {
		addr := c.addr
		if !strings.HasPrefix(addr, "unix") {
			addr = "tcp:" + addr
		}
		l.text(strconv.FormatUint(c.id, 10)+":addr", addr)
	}
	return l
}
