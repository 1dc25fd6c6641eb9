#!/usr/bin/env bash
# Builds the libFuzzer programs (clang++ with its compiler-rt: apt-get install clang) and runs each for
# SECONDS (60) on one core, starting with the seeds of the target and the inputs of earlier runs.
#
#   ./tests/fuzz/run.sh [SECONDS [TARGET...]]      for example: ./tests/fuzz/run.sh 300 npy manifest
#
# An input that fails is stored in build-fuzz/found/TARGET/; repeat it with `build-fuzz/tests/fuzz_TARGET FILE`,
# or without libFuzzer with `build/tests/fuzz_replay TARGET FILE`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-60}
shift || true
cmake --preset fuzz -Wno-dev >/dev/null
cmake --build --preset fuzz
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi
export LSAN_OPTIONS=suppressions=$PWD/tests/leak_suppressions.txt:print_suppressions=0
failed=0
for target in "${targets[@]}"; do
  found=build-fuzz/found/$target
  mkdir -p "$found" "build-fuzz/inputs/$target"
  BRAID_FUZZ_SEEDS=build-fuzz/inputs/$target "build-fuzz/tests/fuzz_$target"
  echo "== $target"
  "build-fuzz/tests/fuzz_$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix="$found/" \
    "build-fuzz/inputs/$target" >"$found.log" 2>&1 || failed=1
  grep -E 'ERROR|SUMMARY|broken|number_of_exec|peak_rss' "$found.log" || true
done
exit $failed
