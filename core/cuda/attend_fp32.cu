// Attention of rows in fp32, by multiply-adds.
#include "core/cuda/attend.cuh"
#include "core/cuda/fp32_tile.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cmath>

namespace kvloupe::cuda {
namespace {

template <int kDim, int kRowsOfThread>
struct AttendMemory {
  static constexpr int kRows = kGroups * kRowsOfThread;
  Fp32Row<kDim> q[kRows], k[kKeys], v[kKeys];
  Fp32Row<kKeys> p[kRows];
  TileKeys<kKeys> keys[2];  // of this tile and of the next
};

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
                           const TileKeys<kKeys>& keys, const Rows<kDim, kRowsOfThread>& rows,
                           int group, int lane, float (&s)[kRowsOfThread][kKeysOfThread]) {
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

// Sums over the row's threads are complete.
template <int kDim>
__device__ void write_row(const AttendLaunch& launch, const RowEnd& end, int lane,
                          const float4 (&unscaled)[kDim / kKeys]) {
  if (lane == 0) write_lse(launch, end);
  if (launch.problem.v == nullptr) return;
#pragma unroll
  for (int n = 0; n < kDim / kKeys; ++n) {
    const float four[4] = {unscaled[n].x, unscaled[n].y, unscaled[n].z, unscaled[n].w};
    for (int c = 0; c < 4; ++c)
      write_output<float>(launch, end, n * kKeys + lane * 4 + c, four[c] * end.factor);
  }
}

// Output and log-sum-exp of a tile of rows of one view. Grid: (views, row tiles, parts of the keys).
template <int kDim, int kRowsOfThread>
__global__ void __launch_bounds__(kThreads, (kBlocksOf<AttendMemory<kDim, kRowsOfThread>>))
    attend_fp32_kernel(AttendLaunch launch) {
  using Memory = AttendMemory<kDim, kRowsOfThread>;
  auto& memory = block_memory<Memory>();
  const RowAttention& p = launch.problem;
  const KeyView view = view_of(p, static_cast<int>(blockIdx.x));
  const int first = static_cast<int>(blockIdx.y) * Memory::kRows;
  if (first >= view.num_rows) return;
  const Walk walk = walk_of<kKeys>(launch, view, first, Memory::kRows);
  const int group = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  Rows<kDim, kRowsOfThread> rows(view, first + group);
  const auto load = [&](Fp32Row<kDim>(&tile)[kKeys], const void* heads, std::int64_t head_stride,
                        const TileKeys<kKeys>& keys) {
    load_tile(tile, static_cast<const float*>(heads) + view.kv_head * head_stride, p.head_dim,
              launch.aligned, [&keys](int i) { return keys.source[i]; });
  };
  // Of any thread of the warp: its threads meet at shuffles.
  const bool has_rows = first + group / kRowsOfWarp * kRowsOfWarp < view.num_rows;

  if (walk.begin < walk.end) {
    load_tile(memory.q, static_cast<const float*>(p.q), p.head_dim, launch.aligned,
              [&](int i) { return first + i < view.num_rows ? view.first_row + first + i : -1; });
    note_keys(p, view, walk.begin, walk.end, memory.keys[0]);
    __syncthreads();
    load(memory.k, p.k, p.k_head_stride, memory.keys[0]);
  }
  // V comes while scores are made, the next K while values are added.
  int side = 0;
  for (int begin = walk.begin; begin < walk.end; begin += kKeys, side ^= 1) {
    const TileKeys<kKeys>&keys = memory.keys[side], &next_keys = memory.keys[side ^ 1];
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
    const int row = view.first_row + first + group + i * kGroups;
    if (rows.query[i] >= 0)
      write_row<kDim>(launch, end_of_row(launch, row, rows.max[i], sum), lane, rows.output[i]);
  }
}

template <int kDim, int kRowsOfThread>
AttendKernel kernel_of() {
  using Memory = AttendMemory<kDim, kRowsOfThread>;
  const auto start_it = [](const AttendLaunch& launch, int row_tiles, cudaStream_t stream) {
    return start(attend_fp32_kernel<kDim, kRowsOfThread>,
                 dim3(launch.problem.num_views, row_tiles, launch.parts), kThreads, sizeof(Memory),
                 stream, launch);
  };
  return {Memory::kRows, kBlocksOf<Memory>, start_it};
}

template <int kDim>
AttendKernel kernel_for(int rows) {
  using Larger = AttendMemory<kDim, kMostRowsOfThread<kDim>>;
  return rows <= kGroups || sizeof(Larger) > most_shared_memory()
             ? kernel_of<kDim, 1>()
             : kernel_of<kDim, kMostRowsOfThread<kDim>>();
}

}  // namespace

AttendKernel fp32_kernel(const RowAttention& p) {
  if (p.head_dim <= 64) return kernel_for<64>(p.most_rows);
  if (p.head_dim <= 128) return kernel_for<128>(p.most_rows);
  return kernel_for<kMaxHeadDim>(p.most_rows);
}

}  // namespace kvloupe::cuda
