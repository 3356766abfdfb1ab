package canal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/steady"
	"github.com/binlogcache/binlogcache/schema"
)

// source is what one look at the server found.
type source struct {
	// asked is when the questions began: the source's log holds everything that was committed before.
	asked           steady.Time
	flavor, version string
	// identity tells servers apart: names of log files mean nothing on another one.
	identity string
	// vars are the global variables of sourceVariables, those that the server has.
	vars map[string]string
	// start is where a follower begins that knows nothing: everything that is in the log by now.
	start gtidSet
	// purged is what MySQL's log no longer has; state is what MariaDB's log has had.
	purged gtidSet
	state  binlogState
	// end is the log's end, filters whether it leaves schemas out.
	end     coordinate
	filters string
	// files are the sizes of the log's files; oldest is the position before all that MariaDB's have, unset where that can't
	// be told.
	files  map[string]uint64
	oldest gtidSet
	// lossy is set when a crash of this server may have lost what its log has kept, now or when it was seen before.
	lossy bool
	// unlogged is set for a replica that keeps what it replicates out of its own log.
	unlogged bool
}

var sourceVariables = []string{
	"log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_row_value_options", "gtid_mode",
	"log_slave_updates", "log_replica_updates", "innodb_native_foreign_keys", "lower_case_table_names",
	"binlog_legacy_event_pos", "innodb_flush_log_at_trx_commit", "server_id", "server_uuid", "hostname", "port",
}

// inspectOpenly reads what the server tells everybody: its variables.
func inspectOpenly(ctx context.Context, c *sqltext.Conn) (*source, error) {
	s := &source{asked: steady.Now(), flavor: c.Flavor(), version: c.ServerVersion(), vars: map[string]string{}}
	sql := "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('" + strings.Join(sourceVariables, "', '") + "')"
	err := c.Query(ctx, sql, func(v [][]byte) error {
		s.vars[strings.ToLower(string(v[0]))] = string(v[1])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the source's variables: %w", err)
	}
	if s.flavor == schema.FlavorMariaDB {
		s.identity = s.vars["server_id"] + "@" + s.vars["hostname"] + ":" + s.vars["port"]
	} else {
		s.identity = s.vars["server_uuid"]
	}
	return s, nil
}

// inspect looks at the server. It needs the privilege REPLICATION CLIENT.
func inspect(ctx context.Context, c *sqltext.Conn) (*source, error) {
	s, err := inspectOpenly(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.vars["log_bin"] != "ON" {
		return s, nil // the rest would fail, and the caller knows what to say
	}
	if s.unlogged, err = replicatesUnlogged(ctx, c, s.vars); err != nil {
		return nil, fmt.Errorf("ask whether the source is a replica: %w", err)
	}
	if err := s.readSets(ctx, c); err != nil {
		return nil, fmt.Errorf("read the source's executed transactions: %w", err)
	}
	if s.end, s.filters, err = logEnd(ctx, c); err != nil {
		return nil, err
	}
	s.files = map[string]uint64{}
	first := ""
	err = c.Query(ctx, "SHOW BINARY LOGS", func(v [][]byte) error {
		if first == "" {
			first = string(v[0])
		}
		size, err := strconv.ParseUint(string(v[1]), 10, 64)
		s.files[string(v[0])] = size
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the source's log files: %w", err)
	}
	if s.flavor == schema.FlavorMariaDB {
		s.oldest, err = gtidAt(ctx, c, coordinate{first, logFileHead})
		if sqltext.ServerCode(err) != 0 {
			err = nil // a file that has just been purged, or a server that can't tell: the stream will
		}
	}
	return s, err
}

// gtidAt is the position at a place of MariaDB's log; unset when no event begins there.
func gtidAt(ctx context.Context, c *sqltext.Conn, at coordinate) (set gtidSet, err error) {
	sql := fmt.Sprintf("SELECT BINLOG_GTID_POS('%s', %d)", strings.ReplaceAll(at.file, "'", "''"), at.pos)
	err = c.Query(ctx, sql, func(v [][]byte) (err error) {
		if v[0] != nil {
			set, err = parseGTIDs(schema.FlavorMariaDB, string(v[0]))
		}
		return err
	})
	return set, err
}

func (s *source) readSets(ctx context.Context, c *sqltext.Conn) error {
	sql := "SELECT @@global.gtid_executed, @@global.gtid_purged"
	if s.flavor == schema.FlavorMariaDB {
		sql = "SELECT @@global.gtid_binlog_pos, @@global.gtid_binlog_state"
	}
	return c.Query(ctx, sql, func(v [][]byte) (err error) {
		if s.start, err = parseGTIDs(s.flavor, string(v[0])); err != nil {
			return err
		}
		if s.flavor == schema.FlavorMariaDB {
			s.state, err = parseBinlogState(string(v[1]))
		} else {
			s.purged, err = parseGTIDs(s.flavor, string(v[1]))
		}
		return err
	})
}

// replicatesUnlogged reports that the server is applying another server's transactions and keeps them out of its log.
func replicatesUnlogged(ctx context.Context, c *sqltext.Conn, vars map[string]string) (running bool, err error) {
	if vars["log_slave_updates"] != "OFF" && vars["log_replica_updates"] != "OFF" {
		return false, nil
	}
	if c.Flavor() == schema.FlavorMariaDB {
		// These need no privilege; SHOW ALL SLAVES STATUS does.
		err = c.Query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_running', 'Slave_running')", func(v [][]byte) error {
			running = running || string(v[1]) != "0" && !strings.EqualFold(string(v[1]), "OFF")
			return nil
		})
		return running, err
	}
	// MySQL has had the first form since 8.0.22, and has dropped the second in 8.4.
	for _, sql := range []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"} {
		applier := -1
		err = c.StreamNamed(ctx, sql, func(i int, name []byte) error {
			if n := string(name); n == "Replica_SQL_Running" || n == "Slave_SQL_Running" {
				applier = i
			}
			return nil
		}, func(f sqltext.Fields) error {
			var v []byte
			for range applier + 1 {
				v, _, _ = f.Next()
			}
			running = running || strings.EqualFold(string(v), "Yes")
			return nil
		})
		if sqltext.ServerCode(err) != mysql.ER_PARSE_ERROR {
			break
		}
	}
	return running, err
}

