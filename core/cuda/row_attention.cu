#include "core/cuda/row_attention.cuh"

#include "core/cuda/row_tile.cuh"
#include "core/cuda/shared_memory.cuh"

#include <algorithm>
#include <climits>
#include <cmath>

namespace kvloupe::cuda {
namespace {

// No part of the keys is made shorter than this.
constexpr int kKeysOfPart = 256;

struct Launch {
  RowAttention problem;
  int parts = 1;
  bool aligned = false;
  // Of each part [num_rows, head_dim], then [num_rows]; null where there is one part.
  float* part_outputs = nullptr;
  float* part_lses = nullptr;
};

// The keys of a tile: where they lie (none: -1) and the queries that see them, first and last.
struct TileKeys {
  int source[kKeys], from[kKeys], to[kKeys];
};

__device__ KeyView view_of(const RowAttention& p, int index) {
  if (p.views != nullptr) return p.views[index];
  KeyView view;
  view.kv_head = index;
  view.first_row = index * p.most_rows;
  view.num_rows = p.most_rows;
  view.num_queries = p.chunk_len;
  view.past_keys = p.most_keys - p.chunk_len;
  view.own_begin = p.kv_len - p.chunk_len;
  view.past_begin = p.kv_len - p.most_keys;
  return view;
}

// Keys [begin, end) of the view, as far as a tile of rows sees them, in the part of the block.
struct Walk {
  int begin, end;
};
__device__ Walk walk_of(const Launch& launch, const KeyView& view, int first_row, int rows) {
  const int last_row = std::min(first_row + rows, view.num_rows) - 1;
  const bool in_one_head = first_row / view.num_queries == last_row / view.num_queries;
  const int last_query = in_one_head ? last_row % view.num_queries : view.num_queries - 1;
  const int keys = view.past_keys + last_query + 1;
  const int tiles_of_part = ((keys + kKeys - 1) / kKeys + launch.parts - 1) / launch.parts;
  const int begin = static_cast<int>(blockIdx.z) * tiles_of_part * kKeys;
  return {begin, std::min(keys, begin + tiles_of_part * kKeys)};
}

// By the first threads of the block, for the keys from `first` on.
__device__ void note_keys(const RowAttention& p, const KeyView& view, int first, int end,
                          TileKeys& keys) {
  const int slot = static_cast<int>(threadIdx.x), key = first + slot;
  if (slot >= kKeys) return;
  keys.source[slot] = -1;
  keys.from[slot] = INT_MAX;
  keys.to[slot] = -1;
  if (key >= end) return;
  const int own = key - view.past_keys;
  int position = own >= 0 ? view.own_begin + own : view.past_begin + key;
  if (own < 0 && view.past_list >= 0)
    position = p.table[view.past_list + key / p.block_size] * p.block_size + key % p.block_size;
  const bool for_its_query_alone = own >= 0 && view.shared >= 0 && p.table[view.shared + own] == 0;
  const int last = for_its_query_alone ? own : INT_MAX;
  keys.source[slot] = view.packed_rows >= 0 ? view.packed_rows + key : position;
  keys.from[slot] = std::max(own, 0);
  keys.to[slot] = p.window > 0 ? std::min(last, position - view.own_begin + p.window - 1) : last;
}

template <int kDim, int kRowsOfThread>
struct AttendMemory {
  static constexpr int kRows = kGroups * kRowsOfThread;
  Row<kDim> q[kRows], k[kKeys], v[kKeys];
  Row<kKeys> p[kRows];
  TileKeys keys[2];  // of this tile and of the next
};

// Blocks at a time that registers shall suffice for: as many as the shared memory of the smallest of our
// targets has room for (sm_80: 164 KiB, 1 KiB of it the system's for each), as far as that is of use.
template <int kDim, int kRowsOfThread>
inline constexpr int kBlocks = std::min<int>((164 << 10) /
                                                 (sizeof(AttendMemory<kDim, kRowsOfThread>) + 1024),
                                             4);

// The rows of a thread while keys go by. The kLanes threads of a row have the same max, each the sum
// over its keys, and its own columns of the output: four from lane * 4 on, and so on each kKeys.
template <int kDim, int kRowsOfThread>
struct Rows {
  int query[kRowsOfThread];  // -1: beyond the view's rows
  float max[kRowsOfThread], sum[kRowsOfThread];
  float4 output[kRowsOfThread][kDim / kKeys];

  __device__ Rows(const KeyView& view, int first) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const int row = first + i * kGroups;
      query[i] = row < view.num_rows ? row % view.num_queries : -1;
      max[i] = -INFINITY;
      sum[i] = 0;
      for (float4& four : output[i]) four = {0, 0, 0, 0};
    }
  }
};

