package mcserver_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// rowWriter is a Writer of a real database.
type rowWriter struct{ w *writeback.Writer }

func (r rowWriter) Change(ctx context.Context, c *schema.Change) (int, error) {
	rows, _, err := r.w.Change(ctx, c)
	return rows, refusedAs(err)
}

func (r rowWriter) Transact(ctx context.Context, def *schema.Table, kind schema.ChangeKind, fn func(tx mcserver.Tx) error) error {
	_, err := r.w.Transact(ctx, def, kind, func(tx *writeback.Tx) error { return fn(tx) })
	return refusedAs(err)
}

func refusedAs(err error) error {
	if r := (*writeback.Refused)(nil); errors.As(err, &r) {
		return &mcserver.RefusedError{Duplicate: r.Number == writeback.NumberDuplicate, Err: r.Err}
	}
	if errors.Is(err, writeback.ErrChanged) {
		return mcserver.ErrChanged
	}
	return err
}

func (s *source) newWriter(t *testing.T) rowWriter {
	t.Helper()
	w := writeback.New(s.config, writeback.Config{})
	t.Cleanup(w.Close)
	return rowWriter{w}
}

// rowFixture is a server with containers over tables of a schema of its own. Nothing is in memory unless a test fills it.
type rowFixture struct {
	*source
	schema string
	store  *cache.Store
	server *mcserver.Server
	addr   string
}

func newRowFixture(t *testing.T, s testmysql.Server, tables []string, containers ...mcserver.Container) *rowFixture {
	t.Helper()
	return newFixture(t, s, mcserver.Config{}, tables, containers...)
}

// newFixture is newRowFixture for a server with settings of its own.
func newFixture(t *testing.T, s testmysql.Server, cfg mcserver.Config, tables []string, containers ...mcserver.Container) *rowFixture {
	t.Helper()
	f := &rowFixture{source: sourceOf(t, s), schema: s.Schema(t), store: cache.New(cache.Config{})}
	t.Cleanup(f.store.Close)
	for _, table := range tables {
		f.exec(t, "CREATE TABLE "+f.schema+"."+table)
	}
	cfg.Reader, cfg.Writer = f.newReader(t, f.store), f.newWriter(t)
	f.server = mcserver.New(cfg)
	for i := range containers {
		containers[i].Schema = f.schema
	}
	problems, err := f.server.SetContainers(t.Context(), mcserver.ContainerSet{Containers: containers})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	f.addr = listen(t, f.server)
	return f
}

// want compares the text of a query of one value; NULL is "NULL".
func (f *rowFixture) want(t *testing.T, query, want string) {
	t.Helper()
	var got *string
	if err := f.db.QueryRowContext(t.Context(), strings.ReplaceAll(query, "@", f.schema+".")).Scan(&got); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if got == nil {
		got = new("NULL")
	}
	if *got != want {
		t.Errorf("%s: got %q, want %q", query, *got, want)
	}
}

// client is a connection whose answers are read up to that of a request that it knows.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func (f *rowFixture) dial(t *testing.T) *client {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &client{conn, bufio.NewReader(conn)}
}

// ask sends text and returns all answers to it.
func (c *client) ask(t *testing.T, text string) string {
	t.Helper()
	if _, err := io.WriteString(c.conn, text+"version\r\n"); err != nil {
		t.Error(err)
		return ""
	}
	var got strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			t.Errorf("%.60q: %v", text, err)
			return got.String()
		}
		if strings.HasPrefix(line, "VERSION ") {
			return got.String()
		}
		got.WriteString(line)
	}
}

var demo = mcserver.Container{Name: "demo", Table: "demo", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}, FlagsColumn: "f", CASColumn: "c", ExpiryColumn: "e"}

const demoTable = "demo (k VARCHAR(32) PRIMARY KEY, v VARCHAR(40), f INT, c BIGINT, e INT, note VARCHAR(10) NOT NULL DEFAULT 'dflt') DEFAULT CHARSET=latin1"

