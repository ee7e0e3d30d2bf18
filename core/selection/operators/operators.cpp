// The schemas of the operators, and the typed functions of operators.h that call them through Torch's
// dispatcher.
#include "core/selection/operators/operators.h"

#include "core/attention/find_operator.h"
#include "core/attention/number_types.h"
#include "core/attention/register_operators.h"
#include "core/base/error.h"
#include "core/selection/operators/cpu_forms.h"
#include "core/selection/operators/generic_forms.h"

#include <ATen/ATen.h>

#include <optional>

namespace kvloupe::selection {
namespace {

using at::Tensor;
using attention::find_operator;
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

// A row of numbers on the host that lives as long as the call; nothing of an empty one.
template <typename T>
MaybeTensor borrowed(const std::vector<T>& values, at::ScalarType type) {
  if (values.empty()) return std::nullopt;
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<std::int64_t>(values.size())},
                       type);
}

// Heads of a cache that grows lie apart; inside a head nothing may.
void check_keys(const Tensor& keys) {
  KVLOUPE_CHECK(keys.dim() == 3);
  attention::check_types({keys});
  KVLOUPE_CHECK(keys.size(1) <= 1 || keys.stride(1) == keys.size(2));
  KVLOUPE_CHECK(keys.size(2) <= 1 || keys.stride(2) == 1);
}

// The queries and the keys in one type; of two types both are widened.
struct OneType {
  Tensor queries, keys;
};
OneType in_one_type(const Tensor& queries, const Tensor& keys) {
  if (queries.scalar_type() == keys.scalar_type()) return {queries, keys};
  return {queries.to(at::kFloat), keys.to(at::kFloat)};
}

// Sets, heads or rows of `many` share what `few` have, a run of them each.
void check_shared(const Tensor& many, const Tensor& few) {
  KVLOUPE_CHECK(few.size(0) > 0 && many.size(0) % few.size(0) == 0);
}

void check_sets(const RowSets& sets, const Tensor& keys) {
  check_keys(keys);
  const Tensor& queries = sets.queries;
  KVLOUPE_CHECK(queries.dim() == 3 && queries.size(2) == keys.size(2));
  check_shared(queries, keys);
  const auto rows = static_cast<std::size_t>(queries.size(1));
  KVLOUPE_CHECK(sets.visible.size() == rows);
  KVLOUPE_CHECK(sets.first.empty() || sets.first.size() == rows);
  KVLOUPE_CHECK(sets.sinks.empty() ||
                sets.sinks.size() == rows * static_cast<std::size_t>(queries.size(0)));
}

}  // namespace

KeptRows keep_best_rows(const Tensor& scores, std::int64_t budget, const Tensor& forced) {
  KVLOUPE_CHECK(scores.dim() == 2 && scores.scalar_type() == at::kFloat && budget >= 0);
  KVLOUPE_CHECK(!forced.defined() || forced.size(0) == scores.size(1));
  static const auto op = find_operator<decltype(cpu::keep_best_rows)>("kvloupe::keep_best_rows");
  auto [indices, num_forced, ties] = op.call(scores, budget, maybe(forced));
  return {indices, num_forced, ties};
}

Tensor ranked_rows(const Tensor& scores, std::int64_t count) {
  KVLOUPE_CHECK(scores.dim() == 2 && scores.is_floating_point() && count >= 0);
  static const auto op = find_operator<decltype(cpu::ranked_rows)>("kvloupe::ranked_rows");
  return op.call(scores, count);
}

Tensor query_relevance(const Tensor& q) {
  static const auto op = find_operator<decltype(cpu::query_relevance)>("kvloupe::query_relevance");
  return op.call(q);
}

Tensor score_keys(const Tensor& q, const Tensor& k, const Tensor& chosen,
                  std::int64_t num_candidates, const CosineScoring& options) {
  check_keys(k);
  check_shared(q, k);
  KVLOUPE_CHECK(chosen.size(0) == q.size(0) && chosen.scalar_type() == at::kInt);
  static const auto op = find_operator<decltype(cpu::score_keys)>("kvloupe::score_keys");
  const OneType of = in_one_type(q, k);
  return op.call(of.queries, of.keys, chosen, num_candidates, options.metric == KeyMetric::Cosine,
                 options.query_reduce == QueryReduce::Mean,
                 options.group_reduce == GroupReduce::ScoresFirst);
}

Tensor difference_scores(const Tensor& k, std::int64_t num_scored) {
  check_keys(k);
  static const auto op =
      find_operator<decltype(cpu::difference_scores)>("kvloupe::difference_scores");
  return op.call(k, num_scored);
}

Tensor key_products(const Tensor& rows, const Tensor& keys) {
  check_keys(keys);
  check_shared(rows, keys);
  KVLOUPE_CHECK(rows.size(1) == keys.size(2));
  static const auto op = find_operator<decltype(cpu::key_products)>("kvloupe::key_products");
  return op.call(rows, keys);
}

