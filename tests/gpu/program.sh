#!/usr/bin/env bash
# program.sh KIT DEVICE OUT SECONDS   holds the program of the archive KIT (pack.sh) against the CPU on DEVICE (cuda:N; `sim`:
#                                     its rehearsal, with a few of the tests and no bench) and measures it there, in no
#                                     more than SECONDS. Libraries are those of python3's Torch, where it has one. Writes
#                                     a text and JSON of each step to OUT.
# Exits 1 where a test fails or does not finish, or a step does not run. What was cut off or left out for want of time
# says so in its text.
set -euo pipefail
archive="$(realpath "$1")" device="$2" out="$(realpath "$3")" deadline="$4"
work="$(mktemp -d)" kit="$(mktemp -d)"
trap 'rm -rf "$work" "$kit"' EXIT
tar -C "$kit" -xzf "$archive"
if torch="$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2> /dev/null)"; then
  export LD_LIBRARY_PATH="$kit/lib:$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
export KVLOUPE_TESTED_DEVICE="$device"
cd "$work"
status=0

# within SECONDS COMMAND...: no longer than the deadline, ended by SIGINT, on which a bench gives the rows that it has.
within() {
  local left=$((deadline - SECONDS)) seconds=$(($1 * ${SLOWNESS:-1}))
  shift
  ((left < seconds)) && seconds=$left
  if ((seconds < 5)); then
    echo "no time was left" >&2
    return 124
  fi
  local code=0
  timeout --signal=INT --kill-after=10 "$seconds" "$@" || code=$?
  ((code != 124)) || echo "cut off after $seconds s" >&2
  return "$code"
}
# step NAME SECONDS COMMAND...: what it prints goes to NAME.json (JSON) and NAME.txt (all else).
step() {
  local name="$1" code=0
  shift
  within "$@" > "$out/$name.json" 2> "$out/$name.txt" || code=$?
  echo "$name: exit $code"
  tail -n 1 "$out/$name.txt"
  ((code == 0 || code == 124)) || status=1
}
# check NAME SECONDS TEST ARGUMENT...: of a test program, as step.
check() {
  local name="$1" seconds="$2" code=0
  shift 2
  mkdir "$name"
  (cd "$name" && within "$seconds" "$kit/bin/$1" "${@:2}" "--gtest_output=json:$out/$name.json") > "$out/$name.txt" 2>&1 || code=$?
  echo "$name: $(tail -n 1 "$out/$name.txt")"
  return "$code"
}

kvloupe="$kit/bin/kvloupe"
quiet=(--quiet --config-dir "$work/config")
step devices 60 "$kvloupe" devices --json "${quiet[@]}"
step synthesize 120 "$kvloupe" synthesize --length 8192 -o s.h5 --json "${quiet[@]}"
methods=(quoka:budget_tokens=1024 compact_attention quest:budget_tokens=1024,skip_layers=0)
methods=("${methods[@]/#/--method=}")
if [ "$device" = sim ]; then
  check test_selection_on_sim 120 test_selection_on_sim --gtest_filter='*InFp16*' || status=1
  check test_capture_on_sim 120 test_capture_on_sim --gtest_filter='*HalfPrecision*' || status=1
  step latency 120 "$kvloupe" latency s.h5 --lengths 2048 --repetitions 1 --device "$device" "${methods[@]}" --json "${quiet[@]}"
else
  checks=()
  check test_cuda_parity 90 test_cuda_parity &
  checks+=($!)
  check test_capture_on_sim 120 test_capture_on_sim &
  checks+=($!)
  for shard in 0 1 2 3; do
    GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard check "test_selection_on_sim_$shard" 120 test_selection_on_sim &
    checks+=($!)
  done
  for one in "${checks[@]}"; do wait "$one" || status=1; done
  step latency_30k 45 "$kvloupe" latency s.h5 --lengths 30720 --device "$device" "${methods[@]}" --json "${quiet[@]}"
  step latency_128k 60 "$kvloupe" latency s.h5 --lengths 131072 --device "$device" "${methods[@]}" --json "${quiet[@]}"
  step bench 60 "$kvloupe" bench --device "$device" --json "${quiet[@]}"
  step paged 60 "$kvloupe" bench --suite paged --device "$device" --json "${quiet[@]}"
fi
exit "$status"
