// Parity and speed of the CUDA kernels without Torch, a test library or a network: what a lent GPU runs
// first. Compiled by nvcc it runs there; by the host's compiler, against the emulator, it is its own
// rehearsal, without times. Prints JSON; exits 1 where a result is wrong.
#include "tests/gpu/attention_checks.h"

#include <cstdio>

int main() {
  namespace checks = kvloupe::cuda::testing;
  std::printf("{\"device\": \"%s\",\n  \"attention\": [\n", checks::device_name().c_str());
  const bool right = checks::print_attention_parity();
  std::printf("  ]");
  checks::print_attention_times();
  std::printf("}\n");
  return right ? 0 : 1;
}