// catchUp is how long MySQL is given to put transactions into its executed set that its log has shown already.
const catchUp = 2 * time.Second

// lack is why a stream can't go on after what was applied. The zero value says that it can.
type lack struct {
	reason string
	// purged says that it is only for want of log files: the server has what was applied.
	purged bool
}

// inspectFor looks at the server and says why the stream can't go on after the applied set at that place of the log. Both
// must have been taken before; the place is one in the log of the server of that identity.
func inspectFor(ctx context.Context, c *sqltext.Conn, applied gtidSet, at coordinate, identity string) (src *source, lacking lack, err error) {
	if src, err = inspect(ctx, c); err != nil || applied == (gtidSet{}) || src.vars["log_bin"] != "ON" {
		return src, lack{}, err
	}
	if src.identity != identity {
		at = coordinate{}
	}
	if lacking = src.lacks(applied, at); lacking == (lack{}) || applied.my == nil || src.flavor != schema.FlavorMySQL {
		return src, lacking, nil
	}
	// The log is written before the executed set.
	sql := fmt.Sprintf("SELECT WAIT_FOR_EXECUTED_GTID_SET('%s', %v)", applied, catchUp.Seconds())
	if err := c.Exec(ctx, sql); err != nil {
		return nil, lack{}, err
	}
	if src, err = inspect(ctx, c); err != nil {
		return nil, lack{}, err
	}
	return src, src.lacks(applied, at), nil
}

// otherHistory says why the log up to a place is not the one that was applied here, where the server can tell: a log that
// was reset and has grown beyond that place has the same numbers for other transactions. MariaDB finds the transactions
// before a place in its files; MySQL tells whether an event begins there. What looks the same to MySQL by chance shows by
// the time at which the file was made, see stream.describe.
func (s *source) otherHistory(ctx context.Context, c *sqltext.Conn, applied gtidSet, at coordinate) (lacking lack, err error) {
	if _, ok := s.files[at.file]; !ok {
		return lack{}, nil // a file that is gone: the stream will tell
	}
	reason := fmt.Sprintf("the source's log has other transactions up to %s than were applied here: it was reset or restored", at)
	if applied.maria == nil {
		file := strings.ReplaceAll(at.file, "'", "''")
		err = c.Query(ctx, fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %d LIMIT 1", file, at.pos), func([][]byte) error { return nil })
		switch code := sqltext.ServerCode(err); {
		case code == mysql.ER_ERROR_WHEN_EXECUTING_COMMAND:
			return lack{reason: reason}, nil
		case code != 0:
			return lack{}, nil // a server that can't tell
		}
		return lack{}, err
	}
	there, err := gtidAt(ctx, c, at)
	if sqltext.ServerCode(err) != 0 {
		return lack{}, nil // a server that can't tell
	}
	if err != nil || there.containsAll(applied) && applied.containsAll(there) {
		return lack{}, err
	}
	return lack{reason: reason}, nil
}

// flushes reports that what is committed survives a crash of the server.
func (s *source) flushes() bool { return s.vars["innodb_flush_log_at_trx_commit"] == "1" }

const crashReason = "the source has crashed and does not flush at each commit (innodb_flush_log_at_trx_commit): its tables may lack transactions that are in its log"

// lostInCrash says why the tables of the server may not be what its log up to a place says: InnoDB can lose in a crash
// what the log has kept. A log file that is closed in order ends with an event that says so. What comes after the place in the same file is the stream's to judge, see stream.rotate.
func (s *source) lostInCrash(ctx context.Context, c *sqltext.Conn, at coordinate) (lacking lack, err error) {
	if at.file == "" || at.file == s.end.file || !s.lossy {
		return lack{}, nil
	}
	next := "" // nothing: it ends here
	file := strings.ReplaceAll(at.file, "'", "''")
	err = c.Query(ctx, fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %d LIMIT 1", file, at.pos), func(v [][]byte) error {
		next = string(v[2])
		return nil
	})
	if err != nil && sqltext.ServerCode(err) == 0 {
		return lack{}, err
	}
	if err != nil || next == "" {
		return lack{reason: crashReason}, nil
	}
	return lack{}, nil
}

