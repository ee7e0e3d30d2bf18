// How many lanes the AQUA methods keep. Free of Torch: reports and views count memory by it.
#pragma once

#include <cstdint>

namespace kvloupe::selection {

// max(1, floor(ratio * num_lanes + 1e-9)).
std::int64_t lanes_kept(double ratio, std::int64_t num_lanes);

// Lanes of each key that are cached at all, where the share LaneTrait::sliced never is:
// head_dim - floor(sliced * head_dim + 1e-9), at least 1.
std::int64_t lanes_stored(double sliced, std::int64_t head_dim);

}  // namespace kvloupe::selection
