#include "core/selection/lane_counts.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::selection {

std::int64_t lanes_kept(double ratio, std::int64_t num_lanes) {
  const double share = std::floor(ratio * static_cast<double>(num_lanes) + 1e-9);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(share));
}

std::int64_t lanes_stored(double sliced, std::int64_t head_dim) {
  const double dropped = std::floor(sliced * static_cast<double>(head_dim) + 1e-9);
  return std::max<std::int64_t>(1, head_dim - static_cast<std::int64_t>(dropped));
}

}  // namespace kvloupe::selection
