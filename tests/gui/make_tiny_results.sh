#!/usr/bin/env bash
# make_tiny_results.sh PROGRAM FOLDER: FOLDER/made.h5, the evaluation of a tiny model that `models` lists, and lines NAME=VALUE:
# the environment in which its samples can be recorded.
set -euo pipefail
program="$1" made="$2"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
# shellcheck source=tests/tools/python_of_tests.sh
source "$root/tests/tools/python_of_tests.sh"
harness="$("$root/cmake/deps.sh" folder eval)"
if [[ ! -d $harness ]]; then
  echo "skipped: lm-evaluation-harness is not in the dependency cache; fetch it by cmake/deps.sh fetch eval"
  exit 77
fi
model="$made/hub/models--tiny--llama/snapshots/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
mkdir -p "$(dirname "$model")"
cp -r "$root/tests/data/models/llama" "$model"
packages="$folder:$harness/site-packages"
variables=("KVLOUPE_PYTHON=$python" "PYTHONPATH=$packages" "HF_HOME=$made" HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=)
# One length and depth: their list scrolls.
env "${variables[@]}" "PYTHONPATH=$root/capture/python:$packages" "KVLOUPE_PROGRAM=$program" "$python" -m kvloupe eval --model "$model" \
  --tasks kvloupe_niah --lengths 192 --depths 0 --limit 32 --method quoka:budget_tokens=32 --gen-kwargs max_gen_toks=2 \
  --chunk-size 16 --threads 1 -o "$made/made.h5" >&2
printf '%s\n' "${variables[@]}"
