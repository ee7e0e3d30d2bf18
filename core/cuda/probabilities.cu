// The second sweep over K: probabilities of a tile of keys, one tile of rows after the other, to shared
// memory, and there over the rows of each set. A block has whole sets, so that a column of it is
// written once. Slashes run through tiles: each leaves its part of every diagonal, which a last kernel
// sums.
#include "core/cuda/probabilities.cuh"

#include "core/cuda/shared_memory.cuh"
#include "core/cuda/softmax_rows.cuh"
#include "core/cuda/softmax_tile.cuh"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvloupe::cuda {
namespace {

// By key. One number more than are used: rows below each other begin in different banks.
using ProbabilityRow = float[kTileKeys + 1];

template <typename T, int kRows>
struct ReduceMemory {
  Slices<T, kRows> slices;
  ProbabilityRow p[kRows];
};

// Rows of a tile that are of one set: `count` of them from the tile's row `begin` on, the first of them
// row `row` of the set.
struct Run {
  int set, row, begin, count;
};

// A key's p over the rows of a set so far.
struct Column {
  double sum = 0;
  float largest = 0;
};

__device__ void store(const Probabilities& p, int set, int key, const Column& column) {
  const std::int64_t at = static_cast<std::int64_t>(set) * p.num_keys + key;
  if (p.joint_sums != nullptr)
    p.joint_sums[at] = column.sum;
  else
    p.columns[at] = p.largest ? column.largest : static_cast<float>(column.sum);
}

// By the thread of each key.
__device__ void add_to_column(const Probabilities& p, const ProbabilityRow* tile, const Run& run,
                              int first_key, Column& column) {
  const int key = static_cast<int>(threadIdx.x);
  if (key >= kTileKeys || first_key + key >= p.num_keys) return;
  for (int i = 0; i < run.count; ++i) {
    const float value = tile[run.begin + i][key];
    column.sum += static_cast<double>(value);
    // What is not a number stays.
    if (value > column.largest || value != value) column.largest = value;
  }
  if (run.row + run.count < p.rows) return;
  store(p, run.set, first_key + key, column);
  column = {};
}

// Diagonal d of a set in a tile of keys: row r at the tile's key r - d + kTileKeys - 1.
__device__ float* diagonals_of(const SoftmaxLaunch& launch, int set, int key_tile) {
  const std::int64_t tile = static_cast<std::int64_t>(set) * launch.num_key_tiles + key_tile -
                            launch.problem.begin / kTileKeys;
  return launch.diagonals + tile * launch.num_diagonals();
}

// By a thread for each diagonal that the run meets.
__device__ void add_to_diagonals(const SoftmaxLaunch& launch, const ProbabilityRow* tile,
                                 const Run& run, int first_key) {
  static_assert(kThreads >= kManyRows + kTileKeys - 1);
  const int diagonal = static_cast<int>(threadIdx.x), last_key = kTileKeys - 1;
  if (diagonal >= run.count + last_key) return;
  double sum = 0;
  for (int i = max(0, diagonal - last_key); i <= min(diagonal, run.count - 1); ++i)
    sum += static_cast<double>(tile[run.begin + i][i - diagonal + last_key]);
  float* to = diagonals_of(launch, run.set, first_key / kTileKeys) + run.row + diagonal;
  // The rows before have been on these too.
  if (run.row > 0 && diagonal < last_key) sum += static_cast<double>(*to);
  *to = static_cast<float>(sum);
}

template <int kRowsOfGroup>
__device__ void write_probabilities(const SoftmaxLaunch& launch, const TilePlace& at,
                                    const float (&products)[kRowsOfGroup][kKeysOfLane],
                                    ProbabilityRow* tile) {
  const Probabilities& p = launch.problem;
#pragma unroll
  for (int i = 0; i < kRowsOfGroup; ++i) {
    const int row = at.row + row_of_group(i);
    if (row >= at.end_row) continue;
    const SeenKeys seen = keys_seen(p, row);
    const int softmax = row / launch.rows_of_softmax;
    const float shift = launch.shifts[softmax], weight = launch.weights[softmax];
#pragma unroll
    for (int j = 0; j < kKeysOfLane; ++j)
      tile[row_of_group(i)][key_of_lane(j)] =
          seen.has(at.key + key_of_lane(j)) ? expf(logit(p, products[i][j]) - shift) * weight : 0;
  }
}

// Grid: (sets_of_block sets, tiles of keys, KV heads).
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads, (kBlocksOf<ReduceMemory<T, kRows>>))
    reduce_probabilities_kernel(SoftmaxLaunch launch) {
  const Probabilities& p = launch.problem;
  auto& memory = block_memory<ReduceMemory<T, kRows>>();
  const int head = static_cast<int>(blockIdx.z);
  const int first_key = static_cast<int>(blockIdx.y) * kTileKeys;
  const int first_set =
      head * p.sets_of_head() + static_cast<int>(blockIdx.x) * launch.sets_of_block;
  const int end_set = min(first_set + launch.sets_of_block, (head + 1) * p.sets_of_head());
  if (first_key + kTileKeys <= p.begin || first_key >= p.end) {
    const int key = first_key + static_cast<int>(threadIdx.x);
    if (key < min(first_key + kTileKeys, p.num_keys))
      for (int set = first_set; set < end_set; ++set) store(p, set, key, {});
    return;
  }
  const int first_row = first_set * p.rows, end_row = end_set * p.rows;
  Column column;
  for_each_tile<T, kRows>(
      launch, head, (end_row - first_row + kRows - 1) / kRows,
      [&](int tile) {
        return TilePlace{first_row + tile * kRows, end_row, first_key};
      },
      memory.slices,
      [&](const TilePlace& at, const auto& products) {
        write_probabilities(launch, at, products, memory.p);
        __syncthreads();  // the tile's probabilities are there
        const int rows = min(kRows, at.end_row - at.row);
        for (int begin = 0; begin < rows;) {
          const int row = (at.row + begin) % p.rows;
          const Run run{(at.row + begin) / p.rows, row, begin, min(rows - begin, p.rows - row)};
          add_to_column(p, memory.p, run, first_key, column);
          if (p.slashes != nullptr) add_to_diagonals(launch, memory.p, run, first_key);
          begin += run.count;
        }
      });
}