// Of the kLanes threads of a row, in each of them. All threads of the warp meet here.
__device__ float max_of_row(float value) {
#pragma unroll
  for (int other = 1; other < kLanes; other *= 2)
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, other));
  return value;
}
__device__ float sum_of_row(float value) {
#pragma unroll
  for (int other = 1; other < kLanes; other *= 2)
    value += __shfl_xor_sync(0xFFFFFFFFU, value, other);
  return value;
}

// Scores of the thread's rows and keys.
template <int kDim, int kRowsOfThread>
__device__ void score_tile(const RowAttention& p, const AttendMemory<kDim, kRowsOfThread>& memory,
                           const TileKeys& keys, const Rows<kDim, kRowsOfThread>& rows, int group,
                           int lane, float (&s)[kRowsOfThread][kKeysOfThread]) {
  multiply<kDim>(memory.q, memory.k, group, lane, s);
#pragma unroll
  for (int j = 0; j < kKeysOfThread; ++j) {
    const int from = keys.from[lane + j * kLanes], to = keys.to[lane + j * kLanes];
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const bool seen = from <= rows.query[i] && rows.query[i] <= to;
      s[i][j] = seen ? logit(p, s[i][j]) : -INFINITY;
    }
  }
}

// Turns scores into exp(score - new max) in memory.p; what was summed before is brought to that max.
template <int kDim, int kRowsOfThread>
__device__ void softmax_tile(AttendMemory<kDim, kRowsOfThread>& memory,
                             Rows<kDim, kRowsOfThread>& rows, int group, int lane,
                             const float (&s)[kRowsOfThread][kKeysOfThread]) {
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = group + i * kGroups;
    float max = rows.max[i];
#pragma unroll
    for (int j = 0; j < kKeysOfThread; ++j) max = fmaxf(max, s[i][j]);
    max = max_of_row(max);
    const bool none = max == -INFINITY;
    const float factor = none ? 1.0f : expf(rows.max[i] - max);
    rows.max[i] = max;
    rows.sum[i] *= factor;
#pragma unroll
    for (int j = 0; j < kKeysOfThread; ++j) {
      const float value = none ? 0.0f : expf(s[i][j] - max);
      memory.p[row].values[lane + j * kLanes] = value;
      rows.sum[i] += value;
    }
    for (float4& four : rows.output[i])
      four = {four.x * factor, four.y * factor, four.z * factor, four.w * factor};
  }
}

__device__ void add(float4& sum, float p, float4 v) {
  sum.x += p * v.x;
  sum.y += p * v.y;
  sum.z += p * v.z;
  sum.w += p * v.w;
}

// output += P V.
template <int kDim, int kRowsOfThread>
__device__ void add_values(const AttendMemory<kDim, kRowsOfThread>& memory,
                           Rows<kDim, kRowsOfThread>& rows, int group, int lane) {
#pragma unroll 1
  for (int key = 0; key < kKeys; key += 4) {
    float4 p[kRowsOfThread];
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i)
      p[i] = load4(memory.p[group + i * kGroups].values + key);
#pragma unroll
    for (int n = 0; n < kDim / kKeys; ++n) {
      const int column = n * kKeys + lane * 4;
      float4 v[4];
      for (int j = 0; j < 4; ++j) v[j] = load4(memory.v[key + j].values + column);
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) {
        add(rows.output[i][n], p[i].x, v[0]);
        add(rows.output[i][n], p[i].y, v[1]);
        add(rows.output[i][n], p[i].z, v[2]);
        add(rows.output[i][n], p[i].w, v[3]);
      }
    }
  }
}

// The sink joins the sum of a row.
__device__ void add_sink(const RowAttention& p, int row, float& max, float& sum) {
  if (p.sinks == nullptr) return;
  const float sink = p.sinks[row / p.chunk_len], larger = fmaxf(max, sink);
  sum = sum * expf(max - larger) + expf(sink - larger);
  max = larger;
}

