// The forms of row attention put to use: which kernel, into how many parts the keys are cut, and what puts
// the parts together.
#include "core/cuda/row_attention.cuh"

#include "core/cuda/attend.cuh"
#include "core/cuda/row_tile.cuh"

#include <algorithm>
#include <cmath>

namespace kvloupe::cuda {
namespace {

// No part of the keys is made shorter than this.
constexpr int kKeysOfPart = 256;

// Puts the parts of the keys together, a number of the output each thread.
template <typename T>
__global__ void __launch_bounds__(kThreads) combine_kernel(AttendLaunch launch) {
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
  static_cast<T*>(p.output)[at] = number_of<T>(output);
}

int ceil_of(std::int64_t count, std::int64_t size) {
  return static_cast<int>((count + size - 1) / size);
}

AttendKernel kernel_for(const RowAttention& p) {
  return p.type == NumberType::Fp32 ? fp32_kernel(p) : half_kernel(p);
}

// As many as the device has room for at a time.
int num_parts(const RowAttention& p) {
  int device = 0, multiprocessors = 1;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
          cudaSuccess)
    return 1;
  const AttendKernel kernel = kernel_for(p);
  const std::int64_t blocks = std::int64_t{p.num_views} * ceil_of(p.most_rows, kernel.rows);
  const auto room = std::int64_t{multiprocessors} * kernel.blocks_at_a_time / blocks;
  const std::int64_t most = ceil_of(p.most_keys, kKeysOfPart);
  return static_cast<int>(std::clamp<std::int64_t>(room, 1, most));
}

template <typename T>
bool are_rows_aligned(const RowAttention& p) {
  return is_aligned<T>(p.q, 0, p.head_dim) && is_aligned<T>(p.k, p.k_head_stride, p.head_dim) &&
         is_aligned<T>(p.v, p.v_head_stride, p.head_dim);
}

template <typename T>
cudaError_t combine(const AttendLaunch& launch, cudaStream_t stream) {
  const RowAttention& p = launch.problem;
  const std::int64_t columns = p.v != nullptr ? p.head_dim : 1;
  return start(combine_kernel<T>, dim3(ceil_of(p.num_rows * columns, kThreads)), kThreads, 0,
               stream, launch);
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
  AttendLaunch launch;
  launch.problem = p;
  launch.parts = num_parts(p);
  launch.part_outputs = p.scratch;
  launch.part_lses = p.scratch + static_cast<std::int64_t>(launch.parts) * p.num_rows * p.head_dim;
  launch.aligned =
      p.type == NumberType::Fp32 ? are_rows_aligned<float>(p) : are_rows_aligned<std::uint16_t>(p);
  const AttendKernel kernel = kernel_for(p);
  const cudaError_t status = kernel.launch(launch, ceil_of(p.most_rows, kernel.rows), stream);
  if (status != cudaSuccess || launch.parts == 1) return status;
  return with_number_of(p.type,
                        [&](auto number) { return combine<decltype(number)>(launch, stream); });
}

}  // namespace kvloupe::cuda
