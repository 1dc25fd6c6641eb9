#!/usr/bin/env bash
# Prints the Debian packages with the shared libraries of the given programs. An image needs these
# and the packages of the programs they start (openmpi-bin).
#
#   ./deploy/runtime-packages.sh build/bin/* build/lib/*.so
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: runtime-packages.sh PROGRAM..." >&2; exit 2; }
ldd "$@" | awk '/=> \//{print $3}' | sort -u | xargs realpath | sort -u | while read -r library; do
  # Packages record the paths from before the /usr merge.
  dpkg-query --search "$library" 2>/dev/null || dpkg-query --search "${library#/usr}"
done | sed 's/:.*//' | sort -u
