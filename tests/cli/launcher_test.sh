#!/usr/bin/env bash
# launcher_test.sh SOURCE: for which commands kvloupe.sh sees to the packages of Python, in a checkout where all that it calls is a
# stand-in: a python3 that has no packages, a cache that has them, a program that is built and says which Python it was given.
# shellcheck disable=SC2016  # stand-ins expand what is theirs
set -euo pipefail
source="$1"
failures=0
rm -rf checkout && mkdir -p checkout/{bin,cmake,build/release/bin} && cd checkout
unset KVLOUPE_PYTHON KVLOUPE_PRESET
export KVLOUPE_GPU=0 XDG_CACHE_HOME="$PWD/cache" PATH="$PWD/bin:$PATH"

stand_in() { # FILE TEXT
  printf '#!/bin/sh\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
cp "$source/kvloupe.sh" .
touch cmake/progress.sh build/release/build.ninja
echo "# none" >cmake/debian_packages.txt
stand_in cmake/deps.sh 'case "$1" in python) echo /cache/python ;; folder) echo "/cache/$2" ;; esac'
stand_in bin/ninja 'echo "ninja: no work to do."'
stand_in bin/python3 'exit 1'
stand_in build/release/bin/kvloupe 'echo "${KVLOUPE_PYTHON:-none}"'

gets() { # PYTHON ARGUMENT...
  local expected="$1" found
  shift
  found="$(./kvloupe.sh "$@")" || found="exit code $?"
  if [[ $found != "$expected" ]]; then
    echo "FAILED: kvloupe.sh $*: $found, not $expected"
    failures=$((failures + 1))
  fi
}

for option in python plugin; do
  gets /cache/python select t.h5 "--$option" mine:f --budget 5
  gets /cache/python select t.h5 "--$option=mine:f"
done
gets /cache/python import arrays.npz -o t.h5
gets none import --help
gets none select t.h5 --method quoka:budget_tokens=5
gets none compare t.h5 --method custom:plugin
KVLOUPE_PYTHON=/my/python gets /my/python select t.h5 --plugin mine:f
exit $((failures > 0))
