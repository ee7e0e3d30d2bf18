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

// Each operator once: the name of its form here and of its generic form, and its schema.
#define KVLOUPE_SELECTION_OPERATORS(DO)                                                           \
  DO(keep_best_rows,                                                                              \
     "(Tensor scores, int budget, Tensor? forced) -> (Tensor indices, Tensor num_forced, "        \
     "Tensor ties)")                                                                              \
  DO(ranked_rows, "(Tensor scores, int count) -> Tensor")                                         \
  DO(query_relevance, "(Tensor q) -> Tensor")                                                     \
  DO(score_keys,                                                                                  \
     "(Tensor q, Tensor k, Tensor chosen, int num_candidates, bool cosine, "                      \
     "bool mean_of_queries, bool scores_first) -> Tensor")                                        \
  DO(difference_scores, "(Tensor k, int num_scored) -> Tensor")                                   \
  DO(key_products, "(Tensor rows, Tensor keys) -> Tensor")                                        \
  DO(reduce_probabilities,                                                                        \
     "(Tensor queries, Tensor keys, Tensor visible, Tensor? first, Tensor? sinks, float scale, "  \
     "float softcap, bool largest) -> Tensor")                                                    \
  DO(joint_softmax_sums,                                                                          \
     "(Tensor queries, Tensor keys, Tensor visible, Tensor? first, float scale, "                 \
     "float softcap) -> Tensor")                                                                  \
  DO(columns_and_slashes,                                                                         \
     "(Tensor queries, Tensor keys, Tensor visible, Tensor? first, Tensor? sinks, float scale, "  \
     "float softcap) -> (Tensor columns, Tensor slashes)")                                        \
  DO(page_bounds, "(Tensor rows, int page_size, int cut) -> Tensor")                              \
  DO(page_scores, "(Tensor q, Tensor bounds) -> Tensor")                                          \
  DO(block_means, "(Tensor rows, int block_size, int cut) -> Tensor")                             \
  DO(rotate_rows, "(Tensor rows, Tensor directions, int width) -> Tensor")                        \
  DO(largest_lanes, "(Tensor rotated, int kept) -> (Tensor values, Tensor lanes, Tensor counts)") \
  DO(store_lanes, "(Tensor(a!) tiles, Tensor rows, int place) -> ()")                             \
  DO(load_lanes, "(Tensor tiles, Tensor lanes, int first, int count) -> Tensor")                  \
  DO(channel_products,                                                                            \
     "(Tensor rows, Tensor channels, Tensor tiles, int first, int count) -> Tensor")              \
  DO(gate_rows, "(Tensor pooled, Tensor weights) -> Tensor")
