#!/usr/bin/env bash
# run.sh [PHASE...]   On a machine with a GPU, nvcc and python3, without a network, in 8 minutes:
#   kernels    builds the CUDA kernels with their checks, which need no library, and runs and times them
#   racecheck  the same checks under compute-sanitizer, where that is installed
#   program    holds the program against the CPU, where pack.sh has left .gpu-kit.tar.gz and python3 has its Torch
#   bench      measures the program
#   profile    what Nsight Compute says of the kernels, where it is installed
# Without a PHASE all of them, in this order. Writes page.md and details.tar.gz, what each step said, to $OUT (default:
# out/gpu), however it ends. Steps that went well with the same sources and archive are not done again: what had no time is
# done by the next call. `rm -r $OUT` measures anew.
# Exits 1 where the page names a step that did not go well.
#
# For its rehearsal without a GPU: DEVICE (cuda:0, `sim`), KIT (the archive), KERNELS (the checks, compiled), NVCC,
# SANITIZER, NCU (programs), LIMITS ("STEP=SECONDS ..."), and SLOWNESS: all other limits are so many times as long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/gpu/steps.sh
source tests/gpu/program.sh
all_phases=(kernels racecheck program bench profile)
for phase in "$@"; do
  if [[ " ${all_phases[*]} " != *" $phase "* ]]; then
    echo "run.sh has no phase $phase; its phases are: ${all_phases[*]}" >&2
    exit 2
  fi
done

SLOWNESS="${SLOWNESS:-1}"
deadline=$((SECONDS + 450 * SLOWNESS))
mkdir -p "${OUT:-out/gpu}"
out="$(realpath "${OUT:-out/gpu}")"
details="$out/details"
work="$(mktemp -d)"
device="${DEVICE:-cuda:0}"
kit="$(realpath -m "${KIT:-.gpu-kit.tar.gz}")"
program="$(realpath -m "${KERNELS:-$out/kernels}")"

finish() {
  local code=$? failed=0
  trap '' INT TERM HUP
  kill $running "${background[@]}" 2> /dev/null || true
  wait
  python3 tests/gpu/page.py "$out" || failed=1
  tar -C "$out" -czf "$out/details.tar.gz" details && rm -rf "$details" || failed=1
  rm -rf "$work"
  exit $((code > 0 ? code : failed))
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Earlier results count where they are of the same sources, archive and device: a number may mean another GPU tomorrow.
[ -d "$details" ] || tar -C "$out" -xzf "$out/details.tar.gz" 2> /dev/null || true
given=()
for file in "$kit" ${KERNELS:+"$program"}; do
  [ ! -f "$file" ] || given+=("$file")
done
gpus="$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2> /dev/null || true)"
stamp="$device $gpus $(find core/cuda tests/cuda tests/gpu -type f -print0 | sort -z | xargs -0 cat -- "${given[@]}" | sha256sum)"
if [ "$(cat "$details/stamp" 2> /dev/null)" != "$stamp" ]; then
  rm -rf "$details" "$out/kernels"
  mkdir "$details"
  echo "$stamp" > "$details/stamp"
fi

# tool GIVEN NAME: where the program is.
tool() {
  local found="${1:-$(command -v "$2" || echo "/usr/local/cuda/bin/$2")}"
  echo "$found"
  command -v "$found" > /dev/null
}

# The checks are there, compiled.
built() {
  local nvcc
  [ -z "${KERNELS:-}" ] || return 0
  ! { is_done compile && [ -x "$program" ]; } || return 0
  rm -f "$details/compile.exit"
  nvcc="$(tool "${NVCC:-}" nvcc)" || true
  step compile 150 "$nvcc" -std=c++20 -O3 --threads 0 -arch=native --expt-relaxed-constexpr -I. -x cu core/cuda/*.cu tests/gpu/*.cpp \
    -o "$program"
  is_done compile
}

phase_kernels() {
  is_done kernels || ! built || answer kernels 180 "$program"
}

phase_racecheck() {
  local sanitizer name names=(racecheck memcheck synccheck initcheck)
  ! is_done "${names[@]}" || return 0
  if ! sanitizer="$(tool "${SANITIZER:-}" compute-sanitizer)"; then
    leave_out racecheck "compute-sanitizer was not found: races and memory errors were not looked for"
    return 0
  fi
  built || return 0
  for name in "${names[@]}"; do
    step "$name" 100 "${in_words[@]}" "$sanitizer" --tool "$name" --error-exitcode 7 "$program" --untimed
  done
}

phase_profile() {
  local ncu
  ! is_done profile || return 0
  if ! ncu="$(tool "${NCU:-}" ncu)"; then
    leave_out profile "ncu (Nsight Compute) was not found"
    return 0
  fi
  built || return 0
  rm -f "$details/profile.csv"
  # The clocks stay as they are.
  step profile 100 "${in_words[@]}" "$ncu" --csv --page details --print-units base --log-file "$details/profile.csv" \
    --clock-control none --section SpeedOfLight --section LaunchStats --section Occupancy "$program" --profiled
  # ncu says there what went wrong.
  is_done profile || grep -s '^==ERROR==' "$details/profile.csv" >> "$details/profile.txt" || true
}

(($# > 0)) || set -- "${all_phases[@]}"
for phase in "$@"; do
  "phase_$phase"
  # Whoever ends this shell without a word finds the page of what was done until then.
  python3 tests/gpu/page.py "$out" || true
done