Tensor reduce_probabilities(const RowSets& sets, const Tensor& keys, ColumnReduce reduce) {
  check_sets(sets, keys);
  static const auto op =
      find_operator<decltype(cpu::reduce_probabilities)>("kvloupe::reduce_probabilities");
  const OneType of = in_one_type(sets.queries, keys);
  return op.call(of.queries, of.keys, *borrowed(sets.visible, at::kLong),
                 borrowed(sets.first, at::kLong), borrowed(sets.sinks, at::kFloat), sets.scale,
                 sets.softcap, reduce == ColumnReduce::Max);
}

Tensor joint_softmax_sums(const RowSets& sets, const Tensor& keys) {
  check_sets(sets, keys);
  static const auto op =
      find_operator<decltype(cpu::joint_softmax_sums)>("kvloupe::joint_softmax_sums");
  const OneType of = in_one_type(sets.queries, keys);
  return op.call(of.queries, of.keys, *borrowed(sets.visible, at::kLong),
                 borrowed(sets.first, at::kLong), sets.scale, sets.softcap);
}

ColumnsAndSlashes columns_and_slashes(const RowSets& sets, const Tensor& keys) {
  check_sets(sets, keys);
  static const auto op =
      find_operator<decltype(cpu::columns_and_slashes)>("kvloupe::columns_and_slashes");
  const OneType of = in_one_type(sets.queries, keys);
  auto [columns, slashes] = op.call(of.queries, of.keys, *borrowed(sets.visible, at::kLong),
                                    borrowed(sets.first, at::kLong),
                                    borrowed(sets.sinks, at::kFloat), sets.scale, sets.softcap);
  return {columns, slashes};
}

Tensor page_bounds(const Tensor& rows, std::int64_t page_size, std::int64_t cut) {
  check_keys(rows);
  KVLOUPE_CHECK(rows.size(1) > 0 && 0 <= cut && cut < page_size);
  static const auto op = find_operator<decltype(cpu::page_bounds)>("kvloupe::page_bounds");
  return op.call(rows, page_size, cut);
}

Tensor page_scores(const Tensor& q, const Tensor& bounds) {
  check_shared(q, bounds);
  KVLOUPE_CHECK(bounds.dim() == 4 && bounds.size(3) == q.size(2));
  static const auto op = find_operator<decltype(cpu::page_scores)>("kvloupe::page_scores");
  const OneType of = in_one_type(q, bounds);
  return op.call(of.queries, of.keys);
}

Tensor block_means(const Tensor& rows, std::int64_t block_size, std::int64_t cut) {
  check_keys(rows);
  KVLOUPE_CHECK(rows.size(1) > 0 && 0 <= cut && cut < block_size);
  static const auto op = find_operator<decltype(cpu::block_means)>("kvloupe::block_means");
  return op.call(rows, block_size, cut);
}

Tensor rotate_rows(const Tensor& rows, const Tensor& directions, std::int64_t width) {
  check_keys(rows);
  check_shared(rows, directions);
  static const auto op = find_operator<decltype(cpu::rotate_rows)>("kvloupe::rotate_rows");
  return op.call(rows, directions, width);
}

LargestLanes largest_lanes(const Tensor& rotated, std::int64_t kept) {
  static const auto op = find_operator<decltype(cpu::largest_lanes)>("kvloupe::largest_lanes");
  auto [values, lanes, counts] = op.call(rotated, kept);
  return {values, lanes, counts};
}

void store_lanes(const Tensor& tiles, const Tensor& rows, std::int64_t place) {
  static const auto op = find_operator<decltype(cpu::store_lanes)>("kvloupe::store_lanes");
  op.call(tiles, rows, place);
}

Tensor load_lanes(const Tensor& tiles, const Tensor& lanes, std::int64_t first,
                  std::int64_t count) {
  KVLOUPE_CHECK(lanes.size(0) == tiles.size(0));
  static const auto op = find_operator<decltype(cpu::load_lanes)>("kvloupe::load_lanes");
  return op.call(tiles, lanes, first, count);
}

Tensor channel_products(const Tensor& rows, const Tensor& channels, const Tensor& tiles,
                        std::int64_t first, std::int64_t count) {
  KVLOUPE_CHECK(channels.size(0) == tiles.size(0) && rows.size(0) == tiles.size(0));
  static const auto op =
      find_operator<decltype(cpu::channel_products)>("kvloupe::channel_products");
  return op.call(rows, channels, tiles, first, count);
}

Tensor gate_rows(const Tensor& pooled, const Tensor& weights) {
  check_shared(weights, pooled);
  static const auto op = find_operator<decltype(cpu::gate_rows)>("kvloupe::gate_rows");
  return op.call(pooled, weights);
}

KVLOUPE_REGISTER_OPERATORS(KVLOUPE_SELECTION_OPERATORS)

}  // namespace kvloupe::selection
