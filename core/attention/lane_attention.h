// Chunk attention whose scores come from a part of the lanes of rotated queries and keys (AQUA and
// its kin): only the lanes that a query uses are read and multiplied. Values stay whole.
// Shapes, masks, devices, `softmax` and errors as in attention.h, but for what stands in place of q and
// k.
#pragma once

#include "core/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::attention {

// What a query has in the lanes that it uses.
struct LaneQueries {
  at::Tensor values;  // [num_q_heads, m, kept]
  at::Tensor lanes;   // int32 of the same shape, ascending in a row: which they are. Undefined: the
                      // first `kept` lanes in every row, and keys are rows of these alone
  bool by_lane() const { return lanes.defined(); }
};

// Rotated keys from position `first_position` on, to the chunk's last one or beyond.
struct LaneKeys {
  // By lane (lane_products.h): [num_kv_heads, tiles, lanes, kLaneTileKeys]. Else rows [num_kv_heads,
  // keys, kept]. A head is contiguous.
  at::Tensor numbers;
  std::int64_t first_position = 0;
};

// Output [num_q_heads, m, head_dim of v]. `keys` must hold every key that a query sees.
at::Tensor lane_chunk_attention(const LaneQueries& q, const LaneKeys& keys, const at::Tensor& v,
                                const SoftmaxForm& softmax);

// The same over some past keys and, causally, the chunk's own: gather, then attend. `keys` are by
// lane and begin at position 0; selected[g] as in attention.h, past keys alone. GatheredKeys::k holds
// lane tiles then, of which each KV head begins one of its own; on other devices than the CPU rows of
// all lanes.
GatheredKeys gather_lanes(const LaneKeys& keys, const at::Tensor& v, std::int64_t chunk_len,
                          const std::vector<std::vector<std::int32_t>>& selected);
at::Tensor attend_gathered(const LaneQueries& q, const GatheredKeys& keys,
                           const SoftmaxForm& softmax);
// Of each KV head: the sum of p over the chunk's queries and the group's heads, for each of its
// gathered keys in their order. On the CPU fp32 within some hundred rows, fp64 across
// them; else fp32.
std::vector<std::vector<double>> gathered_mass(const LaneQueries& q, const GatheredKeys& keys,
                                               const SoftmaxForm& softmax);

}  // namespace kvloupe::attention
