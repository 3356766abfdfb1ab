#!/bin/bash
# server-down.sh DIR [kill]
# Stops the instance that server-up.sh started in DIR and waits for its end: SIGTERM, or SIGKILL with "kill" (a crash).
# The data stay and server-up.sh starts on them again. Remove DIR to forget the instance.
# server-down.sh --all
# Ends all servers of the tests (those in the cache folder) and removes their data. The downloads stay.
set -euo pipefail
export LC_ALL=C
[ $# -ge 1 ] || { echo "server-down: usage: server-down.sh DIR [kill], or server-down.sh --all" >&2; exit 1; }
if [ "$1" = --all ]; then
  CACHE=${BINLOGCACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/binlogcache}/servers
  for dir in "$CACHE"/shared/*/ "$CACHE"/private/*/; do
    [ -d "$dir" ] || continue
    "$BASH" "$0" "${dir%/}" kill
    rm -rf "${dir%/}"
  done
  exit 0
fi
DIR=$1 HOW=${2:-term}
[ -s "$DIR/pid" ] || exit 0
PID=$(cat "$DIR/pid")
# After a reboot the number may belong to somebody else: only a process that works on this folder is ours.
if ! tr '\0' '\n' <"/proc/$PID/cmdline" 2>/dev/null | grep -qxF -- "--datadir=$(cd "$DIR" && pwd)/data"; then
  rm -f "$DIR/pid"
  exit 0
fi
case $HOW in
  kill) kill -KILL "$PID" 2>/dev/null || true ;;
  term) kill -TERM "$PID" 2>/dev/null || true ;;
  *) echo "server-down: \"$HOW\" is unknown: say kill or nothing" >&2; exit 1 ;;
esac
for _ in $(seq 1200); do
  # A zombie waits for its parent only. MySQL would take it for the owner of the socket's lock file.
  if ! kill -0 "$PID" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$PID/status" 2>/dev/null; then
    SOCKET=$(cat "$DIR/socket-path")
    rm -f "$DIR/pid" "$SOCKET" "$SOCKET.lock"
    exit 0
  fi
  sleep 0.05
done
echo "server-down: process $PID did not stop within 60 s" >&2
exit 1
