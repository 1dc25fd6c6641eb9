#!/usr/bin/env bash
# Installs the Debian package in a bare root of a Debian release, uses it as an ordinary user, and
# purges it. Needs root, debootstrap and a Debian mirror; not part of the test command.
#
#   tests/packages/run.sh RELEASE [PACKAGE.deb]      for example: bookworm, trixie
#
# Without PACKAGE.deb, the package is made of build/ when this machine runs RELEASE, and otherwise
# compiled in a second root with deploy/install-dependencies.sh (BRAID_BUILD_ROOT keeps that root
# for the next call; BRAID_BUILD_JOBS: parallel compilers). BRAID_MIRROR replaces deb.debian.org.
# Exit code 77: skipped, since a requirement is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_root=$(cd "$here/../.." && pwd)
release=${1:?usage: tests/packages/run.sh RELEASE [PACKAGE.deb]}
package=${2:-}
mirror=${BRAID_MIRROR:-http://deb.debian.org/debian}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

skip() { echo "packages ($release): skipped: $*"; exit 77; }
fail() { echo "packages ($release): FAILED: $*" >&2; exit 1; }
log() { echo "packages ($release): $*, ${SECONDS} s"; }
[ "$(id -u)" -eq 0 ] || skip "not root"
command -v debootstrap > /dev/null || skip "debootstrap is not installed"

work=$(mktemp -d "${TMPDIR:-/tmp}/braid-packages.XXXXXX")
bare=$work/root
mounted=()
clean_up() {
  local status=$?
  for ((i = ${#mounted[@]} - 1; i >= 0; --i)); do umount -l "${mounted[$i]}"; done
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap clean_up EXIT

# Creates a minimal root of the release and mounts what programs need.
make_root() {
  local root=$1
  [ -e "$root/etc/os-release" ] ||
    debootstrap --variant=minbase "$release" "$root" "$mirror" > "$work/debootstrap.log" ||
    { tail -n 5 "$work/debootstrap.log" >&2; fail "debootstrap"; }
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc" && mounted+=("$root/proc")
  mkdir -p "$root/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" && mounted+=("$root/dev/shm")
}
inside() { chroot "$bare" "$@"; }
# Runs a command in an overlay of the root, which has the tools of the checks too.
beside() { chroot "$work/tools" "$@"; }
as_user() { inside runuser -l visitor -c "$*"; }

# Compiles the package in a root of its own.
compile() {
  local root=${BRAID_BUILD_ROOT:-$work/build}
  make_root "$root"
  mkdir -p "$root/src"
  (cd "$source_root" && git ls-files -z | tar --null -T - -c) | tar -x -C "$root/src"
  chroot "$root" /src/deploy/install-dependencies.sh > "$work/dependencies.log" 2>&1 ||
    { tail "$work/dependencies.log" >&2; fail "install-dependencies.sh"; }
  log "build dependencies are installed"
  chroot "$root" bash -c "cd /src && cmake --preset release -Wno-dev \
    -DBRAID_COMMIT=$(git -C "$source_root" rev-parse --short=12 HEAD) && cmake --build --preset release \
    --target braid-programs -j ${BRAID_BUILD_JOBS:-2} && cd build && rm -f ./*.deb && cpack -G DEB" > "$work/build.log" 2>&1 ||
    { tail -n 30 "$work/build.log" >&2; fail "build"; }
  package=$(ls "$root"/src/build/*.deb)
  log "compiled $(basename "$package"), $(stat -c %s "$package") bytes"
}

make_package() {
  if [ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = "$release" ]; then
    (cd "$source_root/build" && cmake --build . --target braid-programs && rm -f ./*.deb && cpack -G DEB) > "$work/build.log" 2>&1 ||
      { tail -n 30 "$work/build.log" >&2; fail "build"; }
    package=$(ls "$source_root"/build/*.deb)
  else
    compile
  fi
}

# All files but those that any use of apt, dpkg or a user changes.
list_files() {
  (cd "$bare" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/cache -o -path ./var/log \
    -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./home -o -path ./var/lib/systemd \) -prune -o -print) |
    sort
}

add_tools() {
  mkdir "$work/upper" "$work/overlay" "$work/tools"
  mount -t overlay -o "lowerdir=$bare,upperdir=$work/upper,workdir=$work/overlay" overlay "$work/tools"
  mounted+=("$work/tools")
  mount -t proc proc "$work/tools/proc" && mounted+=("$work/tools/proc")
  # A minimal root leaves out manual pages.
  beside apt-get install -y -q --no-install-recommends bash-completion fish groff man-db systemd zsh \
    > "$work/apt.log" 2>&1 || { tail "$work/apt.log" >&2; fail "apt-get install of the tools of the checks"; }
}

check_files() {
  local page
  for page in braid braidd braid-submit braid-corpus-describe; do
    beside groff -man -Tutf8 -P-cbou -ww "/usr/share/man/man1/$page.1" > "$work/page" 2> "$work/warnings"
    [ ! -s "$work/warnings" ] || fail "manual page $page: $(head -1 "$work/warnings")"
    grep -q "SYNOPSIS" "$work/page" || fail "manual page $page: no SYNOPSIS"
    beside man -w "$page" > /dev/null || fail "man finds no page $page"
  done
  ! grep -rlE "/root|$source_root" "$bare"/usr/share/man/man1/braid* || fail "a page has a path of the builder"
  beside bash -c '. /usr/share/bash-completion/completions/braid
    COMP_WORDS=(braid tra); COMP_CWORD=1; _braid; [ "${COMPREPLY[*]}" = train ]' || fail "bash completion"
  beside zsh -fc 'autoload -U compinit && compinit -u -D && [ "$_comps[braid]" = _braid ]' || fail "zsh completion"
  beside fish -c 'complete -C "braid tra"' | grep -q "^train" || fail "fish completion"
}

# The unit is valid, and what it starts serves and ends on SIGTERM as an unprivileged user.
check_service() {
  beside systemd-analyze verify --man=yes braidd.service > "$work/verify" 2>&1 || true
  ! grep braid "$work/verify" || fail "systemd-analyze verify"
  local unit=$bare/lib/systemd/system/braidd.service command environment pid i
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  environment=$(sed -n 's/^Environment=//p' "$unit" | tr '\n' ' ')
  inside install -d -o braid /var/lib/braid
  # In a network of its own, since the port may be in use here.
  unshare --net bash -c 'ip link set lo up && exec "$@"' _ chroot "$bare" \
    setpriv --reuid braid --regid braid --clear-groups \
    bash -c "cd / && export $environment && exec $command" > "$work/braidd.log" 2>&1 &
  pid=$!
  ask() { nsenter --net="/proc/$pid/ns/net" chroot "$bare" braid --server 127.0.0.1:7077 "$@"; }
  for ((i = 0; i < 300; ++i)); do
    ask health > /dev/null 2>&1 && break
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.1
  done
  ask jobs > /dev/null || fail "braidd of the unit: $(cat "$work/braidd.log")"
  kill "$pid"
  wait "$pid" || fail "braidd of the unit ended with $?: $(cat "$work/braidd.log")"
}

quickstart() {
  as_user "braid quickstart --workdir q ${BRAID_QUICKSTART_OPTIONS:-}" > "$work/quickstart.log" 2>&1 ||
    { tail -n 20 "$work/quickstart.log" >&2; fail "braid quickstart"; }
  for name in report.html summary.json; do
    [ -s "$bare/home/visitor/q/$name" ] || fail "braid quickstart: no $name"
  done
  python3 - "$bare/home/visitor/q/summary.json" << 'EOF'
import json, sys
summary = json.load(open(sys.argv[1]))
assert 1 < summary["moe_perplexity"] < 2048 and 1 < summary["dense_perplexity"] < 2048, summary
print("quickstart: perplexity", summary["dense_perplexity"], "dense,", summary["moe_perplexity"],
      "MoE;", summary["tokens_per_second"], "tokens/s")
EOF
}

[ -n "$package" ] || make_package
make_root "$bare"
inside apt-get update -q > /dev/null
inside useradd --create-home --shell /bin/bash visitor
list_files > "$work/before"
inside dpkg-query -W -f '${Package}\n' > "$work/packages-before"
log "bare root is made, $(wc -l < "$work/packages-before") packages"

cp "$package" "$bare/tmp/braid.deb"
inside apt-get install -y -q --no-install-recommends /tmp/braid.deb > "$work/apt.log" 2>&1 ||
  { tail "$work/apt.log" >&2; fail "apt-get install"; }
log "installed, $(($(inside dpkg-query -W | wc -l) - $(wc -l < "$work/packages-before"))) packages"
inside braid --version | grep -E '^braid [0-9.]+ \([0-9a-z]+\)$' || fail "braid --version"
quickstart
log "quickstart is complete"
add_tools
check_files
check_service
log "manual pages, completions and service are right"

inside apt-get purge -y -q braid > "$work/apt.log" 2>&1 || { tail "$work/apt.log" >&2; fail "apt-get purge"; }
inside apt-get autoremove --purge -y -q > "$work/apt.log" 2>&1 || fail "apt-get autoremove"
list_files > "$work/after"
# autoremove keeps adduser, which a dependency brings in Debian 13: apt accepts it for base-passwd.
inside dpkg-query -W -f '${Package}\n' | grep -vx adduser |
  diff <(grep -vx adduser "$work/packages-before") - || fail "packages are left"
diff "$work/before" "$work/after" | grep '^[<>]' > "$work/left" || true
! grep -i braid "$work/left" || fail "files are left"
log "purged; files that other packages left: $(wc -l < "$work/left")"
head -20 "$work/left"
