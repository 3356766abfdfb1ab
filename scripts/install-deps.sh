#!/bin/bash
# install-deps.sh build|test
# Installs what is needed beside Go and make on Debian and Ubuntu: for build, the certificates by which Go trusts the
# servers of its modules; for test, also a C compiler, for the race detector, and memcached, to be compared with. Says
# nothing when all is there. Database servers are not installed: see server-up.sh.
set -euo pipefail
export LC_ALL=C

missing=()
certificates() {
  local f
  for f in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem \
    /etc/ssl/cert.pem; do
    [ ! -s "$f" ] || return 0
  done
  return 1
}
certificates || missing+=(ca-certificates)
case ${1:-} in
  build) ;;
  test)
    command -v gcc >/dev/null || command -v clang >/dev/null || missing+=(gcc libc6-dev)
    command -v memcached >/dev/null || missing+=(memcached)
    ;;
  *) echo "install-deps: usage: install-deps.sh build|test" >&2; exit 1 ;;
esac
[ ${#missing[@]} -gt 0 ] || exit 0

cannot() {
  echo "install-deps: $1; please install: ${missing[*]}" >&2
  exit 1
}
command -v apt-get >/dev/null || cannot "this is neither Debian nor Ubuntu"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || cannot "neither root nor sudo"
  as_root=(sudo)
fi
echo "install-deps: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -20 "$log" >&2
  cannot "the installation failed"
fi
# The package starts a service, on the port that demo and serve take.
if [[ " ${missing[*]} " == *" memcached "* ]] && command -v systemctl >/dev/null; then
  "${as_root[@]}" systemctl disable --now memcached >>"$log" 2>&1 || true
fi
