#!/usr/bin/env bash
# start_test.sh KVLOUPE TRACE: the program computes nothing before it has loaded its engine, and with it Torch, and
# commands that compute nothing do without.
set -uo pipefail
program="$1"
trace="$2"
failures=0
unset DISPLAY WAYLAND_DISPLAY  # nothing here opens a window

fail() {
  echo "FAILED $*"
  failures=$((failures + 1))
}

# loads_engine ARGUMENT...: whether the libraries mapped in the course of the command include the engine and Torch.
loads_engine() {
  rm -f loaded.*
  LD_DEBUG=files LD_DEBUG_OUTPUT=loaded "$program" "$@" >out.txt 2>err.txt </dev/null
  [[ $? == 0 ]] || fail "$*: $(tail -n 1 err.txt)"
  grep -qE 'libkvloupe_engine|libtorch' loaded.*
}

# says_why ARGUMENT...: ends by a sentence, not by the loader's "symbol lookup error".
says_why() {
  "$program" "$@" >out.txt 2>err.txt </dev/null
  tail -n 1 err.txt | grep -qE '^error: [^;]+; [^;]+; .+$' || fail "$*: $(tail -n 1 err.txt)"
}

for command in --version --help views "views --json" methods "methods --json" "methods quoka" "info $trace" "info $trace --json" "validate $trace"; do
  # shellcheck disable=SC2086
  loads_engine $command && fail "$command loads Torch"
done
loads_engine select "$trace" --method dense || fail "select was not seen to load Torch: this test is blind"

# Whatever computes has its engine by then.
for command in "select $trace --method nonesuch" "compare $trace --method nonesuch" "synthesize --method nonesuch -o s.h5" \
  "capture --model none.gguf --prompt a -o c.h5" "export none.h5 --view kv_map --csv x.csv" "methods nonesuch" \
  "calibrate aqua --model none.gguf" "calibrate seer none.h5 -o g.safetensors" "calibrate minference none.h5 -o p.json" \
  "bench --device gpu" "--threads 1 none.h5"; do
  # shellcheck disable=SC2086
  says_why $command
done
"$program" --help | sed -n '/^Subcommands:/,$p' | awk 'NR > 1 && NF { print $1 }' | sort -u >subcommands.txt
[[ $(wc -l <subcommands.txt) -ge 10 ]] || fail "the help lists $(wc -l <subcommands.txt) subcommands"
while read -r subcommand; do
  "$program" "$subcommand" --help >out.txt 2>err.txt </dev/null || fail "$subcommand --help: $(tail -n 1 err.txt)"
done <subcommands.txt

# How OpenMP's threads wait: its library says what it read when it was loaded. The user's own choice stays.
waits() { env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose "$@" "$program" select "$trace" --method dense --chunk 0 2>&1 >/dev/null; }
waits | grep -q "GOMP_SPINCOUNT = '3000'" || fail "the threads do not spin for a moment: $(waits | grep -E 'SPIN|POLICY')"
waits OMP_WAIT_POLICY=active | grep -q "GOMP_SPINCOUNT = '3000'" && fail "OMP_WAIT_POLICY of the user is overridden"
waits GOMP_SPINCOUNT=77 | grep -q "GOMP_SPINCOUNT = '77'" || fail "GOMP_SPINCOUNT of the user is overridden"

# What `bench` times as start_window.
[[ "$("$program" first-frame 2>err.txt)" == drawn ]] || fail "first-frame: $(tail -n 1 err.txt)"
# And as start_tour: the tour's trace is read, and the first page has its picture.
[[ "$("$program" first-page 2>err.txt)" == drawn ]] || fail "first-page: $(tail -n 1 err.txt)"

# Without its engine the program still says what it can, and why it cannot do the rest.
rm -rf half && mkdir -p half/bin half/lib
cp "$program" half/bin/ && cp "$(dirname "$program")/../lib/libkvloupe_core.so" half/lib/
program=half/bin/kvloupe
loads_engine info "$trace" && fail "the copy finds another engine"
loads_engine methods quoka && fail "methods finds another engine"
says_why select "$trace" --method dense
grep -q libkvloupe_engine.so err.txt || fail "the message does not name the library: $(tail -n 1 err.txt)"

exit $((failures > 0))
