// Of cpu_forms.h: what is computed for pages and blocks of rows.
#include "core/selection/blocks/pages.h"
#include "core/selection/operators/cpu_forms.h"
#include "core/selection/operators/kernels.h"
#include "core/selection/operators/parallel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace kvloupe::selection::cpu {
namespace {

// kmax and kmin of rows [begin, end), [2, dim].
void bound_rows(const float* rows, std::int64_t begin, std::int64_t end, std::int64_t dim,
                float* out) {
  float* largest = out;
  float* smallest = out + dim;
  std::copy_n(rows + begin * dim, dim, largest);
  std::copy_n(rows + begin * dim, dim, smallest);
  for (std::int64_t row = begin + 1; row < end; ++row)
    for (std::int64_t channel = 0; channel < dim; ++channel) {
      largest[channel] = std::max(largest[channel], rows[row * dim + channel]);
      smallest[channel] = std::min(smallest[channel], rows[row * dim + channel]);
    }
}

void mean_of_rows(const float* rows, std::int64_t begin, std::int64_t end, std::int64_t dim,
                  float* out) {
  std::vector<double> sums(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t i = 0; i < dim; ++i) sums[i] += static_cast<double>(rows[row * dim + i]);
  for (std::int64_t i = 0; i < dim; ++i)
    out[i] = static_cast<float>(sums[i] / static_cast<double>(end - begin));
}

// For each page of each head work(rows of the head, begin, end, where its `width` numbers go).
template <typename Work>
Tensor of_pages(const Tensor& rows, const PageGrid& grid, std::int64_t width, const Work& work) {
  const std::int64_t heads = rows.size(0), pages = grid.num_pages();
  Tensor result = at::empty({heads, pages, width}, at::kFloat);
  float* out = result.mutable_data_ptr<float>();
  for_each_item(heads * pages, 2 * grid.page_size * rows.size(2), [&](std::int64_t item) {
    const std::int64_t page = item % pages;
    work(rows.const_data_ptr<float>() + item / pages * rows.stride(0), grid.begin(page),
         grid.end(page), out + item * width);
  });
  return result;
}

}  // namespace

Tensor page_bounds(const Tensor& rows, std::int64_t page_size, std::int64_t cut) {
  const std::int64_t dim = rows.size(2);
  const PageGrid grid{page_size, rows.size(1), cut};
  return of_pages(rows, grid, 2 * dim,
                  [&](const float* of_head, std::int64_t begin, std::int64_t end, float* out) {
                    bound_rows(of_head, begin, end, dim, out);
                  })
      .view({rows.size(0), grid.num_pages(), 2, dim});
}

Tensor block_means(const Tensor& rows, std::int64_t block_size, std::int64_t cut) {
  const std::int64_t dim = rows.size(2);
  return of_pages(rows, PageGrid{block_size, rows.size(1), cut}, dim,
                  [&](const float* of_head, std::int64_t begin, std::int64_t end, float* out) {
                    mean_of_rows(of_head, begin, end, dim, out);
                  });
}

// The bound is one dot product of twice the length (pages.h), summed in fp32.
Tensor page_scores(const Tensor& q, const Tensor& bounds) {
  const std::int64_t heads = q.size(0), rows = q.size(1), dim = q.size(2), pages = bounds.size(1);
  const std::int64_t share = heads / bounds.size(0);
  Tensor scores = at::empty({heads, pages}, at::kFloat);
  float* out = scores.mutable_data_ptr<float>();
  for_each_item(heads, 2 * rows * dim * pages, [&](std::int64_t head) {
    std::vector<float> split(static_cast<std::size_t>(2 * rows * dim));
    std::vector<const float*> pointers;
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* query = q.const_data_ptr<float>() + head * q.stride(0) + row * q.stride(1);
      float* positive = split.data() + row * 2 * dim;
      for (std::int64_t channel = 0; channel < dim; ++channel) {
        positive[channel] = std::max(query[channel], 0.0F);
        positive[dim + channel] = std::min(query[channel], 0.0F);
      }
      pointers.push_back(positive);
    }
    const float* of_head = bounds.const_data_ptr<float>() + head / share * bounds.stride(0);
    if (rows == 1)  // a block of rows would be mostly padding
      dot_products(pointers.front(), of_head, pages, 2 * dim, out + head * pages);
    else
      max_dot_products(pack_rows(pointers, 2 * dim), of_head, pages, out + head * pages);
  });
  return scores;
}

}  // namespace kvloupe::selection::cpu
