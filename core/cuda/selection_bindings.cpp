#include "core/cuda/selection_bindings.h"

#include "core/attention/upload.h"
#include "core/cuda/binding_checks.h"
#include "core/cuda/generic_form.h"
#include "core/cuda/keep_best.cuh"
#include "core/cuda/pack_rows.cuh"
#include "core/cuda/pages.cuh"
#include "core/cuda/query_choice.cuh"
#include "core/cuda/row_products.cuh"
#include "core/cuda/score_keys.cuh"
#include "core/cuda/status_check.h"
#include "core/cuda/tensor_type.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace kvloupe::cuda {
namespace {

// Channels together; rows and heads may lie apart.
at::Tensor with_channels_together(const at::Tensor& rows) {
  return rows.stride(2) == 1 || rows.size(2) == 1 ? rows : rows.contiguous();
}

bool has_type_of(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.scalar_type() == other.scalar_type();
}

// For results beside `like`: they are fp32 whatever its type, but for bounds.
at::TensorOptions fp32_beside(const at::Tensor& like) { return like.options().dtype(at::kFloat); }

// The products of rows, packed first, with keys [G, T, W], [R, T] of them. `pack` and `products` lack what
// follows from the tensors.
at::Tensor products_of(const Launcher& on_device, const char* name, const at::Tensor& rows,
                       PackRows pack, RowProducts products, const at::Tensor& keys) {
  const at::Tensor results = at::empty({rows.size(0), keys.size(1)}, fp32_beside(keys));
  const at::Tensor packed = at::empty(
      {static_cast<std::int64_t>(packed_floats(1, pack.sets, pack.rows_per_set, pack.width()))},
      fp32_beside(keys));
  pack.type = type_of(rows).value();
  pack.from = rows.const_data_ptr();
  pack.to = packed.mutable_data_ptr<float>();
  products.rows = pack.to;
  products.type = type_of(keys).value();
  products.keys = keys.const_data_ptr();
  products.key_head_stride = keys.stride(0);
  products.num_kv_heads = static_cast<int>(keys.size(0));
  products.num_keys = static_cast<int>(keys.size(1));
  products.width = pack.width();
  products.sets = pack.sets / products.num_kv_heads;
  products.rows_per_set = pack.rows_per_set;
  products.results = results.mutable_data_ptr<float>();
  check(on_device([&](cudaStream_t stream) {
          const cudaError_t status = launch_pack_rows(pack, stream);
          return status == cudaSuccess ? launch_row_products(products, stream) : status;
        }),
        name);
  return results;
}

// Rows in the pages of a grid, shape of a page's numbers [G, pages, ...].
PagesOfRows pages_of(const at::Tensor& rows, std::int64_t page_size, std::int64_t cut) {
  PagesOfRows problem;
  problem.type = type_of(rows).value();
  problem.rows = rows.const_data_ptr();
  problem.head_stride = rows.stride(0);
  problem.heads = static_cast<int>(rows.size(0));
  problem.count = static_cast<int>(rows.size(1));
  problem.dim = static_cast<int>(rows.size(2));
  problem.page_size = static_cast<int>(page_size);
  problem.cut = static_cast<int>(cut);
  return problem;
}

bool pages_can_be(const at::Tensor& rows, std::int64_t page_size) {
  return type_of(rows) && rows.numel() > 0 && is_countable(rows) &&
         page_size <= std::numeric_limits<std::int32_t>::max() / 2;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> keep_best_rows(
    const Launcher& on_device, const at::Tensor& scores_in, std::int64_t budget,
    const std::optional<at::Tensor>& forced_in) {
  if (!is_countable(scores_in))
    return run_generic<SignatureOf<keep_best_rows>>("kvloupe::keep_best_rows", scores_in, budget,
                                                    forced_in);
  const at::Tensor scores =
      scores_in.stride(1) == 1 || scores_in.size(1) == 1 ? scores_in : scores_in.contiguous();
  const std::int64_t rows = scores.size(0), kept = std::min(budget, scores.size(1));
  const auto options = [&](at::ScalarType type) { return scores.options().dtype(type); };
  const at::Tensor indices = at::empty({rows, kept}, options(at::kInt));
  if (rows == 0 || kept == 0) {
    const at::Tensor none = at::zeros({rows}, options(at::kLong));
    return {indices, none, none};
  }
  const at::Tensor num_forced = at::empty({rows}, options(at::kLong)),
                   ties = at::empty({rows}, options(at::kLong));
  const at::Tensor forced = forced_in ? forced_in->to(scores.device()).contiguous() : at::Tensor();
  KeepBest problem;
  problem.scores = scores.const_data_ptr<float>();
  problem.row_stride = scores.stride(0);
  problem.forced = forced_in ? forced.const_data_ptr<std::uint8_t>() : nullptr;
  problem.rows = static_cast<int>(rows);
  problem.count = static_cast<int>(scores.size(1));
  problem.kept = static_cast<int>(kept);
  problem.indices = indices.mutable_data_ptr<std::int32_t>();
  problem.num_forced = num_forced.mutable_data_ptr<std::int64_t>();
  problem.ties_at_cut = ties.mutable_data_ptr<std::int64_t>();
  const at::Tensor scratch =
      at::empty({static_cast<std::int64_t>(keep_best_scratch(problem))}, options(at::kByte));
  problem.scratch = scratch.mutable_data_ptr();
  check(on_device([&](cudaStream_t stream) { return launch_keep_best(problem, stream); }),
        "keep_best_rows");
  return {indices, num_forced, ties};
}

at::Tensor ranked_rows(const Launcher& on_device, const at::Tensor& scores_in, std::int64_t count) {
  const std::int64_t rows = scores_in.size(0), kept = std::min(count, scores_in.size(1));
  const bool is_wide = scores_in.scalar_type() == at::kDouble;
  if ((!is_wide && scores_in.scalar_type() != at::kFloat) || scores_in.size(1) > kMostRanked ||
      !is_countable(scores_in))
    return run_generic<SignatureOf<ranked_rows>>("kvloupe::ranked_rows", scores_in, count);
  const at::Tensor scores = scores_in.contiguous();
  const at::Tensor indices = at::empty({rows, kept}, scores.options().dtype(at::kInt));
  if (rows == 0 || kept == 0) return indices;
  RankedRows problem;
  if (is_wide)
    problem.wide_scores = scores.const_data_ptr<double>();
  else
    problem.scores = scores.const_data_ptr<float>();
  problem.row_stride = scores.size(1);
  problem.rows = static_cast<int>(rows);
  problem.count = static_cast<int>(scores.size(1));
  problem.kept = static_cast<int>(kept);
  problem.indices = indices.mutable_data_ptr<std::int32_t>();
  check(on_device([&](cudaStream_t stream) { return launch_ranked_rows(problem, stream); }),
        "ranked_rows");
  return indices;
}

at::Tensor query_relevance(const Launcher& on_device, const at::Tensor& q_in) {
  if (!type_of(q_in) || q_in.numel() == 0 || q_in.size(2) > kMostChannels || !is_countable(q_in))
    return run_generic<SignatureOf<query_relevance>>("kvloupe::query_relevance", q_in);
  const at::Tensor q = with_channels_together(q_in);
  const at::Tensor relevance = at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kDouble));
  QueryRelevance problem;
  problem.type = type_of(q).value();
  problem.q = q.const_data_ptr();
  problem.head_stride = q.stride(0);
  problem.row_stride = q.stride(1);
  problem.heads = static_cast<int>(q.size(0));
  problem.rows = static_cast<int>(q.size(1));
  problem.dim = static_cast<int>(q.size(2));
  problem.relevance = relevance.mutable_data_ptr<double>();
  check(on_device([&](cudaStream_t stream) { return launch_query_relevance(problem, stream); }),
        "query_relevance");
  return relevance;
}

