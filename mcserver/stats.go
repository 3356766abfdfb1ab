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
	// Items are the items that are in no table.
	Items ItemsInfo
}

// ItemsInfo are the figures of items.
type ItemsInfo struct {
	// Items are in memory, Bytes is what they take alone, Used all their memory and Limit its bound.
	Items, Bytes, Used, Limit int64
	// Total counts those that were stored since the start.
	Total                                                    uint64
	Evictions, EvictedUnfetched, Reclaimed, ExpiredUnfetched uint64
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
		return s.itemStats(), true
	case "slabs":
		return s.slabStats(), true
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
	reads := func(r result) uint64 {
		return n[cmdGet][r] + n[cmdGets][r] + n[cmdMetaGet][r] + n[cmdGAT][r] + n[cmdGATS][r]
	}
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
	l.count("cmd_set", setCommands(&n))
	l.count("cmd_flush", n[cmdFlushAll][resultOK])
	touches := func(r result) uint64 { return n[cmdTouch][r] + n[cmdGAT][r] + n[cmdGATS][r] }
	l.count("cmd_touch", touches(resultHit)+touches(resultMiss))
	meta := uint64(0)
	for _, cmd := range []command{cmdMetaGet, cmdMetaSet, cmdMetaDelete, cmdMetaArithmetic, cmdMetaNoop, cmdMetaDebug} {
		for r := range numResults {
			meta += n[cmd][r]
		}
	}
	l.count("cmd_meta", meta)
	l.count("get_hits", hits)
	// memcached counts an item whose time is over as a miss, too.
	l.count("get_misses", misses+expired)
	l.count("get_expired", expired)
	l.zeros("get_flushed")
	l.count("delete_misses", n[cmdDelete][resultMiss]+n[cmdMetaDelete][resultMiss])
	l.count("delete_hits", n[cmdDelete][resultHit]+n[cmdMetaDelete][resultHit])
	l.count("incr_misses", n[cmdIncr][resultMiss]+n[cmdMetaArithmetic][resultMiss])
	l.count("incr_hits", n[cmdIncr][resultHit]+n[cmdMetaArithmetic][resultHit])
	l.count("decr_misses", n[cmdDecr][resultMiss])
	l.count("decr_hits", n[cmdDecr][resultHit])
	l.count("cas_misses", n[cmdCAS][resultMiss])
	l.count("cas_hits", n[cmdCAS][resultHit])
	l.count("cas_badval", n[cmdCAS][resultExists])
	l.count("touch_hits", touches(resultHit))
	l.count("touch_misses", touches(resultMiss))
	l.count("store_too_large", s.tooLarge.Load())
	l.count("store_no_memory", s.noMemory.Load())
	l.count("auth_cmds", n[cmdAuth][resultOK]+n[cmdAuth][resultClientError])
	l.count("auth_errors", n[cmdAuth][resultClientError])
	l.count("bytes_read", info.BytesRead)
	l.count("bytes_written", info.BytesWritten)
	used, limit := info.MemoryUsed+info.Items.Used, info.MemoryLimit+info.Items.Limit
	if s.isPlain() {
		used, limit = info.Items.Bytes, info.Items.Limit
	}
	l.count("limit_maxbytes", uint64(limit))
	l.text("accepting_conns", "1")
	l.zeros("listen_disabled_num", "time_in_listen_disabled_us")
	l.count("threads", uint64(info.Threads))
	l.zeros("conn_yields", "hash_power_level", "hash_bytes", "hash_is_expanding", "slab_reassign_running", "slabs_moved",
		"lru_crawler_running", "lru_crawler_starts", "lru_maintainer_juggles", "malloc_fails")
	l.count("bytes", uint64(used))
	rows := info.Rows
	if s.isPlain() {
		rows = 0 // nobody can read them here
	}
	l.count("curr_items", rows+uint64(info.Items.Items))
	l.count("total_items", rows+info.Items.Total)
	l.count("expired_unfetched", info.Items.ExpiredUnfetched)
	l.count("evicted_unfetched", info.Items.EvictedUnfetched)
	l.count("evictions", info.Items.Evictions)
	l.count("reclaimed", info.Items.Reclaimed)
	l.zeros("evicted_active", "crawler_reclaimed",
		"crawler_items_checked", "lrutail_reflocked", "moves_to_cold", "moves_to_warm", "moves_within_lru", "direct_reclaims")
	return l
}

// setCommands counts the commands that store, by whatever they ended with.
func setCommands(n *[numCommands][numResults]uint64) (sets uint64) {
	for _, cmd := range []command{cmdSet, cmdAdd, cmdReplace, cmdAppend, cmdPrepend, cmdCAS, cmdMetaSet} {
		for _, r := range []result{resultOK, resultHit, resultMiss, resultNotStored, resultExists} {
			sets += n[cmd][r]
		}
	}
	return sets
}

