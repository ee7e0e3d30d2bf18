// Which queries stand for a chunk: how far each lies from the chunk's mean query, and the best of a row in
// their order (kvloupe::query_relevance and kvloupe::ranked_rows in core/selection/operators/operators.h).
// No Torch header here.
#pragma once

#include "core/cuda/number_types.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

struct QueryRelevance {
  NumberType type = NumberType::Fp32;  // of q
  // [heads, rows, dim]: heads and rows lie so many numbers apart, channels together.
  const void* q = nullptr;
  std::int64_t head_stride = 0, row_stride = 0;
  int heads = 0, rows = 0;
  int dim = 0;                  // at most kMostChannels (row_products.cuh)
  double* relevance = nullptr;  // [heads, rows]
};

// All sums are in fp64. cudaErrorInvalidValue for wider heads, or where nothing is asked for.
cudaError_t launch_query_relevance(const QueryRelevance& problem, cudaStream_t stream);

struct RankedRows {
  // One of the two: [rows, count], rows row_stride numbers apart. Scores in fp64 are ranked as fp32.
  const float* scores = nullptr;
  const double* wide_scores = nullptr;
  std::int64_t row_stride = 0;
  int rows = 0, count = 0;          // at most kMostRanked scores a row
  int kept = 0;                     // at most count
  std::int32_t* indices = nullptr;  // [rows, kept], the best first
};
// Each place is found by counting what is better: count squared comparisons a row.
inline constexpr int kMostRanked = 2048;

// cudaErrorInvalidValue for longer rows, or where nothing is asked for.
cudaError_t launch_ranked_rows(const RankedRows& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
