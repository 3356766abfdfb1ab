#!/bin/bash
# install-deps.sh: installs what the tests need beside Go and make: a C compiler, for the race detector, and
# certificates where packages come by https. Says nothing when all is there. Database servers are not installed: see
# server-up.sh.
set -euo pipefail
export LC_ALL=C

missing=()
command -v cc >/dev/null || command -v gcc >/dev/null || missing+=(gcc libc6-dev)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "install-deps: please install: ${missing[*]}" >&2; exit 1; }
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "install-deps: neither root nor sudo; please install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "install-deps: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -20 "$log" >&2
  echo "install-deps: could not install ${missing[*]}" >&2
  exit 1
fi
