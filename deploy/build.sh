#!/usr/bin/env bash
# Installs missing packages and builds into build/ (programs in build/bin). The first step of
# deploy/quickstart.sh, which builds the programs only, and of tests/run.sh, which builds all.
#
#   ./deploy/build.sh [TARGET]      default: programs and tests; braid-programs: only programs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./deploy/install-dependencies.sh
cmake --preset release -Wno-dev
cmake --build --preset release ${1:+--target "$1"}
