#!/bin/bash
# seed-handlersocket.sh
# Clients read and add rows of a table of 1,000,000, by SQL and over HandlerSocket through binlogcache: 50, 70, 110 and
# 150 clients with 5,000 requests each. Counts rows that were lost, doubled or wrong. Writes a table and plots.
# SEED_CLIENTS, SEED_REQUESTS, SEED_RUNS, BENCH_ROWS make it shorter or longer; BENCH_DURABLE=0 is for a disk that is slow.
# Other settings: lib.sh.
. "$(dirname "$0")/lib.sh"
KEYS=${BENCH_ROWS:-1000000}
build seed
database "${COMMITS[@]}" --innodb-buffer-pool-size=512M
user_table "$KEYS" | sql bench
daemon $((PORT + 1)) --tables bench.user --handlersocket-read 127.0.0.1:$((PORT + 2)) --handlersocket-write 127.0.0.1:$((PORT + 3)) --memcached off
"$DIR/seed" handlersocket -out "$OUT" -sql 127.0.0.1:"$PORT" -read 127.0.0.1:$((PORT + 2)) -write 127.0.0.1:$((PORT + 3)) -rows "$KEYS" \
  -clients "${SEED_CLIENTS:-50,70,110,150}" -requests "${SEED_REQUESTS:-5000}" -runs "${SEED_RUNS:-1}"
