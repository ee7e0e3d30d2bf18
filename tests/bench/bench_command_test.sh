#!/usr/bin/env bash
# bench_command_test.sh KVLOUPE: what `kvloupe bench` says to arguments that it cannot follow.
set -uo pipefail
program="$1"
failures=0

# expect EXIT_CODE TEXT ARGUMENTS...: nothing on standard output, one line of error that holds TEXT.
expect() {
  local code="$1" text="$2" out error status
  shift 2
  out="$("$program" bench "$@" 2>error.txt)"
  status=$?
  error="$(tail -n 1 error.txt)"
  if [[ $status != "$code" || -n $out || $error != "error: "*"$text"* ]]; then
    echo "kvloupe bench $*: exit $status (expected $code), stdout '$out', stderr '$error' (expected '$text')" >&2
    failures=$((failures + 1))
  fi
}

expect 2 "--suite" --suite nothing
expect 2 "is not a device" --device gpu
expect 1 "the suite prefill cannot be run" --suite prefill
# Without a driver, and with one: the rows are the processor's.
expect 1 "--device cpu" --device cuda:0
expect 1 "--device cpu" --suite paged --device cuda:0
[[ $failures == 0 ]]
