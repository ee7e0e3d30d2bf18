# shellcheck shell=bash
# Whether a build folder is configured for what is there now. Sourced by kvloupe.sh and tests/tools/build.sh.

# configured BUILD PATHS: for what `cmake/deps.sh paths` prints now. CMake asks again by itself when a file of the checkout changes;
# a new compiler, another cache and an nvcc that has come are no such files.
configured() {
  [[ -f $1/build.ninja && $2 == "$(cat "$1/dependencies.txt" 2>/dev/null)" ]] && ! nvcc_has_come "$1"
}

# nvcc_has_come BUILD: the CUDA plug-in was left out, as no nvcc of CUDA 13 was found, and now there is one. As
# cmake/Dependencies.cmake looks for it.
nvcc_has_come() {
  local nvcc
  [[ ${KVLOUPE_GPU:-} != 0 ]] && grep -q '^KVLOUPE_NVCC_PROGRAM:.*-NOTFOUND$' "$1/CMakeCache.txt" 2>/dev/null || return 1
  while read -r nvcc; do
    [[ "$("$nvcc" --version 2>/dev/null)" != *"release 13."* ]] || return 0
  done < <({ type -ap nvcc || true; } && echo /usr/local/cuda/bin/nvcc)
  return 1
}
