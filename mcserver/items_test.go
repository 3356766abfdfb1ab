package mcserver

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/cache"
)

// frozen is the time of the items of these tests.
const frozen = 1_700_000_000

func testStore() *cache.Items {
	return cache.NewItems(cache.ItemsConfig{MemoryLimit: 16 << 20, Clock: func() int64 { return frozen }})
}

// itemServer has the containers of demoServer and items, with the given policies; plain has no containers.
func itemServer(t testing.TB, plain bool, p Policies) (*Server, *cache.Items) {
	t.Helper()
	s, _ := demoServer(t, CompatSafe)
	items := testStore()
	s.items = items
	set := ContainerSet{Policies: p}
	if !plain {
		for _, c := range s.containers.Load().inOrder {
			set.Containers = append(set.Containers, c.Container)
		}
	}
	if _, err := s.SetContainers(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return s, items
}

// TestPlaces sends the same commands under different policies.
func TestPlaces(t *testing.T) {
	const in = "set AA 3 0 3\r\nnew\r\nget AA\r\nget @@city.1\r\nincr n 1\r\ndelete AA\r\ndelete AA\r\nget AA\r\nms k 1\r\nx\r\nmg k v\r\nmd k\r\ntouch AA 1\r\ngat 0 AA\r\nflush_all\r\n"
	const hello, city = "VALUE AA 8 5\r\nHELLO\r\nEND\r\n", "VALUE @@city.1 0 22\r\nBangalore|Karnataka|12\r\nEND\r\n"
	no := errNoWriting + "\r\n"
	fromCity := "END\r\n" // what AA is in the container that @@city. has chosen
	for _, tt := range []struct {
		name  string
		plain bool
		p     Policies
		want  string
	}{
		{"innodb_only", false, Policies{}, no + hello + city + no + no + no + fromCity + no + "EN\r\n" + no + no + no + no},
		{"caching", false, Policies{PolicyCaching, PolicyCaching, PolicyCaching, PolicyCaching}, no + hello + city + no + no + no + fromCity + no + "EN\r\n" + no + no + no + no},
		{
			"cache_only", false,
			Policies{PolicyCacheOnly, PolicyCacheOnly, PolicyCacheOnly, PolicyCacheOnly},
			"STORED\r\nVALUE AA 3 3\r\nnew\r\nEND\r\nEND\r\nNOT_FOUND\r\nDELETED\r\nNOT_FOUND\r\nEND\r\nHD\r\nVA 1\r\nx\r\nHD\r\nNOT_FOUND\r\nEND\r\nOK\r\n",
		},
		{
			"disabled", false,
			Policies{PolicyDisabled, PolicyDisabled, PolicyDisabled, PolicyDisabled},
			"STORED\r\nEND\r\nEND\r\nNOT_FOUND\r\nDELETED\r\nDELETED\r\nEND\r\nHD\r\nEN\r\nHD\r\nNOT_FOUND\r\nEND\r\nOK\r\n",
		},
		{
			"rows are read, items are written", false,
			Policies{Set: PolicyCacheOnly, Delete: PolicyCacheOnly, Flush: PolicyCacheOnly},
			"STORED\r\n" + hello + city + "NOT_FOUND\r\nDELETED\r\nNOT_FOUND\r\n" + fromCity + "HD\r\nEN\r\nHD\r\nNOT_FOUND\r\n" + no + "OK\r\n",
		},
		{
			"no containers", true,
			Policies{},
			"STORED\r\nVALUE AA 3 3\r\nnew\r\nEND\r\nEND\r\nNOT_FOUND\r\nDELETED\r\nNOT_FOUND\r\nEND\r\nHD\r\nVA 1\r\nx\r\nHD\r\nNOT_FOUND\r\nEND\r\nOK\r\n",
		},
	} {
		s, _ := itemServer(t, tt.plain, tt.p)
		if got := newConn(s).send(t, in); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// TestItemKeys: without containers, and under cache_only, a key is its bytes and nothing else.
func TestItemKeys(t *testing.T) {
	only := Policies{PolicyCacheOnly, PolicyCacheOnly, PolicyCacheOnly, PolicyCacheOnly}
	for _, plain := range []bool{true, false} {
		s, _ := itemServer(t, plain, only)
		long := strings.Repeat("k", maxKeyBytes)
		for _, key := range []string{"@@demo.AA", "@@demo", "@>a", "@<=z", "@@", long} {
			in := "set " + key + " 1 0 1\r\nv\r\nget " + key + " nothing\r\n"
			if got, want := newConn(s).send(t, in), "STORED\r\nVALUE "+key+" 1 1\r\nv\r\nEND\r\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
}

// TestItemCommands are answers that the recorded dialogues do not have.
func TestItemCommands(t *testing.T) {
	big := strings.Repeat("x", DefaultItemBytes)
	nearly := strings.Repeat("y", DefaultItemBytes-itemHeaderBytes-1)
	for _, tt := range []struct{ name, in, want string }{
		{"too large, noreply", "set a 0 0 1\r\nv\r\nset a 0 0 1048576 noreply\r\n" + big + "\r\nget a\r\n", "STORED\r\nEND\r\n"},
		{"too large, add and append keep", "set a 0 0 1\r\nv\r\nappend a 0 0 1048576\r\n" + big + "\r\nms a 1048576 MA\r\n" + big + "\r\nget a\r\n", "STORED\r\n" + errTooLarge + "\r\n" + errTooLarge + "\r\nVALUE a 0 1\r\nv\r\nEND\r\n"},
		{"as large as may be", "set a 0 0 1048525\r\n" + nearly + "\r\nappend a 0 0 1\r\nz\r\nget a\r\n", "STORED\r\n" + errTooLarge + "\r\nVALUE a 0 1048525\r\n" + nearly + "\r\nEND\r\n"},
		{"an over-long time", "set a 0 99999999999 1\r\nv\r\nget a\r\n", "STORED\r\nEND\r\n"},
		{"a time that is over replaces", "set a 0 0 1\r\nv\r\nset a 0 -1 1\r\nw\r\nget a\r\nadd a 0 0 1\r\nx\r\n", "STORED\r\nSTORED\r\nEND\r\nSTORED\r\n"},
		{"cache_memlimit", "cache_memlimit\r\ncache_memlimit x\r\ncache_memlimit 7\r\ncache_memlimit 17\r\ncache_memlimit 99999999999\r\ncache_memlimit 9\r\ncache_memlimit 16 noreply\r\nmn\r\n", errBadFormat + "\r\n" + errBadFormat + "\r\n" + errLimitTooSmall + "\r\n" + errLimitBounds + "\r\n" + errLimitBounds + "\r\nOK\r\nMN\r\n"},
		{"slabs", "slabs\r\nslabs automove 1\r\nslabs reassign 1 2\r\nslabs nosuch 1\r\n", "ERROR\r\nOK\r\n" + errSlabClass + "\r\nERROR\r\n"},
		{"lru", "lru\r\nlru mode flat\r\nlru tune 10 20 0.2 2.0\r\nlru_crawler enable\r\nlru_crawler crawl all\r\nlru_crawler metadump all\r\nlru_crawler\r\n", "ERROR\r\nOK\r\nOK\r\nOK\r\nOK\r\n" + errNoDump + "\r\nERROR\r\n"},
		{"watch and shutdown", "watch fetchers\r\nshutdown\r\n", errNoWatch + "\r\n" + errShutdown + "\r\n"},
		{"leases survive a touch", "set a 0 0 1\r\nv\r\nmd a I\r\nmg a v t\r\nmg a T60 v t\r\nset a 0 0 1\r\nw\r\nmg a v\r\n", "STORED\r\nHD\r\nVA 1 t-1 X W\r\nv\r\nVA 1 t60 Z X\r\nv\r\nSTORED\r\nVA 1\r\nw\r\n"},
		{"a lease is given again after another invalidation", "set a 0 0 1\r\nv\r\nmd a I T30\r\nmg a\r\nmg a\r\nmd a I\r\nmg a\r\n", "STORED\r\nHD\r\nHD X W\r\nHD Z X\r\nHD\r\nHD X W\r\n"},
		{"incr keeps flags and time", "set a 7 100 1\r\n9\r\nincr a 1\r\nmg a f t v\r\n", "STORED\r\n10\r\nVA 2 f7 t100\r\n10\r\n"},
		{"append keeps flags and time", "set a 7 100 1\r\n9\r\nappend a 1 5 1\r\nx\r\nprepend a 1 5 1\r\n<\r\nmg a f t v\r\n", "STORED\r\nSTORED\r\nSTORED\r\nVA 3 f7 t100\r\n<9x\r\n"},
		{"me", "set a 0 60 3\r\nabc\r\nget a\r\nme a\r\n", "STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\nME a exp=60 la=0 cas=CAS fetch=yes cls=1 size=30\r\n"},
		{"ma at its ends", "ma a N30 J18446744073709551615 v\r\nma a v\r\nma a MD D5 v t c\r\nma a M\r\n", "VA 20\r\n18446744073709551615\r\nVA 1\r\n0\r\nVA 1 t30 cCAS\r\n0\r\n" + errMetaArithMode + "\r\n"},
	} {
		s, _ := itemServer(t, true, Policies{})
		got := regexp.MustCompile(`( c|cas=)[0-9]+`).ReplaceAllString(newConn(s).send(t, tt.in), "${1}CAS")
		if got != tt.want {
			t.Errorf("%s:\ngot  %.400q\nwant %.400q", tt.name, got, tt.want)
		}
	}
}

// TestGATOutput: the values of many keys are not put together before they are sent.
func TestGATOutput(t *testing.T) {
	s, _ := itemServer(t, true, Policies{})
	conn := newConn(s)
	conn.limit = 10_000
	conn.send(t, "set k 0 0 5000\r\n"+strings.Repeat("v", 5000)+"\r\n")
	conn.in = []byte("gat 0" + strings.Repeat(" k", 500) + "\r\n")
	most, total := 0, 0
	for len(conn.in) > 0 {
		n, err := conn.session.Serve(conn.in)
		if err != nil {
			t.Fatal(err)
		}
		conn.in = conn.in[n:]
		most, total = max(most, len(conn.out)), total+len(conn.out)
		conn.out = nil
	}
	if most > 20_000 || total != 500*5018+5 {
		t.Errorf("%d bytes at once, %d in all", most, total)
	}
}

// TestItemsDoNotAllocate guards the paths of items.
func TestItemsDoNotAllocate(t *testing.T) {
	s, _ := itemServer(t, true, Policies{})
	newConn(s).send(t, "set AA 1 0 5\r\nhello\r\nset n 0 0 1\r\n1\r\n")
	for name, in := range map[string]string{
		"get": "get AA\r\n", "gets": "gets AA zz\r\n", "gat": "gat 0 AA\r\n", "mg": "mg AA v f c k t h l O1\r\n",
		"set": "set AA 1 0 5\r\nhello\r\n", "incr": "incr n 1\r\n", "touch": "touch AA 0\r\n", "ms": "ms AA 5 F1 c\r\nhello\r\n",
		"binary get": request(opGet, 1, "", "AA", ""), "binary set": request(opSet, 1, "\x00\x00\x00\x01\x00\x00\x00\x00", "AA", "hello"),
	} {
		conn := newConn(s)
		conn.out = make([]byte, 0, 4096)
		input := []byte(in)
		n := testing.AllocsPerRun(100, func() {
			conn.out = conn.out[:0]
			for rest := input; len(rest) > 0; {
				n, err := conn.session.Serve(rest)
				if err != nil || n == 0 {
					t.Fatal(n, err)
				}
				rest = rest[n:]
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestItemStats: what monitors read for classes, once there are items.
func TestItemStats(t *testing.T) {
	s, items := itemServer(t, true, Policies{})
	s.info = func() Info {
		st := items.Stats()
		return Info{Rows: 77, MemoryUsed: 5000, MemoryLimit: 90000, Items: ItemsInfo{Items: st.Items, Bytes: st.Bytes, Used: st.Used, Limit: st.Limit, Total: st.Total}}
	}
	conn := newConn(s)
	conn.send(t, "set a 0 0 5\r\nhello\r\nset b 0 0 1\r\n1\r\ncas a 0 0 1 1\r\nx\r\ncas zz 0 0 1 1\r\nx\r\nadd a 0 0 1\r\nx\r\n"+
		"get a zz\r\nincr b 1\r\nincr zz 1\r\ndecr b 1\r\ndelete zz\r\ndelete b\r\ntouch a 0\r\ngat 0 a zz\r\nset big 0 0 2000000\r\n"+strings.Repeat("x", 2000000)+"\r\n")
	general := conn.send(t, "stats\r\n")
	for _, line := range []string{
		"curr_items 1", "total_items 2", "bytes 32", "limit_maxbytes 16777216", "cmd_get 4", "get_hits 2", "get_misses 2", "cmd_set 5", "cas_misses 1",
		"cas_badval 1", "cas_hits 0", "incr_hits 1", "incr_misses 1", "decr_hits 1", "decr_misses 0", "delete_hits 1", "delete_misses 1",
		"cmd_touch 3", "touch_hits 2", "touch_misses 1", "store_too_large 1", "evictions 0",
	} {
		if !strings.Contains(general, "STAT "+line+"\r\n") {
			t.Errorf("no line %q in %s", line, general)
		}
	}
	classes, slabs := conn.send(t, "stats items\r\n"), conn.send(t, "stats slabs\r\n")
	for _, name := range strings.Fields("number age evicted outofmemory reclaimed hits_to_hot hits_to_warm hits_to_cold hits_to_temp") {
		if !regexp.MustCompile(`(?m)^STAT items:1:` + name + ` [0-9]+\r$`).MatchString(classes) {
			t.Errorf("no %s in %q", name, classes)
		}
	}
	for _, name := range strings.Fields("chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks free_chunks_end mem_requested get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits") {
		if !regexp.MustCompile(`(?m)^STAT 1:` + name + ` [0-9]+\r$`).MatchString(slabs) {
			t.Errorf("no %s in %q", name, slabs)
		}
	}
}

func TestReadUsers(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "no line with name:password",
		"\n\n":                              "no line with name:password",
		"a:b\nsecret":                       "line 2: want name:password",
		":secret":                           "line 1: want name:password",
		"a:":                                "line 1: want name:password",
		"a:b c":                             "line 1: a blank or a zero byte can't be told from what stands between name and password",
		"a:" + strings.Repeat("secret", 99): "line 1: longer than 256 bytes",
	} {
		if _, err := ReadUsers(strings.NewReader(in)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", in, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is shown: %v", err)
		}
	}
}

func authServer(t *testing.T) *Server {
	t.Helper()
	s, _ := itemServer(t, true, Policies{})
	users, err := ReadUsers(strings.NewReader("ann:secret\r\n\nbob:other\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.users = users
	return s
}

func TestTextAuthentication(t *testing.T) {
	s := authServer(t)
	for _, in := range []string{"version\r\n", "get a\r\n", "set a 0 0 1000000\r\n", "mn\r\n", "\r\n", "set a 0 0 x\r\n"} {
		if got := newConn(s).send(t, in); got != errUnauthenticated+"\r\n" {
			t.Errorf("%q: %q", in, got)
		}
	}
	conn := newConn(s)
	for _, tt := range []struct{ in, want string }{
		{"set x 0 0 10\r\nann\x00secret\r\n", errAuthFailed + "\r\n"},
		{"set x 0 0 9\r\nann other\r\n", errAuthFailed + "\r\n"},
		{"set x 0 0 3\r\nann\r\n", errAuthFailed + "\r\n"},
		{"set x 0 0 10\r\nann secretX\r\n", errBadChunk + "\r\n" + errUnauthenticated + "\r\n"},
		{"\n", errUnauthenticated + "\r\n"},
		{"set x 0 0 10\r\nann secret\r\nset a 0 0 1\r\nv\r\nget a x\r\n", "STORED\r\nSTORED\r\nVALUE a 0 1\r\nv\r\nEND\r\n"},
	} {
		if got := conn.send(t, tt.in); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
	if conn := newConn(s); conn.send(t, strings.Repeat("x", 2*maxAuthBytes)) != "" || conn.closed == nil {
		t.Error("an endless line is kept")
	}
	if conn := newConn(s); conn.send(t, "quit\r\n") != "" || conn.closed == nil {
		t.Error("quit does not close")
	}
	stats := conn.send(t, "stats\r\n")
	if !strings.Contains(stats, "STAT auth_cmds 13\r\n") || !strings.Contains(stats, "STAT auth_errors 12\r\n") {
		t.Errorf("statistics: %s", stats)
	}
	if settings := conn.send(t, "stats settings\r\n"); !strings.Contains(settings, "STAT auth_enabled_ascii yes\r\n") {
		t.Errorf("settings: %s", settings)
	}
}

func TestBinaryAuthentication(t *testing.T) {
	s := authServer(t)
	const refused = "op %#x status 0x20 opaque 1 cas 0 extras  key \"\" value \"Auth failure.\"\n"
	for _, op := range []byte{opGet, opNoop, opStat, opSetQ, 0x77} {
		conn := newConn(s)
		if got := describe(t, conn.send(t, request(op, 1, "", "", ""))); got != fmt.Sprintf(refused, op) || conn.closed == nil {
			t.Errorf("%#x: %q, closed: %v", op, got, conn.closed)
		}
	}
	conn := newConn(s)
	for _, tt := range []struct{ in, want string }{
		{request(opVersion, 1, "", "", ""), "op 0xb status 0x0 opaque 1 cas 0 extras  key \"\" value \"1.6.45\"\n"},
		{request(opSASLList, 1, "", "", ""), "op 0x20 status 0x0 opaque 1 cas 0 extras  key \"\" value \"PLAIN\"\n"},
		{request(opSASLAuth, 1, "", "CRAM-MD5", "x"), fmt.Sprintf(refused, opSASLAuth)},
		{request(opSASLAuth, 1, "", "PLAIN", "\x00ann\x00other"), fmt.Sprintf(refused, opSASLAuth)},
		{request(opSASLAuth, 1, "", "PLAIN", "bob\x00ann\x00secret"), fmt.Sprintf(refused, opSASLAuth)},
		{request(opSASLStep, 1, "", "PLAIN", ""), fmt.Sprintf(refused, opSASLStep)},
		{request(opSASLAuth, 1, "", "PLAIN", "\x00ann\x00secret"), "op 0x21 status 0x0 opaque 1 cas 0 extras  key \"\" value \"Authenticated\"\n"},
		{request(opGet, 1, "", "a", ""), "op 0x0 status 0x1 opaque 1 cas 0 extras  key \"\" value \"Not found\"\n"},
	} {
		if got := describe(t, conn.send(t, tt.in)); got != tt.want || conn.closed != nil {
			t.Errorf("%q: %q, want %q, closed: %v", tt.in, got, tt.want, conn.closed)
		}
	}
	if conn := newConn(s); !strings.Contains(describe(t, conn.send(t, request(opSASLAuth, 1, "", "PLAIN", strings.Repeat("x", 5000)))), "0x20") || conn.closed == nil {
		t.Error("a long password is waited for")
	}
}

// A line of a client that has not shown who it is ends the connection when it is long, in however many pieces it comes.
func TestLongLineBeforeAuth(t *testing.T) {
	users, err := ReadUsers(strings.NewReader("u:p\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{maxAuthBytes, maxAuthBytes + 1} {
		line := strings.Repeat(" ", n) + "\n"
		for _, pieces := range [][]string{{line}, {line[:n-1], line[n-1:]}, {line[:n], line[n:]}} {
			c := newConn(New(Config{Reader: testReader{}, Users: users}))
			var got string
			for _, p := range pieces {
				got += c.send(t, p)
			}
			if closed := c.closed != nil; closed != (n > maxAuthBytes) || closed == (got != "") {
				t.Errorf("%d bytes in %d pieces: %q, closed %v", n, len(pieces), got, c.closed)
			}
		}
	}
}
