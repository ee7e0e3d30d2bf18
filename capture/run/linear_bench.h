// What the linear layers of a decoder of some shape cost, on random weights and inputs.
#pragma once

#include "core/base/cancel.h"
#include "core/base/compute_type.h"

#include <cstdint>
#include <vector>

namespace kvloupe::capture {

struct LinearShape {
  int layers = 0;
  std::int64_t hidden = 0, ffn = 0, q_heads = 0, kv_heads = 0, head_dim = 0;
};

struct LinearBench {
  double flops = 0;        // of one pass over all tokens and layers
  std::vector<double> ms;  // of each pass, after one that does not count
};

// Chunk by chunk, layer by layer, as a capture does: q, k and v in one product, output, gate and up in
// one, down; packed as the decoder's. The inputs of a product are random, not the last one's results.
LinearBench bench_linear(const LinearShape& shape, ComputeType type, std::int64_t tokens,
                         int repetitions, const WorkContext& context);

}  // namespace kvloupe::capture
