// Of cpu_forms.h: cosines, summed in fp64 where rows are averaged.
#include "core/selection/operators/cpu_forms.h"
#include "core/selection/operators/kernels.h"
#include "core/selection/operators/operators.h"
#include "core/selection/operators/parallel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::selection::cpu {
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

const float* row_of(const Tensor& tensor, std::int64_t head, std::int64_t row) {
  return tensor.const_data_ptr<float>() + head * tensor.stride(0) + row * tensor.stride(1);
}

// Adds `row`, of unit length for the cosine, to `sum`.
void add_query(const float* row, std::int64_t dim, bool cosine, double* sum) {
  const double length = cosine ? std::max(norm(row, dim), kCosineEpsilon) : 1.0;
  for (std::int64_t i = 0; i < dim; ++i) sum[i] += static_cast<double>(row[i]) / length;
}

// The mean of the chosen rows of `count` heads from `first` on, slot by slot: [slots, dim]. In fp64, so
// that identical heads average to themselves. A mean over queries is linear too: one slot does.
PackedRows mean_rows(const Tensor& q, std::int64_t first, std::int64_t count, const Tensor& chosen,
                     bool cosine, bool one_slot) {
  const std::int64_t dim = q.size(2), num_chosen = chosen.size(1);
  const std::int64_t slots = one_slot ? 1 : num_chosen;
  const auto* rows_of = chosen.const_data_ptr<std::int32_t>();
  std::vector<double> sums(static_cast<std::size_t>(slots * dim), 0.0);
  for (std::int64_t head = first; head < first + count; ++head)
    for (std::int64_t slot = 0; slot < num_chosen; ++slot)
      add_query(row_of(q, head, rows_of[head * num_chosen + slot]), dim, cosine,
                sums.data() + (one_slot ? 0 : slot * dim));
  const double divisor =
      static_cast<double>(count) * static_cast<double>(one_slot ? num_chosen : 1);
  std::vector<float> rows(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) rows[i] = static_cast<float>(sums[i] / divisor);
  std::vector<const float*> pointers;
  for (std::int64_t slot = 0; slot < slots; ++slot) pointers.push_back(rows.data() + slot * dim);
  return pack_rows(pointers, dim);
}

// One entry per set of rows whose scores are averaged: the whole group, or each of its heads.
std::vector<PackedRows> representatives(const Tensor& q, std::int64_t first, std::int64_t group,
                                        const Tensor& chosen, bool cosine, bool one_slot,
                                        bool scores_first) {
  std::vector<PackedRows> packed;
  const std::int64_t together = scores_first ? 1 : group;
  for (std::int64_t head = first; head < first + group; head += together)
    packed.push_back(mean_rows(q, head, together, chosen, cosine, one_slot));
  return packed;
}

constexpr std::int64_t kTile = 512;  // keys of a tile stay in the cache while all rows meet them

void score_tile(const std::vector<PackedRows>& rows, const float* keys, std::int64_t num_keys,
                std::int64_t dim, bool cosine, float* out) {
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
  if (!cosine) return;
  // The length of a key divides all its products alike, so it may come after the maximum.
  norms(keys, num_keys, dim, buffer.data());
  for (std::int64_t i = 0; i < num_keys; ++i)
    out[i] /= std::max(buffer[i], static_cast<float>(kCosineEpsilon));
}

constexpr double kNormaliseEpsilon = 1e-12;
constexpr double kLeastLength = 1e-8;

