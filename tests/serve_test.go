package tests

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// askLine sends a request on a new connection and returns that many lines of answer without their ends.
func askLine(t *testing.T, address, request string, lines int) []string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	var out []string
	for range lines {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		out = append(out, strings.TrimRight(line, "\r\n"))
	}
	return out
}

// TestFirstReads is the main job: rows of a real table over both protocols from memory, changing as SQL changes them.
func TestFirstReads(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			schema := s.Schema(t)
			db := s.DB(t)
			mustExec(t, db, "CREATE TABLE "+schema+".user (id INT PRIMARY KEY AUTO_INCREMENT, uname VARCHAR(64), email VARCHAR(128), add_time DATETIME)")
			mustExec(t, db, "INSERT INTO "+schema+".user VALUES (1,'ann','ann@example.com','2024-01-02 03:04:05'),(2,NULL,'','2024-01-02 03:04:06')")
			config := filepath.Join(t.TempDir(), "binlogcache.yaml")
			yaml := fmt.Sprintf("containers:\n  - name: user\n    schema: %s\n    table: user\n    key_columns: [id]\n    value_columns: [uname, email]\n", schema)
			if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, s.DSN, schema+".user", "--config", config).waitReady()
			read := func() []string {
				return append(askLine(t, d.handlerSocket, "P\t1\t"+schema+"\tuser\t\tid,uname,email,add_time\n1\t>=\t1\t1\t10\n", 2)[1:],
					askLine(t, d.memcached, "get 1 2\r\n", 5)...)
			}
			want := []string{
				"0\t4\t1\tann\tann@example.com\t2024-01-02 03:04:05\t2\t\x00\t\t2024-01-02 03:04:06",
				"VALUE 1 0 19", "ann|ann@example.com", "VALUE 2 0 1", "|", "END",
			}
			if got := read(); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			mustExec(t, db, "UPDATE "+schema+".user SET uname='bob' WHERE id=1")
			want[0] = strings.Replace(want[0], "\tann\t", "\tbob\t", 1)
			want[2] = "bob|ann@example.com"
			eventually(t, "the update", func() error {
				if got := read(); strings.Join(got, "\n") != strings.Join(want, "\n") {
					return fmt.Errorf("got  %q\nwant %q", got, want)
				}
				return nil
			})
			st := d.status()
			if st.Reads.HandlerSocket.Database != 0 || st.Reads.Memcached.Database != 0 || st.Reads.HandlerSocket.Memory == 0 || st.Reads.Memcached.Memory == 0 {
				t.Errorf("reads: %+v", st.Reads)
			}
			if len(st.Tables) != 1 || st.Tables[0].Name != schema+".user" || st.Tables[0].State != "live" || st.Tables[0].Mode != "full" || st.Tables[0].Rows != 2 {
				t.Errorf("tables: %+v", st.Tables)
			}
			if st.Source.Flavor != s.Flavor || !st.Source.Connected || st.Applied.GTID == "" || st.Memory.Used <= 0 {
				t.Errorf("status: %+v", st)
			}
			if code, body, err := d.get("/metrics"); err != nil || code != http.StatusOK || !strings.Contains(body, "binlogcache_") {
				t.Errorf("metrics: %d %v %.100s", code, err, body)
			}
			if code, _, err := d.get("/livez"); err != nil || code != http.StatusOK {
				t.Errorf("livez: %d %v", code, err)
			}
		})
	}
}

// TestUnlistedTable: with --hot off a table that --tables does not name is answered by the database, with the same bytes.
func TestUnlistedTable(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			schema := s.Schema(t)
			db := s.DB(t)
			for _, table := range []string{"cached", "other"} {
				mustExec(t, db, "CREATE TABLE "+schema+"."+table+" (a INT, b VARCHAR(10), v DOUBLE, PRIMARY KEY (a, b), KEY (v))")
				mustExec(t, db, "INSERT INTO "+schema+"."+table+" VALUES (1,'x',0.1),(1,'y',NULL),(2,'x',1e20),(3,'\t',-5)")
			}
			d := start(t, s.DSN, schema+".cached", "--hot", "off").waitReady()
			requests := "1\t=\t1\t1\t10\n1\t>\t1\t1\t10\n1\t>=\t2\t1\ty\t10\n1\t<\t2\t2\tx\t10\n1\t<=\t1\t2\t10\t1\n2\t>=\t1\t\x00\t10\n2\t<=\t1\t5\t2\n"
			answers := func(table string) []string {
				return askLine(t, d.handlerSocket, "P\t1\t"+schema+"\t"+table+"\t\ta,b,v\nP\t2\t"+schema+"\t"+table+"\tv\tv,a,b\n"+requests, 9)
			}
			memory := answers("cached")
			before := d.status().Reads.HandlerSocket
			database := answers("other")
			if got := d.status().Reads.HandlerSocket.Database - before.Database; got != 7 {
				t.Errorf("%d answers from the database, want 7", got)
			}
			if strings.Join(memory, "\n") != strings.Join(database, "\n") {
				t.Errorf("memory   %q\ndatabase %q", memory, database)
			}
			if state, _ := d.tableState(schema + ".other"); state != "" {
				t.Errorf("the table is %s", state)
			}
		})
	}
}

