#!/usr/bin/env bash
# hdf5_inside_test.sh KVLOUPE: HDF5 stands in the core library alone and shows none of its names, so that another HDF5 in
# the process, of another version, meets none of ours.
set -uo pipefail
program="$1"
libraries="$(dirname "$program")/../lib"
failures=0

fail() {
  echo "FAILED $*"
  failures=$((failures + 1))
}

# names FILE OPTION...: how many names of HDF5 nm lists.
names() { nm "${@:2}" "$1" 2>/dev/null | grep -cE ' H5[A-Z]+_?[a-z]'; }

[[ $(names "$libraries/libkvloupe_core.so") -gt 1000 ]] || fail "the core library has no HDF5: this test is blind"
[[ $(names "$libraries/libkvloupe_core.so" -D) == 0 ]] || fail "the core library shows names of HDF5"
for part in "$program" "$libraries/libkvloupe_engine.so"; do
  [[ $(names "$part") == 0 ]] || fail "$part has names of HDF5"
done
ldd "$program" "$libraries"/libkvloupe_*.so | grep -q libhdf5 && fail "a libhdf5 of the system is loaded"

exit $((failures > 0))
