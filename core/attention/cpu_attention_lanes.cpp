// Views of rotated keys for row_block.cpp: by lane where each query uses lanes of its own, else as
// rows that are shorter than those of V.
#include "core/attention/cpu_attention.h"
#include "core/attention/lane_products.h"
#include "core/attention/softmax.h"
#include "core/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace kvloupe::attention::cpu {
namespace {

Queries contiguous(const at::Tensor& values, const std::optional<at::Tensor>& lanes) {
  return {values.contiguous(), lanes ? lanes->contiguous() : at::Tensor()};
}

// The keys of one KV head from position `first` on.
KeySegment segment_of(const at::Tensor& numbers, std::int64_t first_position, const at::Tensor& v,
                      std::int64_t kv_head, std::int64_t first) {
  const std::int64_t skipped = first - first_position;
  KVLOUPE_CHECK(skipped >= 0);
  const float* k = numbers.const_data_ptr<float>() + kv_head * numbers.stride(0);
  const float* values = head_data(v, kv_head) + first * v.size(2);
  const std::int64_t count = v.size(1) - first;
  if (numbers.dim() == 3) return {k + skipped * numbers.size(2), values, count};
  return {k + skipped / kLaneTileKeys * numbers.stride(1), values, count, skipped % kLaneTileKeys};
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

// First tile of each KV head, and their number in all.
std::vector<std::int64_t> tile_begins(at::IntArrayRef begin) {
  std::vector<std::int64_t> tiles(begin.size(), 0);
  for (std::size_t g = 1; g < tiles.size(); ++g)
    tiles[g] = tiles[g - 1] + num_lane_tiles(begin[g] - begin[g - 1]);
  return tiles;
}

// `v` is null when no output is wanted.
std::vector<KeyView> views_of(const at::Tensor& queries, const at::Tensor& k, const at::Tensor* v,
                              const SoftmaxForm& softmax, at::IntArrayRef begin,
                              const at::Tensor& positions) {
  const auto heads = static_cast<std::int64_t>(begin.size()) - 1;
  const std::int64_t chunk_len = queries.size(1), group = queries.size(0) / heads;
  const std::vector<std::int64_t> tiles = tile_begins(begin);
  std::vector<KeyView> views;
  for (std::int64_t g = 0; g < heads; ++g) {
    const std::int64_t count = begin[g + 1] - begin[g];
    const float* values =
        v == nullptr ? nullptr : v->const_data_ptr<float>() + begin[g] * v->size(1);
    KeyView& view = views.emplace_back();
    view.segments = {{k.const_data_ptr<float>() + tiles[g] * k.stride(0), values, count}};
    view.past = count - chunk_len;
    view.num_lanes = k.size(1);
    shape_gathered_view(softmax, g * group, positions.const_data_ptr<std::int32_t>() + begin[g],
                        count, chunk_len, &view);
  }
  return views;
}

}  // namespace

at::Tensor lane_attention(const at::Tensor& q, const std::optional<at::Tensor>& lanes,
                          const at::Tensor& numbers, std::int64_t first_position,
                          const at::Tensor& v_in, PackedSoftmax packed_softmax) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor v = contiguous_per_head(v_in);
  const std::int64_t heads = v.size(0), chunk_len = q.size(1);
  const std::int64_t group = q.size(0) / heads, past_len = v.size(1) - chunk_len;
  const std::int64_t first = softmax.first_visible(past_len);
  std::vector<KeyView> views;
  for (std::int64_t g = 0; g < heads; ++g) {
    KeyView& view = views.emplace_back();
    view.segments = {segment_of(numbers, first_position, v, g, first)};
    view.past = past_len - first;
    view.num_lanes = lanes ? numbers.size(2) : 0;
    shape_view(
        softmax, g * group, past_len, chunk_len,
        [&](std::int64_t position) { return position - first; }, &view);
  }
  Results results;
  results.output = at::empty({q.size(0), chunk_len, v.size(2)}, v.options());
  attend_views(contiguous(q, lanes), softmax.scale, views, cut_rows(heads, group * chunk_len),
               &results);
  return results.output;
}

