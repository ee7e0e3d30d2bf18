// Key mass of fp16 and bf16: products on tensor cores, everything else in fp32.
#include "core/cuda/half_tile.cuh"
#include "core/cuda/key_mass.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cmath>

namespace kvloupe::cuda {
namespace {

template <typename T, int kDim>
struct MassMemory {
  static constexpr int kRows = kRowsOfWarp * kWarps, kKeys = kDim > 128 ? 32 : 64;
  Row<T, kDim> q[kRows], k[kKeys];
  float partial[kWarps][kKeys];
};

// Adds p of the warp's rows from `first` on, of which s has the scores, to the mass of the lane's keys.
template <int kGroups>
__device__ void add_mass(const RowAttention& p, int first_of_head, int first, int key0,
                         const float (&s)[kGroups][4], float (&mass)[kGroups][2]) {
  const int g = lane_of_thread() / 4, t = lane_of_thread() % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = first + g + 8 * i;
    if (row >= p.most_rows) continue;
    const float lse = p.lse[first_of_head + row] * kLog2OfE;
    const int query = row % p.chunk_len;
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (is_seen(p, key0 + n * 8 + t * 2 + j, query)) mass[n][j] += exp2f(s[n][2 * i + j] - lse);
  }
}

// Sum of p over all rows, for kKeys keys of one KV head. Grid: (key tiles, KV heads).
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, (kBlocksOf<MassMemory<T, kDim>>))
    mass_half_kernel(RowAttention p, bool aligned, float* key_mass) {
  using Memory = MassMemory<T, kDim>;
  constexpr int kKeys = Memory::kKeys, kGroups = kKeys / 8;
  auto& memory = block_memory<Memory>();
  const int head = static_cast<int>(blockIdx.y), key0 = static_cast<int>(blockIdx.x) * kKeys;
  const int warp = warp_of_thread(), lane = lane_of_thread();
  const int first_of_head = head * p.most_rows;
  load_tile(memory.k, static_cast<const T*>(p.k) + head * p.k_head_stride, p.head_dim, aligned,
            [&](int i) { return key0 + i < p.kv_len ? key0 + i : -1; });
  float mass[kGroups][2] = {};
  const int rows = rows_that_see(p, key0 + kKeys);
  for (int first = 0; first < rows; first += Memory::kRows) {
    __syncthreads();  // Q is no longer read
    load_tile(memory.q, static_cast<const T*>(p.q), p.head_dim, aligned,
              [&](int i) { return first + i < rows ? first_of_head + first + i : -1; });
    __pipeline_wait_prior(0);
    __syncthreads();
    const int of_warp = warp * kRowsOfWarp;
    if (first + of_warp >= rows) continue;
    float s[kGroups][4];
    multiply(&memory.q[of_warp], memory.k, s);
    scale_products(p, s);
    add_mass(p, first_of_head, first + of_warp, key0, s, mass);
  }
  __pipeline_wait_prior(0);  // where there were no rows
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Of the eight lanes that have rows of the same keys.
      float sum = mass[n][j];
      for (int other = 4; other < 32; other *= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, other);
      if (lane < 4) memory.partial[warp][n * 8 + lane * 2 + j] = sum;
    }
  __syncthreads();
  const int key = static_cast<int>(threadIdx.x);
  if (key >= kKeys || key0 + key >= p.kv_len) return;
  float sum = 0;
  for (const auto& of_warp : memory.partial) sum += of_warp[key];
  key_mass[static_cast<std::int64_t>(head) * p.kv_len + key0 + key] = sum;
}

template <typename T, int kDim>
cudaError_t launch_for(const RowAttention& p, float* key_mass, cudaStream_t stream) {
  using Memory = MassMemory<T, kDim>;
  const bool aligned =
      is_aligned<T>(p.q, 0, p.head_dim) && is_aligned<T>(p.k, p.k_head_stride, p.head_dim);
  return start(mass_half_kernel<T, kDim>,
               dim3((p.kv_len + Memory::kKeys - 1) / Memory::kKeys, p.num_views), kThreads,
               sizeof(Memory), stream, p, aligned, key_mass);
}

template <typename T>
cudaError_t launch_for(const RowAttention& p, float* key_mass, cudaStream_t stream) {
  if (p.head_dim <= 64) return launch_for<T, 64>(p, key_mass, stream);
  if (p.head_dim <= 128) return launch_for<T, 128>(p, key_mass, stream);
  if (p.head_dim <= kMaxHeadDim) return launch_for<T, kMaxHeadDim>(p, key_mass, stream);
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_half_key_mass(const RowAttention& p, float* key_mass, cudaStream_t stream) {
  return p.type == NumberType::Fp16 ? launch_for<Half>(p, key_mass, stream)
                                    : launch_for<BFloat16>(p, key_mass, stream);
}

}  // namespace kvloupe::cuda
