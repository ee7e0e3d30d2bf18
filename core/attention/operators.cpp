// The operators of namespace kvloupe, and the typed functions of attention.h that call them through
// Torch's dispatcher: CPU tensors run the code of this folder, CUDA tensors the plug-in's. Those of
// paged_attention.h are in paged_attention.cpp.
#include "core/attention/operators.h"
#include "core/attention/attention.h"
#include "core/attention/cpu_attention.h"
#include "core/attention/gemm.h"
#include "core/attention/softmax.h"
#include "core/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

namespace kvloupe::attention {
namespace {

using ChunkAttention = std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor&,
                                                                      const at::Tensor&,
                                                                      const at::Tensor&,
                                                                      PackedSoftmax, bool);
using ChunkMass = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&,
                                                     PackedSoftmax);
using GatheredAttention = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                     PackedSoftmax, const at::Tensor&, const at::Tensor&, bool);

void check_selection(const std::vector<std::int32_t>& positions, std::int64_t past_len,
                     std::int64_t kv_len, ChunkVisibility visibility) {
  const std::int64_t limit = visibility == ChunkVisibility::OpenChunk ? past_len : kv_len;
  KVLOUPE_CHECK(positions.empty() || (positions.front() >= 0 && positions.back() < limit));
  KVLOUPE_CHECK(std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()) ==
                positions.end());
}

struct Csr {
  at::Tensor positions;  // int32
  at::Tensor offsets;    // int64 [num_kv_heads + 1]
};

Csr csr_of(const std::vector<std::vector<std::int32_t>>& selected, const at::Tensor& k,
           std::int64_t chunk_len, ChunkVisibility visibility) {
  KVLOUPE_CHECK(static_cast<std::int64_t>(selected.size()) == k.size(0));
  Csr csr;
  csr.offsets = at::zeros({k.size(0) + 1}, at::kLong);
  auto* offset = csr.offsets.mutable_data_ptr<std::int64_t>();
  for (std::size_t g = 0; g < selected.size(); ++g) {
    check_selection(selected[g], k.size(1) - chunk_len, k.size(1), visibility);
    offset[g + 1] = offset[g] + static_cast<std::int64_t>(selected[g].size());
  }
  csr.positions = at::empty({offset[k.size(0)]}, at::kInt);
  auto* position = csr.positions.mutable_data_ptr<std::int32_t>();
  for (const auto& row : selected) position = std::copy(row.begin(), row.end(), position);
  return csr;
}

}  // namespace

void check_shapes(const at::Tensor& q, const at::Tensor& k) {
  KVLOUPE_CHECK(q.dim() == 3 && k.dim() == 3);
  KVLOUPE_CHECK(q.scalar_type() == at::kFloat && k.scalar_type() == at::kFloat);
  KVLOUPE_CHECK(q.size(0) > 0 && k.size(0) > 0 && q.size(0) % k.size(0) == 0);
  KVLOUPE_CHECK(q.size(1) > 0 && q.size(1) <= k.size(1));
  KVLOUPE_CHECK(q.size(2) > 0 && q.size(2) == k.size(2));
}

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  check_shapes(q, k);
  KVLOUPE_CHECK(v.scalar_type() == at::kFloat && v.sizes() == k.sizes());
}

void check_softmax(const SoftmaxForm& softmax, const at::Tensor& q) {
  KVLOUPE_CHECK(softmax.sink_logits.empty() ||
                static_cast<std::int64_t>(softmax.sink_logits.size()) == q.size(0));
  if (softmax.is_plain() || q.device().is_cpu()) return;
  throw input_error("attention of this layer cannot run on this device",
                    "its softmax has a window, a softcap or a learned sink, which only the CPU's "
                    "kernels know",
                    "use --device cpu");
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
  static const auto op = find_operator<ChunkAttention>("kvloupe::chunk_attention");
  auto [output, lse, key_mass] = op.call(q, k, v, packed(softmax), want_mass);
  return {output, lse, want_mass ? key_mass : at::Tensor()};
}

MassResult chunk_mass(const at::Tensor& q, const at::Tensor& k, const SoftmaxForm& softmax) {
  check_shapes(q, k);
  check_softmax(softmax, q);
  static const auto op = find_operator<ChunkMass>("kvloupe::chunk_mass");
  auto [lse, key_mass] = op.call(q, k, packed(softmax));
  return {lse, key_mass};
}

at::Tensor gathered_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const SoftmaxForm& softmax,
                                    const std::vector<std::vector<std::int32_t>>& selected,
                                    ChunkVisibility visibility) {
  check_shapes(q, k, v);
  check_softmax(softmax, q);
  const Csr csr = csr_of(selected, k, q.size(1), visibility);
  static const auto op = find_operator<GatheredAttention>("kvloupe::gathered_attention");
  return op.call(q, k, v, packed(softmax), csr.positions.to(q.device()), csr.offsets.to(q.device()),
                 visibility == ChunkVisibility::SelfOnly);
}

