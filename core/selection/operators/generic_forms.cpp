#include "core/selection/operators/generic_forms.h"

#include "core/attention/lane_products.h"
#include "core/attention/upload.h"
#include "core/selection/operators/operators.h"

#include <ATen/ATen.h>
#include <ATen/TensorIndexing.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace kvloupe::selection::generic {
namespace {

using at::indexing::Slice;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor counting(std::int64_t count, const Tensor& like) {
  return at::arange(count, at::dtype(at::kLong).device(like.device()));
}

// rank_value() of ranking.h, [0, 2^32) in int64.
Tensor rank_values(const Tensor& scores) {
  constexpr std::int64_t kSign = 1LL << 31, kAll = (1LL << 32) - 1;
  // Adding 0 turns -0 into +0.
  const Tensor bits = (scores + 0.0).contiguous().view(at::kInt).to(at::kLong).bitwise_and(kAll);
  const Tensor values = at::where(bits >= kSign, kAll - bits, bits + kSign);
  return values.masked_fill(scores.isnan(), 0);
}

// One number orders value and position: the larger comes first, of equal values the lower position.
// Distinct, so that no sort may choose.
constexpr std::int64_t kPositions = 1LL << 31;
Tensor order_keys(const Tensor& values) {
  return values * kPositions + (kPositions - 1 - counting(values.size(1), values));
}
Tensor value_of(const Tensor& keys) { return keys.bitwise_right_shift(31); }
Tensor position_of(const Tensor& keys) { return kPositions - 1 - keys.bitwise_and(kPositions - 1); }

// The first `count` of the falling order.
Tensor largest_keys(const Tensor& keys, std::int64_t count) {
  return std::get<0>(keys.sort(1, /*descending=*/true)).narrow(1, 0, count);
}

// z of the rows of some sets against the keys of their KV head, [sets, R, T]; -inf where not seen.
Tensor masked_logits(const Tensor& queries, const Tensor& keys, const Tensor& visible,
                     const MaybeTensor& first, double scale, double softcap) {
  Tensor logits = at::matmul(queries.to(at::kFloat), keys.to(at::kFloat).t());
  logits = softcap > 0 ? (logits * (scale / softcap)).tanh() * softcap : logits * scale;
  const Tensor key = counting(keys.size(0), keys);
  Tensor hidden = key >= attention::uploaded(visible, keys.device()).unsqueeze(1);
  if (first)
    hidden = hidden.logical_or(key < attention::uploaded(*first, keys.device()).unsqueeze(1));
  return logits.masked_fill(hidden, -kInfinity);
}

// Runs work(first set, sets, keys of one KV head) for each KV head.
template <typename Work>
void for_each_kv_head(const Tensor& sets, const Tensor& keys, const Work& work) {
  const std::int64_t each = sets.size(0) / keys.size(0);
  for (std::int64_t head = 0; head < keys.size(0); ++head) work(head * each, each, keys[head]);
}

// Softmax over the keys of each row, a sink among them, [sets, R, T]. Rows that see nothing: 0.
Tensor probabilities(const Tensor& queries, const Tensor& keys, const Tensor& visible,
                     const MaybeTensor& first, const MaybeTensor& sinks, std::int64_t first_set,
                     double scale, double softcap) {
  const Tensor logits = masked_logits(queries, keys, visible, first, scale, softcap);
  Tensor largest = logits.amax(2, true), sink;
  if (sinks) {
    const std::int64_t rows = queries.size(1);
    sink = attention::uploaded(sinks->narrow(0, first_set * rows, queries.size(0) * rows),
                               keys.device())
               .view({queries.size(0), rows, 1});
    largest = at::maximum(largest, sink);
  }
  largest = largest.masked_fill(largest == -kInfinity, 0);
  const Tensor powers = (logits - largest).exp();
  Tensor totals = powers.sum({2}, true, at::kDouble);
  if (sinks) totals = totals + (sink - largest).to(at::kDouble).exp();
  const Tensor weights = totals.reciprocal().masked_fill(totals == 0, 0).to(at::kFloat);
  return powers * weights;
}

// The rows of each page, [G, pages, page_size, D]: `before` stands before the first row, `after` after the
// last.
Tensor in_pages(const Tensor& rows, std::int64_t page_size, std::int64_t cut, const Tensor& before,
                const Tensor& after) {
  const std::int64_t heads = rows.size(0), count = rows.size(1), dim = rows.size(2);
  const std::int64_t pages = (count + cut + page_size - 1) / page_size;
  const std::int64_t missing = pages * page_size - cut - count;
  return at::cat({before.expand({heads, cut, dim}), rows, after.expand({heads, missing, dim})}, 1)
      .view({heads, pages, page_size, dim});
}

// Runs work(keys of the piece) for pieces of the keys, ascending, at least for one: what work makes of them
// in a wider type stays small beside K.
template <typename Work>
void for_each_piece(const Tensor& keys, const Work& work) {
  constexpr std::int64_t kKeysOfPiece = 1 << 14;
  std::int64_t first = 0;
  do {
    work(keys.narrow(1, first, std::min(kKeysOfPiece, keys.size(1) - first)));
    first += kKeysOfPiece;
  } while (first < keys.size(1));
}

// Of pieces one after the other.
Tensor joined(const std::vector<Tensor>& pieces) {
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces, 1);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> keep_best_rows(const Tensor& scores, std::int64_t budget,
                                                  const MaybeTensor& forced) {
  const std::int64_t rows = scores.size(0), kept = std::min(budget, scores.size(1));
  constexpr std::int64_t kForced = 1LL << 32;
  // Forced before all; the shift by kForced keeps the order keys within int64.
  Tensor values = rank_values(scores) - kForced;
  if (forced) values = values + forced->to(scores.device()).ne(0).to(at::kLong) * kForced;
  const Tensor none = at::zeros({rows}, at::dtype(at::kLong).device(scores.device()));
  if (kept == 0)
    return {at::empty({rows, 0}, at::dtype(at::kInt).device(scores.device())), none, none};
  const Tensor best = largest_keys(order_keys(values), kept);
  const Tensor best_values = value_of(best);
  const Tensor cut = best_values.narrow(1, kept - 1, 1);
  const Tensor ties = (values == cut).sum(1) - (best_values == cut).sum(1);
  const Tensor indices = std::get<0>(position_of(best).sort(1, /*descending=*/false)).to(at::kInt);
  return {indices, (best_values >= 0).sum(1), ties};
}

Tensor ranked_rows(const Tensor& scores, std::int64_t count) {
  const std::int64_t kept = std::min(count, scores.size(1));
  // Half of the range below 0: the order keys stay within int64.
  const Tensor keys = order_keys(rank_values(scores.to(at::kFloat)) - kPositions);
  return position_of(largest_keys(keys, kept)).to(at::kInt);
}

Tensor query_relevance(const Tensor& q) {
  const Tensor rows = q.to(at::kDouble);
  const Tensor mean = rows.mean({1}, true);
  const auto length = [](const Tensor& row) {
    return at::linalg_vector_norm(row, 2, {-1}).clamp_min(kCosineEpsilon);
  };
  return -(rows * mean).sum(-1) / (length(mean) * length(rows));
}

Tensor score_keys(const Tensor& q, const Tensor& k, const Tensor& chosen,
                  std::int64_t num_candidates, bool cosine, bool mean_of_queries,
                  bool scores_first) {
  const std::int64_t heads = k.size(0), dim = k.size(2), group = q.size(0) / heads;
  const Tensor slots = attention::uploaded(chosen, q.device()).to(at::kLong).unsqueeze(2);
  Tensor rows = q.gather(1, slots.expand({-1, -1, dim})).to(at::kDouble);
  if (cosine) rows = rows / at::linalg_vector_norm(rows, 2, {-1}, true).clamp_min(kCosineEpsilon);
  if (mean_of_queries) rows = rows.mean({1}, true);
  rows = rows.view({heads, group, rows.size(1), dim});
  if (!scores_first) rows = rows.mean({1}, true);
  const std::int64_t sets = rows.size(1), count = rows.size(2);
  const Tensor keys = k.narrow(1, 0, num_candidates).to(at::kFloat);
  const Tensor products =
      at::matmul(rows.to(at::kFloat).view({heads, sets * count, dim}), keys.transpose(1, 2));
  const Tensor scores = products.view({heads, sets, count, num_candidates})
                            .amax(2)
                            .to(at::kDouble)
                            .mean(1)
                            .to(at::kFloat);
  if (!cosine) return scores;
  return scores / at::linalg_vector_norm(keys, 2, {-1}, false, at::kDouble)
                      .to(at::kFloat)
                      .clamp_min(kCosineEpsilon);
}

Tensor difference_scores(const Tensor& k, std::int64_t num_scored) {
  constexpr double kNormaliseEpsilon = 1e-12, kLeastLength = 1e-8;
  std::vector<Tensor> lengths, products;
  Tensor sum;  // of the keys as units, [G, 1, D]
  for_each_piece(k, [&](const Tensor& piece) {
    Tensor keys = piece.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    lengths.push_back(at::linalg_vector_norm(keys, 2, {-1}, true));
    const Tensor of_piece = keys.div_(lengths.back().clamp_min(kNormaliseEpsilon)).sum({1}, true);
    sum = sum.defined() ? sum + of_piece : of_piece;
  });
  const Tensor mean = sum / static_cast<double>(k.size(1));
  const Tensor mean_length = at::linalg_vector_norm(mean, 2, {-1}, true).clamp_min(kLeastLength);
  const Tensor mean_row = mean.to(at::kFloat).squeeze(1);
  for_each_piece(k.narrow(1, 0, num_scored),
                 [&](const Tensor& piece) { products.push_back(key_products(mean_row, piece)); });
  const Tensor scored = joined(lengths).squeeze(2).narrow(1, 0, num_scored).clamp_min(kLeastLength);
  return (-joined(products).to(at::kDouble) / (mean_length.squeeze(2) * scored)).to(at::kFloat);
}

Tensor key_products(const Tensor& rows, const Tensor& keys) {
  const std::int64_t heads = keys.size(0);
  return at::matmul(rows.to(at::kFloat).view({heads, -1, rows.size(1)}),
                    keys.to(at::kFloat).transpose(1, 2))
      .view({rows.size(0), keys.size(1)});
}

Tensor reduce_probabilities(const Tensor& queries, const Tensor& keys, const Tensor& visible,
                            const MaybeTensor& first, const MaybeTensor& sinks, double scale,
                            double softcap, bool largest) {
  std::vector<Tensor> parts;
  for_each_kv_head(queries, keys, [&](std::int64_t set, std::int64_t sets, const Tensor& of_head) {
    const Tensor p = probabilities(queries.narrow(0, set, sets), of_head, visible, first, sinks,
                                   set, scale, softcap);
    parts.push_back(largest ? p.amax(1) : p.sum({1}, false, at::kDouble).to(at::kFloat));
  });
  return at::cat(parts, 0);
}

Tensor joint_softmax_sums(const Tensor& queries, const Tensor& keys, const Tensor& visible,
                          const MaybeTensor& first, double scale, double softcap) {
  std::vector<Tensor> parts;
  for_each_kv_head(queries, keys, [&](std::int64_t set, std::int64_t sets, const Tensor& of_head) {
    const Tensor logits =
        masked_logits(queries.narrow(0, set, sets), of_head, visible, first, scale, softcap);
    const Tensor largest = logits.amax({1, 2}, true);
    const Tensor shift = largest.masked_fill(largest == -kInfinity, 0);
    parts.push_back((logits - shift).exp().sum({1}, false, at::kDouble));
  });
  return at::cat(parts, 0);
}

std::tuple<Tensor, Tensor> columns_and_slashes(const Tensor& queries, const Tensor& keys,
                                               const Tensor& visible, const MaybeTensor& first,
                                               const MaybeTensor& sinks, double scale,
                                               double softcap) {
  std::vector<Tensor> columns, slashes;
  const Tensor distance = counting(keys.size(1), keys);
  const Tensor key =
      attention::uploaded(visible, keys.device()).unsqueeze(1) - 1 - distance;  // [R, T]
  for_each_kv_head(queries, keys, [&](std::int64_t set, std::int64_t sets, const Tensor& of_head) {
    const Tensor p = probabilities(queries.narrow(0, set, sets), of_head, visible, first, sinks,
                                   set, scale, softcap);
    columns.push_back(p.sum({1}, false, at::kDouble).to(at::kFloat));
    const Tensor turned = p.gather(2, key.clamp_min(0).unsqueeze(0).expand_as(p));
    slashes.push_back(turned.masked_fill(key < 0, 0).sum({1}, false, at::kDouble).to(at::kFloat));
  });
  return {at::cat(columns, 0), at::cat(slashes, 0)};
}

Tensor page_bounds(const Tensor& rows, std::int64_t page_size, std::int64_t cut) {
  const Tensor pages =
      in_pages(rows, page_size, cut, rows.narrow(1, 0, 1), rows.narrow(1, rows.size(1) - 1, 1));
  return at::stack({pages.amax(2), pages.amin(2)}, 2);
}

Tensor page_scores(const Tensor& q, const Tensor& bounds) {
  const std::int64_t heads = bounds.size(0), pages = bounds.size(1), dim = bounds.size(3);
  const Tensor split = at::cat({q.clamp_min(0), q.clamp_max(0)}, 2).to(at::kFloat);
  const Tensor each = bounds.reshape({heads, pages, 2 * dim}).to(at::kFloat);
  const Tensor products = at::matmul(split.view({heads, -1, 2 * dim}), each.transpose(1, 2));
  return products.view({q.size(0), q.size(1), pages}).amax(1);
}

Tensor block_means(const Tensor& rows, std::int64_t block_size, std::int64_t cut) {
  const Tensor wide = rows.to(at::kDouble);
  const Tensor zero = at::zeros({1, 1, 1}, wide.options());
  const Tensor blocks = in_pages(wide, block_size, cut, zero, zero);
  const Tensor begins = counting(blocks.size(1), rows) * block_size - cut;
  const Tensor counts =
      (begins + block_size).clamp_max(rows.size(1)) - begins.clamp_min(0);  // real rows
  return (blocks.sum(2) / counts.unsqueeze(1)).to(at::kFloat);
}

Tensor rotate_rows(const Tensor& rows, const Tensor& directions, std::int64_t width) {
  const std::int64_t heads = directions.size(0), dim = rows.size(2);
  return at::matmul(rows.reshape({heads, -1, dim}).to(at::kFloat), directions.narrow(2, 0, width))
      .view({rows.size(0), rows.size(1), width});
}

std::tuple<Tensor, Tensor, Tensor> largest_lanes(const Tensor& rotated, std::int64_t kept) {
  const std::int64_t lanes = rotated.size(2);
  const Tensor chosen =
      std::get<0>(keep_best_rows(rotated.abs().view({-1, lanes}), kept, std::nullopt))
          .view({rotated.size(0), rotated.size(1), kept});
  const Tensor ones = at::ones_like(chosen).flatten(1);
  const Tensor counts = at::zeros({rotated.size(0), lanes}, chosen.options())
                            .scatter_add_(1, chosen.flatten(1).to(at::kLong), ones);
  return {rotated.gather(2, chosen.to(at::kLong)), chosen, counts};
}

void store_lanes(const Tensor& tiles, const Tensor& rows, std::int64_t place) {
  const Tensor places = counting(rows.size(1), rows) + place;
  const Tensor tile = at::floor_divide(places, attention::kLaneTileKeys);
  const Tensor slot = places - tile * attention::kLaneTileKeys;
  // Indices of two dimensions with one between them come first: [n, G, W].
  Tensor target = tiles;
  target.index_put_({Slice(), tile, Slice(), slot}, rows.transpose(0, 1).to(tiles.scalar_type()));
}

Tensor load_lanes(const Tensor& tiles, const Tensor& lanes, std::int64_t first,
                  std::int64_t count) {
  const Tensor index = attention::uploaded(lanes, tiles.device()).to(at::kLong);
  const std::int64_t begin = first / attention::kLaneTileKeys;
  const std::int64_t end = attention::num_lane_tiles(first + count);
  std::vector<Tensor> heads;
  for (std::int64_t head = 0; head < tiles.size(0); ++head)
    heads.push_back(tiles[head]
                        .narrow(0, begin, end - begin)
                        .index_select(1, index[head])
                        .transpose(1, 2)
                        .reshape({-1, index.size(1)}));
  return at::stack(heads, 0)
      .narrow(1, first - begin * attention::kLaneTileKeys, count)
      .contiguous();
}

Tensor channel_products(const Tensor& rows, const Tensor& channels, const Tensor& tiles,
                        std::int64_t first, std::int64_t count) {
  const Tensor keys = load_lanes(tiles, channels, first, count);
  const Tensor values = rows.gather(1, attention::uploaded(channels, rows.device()).to(at::kLong));
  return at::matmul(keys, values.unsqueeze(2)).squeeze(2);
}

Tensor gate_rows(const Tensor& pooled, const Tensor& weights) {
  const std::int64_t share = weights.size(0) / pooled.size(0);
  return at::matmul(pooled.repeat_interleave(share, 0), weights);
}

}  // namespace kvloupe::selection::generic
