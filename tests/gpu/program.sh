# program.sh   sourced by run.sh: the phases that need the archive of pack.sh. They hold the program against the CPU on
#              $device (`sim`: with a few of the tests), and measure it there. Libraries are those of python3's Torch,
#              where it has one.
# Of whoever sources it: what steps.sh needs, kit, device, and work, an empty folder.

# The archive is in $work/kit; there and kvloupe begin the commands that run programs of it.
unpacked() {
  local torch
  [ ! -d "$work/kit" ] || return 0
  if [ ! -f "$kit" ]; then
    leave_out unpack "there is no $kit (tests/gpu/pack.sh makes it): the kernels alone"
    return 1
  fi
  rm -f "$details/unpack.exit"
  mkdir "$work/kit"
  step unpack 60 tar -C "$work/kit" -xzf "$kit"
  if ! is_done unpack; then
    rm -r "$work/kit"
    return 1
  fi
  there=(env "KVLOUPE_TESTED_DEVICE=$device")
  if torch="$(python3 -c 'import importlib.util; print(*importlib.util.find_spec("torch").submodule_search_locations)' \
    2> /dev/null)"; then
    there+=("LD_LIBRARY_PATH=$work/kit/lib:$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
  fi
  kvloupe=("${there[@]}" "$work/kit/bin/kvloupe" --quiet --config-dir "$work/config")
}

# check NAME SECONDS TEST ARGUMENT...: of a test program, in a folder of its own.
check() {
  local name="$1" seconds="$2" test="$work/kit/bin/$3"
  shift 3
  mkdir -p "$work/$name"
  answer "$name" "$seconds" bash -c 'cd "$1" && exec "${@:2}" >&2' check "$work/$name" \
    "${there[@]}" "$test" "$@" "--gtest_output=json:$details/$name.json"
}

phase_program() {
  local shard
  unpacked || return 0
  answer devices 60 "${kvloupe[@]}" devices --json
  if [ "$device" = sim ]; then
    check test_selection_on_sim 120 test_selection_on_sim --gtest_filter='*InFp16*'
    check test_capture_on_sim 120 test_capture_on_sim --gtest_filter='*HalfPrecision*'
    return 0
  fi
  beside check test_cuda_parity 90 test_cuda_parity
  beside check test_capture_on_sim 120 test_capture_on_sim
  for shard in 0 1 2 3; do
    GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard beside check "test_selection_on_sim_$shard" 120 test_selection_on_sim
  done
  all_ended
}

# latency NAME SECONDS ARGUMENT...
latency() {
  answer "$1" "$2" "${kvloupe[@]}" latency "$work/s.h5" --json --device "$device" --method quoka:budget_tokens=1024 \
    --method compact_attention --method quest:budget_tokens=1024,skip_layers=0 "${@:3}"
}

latencies() {
  local names=(latency_30k latency_128k)
  [ "$device" != sim ] || names=(latency)
  ! is_done "${names[@]}" || return 0
  rm -f "$details/synthesize.exit"
  answer synthesize 120 "${kvloupe[@]}" synthesize --length 8192 -o "$work/s.h5" --json
  is_done synthesize || return 0
  if [ "$device" = sim ]; then
    latency latency 120 --lengths 2048 --repetitions 1
  else
    latency latency_30k 45 --lengths 30720
    latency latency_128k 60 --lengths 131072
  fi
}

phase_bench() {
  unpacked || return 0
  latencies
  if [ "$device" = sim ]; then
    leave_out bench "times on sim are no device's"
    return 0
  fi
  answer bench 60 "${kvloupe[@]}" bench --device "$device" --json
  answer paged 60 "${kvloupe[@]}" bench --suite paged --device "$device" --json
}
