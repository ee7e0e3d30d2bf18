#include "core/cuda/pack_rows.cuh"

#include "core/cuda/rows.cuh"
#include "core/cuda/start.cuh"

namespace kvloupe::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
__device__ float packed_value(const PackRows& p, int set, int row, int channel) {
  if (row >= p.rows_per_set || channel >= p.width()) return 0;
  const bool negative = channel >= p.dim;
  const T* from = static_cast<const T*>(p.from) + set * p.set_stride + row * p.row_stride;
  const float value = widened(from[negative ? channel - p.dim : channel]);
  if (!p.split) return value;
  return negative ? (0 < value ? 0 : value) : (value < 0 ? 0 : value);
}

// Grid: blocks of rows.
template <typename T>
__global__ void __launch_bounds__(kThreads) pack_rows_kernel(PackRows p) {
  const int blocks = row_blocks(p.rows_per_set), floats = padded_width(p.width()) * kRowsOfBlock;
  const int set = blockIdx.x / blocks, first = blockIdx.x % blocks * kRowsOfBlock;
  float* to = p.to + static_cast<std::int64_t>(blockIdx.x) * floats;
  for (int i = threadIdx.x; i < floats; i += kThreads)
    to[i] = packed_value<T>(p, set, first + i % kRowsOfBlock, i / kRowsOfBlock);
}

}  // namespace

cudaError_t launch_pack_rows(const PackRows& p, cudaStream_t stream) {
  if (p.sets < 1 || p.rows_per_set < 1 || p.dim < 1) return cudaErrorInvalidValue;
  return with_number_of(p.type, [&](auto number) {
    return start(pack_rows_kernel<decltype(number)>, dim3(p.sets * row_blocks(p.rows_per_set)),
                 kThreads, 0, stream, p);
  });
}

}  // namespace kvloupe::cuda
