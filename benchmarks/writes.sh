#!/bin/bash
# writes.sh
# Durable updates of random rows (sync_binlog=1, innodb_flush_log_at_trx_commit=1): SQL with autocommit over 50
# connections, beside HandlerSocket through binlogcache with 50 and with 400 connections, and with 50 that
# keep 8 requests in flight, in turn. CPU is that of the database. Settings: lib.sh.
. "$(dirname "$0")/lib.sh"
KEYS=10000
build wireload abrun
database "${COMMITS[@]}"
user_table $KEYS | sql bench
daemon $((PORT + 1)) --tables bench.user --handlersocket-read off --handlersocket-write "unix:$DIR/hsw" --memcached off
LOAD="$DIR/wireload -keys $KEYS -dur ${SECONDS_EACH}s -warm 1s -pid $DB_PID"
compare writes <<SPEC
== durable updates, $FLAVOR
SQL autocommit, 50 connections | $LOAD -proto my -op update -addr unix:$SOCKET -conns 50 -sql "UPDATE user SET uname=CONCAT('name_',NOW(6)), email='x@example.com', add_time=NOW() WHERE id=?"
HandlerSocket, 50 connections | $LOAD -proto hs -op update -addr unix:$DIR/hsw -conns 50
HandlerSocket, 400 connections | $LOAD -proto hs -op update -addr unix:$DIR/hsw -conns 400
HandlerSocket, 50 connections, 8 pipelined | $LOAD -proto hs -op update -addr unix:$DIR/hsw -conns 50 -depth 8
SPEC
http $((PORT + 1)) /metrics | grep -E '^binlogcache_write(s_total.*(done|uncertain)|_groups|_grouped|_ack_wait_seconds_(sum|count)|_ack_timeouts)' | grep -v ' 0$'
