#!/usr/bin/env bash
# Builds everything and runs the fast and slow tests.
#
#   ./tests/run.sh [CTEST_ARGUMENT...]      for example: ./tests/run.sh -L fast
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./deploy/build.sh
# Programs that find these set do not restart themselves to set them: to load LibTorch takes half a second.
export OMP_WAIT_POLICY=passive OPENBLAS_THREAD_TIMEOUT=20
# Unless tests are named, those of one program that links LibTorch run in one process.
selection=(-LE 'nightly|containers|packages')
[ $# -gt 0 ] || selection=(-C Together -LE 'file|nightly|containers|packages')
# Many tests wait for processes: one more than there are cores keeps all cores busy.
exec ctest --test-dir build --output-on-failure --parallel "$(($(nproc) + 1))" "${selection[@]}" "$@"
