#!/usr/bin/env bash
# diff_of_runs_test.sh PROGRAM TRACE: diff_of_runs_test.py with the packages of the dependency cache.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="$("$root/cmake/deps.sh" folder python)"
if [[ ! -d $folder ]]; then
  echo "skipped: the Python packages for tests are not in the dependency cache; fetch them by cmake/deps.sh fetch python"
  exit 77
fi
PYTHONPATH="$folder" exec "$("$root/cmake/deps.sh" python)" "$root/tests/cli/diff_of_runs_test.py" "$@"
