// Parity and speed of the CUDA kernels without Torch, a test library or a network: what a lent GPU runs
// first. Compiled by nvcc it runs there; by the host's compiler, against the emulator, it is its own
// rehearsal, without times. Prints JSON; exits 1 where a result is wrong. With an argument it measures
// nothing: under compute-sanitizer times mean nothing.
#include "tests/gpu/attention_kernels.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/probability_kernels.h"
#include "tests/gpu/selection_kernels.h"

#include <cstdio>

int main(int count, char**) {
  namespace gpu = kvloupe::gpu;
  std::printf("{\"device\": \"%s\"", gpu::device_name().c_str());
  bool right = gpu::print_attention();
  right = gpu::print_selection() && right;
  right = gpu::print_probabilities() && right;
  if (count == 1) {
    gpu::print_attention_times();
    gpu::print_selection_times();
    gpu::print_probabilities_times();
  }
  std::printf("}\n");
  return right ? 0 : 1;
}
