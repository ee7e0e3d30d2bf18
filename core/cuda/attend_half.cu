// Attention of rows in fp16 and bf16: products on tensor cores, summed in fp32, and softmax in fp32. What
// is rounded to the type of the inputs beside them: exp(score - max) before it is multiplied with V, and
// the output.
#include "core/cuda/attend.cuh"
#include "core/cuda/half_tile.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cmath>

namespace kvloupe::cuda {
namespace {

// Where a block has many rows, each warp has 16 of them and meets all keys of a tile. Where it has few,
// all warps have the same 16 and share out the keys.
template <typename T_, int kDim_, int kWarpsOfRows>
struct Shape {
  using T = T_;
  static constexpr int kDim = kDim_;
  static constexpr int kRows = kRowsOfWarp * kWarpsOfRows;
  static constexpr int kWarpsOfKeys = kWarps / kWarpsOfRows;
  // Of a tile. Fewer where heads are wide, so that two blocks fit on a multiprocessor.
  static constexpr int kKeys = kDim > 128 && kWarpsOfKeys == 1 ? 32 : 64;
  static constexpr int kKeysOfWarp = kKeys / kWarpsOfKeys;
  static constexpr int kGroups = kKeysOfWarp / 8;
};

// Of a block, while keys go by.
template <typename S>
struct Tiles {
  Row<typename S::T, S::kDim> q[S::kRows], k[S::kKeys], v[S::kKeys];
};
// Then what the warps found, over their keys.
template <typename S>
struct Found {
  Row<float, S::kDim + 4> output[S::kWarpsOfKeys][S::kRows];
};
template <typename S>
struct AttendMemory {
  union {
    Tiles<S> tiles;
    Found<S> found;
  };
  float max[S::kWarpsOfKeys][S::kRows], sum[S::kWarpsOfKeys][S::kRows];
  TileKeys<S::kKeys> keys[2];  // of this tile and of the next
};

// The rows g and g + 8 of a lane while keys go by. The four lanes of a row have the same max, each the
// sum over its keys, and its own channels of the output (half_tile.cuh).
template <typename S>
struct Rows {
  int query[2];  // -1: beyond the view's rows
  float max[2], sum[2];
  float output[S::kDim / 8][4];

  __device__ Rows(const KeyView& view, int first) {
    for (int i = 0; i < 2; ++i) {
      const int row = first + lane_of_thread() / 4 + 8 * i;
      query[i] = row < view.num_rows ? row % view.num_queries : -1;
      max[i] = -INFINITY;
      sum[i] = 0;
    }
    for (auto& group : output)
      for (float& each : group) each = 0;
  }
};

// Of the four lanes of a row, in each of them.
__device__ float max_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 2));
}
__device__ float sum_of_row(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFU, value, 2);
}

// Scores of keys that a row does not see become none.
template <typename S>
__device__ void mask_tile(const TileKeys<S::kKeys>& keys, int first_key, const Rows<S>& rows,
                          float (&s)[S::kGroups][4]) {
#pragma unroll
  for (int n = 0; n < S::kGroups; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int key = first_key + n * 8 + lane_of_thread() % 4 * 2 + j;
      const int from = keys.from[key], to = keys.to[key];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (rows.query[i] < from || rows.query[i] > to) s[n][2 * i + j] = -INFINITY;
    }
}

// Turns scores into 2^(score - new max); what was summed before is brought to that max.
template <typename S>
__device__ void softmax_tile(Rows<S>& rows, float (&s)[S::kGroups][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float max = rows.max[i];
#pragma unroll
    for (const auto& group : s) max = fmaxf(max, fmaxf(group[2 * i], group[2 * i + 1]));
    max = max_of_row(max);
    const float from = max == -INFINITY ? 0.0f : max;  // while the row has seen no key
    const float factor = exp2f(rows.max[i] - from);
    rows.max[i] = max;
    rows.sum[i] *= factor;
#pragma unroll
    for (auto& group : s)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        group[2 * i + j] = exp2f(group[2 * i + j] - from);
        rows.sum[i] += group[2 * i + j];
      }
#pragma unroll
    for (auto& group : rows.output) {
      group[2 * i] *= factor;
      group[2 * i + 1] *= factor;
    }
  }
}

// What the warp found, to where all threads of the block see it.
template <typename S>
__device__ void put_rows(const Rows<S>& rows, int first_row, int part, AttendMemory<S>& memory) {
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = first_row + g + 8 * i;
    const float sum = sum_of_row(rows.sum[i]);
    if (t == 0) {
      memory.max[part][row] = rows.max[i];
      memory.sum[part][row] = sum;
    }
    float* output = memory.found.output[part][row].values;
#pragma unroll
    for (int n = 0; n < S::kDim / 8; ++n)
      for (int j = 0; j < 2; ++j) output[n * 8 + t * 2 + j] = rows.output[n][2 * i + j];
  }
}

