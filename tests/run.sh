#!/usr/bin/env bash
# Builds everything and runs every test.
#
#   ./tests/run.sh [CTEST_ARGUMENT...]      for example: ./tests/run.sh -L fast
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./deploy/build.sh
exec ctest --test-dir build --output-on-failure --parallel 2 -LE 'nightly|containers|packages' "$@"
