#include "core/replay/kv_bytes.h"

#include "core/selection/lane_counts.h"

namespace kvloupe::replay {

std::int64_t bytes_per_key(const std::optional<selection::MethodSpec>& spec,
                           const trace::TraceInfo& info) {
  const std::int64_t dim = info.model.head_dim;
  const bool slices = spec && spec->traits().lanes;
  const std::int64_t key_lanes =
      slices ? selection::lanes_stored(spec->traits().lanes->sliced, dim) : dim;
  return (info.dtype == trace::DType::F16 ? 2 : 4) * (key_lanes + dim);
}

}  // namespace kvloupe::replay
