#!/usr/bin/env bash
# Installs missing packages and builds everything into build/ (programs in build/bin). The first
# step of both deploy/quickstart.sh and tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./deploy/install-dependencies.sh
cmake --preset release -Wno-dev
cmake --build --preset release