at::Tensor score_keys(const Launcher& on_device, const at::Tensor& q_in, const at::Tensor& k_in,
                      const at::Tensor& chosen_in, std::int64_t num_candidates, bool cosine,
                      bool mean_of_queries, bool scores_first) {
  TORCH_CHECK(q_in.device() == k_in.device(), "q and k lie on different devices");
  TORCH_CHECK(0 <= num_candidates && num_candidates <= k_in.size(1), "too many candidates");
  const bool does = k_in.size(2) >= 1 && k_in.size(2) <= kMostChannels && chosen_in.size(1) >= 1 &&
                    type_of(k_in) && has_type_of(q_in, k_in) && is_countable(q_in) &&
                    is_countable(k_in);
  if (!does)
    return run_generic<SignatureOf<score_keys>>("kvloupe::score_keys", q_in, k_in, chosen_in,
                                                num_candidates, cosine, mean_of_queries,
                                                scores_first);
  const at::Tensor q = with_channels_together(q_in), k = contiguous_per_head(k_in);
  const at::Tensor chosen = attention::uploaded(chosen_in, q.device()).contiguous();
  const at::Tensor scores = at::empty({k.size(0), num_candidates}, fp32_beside(k));
  if (num_candidates == 0) return scores;
  ScoreKeys problem;
  problem.type = type_of(k).value();
  problem.q = q.const_data_ptr();
  problem.q_head_stride = q.stride(0);
  problem.q_row_stride = q.stride(1);
  problem.k = k.const_data_ptr();
  problem.k_head_stride = k.stride(0);
  problem.chosen = chosen.const_data_ptr<std::int32_t>();
  problem.num_q_heads = static_cast<int>(q.size(0));
  problem.num_kv_heads = static_cast<int>(k.size(0));
  problem.slots = static_cast<int>(chosen.size(1));
  problem.num_keys = static_cast<int>(num_candidates);
  problem.head_dim = static_cast<int>(k.size(2));
  problem.cosine = cosine;
  problem.mean_of_queries = mean_of_queries;
  problem.scores_first = scores_first;
  const at::Tensor rows =
      at::empty({static_cast<std::int64_t>(problem.room_for_rows())}, fp32_beside(k));
  problem.rows = rows.mutable_data_ptr<float>();
  problem.scores = scores.mutable_data_ptr<float>();
  check(on_device([&](cudaStream_t stream) { return launch_score_keys(problem, stream); }),
        "score_keys");
  return scores;
}

