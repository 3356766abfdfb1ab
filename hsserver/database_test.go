package hsserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// client speaks to one port of a fixture.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (f *fixture) client(w where, kind string) *client {
	f.t.Helper()
	c, err := net.Dial("tcp", f.ports[w][kind].Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		f.t.Fatal(err)
	}
	return &client{f.t, c, bufio.NewReader(c)}
}

// ask sends requests in one write and returns their answers.
func (c *client) ask(lines ...string) []string {
	c.t.Helper()
	go func() {
		if _, err := io.WriteString(c.Conn, strings.Join(lines, "\n")+"\n"); err != nil {
			c.t.Error(err)
		}
	}()
	answers := make([]string, len(lines))
	for i := range lines {
		a, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("answer to %.100q: %v", lines[i], err)
		}
		answers[i] = strings.TrimSuffix(a, "\n")
	}
	return answers
}

func (c *client) expect(line, want string) {
	c.t.Helper()
	if got := c.ask(line)[0]; got != want {
		c.t.Errorf("%.100q: got %.200q, want %.200q", line, got, want)
	}
}

func (f *fixture) sql(stmts ...string) {
	f.t.Helper()
	for _, s := range stmts {
		if _, err := f.db.ExecContext(f.t.Context(), strings.ReplaceAll(s, "@", f.schema+".")); err != nil {
			f.t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestAnswersKeepTheirOrderAcrossMemoryAndDatabase(t *testing.T) {
	f := newFixture(t, testmysql.Shared(t, testmysql.MariaDB), nil)
	f.sql("CREATE TABLE @a (id INT PRIMARY KEY, v INT)", "CREATE TABLE @b (id INT PRIMARY KEY, v INT)")
	for i := range 50 {
		f.sql(fmt.Sprintf("INSERT INTO @a VALUES (%d,%d)", i, 1000+i), fmt.Sprintf("INSERT INTO @b VALUES (%d,%d)", i, 2000+i))
	}
	if err := f.load(t.Context(), "a"); err != nil { // b stays the database's
		t.Fatal(err)
	}
	c := f.client(byMemory, "hsr")
	lines := []string{"P\t0\t" + f.schema + "\ta\tPRIMARY\tv", "P\t1\t" + f.schema + "\tb\tPRIMARY\tv"}
	want := []string{"0\t1", "0\t1"}
	for i := range 50 {
		for id := range 2 {
			if id == 1 && i%3 > 0 {
				continue
			}
			lines = append(lines, fmt.Sprintf("%d\t=\t1\t%d", id, i))
			want = append(want, fmt.Sprintf("0\t1\t%d", 1000*(id+1)+i))
		}
	}
	for i, got := range c.ask(lines...) {
		if got != want[i] {
			t.Errorf("answer %d to %q: got %q, want %q", i, lines[i], got, want[i])
		}
	}
	if n := f.counts[byMemory].Counts(); n.Memory != 50 || n.Database != 17 {
		t.Errorf("%+v", n)
	}
}

func TestLargeValues(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			f := newFixture(t, s, nil)
			f.sql("CREATE TABLE @t (id INT PRIMARY KEY, k VARCHAR(20), b LONGBLOB, KEY kk (k))",
				"INSERT INTO @t VALUES (1,'aaaaaaaaaaaaaaaaaaaa',REPEAT(x'00410A',700000)),(2,'b',REPEAT('z',2000000)),(3,'c',NULL)")
			if err := f.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := "0\t2\t1\t" + strings.Repeat("\x01@A\x01J", 700_000) + "\t2\t" + strings.Repeat("z", 2_000_000) + "\t3\t\x00"
			for _, w := range []where{byDatabase, byMemory} {
				c := f.client(w, "hsr")
				c.expect("P\t0\t"+f.schema+"\tt\tPRIMARY\tid,b", "0\t1")
				c.expect("P\t1\t"+f.schema+"\tt\tkk\tid", "0\t1")
				c.expect("0\t>=\t1\t0\t10\t0", want)
				// A line of 3 MB; the key is cut as a column of that length would store it.
				c.expect("1\t=\t1\t"+strings.Repeat("a", 3_000_000), "0\t1\t1")
			}
		})
	}
}

func TestTableChangesUnderAnOpenIndex(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			f := newFixture(t, s, nil)
			f.sql("CREATE TABLE @t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO @t VALUES (1,10,100)")
			c := f.client(byDatabase, "hsr")
			c.expect("P\t0\t"+f.schema+"\tt\tPRIMARY\tv\tw", "0\t1")
			c.expect("0\t=\t1\t1\t1\t0\tF\t=\t0\t100", "0\t1\t10")
			// Nobody tells the server of these changes; the database does.
			f.sql("ALTER TABLE @t DROP COLUMN v")
			c.expect("0\t=\t1\t1", "2\t1\tstmtnum")
			f.sql("ALTER TABLE @t ADD COLUMN v INT NOT NULL DEFAULT 7 FIRST")
			f.routers[byDatabase].ForgetAll()
			c.expect("0\t=\t1\t1\t1\t0\tF\t=\t0\t100", "0\t1\t7")
			f.sql("DROP TABLE @t")
			c.expect("0\t=\t1\t1", "2\t1\tstmtnum")
			c.expect("P\t0\t"+f.schema+"\tt\tPRIMARY\tv", "1\t1\topen_table")
			f.sql("CREATE VIEW @t AS SELECT 1 AS id")
			c.expect("P\t0\t"+f.schema+"\tt\tPRIMARY\tid", "1\t1\topen_table")
		})
	}
}

// TestFilteredWalkOverTheDatabase takes a few rows from the middle of a large table, so that most of what the database
// would give is never read.
func TestFilteredWalkOverTheDatabase(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			f := newFixture(t, s, nil)
			f.sql("CREATE TABLE @t (id INT PRIMARY KEY, v INT)", "INSERT INTO @t VALUES (0,0)")
			for n := 1; n < 1<<13; n *= 2 {
				f.sql(fmt.Sprintf("INSERT INTO @t SELECT id+%d, (id+%d)%%10 FROM @t", n, n))
			}
			c := f.client(byDatabase, "hsr")
			c.expect("P\t0\t"+f.schema+"\tt\tPRIMARY\tid\tv", "0\t1")
			for range 3 {
				c.expect("0\t>=\t1\t4000\t3\t1\tF\t=\t0\t7", "0\t1\t4017\t4027\t4037")
				c.expect("0\t<\t1\t4000\t100\t0\tW\t!=\t0\t7", "0\t1\t3999\t3998")
			}
			c.expect("0\t>=\t1\t0\t1000\t0\t@\t0\t4\t8191\t9999\t5\t77\tF\t=\t0\t7", "0\t1\t77")
		})
	}
}
