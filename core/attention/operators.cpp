// The operators of namespace kvloupe, and the typed functions of attention.h that call them through
// Torch's dispatcher: CPU tensors run the CPU's, others the kernels of their device where it has one
// (core/cuda), else the generic form. Those of paged_attention.h are in paged_attention.cpp, those of
// lane_attention.h in lane_attention.cpp.
#include "core/attention/operators.h"
#include "core/attention/attention.h"
#include "core/attention/cpu_attention.h"
#include "core/attention/generic_attention.h"
#include "core/attention/register_operators.h"
#include "core/base/error.h"

#include <ATen/ATen.h>

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

at::Tensor kept_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const SoftmaxForm& softmax, const at::Tensor& kept) {
  check_shapes(q, k, v);
  check_softmax(softmax, q);
  KVLOUPE_CHECK(kept.dim() == 2 && kept.size(0) == k.size(0) && kept.scalar_type() == at::kInt);
  KVLOUPE_CHECK(kept.size(1) <= k.size(1) - q.size(1) && kept.device() == q.device());
  static const auto run = find_operator<op::KeptAttention>("kvloupe::kept_attention");
  return run.call(q, k, v, packed(softmax), kept);
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

KVLOUPE_REGISTER_OPERATORS(KVLOUPE_ATTENTION_OPERATORS)

}  // namespace kvloupe::attention