// lacks says why the stream can't go on after the applied set at that place of the log.
func (s *source) lacks(applied gtidSet, at coordinate) lack {
	held := false
	if s.flavor == schema.FlavorMariaDB {
		held = applied.maria != nil && s.state.contains(applied)
	} else {
		held = s.start.containsAll(applied)
	}
	if !held {
		return lack{reason: "the source does not have all transactions that were applied here: it was reset, restored or replaced, is behind, or lost the last ones in a crash"}
	}
	purged := s.flavor == schema.FlavorMySQL && !applied.containsAll(s.purged)
	if purged || s.oldest.maria != nil && applied.behind(s.oldest) {
		return lack{reason: "the source has purged log files that were not read yet", purged: true}
	}
	// A crash can cut off the end of the log, and the numbers be given again to other transactions.
	if size, ok := s.files[at.file]; ok && size < at.pos {
		return lack{reason: fmt.Sprintf("the source's log file %s is shorter than what was read of it: a crash lost the end", at.file)}
	}
	// What was read before s.end was asked for can't be beyond it, in the same log.
	if order, ok := at.compare(s.end); at.file != "" && ok && order > 0 {
		return lack{reason: fmt.Sprintf("the source's log ends before %s, up to which it was read: it was reset or restored", at)}
	}
	return lack{}
}

// logEnd gives the end of the log and the filters of what is written to it.
func logEnd(ctx context.Context, c *sqltext.Conn) (end coordinate, filters string, err error) {
	// MySQL has had the first form since 8.2, and has dropped the second in 8.4.
	for _, sql := range []string{"SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"} {
		if sql == "SHOW BINARY LOG STATUS" && c.Flavor() == schema.FlavorMariaDB {
			continue
		}
		err = c.Query(ctx, sql, func(v [][]byte) error {
			pos, err := strconv.ParseUint(string(v[1]), 10, 64)
			end = coordinate{string(v[0]), pos}
			if len(v[2]) > 0 {
				filters = "binlog_do_db=" + string(v[2])
			}
			if len(v[3]) > 0 {
				filters = strings.TrimSpace(filters + " binlog_ignore_db=" + string(v[3]))
			}
			return err
		})
		if sqltext.ServerCode(err) != mysql.ER_PARSE_ERROR {
			break
		}
	}
	switch {
	case err != nil:
		return end, filters, fmt.Errorf("read the end of the source's log: %w", err)
	case end.file == "":
		return end, filters, errors.New("read the end of the source's log: the server has none")
	}
	return end, filters, nil
}

// positionless reports that the source leaves places out of events: MariaDB 11.4 and later by default.
func (s *source) positionless() bool { return s.vars["binlog_legacy_event_pos"] == "OFF" }

// waitVisible returns when every transaction up to m can be seen by statements that begin afterwards on the server. An
// event can be read from the log before its transaction is committed in the engine.
func waitVisible(ctx context.Context, c *sqltext.Conn, m mark) error {
	if c.Flavor() == schema.FlavorMariaDB {
		return waitVisibleMariaDB(ctx, c, m.at)
	}
	// A transaction enters the executed set after its commit in the engine.
	sql := "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + m.applied + "', 5)"
	if m.applied == "" {
		return nil
	}
	for {
		late := false
		err := c.Query(ctx, sql, func(v [][]byte) error {
			late = string(v[0]) != "0"
			return nil
		})
		if err != nil || !late {
			return err
		}
	}
}

// waitVisibleMariaDB asks for the place up to which transactions are committed in the engine. The server moves it, and
// answers the question, under the lock under which engines commit. It is not so exact for XA COMMIT, see
// attempt.low.
func waitVisibleMariaDB(ctx context.Context, c *sqltext.Conn, at coordinate) error {
	const longest = 10 * time.Millisecond
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, longest) {
		var seen coordinate
		err := c.Query(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'", func(v [][]byte) (err error) {
			switch strings.ToLower(string(v[0])) {
			case "binlog_snapshot_file":
				seen.file = string(v[1])
			case "binlog_snapshot_position":
				seen.pos, err = strconv.ParseUint(string(v[1]), 10, 64)
			}
			return err
		})
		if err != nil {
			return err
		}
		order, ok := seen.compare(at)
		if !ok {
			return errMoved
		}
		if order >= 0 {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// sleep waits, or returns the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
