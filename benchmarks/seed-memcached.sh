#!/bin/bash
# seed-memcached.sh
# get and set with 4 to 256 threads over the binary protocol against memcached, plain items, and rows of a table through a
# container; set beside SQL with autocommit, too. With memcslap where it is installed, and with a load of our own, in which
# threads have keys of their own and values change. Writes tables and plots.
# SEED_THREADS, SEED_GETS, SEED_SETS (of each thread), SEED_RUNS make it shorter or longer; BENCH_DURABLE=0 is for a disk that is slow.
# Other settings: lib.sh.
. "$(dirname "$0")/lib.sh"
"$ROOT/scripts/install-deps.sh" bench
build seed
database "${COMMITS[@]}"
kv_table | sql bench
daemon $((PORT + 1)) --config "$DIR/containers.yaml" --tables bench.kv "${MEMCACHED_ONLY[@]}" --memcached 127.0.0.1:$((PORT + 2))
daemon $((PORT + 3)) --hot off "${MEMCACHED_ONLY[@]}" --memcached 127.0.0.1:$((PORT + 4)) --memcached-memory 256MiB
memcached_up $((PORT + 5)) 4
"$DIR/seed" memcached -out "$OUT" -sql 127.0.0.1:"$PORT" -container 127.0.0.1:$((PORT + 2)) -plain 127.0.0.1:$((PORT + 4)) -native 127.0.0.1:$((PORT + 5)) \
  -clients "${SEED_THREADS:-4,8,16,32,64,128,256}" -gets "${SEED_GETS:-2000}" -requests "${SEED_SETS:-1000}" -runs "${SEED_RUNS:-5}"
