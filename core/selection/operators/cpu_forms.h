// The operators of operators.h on the CPU: the kernels of kernels.h and lane_kernels.h, head by head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace kvloupe::selection::cpu {

using at::Tensor;
using MaybeTensor = std::optional<at::Tensor>;

std::tuple<Tensor, Tensor, Tensor> keep_best_rows(const Tensor& scores, std::int64_t budget,
                                                  const MaybeTensor& forced);
Tensor ranked_rows(const Tensor& scores, std::int64_t count);
Tensor query_relevance(const Tensor& q);
Tensor score_keys(const Tensor& q, const Tensor& k, const Tensor& chosen,
                  std::int64_t num_candidates, bool cosine, bool mean_of_queries,
                  bool scores_first);
Tensor difference_scores(const Tensor& k, std::int64_t num_scored);
Tensor key_products(const Tensor& rows, const Tensor& keys);
Tensor reduce_probabilities(const Tensor& queries, const Tensor& keys, const Tensor& visible,
                            const MaybeTensor& first, const MaybeTensor& sinks, double scale,
                            double softcap, bool largest);
Tensor joint_softmax_sums(const Tensor& queries, const Tensor& keys, const Tensor& visible,
                          const MaybeTensor& first, double scale, double softcap);
std::tuple<Tensor, Tensor> columns_and_slashes(const Tensor& queries, const Tensor& keys,
                                               const Tensor& visible, const MaybeTensor& first,
                                               const MaybeTensor& sinks, double scale,
                                               double softcap);
Tensor page_bounds(const Tensor& rows, std::int64_t page_size, std::int64_t cut);
Tensor page_scores(const Tensor& q, const Tensor& bounds);
Tensor block_means(const Tensor& rows, std::int64_t block_size, std::int64_t cut);
Tensor rotate_rows(const Tensor& rows, const Tensor& directions, std::int64_t width);
std::tuple<Tensor, Tensor, Tensor> largest_lanes(const Tensor& rotated, std::int64_t kept);
void store_lanes(const Tensor& tiles, const Tensor& rows, std::int64_t place);
Tensor load_lanes(const Tensor& tiles, const Tensor& lanes, std::int64_t first, std::int64_t count);
Tensor channel_products(const Tensor& rows, const Tensor& channels, const Tensor& tiles,
                        std::int64_t first, std::int64_t count);
Tensor gate_rows(const Tensor& pooled, const Tensor& weights);

}  // namespace kvloupe::selection::cpu
