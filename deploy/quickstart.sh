#!/usr/bin/env bash
# Goes from a fresh Debian machine to a trained soft-MoE language model and a report:
# installs missing packages, builds, and runs `braid quickstart`.
#
#   ./deploy/quickstart.sh [--workdir DIR] [--corpus PATH...] [--steps N]
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
case "${1:-}" in
  -h | --help)
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

"$here/build.sh" braid-programs
exec "$here/../build/bin/braid" quickstart "$@"
