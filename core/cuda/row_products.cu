// The keys of a tile come to shared memory by asynchronous copies, those of the next tile while this
// one is multiplied. Each of a block's four warps takes four of sixteen rows, each lane whole keys; so
// a product needs no sum over threads, and the reduction over the rows is one step at the end.
#include "core/cuda/row_products.cuh"

#include "core/cuda/rows.cuh"
#include "core/cuda/shared_memory.cuh"
#include "core/cuda/start.cuh"

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

template <typename T, int kWidth>
struct Memory {
  // So many that two blocks fit on a multiprocessor with 164 KiB, but for the widest in fp32.
  static constexpr int kKeys = kWidth == 64 ? 96 : 8192 / kWidth;
  Row<T, kWidth> keys[2][kKeys];
  float rows[kWidth][kRowsOfBlock];
  float products[kRowsOfBlock][kKeys + 1];
  float squares[kWarps][kKeys];
};

template <typename T>
__device__ const T* key_row(const RowProducts& p, int head, int key) {
  return static_cast<const T*>(p.keys) + head * p.key_head_stride +
         static_cast<std::int64_t>(key) * p.width;
}

// Begins to copy the tile's keys. Channels beyond the width and keys beyond the last stay as they are.
template <int kVector, typename T, int kWidth, int kKeys>
__device__ void fetch_keys(const RowProducts& p, int head, int first,
                           Row<T, kWidth> (&tile)[kKeys]) {
  constexpr int kPieces = kWidth / kVector;
  for (int i = threadIdx.x; i < kKeys * kPieces; i += kThreads) {
    const int key = i / kPieces, channel = i % kPieces * kVector;
    if (first + key >= p.num_keys || channel >= p.width) continue;
    T* to = tile[key].values + channel;
    const T* from = key_row<T>(p, head, first + key) + channel;
    if constexpr (kVector == 1)
      copy_number(to, from);
    else
      __pipeline_memcpy_async(to, from, sizeof(T) * kVector);
  }
}

template <typename T, int kWidth>
__device__ void clear_padding(const RowProducts& p, Memory<T, kWidth>& memory) {
  for (int i = threadIdx.x; i < 2 * Memory<T, kWidth>::kKeys; i += kThreads)
    for (int channel = p.width; channel < padded_width(p.width); ++channel)
      memory.keys[i % 2][i / 2].values[channel] = T{};
}

// The block's rows in full; they are small and come from the second-level cache.
template <typename T, int kWidth>
__device__ void load_rows(const RowProducts& p, int head, int block, Memory<T, kWidth>& memory) {
  const int floats = padded_width(p.width) * kRowsOfBlock;
  const std::int64_t of_head = static_cast<std::int64_t>(p.sets) * row_blocks(p.rows_per_set);
  const auto* from = reinterpret_cast<const float4*>(p.rows + (head * of_head + block) * floats);
  auto* to = reinterpret_cast<float4*>(memory.rows);
  for (int i = threadIdx.x; i < floats / 4; i += kThreads) to[i] = from[i];
}

// Products of the warp's rows with the lane's keys, in fp32; each warp also squares a quarter of the
// channels.
template <int kVector, typename T, int kWidth, int kKeys>
__device__ void multiply(const RowProducts& p, const Row<T, kWidth> (&keys)[kKeys],
                         Memory<T, kWidth>& memory) {
  constexpr int kKeysOfLane = kKeys / kLanes, kNumbers = 16 / sizeof(T);
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  float sums[kKeysOfLane][kRowsOfWarp] = {};
  float squares[kKeysOfLane] = {};
#pragma unroll(8 / kNumbers)
  for (int first = 0; first < p.width; first += kNumbers) {
    float values[kKeysOfLane][kNumbers];
#pragma unroll
    for (int i = 0; i < kKeysOfLane; ++i)
      load_widened(keys[lane + i * kLanes].values + first, values[i]);
#pragma unroll
    for (int four = 0; four < kNumbers && (kVector > 1 || first + four < p.width); four += 4) {
      // Where numbers are copied one by one, the width may end within those that were read.
      const int channel = first + four;
      float4 rows[4];
      for (int c = 0; c < 4; ++c)
        rows[c] = *reinterpret_cast<const float4*>(&memory.rows[channel + c][warp * kRowsOfWarp]);
      for (int i = 0; i < kKeysOfLane; ++i)
        for (int c = 0; c < 4; ++c) {
          const float value = values[i][four + c];
          sums[i][0] = fmaf(rows[c].x, value, sums[i][0]);
          sums[i][1] = fmaf(rows[c].y, value, sums[i][1]);
          sums[i][2] = fmaf(rows[c].z, value, sums[i][2]);
          sums[i][3] = fmaf(rows[c].w, value, sums[i][3]);
          if (channel / 4 % kWarps == warp) squares[i] = fmaf(value, value, squares[i]);
        }
    }
  }
  for (int i = 0; i < kKeysOfLane; ++i) {
    for (int row = 0; row < kRowsOfWarp; ++row)
      memory.products[warp * kRowsOfWarp + row][lane + i * kLanes] = sums[i][row];
    memory.squares[warp][lane + i * kLanes] = squares[i];
  }
}

