#!/usr/bin/env bash
# Prints the Debian packages with the shared libraries of the given programs. An image needs these
# and the packages of the programs they start (openmpi-bin). Fails if a library is missing.
#
#   ./deploy/runtime-packages.sh build/bin/* build/lib/*.so
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: runtime-packages.sh PROGRAM..." >&2; exit 2; }
needed=$(LC_ALL=C ldd "$@") || { echo "runtime-packages: ldd failed; expected programs with shared libraries" >&2; exit 1; }
if missing=$(grep 'not found' <<< "$needed" | sort -u); then
  printf 'runtime-packages: libraries are missing; install them first:\n%s\n' "$missing" >&2
  exit 1
fi
libraries=$(awk '/=> \//{print $3}' <<< "$needed" | sort -u | xargs realpath | sort -u)
# Packages record some paths from before the /usr merge. A library of no package, such as braid's
# own, makes dpkg-query fail.
# shellcheck disable=SC2086
{ dpkg-query --search $libraries ${libraries//\/usr\/lib/\/lib} 2>/dev/null || true; } | sed 's/:.*//' | sort -u
