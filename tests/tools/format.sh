#!/usr/bin/env bash
# format.sh [FILE...]    formats these files, or all C++ and CUDA files of the repository
# format.sh --check      says which are not formatted, exit 1 when there are any
# clang-format 14 alone: other versions format differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tool="$(command -v clang-format-14 || command -v clang-format || true)"
if [[ -z $tool || "$("$tool" --version)" != *"version 14."* ]]; then
  echo "error: clang-format 14 was not found; the format check needs that version; apt-get install clang-format-14" >&2
  exit 1
fi
check=""
if [[ ${1:-} == --check ]]; then
  check=1
  shift
fi
# clang-format takes any file for C++ and ruins it, a CMakeLists.txt for one.
files=()
for file in "$@"; do
  case "$file" in *.h | *.cpp | *.cu | *.cuh) files+=("$file") ;; esac
done
[[ $# -gt 0 ]] || mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | while read -r file; do [[ ! -f $file ]] || echo "$file"; done)
if [[ -n $check ]]; then
  unformatted=0
  for file in "${files[@]}"; do
    "$tool" --dry-run -Werror "$file" 2>/dev/null && continue
    echo "not formatted: $file"
    unformatted=$((unformatted + 1))
  done
  echo "format: ${#files[@]} files, $unformatted not formatted (tests/tools/format.sh formats them)"
  [[ $unformatted == 0 ]]
else
  [[ ${#files[@]} == 0 ]] || "$tool" -i "${files[@]}"
fi
