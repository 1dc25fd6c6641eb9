#!/usr/bin/env bash
# Measures clean builds without a compiler cache: CPU seconds (user + system, all processes), wall
# seconds, and the most memory that the build's processes held together.
#
#   ./deploy/measure_build.sh [COMMIT...]      default: HEAD
#
# Builds every commit in a clone of its own, first the programs, then the rest. To compare two
# commits, name both: they are built one after the other on the same machine.
set -euo pipefail
case "${1:-}" in
  -h | --help)
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1

# Prints the resident KiB of all processes below process $1.
memory_below() {
  ps -e -o pid=,ppid=,rss= | awk -v root="$1" '
    { parent[$1] = $2; rss[$1] = $3 }
    END {
      for (p in rss) for (q = p; q in parent && q > 1; q = parent[q]) if (q == root) { sum += rss[p]; break }
      print sum + 0
    }'
}

# measure LABEL COMMAND...: runs COMMAND and prints one line.
measure() {
  local label=$1 start user=0 system=0 peak=0 now
  shift
  start=$(date +%s)
  { TIMEFORMAT='%U %S'; time "$@" >"$work/log" 2>&1; } 2>"$work/times" &
  local timer=$!
  while kill -0 "$timer" 2>/dev/null; do
    now=$(memory_below "$timer")
    [ "$now" -gt "$peak" ] && peak=$now
    sleep 1
  done
  if ! wait "$timer"; then
    tail -20 "$work/log" >&2
    echo "measure_build: '$*' failed" >&2
    exit 1
  fi
  read -r user system <"$work/times"
  printf '%-9s %-9s %8.0f CPU s %7d wall s %6.1f GiB\n' "$commit" "$label" \
    "$(awk "BEGIN { print $user + $system }")" $(($(date +%s) - start)) "$(awk "BEGIN { print $peak / 1048576 }")"
}

for commit in "${@:-HEAD}"; do
  commit=$(git -C "$repository" rev-parse --short "$commit")
  git clone -q "$repository" "$work/$commit"
  cd "$work/$commit"
  git checkout -q "$commit"
  measure configure cmake --preset release -Wno-dev
  programs=braid-programs
  ninja -C build -t query "$programs" >/dev/null 2>&1 ||
    programs="braid braidd braid-trainer braid-supervisor braid-embedder"
  # shellcheck disable=SC2086
  measure programs cmake --build --preset release --target $programs
  measure rest cmake --build --preset release
  cd "$repository"
  rm -rf "${work:?}/$commit"
done
