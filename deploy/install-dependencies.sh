#!/usr/bin/env bash
# Installs the packages of Debian 12 or 13 that building and running braid needs. Does nothing
# when all of them are installed, so ordinary users can run it on a prepared machine.
set -euo pipefail

packages=(
  # build
  dpkg-dev file g++ cmake ninja-build ccache mold pkg-config protobuf-compiler protobuf-compiler-grpc
  # libraries
  libabsl-dev libbrotli-dev libcli11-dev libedit-dev libexpat1-dev libfaiss-dev libgrpc++-dev libicu-dev libisal-dev liblz4-dev libopenblas-dev
  libopenmpi-dev libprotobuf-dev libre2-dev libsentencepiece-dev libsimdjson-dev libsnappy-dev libsqlite3-dev libsqlitecpp-dev libssl-dev
  libtorch-dev libxxhash-dev libzstd-dev nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev
  # running and testing
  libgmock-dev libgtest-dev openmpi-bin python3 python3-numpy python3-torch sqlite3
)

# Debian provides libxsmm for amd64 only; training is slower without it.
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] && packages+=(libxsmm-dev)

if ! command -v dpkg-query >/dev/null; then
  echo "install-dependencies: this is not a Debian system; install these by hand: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-dependencies: missing packages: ${missing[*]}" >&2
    echo "Run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get update -q
"${root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