// Row `row` of the block's, by a warp.
template <typename S>
__device__ void write_row(const AttendLaunch& launch, int row_of_q, int row,
                          const AttendMemory<S>& memory) {
  float max = -INFINITY, sum = 0, factors[S::kWarpsOfKeys];
#pragma unroll
  for (const auto& of_part : memory.max) max = fmaxf(max, of_part[row]);
#pragma unroll
  for (int part = 0; part < S::kWarpsOfKeys; ++part) {
    factors[part] = max == -INFINITY ? 0.0f : exp2f(memory.max[part][row] - max);
    sum += factors[part] * memory.sum[part][row];
  }
  const RowEnd end = end_of_row(launch, row_of_q, max * kLogOf2, sum);
  const int lane = lane_of_thread();
  if (lane == 0) write_lse(launch, end);
  if (launch.problem.v == nullptr) return;
#pragma unroll
  for (int column = lane; column < S::kDim; column += 32) {
    float output = 0;
#pragma unroll
    for (int part = 0; part < S::kWarpsOfKeys; ++part)
      output += factors[part] * memory.found.output[part][row].values[column];
    write_output<typename S::T>(launch, end, column, output * end.factor);
  }
}

// Output and log-sum-exp of a tile of rows of one view. Grid: (views, row tiles, parts of the keys).
template <typename T, int kDim, int kWarpsOfRows>
__global__ void __launch_bounds__(kThreads, (kBlocksOf<AttendMemory<Shape<T, kDim, kWarpsOfRows>>>))
    attend_half_kernel(AttendLaunch launch) {
  using S = Shape<T, kDim, kWarpsOfRows>;
  auto& memory = block_memory<AttendMemory<S>>();
  Tiles<S>& tiles = memory.tiles;
  const RowAttention& p = launch.problem;
  const KeyView view = view_of(p, static_cast<int>(blockIdx.x));
  const int first = static_cast<int>(blockIdx.y) * S::kRows;
  if (first >= view.num_rows) return;
  const Walk walk = walk_of<S::kKeys>(launch, view, first, S::kRows);
  const int warp = warp_of_thread(), part = warp / kWarpsOfRows;
  const int first_row = warp % kWarpsOfRows * kRowsOfWarp, first_key = part * S::kKeysOfWarp;
  Rows<S> rows(view, first + first_row);
  const bool has_rows = first + first_row < view.num_rows;
  const auto load = [&](Row<T, kDim>(&tile)[S::kKeys], const void* heads, std::int64_t head_stride,
                        const TileKeys<S::kKeys>& keys) {
    load_tile(tile, static_cast<const T*>(heads) + view.kv_head * head_stride, p.head_dim,
              launch.aligned, [&keys](int i) { return keys.source[i]; });
  };

  if (walk.begin < walk.end) {
    load_tile(tiles.q, static_cast<const T*>(p.q), p.head_dim, launch.aligned,
              [&](int i) { return first + i < view.num_rows ? view.first_row + first + i : -1; });
    note_keys(p, view, walk.begin, walk.end, memory.keys[0]);
    __syncthreads();
    load(tiles.k, p.k, p.k_head_stride, memory.keys[0]);
  }
  // V comes while scores are made, the next K while values are added.
  int side = 0;
  for (int begin = walk.begin; begin < walk.end; begin += S::kKeys, side ^= 1) {
    const TileKeys<S::kKeys>&keys = memory.keys[side], &next_keys = memory.keys[side ^ 1];
    __pipeline_wait_prior(0);
    __syncthreads();  // K is there, V no longer read
    if (p.v != nullptr) load(tiles.v, p.v, p.v_head_stride, keys);
    note_keys(p, view, begin + S::kKeys, walk.end, memory.keys[side ^ 1]);
    float s[S::kGroups][4];
    if (has_rows) {
      multiply(&tiles.q[first_row], &tiles.k[first_key], s);
      scale_products(p, s);
      // Of a tile of the past all rows see all keys, where there is no window.
      if (p.window > 0 || begin + S::kKeys > view.past_keys) mask_tile(keys, first_key, rows, s);
      softmax_tile(rows, s);
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // V is there, K no longer read
    if (begin + S::kKeys < walk.end) load(tiles.k, p.k, p.k_head_stride, next_keys);
    if (has_rows && p.v != nullptr) add_products(s, &tiles.v[first_key], rows.output);
  }

  __syncthreads();  // no tile is read any longer
  if (has_rows) put_rows(rows, first_row, part, memory);
  __syncthreads();  // what all warps found is there
  for (int row = warp; row < S::kRows && first + row < view.num_rows; row += kWarps)
    write_row(launch, view.first_row + first + row, row, memory);
}

template <typename T, int kDim, int kWarpsOfRows>
AttendKernel kernel_of() {
  using S = Shape<T, kDim, kWarpsOfRows>;
  const auto start_it = [](const AttendLaunch& launch, int row_tiles, cudaStream_t stream) {
    return start(attend_half_kernel<T, kDim, kWarpsOfRows>,
                 dim3(launch.problem.num_views, row_tiles, launch.parts), kThreads,
                 sizeof(AttendMemory<S>), stream, launch);
  };
  return {S::kRows, kBlocksOf<AttendMemory<S>>, start_it};
}

template <typename T, int kDim>
AttendKernel kernel_for(int rows) {
  return rows <= kRowsOfWarp ? kernel_of<T, kDim, 1>() : kernel_of<T, kDim, kWarps>();
}

template <typename T>
AttendKernel kernel_for(const RowAttention& p) {
  if (p.head_dim <= 64) return kernel_for<T, 64>(p.most_rows);
  if (p.head_dim <= 128) return kernel_for<T, 128>(p.most_rows);
  return kernel_for<T, kMaxHeadDim>(p.most_rows);
}

}  // namespace

AttendKernel half_kernel(const RowAttention& p) {
  return p.type == NumberType::Fp16 ? kernel_for<Half>(p) : kernel_for<BFloat16>(p);
}

}  // namespace kvloupe::cuda
