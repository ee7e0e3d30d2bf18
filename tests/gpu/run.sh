#!/usr/bin/env bash
# run.sh                On a machine with a GPU, nvcc and python3, without a network: builds the CUDA kernels with their checks,
#                       which need no library; then, where pack.sh has left .gpu-kit.tar.gz and python3 has its Torch, holds the
#                       program against the CPU on that GPU and measures it. Writes page.md, kernels.json and what each
#                       step said to $OUT (default: out/gpu). In 8 minutes: what has no time left says so.
# run.sh --dry P BUILD  its rehearsal: with P, the checks compiled against the emulator, with what pack.sh takes from BUILD,
#                       and with `sim` for the GPU. All limits are SLOWNESS times as long (default 1: code with an address
#                       sanitizer takes longer).
# Exits 1 where a result is wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out="${OUT:-out/gpu}" kit=".gpu-kit.tar.gz"
details="$out/details"
rm -rf "$details"
mkdir -p "$details"

if [ "${1:-}" = --dry ]; then
  checks=("$2")
  device=sim
  kit="$out/kit.tar.gz"
  tests/gpu/pack.sh "$3" "$kit"
else
  device=cuda:0
  nvcc="${NVCC:-nvcc}"
  command -v "$nvcc" > /dev/null || nvcc=/usr/local/cuda/bin/nvcc
  "$nvcc" -std=c++20 -O3 --threads 0 -arch=native --expt-relaxed-constexpr -I. -x cu core/cuda/*.cu tests/gpu/*.cpp \
    -o "$details/kernels"
  checks=("$details/kernels")
fi

export SLOWNESS="${SLOWNESS:-1}"
limit=$((470 * SLOWNESS)) status=0
left() { echo $((limit - SECONDS)); }

timeout --kill-after=5 $((180 * SLOWNESS)) "${checks[@]}" > "$out/kernels.json" 2> "$details/kernels.txt" || status=$?
tail -n 3 "$details/kernels.txt"
if [ -f "$kit" ]; then
  tests/gpu/program.sh "$kit" "$device" "$details" "$(left)" || status=1
else
  echo "no $kit: the kernels alone (tests/gpu/pack.sh makes it)"
fi
sanitizer=$(command -v compute-sanitizer || true)
[ -n "$sanitizer" ] || sanitizer=/usr/local/cuda/bin/compute-sanitizer
if [ "$device" != sim ] && [ ! -x "$sanitizer" ]; then
  echo "compute-sanitizer was not found: races and memory errors were not looked for" | tee "$details/racecheck.txt"
elif [ "$device" != sim ]; then
  # A small card of the machine's own may refuse it: then its words say so.
  found_errors=7
  for tool in racecheck memcheck synccheck initcheck; do
    code=124
    if (($(left) >= 10)); then
      code=0
      timeout "$(left)" "$sanitizer" --tool "$tool" --error-exitcode "$found_errors" "${checks[@]}" --untimed \
        > "$details/$tool.txt" 2>&1 || code=$?
    fi
    ((code != 124)) || echo "no time was left" >> "$details/$tool.txt"
    ((code != found_errors)) || status=1
    tail -n 1 "$details/$tool.txt"
  done
fi
python3 tests/gpu/page.py "$out" || status=1
rm -f "$details/kernels"
tar -C "$out" -czf "$out/details.tar.gz" details
rm -rf "$details"
exit "$status"