// Scores of the first num_scored of num_keys keys; all of them enter the mean.
std::vector<float> difference_scores(const float* keys, std::int64_t num_keys,
                                     std::int64_t num_scored, std::int64_t dim) {
  std::vector<float> lengths(static_cast<std::size_t>(num_keys));
  norms(keys, num_keys, dim, lengths.data());

  std::vector<double> mean(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const double length = std::max(static_cast<double>(lengths[key]), kNormaliseEpsilon);
    for (std::int64_t i = 0; i < dim; ++i)
      mean[i] += static_cast<double>(keys[key * dim + i]) / length;
  }
  double square = 0;
  std::vector<float> mean_row;
  for (const double sum : mean) {
    const double value = sum / static_cast<double>(num_keys);
    square += value * value;
    mean_row.push_back(static_cast<float>(value));
  }
  const double mean_norm = std::max(std::sqrt(square), kLeastLength);

  std::vector<float> scores(static_cast<std::size_t>(num_scored));
  dot_products(mean_row.data(), keys, num_scored, dim, scores.data());
  for (std::int64_t key = 0; key < num_scored; ++key) {
    const double length = std::max(static_cast<double>(lengths[key]), kLeastLength);
    scores[key] = static_cast<float>(-static_cast<double>(scores[key]) / (mean_norm * length));
  }
  return scores;
}

}  // namespace

Tensor score_keys(const Tensor& q, const Tensor& k, const Tensor& chosen_in,
                  std::int64_t num_candidates, bool cosine, bool mean_of_queries,
                  bool scores_first) {
  const Tensor chosen = chosen_in.contiguous();
  const std::int64_t heads = k.size(0), dim = k.size(2), group = q.size(0) / heads;
  std::vector<std::vector<PackedRows>> rows(static_cast<std::size_t>(heads));
  for_each_item(heads, 8 * group * chosen.size(1) * dim, [&](std::int64_t head) {
    rows[head] =
        representatives(q, head * group, group, chosen, cosine, mean_of_queries, scores_first);
  });
  Tensor scores = at::empty({heads, num_candidates}, at::kFloat);
  float* out = scores.mutable_data_ptr<float>();
  const std::int64_t tiles = (num_candidates + kTile - 1) / kTile;
  std::int64_t blocks = 0;
  for (const PackedRows& packed : rows.front()) blocks += packed.num_blocks();
  const std::int64_t operations = std::min(kTile, num_candidates) * blocks * kRowBlock * dim;
  for_each_item(heads * tiles, operations, [&](std::int64_t item) {
    const std::int64_t head = item / tiles, first = item % tiles * kTile;
    score_tile(rows[head], row_of(k, head, first), std::min(kTile, num_candidates - first), dim,
               cosine, out + head * num_candidates + first);
  });
  return scores;
}

Tensor query_relevance(const Tensor& q) {
  const std::int64_t rows = q.size(1), dim = q.size(2);
  Tensor relevance = at::empty({q.size(0), rows}, at::kDouble);
  double* out = relevance.mutable_data_ptr<double>();
  for_each_item(q.size(0), 8 * rows * dim, [&](std::int64_t head) {
    std::vector<double> mean(static_cast<std::size_t>(dim), 0.0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* values = row_of(q, head, row);
      for (std::int64_t i = 0; i < dim; ++i) mean[i] += static_cast<double>(values[i]);
    }
    double mean_norm = 0;
    for (double& value : mean) {
      value /= static_cast<double>(rows);
      mean_norm += value * value;
    }
    mean_norm = std::max(std::sqrt(mean_norm), kCosineEpsilon);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* values = row_of(q, head, row);
      out[head * rows + row] = -dot(mean.data(), values, dim) /
                               (mean_norm * std::max(norm(values, dim), kCosineEpsilon));
    }
  });
  return relevance;
}

Tensor difference_scores(const Tensor& k, std::int64_t num_scored) {
  Tensor scores = at::empty({k.size(0), num_scored}, at::kFloat);
  float* out = scores.mutable_data_ptr<float>();
  for_each_item(k.size(0), 4 * k.size(1) * k.size(2), [&](std::int64_t head) {
    std::ranges::copy(difference_scores(row_of(k, head, 0), k.size(1), num_scored, k.size(2)),
                      out + head * num_scored);
  });
  return scores;
}

}  // namespace kvloupe::selection::cpu