// TestDrain: SIGTERM answers what has been received and exits 0.
func TestDrain(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	schema := s.Schema(t)
	db := s.DB(t)
	mustExec(t, db, "CREATE TABLE "+schema+".t (id INT PRIMARY KEY, v VARCHAR(10))")
	mustExec(t, db, "INSERT INTO "+schema+".t VALUES (1,'one')")
	mustExec(t, db, "CREATE TABLE "+schema+".slow (id INT PRIMARY KEY, v VARCHAR(10))")
	mustExec(t, db, "INSERT INTO "+schema+".slow VALUES (1,'slow')")
	d := start(t, s.DSN, schema+".t").waitReady()
	conn, err := net.Dial("tcp", d.handlerSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	ask := func(request string) { _, err = conn.Write([]byte(request)) }
	if ask("P\t1\t" + schema + "\tslow\t\tid,v\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "0\t1\n" {
		t.Fatalf("open: %q %v", line, err)
	}
	// A table lock holds the database's answer up while the daemon is told to end.
	lock, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "LOCK TABLES "+schema+".slow WRITE"); err != nil {
		t.Fatal(err)
	}
	if ask("1\t=\t1\t1\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	begun := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if _, err := lock.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "0\t2\t1\tslow\n" {
		t.Errorf("the request in flight: %q %v", line, err)
	}
	if code := d.waitExit(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the end took %s", took)
	}
}

// TestHostileBytes throws random bytes at every port; the daemon stays up, and its memory stays bounded.
func TestHostileBytes(t *testing.T) {
	s := testmysql.Shared(t, testmysql.MariaDB)
	schema := s.Schema(t)
	mustExec(t, s.DB(t), "CREATE TABLE "+schema+".t (id INT PRIMARY KEY)")
	d := start(t, s.DSN, schema+".t").waitReady()
	rng := rand.New(rand.NewPCG(3, 4))
	starts := []string{"", "P\t", "P\t4294967295\t" + schema + "\tt\t\tid\n4294967295\t=", "get ", "set k 0 0 99999999999\r\n", "\x80", "GET / HTTP/1.1\r\n", "mg ", "1\t=\t4294967295\t", "Q", "/", "A\t1\t"}
	for _, address := range []string{d.handlerSocket, d.writePort, d.memcached, strings.TrimPrefix(d.base, "http://")} {
		for i := range 200 {
			conn, err := net.DialTimeout("tcp", address, 5*time.Second)
			if err != nil {
				t.Fatalf("%s: %v", address, err)
			}
			b := make([]byte, rng.IntN(5000))
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
			// A server may close the connection at the first bad byte.
			_, _ = conn.Write(append([]byte(starts[i%len(starts)]), b...))
			_ = conn.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
			_, _ = conn.Read(make([]byte, 4096))
			conn.Close()
		}
	}
	d.waitReady()
	if log := d.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		t.Errorf("a stack in the log")
	}
	if n := d.status().Memory.Used; n > 1<<20 {
		t.Errorf("%d bytes of memory counted for an empty table", n)
	}
}

// TestSourceDownAtStart: the daemon waits, says so, and serves when the source comes.
func TestSourceDownAtStart(t *testing.T) {
	s := testmysql.Private(t, testmysql.MariaDB)
	db := s.DB(t)
	mustExec(t, db, "CREATE DATABASE d")
	mustExec(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	s.Stop()
	d := start(t, s.DSN, "d.t")
	eventually(t, "an unready daemon", func() error {
		code, body, err := d.get("/readyz")
		if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(body, "source")) {
			err = fmt.Errorf("%d %q", code, body)
		}
		return err
	})
	if code, _, err := d.get("/livez"); err != nil || code != http.StatusOK {
		t.Errorf("livez: %d %v", code, err)
	}
	s.Start()
	d.waitReady()
}

// TestDemo runs the guided tour as `make demo ARGS=--once` does.
func TestDemo(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), binary, "demo", "--once", "--rows", "20000", "--flavor", flavor)
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"changed by SQL", "changed after the crash", "VALUE 42 0", "reads/s"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in the output:\n%s", want, out)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
				t.Errorf("left behind: %q %v", left, err)
			}
		})
	}
}
