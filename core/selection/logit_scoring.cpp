#include "core/selection/logit_scoring.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/kernels.h"
#include "core/selection/lane_kernels.h"

#include <algorithm>

namespace kvloupe::selection {
namespace {

constexpr std::int64_t kTile = 1024;

const float* head_of(const at::Tensor& tensor, std::int64_t head) {
  return tensor.const_data_ptr<float>() + head * tensor.stride(0);
}

}  // namespace

std::vector<double> mean_query(const Cell& cell, std::int64_t q_head) {
  std::vector<double> mean(static_cast<std::size_t>(cell.q.size(2)), 0.0);
  for (std::int64_t row = 0; row < cell.chunk_len; ++row) {
    const float* values = query_row(cell, q_head, row);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]);
  }
  for (double& value : mean) value /= static_cast<double>(cell.chunk_len);
  return mean;
}

std::vector<double> mean_queries(const Cell& cell) {
  const std::int64_t dim = cell.q.size(2);
  const std::int64_t group = cell.gqa_group_size();
  std::vector<double> means(static_cast<std::size_t>(cell.num_kv_heads() * dim), 0.0);
  for (std::int64_t head = 0; head < cell.num_q_heads(); ++head) {
    const std::vector<double> mean = mean_query(cell, head);
    for (std::int64_t i = 0; i < dim; ++i) means[head / group * dim + i] += mean[i];
  }
  for (double& value : means) value /= static_cast<double>(group);
  return means;
}

std::vector<float> logit_scores(const Cell& cell, const at::Tensor& keys,
                                std::span<const double> rows, std::int64_t num_candidates) {
  const std::int64_t dim = keys.size(2);
  const auto num_rows = static_cast<std::int64_t>(rows.size()) / dim;
  const std::int64_t rows_per_head = num_rows / cell.num_kv_heads();
  KVLOUPE_CHECK(rows_per_head * cell.num_kv_heads() == num_rows);
  std::vector<float> scaled;
  for (const double value : rows) scaled.push_back(static_cast<float>(value * cell.softmax.scale));

  std::vector<float> scores(static_cast<std::size_t>(num_rows * num_candidates));
  const std::int64_t tiles = (num_candidates + kTile - 1) / kTile;
  for_each_item(num_rows * tiles, std::min(kTile, num_candidates) * dim, [&](std::int64_t item) {
    const std::int64_t row = item / tiles;
    const std::int64_t first = item % tiles * kTile;
    dot_products(scaled.data() + row * dim, head_of(keys, row / rows_per_head) + first * dim,
                 std::min(kTile, num_candidates - first), dim,
                 scores.data() + row * num_candidates + first);
  });
  return scores;
}

std::vector<float> channel_scores(const Cell& cell, const attention::LaneKeys& keys,
                                  const ChannelRows& rows, std::int64_t num_candidates) {
  const std::int64_t dim = cell.k.size(2), heads = cell.num_kv_heads();
  KVLOUPE_CHECK(keys.numbers.size(2) == dim);
  std::vector<float> scaled;
  for (const double value : rows.values)
    scaled.push_back(static_cast<float>(value * cell.softmax.scale));
  std::vector<float> scores(static_cast<std::size_t>(heads * num_candidates));
  const std::int64_t tiles = (num_candidates + kTile - 1) / kTile;
  const std::int64_t skipped = cell.first_key - keys.first_position;
  const auto num_channels = static_cast<std::int64_t>(rows.channels.front().size());
  for_each_item(heads * tiles, std::min(kTile, num_candidates) * num_channels,
                [&](std::int64_t item) {
                  const std::int64_t head = item / tiles, first = item % tiles * kTile;
                  channel_products(scaled.data() + head * dim, rows.channels[head], dim,
                                   head_of(keys.numbers, head), skipped + first,
                                   std::min(kTile, num_candidates - first),
                                   scores.data() + head * num_candidates + first);
                });
  return scores;
}

std::vector<float> attention_scores(const Cell& cell, const at::Tensor& queries,
                                    const at::Tensor& keys, std::span<const std::int32_t> rows,
                                    std::int64_t num_candidates) {
  const std::int64_t dim = keys.size(2);
  const std::int64_t total = cell.kv_len();
  const std::int64_t group = cell.gqa_group_size();
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  // Each head on its own, so that heads which are alike get the same bits.
  std::vector<float> masses(static_cast<std::size_t>(cell.num_q_heads() * total), 0.0F);
  for_each_item(cell.num_q_heads(), num_rows * total * (dim + 16), [&](std::int64_t head) {
    const float* values = queries.const_data_ptr<float>() + head * queries.stride(0);
    ChunkRows seeing;
    for (const std::int32_t row : rows) {
      const std::int64_t position = cell.past_len + row;
      seeing.add(values + row * queries.stride(1), cell.softmax, head,
                 cell.softmax.first_visible(position), position + 1);
    }
    reduce_probabilities(pack_rows(seeing.pointers, dim), seeing.visible,
                         head_of(keys, head / group), total, seeing.softmax(cell.softmax),
                         ColumnReduce::Sum, masses.data() + head * total);
  });

  std::vector<float> scores(static_cast<std::size_t>(cell.num_kv_heads() * num_candidates));
  const auto count = static_cast<double>(group * num_rows);
  for_each_item(cell.num_kv_heads(), group * num_candidates, [&](std::int64_t kv_head) {
    for (std::int64_t key = 0; key < num_candidates; ++key) {
      double sum = 0;
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        sum += static_cast<double>(masses[head * total + key]);
      scores[kv_head * num_candidates + key] = static_cast<float>(sum / count);
    }
  });
  return scores;
}

}  // namespace kvloupe::selection
