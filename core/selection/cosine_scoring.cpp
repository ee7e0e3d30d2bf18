#include "core/selection/cosine_scoring.h"

#include "core/selection/cell_rows.h"
#include "core/selection/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace kvloupe::selection {
namespace {

// Sums in fp64 over independent lanes, in an order that depends on n alone.
template <typename Term>
double lane_sum(std::int64_t n, const Term& term) {
  constexpr std::int64_t kLanes = 8;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(i + lane);
  for (; i < n; ++i) sums[0] += term(i);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

double dot(const double* a, const float* b, std::int64_t n) {
  return lane_sum(n, [=](std::int64_t i) { return a[i] * static_cast<double>(b[i]); });
}

double norm(const float* a, std::int64_t n) {
  return std::sqrt(lane_sum(
      n, [=](std::int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(a[i]); }));
}

// Adds `row`, of unit length for the cosine, to `sum`.
void add_query(const float* row, std::int64_t dim, KeyMetric metric, double* sum) {
  const double length =
      metric == KeyMetric::Cosine ? std::max(norm(row, dim), kCosineEpsilon) : 1.0;
  for (std::int64_t i = 0; i < dim; ++i) sum[i] += static_cast<double>(row[i]) / length;
}

// The mean of the chosen rows of `heads`, slot by slot: [slots, dim]. In fp64, so that identical
// heads average to themselves. A mean over queries is linear too: one slot does.
std::vector<float> mean_rows(const Cell& cell, std::span<const std::int64_t> heads,
                             const std::vector<std::vector<std::int32_t>>& chosen,
                             const CosineScoring& options) {
  const std::int64_t dim = cell.q.size(2);
  const auto num_chosen = static_cast<std::int64_t>(chosen[heads.front()].size());
  const bool one_slot = options.query_reduce == QueryReduce::Mean;
  const std::int64_t slots = one_slot ? 1 : num_chosen;
  std::vector<double> sums(static_cast<std::size_t>(slots * dim), 0.0);
  for (const std::int64_t head : heads)
    for (std::int64_t slot = 0; slot < num_chosen; ++slot)
      add_query(query_row(cell, head, chosen[head][slot]), dim, options.metric,
                sums.data() + (one_slot ? 0 : slot * dim));
  const double count =
      static_cast<double>(heads.size()) * static_cast<double>(one_slot ? num_chosen : 1);
  std::vector<float> rows(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) rows[i] = static_cast<float>(sums[i] / count);
  return rows;
}

PackedRows pack(const std::vector<float>& rows, std::int64_t dim) {
  std::vector<const float*> pointers;
  for (std::size_t begin = 0; begin < rows.size(); begin += static_cast<std::size_t>(dim))
    pointers.push_back(rows.data() + begin);
  return pack_rows(pointers, dim);
}

// One entry per set of rows whose scores are averaged: the whole group, or each of its heads.
std::vector<PackedRows> representatives(const Cell& cell, std::int64_t kv_head,
                                        const std::vector<std::vector<std::int32_t>>& chosen,
                                        const CosineScoring& options) {
  std::vector<std::int64_t> heads;
  for (std::int64_t member = 0; member < cell.gqa_group_size(); ++member)
    heads.push_back(kv_head * cell.gqa_group_size() + member);
  std::vector<PackedRows> packed;
  const std::int64_t dim = cell.q.size(2);
  if (options.group_reduce == GroupReduce::RowsFirst) {
    packed.push_back(pack(mean_rows(cell, heads, chosen, options), dim));
  } else {
    for (const std::int64_t head : heads)
      packed.push_back(pack(mean_rows(cell, {&head, 1}, chosen, options), dim));
  }
  return packed;
}

constexpr std::int64_t kTile = 512;  // keys of a tile stay in the cache while all rows meet them

void score_tile(const std::vector<PackedRows>& rows, const float* keys, std::int64_t num_keys,
                std::int64_t dim, KeyMetric metric, float* out) {
  std::array<float, kTile> buffer;
  if (rows.size() == 1) {
    max_dot_products(rows.front(), keys, num_keys, out);
  } else {
    std::array<double, kTile> sums{};
    for (const PackedRows& head : rows) {
      max_dot_products(head, keys, num_keys, buffer.data());
      for (std::int64_t i = 0; i < num_keys; ++i) sums[i] += static_cast<double>(buffer[i]);
    }
    for (std::int64_t i = 0; i < num_keys; ++i)
      out[i] = static_cast<float>(sums[i] / static_cast<double>(rows.size()));
  }
  if (metric == KeyMetric::Dot) return;
  // The length of a key divides all its products alike, so it may come after the maximum.
  norms(keys, num_keys, dim, buffer.data());
  for (std::int64_t i = 0; i < num_keys; ++i)
    out[i] /= std::max(buffer[i], static_cast<float>(kCosineEpsilon));
}

}  // namespace

std::vector<float> score_keys(const Cell& cell,
                              const std::vector<std::vector<std::int32_t>>& chosen,
                              std::int64_t num_candidates, const CosineScoring& options) {
  const std::int64_t heads = cell.num_kv_heads();
  const std::int64_t dim = cell.k.size(2);
  std::vector<std::vector<PackedRows>> rows(static_cast<std::size_t>(heads));
  const auto num_chosen = static_cast<std::int64_t>(chosen.front().size());
  for_each_item(heads, 8 * cell.gqa_group_size() * num_chosen * dim, [&](std::int64_t head) {
    rows[head] = representatives(cell, head, chosen, options);
  });
  std::vector<float> scores(static_cast<std::size_t>(heads * num_candidates));
  const std::int64_t tiles = (num_candidates + kTile - 1) / kTile;
  std::int64_t blocks = 0;
  for (const PackedRows& packed : rows.front()) blocks += packed.num_blocks();
  const std::int64_t operations = std::min(kTile, num_candidates) * blocks * kRowBlock * dim;
  for_each_item(heads * tiles, operations, [&](std::int64_t item) {
    const std::int64_t head = item / tiles;
    const std::int64_t first = item % tiles * kTile;
    score_tile(rows[head], keys_of(cell, head) + first * dim,
               std::min(kTile, num_candidates - first), dim, options.metric,
               scores.data() + head * num_candidates + first);
  });
  return scores;
}

std::vector<double> query_relevance(const Cell& cell, std::int64_t q_head) {
  const std::int64_t dim = cell.q.size(2);
  std::vector<double> mean(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
    const float* values = query_row(cell, q_head, row);
    for (std::int64_t i = 0; i < dim; ++i) mean[i] += static_cast<double>(values[i]);
  }
  double mean_norm = 0;
  for (double& value : mean) {
    value /= static_cast<double>(cell.chunk_len);
    mean_norm += value * value;
  }
  mean_norm = std::max(std::sqrt(mean_norm), kCosineEpsilon);
  std::vector<double> relevance;
  for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
    const float* values = query_row(cell, q_head, row);
    relevance.push_back(-dot(mean.data(), values, dim) /
                        (mean_norm * std::max(norm(values, dim), kCosineEpsilon)));
  }
  return relevance;
}

}  // namespace kvloupe::selection
