// The operators of namespace kvloupe, and the typed functions of attention.h that call them through
// Torch's dispatcher: CPU tensors run the CPU's, others the kernels of their device where it has one
// (core/cuda), else the generic form. Those of paged_attention.h are in paged_attention.cpp, those of
// lane_attention.h in lane_attention.cpp.
#include "core/attention/operators.h"
#include "core/attention/attention.h"
#include "core/attention/cpu_attention.h"
#include "core/attention/generic_attention.h"
#include "core/base/error.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

namespace kvloupe::attention {
namespace {

void check_selection(const std::vector<std::int32_t>& positions, std::int64_t past_len,
                     std::int64_t kv_len, ChunkVisibility visibility) {
  const std::int64_t limit = visibility == ChunkVisibility::OpenChunk ? past_len : kv_len;
  KVLOUPE_CHECK(positions.empty() || (positions.front() >= 0 && positions.back() < limit));
  KVLOUPE_CHECK(std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()) ==
                positions.end());
}

}  // namespace

void check_types(at::TensorList tensors) {
  const at::Tensor& first = tensors.front();
  const at::ScalarType type = first.scalar_type();
  const bool is_half = type == at::kHalf || type == at::kBFloat16;
  KVLOUPE_CHECK(type == at::kFloat || (is_half && !first.is_cpu()));
  for (const at::Tensor& tensor : tensors) KVLOUPE_CHECK(tensor.scalar_type() == type);
}

void check_shapes(const at::Tensor& q, const at::Tensor& k) {
  KVLOUPE_CHECK(q.dim() == 3 && k.dim() == 3);
  check_types({q, k});
  KVLOUPE_CHECK(q.size(0) > 0 && k.size(0) > 0 && q.size(0) % k.size(0) == 0);
  KVLOUPE_CHECK(q.size(1) > 0 && q.size(1) <= k.size(1));
  KVLOUPE_CHECK(q.size(2) > 0 && q.size(2) == k.size(2));
}

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  check_shapes(q, k);
  check_types({k, v});
  KVLOUPE_CHECK(v.sizes() == k.sizes());
}

void check_softmax(const SoftmaxForm& softmax, const at::Tensor& q) {
  KVLOUPE_CHECK(softmax.sink_logits.empty() ||
                static_cast<std::int64_t>(softmax.sink_logits.size()) == q.size(0));
}

GatheredKeys layout_of(std::int64_t num_kv_heads, std::int64_t kv_len, std::int64_t chunk_len,
                       const std::vector<std::vector<std::int32_t>>& selected,
                       ChunkVisibility visibility) {
  KVLOUPE_CHECK(static_cast<std::int64_t>(selected.size()) == num_kv_heads);
  const std::int64_t past_len = kv_len - chunk_len;
  const bool self_only = visibility == ChunkVisibility::SelfOnly;
  GatheredKeys keys;
  keys.begin.assign(1, 0);
  keys.shared.assign(self_only ? num_kv_heads * chunk_len : 0, 0);
  for (std::int64_t g = 0; g < num_kv_heads; ++g) {
    const std::vector<std::int32_t>& row = selected[g];
    check_selection(row, past_len, kv_len, visibility);
    const auto chunk_part = std::lower_bound(row.begin(), row.end(), past_len);
    for (auto p = chunk_part; p != row.end(); ++p) keys.shared[g * chunk_len + *p - past_len] = 1;
    keys.positions.insert(keys.positions.end(), row.begin(), chunk_part);
    const auto own = static_cast<std::ptrdiff_t>(keys.positions.size());
    keys.positions.resize(keys.positions.size() + static_cast<std::size_t>(chunk_len));
    std::iota(keys.positions.begin() + own, keys.positions.end(),
              static_cast<std::int32_t>(past_len));
    keys.begin.push_back(static_cast<std::int64_t>(keys.positions.size()));
  }
  return keys;
}

// Operators only read their tables.
at::Tensor on_host(const std::vector<std::int32_t>& table) {
  return at::from_blob(const_cast<std::int32_t*>(table.data()),
                       {static_cast<std::int64_t>(table.size())}, at::kInt);
}

at::Tensor on_host(const std::vector<std::uint8_t>& table) {
  return at::from_blob(const_cast<std::uint8_t*>(table.data()),
                       {static_cast<std::int64_t>(table.size())}, at::kByte);
}

std::vector<double> packed(const SoftmaxForm& softmax) {
  std::vector<double> values = {softmax.scale, static_cast<double>(softmax.window),
                                softmax.softcap};
  values.insert(values.end(), softmax.sink_logits.begin(), softmax.sink_logits.end());
  return values;
}

