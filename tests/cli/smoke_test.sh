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

# The commands of a demonstration have the options of its call, and end where it is interrupted. Not by a terminal, which would
# interrupt them all.
"$kvloupe" --quiet --memory-limit 3GB --config-dir config demo --headless --threads 2 --output demo >out.txt 2>err.txt </dev/null &
demo=$!
part=""
until [[ -n $part && "$(tr '\0' ' ' <"/proc/$part/cmdline")" == *" capture "* ]] || ! kill -0 "$demo" 2>/dev/null; do
  sleep 0.05
  part="$(awk -v parent="$demo" '$4 == parent { print $1; exit }' /proc/[0-9]*/stat 2>/dev/null)"
done 2>/dev/null
for option in --quiet "--threads 2" "--memory-limit 3000000000" "--config-dir config"; do
  expect "demo passes on $option" grep -qF -- "$option" <(tr '\0' ' ' <"/proc/$part/cmdline")
done
kill -INT "$demo"
wait "$demo"
code=$?
[[ $code == 130 ]] || expect "an interrupted demo: exit code $code" false
expect "an interrupted demo" refused_in_form
expect "a quiet demo" test -z "$(grep -v '^error: ' err.txt)"
expect "what the demo started has ended" test ! -e "/proc/$part"
rm -rf demo config

exit $((failures > 0))