// eachServer runs a test on both databases.
func eachServer(t *testing.T, test func(t *testing.T, s testmysql.Server)) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// TestRowWrites: every command, with what it answers and leaves in the row. A pattern of an answer stands for itself,
// except that # is any text.
func TestRowWrites(t *testing.T) {
	eachServer(t, func(t *testing.T, s testmysql.Server) {
		f := newRowFixture(t, s, []string{
			demoTable,
			"cols (id INT PRIMARY KEY, name VARCHAR(10), n INT, ch CHAR(5), f INT UNSIGNED) DEFAULT CHARSET=utf8mb4",
			"num (k VARCHAR(10) PRIMARY KEY, n BIGINT UNSIGNED, e BIGINT)",
			"uniq (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(10) NOT NULL, v VARCHAR(10), u INT NOT NULL DEFAULT 5, UNIQUE KEY uk (k), UNIQUE KEY uu (v))",
			"bare (k VARCHAR(10) PRIMARY KEY, v VARBINARY(300), must INT NOT NULL)",
			"auto (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(10))",
			"isam (k VARCHAR(10) PRIMARY KEY, v VARCHAR(10)) ENGINE=MyISAM",
			"smallcas (k VARCHAR(10) PRIMARY KEY, v VARCHAR(10), c INT)",
			"dec1 (k VARCHAR(10) PRIMARY KEY, v DECIMAL(5,2))",
		},
			demo,
			mcserver.Container{Name: "cols", Table: "cols", KeyColumns: []string{"id"}, ValueColumns: []string{"name", "n", "ch"}, FlagsColumn: "f"},
			mcserver.Container{Name: "num", Table: "num", KeyColumns: []string{"k"}, ValueColumns: []string{"n"}, ExpiryColumn: "e"},
			mcserver.Container{Name: "uniq", Table: "uniq", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}, UniqueIndex: "uk"},
			mcserver.Container{Name: "bare", Table: "bare", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}},
			mcserver.Container{Name: "auto", Table: "auto", KeyColumns: []string{"id"}, ValueColumns: []string{"v"}},
			mcserver.Container{Name: "isam", Table: "isam", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}},
			mcserver.Container{Name: "smallcas", Table: "smallcas", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}, CASColumn: "c"},
			mcserver.Container{Name: "dec1", Table: "dec1", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}},
		)
		f.exec(t, "INSERT INTO "+f.schema+".demo VALUES ('old','past',1,1,1000000000,'mine'), ('nul',NULL,NULL,NULL,NULL,'x'), ('txt','ten',0,9,0,'x'), ('neg','-5',0,9,0,'x'), ('max','18446744073709551615',0,9,0,'x')",
			"INSERT INTO "+f.schema+".bare VALUES ('there','x',1)", "INSERT INTO "+f.schema+".num VALUES ('big', 18446744073709551610, 0)",
			"INSERT INTO "+f.schema+".isam VALUES ('k','v')")
		c := f.dial(t)
		row := func(k string) string {
			return "SELECT CONCAT_WS('|',k,v,f,IF(e>2000000000,'later',e),note) FROM @demo WHERE k='" + k + "'"
		}
		for _, step := range []struct{ in, answer, query, want string }{
			{"set a 7 0 3\r\nabc\r\n", "STORED\r\n", row("a"), "a|abc|7|0|dflt"},
			{"get a\r\n", "VALUE a 7 3\r\nabc\r\nEND\r\n", "SELECT c > 0 FROM @demo WHERE k='a'", "1"},
			{"set over 0 4000000000 1\r\nx\r\nget over\r\n", "STORED\r\nEND\r\n", row("over"), "over|x|0|1|dflt"},
			{"set A 4294967295 2100000000 1\r\nx\r\n", "STORED\r\n", row("a"), "a|x|-1|later|dflt"},
			{"get a\r\n", "VALUE a 4294967295 1\r\nx\r\nEND\r\n", "", ""},
			{"add a 0 0 1\r\ny\r\nadd b 1 0 1\r\ny\r\nreplace a 2 0 1\r\nz\r\nreplace none 0 0 1\r\nz\r\n", "NOT_STORED\r\nSTORED\r\nSTORED\r\nNOT_STORED\r\n", row("a"), "a|z|2|0|dflt"},
			{"append a 9 9 2\r\n-z\r\nprepend a 9 9 2\r\na-\r\nappend none 0 0 1\r\nx\r\nprepend none 0 0 1\r\nx\r\n", "STORED\r\nSTORED\r\nNOT_STORED\r\nNOT_STORED\r\n", row("a"), "a|a-z-z|2|0|dflt"},
			{"append nul 0 0 1\r\nx\r\n", "STORED\r\n", row("nul"), "nul|x|x"},
			// What is over is not there, and its row is used again.
			{"add old 0 0 3\r\nnew\r\n", "STORED\r\n", row("old"), "old|new|0|0|mine"},
			{"set old 0 -1 1\r\nx\r\nget old\r\nreplace old 0 0 1\r\ny\r\nappend old 0 0 1\r\ny\r\nincr old 1\r\ntouch old 5\r\ncas old 0 0 1 5\r\ny\r\n", "STORED\r\nEND\r\nNOT_STORED\r\nNOT_STORED\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\n", row("old"), "old|x|0|1|mine"},
			{"delete old\r\ndelete old\r\n", "DELETED\r\nNOT_FOUND\r\n", "SELECT COUNT(*) FROM @demo WHERE k='old'", "0"},
			{"set e 0 100 1\r\nx\r\n", "STORED\r\n", "SELECT e - UNIX_TIMESTAMP() BETWEEN 90 AND 100 FROM @demo WHERE k='e'", "1"},
			{"touch e 0\r\ntouch none 0\r\n", "TOUCHED\r\nNOT_FOUND\r\n", row("e"), "e|x|0|0|dflt"},
			{"gat 2100000000 e none b\r\ngats 0 none\r\n", "VALUE e 0 1\r\nx\r\nVALUE b 1 1\r\ny\r\nEND\r\nEND\r\n", row("e"), "e|x|0|later|dflt"},
			{"mg e t T0 v\r\nmg none T5\r\n", "VA 1 t-1\r\nx\r\nEN\r\n", row("e"), "e|x|0|0|dflt"},

			{"set n 3 0 2\r\n10\r\nincr n 5\r\ndecr n 3\r\ndecr n 100\r\nincr none 1\r\n", "STORED\r\n15\r\n12\r\n0\r\nNOT_FOUND\r\n", row("n"), "n|0|3|0|dflt"},
			{"incr n 4294967297\r\n", "4294967297\r\n", row("n"), "n|4294967297|3|0|dflt"},
			{"incr max 2\r\n", "1\r\n", row("max"), "max|1|0|0|x"},
			{"incr txt 1\r\nincr neg 1\r\n", strings.Repeat("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", 2), row("txt"), "txt|ten|0|0|x"},

			{"ms m 2 c F5\r\nhi\r\n", "HD c#\r\n", row("m"), "m|hi|5|0|dflt"},
			{"ms m 2 ME\r\nho\r\nms m 1 MA s\r\n!\r\nms m 1 MP\r\n>\r\nms new 2 MA N30\r\nab\r\nms m 1 MR T-1 q k O7\r\nx\r\nms zz 1 MR k O7\r\nx\r\n", "NS\r\nHD s3\r\nHD\r\nHD\r\nNS kzz O7\r\n", row("m"), "m|x|0|1|dflt"},
			{"ms bQ== 1 b k\r\nB\r\n", "HD kbQ== b\r\n", row("m"), "m|B|0|0|dflt"},
			{"ms m 1 E77\r\nC\r\nmg m c\r\nms m 1 C76\r\nD\r\nms m 1 C77 E78\r\nE\r\nmd m C77\r\nmd m C78 q\r\nmd m q\r\nmd m\r\n", "HD\r\nHD c77\r\nEX\r\nHD\r\nEX\r\nNF\r\nNF\r\n", "SELECT COUNT(*) FROM @demo WHERE k='m'", "0"},
			{"ma cnt\r\nma cnt N0 J13 v t\r\nma cnt v\r\nma cnt MD D4 v\r\nma cnt N0 T2100000000 t k\r\n", "NF\r\nVA 2 t-1\r\n13\r\nVA 2\r\n14\r\nVA 2\r\n10\r\nHD t# kcnt\r\n", row("cnt"), "cnt|11|0|later|dflt"},
			{"md a I T5\r\nms a 1 I C1\r\nx\r\nmd a x\r\nmg none N30\r\nflush_all\r\n", strings.Repeat("SERVER_ERROR rows can't be marked as stale\r\n", 3) + "SERVER_ERROR a read makes no row\r\nSERVER_ERROR flush_all of a table is not allowed\r\n", "SELECT COUNT(*) > 5 FROM @demo", "1"},

			{"set s 0 0 41\r\n" + strings.Repeat("x", 41) + "\r\n", "SERVER_ERROR #Data too long for column 'v'#\r\n", "SELECT COUNT(*) FROM @demo WHERE k='s'", "0"},
			{"set s 0 0 41\r\n" + strings.Repeat("x", 40) + " \r\n", "SERVER_ERROR value is too long for column \"v\"\r\n", "SELECT COUNT(*) FROM @demo WHERE k='s'", "0"},
			{"set s 0 0 40\r\n" + strings.Repeat("x", 40) + "\r\nappend s 0 0 1\r\ny\r\nappend s 0 0 1\r\n \r\n", "STORED\r\nSERVER_ERROR #Data too long#\r\nSERVER_ERROR value is too long#\r\n", "SELECT LENGTH(v) FROM @demo WHERE k='s'", "40"},
			{"set " + strings.Repeat("k", 33) + " 0 0 1\r\nx\r\nget " + strings.Repeat("k", 32) + "\r\ndelete " + strings.Repeat("k", 33) + "\r\nincr " + strings.Repeat("k", 33) + " 1\r\nreplace " + strings.Repeat("k", 33) + " 0 0 1\r\nx\r\n", "SERVER_ERROR key does not fit column \"k\", which is varchar(32)\r\nEND\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_STORED\r\n", "", ""},
			{"set s 0 0 1 noreply\r\n1\r\nincr s 1 noreply\r\nset s 0 0 41 noreply\r\n" + strings.Repeat("x", 41) + "\r\nget s\r\n", "VALUE s 0 1\r\n2\r\nEND\r\n", "", ""},

			{"set @@zzz.k 0 0 1\r\nx\r\ndelete @@zzz.k\r\nincr @@zzz.k 1\r\nset @@cols 0 0 1\r\nx\r\n", "NOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nSERVER_ERROR no key stands behind the container's name\r\n", "", ""},
			{"set @@cols.1 1 0 10\r\nB\xc3\xa4r|12|ab\r\nget 1\r\n", "STORED\r\nVALUE 1 1 10\r\nB\xc3\xa4r|12|ab\r\nEND\r\n", "", ""},
			{"set 2 0 0 2\r\n||\r\nset 3 0 0 3\r\na|b\r\nset 3 0 0 7\r\na|1|c|d\r\nset 3 0 0 5\r\na|x|c\r\nset 3 0 0 7\r\na|1.5|c\r\nset 3 0 0 6\r\na|1|c \r\nset x 0 0 5\r\na|1|c\r\n", "STORED\r\nSERVER_ERROR value has 2 fields for 3 columns\r\nSERVER_ERROR value has 4 fields for 3 columns\r\nSERVER_ERROR value for column \"n\" is no whole number\r\nSERVER_ERROR value for column \"n\" is no whole number\r\nSERVER_ERROR value for column \"ch\" ends with a blank, which CHAR does not keep\r\nSERVER_ERROR key does not fit column \"id\", which is int#\r\n", "SELECT CONCAT(name,'/',n IS NULL,'/',ch) FROM @cols WHERE id=2", "/1/"},
			{"set 3 0 0 14\r\na|2147483648|c\r\nset 3 0 0 4\r\n\xff|1|\r\n", "SERVER_ERROR #Out of range value for column 'n'#\r\nSERVER_ERROR #\r\n", "SELECT COUNT(*) FROM @cols", "2"},
			{"incr 1 5\r\nappend 1 0 0 1\r\nc\r\nprepend 1 0 0 1\r\n_\r\nappend 1 0 0 2\r\n|c\r\nget 1\r\n", "17\r\nSTORED\r\nSTORED\r\nSERVER_ERROR what is joined to one of several columns can't hold their separator\r\nVALUE 1 1 12\r\n_B\xc3\xa4r|17|abc\r\nEND\r\n", "", ""},
			{"delete @@demo.b\r\nget @@demo.b\r\ntouch @@cols.1 5\r\nms 1 1 E5\r\nx\r\n", "DELETED\r\nEND\r\nSERVER_ERROR container has no expiry column\r\nSERVER_ERROR container has no cas column to keep a number in\r\n", "SELECT COUNT(*) FROM @demo WHERE k='b'", "0"},

			{"incr @@num.big 6\r\nma x N2100000000 J5 v\r\nset y 0 0 0\r\n\r\nincr y 3\r\nappend y 0 0 1\r\n7\r\nset z 0 0 2\r\n-1\r\n", "0\r\nVA 1\r\n5\r\nSTORED\r\n3\r\nSTORED\r\nSERVER_ERROR #Out of range value#\r\n", "SELECT GROUP_CONCAT(CONCAT_WS('|',k,n) ORDER BY k) FROM @num", "big|0,x|5,y|37"},

			{"set @@uniq.a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nset a 0 0 1\r\n3\r\nset c 0 0 1\r\n2\r\nset a 0 0 1\r\n2\r\nadd d 0 0 1\r\n2\r\nadd a 0 0 1\r\n9\r\n", "STORED\r\nSTORED\r\nSTORED\r\nSERVER_ERROR #Duplicate entry#\r\nSERVER_ERROR #Duplicate entry#\r\nSERVER_ERROR #Duplicate entry#\r\nNOT_STORED\r\n", "SELECT GROUP_CONCAT(CONCAT_WS('|',k,v,u) ORDER BY k) FROM @uniq", "a|3|5,b|2|5"},
			{"set @@bare.there 9 5 1\r\ny\r\nset new 0 0 1\r\ny\r\nget there\r\n", "STORED\r\nSERVER_ERROR #Field 'must' doesn't have a default value#\r\nVALUE there 0 1\r\ny\r\nEND\r\n", "SELECT COUNT(*) FROM @bare", "1"},
			{"set @@auto.0 0 0 1\r\nx\r\nset 7 0 0 1\r\nx\r\n", "SERVER_ERROR 0 in column \"id\" asks for the next number\r\nSTORED\r\n", "SELECT GROUP_CONCAT(id) FROM @auto", "7"},
			{"set @@isam.k 0 0 1\r\nx\r\nset @@smallcas.k 0 0 1\r\nx\r\nset @@dec1.k 0 0 1\r\n1\r\nget @@isam.k\r\n", "SERVER_ERROR engine of # is MyISAM: #\r\nSERVER_ERROR cas column \"c\" is int#: BIGINT is needed for writing\r\nSERVER_ERROR value column \"v\" is decimal(5,2): #\r\nVALUE @@isam.k 0 1\r\nv\r\nEND\r\n", "SELECT COUNT(*) FROM @smallcas", "0"},
			{"cas k 0 0 1 5\r\nx\r\ncas @@bare.there 0 0 1 0\r\nx\r\ncas there 0 0 1 5\r\nx\r\n", "SERVER_ERROR #\r\nSERVER_ERROR 0 is the cas of rows that were not read from memory: it can't be compared\r\nSERVER_ERROR row is not in memory: without a cas column its cas can't be compared\r\n", "SELECT v FROM @bare", "y"},
		} {
			got := c.ask(t, step.in)
			pattern := strings.ReplaceAll(regexp.QuoteMeta(step.answer), "#", ".*")
			if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
				t.Errorf("%.300q:\ngot  %q\nwant %q", step.in, got, step.answer)
			}
			if step.query != "" {
				f.want(t, step.query, step.want)
			}
		}
		// A column that goes and comes while a connection writes.
		f.exec(t, "ALTER TABLE "+f.schema+".demo DROP COLUMN note, ADD COLUMN other INT DEFAULT 3 FIRST")
		if got := c.ask(t, "set @@demo.a 0 0 1\r\nq\r\nset fresh 0 0 1\r\nq\r\nincr n 1\r\n"); got != "STORED\r\nSTORED\r\n4294967298\r\n" {
			t.Errorf("after ALTER TABLE: %q", got)
		}
		f.want(t, "SELECT CONCAT(k,v,other) FROM @demo WHERE k='fresh'", "freshq3")
	})
}

