package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/binlogcache/binlogcache/internal/loadgen"
	"github.com/binlogcache/binlogcache/internal/progress"
)

// actTimeout bounds the wait for anything that the tour shows.
const actTimeout = 60 * time.Second

// watchSnapshot shows the load of the sample table.
func (t *tour) watchSnapshot(ctx context.Context) error {
	t.say("3. binlogcache follows the binlog and takes a snapshot beside it, without a lock.")
	begun := time.Now()
	moved, done := begun, uint64(0) // when rows came last
	bar := progress.New(t.Out, "   rows in memory", int64(t.Rows))
	for {
		s, ok := t.daemon.Snapshot(Schema + "." + Table)
		if ok && s.Live {
			bar.Done(int64(s.Done))
			t.say("   live after %s: hits, misses and ranges are answered from memory now.", time.Since(begun).Round(time.Millisecond))
			return nil
		}
		if ok {
			bar.Set(int64(s.Done))
		}
		if s.Done != done {
			moved, done = time.Now(), s.Done
		}
		switch {
		case s.Trouble != "":
			return fmt.Errorf("the table is not cached: %s", s.Trouble)
		case time.Since(moved) > actTimeout:
			return fmt.Errorf("no row came for %s", actTimeout)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ask sends requests on a new connection and returns as many lines of answer as wanted.
func ask(address, request string, lines int) ([]string, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	var out []string
	for range lines {
		line, err := in.ReadString('\n')
		if err != nil {
			return out, fmt.Errorf("answer of %s: %w", address, err)
		}
		out = append(out, strings.TrimRight(line, "\r\n"))
	}
	return out, nil
}

func (t *tour) handlerSocketRow(id int) (string, error) {
	lines, err := ask(t.addresses.HandlerSocket, fmt.Sprintf("P\t1\t%s\t%s\tPRIMARY\tid,uname,email,add_time\n1\t=\t1\t%d\n", Schema, Table, id), 2)
	if err != nil {
		return "", err
	}
	if lines[0] != "0\t1" || !strings.HasPrefix(lines[1], "0\t4") {
		return "", fmt.Errorf("HandlerSocket answered %q", lines)
	}
	return lines[1], nil
}

func (t *tour) memcachedRow(id int) (string, error) {
	lines, err := ask(t.addresses.Memcached, fmt.Sprintf("get %d\r\n", id), 1)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(lines[0], "VALUE ") {
		return "", fmt.Errorf("memcached answered %q", lines)
	}
	lines, err = ask(t.addresses.Memcached, fmt.Sprintf("get %d\r\n", id), 3)
	if err != nil {
		return "", err
	}
	return lines[0] + "\n      " + lines[1] + "\n      " + lines[2], nil
}

// sampleID is the row that the tour looks at.
func (t *tour) sampleID() int { return min(42, t.Rows) }

func visible(tabs string) string { return strings.ReplaceAll(tabs, "\t", " ⇥ ") }

func (t *tour) firstReads(context.Context) error {
	id := t.sampleID()
	row, err := t.handlerSocketRow(id)
	if err != nil {
		return err
	}
	t.say("4. The row over HandlerSocket (%s), as the plugin's clients read it (⇥ is a tab):", t.addresses.HandlerSocket)
	t.say("      > P ⇥ 1 ⇥ %s ⇥ %s ⇥ PRIMARY ⇥ id,uname,email,add_time", Schema, Table)
	t.say("      > 1 ⇥ = ⇥ 1 ⇥ %d", id)
	t.say("      < %s", visible(row))
	value, err := t.memcachedRow(id)
	if err != nil {
		return err
	}
	t.say("5. The same row over the memcached protocol (%s), through a container that maps keys to rows:", t.addresses.Memcached)
	t.say("      > get %d\n      %s", id, value)
	return nil
}

// update changes a row by SQL and measures when both protocols show it.
func (t *tour) update(ctx context.Context) error {
	t.say("6. An application changes the row by SQL; nobody tells the cache.")
	return t.change(ctx, "changed by SQL")
}

func (t *tour) change(ctx context.Context, name string) error {
	id := t.sampleID()
	hs, mc := make(chan error, 1), make(chan error, 1)
	var hsSeen, mcSeen time.Time
	if _, err := t.db.ExecContext(ctx, "UPDATE "+Schema+".`user` SET uname=? WHERE id=?", name, id); err != nil {
		return err
	}
	committed := time.Now()
	wait := func(read func(int) (string, error), seen *time.Time, done chan<- error) {
		for {
			row, err := read(id)
			if err != nil {
				done <- err
				return
			}
			if strings.Contains(row, name) {
				*seen = time.Now()
				done <- nil
				return
			}
			if time.Since(committed) > actTimeout {
				done <- errors.New("the change did not arrive")
				return
			}
		}
	}
	go wait(t.handlerSocketRow, &hsSeen, hs)
	go wait(t.memcachedRow, &mcSeen, mc)
	if err := errors.Join(<-hs, <-mc); err != nil {
		return err
	}
	t.say("   UPDATE … SET uname='%s' WHERE id=%d: %.1f ms after the client's OK HandlerSocket showed it, after %.1f ms memcached (a new connection and a read included).",
		name, id, hsSeen.Sub(committed).Seconds()*1000, mcSeen.Sub(committed).Seconds()*1000)
	return nil
}

// write changes the row over HandlerSocket: the answer comes when the database has committed and the cache shows it.
func (t *tour) write(ctx context.Context) error {
	id, name := t.sampleID(), "written over HandlerSocket"
	begun := time.Now()
	lines, err := ask(t.addresses.WritePort, fmt.Sprintf("P\t1\t%s\t%s\tPRIMARY\tuname\n1\t=\t1\t%d\t1\t0\tU\t%s\n", Schema, Table, id, name), 2)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	if lines[1] != "0\t1\t1" {
		return fmt.Errorf("HandlerSocket answered the write with %q", lines)
	}
	row, err := t.handlerSocketRow(id)
	if err != nil {
		return err
	}
	var stored string
	if err := t.db.QueryRowContext(ctx, "SELECT uname FROM "+Schema+".`user` WHERE id=?", id).Scan(&stored); err != nil {
		return err
	}
	if !strings.Contains(row, name) || stored != name {
		return fmt.Errorf("after the write HandlerSocket shows %q, the database %q", row, stored)
	}
	t.say("7. A write over HandlerSocket (%s) goes to the database as SQL, and every reader sees it once it is answered:", t.addresses.WritePort)
	t.say("      > 1 ⇥ = ⇥ 1 ⇥ %d ⇥ 1 ⇥ 0 ⇥ U ⇥ %s", id, name)
	t.say("      < %s   after %.1f ms: committed, applied, and read back from memory", visible(lines[1]), took.Seconds()*1000)
	return nil
}

// databaseDies kills the server, reads on, and starts it again.
func (t *tour) databaseDies(ctx context.Context) error {
	if err := t.server.kill(); err != nil {
		return err
	}
	if _, err := t.handlerSocketRow(t.sampleID()); err != nil {
		return fmt.Errorf("with the database dead: %w", err)
	}
	if _, err := t.memcachedRow(t.sampleID()); err != nil {
		return fmt.Errorf("with the database dead: %w", err)
	}
	t.say("8. The database was killed (SIGKILL): both protocols go on answering from memory.")
	begun := time.Now()
	if _, err := t.server.start(ctx); err != nil {
		return err
	}
	t.say("   It is up again after %.1f s; the follower goes on from its last applied transaction.", time.Since(begun).Seconds())
	return t.change(ctx, "changed after the crash")
}

// rates shows how fast reads are answered, beside SQL.
func (t *tour) rates(ctx context.Context) error {
	t.say("9. Reads of single rows, 20 connections, on this machine (load and servers share its cores):")
	common := loadgen.Load{Keys: t.Rows, Conns: 20, Duration: 2 * time.Second, Schema: Schema, Table: Table, Columns: []string{"id", "uname", "email", "add_time"}}
	for _, c := range []struct {
		name, protocol, address string
		depth                   int
	}{
		{"SQL, prepared SELECT", loadgen.MySQL, t.addresses.Source, 1},
		{"HandlerSocket", loadgen.HandlerSocket, t.addresses.HandlerSocket, 1},
		{"memcached get", loadgen.Memcached, t.addresses.Memcached, 1},
		{"HandlerSocket, 32 pipelined", loadgen.HandlerSocket, t.addresses.HandlerSocket, 32},
		{"memcached get, 32 pipelined", loadgen.Memcached, t.addresses.Memcached, 32},
	} {
		l := common
		l.Protocol, l.Address, l.Depth = c.protocol, c.address, c.depth
		r, err := loadgen.Run(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.say("   %-30s %12s reads/s   p50 %8s   p99 %8s", c.name, thousands(int64(r.OpsPerSecond())), r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond))
	}
	return nil
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
