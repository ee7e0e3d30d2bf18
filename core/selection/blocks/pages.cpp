#include "core/selection/blocks/pages.h"

#include "core/selection/operators/operators.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {

void PageBounds::extend(const at::Tensor& keys, std::int64_t num_tokens) {
  if (num_tokens < grid_.num_tokens) grid_.num_tokens = 0;
  if (num_tokens == grid_.num_tokens) return;
  const std::int64_t page = grid_.page_of(grid_.num_tokens), begin = grid_.begin(page);
  grid_.num_tokens = num_tokens;
  values_.put(page, page_bounds(keys.narrow(1, begin, num_tokens - begin), grid_.page_size,
                                page == 0 ? grid_.cut : 0));
}

}  // namespace kvloupe::selection
