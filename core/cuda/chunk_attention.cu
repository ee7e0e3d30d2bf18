#include "core/cuda/chunk_attention.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cmath>
#include <cstddef>

namespace kvloupe::cuda {
namespace {

// A block of kThreads works on kRows queries and kKeys keys at a time; kLanes threads share a row.
constexpr int kThreads = 128;
constexpr int kRows = 32;
constexpr int kKeys = 32;
constexpr int kLanes = kThreads / kRows;

// Rows of a tile are padded by one float, so that threads that walk down a column meet different
// banks of shared memory.
template <int kDim>
struct Tile {
  static constexpr int kStride = kDim + 1;
  float values[kRows > kKeys ? kRows : kKeys][kStride];

  // Rows [first, first + count) of a head; what lies outside the matrix or head_dim is zero.
  __device__ void load(const float* matrix, int first, int available, int count, int head_dim) {
    for (int i = threadIdx.x; i < count * kDim; i += kThreads) {
      const int row = i / kDim, column = i % kDim;
      const bool inside = first + row < available && column < head_dim;
      values[row][column] =
          inside ? matrix[static_cast<std::int64_t>(first + row) * head_dim + column] : 0.0f;
    }
  }
};

template <int kDim>
__device__ float dot(const float* a, const float* b) {
  float sum = 0;
#pragma unroll 16
  for (int c = 0; c < kDim; ++c) sum += a[c] * b[c];
  return sum;
}

// Keys that the folded row sees.
__device__ int visible_keys(const ChunkAttention& p, int row) {
  return p.kv_len - p.chunk_len + row % p.chunk_len + 1;
}

template <int kDim>
struct AttendMemory {
  Tile<kDim> q, k, v;
  float scores[kRows][kKeys + 1];
  float partial[kRows][kLanes];
};

// One row's state while keys stream by. All kLanes threads of the row hold the same numbers.
struct RowState {
  float max = -INFINITY;
  float sum = 0;
};

// Turns the row's scores into exp(score - new max); returns what earlier sums must be multiplied
// by.
template <int kDim>
__device__ float softmax_tile(AttendMemory<kDim>& memory, int row, int lane, RowState& state) {
  float largest = -INFINITY;
  for (int key = lane; key < kKeys; key += kLanes)
    largest = fmaxf(largest, memory.scores[row][key]);
  memory.partial[row][lane] = largest;
  __syncthreads();
  float max = state.max;
  for (int i = 0; i < kLanes; ++i) max = fmaxf(max, memory.partial[row][i]);
  __syncthreads();
  float sum = 0;
  for (int key = lane; key < kKeys; key += kLanes) {
    const float value = max == -INFINITY ? 0.0f : expf(memory.scores[row][key] - max);
    memory.scores[row][key] = value;
    sum += value;
  }
  memory.partial[row][lane] = sum;
  __syncthreads();
  const float factor = max == -INFINITY ? 1.0f : expf(state.max - max);
  state.max = max;
  state.sum *= factor;
  for (int i = 0; i < kLanes; ++i) state.sum += memory.partial[row][i];
  return factor;
}

// Output and log-sum-exp of kRows rows of one KV head. Grid: (row tiles, KV heads).
template <int kDim>
__global__ void __launch_bounds__(kThreads) attend_kernel(ChunkAttention p) {
  auto& memory = block_memory<AttendMemory<kDim>>();
  const int head = blockIdx.y, first = blockIdx.x * kRows;
  const int row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const std::int64_t base = static_cast<std::int64_t>(head) * p.rows;
  const int visible = first + row < p.rows ? visible_keys(p, first + row) : 0;
  memory.q.load(p.q + base * p.head_dim, first, p.rows, kRows, p.head_dim);

  RowState state;
  float accumulated[kDim / kLanes] = {};  // columns lane, lane + kLanes, ... of the output
  for (int key0 = 0; key0 < p.kv_len; key0 += kKeys) {
    __syncthreads();  // the tiles of the round before are no longer read
    memory.k.load(p.k + head * p.k_head_stride, key0, p.kv_len, kKeys, p.head_dim);
    memory.v.load(p.v + head * p.v_head_stride, key0, p.kv_len, kKeys, p.head_dim);
    __syncthreads();
    for (int key = lane; key < kKeys; key += kLanes) {
      memory.scores[row][key] =
          key0 + key < visible ? p.scale * dot<kDim>(memory.q.values[row], memory.k.values[key])
                               : -INFINITY;
    }
    // No barrier yet: softmax_tile begins with the scores that a thread wrote itself.
    const float factor = softmax_tile(memory, row, lane, state);
    for (int i = 0; i < kDim / kLanes; ++i) {
      float sum = accumulated[i] * factor;
      for (int key = 0; key < kKeys; ++key) {
        sum += memory.scores[row][key] * memory.v.values[key][lane + i * kLanes];
      }
      accumulated[i] = sum;
    }
  }

  if (first + row >= p.rows) return;
  float* output = p.output + (base + first + row) * p.head_dim;
  for (int i = 0; i < kDim / kLanes; ++i) {
    if (lane + i * kLanes < p.head_dim) output[lane + i * kLanes] = accumulated[i] / state.sum;
  }
  if (lane == 0) p.lse[base + first + row] = state.max + logf(state.sum);
}

template <int kDim>
struct MassMemory {
  Tile<kDim> q, k;
  float partial[kKeys][kLanes];
};

// Sum of p over all rows, for kKeys keys of one KV head. Grid: (key tiles, KV heads). Here kLanes
// threads share a key.
template <int kDim>
__global__ void __launch_bounds__(kThreads) mass_kernel(ChunkAttention p) {
  auto& memory = block_memory<MassMemory<kDim>>();
  const int head = blockIdx.y, key0 = blockIdx.x * kKeys;
  const int key = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const std::int64_t base = static_cast<std::int64_t>(head) * p.rows;
  memory.k.load(p.k + head * p.k_head_stride, key0, p.kv_len, kKeys, p.head_dim);
  float mass = 0;
  for (int first = 0; first < p.rows; first += kRows) {
    __syncthreads();
    memory.q.load(p.q + base * p.head_dim, first, p.rows, kRows, p.head_dim);
    __syncthreads();
    for (int row = lane; row < kRows && first + row < p.rows; row += kLanes) {
      if (key0 + key >= visible_keys(p, first + row)) continue;
      const float score = p.scale * dot<kDim>(memory.q.values[row], memory.k.values[key]);
      mass += expf(score - p.lse[base + first + row]);
    }
  }
  memory.partial[key][lane] = mass;
  __syncthreads();
  if (lane != 0 || key0 + key >= p.kv_len) return;
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += memory.partial[key][i];
  p.key_mass[static_cast<std::int64_t>(head) * p.kv_len + key0 + key] = sum;
}

template <typename Kernel>
cudaError_t launch(Kernel kernel, int tiles, std::size_t bytes, const ChunkAttention& p,
                   cudaStream_t stream) {
  // More than 48 KiB of shared memory a block must be asked for.
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(tiles, p.num_kv_heads);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, p);
}

template <int kDim>
cudaError_t launch_for(const ChunkAttention& p, cudaStream_t stream) {
  const cudaError_t status = launch(attend_kernel<kDim>, (p.rows + kRows - 1) / kRows,
                                    sizeof(AttendMemory<kDim>), p, stream);
  if (status != cudaSuccess || p.key_mass == nullptr) return status;
  return launch(mass_kernel<kDim>, (p.kv_len + kKeys - 1) / kKeys, sizeof(MassMemory<kDim>), p,
                stream);
}

}  // namespace

cudaError_t launch_chunk_attention(const ChunkAttention& p, cudaStream_t stream) {
  if (p.head_dim <= 64) return launch_for<64>(p, stream);
  if (p.head_dim <= 128) return launch_for<128>(p, stream);
  if (p.head_dim <= kMaxHeadDim) return launch_for<kMaxHeadDim>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace kvloupe::cuda
