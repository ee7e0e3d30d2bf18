#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures when needed and builds, one at a time in each build folder.
#   PRESET: release, dev, asan, tsan, fuzz. Without targets everything is built. Extra ninja options may follow the preset.
set -euo pipefail
preset="${1:?usage: build.sh PRESET [TARGET...]}"
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="build/$preset"
mkdir -p "$build"
exec 9>"$build/.lock"
if ! flock --nonblock 9; then
  echo "waiting for another build in $build" >&2
  flock 9
fi
cmake/deps.sh fetch
# shellcheck source=cmake/configured.sh
source cmake/configured.sh
# An interrupted first configuration leaves a cache without build files.
configured "$build" "$(cmake/deps.sh paths)" || cmake --preset "$preset" 9>&-
ninja -C "$build" "$@" 9>&-
