#!/usr/bin/env bash
# fuzz.sh [SECONDS] [KIND...]: libFuzzer on the reader of each kind of input (tests/fuzz), SECONDS (60) each, two at a time.
#   Builds the preset fuzz, begins with fresh seeds, tests/data/fuzz/KIND and what earlier runs learnt
#   (build/fuzz/corpus/KIND). Prints a line for each kind. Inputs that break a reader stay in out/fuzz/KIND: exit 1.
#   After the reader is mended they go to tests/data/fuzz/KIND, where every build tries them (ctest -R '^fuzz_').
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds="${1:-60}"
[[ $# == 0 ]] || shift
programs=build/fuzz/tests
# Debian's compiler and its runtime library for fuzzing.
if ! command -v clang++-14 >/dev/null || ! compgen -G '/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null; then
  echo "error: clang 14 was not found; fuzzing needs its libFuzzer; apt-get install clang-14 libclang-rt-14-dev" >&2
  exit 1
fi
tests/tools/build.sh fuzz fuzz >/dev/null
kinds=("$@")
if [[ $# == 0 ]]; then
  for program in "$programs"/fuzz_*; do
    [[ ! -f $program ]] || kinds+=("${program##*/fuzz_}")
  done
fi

# HDF5 asks for as much memory at once as a damaged size field says and fills what the file holds. What is truly held is
# bounded; a request beyond 4 GiB fails, since the sanitizer alone fills an eighth of each. HDF5 also forgets some of what
# it read of a damaged object that it then refuses: leaks are looked for by the suite with the preset asan.
export ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=4096:detect_leaks=0
# The targets write each input to a file: in memory.
TMPDIR="$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)"
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$programs/make_fuzz_seeds" "$TMPDIR/seeds"

fuzz_kind() {
  local kind="$1" corpus="build/fuzz/corpus/$1" found="out/fuzz/$1" log="$TMPDIR/$1.log" code=0
  local folders=("$corpus" "$TMPDIR/seeds/$kind")
  mkdir -p "$corpus" "$found"
  [[ ! -d tests/data/fuzz/$kind ]] || folders+=("tests/data/fuzz/$kind")
  "$programs/fuzz_$kind" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -malloc_limit_mb=1048576 -artifact_prefix="$found/" \
    -close_fd_mask=3 -print_final_stats=1 "${folders[@]}" >"$log" 2>&1 || code=$?
  printf '%-12s %9s runs  %6s edges  %s\n' "$kind" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)" \
    "$([[ $code == 0 ]] && echo 'no finding' || echo FINDING)"
  # The fuzzer ends with the first.
  [[ $code == 0 ]] || grep -E 'ERROR|SUMMARY|Test unit written' "$log" || tail -n 5 "$log"
  return "$code"
}

failures=0
running=0
for kind in "${kinds[@]}"; do
  if [[ $running == 2 ]]; then
    wait -n || failures=$((failures + 1))
    running=1
  fi
  fuzz_kind "$kind" &
  running=$((running + 1))
done
for ((; running > 0; --running)); do wait -n || failures=$((failures + 1)); done
[[ $failures == 0 ]]
