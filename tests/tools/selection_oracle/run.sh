#!/usr/bin/env bash
# run.sh ARGUMENTS: the oracle with the Python packages of the dependency cache, in the current folder.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
deps="$here/../../../cmake/deps.sh"
folder="$("$deps" folder python)"
if [[ ! -d $folder ]]; then
  echo "skipped: the Python packages for tests are not in the dependency cache; fetch them by cmake/deps.sh fetch python"
  exit 77
fi
export PYTHONPATH="$folder" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$("$deps" python)" "$here" "$@"
