// Parity and speed of the CUDA kernels without Torch, a test library or a network: what a lent GPU runs
// first. Compiled by nvcc it runs there; by the host's compiler, against the emulator, it is its own
// rehearsal, without times. Prints JSON, and on standard error what is wrong; exits 1 where a result is.
//   --untimed   checks alone: under compute-sanitizer times mean nothing
//   --profiled  what is timed, once and unchecked: for Nsight Compute
#include "tests/gpu/attention_kernels.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/probability_kernels.h"
#include "tests/gpu/selection_kernels.h"

#include <cstdio>
#include <string>

int main(int count, char** arguments) {
  namespace gpu = kvloupe::gpu;
  const std::string only = count > 1 ? arguments[1] : "";
  gpu::is_profiled = only == "--profiled";
  std::printf("{\"device\": \"%s\"", gpu::device_name().c_str());
  bool right = true;
  if (only != "--profiled") {
    right = gpu::print_attention();
    right = gpu::print_selection() && right;
    right = gpu::print_probabilities() && right;
  }
  if (only != "--untimed") {
    gpu::print_attention_times();
    gpu::print_selection_times();
    gpu::print_probabilities_times();
  }
  std::printf("}\n");
  return right ? 0 : 1;
}