at::Tensor key_products(const Launcher& on_device, const at::Tensor& rows_in,
                        const at::Tensor& keys_in) {
  TORCH_CHECK(rows_in.device() == keys_in.device(), "rows and keys lie on different devices");
  const bool does = type_of(keys_in) && rows_in.numel() > 0 && keys_in.numel() > 0 &&
                    (rows_in.scalar_type() == at::kFloat || has_type_of(rows_in, keys_in)) &&
                    keys_in.size(2) <= kMostChannels && is_countable(rows_in) &&
                    is_countable(keys_in);
  if (!does)
    return run_generic<SignatureOf<key_products>>("kvloupe::key_products", rows_in, keys_in);
  const at::Tensor rows = rows_in.stride(1) == 1 ? rows_in : rows_in.contiguous(),
                   keys = contiguous_per_head(keys_in);
  PackRows pack;
  pack.row_stride = rows.stride(0);
  pack.sets = static_cast<int>(keys.size(0));
  pack.rows_per_set = static_cast<int>(rows.size(0) / keys.size(0));
  pack.set_stride = pack.rows_per_set * pack.row_stride;
  pack.dim = static_cast<int>(rows.size(1));
  return products_of(on_device, "key_products", rows, pack, {}, keys);
}

at::Tensor page_scores(const Launcher& on_device, const at::Tensor& q_in,
                       const at::Tensor& bounds) {
  TORCH_CHECK(q_in.device() == bounds.device(), "q and bounds lie on different devices");
  const std::int64_t heads = bounds.size(0), dim = q_in.size(2);
  const bool does = type_of(q_in) && has_type_of(bounds, q_in) && q_in.numel() > 0 &&
                    bounds.numel() > 0 && 2 * dim <= kMostChannels && is_countable(q_in) &&
                    is_countable(bounds);
  if (!does) return run_generic<SignatureOf<page_scores>>("kvloupe::page_scores", q_in, bounds);
  const at::Tensor q = with_channels_together(q_in);
  const at::Tensor keys = contiguous_per_head(bounds.flatten(2));
  const std::int64_t share = q.size(0) / heads;
  PackRows pack;
  pack.dim = static_cast<int>(dim);
  pack.split = true;
  RowProducts products;
  if (q.size(1) == 1) {
    // The heads of a group side by side: a block of rows for each would be mostly padding.
    pack.sets = static_cast<int>(heads);
    pack.rows_per_set = static_cast<int>(share);
    pack.set_stride = share * q.stride(0);
    pack.row_stride = q.stride(0);
  } else {
    pack.sets = static_cast<int>(q.size(0));
    pack.rows_per_set = static_cast<int>(q.size(1));
    pack.set_stride = q.stride(0);
    pack.row_stride = q.stride(1);
    products.reduce = RowReduce::Largest;
  }
  return products_of(on_device, "page_scores", q, pack, products, keys);
}

at::Tensor page_bounds(const Launcher& on_device, const at::Tensor& rows_in, std::int64_t page_size,
                       std::int64_t cut) {
  if (!pages_can_be(rows_in, page_size))
    return run_generic<SignatureOf<page_bounds>>("kvloupe::page_bounds", rows_in, page_size, cut);
  const at::Tensor rows = contiguous_per_head(rows_in);
  PagesOfRows problem = pages_of(rows, page_size, cut);
  const at::Tensor bounds =
      at::empty({rows.size(0), problem.num_pages(), 2, rows.size(2)}, rows.options());
  problem.results = bounds.mutable_data_ptr();
  check(on_device([&](cudaStream_t stream) { return launch_page_bounds(problem, stream); }),
        "page_bounds");
  return bounds;
}

at::Tensor block_means(const Launcher& on_device, const at::Tensor& rows_in,
                       std::int64_t block_size, std::int64_t cut) {
  if (!pages_can_be(rows_in, block_size))
    return run_generic<SignatureOf<block_means>>("kvloupe::block_means", rows_in, block_size, cut);
  const at::Tensor rows = contiguous_per_head(rows_in);
  PagesOfRows problem = pages_of(rows, block_size, cut);
  const at::Tensor means =
      at::empty({rows.size(0), problem.num_pages(), rows.size(2)}, fp32_beside(rows));
  problem.results = means.mutable_data_ptr();
  check(on_device([&](cudaStream_t stream) { return launch_block_means(problem, stream); }),
        "block_means");
  return means;
}

}  // namespace kvloupe::cuda
