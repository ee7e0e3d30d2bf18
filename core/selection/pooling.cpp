#include "core/selection/pooling.h"

#include <algorithm>

namespace kvloupe::selection {

std::vector<float> pool_same(std::span<const float> values, std::int64_t kernel, PoolKind kind) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t reach = kernel / 2;
  std::vector<float> pooled(values.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const float* first = values.data() + std::max<std::int64_t>(0, i - reach);
    const float* last = values.data() + std::min(count, i + reach + 1);
    if (kind == PoolKind::Max) {
      pooled[i] = *std::max_element(first, last);
      continue;
    }
    // Summed anew for every output: a running sum would tell equal windows apart.
    double sum = 0;
    for (const float* value = first; value != last; ++value) sum += static_cast<double>(*value);
    pooled[i] = static_cast<float>(sum / static_cast<double>(kernel));
  }
  return pooled;
}

}  // namespace kvloupe::selection
