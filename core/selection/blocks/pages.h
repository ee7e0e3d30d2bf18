// Pages of a KV head's keys, `page_size` of them from position 0 on, and what is known of each page
// without its keys (Quest, section 3.2): the largest and the smallest value of every channel. They
// bound the product of any query with any key of the page:
//   q . k <= sum_c max(q_c kmax_c, q_c kmin_c)  =  <(max(q, 0), min(q, 0)), (kmax, kmin)>
// so the bound is one dot product of twice the length.
#pragma once

#include "core/selection/eviction/growing_rows.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvloupe::selection {

struct PageGrid {
  std::int64_t page_size = 0;
  std::int64_t num_tokens = 0;
  // Tokens of the first page that lie before token 0: a window begins inside the page. Less than a
  // page.
  std::int64_t cut = 0;

  // The last one maybe partial.
  std::int64_t num_pages() const { return (num_tokens + cut + page_size - 1) / page_size; }
  std::int64_t page_of(std::int64_t token) const { return (token + cut) / page_size; }
  // Real tokens [begin, end) of a page.
  std::int64_t begin(std::int64_t page) const { return page == 0 ? 0 : page * page_size - cut; }
  std::int64_t end(std::int64_t page) const {
    const std::int64_t whole = page_size * (page + 1) - cut;
    return whole < num_tokens ? whole : num_tokens;
  }
};

// Bounds of the pages of all KV heads of a layer, kept as keys come in. Largest and smallest values do
// not depend on the order or the portions in which keys are added.
class PageBounds {
 public:
  // `cut` as in PageGrid.
  explicit PageBounds(std::int64_t page_size, std::int64_t cut = 0) : grid_{page_size, 0, cut} {}

  // Makes the pages hold the first `num_tokens` of `keys` ([num_kv_heads, >= num_tokens, head_dim]):
  // reads only the pages that have new ones. Fewer than before: starts again.
  void extend(const at::Tensor& keys, std::int64_t num_tokens);
  const PageGrid& grid() const { return grid_; }
  // [num_kv_heads, num_pages, 2, head_dim]: kmax, kmin.
  at::Tensor values() const { return values_.rows(); }

 private:
  PageGrid grid_;
  GrowingRows values_;
};

}  // namespace kvloupe::selection
