// Views of rotated keys for row_block.cpp: by lane where each query uses lanes of its own, else as
// rows that are shorter than those of V.
#include "core/attention/lane_attention.h"

#include "core/attention/cpu_attention.h"
#include "core/attention/lane_products.h"
#include "core/attention/softmax.h"
#include "core/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kvloupe::attention {
namespace {

cpu::Queries contiguous(const LaneQueries& q) {
  return {q.values.contiguous(), q.by_lane() ? q.lanes.contiguous() : at::Tensor()};
}

void check(const LaneQueries& q, const LaneKeys& keys, const at::Tensor& v) {
  KVLOUPE_CHECK(q.values.dim() == 3 && q.values.scalar_type() == at::kFloat);
  KVLOUPE_CHECK(v.dim() == 3 && v.scalar_type() == at::kFloat && v.size(0) == keys.numbers.size(0));
  KVLOUPE_CHECK(q.values.size(0) % v.size(0) == 0 && q.values.size(1) <= v.size(1));
  const at::Tensor& k = keys.numbers;
  KVLOUPE_CHECK(k.scalar_type() == at::kFloat && k[0].is_contiguous());
  const std::int64_t held = q.by_lane() ? k.size(1) * kLaneTileKeys : k.size(1);
  KVLOUPE_CHECK(keys.first_position + held >= v.size(1));
  if (!q.by_lane()) {
    KVLOUPE_CHECK(k.dim() == 3 && k.size(2) == q.values.size(2));
    return;
  }
  KVLOUPE_CHECK(q.lanes.sizes() == q.values.sizes() && q.lanes.scalar_type() == at::kInt);
  KVLOUPE_CHECK(k.dim() == 4 && k.size(3) == kLaneTileKeys && q.values.size(2) <= k.size(2));
}

// The keys of one KV head from position `first` on.
KeySegment segment_of(const LaneKeys& keys, const at::Tensor& v, std::int64_t kv_head,
                      std::int64_t first) {
  const std::int64_t skipped = first - keys.first_position;
  KVLOUPE_CHECK(skipped >= 0);
  const float* k = keys.numbers.const_data_ptr<float>() + kv_head * keys.numbers.stride(0);
  const float* values = cpu::head_data(v, kv_head) + first * v.size(2);
  const std::int64_t count = v.size(1) - first;
  if (keys.numbers.dim() == 3) return {k + skipped * keys.numbers.size(2), values, count};
  return {k + skipped / kLaneTileKeys * keys.numbers.stride(1), values, count,
          skipped % kLaneTileKeys};
}

// As many columns of `lanes` lanes as there are positions, from tiles of the whole text.
void gather_tiles(const float* tiles, std::int64_t num_lanes, const std::int32_t* positions,
                  std::int64_t count, float* out) {
  for (std::int64_t begin = 0; begin < count; begin += kLaneTileKeys) {
    const std::int64_t in_tile = std::min(kLaneTileKeys, count - begin);
    const float* from[kLaneTileKeys];
    for (std::int64_t i = 0; i < in_tile; ++i)
      from[i] = tiles + positions[begin + i] / kLaneTileKeys * kLaneTileKeys * num_lanes +
                positions[begin + i] % kLaneTileKeys;
    for (std::int64_t lane = 0; lane < num_lanes; ++lane, out += kLaneTileKeys) {
      for (std::int64_t i = 0; i < in_tile; ++i) out[i] = from[i][lane * kLaneTileKeys];
      std::fill(out + in_tile, out + kLaneTileKeys, 0.0F);
    }
  }
}

void copy_rows(const float* rows, const std::int32_t* positions, std::int64_t count,
               std::int64_t dim, float* out) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(out + i * dim, rows + positions[i] * dim, dim * sizeof(float));
}

// First tile of each KV head, and their number in all.
std::vector<std::int64_t> tile_begins(const GatheredKeys& keys) {
  std::vector<std::int64_t> begins(keys.begin.size(), 0);
  for (std::size_t g = 1; g < begins.size(); ++g)
    begins[g] = begins[g - 1] + num_lane_tiles(keys.begin[g] - keys.begin[g - 1]);
  return begins;
}

std::vector<KeyView> views_of(const LaneQueries& q, const GatheredKeys& keys,
                              const SoftmaxForm& softmax) {
  const auto heads = static_cast<std::int64_t>(keys.begin.size()) - 1;
  const std::int64_t chunk_len = q.values.size(1), group = q.values.size(0) / heads;
  KVLOUPE_CHECK(q.by_lane() && q.values.size(0) % heads == 0);
  const std::vector<std::int64_t> tiles = tile_begins(keys);
  std::vector<KeyView> views;
  for (std::int64_t g = 0; g < heads; ++g) {
    const std::int64_t count = keys.begin[g + 1] - keys.begin[g];
    const float* values = keys.v.const_data_ptr<float>() + keys.begin[g] * keys.v.size(1);
    KeyView& view = views.emplace_back();
    view.segments = {{keys.k.const_data_ptr<float>() + tiles[g] * keys.k.stride(0), values, count}};
    view.past = count - chunk_len;
    view.num_lanes = keys.k.size(1);
    const std::int32_t* positions = keys.positions.data() + keys.begin[g];
    cpu::shape_view(
        softmax, g * group, positions[count - chunk_len], chunk_len,
        [&](std::int64_t position) {
          return std::lower_bound(positions, positions + count, position) - positions;
        },
        &view);
  }
  return views;
}

}  // namespace

