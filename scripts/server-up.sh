#!/bin/bash
# server-up.sh FLAVOR DIR PORT [extra server options...]
# server-up.sh FLAVOR --prepare         fills the cache only, so that later starts take a second
#   FLAVOR  mariadb | mysql
#   DIR     instance directory (data, socket, pid, error log): made when new, started again on the same data when it
#           already holds an instance
#   PORT    TCP port on 127.0.0.1
# Prints the DSN (go-sql-driver form) as the last line of standard output; everything else goes to standard error.
# DIR/bin has wrappers sql, mysqldump and binlog of the flavor's own clients; DIR/socket-path names the socket.
# root has no password on the socket and the password "test" on TCP.
#
# BINLOGCACHE_CACHE           cache folder (default ${XDG_CACHE_HOME:-$HOME/.cache}/binlogcache); downloads, unpacked
#                             servers and initialised data go to its folder "servers"
# BINLOGCACHE_MYSQL_SUITE     Debian suite to take MySQL from (default sid; Debian's stable releases have MariaDB only)
# BINLOGCACHE_SERVER_TIMEOUT  seconds to wait for the server's first answer (default 180)
#
# Nothing is installed into the system. On Debian and Ubuntu the packages and all that they depend on, the C library
# included, are downloaded with a private apt configuration and unpacked, and the server runs through the unpacked
# tree's own dynamic loader. So no root is needed, several instances run side by side, and once the cache is filled no
# network is needed either.
set -euo pipefail
export LC_ALL=C

log() { echo "server-up: $*" >&2; }
die() { log "$*"; exit 1; }

USAGE="usage: server-up.sh mariadb|mysql DIR PORT [server options], or server-up.sh mariadb|mysql --prepare"
[ $# -ge 2 ] || die "$USAGE"
FLAVOR=$1 DIR=$2 PORT=${3:-}
case $FLAVOR in mariadb | mysql) ;; *) die "unknown flavor \"$FLAVOR\": say mariadb or mysql" ;; esac

CACHE=${BINLOGCACHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/binlogcache}/servers
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)
if [ "$DIR" != --prepare ]; then
  [ $# -ge 3 ] || die "$USAGE"
  [[ $PORT =~ ^[0-9]+$ ]] || die "port \"$PORT\" is not a number"
  shift 3
  mkdir -p "$DIR"
  DIR=$(cd "$DIR" && pwd)
fi
ROOT=$CACHE/$FLAVOR.root
TEMPLATE=$CACHE/$FLAVOR.data

case $(uname -m) in
  x86_64) ARCH=amd64 TRIPLET=x86_64-linux-gnu ;;
  aarch64) ARCH=arm64 TRIPLET=aarch64-linux-gnu ;;
  *) die "no server packages are known for the machine type $(uname -m)" ;;
esac

# --- Download ---------------------------------------------------------------------------------------------------

# Field FIELD (URIs, Signed-By) of the system's first deb822 stanza that has the suite SUITE.
deb822_field() { # SUITE FIELD
  local f v
  for f in /etc/apt/sources.list.d/*.sources; do
    [ -e "$f" ] || continue
    v=$(awk -v suite="$1" -v field="$2:" 'BEGIN { RS = ""; FS = "\n" }
      { hit = 0; value = ""
        for (i = 1; i <= NF; i++) { n = split($i, w, /[ \t]+/)
          if (w[1] == "Suites:") for (j = 2; j <= n; j++) if (w[j] == suite) hit = 1
          if (w[1] == field) value = w[2] }
        if (hit && value != "") { print value; exit } }' "$f")
    [ -z "$v" ] || { echo "$v"; return; }
  done
}

# The apt source of one Debian suite, made from the address and the key of the system's own sources.
debian_suite() { # SUITE
  local codename uri key f
  codename=$(. /etc/os-release; echo "${VERSION_CODENAME:-}")
  uri=$(deb822_field "$codename" URIs)
  key=$(deb822_field "$codename" Signed-By)
  if [ -z "$uri" ]; then
    for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
      [ -e "$f" ] || continue
      uri=$(sed -En "s/^deb[ \t]+(\[[^]]*\][ \t]+)?([^ \t]+)[ \t]+${codename}[ \t]+main.*/\2/p" "$f" | head -1)
      [ -z "$uri" ] || break
    done
  fi
  [ -n "$uri" ] || die "no Debian source for \"$codename\" in /etc/apt"
  [ -n "$key" ] || key=/usr/share/keyrings/debian-archive-keyring.gpg
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$uri" "$1" "$key"
}

