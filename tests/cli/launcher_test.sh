#!/usr/bin/env bash
# launcher_test.sh SOURCE: what kvloupe.sh does before the program runs, in a checkout where all that it calls is a stand-in: a python3
# that has no packages, a cache that has them, a program that is built and says which Python and which words it was given. And what
# sets up the cache (launcher_set_up_test.sh).
# shellcheck disable=SC2016  # stand-ins expand what is theirs
set -euo pipefail
source="$(realpath "$1")"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
failures=0
rm -rf checkout && mkdir -p checkout/{bin,cmake,tests/tools,build/release/bin,cache/kvloupe} && cd checkout
unset KVLOUPE_PYTHON KVLOUPE_PRESET KVLOUPE_NO_INSTALL
export KVLOUPE_GPU=0 XDG_CACHE_HOME="$PWD/cache" PATH="$PWD/bin:$PATH"

stand_in() { # FILE TEXT
  printf '#!/bin/sh\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
failed() { # WHAT
  echo "FAILED: $1"
  failures=$((failures + 1))
}
cp "$source/kvloupe.sh" .
cp "$source"/cmake/{progress,configured}.sh cmake/
cp "$source/tests/tools/build.sh" tests/tools/
touch build/release/build.ninja
echo "# none" >cmake/debian_packages.txt
stand_in cmake/deps.sh 'case "$1" in
python) echo /cache/python ;; folder) echo "/cache/$2" ;; paths | state) cat paths ;; folders) echo "$XDG_CACHE_HOME/kvloupe/torch-now" ;; esac'
stand_in tests/tools/peer.sh 'echo "$XDG_CACHE_HOME/kvloupe/peer-now"'
stand_in bin/ninja 'echo "ninja: no work to do."'
stand_in bin/cmake 'echo "$*" >>configured; cp paths build/release/dependencies.txt'
stand_in bin/python3 'exit 1'
stand_in build/release/bin/kvloupe 'echo "${KVLOUPE_PYTHON:-none}"; echo "$*" >words'
echo "KVLOUPE_TORCH_DIR=/cache/torch-1" >paths
cp paths build/release/dependencies.txt

# --- packages of Python, and words that are added ---------------------------------------------------------------------

gets() { # PYTHON ARGUMENT...
  local expected="$1" found
  shift
  found="$(./kvloupe.sh "$@")" || found="exit code $?"
  [[ $found == "$expected" ]] || failed "kvloupe.sh $*: $found, not $expected"
}

for option in python plugin; do
  gets /cache/python select t.h5 "--$option" mine:f --budget 5
  gets /cache/python select t.h5 "--$option=mine:f"
  gets none select t.h5 "--$option" mine:f --help
  gets none capture --prompt "a --$option b"
done
gets /cache/python import arrays.npz -o t.h5
gets /cache/python --threads 2 --quiet import arrays.npz -o t.h5
gets none import --help
gets none import -h
gets none --goto import t.h5
gets none select t.h5 --method quoka:budget_tokens=5
gets none compare t.h5 --method custom:plugin
KVLOUPE_PYTHON=/my/python gets /my/python select t.h5 --plugin mine:f

runs() { # WORDS ARGUMENT...
  local expected="$1"
  shift
  ./kvloupe.sh "$@" >/dev/null || true
  [[ $(cat words) == "$expected" ]] || failed "kvloupe.sh $*: the program got $(cat words), not $expected"
}
runs "demo --headless --output $PWD/out/demo" demo --headless
runs "--memory-limit 3GB demo --output $PWD/out/demo" --memory-limit 3GB demo
for output in "--output mine" "--output=mine" "-o mine" "-omine"; do
  # shellcheck disable=SC2086  # two words
  runs "demo $output" demo $output
done

# --- when a build folder is configured --------------------------------------------------------------------------------

[[ ! -e configured ]] || failed "it was configured, and nothing had changed"
configures() { # TIMES WHAT: since the last time
  local times
  rm -f configured
  ./kvloupe.sh info t.h5 >/dev/null 2>&1 && ./kvloupe.sh info t.h5 >/dev/null 2>&1
  times="$(grep -c -- '--preset release' configured 2>/dev/null || true)"
  [[ ${times:-0} == "$1" ]] || failed "$2: it was configured ${times:-0} times, not $1"
}
echo "KVLOUPE_TORCH_DIR=/cache/torch-2" >paths
configures 1 "another dependency"
configures 0 "the same dependencies"
rm build/release/dependencies.txt
configures 1 "a build folder of before"

