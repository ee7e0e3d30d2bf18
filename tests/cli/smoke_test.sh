#!/usr/bin/env bash
# smoke_test.sh KVLOUPE: the program starts, and refuses what it does not know in the form of the contract.
set -uo pipefail
kvloupe="$1"
failures=0

# check NAME EXPECTED_EXIT ARGUMENT...: leaves standard output and error in out.txt and err.txt.
check() {
  local name="$1" expected="$2" code
  shift 2
  "$kvloupe" "$@" >out.txt 2>err.txt </dev/null
  code=$?
  if [[ $code != "$expected" ]]; then
    echo "FAILED $name: exit $code, expected $expected"
    cat err.txt
    failures=$((failures + 1))
  fi
}

# expect NAME COMMAND...: the command must succeed.
expect() {
  local name="$1"
  shift
  if ! "$@"; then
    echo "FAILED $name: $*"
    head -n 5 out.txt err.txt
    failures=$((failures + 1))
  fi
}

refused_in_form() { tail -n 1 err.txt | grep -qE '^error: [^;]+; [^;]+; .+$' && [[ ! -s out.txt ]]; }

check version 0 --version
expect version grep -qE '[0-9]+\.[0-9]+\.[0-9]+' out.txt

check help 0 --help
expect help test -s out.txt

check unknown_subcommand 2 no-such-subcommand
expect unknown_subcommand refused_in_form

check unknown_option 2 --no-such-option
expect unknown_option refused_in_form

exit $((failures > 0))
