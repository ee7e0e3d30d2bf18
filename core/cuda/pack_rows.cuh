// Rows as RowProducts wants them. No Torch header here.
#pragma once

#include "core/cuda/row_products.cuh"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct PackRows {
  NumberType type = NumberType::Fp32;  // of from
  // Row r of set s (of all KV heads together) at s * set_stride + r * row_stride, channels together.
  const void* from = nullptr;
  std::int64_t set_stride = 0, row_stride = 0;
  int sets = 0;
  int rows_per_set = 0;
  int dim = 0;
  // Twice as wide: max(row, 0), then min(row, 0). Their product with the bounds of a page bounds that of
  // the row with its keys (core/selection/blocks/pages.h).
  bool split = false;
  float* to = nullptr;  // packed_floats(1, sets, rows_per_set, width()), as in RowProducts

  constexpr int width() const { return split ? 2 * dim : dim; }
};

cudaError_t launch_pack_rows(const PackRows& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