at::Tensor lane_chunk_attention(const LaneQueries& q, const LaneKeys& keys, const at::Tensor& v_in,
                                const SoftmaxForm& softmax) {
  check(q, keys, v_in);
  const at::Tensor v = cpu::contiguous_per_head(v_in);
  const std::int64_t heads = v.size(0), chunk_len = q.values.size(1);
  const std::int64_t group = q.values.size(0) / heads, past_len = v.size(1) - chunk_len;
  const std::int64_t first = softmax.first_visible(past_len);
  std::vector<KeyView> views;
  for (std::int64_t g = 0; g < heads; ++g) {
    KeyView& view = views.emplace_back();
    view.segments = {segment_of(keys, v, g, first)};
    view.past = past_len - first;
    view.num_lanes = q.by_lane() ? keys.numbers.size(2) : 0;
    cpu::shape_view(
        softmax, g * group, past_len, chunk_len,
        [&](std::int64_t position) { return position - first; }, &view);
  }
  cpu::Results results;
  results.output = at::empty({q.values.size(0), chunk_len, v.size(2)}, v.options());
  cpu::attend_views(contiguous(q), softmax.scale, views, cut_rows(heads, group * chunk_len),
                    &results);
  return results.output;
}

GatheredKeys gather_lanes(const LaneKeys& all, const at::Tensor& v_in, std::int64_t chunk_len,
                          const std::vector<std::vector<std::int32_t>>& selected) {
  const at::Tensor v = cpu::contiguous_per_head(v_in);
  const std::int64_t heads = v.size(0), past_len = v.size(1) - chunk_len, dim = v.size(2);
  const std::int64_t num_lanes = all.numbers.size(2);
  KVLOUPE_CHECK(all.first_position == 0 && all.numbers.dim() == 4);
  KVLOUPE_CHECK(static_cast<std::int64_t>(selected.size()) == heads);
  GatheredKeys keys;
  keys.begin = {0};
  for (const auto& row : selected) {
    KVLOUPE_CHECK(row.empty() || (row.front() >= 0 && row.back() < past_len));
    const auto own = static_cast<std::ptrdiff_t>(keys.positions.size() + row.size());
    keys.positions.insert(keys.positions.end(), row.begin(), row.end());
    keys.positions.resize(keys.positions.size() + static_cast<std::size_t>(chunk_len));
    std::iota(keys.positions.begin() + own, keys.positions.end(),
              static_cast<std::int32_t>(past_len));
    keys.begin.push_back(static_cast<std::int64_t>(keys.positions.size()));
  }
  const std::vector<std::int64_t> tiles = tile_begins(keys);
  keys.k = at::empty({tiles.back(), num_lanes, kLaneTileKeys}, v.options());
  keys.v = at::empty({keys.begin.back(), dim}, v.options());
  float* k_out = keys.k.mutable_data_ptr<float>();
  float* v_out = keys.v.mutable_data_ptr<float>();
  // Lanes and values of a head may go to two threads.
  at::parallel_for(0, 2 * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t g = piece / 2, first = keys.begin[g], count = keys.begin[g + 1] - first;
      const std::int32_t* positions = keys.positions.data() + first;
      if (piece % 2 == 0)
        gather_tiles(all.numbers.const_data_ptr<float>() + g * all.numbers.stride(0), num_lanes,
                     positions, count, k_out + tiles[g] * num_lanes * kLaneTileKeys);
      else
        copy_rows(cpu::head_data(v, g), positions, count, dim, v_out + first * dim);
    }
  });
  return keys;
}

at::Tensor attend_gathered(const LaneQueries& q, const GatheredKeys& keys,
                           const SoftmaxForm& softmax) {
  const std::vector<KeyView> views = views_of(q, keys, softmax);
  const auto heads = static_cast<std::int64_t>(views.size()), chunk_len = q.values.size(1);
  cpu::Results results;
  results.output = at::empty({q.values.size(0), chunk_len, keys.v.size(1)}, keys.v.options());
  cpu::attend_views(contiguous(q), softmax.scale, views,
                    cut_rows(heads, q.values.size(0) / heads * chunk_len), &results);
  return results.output;
}

std::vector<std::vector<double>> gathered_mass(const LaneQueries& q, const GatheredKeys& keys,
                                               const SoftmaxForm& softmax) {
  const std::vector<KeyView> views = views_of(q, keys, softmax);
  const auto heads = static_cast<std::int64_t>(views.size());
  const std::vector<RowSpan> spans = cut_rows(heads, q.values.size(0) / heads * q.values.size(1));
  std::int64_t most_keys = 0;
  for (const KeyView& view : views) most_keys = std::max(most_keys, view.past + q.values.size(1));
  cpu::Results results;
  results.span_sums = cpu::room_for_sums(spans, most_keys, q.values);
  cpu::attend_views(contiguous(q), softmax.scale, views, spans, &results);
  std::vector<std::vector<double>> mass;
  for (const KeyView& view : views)
    mass.emplace_back(static_cast<std::size_t>(view.past + q.values.size(1)), 0.0);
  for (std::size_t s = 0; s < spans.size(); ++s) {
    const float* sums = results.span_sums.const_data_ptr<float>() +
                        static_cast<std::int64_t>(s) * padded(most_keys);
    std::vector<double>& of_head = mass[static_cast<std::size_t>(spans[s].view)];
    for (std::size_t key = 0; key < of_head.size(); ++key)
      of_head[key] += static_cast<double>(sums[key]);
  }
  return mass;
}

}  // namespace kvloupe::attention
