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
expect 2 "--suite window" --trace nothing.h5
expect 2 "is not a device" --device gpu
# Without a driver, and with one: the rows are the processor's.
expect 1 "--device cpu" --device cuda:0
expect 1 "--device cpu" --suite paged --device cuda:0

# interrupted SUITE NEXT ROW: Ctrl+C while the second row is measured, when standard error says NEXT. The
# rows so far are the result.
interrupted() {
  local suite="$1" next="$2" row="$3" bench status
  "$program" bench --suite "$suite" --json >rows.json 2>said.txt &
  bench=$!
  until grep -q "$next" said.txt || ! kill -0 $bench 2>/dev/null; do sleep 0.1; done
  kill -INT $bench
  wait $bench
  status=$?
  if [[ $status != 130 ]] || ! python3 -c '
import json, sys
answer = json.load(open("rows.json"))
assert next(iter(answer.items())) == ("schema", "kvloupe-bench/1"), answer
first = answer["rows"][0]
assert first["id"] == sys.argv[1] and first["value"] > 0, first' "$row"; then
    echo "bench --suite $suite, interrupted: exit $status, $(cat rows.json), $(tail -n 1 said.txt)" >&2
    failures=$((failures + 1))
  fi
}
interrupted prefill "prefill of 4,096 tokens" prefill_1k
interrupted lengths "dense after 4,096 keys" dense_1k
[[ $failures == 0 ]]
