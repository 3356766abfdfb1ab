#!/bin/bash
# test.sh: everything that must hold, from the set-up of a fresh machine to the tests on real servers. Ends with another
# code than 0 when something fails, and when no test ran.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '== %s (%d s)\n' "$1" "$SECONDS"; }

command -v go >/dev/null || { echo "test: Go 1.26 or newer is needed, on the PATH" >&2; exit 1; }
trap 'scripts/server-down.sh --all' EXIT

step "set-up"
scripts/install-deps.sh test
scripts/server-up.sh mariadb --prepare
scripts/server-up.sh mysql --prepare

step "format, vet, staticcheck"
scripts/lint.sh

# Results are never taken from the cache: they depend on servers.
results=$(mktemp)
trap 'scripts/server-down.sh --all; rm -f "$results"' EXIT
# What runs in several goroutines is tested with the race detector, and without it too where memory is
# measured. Most wait for servers, so more of them run at a time than there are cores.
race='/(admin|cache|canal|hsserver|mcserver|router|writeback|internal/(app|dbreader|netserver|sqltext))$'
mapfile -t concurrent < <(go list ./... | grep -E "$race")
mapfile -t others < <(go list ./... | grep -vE "/tests$|$race")
step "tests of the packages"
go test -count=1 -timeout 25m -p 4 -parallel 6 "${others[@]}" ./cache ./hsserver ./internal/netserver | tee "$results"
step "tests of the packages that run in several goroutines, with the race detector"
go test -count=1 -timeout 25m -p 4 -parallel 6 -race "${concurrent[@]}" | tee -a "$results"
step "tests of the whole program"
go test -count=1 -timeout 25m -parallel 6 ./tests | tee -a "$results"

ran=$(grep '^ok' "$results" | grep -vc 'no tests to run' || true)
[ "$ran" -gt 0 ] || { echo "test: no test ran" >&2; exit 1; }
step "all is well: $ran packages"
