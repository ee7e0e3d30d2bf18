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
// positions, shared, kv_indptr, kv_indices, mask) lie on the host: their sizes cut the work. Only
// `kept`, whose size says all, lies on the device.
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

// Over the chunk's own keys and those at `kept` int32 [num_kv_heads, n], which lies on the device, too.
using KeptAttention = Tensor(const Tensor& q, const Tensor& k, const Tensor& v,
                             PackedSoftmax softmax, const Tensor& kept);

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

// Each operator once: the name of its CPU form and of its generic form, and its schema.
#define KVLOUPE_ATTENTION_OPERATORS(DO)                                                            \
  DO(chunk_attention,                                                                              \
     "(Tensor q, Tensor k, Tensor v, float[] softmax, bool want_mass) -> (Tensor output, Tensor "  \
     "lse, Tensor key_mass)")                                                                      \
  DO(chunk_mass, "(Tensor q, Tensor k, float[] softmax) -> (Tensor lse, Tensor key_mass)")         \
  DO(attention_rows,                                                                               \
     "(Tensor q_head, Tensor k_head, float[] softmax, int first_position, Tensor lse_rows) -> "    \
     "Tensor")                                                                                     \
  DO(gather_keys,                                                                                  \
     "(Tensor k, Tensor v, int chunk_len, int[] begin, Tensor positions) -> (Tensor k_rows, "      \
     "Tensor v_rows)")                                                                             \
  DO(attend_gathered,                                                                              \
     "(Tensor q, Tensor k, Tensor v, float[] softmax, int[] begin, Tensor positions, Tensor "      \
     "shared) -> Tensor")                                                                          \
  DO(gathered_attention,                                                                           \
     "(Tensor q, Tensor k, Tensor v, float[] softmax, int[] begin, Tensor positions, Tensor "      \
     "shared) -> Tensor")                                                                          \
  DO(kept_attention, "(Tensor q, Tensor k, Tensor v, float[] softmax, Tensor kept) -> Tensor")     \
  DO(paged_attention,                                                                              \
     "(Tensor q, Tensor k, Tensor v, float[] softmax, int page_size, int q_heads_per_row, int "    \
     "pages_per_head, Tensor kv_indptr, Tensor kv_indices) -> Tensor")                             \
  DO(block_sparse_attention,                                                                       \
     "(Tensor q, Tensor k, Tensor v, float[] softmax, int block_size, Tensor mask) -> Tensor")     \
  DO(lane_attention,                                                                               \
     "(Tensor values, Tensor? lanes, Tensor numbers, int first_position, Tensor v, float[] "       \
     "softmax) -> Tensor")                                                                         \
  DO(gather_lanes,                                                                                 \
     "(Tensor numbers, Tensor v, int[] begin, Tensor positions) -> (Tensor k, Tensor v_rows)")     \
  DO(attend_gathered_lanes,                                                                        \
     "(Tensor values, Tensor lanes, Tensor k, Tensor v, float[] softmax, int[] begin, Tensor "     \
     "positions) -> Tensor")                                                                       \
  DO(gathered_lane_mass,                                                                           \
     "(Tensor values, Tensor lanes, Tensor k, float[] softmax, int[] begin, Tensor positions) -> " \
     "Tensor")

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