// Grid: (distances, sets).
__global__ void __launch_bounds__(kThreads) sum_slashes_kernel(SoftmaxLaunch launch) {
  const Probabilities& p = launch.problem;
  const int distance = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int set = static_cast<int>(blockIdx.y);
  if (distance >= p.num_keys) return;
  // Row r has `key` + r at this distance.
  const int key = p.visible[0] - 1 - distance;
  const int begin = max(key, p.begin), end = min(key + p.rows, p.end);
  double sum = 0;
  if (begin < end)
    for (int tile = begin / kTileKeys; tile <= (end - 1) / kTileKeys; ++tile)
      sum += static_cast<double>(diagonals_of(launch, set, tile)[(tile + 1) * kTileKeys - 1 - key]);
  p.slashes[static_cast<std::int64_t>(set) * p.num_keys + distance] = static_cast<float>(sum);
}

int ceil_of(int count, int size) { return (count + size - 1) / size; }

template <typename T, int kRows>
struct Reduction {
  static cudaError_t start(SoftmaxLaunch launch, cudaStream_t stream) {
    const Probabilities& p = launch.problem;
    // As many as a tile has room for.
    launch.sets_of_block = std::clamp(kRows / p.rows, 1, p.sets_of_head());
    return cuda::start(reduce_probabilities_kernel<T, kRows>,
                       dim3(ceil_of(p.sets_of_head(), launch.sets_of_block),
                            ceil_of(p.num_keys, kTileKeys), p.num_kv_heads),
                       kThreads, sizeof(ReduceMemory<T, kRows>), stream, launch);
  }
};

// All but where the scratch lies.
SoftmaxLaunch launch_of(const Probabilities& problem) {
  SoftmaxLaunch launch;
  launch.problem = problem;
  Probabilities& p = launch.problem;
  p.begin = p.begin / kTileKeys * kTileKeys;
  launch.rows_of_softmax = p.joint_sums != nullptr ? p.rows : 1;
  launch.num_parts = p.begin < p.end ? ceil_of(p.end - p.begin, kKeysOfPart) : 0;
  launch.num_key_tiles = p.begin < p.end ? ceil_of(p.end - p.begin, kTileKeys) : 0;
  launch.aligned = with_number_of(p.type, [&](auto number) {
    return is_aligned<decltype(number)>(p.queries, 0, p.width) &&
           is_aligned<decltype(number)>(p.keys, p.key_head_stride, p.width);
  });
  return launch;
}

// What lies in the scratch, one behind the other.
std::size_t floats_of_parts(const SoftmaxLaunch& launch) {
  return std::size_t(launch.num_rows()) * std::size_t(launch.num_parts) *
         (sizeof(SoftmaxPart) / sizeof(float));
}
std::size_t floats_of_diagonals(const SoftmaxLaunch& launch) {
  if (launch.problem.slashes == nullptr) return 0;
  return std::size_t(launch.problem.num_sets) * std::size_t(launch.num_key_tiles) *
         std::size_t(launch.num_diagonals());
}

void place_scratch(SoftmaxLaunch& launch) {
  float* at = launch.problem.scratch;
  launch.parts = reinterpret_cast<SoftmaxPart*>(at);
  launch.shifts = at + floats_of_parts(launch);
  launch.weights = launch.shifts + launch.num_rows();
  launch.diagonals = launch.weights + launch.num_rows();
}

bool can_be(const Probabilities& p) {
  return p.num_kv_heads > 0 && p.num_sets > 0 && p.num_sets % p.num_kv_heads == 0 && p.rows > 0 &&
         p.width > 0 && p.num_keys > 0 && p.num_keys <= kMostKeysOfSoftmax && 0 <= p.begin &&
         p.end <= p.num_keys && (p.columns != nullptr) != (p.joint_sums != nullptr) &&
         (p.slashes == nullptr || p.columns != nullptr);
}

}  // namespace

std::size_t scratch_floats(const Probabilities& p) {
  const SoftmaxLaunch launch = launch_of(p);
  return floats_of_parts(launch) + 2 * std::size_t(launch.num_rows()) + floats_of_diagonals(launch);
}

cudaError_t launch_probabilities(const Probabilities& p, cudaStream_t stream) {
  if (!can_be(p)) return cudaErrorInvalidValue;
  SoftmaxLaunch launch = launch_of(p);
  place_scratch(launch);
  cudaError_t status = p.begin < p.end ? launch_softmax(launch, stream) : cudaSuccess;
  if (status != cudaSuccess) return status;
  status = for_type_and_rows<Reduction>(p, launch, stream);
  if (status != cudaSuccess || p.slashes == nullptr) return status;
  return start(sum_slashes_kernel, dim3(ceil_of(p.num_keys, kThreads), p.num_sets), kThreads, 0,
               stream, launch);
}

}  // namespace kvloupe::cuda