SoftmaxForm unpacked(PackedSoftmax values) {
  KVLOUPE_CHECK(values.size() >= 3);
  return {values[0],
          static_cast<std::int64_t>(values[1]),
          values[2],
          {values.begin() + 3, values.end()}};
}

DenseResult dense_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const SoftmaxForm& softmax, bool want_mass) {
  check_shapes(q, k, v);
  check_softmax(softmax, q);
  static const auto run = find_operator<op::ChunkAttention>("kvloupe::chunk_attention");
  auto [output, lse, key_mass] = run.call(q, k, v, packed(softmax), want_mass);
  return {output, lse, want_mass ? key_mass : at::Tensor()};
}

MassResult chunk_mass(const at::Tensor& q, const at::Tensor& k, const SoftmaxForm& softmax) {
  check_shapes(q, k);
  check_softmax(softmax, q);
  static const auto run = find_operator<op::ChunkMass>("kvloupe::chunk_mass");
  auto [lse, key_mass] = run.call(q, k, packed(softmax));
  return {lse, key_mass};
}

at::Tensor gathered_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const SoftmaxForm& softmax,
                                    const std::vector<std::vector<std::int32_t>>& selected,
                                    ChunkVisibility visibility) {
  check_shapes(q, k, v);
  check_softmax(softmax, q);
  const GatheredKeys layout = layout_of(k.size(0), k.size(1), q.size(1), selected, visibility);
  static const auto run = find_operator<op::GatheredAttention>("kvloupe::gathered_attention");
  return run.call(q, k, v, packed(softmax), layout.begin, on_host(layout.positions),
                  on_host(layout.shared));
}

GatheredKeys gather_keys(const at::Tensor& k, const at::Tensor& v, std::int64_t chunk_len,
                         const std::vector<std::vector<std::int32_t>>& selected,
                         ChunkVisibility visibility) {
  check_types({k, v});
  KVLOUPE_CHECK(k.dim() == 3 && v.sizes() == k.sizes() && chunk_len > 0 && chunk_len <= k.size(1));
  GatheredKeys keys = layout_of(k.size(0), k.size(1), chunk_len, selected, visibility);
  static const auto run = find_operator<op::GatherKeys>("kvloupe::gather_keys");
  std::tie(keys.k, keys.v) = run.call(k, v, chunk_len, keys.begin, on_host(keys.positions));
  return keys;
}

at::Tensor attend_gathered(const at::Tensor& q, const GatheredKeys& keys,
                           const SoftmaxForm& softmax) {
  check_types({q, keys.k, keys.v});
  KVLOUPE_CHECK(q.dim() == 3 && q.size(2) == keys.k.size(1));
  KVLOUPE_CHECK(q.size(0) % static_cast<std::int64_t>(keys.begin.size() - 1) == 0);
  check_softmax(softmax, q);
  static const auto run = find_operator<op::AttendGathered>("kvloupe::attend_gathered");
  return run.call(q, keys.k, keys.v, packed(softmax), keys.begin, on_host(keys.positions),
                  on_host(keys.shared));
}

at::Tensor attention_rows(const at::Tensor& q_head, const at::Tensor& k_head,
                          const SoftmaxForm& softmax, std::int64_t first_position,
                          const at::Tensor& lse_rows) {
  check_types({q_head, k_head});
  KVLOUPE_CHECK(q_head.dim() == 2 && k_head.dim() == 2 && lse_rows.dim() == 1);
  KVLOUPE_CHECK(q_head.size(1) == k_head.size(1) && lse_rows.size(0) == q_head.size(0));
  static const auto run = find_operator<op::AttentionRows>("kvloupe::attention_rows");
  return run.call(q_head, k_head, packed(softmax), first_position, lse_rows);
}

}  // namespace kvloupe::attention

// Each operator once (operators.h): the name of its CPU form and of its generic form, and its schema.
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

TORCH_LIBRARY(kvloupe, m) {
#define KVLOUPE_DECLARE(name, schema) m.def(#name schema);
  KVLOUPE_ATTENTION_OPERATORS(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE
}

TORCH_LIBRARY_IMPL(kvloupe, CPU, m) {
#define KVLOUPE_FUSED(name, schema) m.impl(#name, kvloupe::attention::cpu::name);
  KVLOUPE_ATTENTION_OPERATORS(KVLOUPE_FUSED)
#undef KVLOUPE_FUSED
}

// For the tensors of any device that has no kernel of its own.
TORCH_LIBRARY_IMPL(kvloupe, CompositeExplicitAutograd, m) {
#define KVLOUPE_GENERIC(name, schema) m.impl(#name, kvloupe::attention::generic::name);
  KVLOUPE_ATTENTION_OPERATORS(KVLOUPE_GENERIC)
#undef KVLOUPE_GENERIC
}