# Copies the system's own package sources, without those of third parties where they can be told apart.
system_sources() { # TO
  local f found=
  for f in /etc/apt/sources.list /etc/apt/sources.list.d/{debian,ubuntu}*.sources; do
    if [ -s "$f" ] && grep -q '^[^#]' "$f"; then
      cp "$f" "$1/"
      found=1
    fi
  done
  if [ -z "$found" ]; then
    for f in /etc/apt/sources.list.d/*.{list,sources}; do
      if [ -s "$f" ]; then
        cp "$f" "$1/"
        found=1
      fi
    done
  fi
  [ -n "$found" ] || die "no package sources in /etc/apt"
}

fetch_packages() {
  local apt=$CACHE/$FLAVOR.apt logf=$CACHE/$FLAVOR.fetch.log os p try set total
  local sets=() picked=()
  command -v apt-get >/dev/null || die "$FLAVOR is taken from Debian's or Ubuntu's packages, and this system has no apt-get; use a server of your own instead"
  os=$(. /etc/os-release; echo "${ID:-} ${ID_LIKE:-}")
  rm -rf "$apt"
  mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts,state}
  # With an almost empty package state apt takes the whole closure, whatever this machine has installed. What only
  # maintainer scripts and the packaged start-up need is declared present.
  for p in perl perl-base debconf debconf-2.0 adduser psmisc galera-4 mariadb-common mysql-common libdbi-perl \
    libdbd-mariadb-perl libconfig-inifiles-perl; do
    printf 'Package: %s\nStatus: install ok installed\nPriority: optional\nSection: misc\nMaintainer: none <none@invalid>\nArchitecture: %s\nMulti-Arch: allowed\nVersion: 999:1\nDescription: placeholder\n\n' "$p" "$ARCH"
  done >"$apt/state/status"
  if [ "$FLAVOR" = mysql ] && [[ " $os " != *" ubuntu "* ]]; then
    debian_suite "${BINLOGCACHE_MYSQL_SUITE:-sid}" >"$apt/parts/suite.sources"
  else
    system_sources "$apt/parts"
  fi
  local opts=(-q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State=$apt/state"
    -o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/state/status" -o "Dir::Cache=$apt/cache"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o "APT::Architecture=$ARCH" -o "APT::Sandbox::User=$(id -un)"
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    # The signature counts; that a mirror lags behind is no reason to fail.
    -o Acquire::Check-Valid-Until=false -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o Dpkg::Use-Pty=0)
  # The names differ between releases; the first set that the sources know is taken.
  case $FLAVOR in
    mariadb) sets=("mariadb-server-core mariadb-client-core mariadb-client"
      "mariadb-server-core-10.6 mariadb-client-core-10.6 mariadb-client-10.6") ;;
    mysql) sets=("mysql-server-core mysql-client-core" "mysql-server-core-8.4 mysql-client-core-8.4"
      "mysql-server-core-8.0 mysql-client-core-8.0") ;;
  esac
  log "$FLAVOR: reading package lists"
  : >"$logf"
  for try in 1 2 3; do
    if apt-get "${opts[@]}" update >>"$logf" 2>&1; then
      for set in "${sets[@]}"; do
        read -ra picked <<<"$set"
        if total=$(apt-get "${opts[@]}" -y --no-install-recommends --print-uris install "${picked[@]}" 2>>"$logf"); then
          break
        fi
        picked=()
      done
      if [ ${#picked[@]} = 0 ]; then
        tail -5 "$logf" >&2
        die "the package sources have no $FLAVOR server; all of apt's output is in $logf"
      fi
      total=$(awk '/^\047/ { n += $3 } END { printf "%d", n / 1000000 + 1 }' <<<"$total")
      log "$FLAVOR: downloading ${picked[*]} and what they need: $total MB"
      if download "$apt/cache/archives" "$total" \
        apt-get "${opts[@]}" -y --no-install-recommends --download-only install "${picked[@]}" >>"$logf"; then
        break
      fi
    fi
    [ "$try" -lt 3 ] || { tail -5 "$logf" >&2; die "$FLAVOR could not be downloaded; all of apt's output is in $logf"; }
    log "$FLAVOR: trying again"
    sleep 3
  done
  rm -rf "$CACHE/$FLAVOR.debs.new"
  mkdir "$CACHE/$FLAVOR.debs.new"
  mv "$apt"/cache/archives/*.deb "$CACHE/$FLAVOR.debs.new/"
  rm -rf "$CACHE/$FLAVOR.debs" "$apt"
  mv "$CACHE/$FLAVOR.debs.new" "$CACHE/$FLAVOR.debs"
}

# Runs a command and says every five seconds how much has come. The command's output goes to standard output.
download() { # FOLDER TOTAL-MB COMMAND...
  local folder=$1 total=$2 pid status=0 last=$SECONDS
  shift 2
  "$@" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    sleep 0.2
    if [ $((SECONDS - last)) -ge 5 ]; then
      last=$SECONDS
      log "$FLAVOR: $(du -sm "$folder" | cut -f1) of $total MB"
    fi
  done
  wait $pid || status=$?
  return $status
}

unpack() {
  local deb d
  rm -rf "$ROOT.new" "$ROOT"
  # New releases have /lib and the like merged into /usr; older packages still ship them apart.
  mkdir -p "$ROOT.new"/usr/{lib,lib64,bin,sbin}
  for d in lib lib64 bin sbin; do ln -s "usr/$d" "$ROOT.new/$d"; done
  for deb in "$CACHE/$FLAVOR.debs"/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$ROOT.new" --keep-directory-symlink --no-same-owner \
      --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './usr/share/perl*' \
      --exclude './usr/share/i18n' --exclude './usr/share/locale'
  done
  mv "$ROOT.new" "$ROOT"
  log "$FLAVOR: unpacked $(du -sm "$ROOT" | cut -f1) MB to $ROOT"
}

# --- Data ---------------------------------------------------------------------------------------------------------

run() { # PROGRAM ARGS...
  "$LD" --library-path "$LIBS" "$@"
}

# Initialises a data folder once per server version; instances start from copies of it.
prepare_template() {
  local new=$TEMPLATE.new errors=$CACHE/$FLAVOR.init.log
  log "$FLAVOR: initialising data"
  rm -rf "$TEMPLATE" "$new"
  mkdir -p "$new"
  local grant="CREATE USER IF NOT EXISTS 'root'@'127.0.0.1'; ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY 'test'; GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;"
  : >"$errors"
  if [ "$FLAVOR" = mysql ]; then
    echo "$grant" | tr ';' '\n' | sed '/^ *$/d; s/$/;/' >"$CACHE/$FLAVOR.init.sql"
    run "$SRV" "${BASE[@]}" "--datadir=$new" --initialize-insecure "--init-file=$CACHE/$FLAVOR.init.sql" \
      "--log-error=$errors" >&2 || { tail -20 "$errors" >&2; die "$FLAVOR: initialisation failed"; }
  else
    mkdir "$new/mysql"
    {
      printf 'create database if not exists mysql;\nuse mysql;\nset @auth_root_socket=NULL, @skip_auth_anonymous=1;\n'
      local part name
      for part in system_tables performance_tables system_tables_data fill_help_tables gis sys_schema; do
        for name in "mariadb_$part" "mysql_$part" "$part" "maria_add_${part}_sp_bootstrap"; do # by version
          [ -e "$SHARE/$name.sql" ] || continue
          cat "$SHARE/$name.sql"
          break
        done
      done
      printf 'flush privileges;\n'
      echo "$grant" | tr ';' '\n' | sed '/^ *$/d; s/$/;/'
    } >"$CACHE/$FLAVOR.init.sql"
    run "$SRV" "${BASE[@]}" "--datadir=$new" --bootstrap --log-warnings=0 --enforce-storage-engine= \
      --max-allowed-packet=8M --net-buffer-length=16K --loose-innodb-log-file-size=96M \
      <"$CACHE/$FLAVOR.init.sql" >>"$errors" 2>&1 || { tail -20 "$errors" >&2; die "$FLAVOR: initialisation failed"; }
  fi
  # Each instance gets an identity of its own.
  rm -f "$new/auto.cnf" "$new"/binlog.* "$CACHE/$FLAVOR.init.sql"
  mv "$new" "$TEMPLATE"
}

# --- The cache, filled by one process at a time ---------------------------------------------------------------------

(
  flock 9
  if [ ! -d "$ROOT" ]; then
    [ -d "$CACHE/$FLAVOR.debs" ] || fetch_packages
    unpack
  fi
) 9>"$CACHE/$FLAVOR.lock"

LD=
for f in "$ROOT"/lib64/ld-linux-*.so.* "$ROOT"/lib/ld-linux-*.so.* "$ROOT/usr/lib/$TRIPLET"/ld-linux-*.so.*; do
  [ ! -e "$f" ] || { LD=$f; break; }
done
[ -n "$LD" ] || die "$ROOT has no dynamic loader; remove that folder and try again"
LIBS=$ROOT/usr/lib/$TRIPLET:$ROOT/lib/$TRIPLET:$ROOT/usr/lib
SHARE=$ROOT/usr/share/mysql
[ ! -d "$ROOT/usr/share/mariadb" ] || SHARE=$ROOT/usr/share/mariadb # since MariaDB 11
case $FLAVOR in
  mariadb) SRV=$ROOT/usr/sbin/mariadbd CLI=mariadb DUMP=mariadb-dump BINLOG=mariadb-binlog ;;
  mysql) SRV=$ROOT/usr/sbin/mysqld CLI=mysql DUMP=mysqldump BINLOG=mysqlbinlog ;;
esac
BASE=(--no-defaults "--basedir=$ROOT/usr" "--plugin-dir=$ROOT/usr/lib/mysql/plugin" "--lc-messages-dir=$SHARE"
  "--character-sets-dir=$SHARE/charsets" --secure-file-priv=)
[ "$(id -u)" != 0 ] || BASE+=(--user=root)

if [ "$DIR" = --prepare ]; then
  (
    flock 9
    [ -d "$TEMPLATE" ] || prepare_template
  ) 9>"$CACHE/$FLAVOR.data.lock"
  exit 0
fi

DATA=$DIR/data PIDFILE=$DIR/pid ERRORS=$DIR/error.log
if [ ! -d "$DATA" ]; then
  (
    flock 9
    [ -d "$TEMPLATE" ] || prepare_template
    rm -rf "$DATA.new"
    cp -a --reflink=auto --sparse=always "$TEMPLATE" "$DATA.new"
  ) 9>"$CACHE/$FLAVOR.data.lock"
  mv "$DATA.new" "$DATA"
fi

# --- The instance -----------------------------------------------------------------------------------------------------

# A socket's path is limited to 107 bytes, and a folder for tests may be deep.
SOCKET=$DIR/sock
if [ ${#SOCKET} -gt 100 ]; then
  if [ -s "$DIR/socket-path" ]; then SOCKET=$(cat "$DIR/socket-path"); else SOCKET=$(mktemp -u "${TMPDIR:-/tmp}/binlogcache-XXXXXXXX.sock"); fi
fi
echo "$SOCKET" >"$DIR/socket-path"

mkdir -p "$DIR/bin"
for p in "sql:$CLI" "mysqldump:$DUMP" "binlog:$BINLOG"; do
  [ -e "$ROOT/usr/bin/${p#*:}" ] || continue
  printf '#!/bin/sh\nexec %q --library-path %q %q --no-defaults "$@"\n' "$LD" "$LIBS" "$ROOT/usr/bin/${p#*:}" >"$DIR/bin/${p%%:*}"
  chmod +x "$DIR/bin/${p%%:*}"
done

# A temporary folder of its own: a MariaDB server that starts removes all temporary tables it finds there, those of
# others as well.
mkdir -p "$DIR/tmp"

# Durability over a power failure is given up for speed: a killed server loses nothing.
OPTS=("${BASE[@]}" "--datadir=$DATA" "--tmpdir=$DIR/tmp" "--socket=$SOCKET" "--port=$PORT" --bind-address=127.0.0.1 "--pid-file=$PIDFILE"
  "--log-error=$ERRORS" "--server-id=$((PORT % 60000 + 1))" --log-bin=binlog --binlog-format=ROW
  --binlog-row-image=FULL --binlog-row-metadata=FULL --innodb-buffer-pool-size=128M
  --innodb-flush-log-at-trx-commit=2 --sync-binlog=0 --max-allowed-packet=64M --event-scheduler=ON --local-infile=1
  --skip-name-resolve --max-connections=500 --innodb-buffer-pool-load-at-startup=OFF
  --innodb-buffer-pool-dump-at-shutdown=OFF)
case $FLAVOR in
  mysql) OPTS+=(--gtid-mode=ON --enforce-gtid-consistency=ON --mysqlx=OFF --innodb-redo-log-capacity=128M) ;;
  mariadb) OPTS+=(--gtid-strict-mode=ON --innodb-log-file-size=96M) ;;
esac

sql() { "$DIR/bin/sql" --socket="$SOCKET" -uroot "$@"; }

alive() { # PID; of this instance: after a reboot the number may be somebody else's
  grep -q '^State:[[:space:]]*[^Z]' "/proc/$1/status" 2>/dev/null &&
    tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qxF -- "--datadir=$DATA"
}

END=$((SECONDS + ${BINLOGCACHE_SERVER_TIMEOUT:-180}))
late() { # one that answers nothing must not stay
  [ $SECONDS -lt $END ] && return 1
  kill -KILL "$1" 2>/dev/null || true
  tail -20 "$ERRORS" >&2
  die "$FLAVOR: no answer in time; its log is $ERRORS"
}

# An instance that runs may still be starting, or dying.
RUNNING=
while [ -s "$PIDFILE" ] && alive "$(cat "$PIDFILE" 2>/dev/null)"; do
  if sql -e 'SELECT 1' >/dev/null 2>&1; then
    RUNNING=1
    log "$FLAVOR: already running"
    break
  fi
  late "$(cat "$PIDFILE" 2>/dev/null)" || sleep 0.05
done
if [ -z "$RUNNING" ]; then
  # After a crash these are left, and MySQL takes a dead process that nobody has waited for as the owner of the lock.
  rm -f "$PIDFILE" "$SOCKET" "$SOCKET.lock"
  # A session of its own without our descriptors: the server outlives this script.
  setsid "$LD" --library-path "$LIBS" "$SRV" "${OPTS[@]}" "$@" </dev/null >>"$ERRORS" 2>&1 &
  PID=$!
  until sql -e 'SELECT 1' >/dev/null 2>&1; do
    kill -0 $PID 2>/dev/null || { tail -20 "$ERRORS" >&2; die "$FLAVOR: the server ended; its log is $ERRORS"; }
    late $PID || sleep 0.05
  done
fi
log "$FLAVOR: $(sql -N -e 'SELECT VERSION()') on 127.0.0.1:$PORT, files in $DIR"
echo "root:test@tcp(127.0.0.1:$PORT)/"