// isPlain tells that there are no containers, so that this is a memcached and nothing else.
func (s *Server) isPlain() bool {
	now := s.containers.Load()
	return now != nil && len(now.inOrder) == 0
}

// itemStats shows all items as one class.
func (s *Server) itemStats() statLines {
	var l statLines
	info := s.info().Items
	if info.Items == 0 {
		return l
	}
	class := func(name string, n uint64) { l.count("items:1:"+name, n) }
	class("number", uint64(info.Items))
	for _, name := range []string{"number_hot", "number_warm", "number_cold", "age_hot", "age_warm", "age"} {
		class(name, 0)
	}
	class("mem_requested", uint64(info.Bytes))
	class("evicted", info.Evictions)
	for _, name := range []string{"evicted_nonzero", "evicted_time", "outofmemory", "tailrepairs"} {
		class(name, 0)
	}
	class("reclaimed", info.Reclaimed)
	class("expired_unfetched", info.ExpiredUnfetched)
	class("evicted_unfetched", info.EvictedUnfetched)
	for _, name := range []string{"evicted_active", "crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked", "moves_to_cold", "moves_to_warm", "moves_within_lru", "direct_reclaims", "hits_to_hot", "hits_to_warm", "hits_to_cold", "hits_to_temp"} {
		class(name, 0)
	}
	return l
}

// slabStats shows the memory of all items as one class with chunks of one byte: there are no slabs, and sums come out
// right.
func (s *Server) slabStats() statLines {
	var l statLines
	info := s.info()
	if info.Items.Items == 0 {
		return statLines{{"active_slabs", "0"}, {"total_malloced", strconv.FormatInt(info.MemoryUsed+info.Items.Used, 10)}}
	}
	n := s.counters.sinceReset()
	class := func(name string, n uint64) { l.count("1:"+name, n) }
	class("chunk_size", 1)
	class("chunks_per_page", 1<<20)
	class("total_pages", uint64(info.Items.Used+1<<20-1)>>20)
	class("total_chunks", uint64(info.Items.Used))
	class("used_chunks", uint64(info.Items.Bytes))
	class("free_chunks", uint64(max(info.Items.Used-info.Items.Bytes, 0)))
	class("free_chunks_end", 0)
	class("mem_requested", uint64(info.Items.Bytes))
	class("get_hits", n[cmdGet][resultHit]+n[cmdGets][resultHit]+n[cmdMetaGet][resultHit])
	class("cmd_set", setCommands(&n))
	class("delete_hits", n[cmdDelete][resultHit]+n[cmdMetaDelete][resultHit])
	class("incr_hits", n[cmdIncr][resultHit]+n[cmdMetaArithmetic][resultHit])
	class("decr_hits", n[cmdDecr][resultHit])
	class("cas_hits", n[cmdCAS][resultHit])
	class("cas_badval", n[cmdCAS][resultExists])
	class("touch_hits", n[cmdTouch][resultHit]+n[cmdGAT][resultHit]+n[cmdGATS][resultHit])
	l.text("active_slabs", "1")
	l.text("total_malloced", strconv.FormatInt(info.MemoryUsed+info.Items.Used, 10))
	return l
}

func seconds(t syscall.Timeval) string {
	micros := strconv.FormatInt(int64(t.Usec)+1_000_000, 10)
	return strconv.FormatInt(int64(t.Sec), 10) + "." + micros[1:]
}

func (s *Server) settingsStats() statLines {
	info := s.info()
	var l statLines
	limit := info.MemoryLimit + info.Items.Limit
	if s.isPlain() {
		limit = info.Items.Limit
	}
	l.text("maxbytes", strconv.FormatInt(limit, 10))
	l.text("maxconns", strconv.FormatInt(info.MaxConnections, 10))
	l.text("tcpport", strconv.Itoa(info.Port))
	for _, st := range []stat{
		{"udpport", "0"}, {"inter", "NULL"}, {"verbosity", "0"}, {"oldest", "0"}, {"evictions", "on"}, {"domain_socket", "NULL"},
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
		{"auth_enabled_sasl", yes(s.users != nil)},
		{"auth_enabled_ascii", yes(s.users != nil)},
		{"item_size_max", strconv.Itoa(s.maxItem)},
		{"maxconns_fast", "yes"},
		{"slab_reassign", "no"},
		{"slab_automove", "0"},
		{"lru_crawler", "no"},
		{"lru_segmented", "no"},
		{"flush_enabled", yes(s.flushes())},
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

// flushes tells that flush_all is done, and not refused.
func (s *Server) flushes() bool {
	now := s.containers.Load()
	return now != nil && now.places[operationFlush] != inTable
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
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
