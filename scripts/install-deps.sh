#!/bin/bash
# install-deps.sh build|test|bench
# Installs what is needed beside Go and make on Debian and Ubuntu: for build, the certificates by which Go trusts the
# servers of its modules; for test, also a C compiler, for the race detector, memcached, to be compared with, and some of its
# clients, whose tests are left out where these can't be installed; for bench, memcached and memcslap. Says nothing when
# all is there. Database servers are not installed: see server-up.sh.
set -euo pipefail
export LC_ALL=C

missing=()
clients=()
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
    command -v memccapable >/dev/null || clients+=(libmemcached-tools)
    php -r 'exit(class_exists("Memcached") ? 0 : 1);' >/dev/null 2>&1 || clients+=(php-cli php-memcached)
    /usr/bin/python3 -c 'import pymemcache' 2>/dev/null || clients+=(python3-pymemcache)
    /usr/bin/python3 -c 'import pylibmc' 2>/dev/null || clients+=(python3-pylibmc)
    compgen -G '/usr/lib/*/sasl2/libplain.so*' >/dev/null || clients+=(libsasl2-modules) # pylibmc's logins
    /usr/bin/python3 -c 'import bmemcached' 2>/dev/null || clients+=(python3-binary-memcached)
    [ -f /usr/share/java/spymemcached.jar ] || clients+=(libspymemcached-java)
    command -v javac >/dev/null || clients+=(default-jdk-headless)
    perl -MCache::Memcached::Fast -e 1 2>/dev/null || clients+=(libcache-memcached-fast-perl)
    ;;
  bench)
    command -v memcached >/dev/null || missing+=(memcached)
    command -v memcslap >/dev/null || clients+=(libmemcached-tools)
    ;;
  *) echo "install-deps: usage: install-deps.sh build|test|bench" >&2; exit 1 ;;
esac
[ ${#missing[@]} -gt 0 ] || [ ${#clients[@]} -gt 0 ] || exit 0

# left_out says what is not tested, and ends: nothing else is missing.
left_out() {
  echo "install-deps: $1; left out without them: ${clients[*]}" >&2
  exit 0
}
cannot() {
  [ ${#missing[@]} -gt 0 ] || left_out "$1"
  echo "install-deps: $1; please install: ${missing[*]}" >&2
  exit 1
}
command -v apt-get >/dev/null || cannot "this is neither Debian nor Ubuntu"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || cannot "neither root nor sudo"
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() {
  echo "install-deps: installing $*" >&2
  "${as_root[@]}" apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1
}
"${as_root[@]}" apt-get update >"$log" 2>&1 || { tail -20 "$log" >&2; cannot "apt-get update failed"; }
if [ ${#missing[@]} -gt 0 ] && ! install "${missing[@]}"; then
  tail -20 "$log" >&2
  cannot "the installation failed"
fi
# The package starts a service, on the port that demo and serve take.
if [[ " ${missing[*]} " == *" memcached "* ]] && command -v systemctl >/dev/null; then
  "${as_root[@]}" systemctl disable --now memcached >>"$log" 2>&1 || true
fi
if [ ${#clients[@]} -gt 0 ] && ! install "${clients[@]}"; then
  tail -5 "$log" >&2
  left_out "the installation failed"
fi
