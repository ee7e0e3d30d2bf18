#!/usr/bin/env bash
# run.sh PROGRAM MODULE: a test module of capture/python, with the packages of the dependency cache and no network.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
# shellcheck source=tests/tools/python_of_tests.sh
source "$root/tests/tools/python_of_tests.sh"
if [[ $2 == test_eval* ]]; then
  harness="$("$root/cmake/deps.sh" folder eval)"
  if [[ ! -d $harness ]]; then
    echo "skipped: lm-evaluation-harness is not in the dependency cache; fetch it by cmake/deps.sh fetch eval"
    exit 77
  fi
  folder="$folder:$harness/site-packages"
fi
if [[ $2 == test_eval_workers ]]; then
  ray="$("$root/cmake/deps.sh" folder ray)"
  if [[ ! -d $ray ]]; then
    echo "skipped: Ray is not in the dependency cache; fetch it by cmake/deps.sh fetch ray"
    exit 77
  fi
  folder="$folder:$ray"
fi
export KVLOUPE_PROGRAM="$1" PYTHONPATH="$root/capture/python:$folder" CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1 HF_HOME="$PWD/huggingface"
# Two cores are shared with other tests.
export OMP_NUM_THREADS=1
exec "$python" -m unittest "tests.$2"
