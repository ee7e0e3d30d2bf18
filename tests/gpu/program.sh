#!/usr/bin/env bash
# program.sh KIT DEVICE OUT   holds the program of the archive KIT (pack.sh) against the CPU on DEVICE (cuda:N; `sim`: its
#                             rehearsal, with a few of the tests and no bench) and measures it there. Libraries are
#                             those of python3's Torch, where it has one. Writes a text and JSON of each step to OUT.
# Exits 1 where a test fails or a step does not run.
set -euo pipefail
archive="$(realpath "$1")" device="$2" out="$(realpath "$3")"
work="$(mktemp -d)" kit="$(mktemp -d)"
trap 'rm -rf "$work" "$kit"' EXIT
tar -C "$kit" -xzf "$archive"
if torch="$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2> /dev/null)"; then
  export LD_LIBRARY_PATH="$kit/lib:$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
export KVLOUPE_TESTED_DEVICE="$device"
cd "$work"
status=0

# step NAME SECONDS COMMAND...: what it prints goes to NAME.json (JSON) and NAME.txt (all else). SIGINT lets a bench
# give the rows that it has.
step() {
  local name="$1" seconds="$2"
  shift 2
  if timeout --signal=INT --kill-after=20 "$seconds" "$@" > "$out/$name.json" 2> "$out/$name.txt"; then
    echo "$name: ran"
  else
    echo "$name: exit $?"
    tail -n 3 "$out/$name.txt"
    status=1
  fi
}
check() {
  local name="$1" seconds="$2"
  shift 2
  timeout "$seconds" "$kit/bin/$name" "$@" "--gtest_output=json:$out/$name.json" > "$out/$name.txt" 2>&1 || status=1
  echo "$name: $(tail -n 1 "$out/$name.txt")"
}

kvloupe="$kit/bin/kvloupe"
quiet=(--quiet --config-dir "$work/config")
step devices 60 "$kvloupe" devices --json "${quiet[@]}"
step synthesize 120 "$kvloupe" synthesize --length 8192 -o s.h5 --json "${quiet[@]}"
methods=(quoka:budget_tokens=1024 compact_attention quest:budget_tokens=1024,skip_layers=0)
methods=("${methods[@]/#/--method=}")
if [ "$device" = sim ]; then
  check test_selection_on_sim 120 --gtest_filter='*InFp16*'
  check test_capture_on_sim 120 --gtest_filter='*HalfPrecision*'
  step latency 120 "$kvloupe" latency s.h5 --lengths 2048 --repetitions 1 --device "$device" "${methods[@]}" --json "${quiet[@]}"
else
  check test_cuda_parity 120
  check test_selection_on_sim 120
  check test_capture_on_sim 120
  step latency 90 "$kvloupe" latency s.h5 --lengths 30720,131072 --device "$device" "${methods[@]}" --json "${quiet[@]}"
  step bench 90 "$kvloupe" bench --device "$device" --json "${quiet[@]}"
  step paged 120 "$kvloupe" bench --suite paged --device "$device" --json "${quiet[@]}"
fi
exit "$status"
