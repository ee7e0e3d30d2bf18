#!/usr/bin/env bash
# diff_of_runs_test.sh PROGRAM TRACE: diff_of_runs_test.py with the packages of the dependency cache.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
# shellcheck source=tests/tools/python_of_tests.sh
source "$root/tests/tools/python_of_tests.sh"
PYTHONPATH="$folder" exec "$python" "$root/tests/cli/diff_of_runs_test.py" "$@"
