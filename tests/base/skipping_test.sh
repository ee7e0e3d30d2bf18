#!/usr/bin/env bash
# skipping_test.sh PROGRAM: the exit codes of a test program whose tests pass, skip, and fail.
set -uo pipefail
failures=0

# expect EXIT_CODE ARGUMENT...
expect() {
  local expected="$1" code
  shift
  "$program" "$@" >out.txt 2>&1
  code=$?
  if [[ $code != "$expected" ]]; then
    echo "FAILED $*: exit $code, expected $expected"
    cat out.txt
    failures=$((failures + 1))
  fi
}

program="$1"
expect 0 --gtest_filter='*Passes'
expect 77
expect 77 --gtest_filter='*LacksItsOracle'
# A failure outweighs what was skipped.
expect 1 --gtest_also_run_disabled_tests
exit $((failures > 0))
