#include "core/selection/pages.h"

#include "core/selection/kernels.h"

#include <algorithm>

namespace kvloupe::selection {

PageBounds::PageBounds(std::int64_t page_size, std::int64_t head_dim, std::int64_t cut)
    : grid_{page_size, 0, cut}, head_dim_(head_dim) {}

void PageBounds::extend(const float* keys, std::int64_t num_tokens) {
  if (num_tokens < grid_.num_tokens) grid_.num_tokens = 0;
  const std::int64_t first = grid_.num_tokens;
  grid_.num_tokens = num_tokens;
  values_.resize(static_cast<std::size_t>(grid_.num_pages() * 2 * head_dim_));
  for (std::int64_t token = first; token < num_tokens; ++token) {
    const float* key = keys + token * head_dim_;
    float* largest = values_.data() + grid_.page_of(token) * 2 * head_dim_;
    float* smallest = largest + head_dim_;
    if (token == grid_.begin(grid_.page_of(token))) {  // a page begins as its first key
      std::copy_n(key, head_dim_, largest);
      std::copy_n(key, head_dim_, smallest);
      continue;
    }
    for (std::int64_t channel = 0; channel < head_dim_; ++channel) {
      largest[channel] = std::max(largest[channel], key[channel]);
      smallest[channel] = std::min(smallest[channel], key[channel]);
    }
  }
}

std::vector<float> PageBounds::scores(std::span<const float* const> rows) const {
  std::vector<float> split(rows.size() * static_cast<std::size_t>(2 * head_dim_));
  std::vector<const float*> pointers;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    float* positive = split.data() + row * static_cast<std::size_t>(2 * head_dim_);
    float* negative = positive + head_dim_;
    for (std::int64_t channel = 0; channel < head_dim_; ++channel) {
      positive[channel] = std::max(rows[row][channel], 0.0F);
      negative[channel] = std::min(rows[row][channel], 0.0F);
    }
    pointers.push_back(positive);
  }
  std::vector<float> result(static_cast<std::size_t>(grid_.num_pages()));
  if (pointers.size() == 1)  // a block of rows would be mostly padding
    dot_products(pointers.front(), values_.data(), grid_.num_pages(), 2 * head_dim_, result.data());
  else
    max_dot_products(pack_rows(pointers, 2 * head_dim_), values_.data(), grid_.num_pages(),
                     result.data());
  return result;
}

}  // namespace kvloupe::selection
