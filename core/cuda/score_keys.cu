#include "core/cuda/score_keys.cuh"

#include "core/cuda/lane_sums.cuh"
#include "core/cuda/rows.cuh"
#include "core/cuda/shared_memory.cuh"
#include "core/cuda/start.cuh"

namespace kvloupe::cuda {
namespace {

constexpr int kWarps = 8;

struct PackMemory {
  double sums[kWarps][kMostChannels];
};

// The length of a query, whose channels lane, lane + 32, ... are `values`. In all lanes.
__device__ double query_length(const float (&values)[kChannelsOfLane]) {
  double square = 0;
  for (const float value : values)
    square += static_cast<double>(value) * static_cast<double>(value);
  return length_of(sum_of_lanes(square));
}

// One row that stands for the chunk: the mean of chosen queries, of unit length for the cosine, summed
// in fp64, so that identical heads average to themselves. Grid: (rows of a KV head with their padding,
// KV heads).
template <typename T>
__global__ void __launch_bounds__(kLanes* kWarps, 2) pack_chosen_kernel(ScoreKeys p) {
  auto& memory = block_memory<PackMemory>();
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int kv_head = blockIdx.y, padded_rows = row_blocks(p.rows_per_set()) * kRowsOfBlock;
  const int set = blockIdx.x / padded_rows, row = blockIdx.x % padded_rows;
  // Queries to average: those of `heads` heads, `slots` of each.
  const int heads = p.scores_first ? 1 : p.group(), slots = p.mean_of_queries ? p.slots : 1;
  const int first_head = kv_head * p.group() + set;
  const int count = row < p.rows_per_set() ? heads * slots : 0;

  double sums[kChannelsOfLane] = {};
  for (int i = warp; i < count; i += kWarps) {
    const int head = first_head + i / slots, slot = p.mean_of_queries ? i % slots : row;
    const T* query = static_cast<const T*>(p.q) + head * p.q_head_stride +
                     p.chosen[static_cast<std::int64_t>(head) * p.slots + slot] * p.q_row_stride;
    float values[kChannelsOfLane];
    for (int c = 0; c < kChannelsOfLane; ++c)
      values[c] = lane + c * kLanes < p.head_dim ? widened(query[lane + c * kLanes]) : 0.0F;
    const double length = p.cosine ? query_length(values) : 1.0;
    for (int c = 0; c < kChannelsOfLane; ++c) sums[c] += static_cast<double>(values[c]) / length;
  }
  for (int c = 0; c < kChannelsOfLane; ++c) memory.sums[warp][lane + c * kLanes] = sums[c];
  __syncthreads();

  const int width = padded_width(p.head_dim);
  const std::int64_t block =
      (static_cast<std::int64_t>(kv_head) * p.sets() + set) * (padded_rows / kRowsOfBlock) +
      row / kRowsOfBlock;
  float* out = p.rows + block * width * kRowsOfBlock + row % kRowsOfBlock;
  for (int channel = threadIdx.x; channel < width; channel += kLanes * kWarps) {
    double sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += memory.sums[i][channel];
    out[channel * kRowsOfBlock] = count == 0 ? 0.0F : static_cast<float>(sum / count);
  }
}

cudaError_t pack_chosen(const ScoreKeys& p, cudaStream_t stream) {
  const dim3 grid(p.sets() * row_blocks(p.rows_per_set()) * kRowsOfBlock, p.num_kv_heads);
  return with_number_of(p.type, [&](auto number) {
    return start(pack_chosen_kernel<decltype(number)>, grid, kLanes * kWarps, sizeof(PackMemory),
                 stream, p);
  });
}

}  // namespace

cudaError_t launch_score_keys(const ScoreKeys& p, cudaStream_t stream) {
  if (p.head_dim > kMostChannels) return cudaErrorInvalidValue;
  const cudaError_t status = pack_chosen(p, stream);
  if (status != cudaSuccess) return status;
  RowProducts products;
  products.rows = p.rows;
  products.type = p.type;
  products.keys = p.k;
  products.key_head_stride = p.k_head_stride;
  products.num_kv_heads = p.num_kv_heads;
  products.num_keys = p.num_keys;
  products.width = p.head_dim;
  products.sets = p.sets();
  products.rows_per_set = p.rows_per_set();
  products.reduce = RowReduce::MeanOfLargest;
  products.by_length = p.cosine;
  products.results = p.scores;
  return launch_row_products(products, stream);
}

}  // namespace kvloupe::cuda
