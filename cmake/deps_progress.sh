# How far a set-up is. Sourced by cmake/deps.sh, whose parts it knows; cmake/progress.sh draws the line.

# Seconds that filling a part takes, on 2 cores beside the others; only their proportions count.
declare -A deps_seconds=([torch]=90 [cuda]=300 [imgui]=120 [hdf5]=120 [llama]=120 [data]=30 [gemma3]=60 [python]=60 [book]=20 [arrays]=10 [eval]=30 [ray]=15)

# Of a part that is being filled: how many of a hundred are done. Where it is compiled, ninja's status in its log counts,
# and the download before that is taken for a fifth; else the megabytes that are there.
deps_part_done() {
  local part="$1" work="$deps_cache/.filling-$1" status megabytes
  if [[ -d $(deps_folder "$part") ]]; then
    echo 100
    return
  fi
  status="$(tail -c 2000 "$work/log" 2>/dev/null | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 | tr -d '[]' || true)"
  if [[ -n $status ]]; then
    echo $((20 + 79 * ${status%/*} / ${status#*/}))
  else
    megabytes="$(du -sm "$work" 2>/dev/null | cut -f1 || true)"
    megabytes=$((100 * ${megabytes:-0} / deps_disk_mb[$part]))
    case "$part" in
      imgui | hdf5 | llama) echo $((megabytes < 20 ? megabytes : 20)) ;;
      *) echo $((megabytes < 99 ? megabytes : 99)) ;;
    esac
  fi
}

# deps_progress PART...: draws the line until it is ended.
deps_progress() {
  local part filled total begin=$SECONDS
  while true; do
    filled=0 total=0
    for part in "$@"; do
      filled=$((filled + deps_seconds[$part] * $(deps_part_done "$part")))
      total=$((total + 100 * deps_seconds[$part]))
    done
    progress_line "set-up" "$filled" "$total" $((SECONDS - begin))
    sleep 2
  done
}
