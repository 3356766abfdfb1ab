#!/bin/bash
# writes.sh [mariadb|mysql] [rounds]
# Durable updates of random rows (sync_binlog=1, innodb_flush_log_at_trx_commit=1): SQL with autocommit over 50
# connections, beside HandlerSocket through binlogcache with 50 and with 400 connections, and with 50 that
# keep 8 requests in flight, in turn. Prints the table of
# abrun: CPU is that of the database. Everything it starts it ends; its data goes to a temporary folder.
set -euo pipefail
FLAVOR=${1:-mariadb} ROUNDS=${2:-5}
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=$(mktemp -d)
DAEMON=
cleanup() {
  [ -z "$DAEMON" ] || { kill "$DAEMON" && wait "$DAEMON"; } 2>/dev/null || true
  "$HERE/../scripts/server-down.sh" "$DIR/db" >/dev/null 2>&1 || true
  rm -rf "$DIR"
}
trap cleanup EXIT
(cd "$HERE" && go build -o "$DIR/" ./wireload ./abrun)
(cd "$HERE/.." && go build -o "$DIR/" ./cmd/binlogcache)
PORT=${WRITES_PORT:-24460}
mkdir "$DIR/db"
"$HERE/../scripts/server-up.sh" "$FLAVOR" "$DIR/db" "$PORT" --sync-binlog=1 --innodb-flush-log-at-trx-commit=1 --max-connections=600 >/dev/null
SOCKET=$(cat "$DIR/db/socket-path")
PID=$(cat "$DIR/db/pid")
PLUGIN=mysql_native_password
[ "$FLAVOR" = mariadb ] || PLUGIN=caching_sha2_password
"$DIR/db/bin/sql" --socket="$SOCKET" --user=root <<SQL
CREATE USER b@'%' IDENTIFIED WITH $PLUGIN; GRANT ALL ON *.* TO b@'%';
CREATE DATABASE bench; USE bench;
CREATE TABLE user (id INT PRIMARY KEY AUTO_INCREMENT, uname VARCHAR(64), email VARCHAR(128), add_time DATETIME);
INSERT INTO user (uname) VALUES ('a'),('a'),('a'),('a'),('a'),('a'),('a'),('a'),('a'),('a');
INSERT INTO user (uname) SELECT 'a' FROM user a, user b, user c, user d;
INSERT INTO user (uname) SELECT 'a' FROM user LIMIT 90000;
SQL
"$DIR/binlogcache" serve --source "root@unix($SOCKET)/" --tables bench.user --handlersocket-read off \
  --handlersocket-write "unix:$DIR/hsw" --memcached off --admin "127.0.0.1:$((PORT + 1))" 2>"$DIR/log" &
DAEMON=$!
for _ in $(seq 100); do
  curl -sf "http://127.0.0.1:$((PORT + 1))/readyz" >/dev/null && break
  sleep 0.2
done
LOAD="$DIR/wireload -keys 10000 -dur ${WRITES_SECONDS:-5}s -warm 1s -pid $PID"
cat >"$DIR/spec" <<SPEC
== durable updates, $FLAVOR
SQL autocommit, 50 connections | $LOAD -proto my -op update -addr unix:$SOCKET -conns 50 -sql "UPDATE user SET uname=CONCAT('name_',NOW(6)), email='x@example.com', add_time=NOW() WHERE id=?"
HandlerSocket, 50 connections | $LOAD -proto hs -op update -addr unix:$DIR/hsw -conns 50
HandlerSocket, 400 connections | $LOAD -proto hs -op update -addr unix:$DIR/hsw -conns 400
HandlerSocket, 50 connections, 8 pipelined | $LOAD -proto hs -op update -addr unix:$DIR/hsw -conns 50 -depth 8
SPEC
"$DIR/abrun" -rounds "$ROUNDS" -ratio ops_s,cpu_s_per_mop "$DIR/spec"
curl -s "http://127.0.0.1:$((PORT + 1))/metrics" | grep -E '^binlogcache_write(s_total.*(done|uncertain)|_groups|_grouped|_ack_wait_seconds_(sum|count)|_ack_timeouts)' | grep -v ' 0$'