GatheredKeys gather_keys(const at::Tensor& k, const at::Tensor& v, std::int64_t chunk_len,
                         const std::vector<std::vector<std::int32_t>>& selected,
                         ChunkVisibility visibility) {
  KVLOUPE_CHECK(k.dim() == 3 && k.scalar_type() == at::kFloat && v.scalar_type() == at::kFloat);
  KVLOUPE_CHECK(v.sizes() == k.sizes() && chunk_len > 0 && chunk_len <= k.size(1));
  const Csr csr = csr_of(selected, k, chunk_len, visibility);
  return cpu::gather(k, v, chunk_len, csr.positions.const_data_ptr<std::int32_t>(),
                     csr.offsets.const_data_ptr<std::int64_t>(),
                     visibility == ChunkVisibility::SelfOnly);
}

at::Tensor attend_gathered(const at::Tensor& q, const GatheredKeys& keys,
                           const SoftmaxForm& softmax) {
  KVLOUPE_CHECK(q.dim() == 3 && q.scalar_type() == at::kFloat && q.size(2) == keys.k.size(1));
  KVLOUPE_CHECK(q.size(0) % static_cast<std::int64_t>(keys.begin.size() - 1) == 0);
  check_softmax(softmax, q);
  return cpu::attend_gathered(q, keys, softmax);
}

at::Tensor attention_rows(const at::Tensor& q_head, const at::Tensor& k_head,
                          const SoftmaxForm& softmax, std::int64_t first_position,
                          const at::Tensor& lse_rows) {
  KVLOUPE_CHECK(q_head.dim() == 2 && k_head.dim() == 2 && lse_rows.dim() == 1);
  KVLOUPE_CHECK(q_head.size(1) == k_head.size(1) && lse_rows.size(0) == q_head.size(0));
  const at::Tensor q = q_head.contiguous(), k = k_head.contiguous(), lse = lse_rows.contiguous();
  const std::int64_t rows = q.size(0), keys = k.size(0), stride = padded(keys);
  at::Tensor p = at::zeros({rows, stride}, q.options());
  float* data = p.mutable_data_ptr<float>();
  const float* shift = lse.const_data_ptr<float>();
  multiply_qk(q.const_data_ptr<float>(), k.const_data_ptr<float>(), rows, keys, q.size(1),
              static_cast<float>(softmax.scale), data, stride);
  at::parallel_for(0, rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t visible = std::clamp<std::int64_t>(first_position + r + 1, 0, keys);
      float* row = data + r * stride;
      if (softmax.softcap > 0) cap_row(row, padded(visible), static_cast<float>(softmax.softcap));
      exp_row(row, padded(visible), shift[r]);
      std::fill_n(row, std::min(softmax.first_visible(first_position + r), visible), 0.0f);
      std::fill(row + visible, row + stride, 0.0f);
    }
  });
  return stride == keys ? p : p.narrow(1, 0, keys).contiguous();
}

}  // namespace kvloupe::attention

TORCH_LIBRARY(kvloupe, m) {
  // `softmax` is packed as operators.h says.
  m.def(
      "chunk_attention(Tensor q, Tensor k, Tensor v, float[] softmax, bool want_mass) "
      "-> (Tensor output, Tensor lse, Tensor key_mass)");
  m.def("chunk_mass(Tensor q, Tensor k, float[] softmax) -> (Tensor lse, Tensor key_mass)");
  m.def(
      "gathered_attention(Tensor q, Tensor k, Tensor v, float[] softmax, Tensor positions, "
      "Tensor offsets, bool self_only) -> Tensor");
  m.def(
      "paged_attention(Tensor q, Tensor k, Tensor v, float[] softmax, int page_size, "
      "int q_heads_per_row, int pages_per_head, Tensor kv_indptr, Tensor kv_indices) -> Tensor");
  m.def(
      "block_sparse_attention(Tensor q, Tensor k, Tensor v, float[] softmax, int block_size, "
      "Tensor mask) -> Tensor");
}

TORCH_LIBRARY_IMPL(kvloupe, CPU, m) {
  m.impl("chunk_attention", kvloupe::attention::cpu::chunk_attention);
  m.impl("chunk_mass", kvloupe::attention::cpu::chunk_mass);
  m.impl("gathered_attention", kvloupe::attention::cpu::gathered_attention);
  m.impl("paged_attention", kvloupe::attention::cpu::paged_attention);
  m.impl("block_sparse_attention", kvloupe::attention::cpu::block_sparse_attention);
}