// TestRowValues: every byte comes back as it was written.
func TestRowValues(t *testing.T) {
	eachServer(t, func(t *testing.T, s testmysql.Server) {
		f := newRowFixture(t, s, []string{"t (k VARCHAR(100) PRIMARY KEY, v BLOB) DEFAULT CHARSET=latin1", "l (k VARCHAR(100) PRIMARY KEY, v VARCHAR(300)) DEFAULT CHARSET=latin1"},
			mcserver.Container{Name: "t", Table: "t", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}},
			mcserver.Container{Name: "l", Table: "l", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}})
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		c := f.dial(t)
		for _, name := range []string{"t", "l"} {
			for k, v := range map[string]string{"all": string(all), "'--": "\\'; DROP TABLE t; --", "empty": "", `\`: "\x00\\"} {
				ask := fmt.Sprintf("set @@%s.%s 0 0 %d\r\n%s\r\nget %s\r\nappend %s 0 0 256\r\n%s\r\nget %s\r\n", name, k, len(v), v, k, k, all, k)
				want := fmt.Sprintf("STORED\r\nVALUE %s 0 %d\r\n%s\r\nEND\r\n", k, len(v), v)
				if name == "l" && len(v) > 44 {
					want += fmt.Sprintf("SERVER_ERROR Data too long\r\nVALUE %s 0 %d\r\n%s\r\nEND\r\n", k, len(v), v)
				} else {
					want += fmt.Sprintf("STORED\r\nVALUE %s 0 %d\r\n%s%s\r\nEND\r\n", k, len(v)+256, v, all)
				}
				got := regexp.MustCompile("SERVER_ERROR .*Data too long.*\r\n").ReplaceAllString(c.ask(t, ask), "SERVER_ERROR Data too long\r\n")
				if got != want {
					t.Errorf("%s %q:\ngot  %q\nwant %q", name, k, got, want)
				}
			}
		}
	})
}

// frame makes a binary request.
func frame(opcode byte, cas uint64, extras, key, value string) string {
	h := make([]byte, 24)
	h[0], h[1], h[4] = 0x80, opcode, byte(len(extras))
	binary.BigEndian.PutUint16(h[2:], uint16(len(key)))
	binary.BigEndian.PutUint32(h[8:], uint32(len(extras)+len(key)+len(value)))
	binary.BigEndian.PutUint32(h[12:], 7)
	binary.BigEndian.PutUint64(h[16:], cas)
	return string(h) + extras + key + value
}

// askBinary sends requests and describes the answers up to that of a noop.
func (c *client) askBinary(t *testing.T, requests ...string) (answers []string, lastCAS uint64) {
	t.Helper()
	if _, err := io.WriteString(c.conn, strings.Join(requests, "")+frame(0x0a, 0, "", "", "")); err != nil {
		t.Fatal(err)
	}
	for {
		h := make([]byte, 24)
		if _, err := io.ReadFull(c.in, h); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(h[8:]))
		if _, err := io.ReadFull(c.in, body); err != nil {
			t.Fatal(err)
		}
		if h[1] == 0x0a {
			return answers, lastCAS
		}
		lastCAS = binary.BigEndian.Uint64(h[16:])
		answers = append(answers, fmt.Sprintf("%#x %#x %q", h[1], binary.BigEndian.Uint16(h[6:]), body))
	}
}

// TestRowWritesBinary: the binary protocol, quiet forms and cas included.
func TestRowWritesBinary(t *testing.T) {
	eachServer(t, func(t *testing.T, s testmysql.Server) {
		f := newRowFixture(t, s, []string{demoTable}, demo)
		c := f.dial(t)
		const eight, never = "\x00\x00\x00\x05\x00\x00\x00\x00", "\xff\xff\xff\xff"
		n := func(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }
		check := func(requests []string, want ...string) (cas uint64) {
			t.Helper()
			got, cas := c.askBinary(t, requests...)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			return cas
		}
		cas := check([]string{frame(0x01, 0, eight, "a", "one")}, `0x1 0x0 ""`)
		check([]string{frame(0x00, 0, "", "a", "")}, `0x0 0x0 "\x00\x00\x00\x05one"`)
		check([]string{frame(0x01, cas+1, eight, "a", "bad"), frame(0x01, 5, eight, "none", "bad")}, `0x1 0x2 "Data exists for key."`, `0x1 0x1 "Not found"`)
		next := check([]string{frame(0x01, cas, eight, "a", "two")}, `0x1 0x0 ""`)
		if next <= cas {
			t.Errorf("cas %d after %d", next, cas)
		}
		check([]string{frame(0x04, cas, "", "a", ""), frame(0x02, 0, eight, "a", "x"), frame(0x03, 0, eight, "none", "x"), frame(0x0e, 0, "", "none", "x"), frame(0x0e, 0, "", "a", "+"), frame(0x0f, 0, "", "a", "-")},
			`0x4 0x2 "Data exists for key."`, `0x2 0x2 "Data exists for key."`, `0x3 0x1 "Not found"`, `0xe 0x5 "Not stored."`, `0xe 0x0 ""`, `0xf 0x0 ""`)
		check([]string{frame(0x05, 0, n(5)+n(10)+never, "n", ""), frame(0x05, 0, n(5)+n(10)+"\x00\x00\x00\x00", "n", ""), frame(0x05, 0, n(5)+n(10)+never, "n", ""), frame(0x06, 0, n(99)+n(0)+never, "n", ""), frame(0x05, 0, n(1)+n(0)+never, "a", "")},
			`0x5 0x1 "Not found"`, `0x5 0x0 "\x00\x00\x00\x00\x00\x00\x00\n"`, `0x5 0x0 "\x00\x00\x00\x00\x00\x00\x00\x0f"`, `0x6 0x0 "\x00\x00\x00\x00\x00\x00\x00\x00"`, `0x5 0x6 "Non-numeric server-side value for incr or decr"`)
		check([]string{frame(0x1c, 0, "\x7d\x00\x00\x00", "a", ""), frame(0x1d, 0, "\x00\x00\x00\x00", "a", ""), frame(0x24, 0, "\x00\x00\x00\x00", "none", ""), frame(0x23, 0, "\x00\x00\x00\x00", "a", "")},
			`0x1c 0x0 "\x00\x00\x00\x05"`, `0x1d 0x0 "\x00\x00\x00\x05-two+"`, `0x23 0x0 "\x00\x00\x00\x05a-two+"`)
		got, _ := c.askBinary(t, frame(0x11, 0, eight, "q", "1"), frame(0x15, 0, n(1)+n(0)+never, "q", ""), frame(0x19, 0, "", "q", "0"), frame(0x11, 0, eight, "q", strings.Repeat("x", 41)), frame(0x14, 0, "", "none", ""), frame(0x08, 0, "", "", ""))
		if len(got) != 3 || !strings.HasPrefix(got[0], "0x11 0x5 ") || !strings.Contains(got[0], "Data too long") || got[1] != `0x14 0x1 "Not found"` || !strings.HasPrefix(got[2], "0x8 0x83 ") {
			t.Errorf("quiet: %q", got)
		}
		f.want(t, "SELECT GROUP_CONCAT(CONCAT_WS('|',k,v,f,e) ORDER BY k) FROM @demo", "a|-two+|5|0,n|0|0|0,q|20|5|0")
	})
}

// TestRowRaces: of many clients who do the same at a time, incr counts every one, and of cas and add one wins.
func TestRowRaces(t *testing.T) {
	eachServer(t, func(t *testing.T, s testmysql.Server) {
		f := newRowFixture(t, s, []string{demoTable, "num (k VARCHAR(10) PRIMARY KEY, n BIGINT)"}, demo,
			mcserver.Container{Name: "num", Table: "num", KeyColumns: []string{"k"}, ValueColumns: []string{"n"}})
		const clients, rounds = 12, 12
		all := make([]*client, clients)
		for i := range all {
			all[i] = f.dial(t)
		}
		if got := all[0].ask(t, "set n 0 0 1\r\n0\r\nset @@num.n 0 0 1\r\n0\r\n"); got != "STORED\r\nSTORED\r\n" {
			t.Fatalf("%q", got)
		}
		var mu sync.Mutex
		seen := map[string]bool{}
		var cas, add [rounds]atomic.Int64
		var wg sync.WaitGroup
		var step [rounds]sync.WaitGroup
		for i := range step {
			step[i].Add(clients)
		}
		for i, c := range all {
			wg.Go(func() {
				c.ask(t, "bind demo\r\n")
				for r := range rounds {
					step[r].Done()
					step[r].Wait()
					for _, k := range []string{"@@demo.n", "@@num.n"} {
						got := k + c.ask(t, "incr "+k+" 1\r\n")
						mu.Lock()
						if seen[got] {
							t.Errorf("%q twice", got)
						}
						seen[got] = true
						mu.Unlock()
					}
					id := strconv.Itoa(i)
					key := "r" + strconv.Itoa(r)
					if c.ask(t, "add @@demo."+key+" 0 0 "+strconv.Itoa(len(id))+"\r\n"+id+"\r\n") == "STORED\r\n" {
						add[r].Add(1)
					}
					fields := strings.Fields(c.ask(t, "gets "+key+"\r\n"))
					if len(fields) < 5 {
						t.Errorf("gets: %q", fields)
						return
					}
					if c.ask(t, "cas "+key+" 1 0 1 "+fields[4]+"\r\n+\r\n") == "STORED\r\n" {
						cas[r].Add(1)
					}
				}
			})
		}
		wg.Wait()
		for r := range rounds {
			// Several may have won of those that have read each other's.
			if add[r].Load() != 1 || cas[r].Load() < 1 {
				t.Errorf("round %d: %d adds, %d cas", r, add[r].Load(), cas[r].Load())
			}
		}
		total := strconv.Itoa(clients * rounds)
		f.want(t, "SELECT v FROM @demo WHERE k='n'", total)
		f.want(t, "SELECT n FROM @num WHERE k='n'", total)
		// One number, many who use it.
		for r := range rounds {
			number := strings.Fields(all[0].ask(t, "gets r"+strconv.Itoa(r)+"\r\n"))[4]
			var won atomic.Int64
			for i, c := range all {
				wg.Go(func() {
					if c.ask(t, fmt.Sprintf("cas r%d 0 0 2 %s\r\n%02d\r\n", r, number, i)) == "STORED\r\n" {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("round %d: %d of %d have won", r, won.Load(), clients)
			}
		}
	})
}

// TestRowVersion: without a cas column the number is the row's version in memory, and good only as long as memory shows
// what the database has.
func TestRowVersion(t *testing.T) {
	eachServer(t, func(t *testing.T, s testmysql.Server) {
		f := newRowFixture(t, s, []string{"t (k VARCHAR(10) PRIMARY KEY, v VARCHAR(10), other INT)"},
			mcserver.Container{Name: "t", Table: "t", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}})
		f.exec(t, "INSERT INTO "+f.schema+".t VALUES ('a','x',1)")
		f.fill(t, f.store, f.schema)
		c := f.dial(t)
		number := strings.Fields(c.ask(t, "gets a\r\n"))[4]
		cas := func(number, value string) string {
			return c.ask(t, fmt.Sprintf("cas a 0 0 %d %s\r\n%s\r\n", len(value), number, value))
		}
		if got := cas(number+"1", "bad"); number == "0" || got != "EXISTS\r\n" {
			t.Errorf("another number than %s: %q", number, got)
		}
		if got := cas(number, "y"); got != "STORED\r\n" {
			t.Errorf("the row's number: %q", got)
		}
		// Memory, to which nobody tells it here, still has x.
		if got := cas(number, "z"); got != "EXISTS\r\n" {
			t.Errorf("changed in the database: %q", got)
		}
		f.want(t, "SELECT CONCAT(v, other) FROM @t", "y1")
	})
}

// TestRowPolicies: caching writes to the table, and nothing reaches it where set and delete are disabled.
func TestRowPolicies(t *testing.T) {
	eachServer(t, func(t *testing.T, s testmysql.Server) {
		f := newRowFixture(t, s, []string{demoTable}, demo)
		c := f.dial(t)
		own := demo
		own.Schema = f.schema
		const in = "set a 0 0 1\r\nx\r\ngat 0 a\r\nmg a T0 v\r\ntouch a 0\r\ndelete a\r\nget a\r\n"
		for _, step := range []struct {
			p    mcserver.Policies
			want string
		}{
			{mcserver.Policies{Get: mcserver.PolicyCaching, Set: mcserver.PolicyCaching, Delete: mcserver.PolicyCaching}, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVA 1\r\nx\r\nTOUCHED\r\nDELETED\r\nEND\r\n"},
			{mcserver.Policies{Set: mcserver.PolicyDisabled, Delete: mcserver.PolicyDisabled}, "STORED\r\n" + strings.Repeat("SERVER_ERROR the policy for set keeps rows from being touched\r\n", 2) + "NOT_FOUND\r\nDELETED\r\nVALUE a 0 1\r\ny\r\nEND\r\n"},
		} {
			if _, err := f.server.SetContainers(t.Context(), mcserver.ContainerSet{Containers: []mcserver.Container{own}, Policies: step.p}); err != nil {
				t.Fatal(err)
			}
			if got := c.ask(t, in); got != step.want {
				t.Errorf("%+v:\ngot  %q\nwant %q", step.p, got, step.want)
			}
			f.exec(t, "REPLACE INTO "+f.schema+".demo (k,v,e) VALUES ('a','y',2000000001)")
		}
		f.want(t, "SELECT e FROM @demo WHERE k='a'", "2000000001")
	})
}
