#!/usr/bin/env bash
# format.sh [--check]: formats the C++ and CUDA files of the repository, or says which are not formatted.
# clang-format 14 alone: other versions format differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tool="$(command -v clang-format-14 || command -v clang-format || true)"
if [[ -z $tool || "$("$tool" --version)" != *"version 14."* ]]; then
  echo "error: clang-format 14 was not found; the format check needs that version; apt-get install clang-format-14" >&2
  exit 1
fi
mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | while read -r file; do [[ ! -f $file ]] || echo "$file"; done)
if [[ ${1:-} == --check ]]; then
  "$tool" --dry-run -Werror "${files[@]}" 2>&1 | grep -E 'warning|error:' | cut -d: -f1 | sort | uniq -c >&2 && exit 1
  echo "format: ${#files[@]} files"
else
  "$tool" -i "${files[@]}"
fi
