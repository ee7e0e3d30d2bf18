#!/usr/bin/env bash
# pack.sh BUILD KIT   puts the program, its CUDA plug-in, the tests that compare devices and the libraries of this
#                     system that they need into the archive KIT, stripped: for a machine without a network that has a
#                     GPU and the Torch of requirements.txt. run.sh uses it there as .gpu-kit.tar.gz. Some 20 MB.
set -euo pipefail
build="$1" archive="$2"
tests=(test_cuda_parity test_selection_on_sim test_capture_on_sim)
kit="$(mktemp -d)"
trap 'rm -rf "$kit"' EXIT
mkdir -p "$kit/bin" "$kit/lib"
[ -e "$build/lib/libkvloupe_cuda.so" ] || echo "$build has no CUDA plug-in (nvcc was not found): good for a rehearsal alone" >&2
cp "$build/bin/kvloupe" "${tests[@]/#/$build/tests/}" "$kit/bin"
cp "$build"/lib/libkvloupe_*.so "$kit/lib"
# The compiler's and the C library are there, and newer; Torch brings its own.
ldd "$kit"/bin/* "$build"/lib/libkvloupe_{core,engine}.so | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libutil|libpthread|libstdc\+\+|libgcc_s|libgomp[^/]*|libkvloupe[^/]*)\.so|/torch/lib/|/nvidia/' |
  xargs cp -L -t "$kit/lib"
strip --strip-unneeded "$kit"/bin/* "$kit"/lib/*
tar -C "$kit" -czf "$archive" .
du -h "$archive"
