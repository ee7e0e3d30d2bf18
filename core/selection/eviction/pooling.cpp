#include "core/selection/eviction/pooling.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {

at::Tensor pool_same(const at::Tensor& values, std::int64_t kernel, PoolKind kind) {
  if (values.size(1) == 0) return values;
  const at::Tensor rows = values.unsqueeze(1);
  if (kind == PoolKind::Max)
    return at::max_pool1d(rows, kernel, /*stride=*/1, /*padding=*/kernel / 2).squeeze(1);
  // Summed anew for every output, in fp64: a running sum would tell equal windows apart.
  return at::avg_pool1d(rows.to(at::kDouble), kernel, /*stride=*/1, /*padding=*/kernel / 2,
                        /*ceil_mode=*/false, /*count_include_pad=*/true)
      .squeeze(1)
      .to(at::kFloat);
}

}  // namespace kvloupe::selection
