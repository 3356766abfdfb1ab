package hsserver_test

import (
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestClientLibraries sends what the known client libraries send for their calls, byte by byte as they spell it, and wants
// the answers that they rely on.
func TestClientLibraries(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, s, nil)
			f.sql("CREATE TABLE @user (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), n INT, KEY kn (n))",
				"INSERT INTO @user VALUES (1,'ann',10),(2,'bob',20),(3,'cy',20)")
			if err := f.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				library string
				port    string
				send    string // in one piece
				answers string
			}{
				// libhsclient and the PHP extension built on it: openIndex without filter columns, executeSingle with limit and
				// offset left out where they say nothing, executeMulti as one write.
				{"php openIndex, executeSingle", "hsr", "P\t1\t@\tuser\t\tid,name,n\n1\t=\t1\t2\n1\t>=\t1\t1\t2\n1\t>=\t1\t1\t2\t1\n", "0\t1\n0\t3\t2\tbob\t20\n0\t3\t1\tann\t10\t2\tbob\t20\n0\t3\t2\tbob\t20\t3\tcy\t20\n"},
				{"php executeMulti", "hsr", "P\t1\t@\tuser\tkn\tid\tid\n1\t=\t1\t20\t5\t0\n1\t=\t1\t20\t5\t0\tF\t>\t0\t2\n1\t=\t1\t99\n", "0\t1\n0\t1\t2\t3\n0\t1\t3\n0\t1\n"},
				{"php executeSingle with filters and a list", "hsr", "P\t1\t@\tuser\t\tid,name\tn\n1\t=\t1\t1\t5\t0\t@\t0\t3\t1\t2\t3\n1\t=\t1\t1\t5\t0\t@\t0\t3\t1\t2\t3\tF\t>\t0\t10\n1\t>=\t1\t1\t5\t0\tW\t<\t0\t20\n", "0\t1\n0\t2\t1\tann\t2\tbob\t3\tcy\n0\t2\t2\tbob\t3\tcy\n0\t2\t1\tann\n"},
				{"php getError", "hsr", "P\t1\t@\tuser\t\tid,nosuch\n1\t=\t1\t1\nP\t1\t@\tuser\tnosuch\tid\n", "2\t1\tfld\n2\t1\tstmtnum\n2\t1\tidxnum\n"},
				{"php executeInsert", "hsw", "P\t3\t@\tuser\t\tname,n\n3\t+\t2\tdan\t30\n", "0\t1\n0\t1\t4\n"},
				{"php executeUpdate", "hsw", "P\t3\t@\tuser\t\tname,n\n3\t=\t1\t4\t1\t0\tU\tdon\t31\n", "0\t1\n0\t1\t1\n"},
				{"php executeSingle +?", "hsw", "P\t3\t@\tuser\t\tn\n3\t=\t1\t4\t1\t0\t+?\t5\n", "0\t1\n0\t1\t31\n"},
				{"php executeDelete", "hsw", "P\t3\t@\tuser\t\t\n3\t=\t1\t4\t1\t0\tD\n3\t=\t1\t4\t1\t0\tD\n", "0\t1\n0\t1\t1\n0\t1\t0\n"},
				{
					"php executeMulti of writes", "hsw", "P\t3\t@\tuser\t\tid,name\n3\t+\t2\t10\tx\n3\t+\t2\t10\ty\n3\t=\t1\t10\t1\t0\tU\t10\tz\n3\t=\t1\t10\n3\t=\t1\t10\t1\t0\tD\n",
					"0\t1\n0\t1\t0\n1\t1\t121\n0\t1\t1\n0\t2\t10\tz\n0\t1\t1\n",
				},
				// handlersocketi: a filter token always, limit and offset always, also behind inserts.
				{"handlersocketi find", "hsr", "P\t0\t@\tuser\tPRIMARY\tid,name\t\n0\t=\t1\t1\t1\t0\n", "0\t1\n0\t2\t1\tann\n"},
				{"handlersocketi insert", "hsw", "P\t0\t@\tuser\tPRIMARY\tid,name\t\n0\t+\t2\t11\teve\t0\t0\n0\t+\t2\t11\teve\t0\t0\n", "0\t1\n0\t1\t0\n1\t1\t121\n"},
				// node-handlersocket: limit and offset always, NULL in place of the key that IN stands for.
				{"node IN", "hsr", "P\t0\t@\tuser\tPRIMARY\tname\n0\t=\t1\t\x00\t3\t0\t@\t0\t3\t1\t3\t77\n", "0\t1\n0\t1\tann\tcy\n"},
				// handlersocket-go: an empty token behind D, and a third token in each answer to a modification.
				{"handlersocket-go", "hsw", "P\t1\t@\tuser\tPRIMARY\tid,name\n1\t=\t1\t11\t1\t0\tD\t\n", "0\t1\n0\t1\t1\n"},
				// go-handlersocket: the same id on both ports, no limit.
				{"go-handlersocket", "hsw", "P\t1\t@\tuser\tPRIMARY\tid,name,n\n1\t=\t1\t3\n1\t=\t1\t3\t1\t0\t-\t\x00\t\x00\t5\n", "0\t1\n0\t3\t3\tcy\t20\n0\t1\t1\n"},
				// The Java client: limit and offset always, the limit at least 1.
				{"java", "hsr", "P\t1\t@\tuser\tkn\tid,name\n1\t>\t1\t15\t1\t0\n", "0\t1\n0\t2\t2\tbob\n"},
				{"HSPHP select", "hsr", "P\t1\t@\tuser\tPRIMARY\tname,n\n1\t=\t1\t2\n1\t<=\t1\t3\t2\t1\n", "0\t1\n0\t2\tbob\t20\n0\t2\tbob\t20\tann\t10\n"},
				// HSPHP: schema and table escaped too (nothing to escape here), the list's length as limit, the key given.
				{"HSPHP IN", "hsr", "P\t1\t@\tuser\tPRIMARY\tname,n\n1\t=\t1\t1\t2\t0\t@\t0\t2\t1\t3\n", "0\t1\n0\t2\tann\t10\tcy\t15\n"},
			} {
				send := strings.ReplaceAll(c.send, "\t@\tuser", "\t"+f.schema+"\tuser")
				got := f.client(byMemory, c.port).ask(strings.Split(strings.TrimSuffix(send, "\n"), "\n")...)
				if all := strings.Join(got, "\n") + "\n"; all != c.answers {
					t.Errorf("%s: got  %q\nwant %q", c.library, all, c.answers)
				}
			}
		})
	}
}
