// The typed functions before the operators on lanes, and what they refuse.
#include "core/attention/lane_attention.h"

#include "core/attention/lane_products.h"
#include "core/attention/operators.h"
#include "core/base/error.h"

#include <ATen/ATen.h>

#include <optional>
#include <tuple>

namespace kvloupe::attention {
namespace {

void check(const LaneQueries& q, const LaneKeys& keys, const at::Tensor& v) {
  check_types({q.values, keys.numbers});
  check_types({v});
  KVLOUPE_CHECK(q.values.dim() == 3 && v.dim() == 3 && v.size(0) == keys.numbers.size(0));
  KVLOUPE_CHECK(q.values.size(0) % v.size(0) == 0 && q.values.size(1) <= v.size(1));
  const at::Tensor& k = keys.numbers;
  KVLOUPE_CHECK(k[0].is_contiguous());
  const std::int64_t held = q.by_lane() ? k.size(1) * kLaneTileKeys : k.size(1);
  KVLOUPE_CHECK(keys.first_position + held >= v.size(1));
  if (!q.by_lane()) {
    KVLOUPE_CHECK(k.dim() == 3 && k.size(2) == q.values.size(2));
    return;
  }
  KVLOUPE_CHECK(q.lanes.sizes() == q.values.sizes() && q.lanes.scalar_type() == at::kInt);
  KVLOUPE_CHECK(k.dim() == 4 && k.size(3) == kLaneTileKeys && q.values.size(2) <= k.size(2));
}

void check_gathered(const LaneQueries& q, const GatheredKeys& keys, const SoftmaxForm& softmax) {
  const auto heads = static_cast<std::int64_t>(keys.begin.size()) - 1;
  KVLOUPE_CHECK(q.by_lane() && heads > 0 && q.values.size(0) % heads == 0);
  check_softmax(softmax, q.values);
}

}  // namespace

at::Tensor lane_chunk_attention(const LaneQueries& q, const LaneKeys& keys, const at::Tensor& v,
                                const SoftmaxForm& softmax) {
  check(q, keys, v);
  check_softmax(softmax, q.values);
  static const auto run = find_operator<op::LaneAttention>("kvloupe::lane_attention");
  return run.call(q.values, q.by_lane() ? std::optional(q.lanes) : std::nullopt, keys.numbers,
                  keys.first_position, v, packed(softmax));
}

GatheredKeys gather_lanes(const LaneKeys& all, const at::Tensor& v, std::int64_t chunk_len,
                          const std::vector<std::vector<std::int32_t>>& selected) {
  KVLOUPE_CHECK(all.first_position == 0 && all.numbers.dim() == 4);
  GatheredKeys keys =
      layout_of(v.size(0), v.size(1), chunk_len, selected, ChunkVisibility::OpenChunk);
  static const auto run = find_operator<op::GatherLanes>("kvloupe::gather_lanes");
  std::tie(keys.k, keys.v) = run.call(all.numbers, v, keys.begin, on_host(keys.positions));
  return keys;
}

at::Tensor attend_gathered(const LaneQueries& q, const GatheredKeys& keys,
                           const SoftmaxForm& softmax) {
  check_gathered(q, keys, softmax);
  static const auto run = find_operator<op::AttendGatheredLanes>("kvloupe::attend_gathered_lanes");
  return run.call(q.values, q.lanes, keys.k, keys.v, packed(softmax), keys.begin,
                  on_host(keys.positions));
}

std::vector<std::vector<double>> gathered_mass(const LaneQueries& q, const GatheredKeys& keys,
                                               const SoftmaxForm& softmax) {
  check_gathered(q, keys, softmax);
  static const auto run = find_operator<op::GatheredLaneMass>("kvloupe::gathered_lane_mass");
  const at::Tensor sums =
      run.call(q.values, q.lanes, keys.k, packed(softmax), keys.begin, on_host(keys.positions))
          .cpu()
          .to(at::kDouble);
  std::vector<std::vector<double>> mass;
  for (std::size_t g = 0; g + 1 < keys.begin.size(); ++g)
    mass.emplace_back(sums.const_data_ptr<double>() + keys.begin[g],
                      sums.const_data_ptr<double>() + keys.begin[g + 1]);
  return mass;
}

}  // namespace kvloupe::attention
