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
# Many wait for servers, so more of them run at a time than there are cores.
step "tests of the packages"
mapfile -t packages < <(go list ./... | grep -v '/tests$')
go test -count=1 -timeout 25m -p 4 "${packages[@]}" | tee "$results"
step "tests of the whole program"
go test -count=1 -timeout 25m -parallel 6 ./tests | tee -a "$results"
step "tests of what runs in several goroutines, with the race detector"
mapfile -t concurrent < <(go list ./... | grep -E '/(admin|cache|canal|hsserver|mcserver|router|writeback|internal/(app|dbreader|netserver|sqltext))$')
go test -count=1 -timeout 25m -p 4 -short -race "${concurrent[@]}" | tee -a "$results"

ran=$(grep '^ok' "$results" | grep -vc 'no tests to run' || true)
[ "$ran" -gt 0 ] || { echo "test: no test ran" >&2; exit 1; }
step "all is well: $ran packages"