not_found="KVLOUPE_NVCC_PROGRAM:FILEPATH=KVLOUPE_NVCC_PROGRAM-NOTFOUND"
echo "$not_found" >build/release/CMakeCache.txt
stand_in bin/cmake 'echo "$*" >>configured; echo "KVLOUPE_NVCC_PROGRAM:FILEPATH=/bin/nvcc" >build/release/CMakeCache.txt'
stand_in bin/nvcc 'echo "Cuda compilation tools, release 13.0, V13.0.88"'
configures 0 "an nvcc, and no GPU is wanted"
KVLOUPE_GPU=1 configures 1 "an nvcc that has come"
echo "$not_found" >build/release/CMakeCache.txt
stand_in bin/nvcc 'echo "Cuda compilation tools, release 12.4, V12.4.131"'
[[ -e /usr/local/cuda/bin/nvcc ]] || KVLOUPE_GPU=1 configures 0 "an nvcc of CUDA 12"
rm build/release/CMakeCache.txt bin/nvcc

# --- packages ---------------------------------------------------------------------------------------------------------

# Only who makes a package needs what CPack asks.
stand_in bin/dpkg-query 'true'
asked="$(KVLOUPE_NO_INSTALL=1 ./kvloupe.sh package 2>&1)" && failed "a package without what CPack asks"
[[ $asked == *"apt-get install dpkg-dev file"* ]] || failed "what CPack asks is not named: $asked"
rm bin/dpkg-query
stand_in bin/cpack 'umask >../../umask_of_cpack; mkdir package; touch package/kvloupe_0_amd64.deb; chmod 600 package/*.deb'
(umask 077 && ./kvloupe.sh package 2>/dev/null) || failed "no package was made"
[[ $(cat umask_of_cpack) == *022 ]] || failed "folders of the package belong to root alone: umask $(cat umask_of_cpack)"

# --- clean ------------------------------------------------------------------------------------------------------------

mkdir -p cache/kvloupe/{torch,peer}-{now,old} relative/kvloupe/torch-old home/.cache/kvloupe/torch-old
./kvloupe.sh clean >/dev/null || failed "clean"
[[ $(cd cache/kvloupe && echo *) == "peer-now torch-now" ]] || failed "clean leaves $(cd cache/kvloupe && echo *)"
HOME="$PWD/home" XDG_CACHE_HOME=relative ./kvloupe.sh clean --all >/dev/null || failed "clean of the cache in the home"
[[ -e relative/kvloupe/torch-old && ! -e home/.cache/kvloupe/torch-old ]] || failed "a relative XDG_CACHE_HOME is a cache"
rm -f cache/kvloupe/.setup.lock
mkdir cache/kvloupe/.setup.lock
said="$(./kvloupe.sh clean 2>&1)" && failed "clean of a cache that cannot be written"
[[ $said =~ ^error:\ [^\;]+\;\ [^\;]+\;\ .+$ ]] || failed "clean says: $said"
rmdir cache/kvloupe/.setup.lock

# --- Ctrl+C while it builds -------------------------------------------------------------------------------------------

stand_in tests/tools/build.sh 'trap "exit 2" INT; touch started; while :; do sleep 0.05; done'
until_started() { until [[ -e started ]]; do sleep 0.05; done; }
interrupted() { # EXIT_CODE WHAT
  [[ $1 == 130 ]] || failed "Ctrl+C $2: exit code $1"
  ! grep -q "error:" said || failed "Ctrl+C $2: $(grep "error:" said)"
  rm -f started
}
export KVLOUPE_PRESET=dev
set -m
./kvloupe.sh info t.h5 >/dev/null 2>said &
set +m
until_started
kill -INT -- "-$!"
code=0
wait "$!" || code=$?
interrupted "$code" "without a terminal"
code=0
{ until_started && printf '\003'; } | script --quiet --return --command "./kvloupe.sh info t.h5" said >/dev/null || code=$?
interrupted "$code" "on a terminal"

cd ..
"$here/launcher_set_up_test.sh" "$source" || failures=$((failures + 1))
exit $((failures > 0))
