// One number or two for each channel of each page of rows, read once: the largest and the smallest, or
// the mean, summed in fp64 in the order of the rows. Pages as in core/selection/blocks/pages.h. No Torch header
// here.
#pragma once

#include "core/cuda/number_types.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct PagesOfRows {
  NumberType type = NumberType::Fp32;  // of rows
  const void* rows = nullptr;          // [heads, count, dim], heads head_stride numbers apart
  std::int64_t head_stride = 0;
  int heads = 0;
  int count = 0;
  int dim = 0;
  int page_size = 0;
  int cut = 0;  // rows of the first page that lie before row 0; less than page_size
  // [heads, num_pages(), 2, dim] bounds of the type of rows, [heads, num_pages(), dim] means in fp32.
  void* results = nullptr;

  constexpr int num_pages() const { return (count + cut + page_size - 1) / page_size; }
};

// The largest, then the smallest. Of numbers that compare as equal the first; what is not a number
// counts where it is the page's first row alone (std::max, std::min).
cudaError_t launch_page_bounds(const PagesOfRows& problem, cudaStream_t stream);
cudaError_t launch_block_means(const PagesOfRows& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