template <typename T, int kWidth>
__device__ float divided_by_length(const RowProducts& p, const Memory<T, kWidth>& memory, int head,
                                   int first, float score) {
  float square = 0;
  for (int warp = 0; warp < kWarps; ++warp) square += memory.squares[warp][threadIdx.x];
  float length = sqrtf(square);
  if (!(square <= FLT_MAX)) {
    // Not from shared memory, where another thread may begin to fetch the next tile.
    const T* key = key_row<T>(p, head, first + static_cast<int>(threadIdx.x));
    double sum = 0;
    for (int c = 0; c < p.width; ++c) {
      const auto value = static_cast<double>(widened(key[c]));
      sum += value * value;
    }
    length = static_cast<float>(sqrt(sum));
  }
  return score / (length < kLeastLength ? kLeastLength : length);
}

// One number of each key, of which thread i of the block keeps the i-th's.
struct Reduced {
  float largest = -INFINITY;  // over the set's rows so far
  double total = 0;           // over the sets so far
};

template <typename T, int kWidth>
__device__ void reduce(const RowProducts& p, const Memory<T, kWidth>& memory, int head, int first,
                       int block, Reduced& state) {
  const int key = threadIdx.x;
  if (key >= Memory<T, kWidth>::kKeys || first + key >= p.num_keys) return;
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

template <typename T, int kWidth>
__device__ void store(const RowProducts& p, const Memory<T, kWidth>& memory, int head, int first,
                      int block) {
  constexpr int kKeys = Memory<T, kWidth>::kKeys;
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
template <typename T, int kWidth, int kVector>
__global__ void __launch_bounds__(kThreads, (kBlocksOf<Memory<T, kWidth>>))
    row_products_kernel(RowProducts p) {
  auto& memory = block_memory<Memory<T, kWidth>>();
  constexpr int kKeys = Memory<T, kWidth>::kKeys;
  const int head = blockIdx.y, begin = blockIdx.x * kTilesOfBlock * kKeys;
  const int blocks = p.sets * row_blocks(p.rows_per_set);
  if (kVector == 1) clear_padding(p, memory);
  fetch_keys<kVector>(p, head, begin, memory.keys[0]);
  __pipeline_commit();
  Reduced state;
  for (int tile = 0; tile < kTilesOfBlock && begin + tile * kKeys < p.num_keys; ++tile) {
    const int first = begin + tile * kKeys;
    if (tile + 1 < kTilesOfBlock)
      fetch_keys<kVector>(p, head, first + kKeys, memory.keys[(tile + 1) % 2]);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    for (int block = 0; block < blocks; ++block) {
      if (tile == 0 || blocks > 1) load_rows(p, head, block, memory);
      __syncthreads();  // rows and keys are there; the products before are no longer read
      multiply<kVector>(p, memory.keys[tile % 2], memory);
      __syncthreads();  // the products are there; rows and keys are no longer read
      if (p.reduce == RowReduce::None)
        store(p, memory, head, first, block);
      else
        reduce(p, memory, head, first, block, state);
    }
  }
}

template <typename T, int kWidth, int kVector>
cudaError_t launch(const RowProducts& p, cudaStream_t stream) {
  constexpr int kKeysOfBlock = kTilesOfBlock * Memory<T, kWidth>::kKeys;
  return start(row_products_kernel<T, kWidth, kVector>,
               dim3((p.num_keys + kKeysOfBlock - 1) / kKeysOfBlock, p.num_kv_heads), kThreads,
               sizeof(Memory<T, kWidth>), stream, p);
}

template <typename T, int kWidth>
cudaError_t launch_for(const RowProducts& p, cudaStream_t stream) {
  return is_aligned<T>(p.keys, p.key_head_stride, p.width)
             ? launch<T, kWidth, 16 / sizeof(T)>(p, stream)
             : launch<T, kWidth, 1>(p, stream);
}

template <typename T>
cudaError_t launch_for(const RowProducts& p, cudaStream_t stream) {
  if (p.width <= 64) return launch_for<T, 64>(p, stream);
  if (p.width <= 128) return launch_for<T, 128>(p, stream);
  if (p.width <= kMostChannels) return launch_for<T, kMostChannels>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_row_products(const RowProducts& p, cudaStream_t stream) {
  if (p.num_kv_heads < 1 || p.num_keys < 1 || p.width < 1 || p.sets < 1 || p.rows_per_set < 1)
    return cudaErrorInvalidValue;
  return with_number_of(p.type,
                        [&](auto number) { return launch_for<decltype(number)>(p, stream); });
}

}  // namespace kvloupe::cuda
