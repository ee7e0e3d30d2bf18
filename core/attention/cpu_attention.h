// The CPU implementations behind the operators of operators.cpp. Shapes were checked there.
#pragma once

#include "core/attention/attention.h"
#include "core/attention/row_block.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

namespace kvloupe::attention::cpu {

// output, lse, key_mass; key_mass is empty when not wanted.
std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v, double scale,
                                                               bool want_mass);
// lse, key_mass.
std::tuple<at::Tensor, at::Tensor> chunk_mass(const at::Tensor& q, const at::Tensor& k,
                                              double scale);
// Selected positions as CSR over KV heads: positions int32, offsets int64 [num_kv_heads + 1].
GatheredKeys gather(const at::Tensor& k, const at::Tensor& v, std::int64_t chunk_len,
                    const std::int32_t* positions, const std::int64_t* offsets, bool self_only);
at::Tensor attend_gathered(const at::Tensor& q, const GatheredKeys& keys, double scale);
at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              double scale, const at::Tensor& positions, const at::Tensor& offsets,
                              bool self_only);

// As CSR over rows of query heads: kv_indptr int32 [rows + 1], kv_indices int32.
at::Tensor paged_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, std::int64_t page_size, std::int64_t q_heads_per_row,
                           std::int64_t pages_per_head, const at::Tensor& kv_indptr,
                           const at::Tensor& kv_indices);
at::Tensor block_sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  double scale, std::int64_t block_size, const at::Tensor& mask);

// What all of them are built from.

// A view of a cache is used where it lies: only the head stride may be larger than one head.
at::Tensor contiguous_per_head(const at::Tensor& tensor);
const float* head_data(const at::Tensor& tensor, std::int64_t head);

// Items [0, count) for all threads, each of which runs `work` once and takes item after item:
// unequal items keep all threads busy. An item's result must not depend on who does it.
using NextItem = std::function<std::optional<std::int64_t>()>;
void share_out(std::int64_t count, const std::function<void(const NextItem&)>& work);

struct Results {
  at::Tensor output, lse;
  at::Tensor span_sums;  // [spans, padded(keys)]
};

// The query heads are shared out evenly over the views, in order; a view is what the folded rows
// of its heads attend to.
void attend_views(const at::Tensor& q, double scale, const std::vector<KeyView>& views,
                  const std::vector<RowSpan>& spans, Results* results);

}  // namespace kvloupe::attention::cpu
