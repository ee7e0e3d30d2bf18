#!/usr/bin/env bash
# run.sh             builds the CUDA kernels and their checks on a machine with nvcc and a GPU, without a network or any library of
#                    ours; writes kernels.json, the sanitizer's words and page.md to $OUT (default: out/gpu). Takes some minutes.
# run.sh --dry P     the same with P, the checks compiled against the emulator: all but the GPU.
# Exits 1 where a result is wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out="${OUT:-out/gpu}"
mkdir -p "$out"

if [ "${1:-}" = --dry ]; then
  checks=("$2")
else
  nvcc="${NVCC:-nvcc}"
  command -v "$nvcc" > /dev/null || nvcc=/usr/local/cuda/bin/nvcc
  "$nvcc" -std=c++20 -O3 -arch=native --expt-relaxed-constexpr -I. -x cu core/cuda/*.cu tests/gpu/*.cpp \
    -o "$out/kernels"
  checks=("$out/kernels")
fi

status=0
"${checks[@]}" > "$out/kernels.json" || status=$?
[ -s "$out/kernels.json" ] || exit "$status"
cat "$out/kernels.json"
if [ "${1:-}" != --dry ] && command -v compute-sanitizer > /dev/null; then
  # A small card of the machine's own may refuse it: then its words say so.
  for tool in memcheck racecheck initcheck synccheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 1 "${checks[@]}" > "$out/$tool.txt" 2>&1 || echo "$tool: exit $?"
    tail -n 1 "$out/$tool.txt"
  done
fi

python3 - "$out" << 'PAGE'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
facts = json.loads((out / "kernels.json").read_text())
lines = [f"# CUDA kernels on {facts['device']}", "",
         "| case | type | query heads | KV heads | chunk | past | dim | output | lse | key mass | of what is tolerated | same bits | right |",
         "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
lines += ["| {case} | {type} | {q_heads} | {kv_heads} | {chunk_len} | {past} | {dim} | {output:.2g} | {lse:.2g} | {key_mass:.2g} | {of_tolerated:.2g} "
          "| {same_bits} | {right} |".format(**row)
          for row in facts["attention"]]
if "attention_times" in facts:
    lines += ["", "32 query and 8 KV heads of 128 after 30,720 keys. Medians of 20, L2 overwritten between. The floor is by the clocks that the "
              "device names, of 16-bit types by the peak of its tensor cores.", "",
              "| case | type | ms | floor, ms | GFLOP | TFLOP/s | MB |", "|---|---|---|---|---|---|---|"]
    lines += ["| {case} | {type} | {ms} | {floor_ms} | {gflop} | {tflop_per_s} | {megabytes} |".format(**row) for row in facts["attention_times"]]
lines += ["", "| kernel | shape | error, in parts of what is tolerated | same bits | right |", "|---|---|---|---|---|"]
lines += ["| {kernel} | {shape} | {error:.2g} | {same_bits} | {right} |".format(**row) for row in facts["selection"]]
if "selection_times" in facts:
    lines += ["", "8 KV heads of 128, 30,720 keys unless said otherwise, groups of 4, fp32. Medians of 20, L2 overwritten between. The floor is the time "
              "of a copy on this GPU that moves as many bytes.", "", "| kernel | ms | floor, ms | MB |", "|---|---|---|---|"]
    lines += ["| {kernel} | {ms} | {floor_ms} | {megabytes} |".format(**row) for row in facts["selection_times"]]
lines += ["", "| kernel | type | shape | error, in parts of what is tolerated | same bits | those of fp32 | right |", "|---|---|---|---|---|---|---|"]
lines += ["| {kernel} | {type} | {shape} | {error:.2g} | {same_bits} | {bits_of_fp32} | {right} |".format(**row) for row in facts["probabilities"]]
if "probability_times" in facts:
    lines += ["", "8 KV heads. The floor is the time of a copy on this GPU that moves as many bytes; most of these are bound by their products.", "",
              "| kernel | type | ms | floor, ms | MB | GFLOP | TFLOP/s |", "|---|---|---|---|---|---|---|"]
    lines += ["| {kernel} | {type} | {ms} | {floor_ms} | {megabytes} | {gflop} | {tflop_per_s} |".format(**row) for row in facts["probability_times"]]
lines += [f"\n{tool}: {(out / f'{tool}.txt').read_text().strip().splitlines()[-1]}" for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
          if (out / f"{tool}.txt").exists()]
(out / "page.md").write_text("\n".join(lines) + "\n")
PAGE
exit "$status"