// Sums over the row's threads are complete: writes the row, of a part or as a whole.
template <int kDim>
__device__ void write_row(const Launch& launch, int row, int lane, float max, float sum,
                          const float4 (&unscaled)[kDim / kKeys]) {
  const RowAttention& p = launch.problem;
  const bool is_part = launch.parts > 1;
  const std::int64_t at = is_part ? static_cast<std::int64_t>(blockIdx.z) * p.num_rows + row : row;
  const float own_max = max;
  if (!is_part) add_sink(p, row, max, sum);
  float* lse = is_part ? launch.part_lses : p.lse;
  if (lane == 0 && lse != nullptr) lse[at] = sum > 0 ? max + logf(sum) : -INFINITY;
  if (p.v == nullptr) return;
  const float factor = sum > 0 ? expf(own_max - max) / sum : 0.0f;
  float* output = (is_part ? launch.part_outputs : p.output) + at * p.head_dim;
#pragma unroll
  for (int n = 0; n < kDim / kKeys; ++n) {
    const float four[4] = {unscaled[n].x, unscaled[n].y, unscaled[n].z, unscaled[n].w};
    for (int c = 0; c < 4; ++c) {
      const int column = n * kKeys + lane * 4 + c;
      if (column < p.head_dim) output[column] = four[c] * factor;
    }
  }
}

// Output and log-sum-exp of a tile of rows of one view. Grid: (views, row tiles, parts of the keys).
template <int kDim, int kRowsOfThread>
__global__ void __launch_bounds__(kThreads, (kBlocks<kDim, kRowsOfThread>))
    attend_kernel(Launch launch) {
  using Memory = AttendMemory<kDim, kRowsOfThread>;
  auto& memory = block_memory<Memory>();
  const RowAttention& p = launch.problem;
  const KeyView view = view_of(p, static_cast<int>(blockIdx.x));
  const int first = static_cast<int>(blockIdx.y) * Memory::kRows;
  if (first >= view.num_rows) return;
  const Walk walk = walk_of(launch, view, first, Memory::kRows);
  const int group = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  Rows<kDim, kRowsOfThread> rows(view, first + group);
  const auto load = [&](Row<kDim>(&tile)[kKeys], const float* heads, std::int64_t head_stride,
                        const TileKeys& keys) {
    load_tile(tile, heads + view.kv_head * head_stride, p.head_dim, launch.aligned,
              [&keys](int i) { return keys.source[i]; });
  };
  // Of any thread of the warp: its threads meet at shuffles.
  const bool has_rows = first + group / kRowsOfWarp * kRowsOfWarp < view.num_rows;

  if (walk.begin < walk.end) {
    load_tile(memory.q, p.q, p.head_dim, launch.aligned,
              [&](int i) { return first + i < view.num_rows ? view.first_row + first + i : -1; });
    note_keys(p, view, walk.begin, walk.end, memory.keys[0]);
    __syncthreads();
    load(memory.k, p.k, p.k_head_stride, memory.keys[0]);
  }
  // V comes while scores are made, the next K while values are added.
  int side = 0;
  for (int begin = walk.begin; begin < walk.end; begin += kKeys, side ^= 1) {
    const TileKeys &keys = memory.keys[side], &next_keys = memory.keys[side ^ 1];
    __pipeline_wait_prior(0);
    __syncthreads();  // K is there, V no longer read
    if (p.v != nullptr) load(memory.v, p.v, p.v_head_stride, keys);
    note_keys(p, view, begin + kKeys, walk.end, memory.keys[side ^ 1]);
    if (has_rows) {
      float s[kRowsOfThread][kKeysOfThread];
      score_tile(p, memory, keys, rows, group, lane, s);
      softmax_tile(memory, rows, group, lane, s);
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // V and P are there, K no longer read
    if (begin + kKeys < walk.end) load(memory.k, p.k, p.k_head_stride, next_keys);
    if (has_rows && p.v != nullptr) add_values(memory, rows, group, lane);
  }

#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const float sum = sum_of_row(rows.sum[i]);
    if (rows.query[i] >= 0)
      write_row<kDim>(launch, view.first_row + first + group + i * kGroups, lane, rows.max[i], sum,
                      rows.output[i]);
  }
}

// Puts the parts of the keys together, a number of the output each thread.
__global__ void __launch_bounds__(kThreads) combine_kernel(Launch launch) {
  const RowAttention& p = launch.problem;
  const int columns = p.v != nullptr ? p.head_dim : 1;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int row = static_cast<int>(at / columns), column = static_cast<int>(at % columns);
  if (row >= p.num_rows) return;
  float max = -INFINITY, sum = 0;
  for (int part = 0; part < launch.parts; ++part)
    max = fmaxf(max, launch.part_lses[static_cast<std::int64_t>(part) * p.num_rows + row]);
  for (int part = 0; part < launch.parts; ++part)
    sum += expf(launch.part_lses[static_cast<std::int64_t>(part) * p.num_rows + row] - max);
  add_sink(p, row, max, sum);
  const float lse = max + logf(sum);
  if (column == 0 && p.lse != nullptr) p.lse[row] = lse;
  if (p.v == nullptr) return;
  float output = 0;
  for (int part = 0; part < launch.parts; ++part) {
    const std::int64_t of_part = static_cast<std::int64_t>(part) * p.num_rows + row;
    output +=
        expf(launch.part_lses[of_part] - lse) * launch.part_outputs[of_part * p.head_dim + column];
  }
  p.output[at] = output;
}

