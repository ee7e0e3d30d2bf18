// Attention from some lanes of the keys in calls of Torch: lanes that a query does not use are zeros in
// it, and one dense product does the rest. That multiplies more than the lanes that are used, where
// picking them out for each query would copy most of the keys once a query.
#include "core/attention/generic_attention.h"
#include "core/attention/lane_products.h"
#include "core/attention/upload.h"
#include "core/base/error.h"

#include <ATen/ATen.h>

#include <vector>

namespace kvloupe::attention::generic {
namespace {

// [num_q_heads, m, num_lanes]
at::Tensor whole_rows(const at::Tensor& values, const at::Tensor& lanes, std::int64_t num_lanes) {
  return at::zeros({values.size(0), values.size(1), num_lanes}, values.options())
      .scatter_(2, lanes.to(at::kLong), values);
}

// Rows [count, num_lanes] of the keys from `first` on in tiles [tiles, num_lanes, kLaneTileKeys]. What
// no key fills may be anything.
at::Tensor rows_of_tiles(const at::Tensor& tiles, std::int64_t first, std::int64_t count) {
  const std::int64_t tile = first / kLaneTileKeys, offset = first % kLaneTileKeys;
  return tiles.narrow(0, tile, num_lane_tiles(offset + count))
      .transpose(1, 2)
      .reshape({-1, tiles.size(1)})
      .narrow(0, offset, count);
}

}  // namespace

at::Tensor lane_attention(const at::Tensor& values, const std::optional<at::Tensor>& lanes,
                          const at::Tensor& numbers, std::int64_t first_position,
                          const at::Tensor& v, PackedSoftmax packed_softmax) {
  const auto keys = [&](std::int64_t g, std::int64_t first) {
    const std::int64_t skipped = first - first_position, count = v.size(1) - first;
    KVLOUPE_CHECK(skipped >= 0);
    return lanes ? rows_of_tiles(numbers[g], skipped, count) : numbers[g].narrow(0, skipped, count);
  };
  const at::Tensor q = lanes ? whole_rows(values, *lanes, numbers.size(2)) : values;
  return attend_cache(q, {v.size(0), v.size(1), keys, v}, DeviceSoftmax(packed_softmax, q), false)
      .output;
}

std::tuple<at::Tensor, at::Tensor> gather_lanes(const at::Tensor& numbers, const at::Tensor& v,
                                                at::IntArrayRef begin,
                                                const at::Tensor& positions) {
  const at::Tensor from = uploaded(positions, v.device()).to(at::kLong);
  std::vector<at::Tensor> k_rows, v_rows;
  for (std::int64_t g = 0; g < v.size(0); ++g) {
    const at::Tensor of_head = from.narrow(0, begin[g], begin[g + 1] - begin[g]);
    k_rows.push_back(numbers[g].transpose(1, 2).index(
        {at::floor_divide(of_head, at::Scalar(kLaneTileKeys)), of_head.remainder(kLaneTileKeys)}));
    v_rows.push_back(v[g].index_select(0, of_head));
  }
  return {at::cat(k_rows), at::cat(v_rows)};
}

at::Tensor attend_gathered_lanes(const at::Tensor& values, const at::Tensor& lanes,
                                 const at::Tensor& k, const at::Tensor& v,
                                 PackedSoftmax packed_softmax, at::IntArrayRef begin,
                                 const at::Tensor& positions) {
  return generic::attend_gathered(whole_rows(values, lanes, k.size(1)), k, v, packed_softmax, begin,
                                  positions, at::empty({0}, at::kByte));
}

at::Tensor gathered_lane_mass(const at::Tensor& values, const at::Tensor& lanes,
                              const at::Tensor& k, PackedSoftmax packed_softmax,
                              at::IntArrayRef begin, const at::Tensor& positions) {
  std::vector<at::Tensor> sums;
  for_each_gathered(
      whole_rows(values, lanes, k.size(1)), k, DeviceSoftmax(packed_softmax, values), begin,
      positions, at::empty({0}, at::kByte),
      [&](std::int64_t, const at::Tensor& p) { sums.push_back(p.flatten(0, 1).sum(0)); });
  return at::cat(sums);
}

}  // namespace kvloupe::attention::generic
