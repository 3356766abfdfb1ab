# shellcheck shell=bash
# What the benchmarks' scripts share: they source this file. A private folder, tools, a database, daemons and a memcached,
# all of which are ended, by their process ids, when the script ends.
#
# BENCH_FLAVOR   mariadb or mysql (mariadb)
# BENCH_ROUNDS   rounds of a comparison (5)
# BENCH_SECONDS  seconds that each line of it is measured (4)
# BENCH_PORT     first of ten TCP ports (24460)
# BENCH_DURABLE  1: the database flushes each commit to the disk, where a benchmark writes (1)
# BENCH_OUT      folder for tables and plots (bin/bench)
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")
FLAVOR=${BENCH_FLAVOR:-mariadb} ROUNDS=${BENCH_ROUNDS:-5} SECONDS_EACH=${BENCH_SECONDS:-4} PORT=${BENCH_PORT:-24460}
OUT=${BENCH_OUT:-$ROOT/bin/bench}
COMMITS=(--sync-binlog=1 --innodb-flush-log-at-trx-commit=1)
[ "${BENCH_DURABLE:-1}" = 1 ] || COMMITS=(--sync-binlog=0 --innodb-flush-log-at-trx-commit=2)
MEMCACHED_ONLY=(--handlersocket-read off --handlersocket-write off)
DIR=$(mktemp -d)
PIDS=()

say() { echo "$(date +%T) $*" >&2; }

cleanup() {
  local p
  # In reverse: the last one started may need the ones before it.
  for ((i = ${#PIDS[@]} - 1; i >= 0; i--)); do
    p=${PIDS[i]}
    kill "$p" 2>/dev/null || continue
    wait "$p" 2>/dev/null || true
  done
  if [ -d "$DIR/db" ]; then "$ROOT/scripts/server-down.sh" "$DIR/db" >&2 || true; fi
  if [ -d "$DIR/hs" ]; then HS_DIR=$DIR/hs "$HERE/handlersocket-up.sh" stop || true; fi
  rm -rf "$DIR"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

build() { # TOOL... of this module, and the daemon
  say "building"
  (cd "$HERE" && go build -o "$DIR/" "${@/#/./}")
  (cd "$ROOT" && go build -o "$DIR/" ./cmd/binlogcache)
}

# Starts a database of the tests: sets SOCKET and DB_PID, and makes the user b without a password and the schema bench.
database() { # [SERVER-OPTION...]
  mkdir "$DIR/db"
  "$ROOT/scripts/server-up.sh" "$FLAVOR" "$DIR/db" "$PORT" --max-connections=800 "$@" >/dev/null
  SOCKET=$(cat "$DIR/db/socket-path")
  DB_PID=$(cat "$DIR/db/pid")
  local plugin=mysql_native_password
  [ "$FLAVOR" = mariadb ] || plugin=caching_sha2_password
  sql -e "CREATE USER b@'%' IDENTIFIED WITH $plugin; GRANT ALL ON *.* TO b@'%'; CREATE DATABASE bench"
}

sql() { "$DIR/db/bin/sql" --socket="$SOCKET" --user=root "$@"; }

# Prints SQL: a query whose column n counts from 1 to $1, at most a million.
sequence() { # TO
  local ten="(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
  echo "(SELECT 1+a.d+10*b.d+100*c.d+1000*e.d+10000*f.d+100000*g.d AS n FROM $ten a, $ten b, $ten c, $ten e, $ten f, $ten g HAVING n <= $1)"
}

# Prints SQL that makes the table user, of people.
user_table() { # ROWS
  say "table user: $1 rows"
  cat <<SQL
CREATE TABLE user (id INT PRIMARY KEY AUTO_INCREMENT, uname VARCHAR(64), email VARCHAR(128), add_time DATETIME);
INSERT INTO user SELECT n, CONCAT('name_', n), CONCAT('user', n, '@example.com'), '2024-05-06 07:08:09' FROM $(sequence "$1") AS seq;
SQL
}

# Prints SQL that makes the table kv, empty, and writes $DIR/containers.yaml, which maps the keys of memcached clients to it.
kv_table() {
  cat >"$DIR/containers.yaml" <<'YAML'
containers:
  - {name: default, schema: bench, table: kv, key_columns: k, value_columns: [v], flags_column: flags, cas_column: cas, expiry_column: expires}
YAML
  cat <<'SQL'
CREATE TABLE kv (k VARCHAR(250) CHARACTER SET latin1 COLLATE latin1_bin PRIMARY KEY, v VARBINARY(16384), flags INT UNSIGNED NOT NULL DEFAULT 0,
  cas BIGINT UNSIGNED NOT NULL DEFAULT 0, expires INT UNSIGNED NOT NULL DEFAULT 0);
SQL
}

# Prints the body of what an HTTP port on this machine answers with status 200; fails on everything else.
http() { # PORT PATH
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
    read -r _ status _ <&3
    [ "$status" = 200 ]
    while read -r header && [ "$header" != $'\r' ]; do :; done <&3
    cat <&3
  ) 2>/dev/null
}

# Starts a daemon that follows the database and waits until it is ready: sets DAEMON to its process.
daemon() { # ADMIN-PORT FLAG...
  local admin=$1 log=$DIR/daemon.$1.log
  shift
  "$DIR/binlogcache" serve --source "root@unix($SOCKET)/" --admin "127.0.0.1:$admin" "$@" 2>"$log" &
  DAEMON=$!
  PIDS+=("$DAEMON")
  for _ in $(seq 600); do
    ! http "$admin" /readyz >/dev/null || return 0
    kill -0 "$DAEMON" 2>/dev/null || break
    sleep 0.2
  done
  tail -5 "$log" >&2
  say "the daemon is not ready"
  return 1
}

# Starts Debian's memcached: sets MEMCACHED to its process.
memcached_up() { # PORT THREADS
  local user=()
  [ "$(id -u)" != 0 ] || user=(-u nobody)
  memcached "${user[@]}" -l 127.0.0.1 -p "$1" -U 0 -t "$2" -m 256 -c 2048 &
  MEMCACHED=$!
  PIDS+=("$MEMCACHED")
  for _ in $(seq 50); do
    ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.1
  done
  say "memcached does not listen"
  return 1
}

# Runs abrun on a spec from standard input; the tables are shown and kept in $OUT/NAME.md.
compare() { # NAME
  mkdir -p "$OUT"
  cat >"$DIR/spec"
  say "$(grep -c '|' "$DIR/spec") lines of $SECONDS_EACH s, $ROUNDS rounds"
  "$DIR/abrun" -rounds "$ROUNDS" -fields ops_s,cpu_s_per_mop,p50_us,p99_us -ratio ops_s,cpu_s_per_mop "$DIR/spec" | tee "$OUT/$1.md"
  say "kept in $OUT/$1.md"
}
