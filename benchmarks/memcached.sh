#!/bin/bash
# memcached.sh
# Rows of a table through a container, and plain items, beside memcached with one thread (-t 1): get with 8, 50 and 150
# connections, with 32 requests in flight, multi-get of 100 keys, and set of plain items. 200,000 keys of 30 bytes, values
# of 100 bytes. CPU is that of the server that answers. Settings: lib.sh.
. "$(dirname "$0")/lib.sh"
KEYS=200000
"$ROOT/scripts/install-deps.sh" bench
build wireload abrun
database
{
  kv_table
  echo "INSERT INTO kv SELECT CONCAT('k', LPAD(n, 29, '0')), REPEAT('abcde', 20), 0, n, 0 FROM $(sequence $KEYS) AS seq"
} | sql bench
daemon $((PORT + 1)) --config "$DIR/containers.yaml" --tables bench.kv "${MEMCACHED_ONLY[@]}" --memcached 127.0.0.1:$((PORT + 2))
ROWS=$DAEMON
daemon $((PORT + 3)) --hot off "${MEMCACHED_ONLY[@]}" --memcached 127.0.0.1:$((PORT + 4)) --memcached-memory 256MiB
ITEMS=$DAEMON
memcached_up $((PORT + 5)) 1
for port in $((PORT + 4)) $((PORT + 5)); do "$DIR/wireload" -fill -keys $KEYS -depth 64 -conns 4 -addr 127.0.0.1:$port; done

LOAD="$DIR/wireload -proto mc -keys $KEYS -dur ${SECONDS_EACH}s"
PEER="-addr 127.0.0.1:$((PORT + 5)) -pid $MEMCACHED" ROW="-addr 127.0.0.1:$((PORT + 2)) -pid $ROWS" ITEM="-addr 127.0.0.1:$((PORT + 4)) -pid $ITEMS"
{
  three() { # TITLE FLAGS
    echo "== $1"
    echo "memcached | $LOAD $2 $PEER"
    [[ $2 == *"-op set"* ]] || echo "row of a table | $LOAD $2 $ROW"
    echo "plain item | $LOAD $2 $ITEM"
  }
  for conns in 8 50 150; do three "get, depth 1, $conns connections" "-op get -conns $conns"; done
  three "get, depth 32, 50 connections" "-op get -conns 50 -depth 32"
  three "multi-get of 100, 50 connections" "-op mget -conns 50"
  three "set, depth 1, 50 connections" "-op set -conns 50"
  three "set, depth 32, 50 connections" "-op set -conns 50 -depth 32"
} | compare memcached
