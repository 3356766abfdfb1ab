#!/bin/bash
# handlersocket.sh
# Reads over HandlerSocket beside the real plugin and beside prepared SELECTs by unix socket: rows by the primary key with 8,
# 50 and 150 connections, one and 32 requests in flight, and ranges of 10 rows, of a table of 1,000,000 rows (BENCH_ROWS). One
# MariaDB with the plugin serves both: the daemon follows it. CPU is that of the process that answers. Settings: lib.sh.
. "$(dirname "$0")/lib.sh"
KEYS=${BENCH_ROWS:-1000000}
if ! command -v mariadbd >/dev/null; then
  say "the plugin is needed: apt-get install mariadb-server, and stop its service"
  exit 1
fi
build wireload abrun
HS_DIR=$DIR/hs HS_MYSQL_PORT=$PORT HS_PORT=$((PORT + 1)) HS_PORT_WR=$((PORT + 2)) HS_SERVER_ARGS="--innodb-buffer-pool-size=512M --max-connections=400" \
  "$HERE/handlersocket-up.sh" >&2
SOCKET=$DIR/hs/sql.sock DB_PID=$(cat "$DIR/hs/server.pid")
mariadb --no-defaults --socket="$SOCKET" --user=root -e "CREATE USER b@'%'; GRANT ALL ON *.* TO b@'%'; CREATE DATABASE bench"
user_table "$KEYS" | mariadb --no-defaults --socket="$SOCKET" --user=root bench
daemon $((PORT + 3)) --tables bench.user --handlersocket-read 127.0.0.1:$((PORT + 4)) --handlersocket-write off --memcached off
LOAD="$DIR/wireload -keys $KEYS -dur ${SECONDS_EACH}s"
PLUGIN="-proto hs -addr 127.0.0.1:$((PORT + 1)) -pid $DB_PID" OURS="-proto hs -addr 127.0.0.1:$((PORT + 4)) -pid $DAEMON" SQL="-proto my -op exec -addr unix:$SOCKET -pid $DB_PID"
{
  for conns in 8 50 150; do
    echo "== find, depth 1, $conns connections"
    echo "plugin | $LOAD $PLUGIN -op find -conns $conns"
    echo "binlogcache | $LOAD $OURS -op find -conns $conns"
    echo "prepared SELECT, unix socket | $LOAD $SQL -conns $conns"
  done
  for conns in 8 50 150; do
    echo "== find, depth 32, $conns connections"
    echo "plugin | $LOAD $PLUGIN -op find -conns $conns -depth 32"
    echo "binlogcache | $LOAD $OURS -op find -conns $conns -depth 32"
  done
  echo "== range of 10 rows, depth 1, 50 connections"
  echo "plugin | $LOAD $PLUGIN -op range -mget 10 -conns 50"
  echo "binlogcache | $LOAD $OURS -op range -mget 10 -conns 50"
} | compare handlersocket
