#!/usr/bin/env bash
# run.sh ARGUMENTS: the oracle with the Python packages of the dependency cache, in the current folder.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$here/../../.."
# shellcheck source=tests/tools/python_of_tests.sh
source "$root/tests/tools/python_of_tests.sh"
export PYTHONPATH="$folder" OMP_NUM_THREADS=1
exec "$python" "$here" "$@"
