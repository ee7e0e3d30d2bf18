// The operators of namespace kvloupe as functions: what they are given and what they give. Those of
// the CPU are in cpu_attention.h, those of any other device in generic_attention.h; the typed functions
// of attention.h, paged_attention.h and lane_attention.h check and call them. Private to
// core/attention.
#pragma once

#include "core/attention/attention.h"
#include "core/attention/find_operator.h"
#include "core/attention/number_types.h"
#include "core/base/softmax_form.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace kvloupe::attention {

// As the operators take it: scale, window, softcap, then the sink logits of all query heads or none.
using PackedSoftmax = at::ArrayRef<double>;
std::vector<double> packed(const SoftmaxForm& softmax);
SoftmaxForm unpacked(PackedSoftmax values);

// q, k, v and what belongs to them lie on one device and are of one type (number_types.h). Outputs are
// of that type; logits, softmax and sums, and with them lse and masses, are fp32 always. Tables (begin,
// positions, shared, kv_indptr, kv_indices, mask) lie on the host: their sizes cut the work.
namespace op {

using at::Tensor;

// output, lse, key_mass; key_mass is empty when not wanted.
using ChunkAttention = std::tuple<Tensor, Tensor, Tensor>(const Tensor& q, const Tensor& k,
                                                          const Tensor& v, PackedSoftmax softmax,
                                                          bool want_mass);
// lse, key_mass.
using ChunkMass = std::tuple<Tensor, Tensor>(const Tensor& q, const Tensor& k,
                                             PackedSoftmax softmax);
using AttentionRows = Tensor(const Tensor& q_head, const Tensor& k_head, PackedSoftmax softmax,
                             std::int64_t first_position, const Tensor& lse_rows);

// begin, positions (int32) and shared (uint8) as in GatheredKeys, of which the results are k and v.
using GatherKeys = std::tuple<Tensor, Tensor>(const Tensor& k, const Tensor& v,
                                              std::int64_t chunk_len, at::IntArrayRef begin,
                                              const Tensor& positions);
using AttendGathered = Tensor(const Tensor& q, const Tensor& k, const Tensor& v,
                              PackedSoftmax softmax, at::IntArrayRef begin, const Tensor& positions,
                              const Tensor& shared);
// Both in one.
using GatheredAttention = Tensor(const Tensor& q, const Tensor& k, const Tensor& v,
                                 PackedSoftmax softmax, at::IntArrayRef begin,
                                 const Tensor& positions, const Tensor& shared);

// As CSR over rows of query heads: kv_indptr int32 [rows + 1], kv_indices int32.
using PagedAttention = Tensor(const Tensor& q, const Tensor& k, const Tensor& v,
                              PackedSoftmax softmax, std::int64_t page_size,
                              std::int64_t q_heads_per_row, std::int64_t pages_per_head,
                              const Tensor& kv_indptr, const Tensor& kv_indices);
using BlockSparseAttention = Tensor(const Tensor& q, const Tensor& k, const Tensor& v,
                                    PackedSoftmax softmax, std::int64_t block_size,
                                    const Tensor& mask);

// values and lanes are those of LaneQueries, numbers and first_position those of LaneKeys.
using LaneAttention = Tensor(const Tensor& values, const std::optional<Tensor>& lanes,
                             const Tensor& numbers, std::int64_t first_position, const Tensor& v,
                             PackedSoftmax softmax);
using GatherLanes = std::tuple<Tensor, Tensor>(const Tensor& numbers, const Tensor& v,
                                               at::IntArrayRef begin, const Tensor& positions);
using AttendGatheredLanes = Tensor(const Tensor& values, const Tensor& lanes, const Tensor& k,
                                   const Tensor& v, PackedSoftmax softmax, at::IntArrayRef begin,
                                   const Tensor& positions);
// [begin.back()] column sums of p, fp32 or fp64.
using GatheredLaneMass = Tensor(const Tensor& values, const Tensor& lanes, const Tensor& k,
                                PackedSoftmax softmax, at::IntArrayRef begin,
                                const Tensor& positions);

}  // namespace op

// Throw Error{Internal} for shapes or types that contradict each other.
void check_shapes(const at::Tensor& q, const at::Tensor& k);
void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// And for another number of sinks than query heads.
void check_softmax(const SoftmaxForm& softmax, const at::Tensor& q);

// All of GatheredKeys but its tensors.
GatheredKeys layout_of(std::int64_t num_kv_heads, std::int64_t kv_len, std::int64_t chunk_len,
                       const std::vector<std::vector<std::int32_t>>& selected,
                       ChunkVisibility visibility);

// A table as an operator takes it, without a copy: `table` must outlive the call.
at::Tensor on_host(const std::vector<std::int32_t>& table);
at::Tensor on_host(const std::vector<std::uint8_t>& table);

}  // namespace kvloupe::attention
