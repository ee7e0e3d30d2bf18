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
# Without a driver, and with one: the rows are the processor's.
expect 1 "--device cpu" --device cuda:0
expect 1 "--device cpu" --suite paged --device cuda:0

# Ctrl+C after the first row: the rows so far are the result.
"$program" bench --suite prefill --json >rows.json 2>said.txt &
bench=$!
until grep -q "prefill of 4,096 tokens" said.txt || ! kill -0 $bench 2>/dev/null; do sleep 0.1; done
kill -INT $bench
wait $bench
status=$?
if [[ $status != 130 ]] || ! python3 -c 'import json; [row] = json.load(open("rows.json"))["rows"]; assert row["id"] == "prefill_1k" and row["value"] > 0'; then
  echo "an interrupted bench: exit $status, $(cat rows.json)" >&2
  failures=$((failures + 1))
fi
[[ $failures == 0 ]]
