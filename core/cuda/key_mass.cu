#include "core/cuda/key_mass.cuh"

#include "core/cuda/fp32_tile.cuh"
#include "core/cuda/shared_memory.cuh"

#include <cmath>

namespace kvloupe::cuda {
namespace {

template <int kDim>
struct MassMemory {
  static constexpr int kRows = kGroups * kMostRowsOfThread<kDim>;
  Fp32Row<kDim> q[kRows], k[kKeys];
  float partial[kGroups][kKeys];
};

// Sum of p over all rows, for kKeys keys of one KV head. Grid: (key tiles, KV heads).
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    mass_fp32_kernel(RowAttention p, bool aligned, float* key_mass) {
  using Memory = MassMemory<kDim>;
  constexpr int kRowsOfThread = kMostRowsOfThread<kDim>;
  auto& memory = block_memory<Memory>();
  const int head = static_cast<int>(blockIdx.y), key0 = static_cast<int>(blockIdx.x) * kKeys;
  const int group = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first_row = head * p.most_rows;
  load_tile(memory.k, static_cast<const float*>(p.k) + head * p.k_head_stride, p.head_dim, aligned,
            [&](int i) { return key0 + i < p.kv_len ? key0 + i : -1; });
  float mass[kKeysOfThread] = {};
  const int rows = rows_that_see(p, key0 + kKeys);
  for (int first = 0; first < rows; first += Memory::kRows) {
    __syncthreads();
    load_tile(memory.q, static_cast<const float*>(p.q), p.head_dim, aligned,
              [&](int i) { return first + i < rows ? first_row + first + i : -1; });
    __pipeline_wait_prior(0);
    __syncthreads();
    float s[kRowsOfThread][kKeysOfThread];
    multiply<kDim>(memory.q, memory.k, group, lane, s);
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const int row = first + group + i * kGroups;
      if (row >= rows) continue;
      const float lse = p.lse[first_row + row];
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j)
        if (is_seen(p, key0 + lane + j * kLanes, row % p.chunk_len))
          mass[j] += expf(logit(p, s[i][j]) - lse);
    }
  }
  __pipeline_wait_prior(0);  // where there were no rows
#pragma unroll
  for (int j = 0; j < kKeysOfThread; ++j) memory.partial[group][lane + j * kLanes] = mass[j];
  __syncthreads();
  const int key = static_cast<int>(threadIdx.x);
  if (key >= kKeys || key0 + key >= p.kv_len) return;
  float sum = 0;
  for (const auto& of_group : memory.partial) sum += of_group[key];
  key_mass[static_cast<std::int64_t>(head) * p.kv_len + key0 + key] = sum;
}

template <int kDim>
cudaError_t launch_for(const RowAttention& p, float* key_mass, cudaStream_t stream) {
  const bool aligned =
      is_aligned<float>(p.q, 0, p.head_dim) && is_aligned<float>(p.k, p.k_head_stride, p.head_dim);
  return start(mass_fp32_kernel<kDim>, dim3((p.kv_len + kKeys - 1) / kKeys, p.num_views), kThreads,
               sizeof(MassMemory<kDim>), stream, p, aligned, key_mass);
}

}  // namespace

cudaError_t launch_key_mass(const RowAttention& p, float* key_mass, cudaStream_t stream) {
  if (p.type != NumberType::Fp32) return launch_half_key_mass(p, key_mass, stream);
  if (p.head_dim <= 64) return launch_for<64>(p, key_mass, stream);
  if (p.head_dim <= 128) return launch_for<128>(p, key_mass, stream);
  if (p.head_dim <= kMaxHeadDim) return launch_for<kMaxHeadDim>(p, key_mass, stream);
  return cudaErrorInvalidValue;
}

}  // namespace kvloupe::cuda
