#!/usr/bin/env bash
# Compares braid with the Python packages that define the formats it reads and writes. Makes a
# virtual environment with pinned versions from PyPI, a few GB, and runs every comparison, or those
# that are named. Not part of the test command.
#
#   tests/peers/run.sh                        all of them
#   tests/peers/run.sh parquet_rows           one of them
#
# Needs python3 with venv, PyPI, and the built targets braid, braid-trainer, braid-bench-tokenizer,
# braid-bench-parquet, inference_tests and evaluation_tests. BRAID_PEERS_PYTHON names a Python that has the packages,
# which nothing is installed for; BRAID_PEERS_ENVIRONMENT another directory than build/peers. Exit
# code 1: a comparison failed; 77: a requirement is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly packages="torch==2.15.0 numpy==2.4.6 transformers==5.23.0 tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3
  safetensors==0.8.0 pyarrow==26.0.1 duckdb==2.0.0 sentence-transformers==6.2.0 datasketch==2.0.0 lm-eval==0.4.13
  tensorboard==2.21.0 pyyaml==6.0.3 peft==0.21.2 sacrebleu==2.6.0 rouge-score==0.1.2 scikit-learn==1.9.1
  scipy==1.17.1"
readonly all="parquet_rows parquet_speed tokenizers_ids tokenizers_vocabularies sentencepiece_export
  transformers_models sentence_embeddings near_duplicates tensorboard_events lm_eval_tasks label_heads
  peft_adapters text_figures"
readonly environment="${BRAID_PEERS_ENVIRONMENT:-build/peers}"
readonly torch_index="https://download.pytorch.org/whl/cpu"
readonly log="build/peers-install.log"

skip() { echo "peers: skipped: $*" >&2; exit 77; }
for needed in bin/braid bin/braid-trainer bin/braid-bench-tokenizer bin/braid-bench-parquet \
  tests/inference_tests tests/evaluation_tests; do
  [ -x "build/$needed" ] || skip "build/$needed is missing; build the target $(basename "$needed")"
done
for name in "$@"; do
  [[ " $(echo $all) " == *" $name "* ]] || { echo "peers: no comparison $name; there are:" $all >&2; exit 2; }
done

python="${BRAID_PEERS_PYTHON:-$environment/bin/python}"
if [ -z "${BRAID_PEERS_PYTHON:-}" ]; then
  [ -x "$python" ] || python3 -m venv "$environment" || skip "python3 -m venv fails; install python3-venv"
  # The extra index has the builds of torch without CUDA, which take a tenth of the space. Where it
  # cannot be reached, pip would try it for minutes for every package.
  extra=""
  "$python" -c "import urllib.request; urllib.request.urlopen('$torch_index/torch/', timeout=10)" 2> "$log" &&
    extra="--extra-index-url $torch_index"
  # shellcheck disable=SC2086
  "$python" -m pip install --quiet $extra $packages > "$log" 2>&1 ||
    skip "pip cannot install the packages: $(tail -n 1 "$log")"
fi

# Runs tests that write cases, and the comparison with these.
compare_cases() {
  local name="$1" tests="$2" filter="$3" cases
  cases=$(mktemp -d) || return 1
  BRAID_CASES="$cases" "build/tests/$tests" --gtest_filter="$filter" > "$cases.log" &&
    "$python" "tests/peers/$name.py" "$cases"/*
  local status=$?
  rm -rf "$cases" "$cases.log"
  return $status
}

export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONDONTWRITEBYTECODE=1
failed=""
for name in ${*:-$all}; do
  echo "== $name"
  case "$name" in
    transformers_models) compare_cases "$name" inference_tests 'ReferenceModels*Logits' ;;
    text_figures) compare_cases "$name" evaluation_tests 'FigureCasesTest.*' ;;
    *) "$python" "tests/peers/$name.py" ;;
  esac || failed+=" $name"
done
[ -z "$failed" ] || { echo "peers: FAILED:$failed" >&2; exit 1; }
echo "peers: all comparisons agree"
