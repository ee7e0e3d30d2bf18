#include "core/selection/eviction/growing_rows.h"

#include "core/base/error.h"

#include <ATen/ATen.h>

namespace kvloupe::selection {

at::Tensor GrowingRows::rows() const {
  return room_.defined() ? room_.narrow(1, 0, size_) : at::Tensor();
}

void GrowingRows::put(std::int64_t begin, const at::Tensor& rows) {
  KVLOUPE_CHECK(0 <= begin && begin <= size_);
  const std::int64_t end = begin + rows.size(1);
  if (!room_.defined() || room_.size(1) < end || room_.device() != rows.device()) {
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape[1] = end + end / 4;
    const at::Tensor larger = at::empty(shape, rows.options());
    if (begin > 0) larger.narrow(1, 0, begin).copy_(room_.narrow(1, 0, begin));
    room_ = larger;
  }
  room_.narrow(1, begin, rows.size(1)).copy_(rows);
  size_ = end;
}

}  // namespace kvloupe::selection
