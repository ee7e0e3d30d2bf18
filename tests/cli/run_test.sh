#!/usr/bin/env bash
# run_test.sh PROGRAM MODELS: run_test.py with the packages of the dependency cache.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
# shellcheck source=tests/tools/python_of_tests.sh
source "$root/tests/tools/python_of_tests.sh"
export CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
PYTHONPATH="$folder" exec "$python" "$root/tests/cli/run_test.py" "$@"
