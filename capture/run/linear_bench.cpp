#include "capture/run/linear_bench.h"

#include "capture/model/linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace kvloupe::capture {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kChunk = 128;  // a capture's, unless told

struct Projection {
  std::int64_t in = 0, out = 0;
};

std::array<Projection, 4> projections_of(const LinearShape& shape) {
  const std::int64_t q_width = shape.q_heads * shape.head_dim;
  return {{{shape.hidden, q_width + 2 * shape.kv_heads * shape.head_dim},
           {q_width, shape.hidden},
           {shape.hidden, 2 * shape.ffn},
           {shape.ffn, shape.hidden}}};
}

}  // namespace

LinearBench bench_linear(const LinearShape& shape, ComputeType type, std::int64_t tokens,
                         int repetitions, const WorkContext& context) {
  const auto projections = projections_of(shape);
  std::vector<at::Tensor> weights;
  for (int layer = 0; layer < shape.layers; ++layer)
    for (const Projection& projection : projections)
      weights.push_back(pack_projection(at::randn({projection.out, projection.in}), type));
  std::array<at::Tensor, 4> inputs;
  for (std::size_t i = 0; i < projections.size(); ++i)
    inputs[i] = at::randn({std::min(kChunk, tokens), projections[i].in});

  LinearBench bench;
  for (const Projection& projection : projections)
    bench.flops += 2.0 * static_cast<double>(tokens) * static_cast<double>(projection.in) *
                   static_cast<double>(projection.out) * shape.layers;
  for (int i = 0; i <= repetitions; ++i) {
    const auto begin = Clock::now();
    for (std::int64_t at = 0; at < tokens; at += kChunk) {
      context.cancel.throw_if_cancelled();
      const std::int64_t rows = std::min(kChunk, tokens - at);
      for (std::size_t p = 0; p < weights.size(); ++p)
        project(inputs[p % inputs.size()].narrow(0, 0, rows), weights[p]);
    }
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    if (i > 0) bench.ms.push_back(ms);
  }
  return bench;
}

}  // namespace kvloupe::capture
