package canal

import (
	"fmt"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// exercise does what a log can show of rows: small and large ones, several packets, transactions that others write their
// own into, a new file in the middle, changed definitions. Afterwards the table is what the server has, and all came over
// the one stream.
func (r *rig) exercise() {
	r.t.Helper()
	other := r.session()
	st := r.f.Status()
	loads := st.Loads
	for _, sql := range []string{
		"DELETE FROM w WHERE id > 0",
		"INSERT INTO w VALUES (1, 'a', 1), (2, NULL, NULL), (3, REPEAT('c', 3000), 3)",
		"BEGIN",
		"INSERT INTO w SELECT seq.n, REPEAT(CHAR(97 + seq.n % 26), 900), seq.n FROM (SELECT a.n + 10 * b.n + 100 * c.n + 100 AS n FROM digits a, digits b, digits c) seq",
		"",
		"UPDATE w SET n = n + 1 WHERE id >= 100",
		"COMMIT",
		"INSERT INTO w VALUES (4, REPEAT('x', 2500000), 4), (5, REPEAT('y', 1100000), 5)",
		"UPDATE w SET n = 44, v = CONCAT(v, 'z') WHERE id IN (4, 5)",
		"DELETE FROM w WHERE id = 5",
	} {
		if sql != "" {
			r.exec(sql)
			continue
		}
		for _, sql := range []string{"INSERT INTO w VALUES (7, 'other', 7)", "FLUSH BINARY LOGS", "UPDATE w SET v = 'another' WHERE id = 7"} {
			if err := other.Exec(r.t.Context(), sql); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.same("w")
	st = r.f.Status()
	if st.Loads != loads || len(st.Reconnects) != 0 {
		r.t.Errorf("%d loads, then %d; reconnects %v, %s", loads, st.Loads, st.Reconnects, st.Trouble)
	}
}

// exercised makes a rig for exercise.
func exercised(t *testing.T, s testmysql.Server) *rig {
	t.Helper()
	return newRig(t, s, "CREATE TABLE w (id INT PRIMARY KEY, v LONGBLOB, n INT)", "CREATE TABLE digits (n INT PRIMARY KEY)",
		"INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
}

// What a server can be told about its log makes no difference to what is read from it.
func TestLogSettings(t *testing.T) {
	t.Parallel()
	type setting struct {
		name    string
		options []string
		// global are settings that are made while the log is followed.
		global []string
	}
	// Timeouts that a taker who is held up would run into, and acknowledgements that nobody gives.
	impatient := []string{"--net-write-timeout=1", "--wait-timeout=1", "--interactive-timeout=1"}
	all := map[string][]setting{
		testmysql.MySQL: {
			{
				"no checksums", append(impatient, "--binlog-checksum=NONE", "--plugin-load-add=semisync_source.so",
					"--loose-rpl-semi-sync-source-enabled=ON", "--loose-rpl-semi-sync-source-timeout=10"),
				[]string{"binlog_checksum = 'CRC32'", "binlog_checksum = 'NONE'"},
			},
			{"compressed, large events", []string{"--binlog-transaction-compression=ON", "--binlog-row-event-max-size=1073741824"}, nil},
			{
				"small events, texts",
				[]string{"--binlog-row-event-max-size=256", "--binlog-rows-query-log-events=ON"},
				[]string{"binlog_transaction_compression = ON"},
			},
		},
		testmysql.MariaDB: {
			{
				"no checksums", append(impatient, "--binlog-checksum=NONE", "--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-timeout=10"),
				[]string{"binlog_checksum = 'CRC32'", "binlog_checksum = 'NONE'"},
			},
			{"compressed, large events", []string{"--log-bin-compress=ON", "--log-bin-compress-min-len=10", "--binlog-row-event-max-size=1073741824"}, nil},
			{
				"compressed, small events, no checksums",
				[]string{"--log-bin-compress=ON", "--log-bin-compress-min-len=10", "--binlog-checksum=NONE", "--binlog-row-event-max-size=256"},
				[]string{"log_bin_compress = OFF"},
			},
		},
	}
	for flavor, settings := range all {
		for _, set := range settings {
			t.Run(flavor+", "+set.name, func(t *testing.T) {
				t.Parallel()
				s := testmysql.Private(t, flavor, set.options...)
				r := exercised(t, s)
				before := r.executed()
				r.start(nil, nil)
				r.same("w")
				r.exercise()
				for _, sql := range set.global {
					r.exec("SET GLOBAL " + sql)
					r.reconnect() // some count for new sessions
					r.exercise()
				}
				if len(set.global) == 2 {
					r.holdUp(3 * time.Second)
				}
				// A shut-down in order is the end of a file, and of the stream.
				s.Stop()
				s.Start()
				r.reconnect()
				r.exec("UPDATE w SET n = 3 WHERE id = 3")
				r.same("w")
				if st := r.f.Status(); st.Reconnects[ReasonUnreadable]+st.Reconnects[ReasonGone]+st.Reconnects[ReasonServer] != 0 || r.sink.loadsOf(r.schema+".w") != 1 {
					t.Errorf("%d loads, reconnects %v", r.sink.loadsOf(r.schema+".w"), st.Reconnects)
				}
				r.readThrough(before)
			})
		}
	}
}

// holdUp keeps the stream from being read for a while, with more to come than there is room for on the way.
func (r *rig) holdUp(d time.Duration) {
	r.t.Helper()
	r.sink.mu.Lock()
	r.sink.onChanges = func(*memTable, []rowcodec.Change) {
		time.Sleep(d)
		r.sink.onChanges = nil
	}
	r.sink.mu.Unlock()
	r.exec("UPDATE w SET n = 0 WHERE id = 3")
	for range 4 {
		r.exec("UPDATE w SET n = n + 1, v = REPEAT('p', 3000000) WHERE id = 4")
	}
	r.same("w")
	if st := r.f.Status(); len(st.Reconnects) != 0 {
		r.t.Errorf("reconnects %v, %s", st.Reconnects, st.Trouble)
	}
}

// readThrough reads the log after those transactions to its end.
func (r *rig) readThrough(after string) {
	r.t.Helper()
	ctx := r.t.Context()
	src, err := inspect(ctx, r.conn)
	if err != nil {
		r.t.Fatal(err)
	}
	o := streamOptions{source: r.f.cfg.Source, serverID: freeServerID(ctx, r.conn), heartbeat: defaultHeartbeat}
	if o.from, err = parseGTIDs(src.flavor, after); err != nil {
		r.t.Fatal(err)
	}
	if lacking, err := errant(ctx, src, o, origins{}); err != nil || lacking != (lack{}) {
		r.t.Errorf("the log after %s: %v, %v", after, lacking, err)
	}
}

// A server that ends the stream, in whatever way, is asked for another at once.
func TestStreamEndedByServer(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		r.start(nil, nil)
		r.same("w")
		for i, kill := range []string{"KILL QUERY", "KILL CONNECTION"} {
			ended := func() (n uint64) {
				for _, c := range r.f.Status().Reconnects {
					n += c
				}
				return n
			}
			before, begin := ended(), time.Now()
			var id string
			if err := r.conn.Query(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'", func(v [][]byte) error {
				id = string(v[0])
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r.exec(kill + " " + id)
			r.eventually("the end of the stream", func() bool { return ended() > before })
			t.Logf("%s: after %v: %s", kill, time.Since(begin).Round(time.Millisecond), r.f.Status().Trouble)
			if took := time.Since(begin); took > 4*time.Second {
				t.Errorf("%s was noticed after %v", kill, took)
			}
			r.exec(fmt.Sprintf("INSERT INTO w VALUES (%d, 0, '')", 10+i))
			r.same("w")
		}
		if st := r.f.Status(); r.sink.loadsOf(r.schema+".w") != 1 {
			t.Errorf("%d loads, reconnects %v", r.sink.loadsOf(r.schema+".w"), st.Reconnects)
		}
	})
}

// Two followers of one number: MySQL does not mind, MariaDB lets one go when the other comes. Neither loses anything.
func TestEqualServerIDs(t *testing.T) {
	private(t, func(t *testing.T, s testmysql.Server) {
		a := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		a.start(func(cfg *Config) { cfg.ServerID = 4242 }, nil)
		a.same("w")
		b := newRig(t, s, tableW, "INSERT INTO w VALUES (1, 1, '')")
		b.start(func(cfg *Config) { cfg.ServerID = 4242 }, nil)
		for i := range 20 {
			a.exec(fmt.Sprintf("INSERT INTO w VALUES (%d, 0, '')", 10+i))
			b.exec(fmt.Sprintf("INSERT INTO w VALUES (%d, 0, '')", 10+i))
			time.Sleep(100 * time.Millisecond)
		}
		a.same("w")
		b.same("w")
		for _, r := range []*rig{a, b} {
			st := r.f.Status()
			others := len(st.Reconnects)
			if st.Reconnects[ReasonServerID] > 0 {
				others--
			}
			if r.sink.loadsOf(r.schema+".w") != 1 || others > 0 || s.Flavor == testmysql.MariaDB && len(st.Reconnects) == 0 {
				t.Errorf("%d loads, reconnects %v: %s", r.sink.loadsOf(r.schema+".w"), st.Reconnects, st.Trouble)
			}
		}
		t.Logf("reconnects %v, %v", a.f.Status().Reconnects, b.f.Status().Reconnects)
	})
}
