#!/bin/bash
# lint.sh: formatting, vet and staticcheck. Says nothing where all is well.
set -euo pipefail
cd "$(dirname "$0")/.."
tool() { go tool -modfile=tools/go.mod "$@"; }

unformatted=$(tool gofumpt -l .)
if [ -n "$unformatted" ]; then
  echo "not formatted (make fmt mends it):" >&2
  echo "$unformatted" >&2
  exit 1
fi
go vet ./...
(cd benchmarks && go vet ./...)
tool staticcheck ./...
