#include "core/selection/lanes/lane_counts.h"

#include "core/base/rounded_down.h"

#include <algorithm>

namespace kvloupe::selection {

std::int64_t lanes_kept(double ratio, std::int64_t num_lanes) {
  const double share = rounded_down(ratio * static_cast<double>(num_lanes));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(share));
}

std::int64_t lanes_stored(double sliced, std::int64_t head_dim) {
  const double dropped = rounded_down(sliced * static_cast<double>(head_dim));
  return std::max<std::int64_t>(1, head_dim - static_cast<std::int64_t>(dropped));
}

}  // namespace kvloupe::selection
