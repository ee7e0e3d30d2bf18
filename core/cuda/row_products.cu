// The keys of a tile come to shared memory by asynchronous copies, those of the next tile while this
// one is multiplied. Each of a block's four warps takes four of sixteen rows, each lane whole keys; so
// a product needs no sum over threads, and the reduction over the rows is one step at the end.
#include "core/cuda/row_products.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cfloat>
#include <cmath>

#include <cuda_pipeline_primitives.h>

namespace kvloupe::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kLanes = 32;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsOfWarp = kRowsOfBlock / kWarps;
constexpr int kTilesOfBlock = 4;
static_assert(kRowsOfWarp == 4, "a lane reads its rows as one float4");

template <int kWidth>
struct Memory {
  // So many that two blocks fit on a multiprocessor with 164 KiB, but for the widest.
  static constexpr int kKeys = kWidth == 64 ? 96 : 8192 / kWidth;
  // Four floats of padding: lanes that read the same channels of neighbouring keys meet all banks.
  float keys[2][kKeys][kWidth + 4];
  float rows[kWidth][kRowsOfBlock];
  float products[kRowsOfBlock][kKeys + 1];
  float squares[kWarps][kKeys];
};

__device__ const float* key_row(const RowProducts& p, int head, int key) {
  return p.keys + head * p.key_head_stride + static_cast<std::int64_t>(key) * p.width;
}

// Begins to copy the tile's keys. Channels beyond the width and keys beyond the last stay as they are.
template <int kWidth, int kVector>
__device__ void fetch_keys(const RowProducts& p, int head, int first, float (*tile)[kWidth + 4]) {
  constexpr int kPieces = kWidth / kVector;
  for (int i = threadIdx.x; i < Memory<kWidth>::kKeys * kPieces; i += kThreads) {
    const int key = i / kPieces, channel = i % kPieces * kVector;
    if (first + key < p.num_keys && channel < p.width)
      __pipeline_memcpy_async(&tile[key][channel], key_row(p, head, first + key) + channel,
                              sizeof(float) * kVector);
  }
}

template <int kWidth>
__device__ void clear_padding(const RowProducts& p, Memory<kWidth>& memory) {
  for (int i = threadIdx.x; i < 2 * Memory<kWidth>::kKeys; i += kThreads)
    for (int channel = p.width; channel < padded_width(p.width); ++channel)
      memory.keys[i % 2][i / 2][channel] = 0;
}

// The block's rows in full; they are small and come from the second-level cache.
template <int kWidth>
__device__ void load_rows(const RowProducts& p, int head, int block, Memory<kWidth>& memory) {
  const int floats = padded_width(p.width) * kRowsOfBlock;
  const std::int64_t of_head = static_cast<std::int64_t>(p.sets) * row_blocks(p.rows_per_set);
  const auto* from = reinterpret_cast<const float4*>(p.rows + (head * of_head + block) * floats);
  auto* to = reinterpret_cast<float4*>(memory.rows);
  for (int i = threadIdx.x; i < floats / 4; i += kThreads) to[i] = from[i];
}

// Products of the warp's rows with the lane's keys; each warp also squares a quarter of the channels.
template <int kWidth>
__device__ void multiply(const RowProducts& p, int buffer, Memory<kWidth>& memory) {
  constexpr int kKeysOfLane = Memory<kWidth>::kKeys / kLanes;
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  float sums[kKeysOfLane][kRowsOfWarp] = {};
  float squares[kKeysOfLane] = {};
#pragma unroll 2
  for (int channel = 0; channel < p.width; channel += 4) {
    float4 rows[4];
    for (int c = 0; c < 4; ++c)
      rows[c] = *reinterpret_cast<const float4*>(&memory.rows[channel + c][warp * kRowsOfWarp]);
    for (int i = 0; i < kKeysOfLane; ++i) {
      const float4 key =
          *reinterpret_cast<const float4*>(&memory.keys[buffer][lane + i * kLanes][channel]);
      const float values[4] = {key.x, key.y, key.z, key.w};
      for (int c = 0; c < 4; ++c) {
        sums[i][0] = fmaf(rows[c].x, values[c], sums[i][0]);
        sums[i][1] = fmaf(rows[c].y, values[c], sums[i][1]);
        sums[i][2] = fmaf(rows[c].z, values[c], sums[i][2]);
        sums[i][3] = fmaf(rows[c].w, values[c], sums[i][3]);
      }
      if (channel / 4 % kWarps == warp)
        for (const float value : values) squares[i] = fmaf(value, value, squares[i]);
    }
  }
  for (int i = 0; i < kKeysOfLane; ++i) {
    for (int row = 0; row < kRowsOfWarp; ++row)
      memory.products[warp * kRowsOfWarp + row][lane + i * kLanes] = sums[i][row];
    memory.squares[warp][lane + i * kLanes] = squares[i];
  }
}

template <int kWidth>
__device__ float divided_by_length(const RowProducts& p, const Memory<kWidth>& memory, int head,
                                   int first, float score) {
  float square = 0;
  for (int warp = 0; warp < kWarps; ++warp) square += memory.squares[warp][threadIdx.x];
  float length = sqrtf(square);
  if (!(square <= FLT_MAX)) {
    // Not from shared memory, where another thread may begin to fetch the next tile.
    const float* key = key_row(p, head, first + static_cast<int>(threadIdx.x));
    double sum = 0;
    for (int c = 0; c < p.width; ++c)
      sum += static_cast<double>(key[c]) * static_cast<double>(key[c]);
    length = static_cast<float>(sqrt(sum));
  }
  return score / (length < kLeastLength ? kLeastLength : length);
}