std::tuple<at::Tensor, at::Tensor> gather_lanes(const at::Tensor& numbers, const at::Tensor& v_in,
                                                at::IntArrayRef begin,
                                                const at::Tensor& positions) {
  const at::Tensor v = contiguous_per_head(v_in);
  const std::int64_t heads = v.size(0), dim = v.size(2), num_lanes = numbers.size(2);
  const std::vector<std::int64_t> tiles = tile_begins(begin);
  at::Tensor k_tiles = at::empty({tiles.back(), num_lanes, kLaneTileKeys}, v.options());
  at::Tensor v_rows = at::empty({begin.back(), dim}, v.options());
  float* k_out = k_tiles.mutable_data_ptr<float>();
  float* v_out = v_rows.mutable_data_ptr<float>();
  // Lanes and values of a head may go to two threads.
  at::parallel_for(0, 2 * heads, 1, [&](std::int64_t first_piece, std::int64_t last_piece) {
    for (std::int64_t piece = first_piece; piece < last_piece; ++piece) {
      const std::int64_t g = piece / 2, first = begin[g], count = begin[g + 1] - first;
      const std::int32_t* own = positions.const_data_ptr<std::int32_t>() + first;
      if (piece % 2 == 0)
        gather_tiles(numbers.const_data_ptr<float>() + g * numbers.stride(0), num_lanes, own, count,
                     k_out + tiles[g] * num_lanes * kLaneTileKeys);
      else
        copy_rows(head_data(v, g), own, count, dim, v_out + first * dim);
    }
  });
  return {k_tiles, v_rows};
}

at::Tensor attend_gathered_lanes(const at::Tensor& q, const at::Tensor& lanes, const at::Tensor& k,
                                 const at::Tensor& v, PackedSoftmax packed_softmax,
                                 at::IntArrayRef begin, const at::Tensor& positions) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const std::vector<KeyView> views = views_of(q, k, &v, softmax, begin, positions);
  const auto heads = static_cast<std::int64_t>(views.size()), chunk_len = q.size(1);
  Results results;
  results.output = at::empty({q.size(0), chunk_len, v.size(1)}, v.options());
  attend_views(contiguous(q, lanes), softmax.scale, views,
               cut_rows(heads, q.size(0) / heads * chunk_len), &results);
  return results.output;
}

at::Tensor gathered_lane_mass(const at::Tensor& q, const at::Tensor& lanes, const at::Tensor& k,
                              PackedSoftmax packed_softmax, at::IntArrayRef begin,
                              const at::Tensor& positions) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const std::vector<KeyView> views = views_of(q, k, nullptr, softmax, begin, positions);
  const auto heads = static_cast<std::int64_t>(views.size());
  const std::vector<RowSpan> spans = cut_rows(heads, q.size(0) / heads * q.size(1));
  std::int64_t most_keys = 0;
  for (const KeyView& view : views) most_keys = std::max(most_keys, view.past + q.size(1));
  Results results;
  results.span_sums = room_for_sums(spans, most_keys, q);
  attend_views(contiguous(q, lanes), softmax.scale, views, spans, &results);
  at::Tensor mass = at::zeros({begin.back()}, at::kDouble);
  for (std::size_t s = 0; s < spans.size(); ++s) {
    const float* sums = results.span_sums.const_data_ptr<float>() +
                        static_cast<std::int64_t>(s) * padded(most_keys);
    const std::int64_t first = begin[spans[s].view];
    double* of_head = mass.mutable_data_ptr<double>() + first;
    for (std::int64_t key = 0; key < begin[spans[s].view + 1] - first; ++key)
      of_head[key] += static_cast<double>(sums[key]);
  }
  return mass;
}

}  // namespace kvloupe::attention::cpu
