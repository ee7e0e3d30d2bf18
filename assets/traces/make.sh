#!/usr/bin/env bash
# make.sh PROGRAM DEMO    writes the traces of the tours beside this script, from the demo's trace (./kvloupe.sh demo):
#   tour.h5         three layers of it, with nine methods' runs
#   tour_closed.h5  the same prompt read in closed loop on what snapkv keeps, one layer, with its drift
# The model is read again for the second one.
set -euo pipefail
program=$(realpath "$1") demo=$(realpath "$2")
folder=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# 21: the heads that fetch the answer; 17: attention on the needle spread over its heads; 2: an early layer.
layers=2,17,21
"$program" slice "$demo" --layers $layers --runs 0,1,3,4,5 -o "$work/part.h5"
for method in quest:budget_tokens=256 h2o:budget_tokens=256 aqua compact_attention; do
  "$program" select "$work/part.h5" --method "$method" --save >/dev/null
done
"$program" slice "$work/part.h5" --force -o "$folder/tour.h5"

"$program" capture --model smollm2 --task "niah:length=2048,depth=0.5,seed=1" --layers 21 \
  --closed-loop snapkv:budget_tokens=256 --drift --store qkv,loss --max-new-tokens 24 --force -o "$folder/tour_closed.h5"
"$program" validate "$folder/tour.h5"
"$program" validate "$folder/tour_closed.h5"
ls -l "$folder"/*.h5