// One number of each key, of which thread i of the block keeps the i-th's.
struct Reduced {
  float largest = -INFINITY;  // over the set's rows so far
  double total = 0;           // over the sets so far
};

template <int kWidth>
__device__ void reduce(const RowProducts& p, const Memory<kWidth>& memory, int head, int first,
                       int block, Reduced& state) {
  const int key = threadIdx.x;
  if (key >= Memory<kWidth>::kKeys || first + key >= p.num_keys) return;
  const int blocks = row_blocks(p.rows_per_set), set = block / blocks;
  const int rows = p.rows_per_set - block % blocks * kRowsOfBlock;
  if (block % blocks == 0) state.largest = -INFINITY;
  for (int row = 0; row < rows && row < kRowsOfBlock; ++row) {
    const float product = memory.products[row][key];
    // What is not a number stays.
    if (product > state.largest || product != product) state.largest = product;
  }
  if (block % blocks + 1 < blocks) return;
  if (p.reduce == RowReduce::Largest) {
    const float score =
        p.by_length ? divided_by_length(p, memory, head, first, state.largest) : state.largest;
    p.results[(static_cast<std::int64_t>(head) * p.sets + set) * p.num_keys + first + key] = score;
    return;
  }
  state.total += static_cast<double>(state.largest);
  if (set + 1 < p.sets) return;
  const float mean = static_cast<float>(state.total / static_cast<double>(p.sets));
  p.results[static_cast<std::int64_t>(head) * p.num_keys + first + key] =
      p.by_length ? divided_by_length(p, memory, head, first, mean) : mean;
  state.total = 0;
}

template <int kWidth>
__device__ void store(const RowProducts& p, const Memory<kWidth>& memory, int head, int first,
                      int block) {
  constexpr int kKeys = Memory<kWidth>::kKeys;
  const int blocks = row_blocks(p.rows_per_set), row0 = block % blocks * kRowsOfBlock;
  const std::int64_t before =
      (static_cast<std::int64_t>(head) * p.sets + block / blocks) * p.rows_per_set + row0;
  for (int i = threadIdx.x; i < kRowsOfBlock * kKeys; i += kThreads) {
    const int row = i / kKeys, key = i % kKeys;
    if (row0 + row < p.rows_per_set && first + key < p.num_keys)
      p.results[(before + row) * p.num_keys + first + key] = memory.products[row][key];
  }
}

// Grid: (kTilesOfBlock tiles of keys, KV heads).
template <int kWidth, int kVector>
__global__ void __launch_bounds__(kThreads) row_products_kernel(RowProducts p) {
  auto& memory = block_memory<Memory<kWidth>>();
  constexpr int kKeys = Memory<kWidth>::kKeys;
  const int head = blockIdx.y, begin = blockIdx.x * kTilesOfBlock * kKeys;
  const int blocks = p.sets * row_blocks(p.rows_per_set);
  if (kVector == 1) clear_padding(p, memory);
  fetch_keys<kWidth, kVector>(p, head, begin, memory.keys[0]);
  __pipeline_commit();
  Reduced state;
  for (int tile = 0; tile < kTilesOfBlock && begin + tile * kKeys < p.num_keys; ++tile) {
    const int first = begin + tile * kKeys;
    if (tile + 1 < kTilesOfBlock)
      fetch_keys<kWidth, kVector>(p, head, first + kKeys, memory.keys[(tile + 1) % 2]);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    for (int block = 0; block < blocks; ++block) {
      if (tile == 0 || blocks > 1) load_rows(p, head, block, memory);
      __syncthreads();  // rows and keys are there; the products before are no longer read
      multiply(p, tile % 2, memory);
      __syncthreads();  // the products are there; rows and keys are no longer read
      if (p.reduce == RowReduce::None)
        store(p, memory, head, first, block);
      else
        reduce(p, memory, head, first, block, state);
    }
  }
}

template <int kWidth, int kVector>
cudaError_t launch(const RowProducts& p, cudaStream_t stream) {
  constexpr std::size_t kBytes = sizeof(Memory<kWidth>);
  constexpr int kKeysOfBlock = kTilesOfBlock * Memory<kWidth>::kKeys;
  const auto kernel = row_products_kernel<kWidth, kVector>;
  // More than 48 KiB of shared memory a block must be asked for.
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes));
  if (status != cudaSuccess) return status;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((p.num_keys + kKeysOfBlock - 1) / kKeysOfBlock, p.num_kv_heads);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, p);
}

template <int kWidth>
cudaError_t launch_for(const RowProducts& p, cudaStream_t stream) {
  const bool in_vectors = p.width % 4 == 0 && p.key_head_stride % 4 == 0 &&
                          reinterpret_cast<std::uintptr_t>(p.keys) % sizeof(float4) == 0;
  return in_vectors ? launch<kWidth, 4>(p, stream) : launch<kWidth, 1>(p, stream);
}

}  // namespace

cudaError_t launch_row_products(const RowProducts& p, cudaStream_t stream) {
  if (p.num_kv_heads < 1 || p.num_keys < 1 || p.width < 1 || p.sets < 1 || p.rows_per_set < 1)
    return cudaErrorInvalidValue;
  if (p.width <= 64) return launch_for<64>(p, stream);
  if (p.width <= 128) return launch_for<128>(p, stream);
  if (p.width <= kMostChannels) return launch_for<kMostChannels>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace kvloupe::cuda
