#include "tests/gpu/probability_kernels.h"

#include "tests/cuda/probabilities_case.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/kernel_lines.h"

#include <cstdio>
#include <string>

namespace kvloupe::gpu {
namespace {

using namespace kvloupe::cuda;
using testing::SoftmaxShape;
using Placed = testing::PlacedSoftmax<DeviceNumbers>;

std::string words_of(const SoftmaxShape& s) {
  return std::to_string(s.sets()) + " sets of " + std::to_string(s.rows) + " rows, " +
         std::to_string(s.keys) + " keys of " + std::to_string(s.width);
}

#ifdef __CUDACC__

void print_time(const char* separator, const SoftmaxShape& shape) {
  const Placed one(shape);
  const double ms = median_ms([&] { return one.launch(); }, 20), least = floor_ms(one.bytes());
  const double flop = 4.0 * static_cast<double>(shape.num_results()) * shape.rows * shape.width;
  std::printf(
      "%s\n    {\"kernel\": \"%s, %s\", \"type\": \"%s\", \"ms\": %.4f, \"floor_ms\": %.4f, "
      "\"megabytes\": %.3f, \"gflop\": %.2f, \"tflop_per_s\": %.1f}",
      separator, testing::name_of(shape.reduced), words_of(shape).c_str(),
      testing::name_of(shape.type), ms, least, static_cast<double>(one.bytes()) / 1e6, flop / 1e9,
      flop / ms / 1e9);
}

// The cases of docs/cuda.md: 8 KV heads in groups of 4.
void print_times() {
  using enum testing::Reduced;
  const char* separator = "";
  std::printf(",\n  \"probability_times\": [");
  for (const SoftmaxShape& shape :
       testing::in_all_types<SoftmaxShape>({{Sum, 8, 4, 32, 30720, 128},
                                            {Sum, 8, 4, 128, 30720, 128},
                                            {Sum, 8, 1, 4, 30720, 128},
                                            {Sum, 8, 4, 8, 1920, 2048},
                                            {Slashes, 8, 4, 64, 30720, 128},
                                            {Joint, 8, 4, 128, 240, 128}})) {
    print_time(separator, shape);
    separator = ",";
  }
  std::printf("\n  ]");
}

#else

void print_times() {}

#endif

}  // namespace

bool print_probabilities() {
  std::printf(",\n  \"probabilities\": [");
  Lines lines;
  for (const SoftmaxShape& shape : testing::softmax_shapes())
    lines.check_case(testing::name_of(shape.reduced), shape.type, words_of(shape), Placed(shape));
  std::printf("\n  ]");
  return lines.right();
}

void print_probabilities_times() { print_times(); }

}  // namespace kvloupe::gpu
