#include "core/cuda/query_choice.cuh"

#include "core/cuda/lane_sums.cuh"
#include "core/cuda/rank_value.cuh"
#include "core/cuda/rows.cuh"
#include "core/cuda/shared_memory.cuh"
#include "core/cuda/start.cuh"

namespace kvloupe::cuda {
namespace {

constexpr int kWarps = 16;

struct MeanMemory {
  double sums[kWarps][kMostChannels];
  double mean[kMostChannels];
};

// A lane has the channels lane, lane + 32, ... of a row.
template <typename T>
__device__ void load_row(const QueryRelevance& p, int row, double (&values)[kChannelsOfLane]) {
  const int lane = threadIdx.x % kLanes;
  const T* query = static_cast<const T*>(p.q) + blockIdx.x * p.head_stride + row * p.row_stride;
  for (int c = 0; c < kChannelsOfLane; ++c)
    values[c] =
        lane + c * kLanes < p.dim ? static_cast<double>(widened(query[lane + c * kLanes])) : 0.0;
}

// Grid: heads. A warp takes every kWarps-th row, first for the mean, then for what lies far from it; the
// rows come from the second-level cache then.
template <typename T>
__global__ void __launch_bounds__(kLanes* kWarps) query_relevance_kernel(QueryRelevance p) {
  auto& memory = block_memory<MeanMemory>();
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  double values[kChannelsOfLane], mean[kChannelsOfLane] = {};
  for (int row = warp; row < p.rows; row += kWarps) {
    load_row<T>(p, row, values);
    for (int c = 0; c < kChannelsOfLane; ++c) mean[c] += values[c];
  }
  for (int c = 0; c < kChannelsOfLane; ++c) memory.sums[warp][lane + c * kLanes] = mean[c];
  __syncthreads();  // each warp's sums are there
  for (int channel = threadIdx.x; channel < kMostChannels; channel += kLanes * kWarps) {
    double sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += memory.sums[i][channel];
    memory.mean[channel] = sum / p.rows;
  }
  __syncthreads();  // the mean is there
  double square = 0;
  for (int c = 0; c < kChannelsOfLane; ++c) {
    mean[c] = memory.mean[lane + c * kLanes];
    square += mean[c] * mean[c];
  }
  const double mean_length = length_of(sum_of_lanes(square));
  for (int row = warp; row < p.rows; row += kWarps) {
    load_row<T>(p, row, values);
    double product = 0, own = 0;
    for (int c = 0; c < kChannelsOfLane; ++c) {
      product += mean[c] * values[c];
      own += values[c] * values[c];
    }
    product = sum_of_lanes(product);
    own = length_of(sum_of_lanes(own));
    if (lane == 0)
      p.relevance[static_cast<std::int64_t>(blockIdx.x) * p.rows + row] =
          -product / (mean_length * own);
  }
}

constexpr int kRankThreads = 256;

struct RankMemory {
  unsigned values[kMostRanked];
};

// Grid: rows.
__global__ void __launch_bounds__(kRankThreads) ranked_rows_kernel(RankedRows p) {
  auto& memory = block_memory<RankMemory>();
  const std::int64_t from = blockIdx.x * p.row_stride;
  for (int i = threadIdx.x; i < p.count; i += kRankThreads)
    memory.values[i] = rank_value(
        p.scores != nullptr ? p.scores[from + i] : static_cast<float>(p.wide_scores[from + i]));
  __syncthreads();  // the row is there
  std::int32_t* out = p.indices + static_cast<std::int64_t>(blockIdx.x) * p.kept;
  for (int i = threadIdx.x; i < p.count; i += kRankThreads) {
    const unsigned own = memory.values[i];
    int better = 0;
    for (int j = 0; j < p.count; ++j) {
      const unsigned other = memory.values[j];
      better += other > own || (other == own && j < i) ? 1 : 0;
    }
    if (better < p.kept) out[better] = i;
  }
}

}  // namespace

cudaError_t launch_query_relevance(const QueryRelevance& p, cudaStream_t stream) {
  if (p.heads < 1 || p.rows < 1 || p.dim < 1 || p.dim > kMostChannels) return cudaErrorInvalidValue;
  return with_number_of(p.type, [&](auto number) {
    return start(query_relevance_kernel<decltype(number)>, dim3(p.heads), kLanes * kWarps,
                 sizeof(MeanMemory), stream, p);
  });
}

cudaError_t launch_ranked_rows(const RankedRows& p, cudaStream_t stream) {
  if (p.rows < 1 || p.kept < 1 || p.kept > p.count || p.count > kMostRanked)
    return cudaErrorInvalidValue;
  return start(ranked_rows_kernel, dim3(p.rows), kRankThreads, sizeof(RankMemory), stream, p);
}

}  // namespace kvloupe::cuda
