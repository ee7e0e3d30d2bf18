// The keys are cut into parts, so that few rows fill a GPU too; of each part a thread keeps the largest
// logit and the sum of its own keys, and lanes meet once at the end.
#include "core/cuda/softmax_rows.cuh"

#include "core/cuda/shared_memory.cuh"
#include "core/cuda/softmax_tile.cuh"

#include <cmath>
#include <cstdint>

namespace kvloupe::cuda {
namespace {

constexpr int kWarpLanes = 32, kWarps = kThreads / kWarpLanes;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ void add_keys(SoftmaxPart& part, const float (&logits)[kKeysOfLane]) {
  float largest = part.largest;
#pragma unroll
  for (const float logit : logits) largest = fmaxf(largest, logit);
  if (largest == -INFINITY) return;  // none is seen, nor was one
  float sum = part.sum * expf(part.largest - largest);
#pragma unroll
  for (const float logit : logits) sum += expf(logit - largest);
  part = {largest, sum};
}

__device__ SoftmaxPart both(const SoftmaxPart& a, const SoftmaxPart& b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return a;
  return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

// Grid: (tiles of rows, parts of the keys, KV heads).
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads, (kBlocksOf<Slices<T, kRows>>))
    softmax_parts_kernel(SoftmaxLaunch launch) {
  const Probabilities& p = launch.problem;
  auto& slices = block_memory<Slices<T, kRows>>();
  const int head = static_cast<int>(blockIdx.z), part = static_cast<int>(blockIdx.y);
  const int rows_of_head = p.sets_of_head() * p.rows, end_row = (head + 1) * rows_of_head;
  const int first_row = head * rows_of_head + static_cast<int>(blockIdx.x) * kRows;
  const int first_key = p.begin + part * kKeysOfPart;
  const int keys = min(kKeysOfPart, p.end - first_key);
  SoftmaxPart parts[kRows / kRowGroups];
  for_each_tile<T, kRows>(
      launch, head, (keys + kTileKeys - 1) / kTileKeys,
      [&](int tile) {
        return TilePlace{first_row, end_row, first_key + tile * kTileKeys};
      },
      slices,
      [&](const TilePlace& at, const auto& products) {
#pragma unroll
        for (int i = 0; i < kRows / kRowGroups; ++i) {
          const SeenKeys seen = keys_seen(p, first_row + row_of_group(i));
          float logits[kKeysOfLane];
#pragma unroll
          for (int j = 0; j < kKeysOfLane; ++j)
            logits[j] = seen.has(at.key + key_of_lane(j)) ? logit(p, products[i][j]) : -INFINITY;
          add_keys(parts[i], logits);
        }
      });
#pragma unroll
  for (int i = 0; i < kRows / kRowGroups; ++i) {
    for (int step = kKeyLanes / 2; step > 0; step /= 2)
      parts[i] = both(parts[i], {__shfl_xor_sync(kAllLanes, parts[i].largest, step),
                                 __shfl_xor_sync(kAllLanes, parts[i].sum, step)});
    const int row = first_row + row_of_group(i);
    if (key_of_lane(0) == 0 && row < end_row)
      launch.parts[static_cast<std::int64_t>(row) * launch.num_parts + part] = parts[i];
  }
}

// Puts the parts together, those of a softmax by a warp. Grid: softmaxes, one for each warp.
__global__ void __launch_bounds__(kThreads) settle_softmax_kernel(SoftmaxLaunch launch) {
  const Probabilities& p = launch.problem;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int softmax =
      static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
  if (softmax >= launch.num_rows() / launch.rows_of_softmax) return;
  const std::int64_t count = std::int64_t{launch.rows_of_softmax} * launch.num_parts;
  const SoftmaxPart* parts = launch.parts + softmax * count;
  const float sink = p.sinks != nullptr ? p.sinks[softmax] : -INFINITY;
  float largest = sink;
  for (std::int64_t i = lane; i < count; i += kWarpLanes)
    largest = fmaxf(largest, parts[i].largest);
  for (int step = kWarpLanes / 2; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  // Of a row that sees nothing any finite number does.
  const float shift = largest == -INFINITY ? 0 : largest;
  double total = lane == 0 ? static_cast<double>(expf(sink - shift)) : 0;
  for (std::int64_t i = lane; i < count; i += kWarpLanes)
    total +=
        static_cast<double>(parts[i].sum) * static_cast<double>(expf(parts[i].largest - shift));
  for (int step = kWarpLanes / 2; step > 0; step /= 2)
    total += __shfl_xor_sync(kAllLanes, total, step);
  if (lane != 0) return;
  launch.shifts[softmax] = shift;
  launch.weights[softmax] = p.joint_sums != nullptr ? 1
                            : total == 0            ? 0
                                                    : static_cast<float>(1 / total);
}

template <typename T, int kRows>
struct Parts {
  static cudaError_t start(const SoftmaxLaunch& launch, cudaStream_t stream) {
    const Probabilities& p = launch.problem;
    const int rows = p.sets_of_head() * p.rows;
    return cuda::start(softmax_parts_kernel<T, kRows>,
                       dim3((rows + kRows - 1) / kRows, launch.num_parts, p.num_kv_heads), kThreads,
                       sizeof(Slices<T, kRows>), stream, launch);
  }
};

}  // namespace

cudaError_t launch_softmax(const SoftmaxLaunch& launch, cudaStream_t stream) {
  const cudaError_t status = for_type_and_rows<Parts>(launch.problem, launch, stream);
  if (status != cudaSuccess) return status;
  const int softmaxes = launch.num_rows() / launch.rows_of_softmax;
  return start(settle_softmax_kernel, dim3((softmaxes + kWarps - 1) / kWarps), kThreads, 0, stream,
               launch);
}

}  // namespace kvloupe::cuda