template <typename Kernel>
cudaError_t start(Kernel kernel, dim3 grid, std::size_t shared_bytes, const Launch& launch,
                  cudaStream_t stream) {
  // More than 48 KiB of shared memory a block must be asked for.
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (status != cudaSuccess) return status;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, launch);
}

int ceil_of(std::int64_t count, std::int64_t size) {
  return static_cast<int>((count + size - 1) / size);
}

template <int kDim, int kRowsOfThread>
struct Kernel {
  static constexpr int kRows = AttendMemory<kDim, kRowsOfThread>::kRows;
  static constexpr int kBlocksAtATime = kBlocks<kDim, kRowsOfThread>;

  static cudaError_t launch(const Launch& launch, int row_tiles, cudaStream_t stream) {
    return start(attend_kernel<kDim, kRowsOfThread>,
                 dim3(launch.problem.num_views, row_tiles, launch.parts),
                 sizeof(AttendMemory<kDim, kRowsOfThread>), launch, stream);
  }
};

// use(kernel) of the kernel for this size of heads, and for so many rows: a decoding step has few.
template <typename Use>
auto with_kernel(const RowAttention& p, const Use& use) {
  const bool are_few = p.most_rows <= kGroups;
  if (p.head_dim <= 64)
    return are_few ? use(Kernel<64, 1>()) : use(Kernel<64, kMostRowsOfThread<64>>());
  if (p.head_dim <= 128)
    return are_few ? use(Kernel<128, 1>()) : use(Kernel<128, kMostRowsOfThread<128>>());
  return are_few ? use(Kernel<kMaxHeadDim, 1>())
                 : use(Kernel<kMaxHeadDim, kMostRowsOfThread<kMaxHeadDim>>());
}

template <typename Kernel>
int row_tiles(const RowAttention& p, Kernel) {
  return ceil_of(p.most_rows, Kernel::kRows);
}

// As many as the device has room for at a time.
int num_parts(const RowAttention& p) {
  int device = 0, multiprocessors = 1;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
          cudaSuccess)
    return 1;
  return with_kernel(p, [&](auto kernel) {
    const std::int64_t blocks = std::int64_t{p.num_views} * row_tiles(p, kernel);
    const auto room = std::int64_t{multiprocessors} * kernel.kBlocksAtATime / blocks;
    const std::int64_t most = ceil_of(p.most_keys, kKeysOfPart);
    return static_cast<int>(std::clamp<std::int64_t>(room, 1, most));
  });
}

}  // namespace

void make_dense(RowAttention* p, int num_kv_heads, int kv_len) {
  const int past = kv_len - p->chunk_len;
  p->views = nullptr;
  p->kv_len = kv_len;
  p->num_views = num_kv_heads;
  p->most_rows = p->num_rows / num_kv_heads;
  p->most_keys = p->window > 0 ? std::min(past, p->window - 1) + p->chunk_len : kv_len;
}

std::size_t scratch_floats(const RowAttention& p) {
  const int parts = num_parts(p);
  const auto rows = static_cast<std::size_t>(p.num_rows);
  return parts == 1 ? 0 : static_cast<std::size_t>(parts) * rows * (p.head_dim + 1);
}

cudaError_t launch_row_attention(const RowAttention& p, cudaStream_t stream) {
  if (p.head_dim > kMaxHeadDim) return cudaErrorInvalidValue;
  Launch launch;
  launch.problem = p;
  launch.parts = num_parts(p);
  launch.part_outputs = p.scratch;
  launch.part_lses = p.scratch + static_cast<std::int64_t>(launch.parts) * p.num_rows * p.head_dim;
  launch.aligned = is_aligned(p.q, 0, p.head_dim) && is_aligned(p.k, p.k_head_stride, p.head_dim) &&
                   is_aligned(p.v, p.v_head_stride, p.head_dim);
  const cudaError_t status = with_kernel(
      p, [&](auto kernel) { return kernel.launch(launch, row_tiles(p, kernel), stream); });
  if (status != cudaSuccess || launch.parts == 1) return status;
  const std::int64_t columns = p.v != nullptr ? p.head_dim : 1;
  return start(combine_kernel, dim3(ceil_of(p.num_rows * columns, kThreads)), 0, launch, stream);
}

}  // namespace kvloupe::cuda
