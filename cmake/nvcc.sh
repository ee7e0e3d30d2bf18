#!/usr/bin/env bash
# nvcc.sh FILE NVCC ARGUMENT...  compiles, and keeps in FILE what ptxas says of each kernel's resources
# (tests/tools/cuda_resources.py reads it). Prints everything else.
set -uo pipefail
resources="$1"
shift
"$@" -Xptxas=-v 2>"$resources"
status=$?
grep -vE '^(ptxas info|[[:space:]]*[0-9]+ bytes (stack frame|gmem)|[[:space:]]*$)' "$resources" >&2
exit $status
