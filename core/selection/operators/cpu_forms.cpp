#include "core/selection/operators/cpu_forms.h"

#include "core/attention/lane_products.h"
#include "core/selection/operators/kernels.h"
#include "core/selection/operators/lane_kernels.h"
#include "core/selection/operators/parallel.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

namespace kvloupe::selection::cpu {
namespace {

using attention::kLaneTileKeys;

const float* head_of(const Tensor& tensor, std::int64_t head) {
  return tensor.const_data_ptr<float>() + head * tensor.stride(0);
}

template <typename T>
std::span<const T> span_of(const Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

// The rows of one set, and the softmax that they share.
struct Set {
  PackedRows rows;
  RowSoftmax softmax;
};
Set set_of(const Tensor& queries, std::int64_t index, const MaybeTensor& first,
           const MaybeTensor& sinks, double scale, double softcap) {
  const std::int64_t count = queries.size(1);
  std::vector<const float*> pointers;
  for (std::int64_t row = 0; row < count; ++row)
    pointers.push_back(head_of(queries, index) + row * queries.stride(1));
  Set set{pack_rows(pointers, queries.size(2)), RowSoftmax(scale)};
  set.softmax.softcap = softcap;
  if (first) set.softmax.first = span_of<std::int64_t>(*first);
  if (sinks) set.softmax.sinks = span_of<float>(*sinks).subspan(index * count, count);
  return set;
}

Tensor contiguous_rows(const Tensor& queries) {
  return queries.stride(2) == 1 ? queries : queries.contiguous();
}

// Runs work(set) for every set of rows on several threads.
template <typename Work>
void for_each_set(const Tensor& queries, const Tensor& keys, const Work& work) {
  for_each_item(queries.size(0), queries.size(1) * keys.size(1) * (keys.size(2) + 16), work);
}

// The `count` largest magnitudes of `lanes`, ascending; equal ones by lane.
void choose_largest(std::span<const float> lanes, std::int64_t count, std::vector<float>& scratch,
                    std::int32_t* chosen) {
  scratch.resize(lanes.size());
  std::transform(lanes.begin(), lanes.end(), scratch.begin(),
                 [](float lane) { return std::abs(lane); });
  if (std::any_of(scratch.begin(), scratch.end(), [](float size) { return std::isnan(size); })) {
    std::ranges::copy(keep_best(scratch, count).indices, chosen);
    return;
  }
  const auto last = scratch.begin() + (count - 1);
  std::nth_element(scratch.begin(), last, scratch.end(), std::greater<>());
  const float cut = *last;
  auto ties = count - std::count_if(lanes.begin(), lanes.end(),
                                    [&](float lane) { return std::abs(lane) > cut; });
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const float size = std::abs(lanes[lane]);
    if (size > cut || (size == cut && ties-- > 0)) *chosen++ = static_cast<std::int32_t>(lane);
  }
}

constexpr std::int64_t kProductTile = 1024;

}  // namespace

std::tuple<Tensor, Tensor, Tensor> keep_best_rows(const Tensor& scores_in, std::int64_t budget,
                                                  const MaybeTensor& forced) {
  const Tensor scores = scores_in.contiguous();
  const std::int64_t rows = scores.size(0), count = scores.size(1), kept = std::min(budget, count);
  const Tensor indices = at::empty({rows, kept}, at::kInt),
               num_forced = at::empty({rows}, at::kLong), ties = at::empty({rows}, at::kLong);
  const std::span<const std::uint8_t> marks =
      forced ? span_of<std::uint8_t>(*forced) : std::span<const std::uint8_t>();
  auto* out = indices.mutable_data_ptr<std::int32_t>();
  auto* forced_out = num_forced.mutable_data_ptr<std::int64_t>();
  auto* ties_out = ties.mutable_data_ptr<std::int64_t>();
  for_each_item(rows, 128 * count, [&](std::int64_t row) {
    const Kept best = keep_best(span_of<float>(scores).subspan(row * count, count), budget, marks);
    std::ranges::copy(best.indices, out + row * kept);
    forced_out[row] = best.forced;
    ties_out[row] = best.ties_at_cut;
  });
  return {indices, num_forced, ties};
}

Tensor ranked_rows(const Tensor& scores_in, std::int64_t count) {
  const Tensor scores = scores_in.contiguous();
  const std::int64_t width = scores.size(1), kept = std::min(count, width);
  Tensor indices = at::empty({scores.size(0), kept}, at::kInt);
  auto* out = indices.mutable_data_ptr<std::int32_t>();
  for_each_item(scores.size(0), 64 * width, [&](std::int64_t row) {
    std::vector<float> rounded;
    std::span<const float> values;
    if (scores.scalar_type() == at::kFloat) {
      values = span_of<float>(scores).subspan(row * width, width);
    } else {
      const auto wide = span_of<double>(scores).subspan(row * width, width);
      rounded.assign(wide.begin(), wide.end());
      values = rounded;
    }
    std::ranges::copy(ranked(values, count), out + row * kept);
  });
  return indices;
}

Tensor key_products(const Tensor& rows_in, const Tensor& keys) {
  const Tensor rows = rows_in.contiguous();
  const std::int64_t num_rows = rows.size(0), count = keys.size(1), dim = keys.size(2);
  const std::int64_t rows_per_head = num_rows / keys.size(0);
  Tensor products = at::empty({num_rows, count}, at::kFloat);
  float* out = products.mutable_data_ptr<float>();
  const std::int64_t tiles = (count + kProductTile - 1) / kProductTile;
  for_each_item(num_rows * tiles, std::min(kProductTile, count) * dim, [&](std::int64_t item) {
    const std::int64_t row = item / tiles, first = item % tiles * kProductTile;
    dot_products(head_of(rows, row), head_of(keys, row / rows_per_head) + first * dim,
                 std::min(kProductTile, count - first), dim, out + row * count + first);
  });
  return products;
}

Tensor reduce_probabilities(const Tensor& queries_in, const Tensor& keys, const Tensor& visible,
                            const MaybeTensor& first, const MaybeTensor& sinks, double scale,
                            double softcap, bool largest) {
  const Tensor queries = contiguous_rows(queries_in);
  const std::int64_t count = keys.size(1), share = queries.size(0) / keys.size(0);
  Tensor reduced = at::zeros({queries.size(0), count}, at::kFloat);
  float* out = reduced.mutable_data_ptr<float>();
  for_each_set(queries, keys, [&](std::int64_t index) {
    const Set set = set_of(queries, index, first, sinks, scale, softcap);
    selection::reduce_probabilities(
        set.rows, span_of<std::int64_t>(visible), head_of(keys, index / share), count, set.softmax,
        largest ? ColumnReduce::Max : ColumnReduce::Sum, out + index * count);
  });
  return reduced;
}

Tensor joint_softmax_sums(const Tensor& queries_in, const Tensor& keys, const Tensor& visible,
                          const MaybeTensor& first, double scale, double softcap) {
  const Tensor queries = contiguous_rows(queries_in);
  const std::int64_t count = keys.size(1), share = queries.size(0) / keys.size(0);
  Tensor sums = at::empty({queries.size(0), count}, at::kDouble);
  double* out = sums.mutable_data_ptr<double>();
  for_each_set(queries, keys, [&](std::int64_t index) {
    const Set set = set_of(queries, index, first, std::nullopt, scale, softcap);
    selection::joint_softmax_sums(set.rows, span_of<std::int64_t>(visible),
                                  head_of(keys, index / share), count, set.softmax,
                                  out + index * count);
  });
  return sums;
}

std::tuple<Tensor, Tensor> columns_and_slashes(const Tensor& queries_in, const Tensor& keys,
                                               const Tensor& visible, const MaybeTensor& first,
                                               const MaybeTensor& sinks, double scale,
                                               double softcap) {
  const Tensor queries = contiguous_rows(queries_in);
  const std::int64_t count = keys.size(1), share = queries.size(0) / keys.size(0);
  Tensor columns = at::zeros({queries.size(0), count}, at::kFloat);
  Tensor slashes = at::zeros({queries.size(0), count}, at::kFloat);
  float* by_key = columns.mutable_data_ptr<float>();
  float* by_distance = slashes.mutable_data_ptr<float>();
  for_each_set(queries, keys, [&](std::int64_t index) {
    const Set set = set_of(queries, index, first, sinks, scale, softcap);
    sum_columns_and_slashes(set.rows, span_of<std::int64_t>(visible), head_of(keys, index / share),
                            count, set.softmax, by_key + index * count,
                            by_distance + index * count);
  });
  return {columns, slashes};
}

Tensor rotate_rows(const Tensor& rows_in, const Tensor& directions_in, std::int64_t width) {
  const Tensor rows = contiguous_rows(rows_in), directions = directions_in.contiguous();
  const std::int64_t count = rows.size(1), dim = rows.size(2);
  const std::int64_t share = rows.size(0) / directions.size(0);
  Tensor rotated = at::empty({rows.size(0), count, width}, at::kFloat);
  float* out = rotated.mutable_data_ptr<float>();
  constexpr std::int64_t kPiece = 256;
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
  for_each_item(rows.size(0) * pieces, kPiece * dim * width, [&](std::int64_t item) {
    const std::int64_t head = item / pieces, first = item % pieces * kPiece;
    selection::rotate_rows(head_of(rows, head) + first * dim, std::min(kPiece, count - first),
                           head_of(directions, head / share), dim, width,
                           out + (head * count + first) * width);
  });
  return rotated;
}

std::tuple<Tensor, Tensor, Tensor> largest_lanes(const Tensor& rotated_in, std::int64_t kept) {
  const Tensor rotated = rotated_in.contiguous();
  const std::int64_t rows = rotated.size(1), width = rotated.size(2);
  Tensor values = at::empty({rotated.size(0), rows, kept}, at::kFloat);
  Tensor lanes = at::empty({rotated.size(0), rows, kept}, at::kInt);
  Tensor counts = at::zeros({rotated.size(0), width}, at::kInt);
  float* value_out = values.mutable_data_ptr<float>();
  auto* lane_out = lanes.mutable_data_ptr<std::int32_t>();
  auto* count_out = counts.mutable_data_ptr<std::int32_t>();
  const std::span all = span_of<float>(rotated);
  for_each_item(rotated.size(0), rows * width * 64, [&](std::int64_t head) {
    std::vector<float> scratch;
    for (std::int64_t row = head * rows; row < (head + 1) * rows; ++row) {
      const auto of_row = all.subspan(row * width, width);
      std::int32_t* chosen = lane_out + row * kept;
      choose_largest(of_row, kept, scratch, chosen);
      for (std::int64_t i = 0; i < kept; ++i) {
        value_out[row * kept + i] = of_row[chosen[i]];
        ++count_out[head * width + chosen[i]];
      }
    }
  });
  return {values, lanes, counts};
}

void store_lanes(const Tensor& tiles, const Tensor& rows_in, std::int64_t place) {
  const Tensor rows = rows_in.contiguous();
  const std::int64_t count = rows.size(1), width = rows.size(2);
  float* out = tiles.mutable_data_ptr<float>();
  // Whole tiles: two threads never write to one.
  constexpr std::int64_t kPiece = 4 * kLaneTileKeys;
  const std::int64_t begin = place / kPiece, end = (place + count + kPiece - 1) / kPiece;
  for_each_item(rows.size(0) * (end - begin), kPiece * width * 4, [&](std::int64_t item) {
    const std::int64_t head = item / (end - begin), piece = begin + item % (end - begin);
    const std::int64_t first = std::max(place, piece * kPiece);
    const std::int64_t last = std::min(place + count, (piece + 1) * kPiece);
    attention::store_lanes(head_of(rows, head) + (first - place) * width, last - first, width,
                           first, out + head * tiles.stride(0));
  });
}

Tensor load_lanes(const Tensor& tiles, const Tensor& lanes, std::int64_t first,
                  std::int64_t count) {
  const std::int64_t width = lanes.size(1);
  Tensor rows = at::empty({tiles.size(0), count, width}, at::kFloat);
  float* out = rows.mutable_data_ptr<float>();
  for_each_item(tiles.size(0), count * width, [&](std::int64_t head) {
    const auto chosen = span_of<std::int32_t>(lanes).subspan(head * width, width);
    const float* of_head = head_of(tiles, head);
    const std::int64_t tile_size = tiles.stride(1);
    for (std::int64_t key = 0; key < count; ++key) {
      const std::int64_t place = first + key;
      const float* tile = of_head + place / kLaneTileKeys * tile_size;
      for (std::int64_t i = 0; i < width; ++i)
        out[(head * count + key) * width + i] =
            tile[chosen[i] * kLaneTileKeys + place % kLaneTileKeys];
    }
  });
  return rows;
}

Tensor channel_products(const Tensor& rows, const Tensor& channels, const Tensor& tiles,
                        std::int64_t first, std::int64_t count) {
  const std::int64_t heads = rows.size(0), dim = rows.size(1), width = channels.size(1);
  Tensor products = at::empty({heads, count}, at::kFloat);
  float* out = products.mutable_data_ptr<float>();
  const std::int64_t pieces = (count + kProductTile - 1) / kProductTile;
  for_each_item(heads * pieces, std::min(kProductTile, count) * width, [&](std::int64_t item) {
    const std::int64_t head = item / pieces, begin = item % pieces * kProductTile;
    selection::channel_products(head_of(rows, head),
                                span_of<std::int32_t>(channels).subspan(head * width, width), dim,
                                head_of(tiles, head), first + begin,
                                std::min(kProductTile, count - begin), out + head * count + begin);
  });
  return products;
}

Tensor gate_rows(const Tensor& pooled_in, const Tensor& weights_in) {
  const Tensor pooled = pooled_in.contiguous(), weights = weights_in.contiguous();
  const std::int64_t rows = pooled.size(1), width = pooled.size(2), hidden = weights.size(2);
  const std::int64_t share = weights.size(0) / pooled.size(0);
  Tensor embedded = at::zeros({weights.size(0), rows, hidden}, at::kFloat);
  float* out = embedded.mutable_data_ptr<float>();
  for_each_item(weights.size(0) * rows, width * hidden, [&](std::int64_t item) {
    const float* row = head_of(pooled, item / rows / share) + item % rows * width;
    const float* weight = head_of(weights, item / rows);
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t o = 0; o < hidden; ++o)
        out[item * hidden + o] += row[i] * weight[i * hidden + o];
  });
  return embedded;
}

}  // namespace kvloupe::selection::cpu
