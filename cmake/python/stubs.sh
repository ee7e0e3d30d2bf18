#!/usr/bin/env bash
# stubs.sh OUT TORCH_LIB: fills OUT, which holds libtorch_python.so, with what else that library names, so that `import torch`
# works on the CPU with the libraries that the program has anyway: links to those of TORCH_LIB, and stand-ins for the CUDA ones,
# which would drag in 2 GB. A stand-in defines the names that libtorch_python takes from it; nothing calls them without a GPU.
set -euo pipefail
out="$1" torch="$2"

for library in "$torch"/*.so*; do
  name="${library##*/}"
  [[ $name == libtorch_cuda* || $name == libtorch_nvshmem* || -e $out/$name ]] || ln -s "$library" "$out/$name"
done

# Names without their versions, one a line.
defined() { nm -D --defined-only "$@" | awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' | sort -u; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
nm -D --undefined-only "$out/libtorch_python.so" | awk '$1 == "U" { print $2 }' | grep -v @ | sort -u >"$work/needed"
defined "$torch"/lib{torch_cpu,c10,torch,c10_cuda,shm}.so >"$work/found"
{
  defined "$torch"/lib{torch_cuda,torch_nvshmem,caffe2_nvrtc}.so | comm -12 "$work/needed" - | comm -23 - "$work/found"
  grep '^cuFile' "$work/needed"
} >"$work/names"

# Functions return the address of a page of zeros: some are called when the library is loaded, and what they return is
# dereferenced, or its lowest byte taken for a truth value. Type information has a name, which pybind11 reads.
{
  echo '.text'
  sed -nE '/^_ZT[IV]/!s/.*/.globl &\n&:/p' "$work/names"
  printf '%s\n' 'lea zeros(%rip), %rax' ret .bss '.balign 4096' 'zeros: .zero 4096' .data
  sed -nE '/^_ZTV/s/.*/.globl &\n&: .zero 4096/p' "$work/names"
  sed -nE '/^_ZTI/s/^_ZTI(.*)/.globl &\n&: .quad _ZTVN10__cxxabiv117__class_type_infoE+16, 1f\n1: .asciz "\1"\n.balign 8/p' \
    "$work/names"
  echo '.section .note.GNU-stack,"",@progbits'
} >"$work/cuda.s"
printf '%s\n' .text '.globl cudnnGetProperty' 'cudnnGetProperty: ret' '.section .note.GNU-stack,"",@progbits' >"$work/cudnn.s"
echo 'libcudnn.so.9 { global: *; };' >"$work/cudnn.map"
echo '.section .note.GNU-stack,"",@progbits' >"$work/cufile.s"

stand_in() { "${CC:-cc}" -shared -nostdlib -Wl,-soname,"$1" -o "$out/$1" "${@:2}"; }
stand_in libtorch_cuda.so "$work/cuda.s" -lstdc++
stand_in libcudnn.so.9 "$work/cudnn.s" -Wl,--version-script="$work/cudnn.map"
stand_in libcufile.so.0 "$work/cufile.s"
