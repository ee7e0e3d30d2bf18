#include "core/replay/kv_bytes.h"

#include "core/selection/lanes/lane_counts.h"

namespace kvloupe::replay {

std::int64_t bytes_per_key(const std::optional<selection::MethodSpec>& spec,
                           const trace::TraceInfo& info) {
  const std::int64_t dim = info.model.head_dim;
  std::int64_t key_lanes = dim, value_lanes = dim;
  if (spec && spec->traits().lanes) {
    const selection::LaneTrait& lanes = *spec->traits().lanes;
    key_lanes = selection::lanes_stored(lanes.sliced, dim);
    if (lanes.slices_values) value_lanes = key_lanes;
    if (lanes.leading) key_lanes = selection::lanes_kept(lanes.kept, key_lanes);
  }
  return (info.dtype == trace::DType::F16 ? 2 : 4) * (key_lanes + value_lanes);
}

double metadata_bytes(const selection::Metadata& metadata, std::int64_t page_size,
                      trace::DType dtype, std::int64_t past, std::int64_t kept) {
  const auto pages = [&](std::int64_t keys) {
    return page_size > 0 ? (keys + page_size - 1) / page_size : keys;
  };
  const std::int64_t lanes =
      metadata.lanes + metadata.lanes_per_key * past + metadata.lanes_per_page * pages(past);
  return static_cast<double>(lanes * (dtype == trace::DType::F16 ? 2 : 4) +
                             4 * metadata.words_per_kept * pages(kept));
}

}  // namespace kvloupe::replay
