package canal

import (
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
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
		"INSERT INTO w VALUES (4, REPEAT('x', 2500000), 4), (5, REPEAT('y', 17000000), 5)",
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
		// global are settings that are made while the log is followed, session those of the session that writes.
		global, session []string
	}
	all := map[string][]setting{
		testmysql.MySQL: {
			{name: "no checksums", options: []string{"--binlog-checksum=NONE"}, global: []string{"binlog_checksum = 'CRC32'", "binlog_checksum = 'NONE'"}},
			{name: "compressed", options: []string{"--binlog-transaction-compression=ON", "--binlog-row-event-max-size=1073741824"}},
			{name: "compressed by one session", options: []string{"--binlog-rows-query-log-events=ON"}, session: []string{"binlog_transaction_compression = ON"}},
			{name: "small events", options: []string{"--binlog-row-event-max-size=256", "--binlog-rows-query-log-events=ON"}},
		},
		testmysql.MariaDB: {
			{name: "no checksums", options: []string{"--binlog-checksum=NONE"}, global: []string{"binlog_checksum = 'CRC32'", "binlog_checksum = 'NONE'"}},
			{name: "compressed", options: []string{"--log-bin-compress=ON", "--log-bin-compress-min-len=10", "--binlog-row-event-max-size=1073741824"}},
			{name: "compressed, no checksums", options: []string{"--log-bin-compress=ON", "--log-bin-compress-min-len=10", "--binlog-checksum=NONE", "--binlog-annotate-row-events=OFF"}},
			{name: "small events", options: []string{"--binlog-row-event-max-size=256"}},
		},
	}
	for flavor, settings := range all {
		for _, set := range settings {
			t.Run(flavor+", "+set.name, func(t *testing.T) {
				t.Parallel()
				s := testmysql.Private(t, flavor, set.options...)
				r := exercised(t, s)
				r.start(nil, nil)
				r.same("w")
				for _, sql := range set.session {
					r.exec("SET SESSION " + sql)
				}
				r.exercise()
				for _, sql := range set.global {
					r.exec("SET GLOBAL " + sql)
					r.exercise()
				}
				// A shut-down in order is the end of a file, and of the stream.
				s.Stop()
				s.Start()
				r.reconnect()
				r.exec("UPDATE w SET n = 3 WHERE id = 3")
				r.same("w")
				if st := r.f.Status(); st.Reconnects[ReasonUnreadable]+st.Reconnects[ReasonGone] != 0 || r.sink.loadsOf(r.schema+".w") != 1 {
					t.Errorf("%d loads, reconnects %v", r.sink.loadsOf(r.schema+".w"), st.Reconnects)
				}
			})
		}
	}
}
